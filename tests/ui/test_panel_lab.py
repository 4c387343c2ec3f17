"""The panel as a part of JupyterLab and Notebook: loading, commands, menus, drops, settings."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.fake_anthropic import FakeAnthropic, Hold, reply
from tests.ipython.hostile import HOSTILE

from .conftest import PageFor
from .notebook_page import NotebookPage
from .panel_page import TURN_MS, Panel
from .server import LabServer
from .test_first_turn import connected
from .test_panel import opened

NO_PACKAGE = """
import sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name == 'jupyter_ctx':
            raise ModuleNotFoundError("No module named 'jupyter_ctx'", name=name)
sys.meta_path.insert(0, Gone())
"""
OTHER_LANGUAGE = """
from ipykernel.ipkernel import IPythonKernel
IPythonKernel.language_info = {'name': 'forth', 'file_extension': '.fs'}
"""
LAUNCH = "from ipykernel.kernelapp import launch_new_instance; launch_new_instance()"

FIND = """root => [...root.querySelectorAll('*')].flatMap(node => {
  const tags = ['SCRIPT', 'IFRAME', 'OBJECT', 'EMBED', 'FORM', 'LINK', 'BASE', 'META', 'STYLE',
    'VIDEO', 'AUDIO'];
  const isFar = node instanceof HTMLImageElement && new URL(node.src).origin !== location.origin;
  const isActive = isFar || tags.includes(node.tagName.toUpperCase());
  const bad = isActive ? [node.outerHTML.slice(0, 200)] : [];
  for (const { name, value } of node.attributes) {
    const isLink = ['href', 'src', 'xlink:href', 'action', 'formaction'].includes(name);
    const isBad = /^\\s*(javascript|vbscript|data|file):|^\\/\\//i.test(value);
    if (name.startsWith('on') || name.startsWith('data-commandlinker') || (isLink && isBad)) {
      bad.push(node.outerHTML.slice(0, 200));
    }
  }
  return bad;
})"""
"""What could act, as HTML: elements that load or run, handlers, links of other schemes."""


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []


def write_kernel(lab: LabServer, name: str, prelude: str, language: str = "python") -> None:
    """Put a kernel before the server that runs `prelude` first."""
    folder = lab.settings_dir.parent / "data" / "kernels" / name
    folder.mkdir(parents=True)
    argv = [sys.executable, "-c", prelude + LAUNCH, "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": name, "language": language}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")


def write_with_kernel(lab: LabServer, name: str, kernel: str) -> str:
    """Write a notebook of one empty cell for that kernel."""
    metadata = {"kernelspec": {"name": kernel, "display_name": kernel}}
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("print('ran')")], metadata=metadata
    )
    nbformat.write(notebook, lab.root_dir / name)
    return name


def fault(page: NotebookPage) -> Locator:
    """Return what stands in place of the conversation."""
    return page.page.locator(".jctx-side .jctx-log:visible")


def test_a_kernel_without_the_package_is_told_what_to_install(
    lab: LabServer, page_for: PageFor
) -> None:
    """The command stands there and goes into a cell by a click; the user's cell shows nothing."""
    write_kernel(lab, "bare", NO_PACKAGE)
    page = page_for(write_with_kernel(lab, "bare.ipynb", "bare"))
    page.command("jupyter-ctx:show-panel")

    expect(fault(page)).to_contain_text("jupyter_ctx is not installed in this kernel.")
    expect(fault(page)).to_contain_text("%pip install jupyter-ctx")
    fault(page).get_by_role("button", name="Insert as cell").click()
    cells = page.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells"
        ".map(cell => cell.getSource())"
    )
    assert cells == ["print('ran')", "%pip install jupyter-ctx"]
    assert page.run_cell(0) == [{"name": "stdout", "output_type": "stream", "text": "ran\n"}]
    expect(fault(page)).to_contain_text("jupyter_ctx is not installed in this kernel.")


def test_a_kernel_of_another_language_is_named(lab: LabServer, page_for: PageFor) -> None:
    """Nothing is executed there; the panel says what language it is."""
    write_kernel(lab, "forth", OTHER_LANGUAGE, "forth")
    page = page_for(write_with_kernel(lab, "forth.ipynb", "forth"))
    page.command("jupyter-ctx:show-panel")

    expect(fault(page)).to_contain_text("This kernel runs forth, not Python.")


def test_a_busy_kernel_is_waited_for(lab: LabServer, page_for: PageFor) -> None:
    """The panel says that it is busy, and loads the agent as soon as the cell has ended."""
    page = page_for(lab.write_notebook("busy.ipynb", ["input('go on? ')"]))
    page.start_cell(0)
    expect(page.page.locator(".jp-Stdin-input")).to_be_visible()
    page.command("jupyter-ctx:show-panel")
    expect(fault(page)).to_contain_text("The kernel is busy.")
    page.answer_input("yes")

    expect(Panel(page).prompt).to_be_enabled(timeout=TURN_MS)


def test_who_went_elsewhere_while_the_panel_waited_stays_there(
    lab: LabServer, page_for: PageFor
) -> None:
    """A panel that was opened takes no focus once it is ready if a cell was clicked meanwhile."""
    wait = "import pathlib, time\nwhile not pathlib.Path('go').exists():\n    time.sleep(0.05)"
    page = page_for(lab.write_notebook("elsewhere.ipynb", [wait, "b = 2"]))
    page.start_cell(0)
    expect(page.page.locator(".jp-NotebookPanel [data-status='busy']")).to_be_visible()
    page.command("jupyter-ctx:show-panel")
    expect(fault(page)).to_contain_text("The kernel is busy.")
    editor = page.page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".cm-content")
    editor.click()
    (lab.root_dir / "go").touch()

    expect(Panel(page).prompt).to_be_enabled(timeout=TURN_MS)
    page.page.evaluate("() => new Promise(done => requestAnimationFrame(() => done()))")
    expect(editor).to_be_focused()
    page.page.keyboard.press("End")
    page.page.keyboard.type("2")
    expect(editor).to_have_text("b = 22")


def test_without_a_notebook_it_says_so(lab: LabServer, page_for: PageFor) -> None:
    """A closed notebook leaves the panel with one sentence; opened again, all is there again."""
    path = lab.write_notebook("again.ipynb", ["1"])
    page = page_for(path)
    panel = Panel(page).open()
    panel.ask("/help")
    expect(panel.log).to_contain_text("/compact", timeout=TURN_MS)
    page.command("docmanager:save")
    page.command("application:close")
    expect(fault(page)).to_contain_text("Open a notebook to begin.")

    page.open(path)
    expect(panel.prompt).to_be_enabled(timeout=TURN_MS)


def test_a_second_view_of_a_notebook_shares_the_conversation(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """One notebook in two views: one conversation, and an edit is made once."""
    page, panel = opened(lab, page_for, server, "two_views.ipynb")
    page.command("docmanager:clone")
    expect(page.page.locator(".jp-NotebookPanel")).to_have_count(2)
    server.append("One answer.")
    panel.ask("Hello")
    panel.wait_done()

    expect(panel.log.get_by_role("article")).to_have_count(1)
    expect(page.page.locator(".jctx-notebook")).to_have_count(1)


def test_the_shortcut_goes_to_the_prompt_and_back(lab: LabServer, page_for: PageFor) -> None:
    """Alt Shift A opens the panel at its prompt; from there it leads back to the notebook."""
    page = page_for(lab.write_notebook("keys.ipynb", ["1"]))
    page.page.locator(".jp-Notebook .jp-Cell").first.locator(".jp-InputPrompt").click()
    page.page.keyboard.press("Alt+Shift+A")
    panel = Panel(page)
    expect(panel.prompt).to_be_focused(timeout=TURN_MS)
    page.page.keyboard.press("Alt+Shift+A")

    page.page.wait_for_function("() => document.activeElement?.closest('.jp-Notebook') !== null")
    page.page.keyboard.press("Alt+Shift+A")
    expect(panel.prompt).to_be_focused()


def test_a_cells_menu_asks_about_it(lab: LabServer, page_for: PageFor) -> None:
    """ "Ask about this cell" and, where one failed, "Fix this error" are of the cell clicked."""
    page = page_for(lab.write_notebook("menu.ipynb", ["1 / 0", "2"]))
    page.run_cell(0)
    cells = page.page.locator(".jp-Notebook .jp-Cell")
    menu = page.page.locator(".lm-Menu")
    ids: list[str] = page.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.widgets.map(one => one.model.id)"
    )
    cells.nth(0).locator(".jp-InputPrompt").click()
    cells.nth(1).locator(".cm-content").click(button="right")  # it does not become the active one
    expect(menu.get_by_text("Fix This Error With the Agent")).to_be_hidden()
    menu.get_by_text("Ask the Agent About This Cell").click()
    panel = Panel(page)
    expect(panel.prompt).to_have_value(f"@cell:{ids[1]} ", timeout=TURN_MS)
    panel.prompt.fill("")
    cells.nth(1).locator(".jp-InputPrompt").click()
    cells.nth(0).locator(".cm-content").click(button="right")
    menu.get_by_text("Fix This Error With the Agent").click()

    expect(panel.prompt).to_have_value(f"Fix @error in @cell:{ids[0]} ")
    expect(panel.prompt).to_be_focused()


def drag(page: NotebookPage, start: Locator, end: Locator) -> None:
    """Drag from the middle of one thing to the middle of another, as a hand does."""
    mouse = page.page.mouse
    boxes = [start.bounding_box(), end.bounding_box()]
    points = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes if box]
    mouse.move(*points[0])
    mouse.down()
    mouse.move(points[0][0] + 12, points[0][1] + 12, steps=4)
    mouse.move(*points[1], steps=8)
    mouse.up()


def test_cells_and_files_are_dropped_into_the_prompt(lab: LabServer, page_for: PageFor) -> None:
    """A cell of the notebook and a file of the browser become mentions."""
    (lab.root_dir / "dropped.csv").write_text("a,b\n", encoding="utf-8")
    page = page_for(lab.write_notebook("drops.ipynb", ["1", "2"]))
    panel = Panel(page).open()
    cell = page.page.locator(".jp-Notebook .jp-Cell").nth(0)
    cell_id = page.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.widgets[0].model.id"
    )
    drag(page, cell.locator(".jp-InputPrompt"), panel.prompt)
    expect(panel.prompt).to_have_value(f"@cell:{cell_id} ")
    file = page.page.locator(".jp-DirListing-item", has_text="dropped.csv")
    drag(page, file.locator(".jp-DirListing-itemName"), panel.prompt)

    expect(panel.prompt).to_have_value(f"@cell:{cell_id} @dropped.csv ")
    assert page.page.locator(".jp-Notebook .jp-Cell").count() == 2


def test_settings_take_effect_at_once(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Which key sends, and what the agent may do, change in the settings editor, live."""
    name = "settings.ipynb"
    page, panel = opened(lab, page_for, server, name, permissions="ask")
    settings = lab.write_settings("jupyter-ctx:plugin", "{}")
    mode = panel.root.get_by_role("button", name="Permissions:")
    try:
        expect(mode).to_have_accessible_name("Permissions: ask first")
        page.command("settingeditor:open", query="Agent")
        form = page.page.locator("[id='jp-SettingsEditor-jupyter-ctx:plugin']")
        form.locator("select[id$='_agent_permissions']").select_option(label="Only reading")
        expect(mode).not_to_have_accessible_name("Permissions: ask first")
        form.locator("select[id$='_agent_permissions']").select_option(index=0)
        expect(mode).to_have_accessible_name("Permissions: ask first")
        form.locator("input[id$='_enterSends']").uncheck()
        expect(page.page.locator(".jctx-side[data-send-on='shift-enter']")).to_have_count(1)
        page.open(name)

        server.append("Sent.")
        panel.prompt.fill("one")
        panel.prompt.press("Enter")
        panel.prompt.press_sequentially("two")
        expect(panel.prompt).to_have_value("one\ntwo")
        panel.prompt.press("Shift+Enter")
        expect(panel.turn(1)).to_contain_text("Sent.", timeout=TURN_MS)
    finally:
        settings.unlink(missing_ok=True)


def test_a_model_is_picked_that_tells_its_price(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """The list names each model with what a switch would cost; a click makes the switch."""
    _, panel = opened(lab, page_for, server, "picks.ipynb")
    panel.widen()
    pick = panel.root.get_by_role("button", name="Model:")
    before = pick.inner_text()
    pick.click()
    rows = panel.root.get_by_role("menuitemradio")
    expect(rows.first).to_contain_text("tokens · in use")
    expect(rows.filter(has_text="$").first).to_be_visible()
    rows.filter(has_text="demo").click()
    expect(panel.log).to_contain_text("$0 in, $0 out, $0 read from cache")
    expect(pick).not_to_have_text(before)
    assert server.requests == []


def test_formulas_are_typeset_and_prices_are_not(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """TeX is drawn by JupyterLab's MathJax; dollars of money, code and hostile TeX stay text."""
    server.append(
        "Mean $\\bar{x}_1 = \\frac{1}{n}$, $5 or $6.\n\n$$\n\\sigma^2\n$$\n\n`$HOME $x$`\n\n"
        "\\\\(\\href{javascript:alert(1)}{y}\\\\) and $\\href{javascript:alert(1)}{z}$"
    )
    _, panel = opened(lab, page_for, server, "formulas.ipynb")
    panel.ask("Go")
    panel.wait_done()
    turn = panel.turn(1)
    expect(turn.locator("mjx-container")).to_have_count(3)
    expect(turn.locator("mjx-container[display]")).to_have_count(1)
    expect(turn).to_contain_text("$5 or $6.")
    expect(turn.locator("code")).to_have_text("$HOME $x$")
    assert turn.locator("a").count() == 0


def test_hostile_text_in_the_panel_is_inert(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Answers, prompts, tool outputs and summaries run nothing and load nothing from elsewhere."""
    settings = "import os; os.environ['JUPYTER_CTX_TAIL_TOKENS'] = '0'"
    page, panel = opened(lab, page_for, server, "hostile_panel.ipynb", settings=settings)
    asked: list[str] = []
    page.page.on("request", lambda request: asked.append(request.url))
    everything = "\n\n".join(HOSTILE)
    one = "display({{{0!r}: {1!r}, 'text/plain': ''}}, raw=True)"
    shown = [(mime, text) for text in HOSTILE[:40] for mime in ("text/html", "text/markdown")]
    show = "\n".join(one.format(*each) for each in (*shown, ("text/markdown", "# Shown")))
    server.append(reply(*HOSTILE, "# The end"))
    panel.ask(everything)
    panel.wait_done()
    expect(panel.turn(1).get_by_role("heading", name="The end")).to_be_visible()
    server.append(reply(tools=[("run_code", {"code": show})]), "Done. " * 2_000)
    panel.ask("Show it")
    panel.wait_done()
    panel.open_rows(2)
    outputs = panel.turn(2).locator(".jctx-outputs").first
    expect(outputs.get_by_role("heading", name="Shown")).to_be_attached(timeout=TURN_MS)
    server.append(f"<summary>\n# Summed up\n\n{everything}\n</summary>")
    panel.ask("/compact")
    divider = panel.log.locator("details.jctx-compact")
    expect(divider).to_contain_text("Compacted", timeout=TURN_MS)
    divider.locator("summary").first.click()
    expect(divider.get_by_role("heading", name="Summed up")).to_be_visible()

    assert panel.log.evaluate(FIND) == []
    assert page.page.evaluate("() => window.pwned") is None
    assert [url for url in asked if "attacker.invalid" in url] == []


def test_remote_pictures_are_links_until_they_are_wanted(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """A picture of another site is a link with its words; nothing is asked of that site."""
    page, panel = opened(lab, page_for, server, "pictures.ipynb")
    asked: list[str] = []
    page.page.on("request", lambda request: asked.append(request.url))
    server.append("![a chart](https://pictures.invalid/chart.png)\n")
    panel.ask("Show a picture")
    panel.wait_done()

    link = panel.turn(1).get_by_role("link", name="a chart")
    expect(link).to_have_attribute("href", "https://pictures.invalid/chart.png")
    assert [url for url in asked if "pictures.invalid" in url] == []


class Pictures(BaseHTTPRequestHandler):
    """Another site, on this machine, that shows one picture."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        """Answer with the picture, whatever the path."""
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "image/svg+xml")
        self.end_headers()
        self.wfile.write(b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="7"/>')

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def pictures() -> Iterator[str]:
    """The address of a site with a picture."""
    Pictures.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Pictures) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.shutdown()
        thread.join()


def test_remote_pictures_are_shown_while_they_are_wanted(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic, pictures: str
) -> None:
    """The setting switches them on and off, at once; off, nothing is asked of their site."""
    name = "remote.ipynb"
    page, panel = opened(lab, page_for, server, name)
    settings = lab.write_settings("jupyter-ctx:plugin", "{}")
    try:
        for turn, is_wanted in enumerate((False, True, False), start=1):
            page.command("settingeditor:open", query="Agent")
            form = page.page.locator("[id='jp-SettingsEditor-jupyter-ctx:plugin']")
            box = form.locator("input[id$='_remoteImages']")
            if box.is_checked() != is_wanted:
                with page.page.expect_response(
                    lambda answer: "jupyter-ctx" in answer.url and answer.request.method == "PUT"
                ):
                    box.set_checked(is_wanted)
            page.open(name)
            server.append(f"![a chart]({pictures}/{turn}.svg)\n")
            panel.ask("Show a picture")
            panel.wait_done()
            shown = panel.turn(turn).get_by_role("img", name="a chart")
            link = panel.turn(turn).get_by_role("link", name="a chart")
            expect(shown if is_wanted else link).to_be_visible()
            expect(link if is_wanted else shown).to_have_count(0)
            if is_wanted:
                page.page.wait_for_function(
                    "() => [...document.querySelectorAll('.jctx-log img')]"
                    ".some(one => one.naturalWidth === 9)"
                )
    finally:
        settings.unlink(missing_ok=True)
    assert set(Pictures.asked) == {"/2.svg"}


def test_the_panel_works_in_notebook_7(
    lab: LabServer, browser: Browser, server: FakeAnthropic
) -> None:
    """The same panel stands beside a notebook in Notebook 7, and a turn runs there."""
    path = lab.write_notebook("seven.ipynb", [connected(server, "auto")])
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        errors: list[str] = []
        blank = context.new_page()
        blank.on("pageerror", lambda error: errors.append(str(error.stack)))
        page = NotebookPage(blank, f"{lab.url}/notebooks/{path}")
        page.run_cell(0)
        panel = Panel(page).open()
        server.append(reply("Half", Hold("mid"), " and whole."))
        panel.ask("Hello")
        server.wait_held("mid")
        expect(panel.turn(1)).to_contain_text("Half")
        server.release("mid")
        panel.wait_done()
        expect(panel.turn(1)).to_contain_text("Half and whole.")
        assert [error for error in errors if "jupyter-ctx" in error] == []
    finally:
        context.close()
