"""The quick-start in a real browser, and a model that means harm."""

from __future__ import annotations

import re
from typing import Any

import nbformat
from playwright.sync_api import Locator, Request, expect

from tests.fake_anthropic import FakeAnthropic, Hold, call, reply
from tests.ipython.hostile import HOSTILE, ONERROR, SCRIPT
from tests.notebooks import ROOT

from .conftest import PageFor
from .notebook_page import NotebookPage
from .server import LabServer

QUICK_START = ROOT / "notebooks" / "01_first_turn.ipynb"
TURN_MS = 120_000
"""Longest turn: far more than any here needs."""

FOUND_ACTIVE = """area => [...area.querySelectorAll('*:not(.jp-Stdin-input)')].flatMap(node => {
  const active = ['SCRIPT', 'IFRAME', 'OBJECT', 'EMBED', 'FORM', 'INPUT', 'LINK', 'BASE', 'META',
    'IMG', 'VIDEO', 'AUDIO', 'DETAILS'];
  const found = active.includes(node.tagName.toUpperCase()) ? [node.outerHTML] : [];
  for (const { name, value } of node.attributes) {
    const isLink = ['href', 'src', 'xlink:href', 'action', 'formaction'].includes(name);
    if (name.startsWith('on') || (isLink && !/^(https?:|mailto:|#)/.test(value))) {
      found.push(node.outerHTML);
    }
  }
  return found;
})"""
"""What could act in an output, as HTML: elements that load or run, handlers, links elsewhere.

JupyterLab's own field for the answer to a question does not count.
"""


def connected(server: FakeAnthropic, permissions: str) -> str:
    """Return a cell that loads the extension with this server behind it."""
    return (
        "import os\n"
        f"os.environ['ANTHROPIC_BASE_URL'] = {server.url!r}\n"
        "os.environ['ANTHROPIC_API_KEY'] = 'sk-ant-test-0123456789'\n"
        f"os.environ['JUPYTER_CTX_PERMISSIONS'] = {permissions!r}\n"
        "%load_ext jupyter_ctx"
    )


def quick_start(lab: LabServer, name: str) -> tuple[str, dict[str, int]]:
    """Put the quick-start, without its outputs, before the server; return path and code cells."""
    notebook = nbformat.read(QUICK_START, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, lab.root_dir / name)
    code = {cell.id: at for at, cell in enumerate(notebook.cells) if cell.cell_type == "code"}
    return name, code


def gauge(page: NotebookPage) -> Locator:
    return page.page.locator(".jctx-gauge-text:visible")


def question(page: NotebookPage) -> Locator:
    return page.page.locator(".jp-Stdin-input")


def test_the_quick_start_runs_as_a_reader_runs_it(lab: LabServer, page_for: PageFor) -> None:
    """One question, answered `always`; then every cell does what the text beside it says."""
    path, cells = quick_start(lab, "first_turn.ipynb")
    page = page_for(path)
    page.run_cell(cells["load"])
    expect(gauge(page)).to_have_text("Agent: no turn yet")
    page.run_cell(cells["data"])

    page.start_cell(cells["ask"])
    expect(question(page)).to_be_visible(timeout=TURN_MS)
    asked = page.output_area(cells["ask"])
    expect(asked).to_contain_text("Demo model: no key is set.")
    expect(asked).to_contain_text("for _name in sorted(set(globals())")
    expect(asked).to_contain_text("del _name")
    page.answer_input("a")
    page.wait_idle()

    expect(asked).to_contain_text("The kernel holds 2 variables: days (list), sales (list).")
    expect(gauge(page)).to_have_text(re.compile(r"^[34](\.\d)?k of 9\.1k · 4\d %"))
    page.run_cell(cells["fails"])
    page.run_cell(cells["why"])
    expect(page.output_area(cells["why"])).to_contain_text("raised by this cell:")
    expect(gauge(page)).to_have_text(re.compile(r"^[45](\.\d)?k of 9\.1k · [45]\d %"))
    for name in list(cells)[list(cells).index("large") :]:
        page.run_cell(cells[name])
    assert question(page).count() == 0

    expect(page.output_area(cells["large"])).to_contain_text("Result stored: 1,000 lines")
    expect(page.output_area(cells["rules"])).to_contain_text(
        re.compile(r"Compacted: [78],\d+ → [456],")
    )
    expect(page.output_area(cells["summary"]).get_by_role("heading", name="Task")).to_be_visible()
    expect(page.output_area(cells["cost"]).get_by_role("table").first).to_be_visible()
    mimes = {mime for at in cells.values() for mime in published(page, at)}
    assert mimes <= {
        "text/plain",
        "text/markdown",
        "application/vnd.jupyter-ctx.context+json",
        "application/vnd.jupyter-ctx.summary+json",
    }


def published(page: NotebookPage, index: int) -> set[str]:
    """Return the MIME types below a cell."""
    return {mime for output in page.cell_outputs(index) for mime in output.get("data", {})}


def test_the_gauge_moves_while_a_turn_runs(lab: LabServer, page_for: PageFor) -> None:
    """Between two steps it stands higher than before them, while the cell still runs."""
    big = call("run_code", code="print('row of numbers ' * 1_500)")
    with FakeAnthropic([reply("Hi."), big, reply("Half", Hold("mid"), " done.")]) as server:
        cells = [connected(server, "auto"), "%agent Hello", "%agent Print much"]
        page = page_for(lab.write_notebook("moves.ipynb", cells))
        page.run_cell(0)
        page.run_cell(1)
        before = used(page)

        page.start_cell(2)
        server.wait_held("mid", 60)
        expect(page.output_area(2)).to_contain_text("Half")
        expect(gauge(page)).not_to_have_text(before)
        assert thousands(used(page)) > thousands(before) + 2

        server.release("mid")
        page.wait_idle()
        expect(page.output_area(2)).to_contain_text("Half done.")
        assert server.refused == []


def used(page: NotebookPage) -> str:
    """Return what the gauge says, once it has a figure."""
    expect(gauge(page)).to_have_text(re.compile(r"\dk of 1M"))
    return gauge(page).inner_text()


def thousands(said: str) -> float:
    """Return the thousands of tokens in "≈ 11.2k of 200k · 6 %"."""
    found = re.search(r"([\d.]+)k of", said)
    assert found is not None, said
    return float(found[1])


def test_hostile_model_text_is_inert(lab: LabServer, page_for: PageFor) -> None:
    """No script, handler, foreign link, image or frame of a model's text acts or even stands there.

    So in the cell that was just run, which JupyterLab trusts, and after the page is loaded anew;
    the same for code that is asked about, and for a denial's reason.
    """
    evil = f"x = 1  # ```\n# {SCRIPT}\n'''\n```\n{ONERROR}\n'''"
    asked_for: list[str] = []
    first, second = HOSTILE[: len(HOSTILE) // 2], HOSTILE[len(HOSTILE) // 2 :]
    with FakeAnthropic(
        [
            reply(*first),
            reply(*second),
            call("run_code", code=evil),
            f"Denied, then. {ONERROR}",
        ]
    ) as server:
        prompts = ["%agent Do harm", "%agent Do more", "%agent Ask for harm"]
        page = page_for(lab.write_notebook("hostile.ipynb", [connected(server, "ask"), *prompts]))
        page.page.on("request", lambda request: note(asked_for, request))
        for index in (0, 1, 2):
            page.run_cell(index)
        page.start_cell(3)
        expect(question(page)).to_be_visible(timeout=TURN_MS)
        assert active(page, 3) == []
        expect(page.output_area(3)).to_contain_text(SCRIPT)
        page.answer_input(f"n {ONERROR}")
        page.wait_idle()

        expect(page.output_area(3)).to_contain_text("Denied, then.")
        inspect(page)
        page.command("docmanager:save")
        page.reload()
        inspect(page)
        assert server.refused == []
    assert asked_for == []


def note(asked_for: list[str], request: Request) -> None:
    if "attacker.invalid" in request.url:
        asked_for.append(request.url)


def active(page: NotebookPage, index: int) -> list[str]:
    """Return what could act below a cell."""
    area = page.output_area(index).first
    expect(area).to_be_visible()
    found: list[str] = area.evaluate(FOUND_ACTIVE)
    return found


def inspect(page: NotebookPage) -> None:
    """Assert that the hostile texts stand there, as text only, and that nothing has run."""
    for index in (1, 2):
        expect(page.output_area(index).first).to_contain_text(SCRIPT)
        expect(page.output_area(index).first).to_contain_text(ONERROR)
    expect(page.output_area(2).first.locator("mjx-container").first).to_be_attached()
    assert [active(page, index) for index in (1, 2, 3)] == [[], [], []]
    state: dict[str, Any] = page.page.evaluate(
        "() => ({ pwned: window.pwned, at: location.pathname,"
        " bases: document.querySelectorAll('base').length })"
    )
    assert state.get("pwned") is None
    assert state["bases"] == 0
    assert state["at"].endswith("hostile.ipynb")
