"""What the other tests of this folder rely on: a cell can be answered and stopped."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .conftest import PageFor
from .server import LabServer, find_chromium

ROOT = Path(__file__).parents[2]


def test_a_waiting_cell_is_answered_and_a_running_one_stopped(
    lab: LabServer, page_for: PageFor
) -> None:
    """`input()` gets what was typed; an interrupt ends the cell with an error."""
    page = page_for(
        lab.write_notebook(
            "harness.ipynb",
            ["print('got', input('code? '))", "import threading; threading.Event().wait()"],
        )
    )

    page.start_cell(0)
    page.answer_input("yes")
    page.wait_idle()
    expect(page.output_area(0)).to_contain_text("got yes")
    assert page.cell_outputs(0)[-1]["text"].splitlines()[-1] == "got yes"

    page.start_cell(1)
    page.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status"
        " === 'busy'"
    )
    page.interrupt()
    page.wait_idle()
    assert page.cell_outputs(1)[-1]["ename"] == "KeyboardInterrupt"


@pytest.mark.parametrize("path", ["/nowhere", ""])
def test_the_browser_is_found_without_its_folder_on_the_path(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PATH without the system's folders hides no browser, from script and tests alike."""
    bash = shutil.which("bash")
    assert bash is not None
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", path)
    found = find_chromium()
    script = subprocess.run(
        [bash, str(ROOT / ".ci" / "chromium")], capture_output=True, text=True, check=True
    )

    assert Path(script.stdout.strip()) == Path(found)
