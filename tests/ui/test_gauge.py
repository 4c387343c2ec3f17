"""The gauge in JupyterLab's status bar, fed by a kernel that speaks the protocol by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, expect

from .conftest import PageFor
from .notebook_page import NotebookPage
from .server import LabServer

WIRE = Path(__file__).parents[1] / "fixtures" / "wire"

SPEAKER = '''
import json, pathlib, time
import comm

comms, last = [], []

def say(text):
    """Send these messages on every comm, and again on each that opens later."""
    last[:] = json.loads(text)
    for each in comms:
        for message in last:
            each.send(message)

def answer(opened_comm, message):
    comms.append(opened_comm)
    for each in last:
        opened_comm.send(each)

comm.get_comm_manager().register_target("jupyter_ctx", answer)
comms.append(comm.create_comm(target_name="jupyter_ctx"))
'''


def wire(*names: str) -> str:
    """Return a cell that says the messages of these fixtures."""
    messages = [json.loads((WIRE / f"{name}.json").read_text()) for name in names]
    return f"say({json.dumps(messages)!r})"


def gauge(page: NotebookPage) -> Locator:
    return page.page.locator(".jctx-gauge:visible")


def text(page: NotebookPage) -> Locator:
    return page.page.locator(".jctx-gauge-text:visible")


def box(locator: Locator) -> dict[str, Any]:
    found = locator.bounding_box()
    assert found is not None
    return {"x": found["x"], "width": found["width"]}


def speak(page: NotebookPage, cell: int, *names: str) -> None:
    """Put the messages of these fixtures into cell `cell` and run it."""
    page.set_source(cell, wire(*names))
    assert page.run_cell(cell) == []


def test_a_notebook_without_the_extension_shows_nothing(lab: LabServer, page_for: PageFor) -> None:
    """Where no kernel speaks, there is no gauge, and the kernel's log has no complaint of ours."""
    page = page_for(lab.write_notebook("plain.ipynb", ["6 * 7"]))

    assert page.run_cell(0)[0]["data"]["text/plain"] == "42"

    assert gauge(page).count() == 0
    assert "No such comm" not in lab.log.read_text()


def test_the_gauge_follows_the_kernel_and_keeps_its_place(
    lab: LabServer, page_for: PageFor
) -> None:
    """Each message changes the line, and neither the bar nor the text moves by a pixel."""
    page = page_for(lab.write_notebook("live.ipynb", [SPEAKER, "", "", "", "", ""]))
    page.run_cell(0)

    speak(page, 1, "hello_before_first_turn", "context_before_first_turn")
    expect(text(page)).to_have_text("Agent: no turn yet")
    speak(page, 2, "context_estimate")
    expect(text(page)).to_have_text("≈ 11.2k of 200k · 6 %")
    place = box(gauge(page)), box(page.page.locator(".jctx-status .jctx-bar.mini"))
    speak(page, 3, "context_measured")
    expect(text(page)).to_have_text("81.9k of 200k · 41 % · ≈ 9 steps")
    expect(gauge(page)).to_have_attribute(
        "aria-label",
        "Context: 81,930 of 200,000 tokens, 41 per cent. "
        "About 9 steps until compaction. Open breakdown",
    )
    assert (box(gauge(page)), box(page.page.locator(".jctx-status .jctx-bar.mini"))) == place
    speak(page, 4, "context_compacting")
    expect(text(page)).to_have_text("Compacting · 79 %")
    assert (box(gauge(page)), box(page.page.locator(".jctx-status .jctx-bar.mini"))) == place
    speak(page, 5, "context_paused")
    expect(text(page)).to_have_text("96 % · compaction paused")
    expect(page.page.locator(".jctx-status .jctx-warn")).to_be_visible()
    assert (box(gauge(page)), box(page.page.locator(".jctx-status .jctx-bar.mini"))) == place


def test_an_unknown_window_has_neither_bar_nor_per_cent(lab: LabServer, page_for: PageFor) -> None:
    """A window whose size nobody knows is said to be unknown, never guessed."""
    page = page_for(lab.write_notebook("unknown.ipynb", [SPEAKER, ""]))
    page.run_cell(0)

    speak(page, 1, "hello", "context_window_unknown")

    expect(text(page)).to_have_text("81.9k tokens, window unknown")
    assert page.page.locator(".jctx-status .jctx-bar").count() == 0


def test_a_click_opens_the_breakdown_and_escape_closes_it(
    lab: LabServer, page_for: PageFor
) -> None:
    """Every part stands there in request order; Escape gives the focus back to the gauge."""
    page = page_for(lab.write_notebook("breakdown.ipynb", [SPEAKER, "", ""]))
    page.run_cell(0)
    speak(page, 1, "hello", "context_measured")

    gauge(page).click()
    dialog = page.page.get_by_role("dialog", name="Context")
    expect(dialog).to_be_focused()
    expect(gauge(page)).to_have_attribute("aria-expanded", "true")
    expect(dialog).to_contain_text("81,290 measured, 640 estimated since")
    expect(dialog).to_contain_text("compacts at 160,000")
    expect(dialog).to_contain_text("Compacts in ≈ 9 steps")
    expect(dialog).to_contain_text("92.3 % of input read from cache")
    rows = dialog.locator("table.parts tbody tr").all_inner_texts()
    assert [" ".join(row.split()) for row in rows] == [
        "System 3,214 1.6 %",
        "Tools 6,870 3.4 %",
        "Summary 1,842 0.9 %",
        "Re-injected 11,406 5.7 %",
        "Notebook 4,318 2.2 %",
        "Conversation 21,960 11.0 %",
        "Results 32,320 16.2 %",
        "Free until compaction 78,070 39.0 %",
        "Reserve for the answer 40,000 20.0 %",
    ]
    page.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(gauge(page)).to_be_focused()

    gauge(page).press("Enter")
    speak(page, 2, "context_paused")
    expect(dialog).to_contain_text("free the largest part: Results, 101,916 tokens")
    page.page.locator(".jp-NotebookPanel-toolbar").click(position={"x": 2, "y": 2})
    expect(dialog).to_have_count(0)


def test_a_restarted_kernel_has_no_gauge_until_it_speaks_again(
    lab: LabServer, page_for: PageFor
) -> None:
    """A restart takes the gauge away; loading the extension anew brings it back."""
    page = page_for(lab.write_notebook("restart.ipynb", [SPEAKER, wire("hello", "context_manual")]))
    page.run_cell(0)
    page.run_cell(1)
    expect(text(page)).to_have_text("81.9k of 200k · 41 %")

    page.restart_kernel()
    expect(gauge(page)).to_have_count(0)

    page.run_cell(0)
    page.run_cell(1)
    expect(text(page)).to_have_text("81.9k of 200k · 41 %")


def test_a_reloaded_page_finds_the_gauge_again_while_a_cell_runs(
    lab: LabServer, page_for: PageFor
) -> None:
    """The cell ends only after the gauge came back, so the page must not wait for the cell."""
    talk_until_seen = """
text = json.dumps(last)
while not pathlib.Path("seen").exists():
    say(text)
    time.sleep(0.2)
"""
    page = page_for(
        lab.write_notebook(
            "reload.ipynb", [SPEAKER, wire("hello", "context_measured"), talk_until_seen]
        )
    )
    page.run_cell(0)
    page.run_cell(1)
    page.command("docmanager:save")
    page.start_cell(2)

    page.reload()
    expect(text(page)).to_have_text("81.9k of 200k · 41 % · ≈ 9 steps", timeout=60_000)

    (lab.root_dir / "seen").touch()
    page.wait_idle()


def test_a_reloaded_page_is_told_the_present_state(lab: LabServer, page_for: PageFor) -> None:
    """Nothing changes in the kernel after the reload, yet the gauge stands there again."""
    page = page_for(
        lab.write_notebook("idle.ipynb", [SPEAKER, wire("hello", "context_small_window")])
    )
    page.run_cell(0)
    page.run_cell(1)

    page.reload()

    expect(text(page)).to_have_text("5.2k of 16.4k · 32 % · ≈ 1 step")


def test_the_gauge_belongs_to_the_notebook_in_front(lab: LabServer, page_for: PageFor) -> None:
    """Two notebooks show their own kernel's figures, a third without the extension none."""
    names = [
        lab.write_notebook("one.ipynb", [SPEAKER, wire("hello", "context_measured")]),
        lab.write_notebook("two.ipynb", [SPEAKER, wire("hello", "context_small_window")]),
        lab.write_notebook("three.ipynb", ["1"]),
    ]
    page = page_for(names[0])
    page.run_cell(0)
    page.run_cell(1)
    expect(text(page)).to_have_text("81.9k of 200k · 41 % · ≈ 9 steps")

    page.open(names[2])
    expect(gauge(page)).to_have_count(0)
    page.open(names[1])
    page.run_cell(0)
    page.run_cell(1)
    expect(text(page)).to_have_text("5.2k of 16.4k · 32 % · ≈ 1 step")
    page.open(names[0])
    expect(text(page)).to_have_text("81.9k of 200k · 41 % · ≈ 9 steps")

    page.command("application:close")
    page.wait_idle()
    page.open(names[0])
    expect(text(page)).to_have_text("81.9k of 200k · 41 % · ≈ 9 steps")


def test_an_unknown_version_is_refused_with_a_sentence(lab: LabServer, page_for: PageFor) -> None:
    """A newer protocol is not half understood: the gauge says so, and what to do."""
    page = page_for(lab.write_notebook("future.ipynb", [SPEAKER, ""]))
    page.run_cell(0)

    speak(page, 1, "refused/future_version")

    expect(text(page)).to_have_text("Agent: other version")
    gauge(page).click()
    expect(page.page.get_by_role("dialog")).to_contain_text(
        "The kernel speaks protocol 2, this page speaks 1. Install one version of jupyter-ctx"
    )


def test_a_setting_makes_the_gauge_a_number_or_hides_it(lab: LabServer, page_for: PageFor) -> None:
    """`number` draws no bar, `hidden` nothing at all."""
    path = lab.write_notebook("setting.ipynb", [SPEAKER, wire("hello", "context_measured")])
    settings = lab.write_settings("jupyter-ctx:plugin", '{"gauge": "number"}')
    try:
        page = page_for(path)
        page.run_cell(0)
        page.run_cell(1)
        expect(text(page)).to_have_text("81.9k of 200k · 41 % · ≈ 9 steps")
        assert page.page.locator(".jctx-status .jctx-bar").count() == 0

        settings.write_text('{"gauge": "hidden"}')
        page.reload()
        page.wait_idle()
        expect(gauge(page)).to_have_count(0)
    finally:
        settings.unlink()


def test_the_settings_editor_offers_what_the_gauge_can_be(
    lab: LabServer, page_for: PageFor
) -> None:
    """The choices stand in JupyterLab's settings editor, and one that is made takes effect."""
    path = lab.write_notebook("editor.ipynb", [SPEAKER, wire("hello", "context_measured")])
    settings = lab.write_settings("jupyter-ctx:plugin", "{}")
    try:
        page = page_for(path)
        page.run_cell(0)
        page.run_cell(1)
        expect(page.page.locator(".jctx-status .jctx-bar")).to_have_count(1)

        page.command("settingeditor:open", query="Agent")
        form = page.page.locator("[id='jp-SettingsEditor-jupyter-ctx:plugin']")
        choice = form.locator("select[id$='_gauge']")
        expect(choice.locator("option")).to_have_text(["Bar and number", "Number only", "Nothing"])
        choice.select_option(label="Number only")
        page.open(path)
        expect(text(page)).to_have_text("81.9k of 200k · 41 % · ≈ 9 steps")
        expect(page.page.locator(".jctx-status .jctx-bar")).to_have_count(0)
    finally:
        settings.unlink()
