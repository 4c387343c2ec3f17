"""Changes of cells whose text or number is hostile, drawn in a real JupyterLab's notebook."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from jupyter_ctx.panel.questions import MOST_COMING
from tests.fake_anthropic import FakeAnthropic, call, reply

from .conftest import PageFor
from .panel_page import TURN_MS
from .server import LabServer
from .test_cells import ids, results, source
from .test_diffs import asked, button, group, write

SCRIPT = "window.pwned = 1"
HOSTILE = (
    f"'</div><script>{SCRIPT}</script><img src=https://attacker.invalid/x onerror=\"{SCRIPT}\">'\n"
    f"'[x](javascript:{SCRIPT}) ![](https://attacker.invalid/y)'\n"
    "access = 'user\u202e # if admin\u2066'\n"
    "a\u200bb\u00a0= 1\u2028x\n"
    "w = '" + "W" * 1_500 + "'"
)
MANY = MOST_COMING + 20


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused, and the whole script must be used."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []
        assert not fake.unused


@pytest.mark.parametrize("kind", ["insert", "delete"])
def test_hostile_sources_are_text(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic, kind: str
) -> None:
    """Markup does nothing, what deceives shows its code, and no word is wider than its cell."""
    page = page_for(write(lab, f"hostile_{kind}.ipynb", server, ("a", HOSTILE), ("b", "y = 1")))
    loaded: list[str] = []
    page.page.on("request", lambda request: loaded.append(request.url))
    if kind == "insert":
        panel = asked(page, server, call("insert_cell", source=HOSTILE, after="b"))
    else:
        panel = asked(page, server, call("delete_cell", cell_id="a"), read="a")
    proposed = page.page.locator(".jctx-proposal [role=group]")
    expect(proposed).to_contain_text("onerror", timeout=TURN_MS)
    expect(proposed.locator(".cm-specialChar")).to_have_count(5)
    expect(proposed.locator("script, a, iframe, [src], [href], [onerror]")).to_have_count(0)
    assert proposed.evaluate("node => node.scrollWidth <= node.clientWidth")
    button(proposed, "Accept").click()
    panel.wait_done()
    if kind == "insert":
        assert source(page, ids(page)[-1]) == HOSTILE
    else:
        assert ids(page) == ["load", "b"], results(server)[-1]
    assert [url for url in loaded if "attacker" in url] == []
    assert page.page.evaluate("() => window.pwned") is None


def test_many_deletions_are_rejected_together(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """So many as one question tells are drawn and answered; those behind them come after."""
    cells = [(f"c{n}", f"x = {n}") for n in range(MANY)]
    server.append(reply(*(call("read_cell", cell_id=cell_id) for cell_id, _ in cells)))
    page = page_for(write(lab, "many.ipynb", server, *cells))
    drops = [call("delete_cell", cell_id=cell_id) for cell_id, _ in cells]
    panel = asked(page, server, *drops)
    bar = page.page.get_by_role("toolbar", name="Proposed changes")
    expect(bar).to_contain_text(f"{MOST_COMING + 1} proposed changes", timeout=TURN_MS)
    button(group(page, "Proposed deletion").first, "Reject")
    left = MANY
    while left > 1:
        every = bar.get_by_role("button", name="Reject all")
        expect(every).to_have_attribute("aria-disabled", "false", timeout=TURN_MS)
        left -= int((bar.locator("b").text_content() or "").split()[0])
        every.click()
        if left > 1:
            expect(bar).to_contain_text(f"{left} proposed changes", timeout=TURN_MS)
    panel.wait_done()
    expect(bar).to_be_hidden()
    assert len(ids(page)) == MANY + 1
