"""The list of sessions in a real JupyterLab: searched, gone on with, deleted, taken back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.fake_anthropic import FakeAnthropic

from .conftest import PageFor
from .panel_page import TURN_MS, Panel
from .server import LabServer
from .test_panel import opened

HOSTILE = "<img src=x onerror=alert(1)> \u202edrawkcab"


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []


def ask_anew(panel: Panel, server: FakeAnthropic, prompt: str, answer: str) -> None:
    """Begin another session and ask one thing in it."""
    panel.root.get_by_role("button", name="New session", exact=True).click()
    expect(panel.log.get_by_role("article", name="Turn 1", exact=True)).to_have_count(0)
    server.append(answer)
    panel.ask(prompt)
    expect(panel.turn(1)).to_contain_text(answer, timeout=TURN_MS)
    panel.wait_done()


def test_sessions_are_found_resumed_deleted_and_taken_back(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """A person finds an old session by its words, goes on with it, and deletes another, undone."""
    page, panel = opened(lab, page_for, server, "sessions.ipynb")
    server.append("It keeps every row.")
    panel.ask("Why a left join?")
    panel.wait_done()
    ask_anew(panel, server, HOSTILE, "No.")
    ask_anew(panel, server, "Plot churn", "Drawn.")
    panel.prompt.fill("a draft")
    rows = panel.root.get_by_role("option")
    field = panel.root.get_by_role("combobox", name="Search sessions")

    panel.root.locator(".jctx-head button.title").click()
    expect(field).to_be_focused()
    expect(panel.root.get_by_role("heading", name="Sessions")).to_be_visible()
    expect(panel.prompt).to_be_hidden()
    expect(rows.filter(has_text="Plot churn")).to_have_attribute("aria-current", "true")
    expect(rows.filter(has_text="<img src=x onerror=alert(1)>")).to_have_count(1)
    assert panel.root.locator(".jctx-shelf img").count() == 0
    field.fill("join LEFT")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Why a left join?")
    expect(panel.root.locator(".jctx-ses mark")).to_have_text("left join")
    field.press("Enter")
    expect(panel.turn(1)).to_contain_text("It keeps every row.", timeout=TURN_MS)
    expect(panel.prompt).to_have_value("a draft")
    expect(panel.prompt).to_be_focused()

    page.command("jupyter-ctx:show-sessions")
    expect(field).to_be_focused()
    other = rows.filter(has_text="Plot churn")
    row = rows.filter(has_text="onerror")
    expect(row).to_have_count(1)
    for _ in range(rows.count()):
        if row.get_attribute("aria-selected") != "true":
            page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Delete")
    expect(row).to_contain_text("deleted")
    expect(row.locator("s")).to_be_visible()
    row.get_by_text("Undo", exact=True).click()
    expect(row).not_to_contain_text("deleted")
    other.hover()
    other.locator("[title=Delete]").click()
    expect(other).to_contain_text("deleted")
    page.page.keyboard.press("Escape")
    expect(panel.turn(1)).to_contain_text("It keeps every row.")
    names = sorted(path.name for path in (lab.home_dir / "trash").iterdir())
    assert len(names) == 1
    server.append("Still a left join.")
    panel.ask("Go on")
    panel.wait_done()
    expect(panel.turn(2)).to_contain_text("Still a left join.")


def test_a_session_of_another_kernel_is_asked_about(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Nothing is opened before the person says that it goes on as a copy; then that is shown."""
    _, first = opened(lab, page_for, server, "held.ipynb")
    server.append("It keeps every row.")
    first.ask("Why a left join?")
    first.wait_done()
    page, panel = opened(lab, page_for, server, "asking.ipynb")

    page.command("jupyter-ctx:show-sessions")
    row = panel.root.get_by_role("option").filter(has_text="Why a left join?")
    expect(row).to_contain_text("in another kernel")
    row.click()
    dialog = panel.root.get_by_role("alertdialog")
    expect(dialog).to_contain_text("Another kernel has been using “Why a left join?”")
    dialog.get_by_role("button", name="Back").click()
    expect(dialog).to_be_hidden()
    row.click()
    dialog.get_by_role("button", name="Continue in a copy").click()
    expect(panel.turn(1)).to_contain_text("It keeps every row.", timeout=TURN_MS)
    expect(first.turn(1)).to_contain_text("It keeps every row.")
