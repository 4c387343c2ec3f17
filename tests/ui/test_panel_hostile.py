"""The panel in a real JupyterLab where pages, kernels and outputs misbehave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.fake_anthropic import FakeAnthropic, Hold, call, reply

from .conftest import PageFor
from .panel_page import TURN_MS
from .server import LabServer
from .test_panel import opened
from .test_panel_lab import FIND

SCRIPT = "window.pwned = 1"
OUTPUTS = f"""
svg = ('<svg xmlns="http://www.w3.org/2000/svg" onload="{SCRIPT}" width="9" height="9">'
       '<script>{SCRIPT}</script><a href="javascript:{SCRIPT}"><text>x</text></a></svg>')
bundles = [
    {{'image/svg+xml': svg}},
    {{'application/javascript': '{SCRIPT}'}},
    {{'text/html': '<script>{SCRIPT}</script><img src=x onerror="{SCRIPT}"><b>bold</b>'}},
    {{'text/html': '<div class="jctx-ask"><button>Allow once</button></div>'}},
    {{'text/latex': '$\\\\href{{javascript:{SCRIPT}}}{{x}}$'}},
    {{'application/vnd.jupyter.widget-view+json': {{'model_id': '<img src=x onerror={SCRIPT}>'}}}},
    {{'application/x-<img src=x onerror={SCRIPT}>': '1'}},
]
for bundle in bundles:
    display({{**bundle, 'text/plain': 'plain'}}, raw=True)
print('\\x1b]8;;javascript:{SCRIPT}\\x07link\\x1b]8;;\\x07', '<script>{SCRIPT}</script>')
"""


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []


def test_no_output_of_any_type_acts(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Scripts, drawings, widgets and made-up types in outputs, and hostile names, are inert."""
    name = "<img src=x onerror=alert(1)> `x` $&.ipynb"
    page, panel = opened(lab, page_for, server, name)
    server.append(reply("Now.", call("run_code", code=OUTPUTS)), "Done.")
    panel.ask("<img src=x onerror='window.pwned=1'>")
    panel.wait_done()
    panel.open_rows(1)
    expect(panel.turn(1).locator(".jctx-outputs").first).to_contain_text("bold", timeout=TURN_MS)

    assert page.page.evaluate("() => window.pwned") is None
    assert panel.root.evaluate(FIND) == []
    assert panel.root.locator(".jctx-outputs .jctx-ask").count() == 0


def test_two_fast_clicks_on_stop_stop_one_turn(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """The prompt that waited runs next, and goes on."""
    _, panel = opened(lab, page_for, server, "double_click.ipynb")
    server.append(reply("First.", Hold("never")), "Second.")
    panel.ask("one")
    expect(panel.turn(1)).to_contain_text("First.", timeout=TURN_MS)
    panel.ask("two")
    panel.stop_button.dblclick()

    expect(panel.turn(2)).to_contain_text("Second.", timeout=TURN_MS)
    panel.wait_done()
    expect(panel.turn(1)).to_contain_text("Stopped")
    server.release("never")


def test_a_kernel_that_dies_in_mid_turn(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """The turn is shown as cut off, and the next prompt runs in the kernel that comes after."""
    page, panel = opened(lab, page_for, server, "dies.ipynb")
    server.append(reply("I end it.", call("run_code", code="import os; os._exit(1)")))
    panel.ask("End it")
    expect(panel.stop_button).to_be_disabled(timeout=TURN_MS)
    page.page.get_by_role("dialog").get_by_role("button", name="Ok").click(timeout=TURN_MS)
    page.run_cell(0)
    expect(panel.prompt).to_be_enabled(timeout=TURN_MS)
    expect(panel.turn(1)).to_contain_text("I end it.", timeout=TURN_MS)
    server.append("Still here.")
    panel.ask("Are you there?")
    panel.wait_done()
    expect(panel.turn(2)).to_contain_text("Still here.")
