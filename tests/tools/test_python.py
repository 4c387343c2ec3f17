"""Laws of `run_code`."""

import asyncio
import sys
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import polars as pl
import pytest

from jupyter_ctx.config import Settings
from jupyter_ctx.core.blocks import Json, ToolUse
from jupyter_ctx.core.ports import Execution, SpooledText, ToolOutput
from jupyter_ctx.testing import FakeKernel
from jupyter_ctx.tools import make_tools

from ..pictures import png
from .examples import Texts, bundle, call, stream, text_of


@dataclass
class Answering(FakeKernel):
    """A kernel that brings what it is told to, whatever the code."""

    execution: Execution = field(default_factory=Execution)

    async def run_code(self, code: str) -> Execution:
        """Return the execution."""
        return self.execution


def run(*outputs: Json, code: str = "x", names: dict[str, object] | None = None) -> ToolOutput:
    """Return what `run_code` makes of some outputs."""
    kernel = Answering(names or {}, execution=Execution(outputs))
    return call("run_code", {"code": code}, kernel=kernel)


def test_printed_text_comes_back_whole() -> None:
    """Text, outputs and types are passed on; nothing is added."""
    output = call("run_code", {"code": "print(6 * 7)"})

    assert output.text == "42\n"
    assert output.outputs == (stream("42\n"),)
    assert output.mime_types == ("text/plain",)
    assert not output.is_error


def test_nothing_brought_is_no_text() -> None:
    """Code without output gives an empty text, which the core names."""
    assert call("run_code", {"code": ""}).text == ""


def test_a_failure_is_an_error_with_the_output_so_far() -> None:
    """What was printed before the error is there, then the error; the call did not end the turn."""
    error = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []}
    kernel = Answering(execution=Execution((stream("so far\n"), error), failed=True))

    output = call("run_code", {"code": "x"}, kernel=kernel)

    assert output.is_error
    assert output.text == "so far\nValueError: no"
    assert not output.interrupted


def test_an_interrupt_is_passed_on() -> None:
    """A stopped run says so, as an error."""
    kernel = Answering(execution=Execution((stream("so far\n"),), interrupted=True))

    output = call("run_code", {"code": "x"}, kernel=kernel)

    assert output.interrupted
    assert output.is_error


def test_a_figure_comes_as_an_image() -> None:
    """A picture among the outputs is sent as one."""
    picture = png(20, 10)

    assert run(bundle(image__png=picture.data)).images == (picture,)


def test_a_spooled_text_stays_on_disk() -> None:
    """Head and tail are shown as a terminal would, and the error ends the tail."""
    spooled = SpooledText("/x.txt", 10_000_000, 9, 10_000_000, "\r 1%\r 2%", "\x1b[31mend\x1b[0m\n")
    error = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []}
    execution = Execution((stream("head"), error), failed=True, spooled=spooled)

    text = call("run_code", {"code": "x"}, kernel=Answering(execution=execution)).text

    assert isinstance(text, SpooledText)
    assert (text.head, text.tail) == (" 2%", "end\nValueError: no")
    assert (text.path, text.chars, text.lines) == ("/x.txt", 10_000_000, 9)


def wide_frame() -> pd.DataFrame:
    """Return a frame of 5,000 × 40."""
    return pd.DataFrame({f"column_{n}": np.arange(5_000) * (n + 0.5) for n in range(40)})


def frame_output(frame: pd.DataFrame) -> Json:
    """Return what IPython makes of a frame."""
    markup = frame.to_html(max_rows=10, max_cols=20, show_dimensions=True, notebook=True)
    return bundle("execute_result", text__plain=repr(frame), text__html=markup)


@pytest.mark.parametrize("code", ["df", "display(df)", "x = 1\ndf", "df.head()", "!ls\ndf"])
def test_a_frame_shows_its_columns_with_types(code: str) -> None:
    """C05: shape, every column's name and type, and rows of the plain form; not the markup."""
    frame = wide_frame()
    output = run(frame_output(frame), code=code, names={"df": frame})
    text = text_of(output)

    assert "[5000 rows x 40 columns]" in text
    assert all(f"column_{n} float64" in text for n in range(40))
    assert "4999" in text
    assert "<td>" not in text
    assert len(text) < 5_000
    assert "<table" in str(output.outputs)
    assert output.mime_types == ("text/html", "text/plain")


@pytest.mark.parametrize("code", ["df.describe()", "other", "df; 1", "df.x + (", "print(1)"])
def test_columns_are_told_of_shown_frames_only(code: str) -> None:
    """A frame that the code did not show as it is adds nothing."""
    assert run(stream("1\n"), code=code, names={"df": wide_frame()}).text == "1\n"


def test_a_polars_frame_has_columns_too() -> None:
    """The types are told in the library's own words."""
    frame = pl.DataFrame({"a": [1], "b": ["x"]})

    text = text_of(run(bundle(text__plain=str(frame)), code="df", names={"df": frame}))

    assert text.endswith("df: polars.DataFrame, 1 rows × 2 columns; columns: a Int64, b String")


def test_a_long_look_at_pictures_leaves_the_loop_free() -> None:
    """While outputs are rendered, the loop that must hear a Stop goes on running."""
    kernel = Answering(execution=Execution((stream("x"),)))
    tools = make_tools(kernel, Texts(), Settings())

    async def count() -> int:
        task = asyncio.ensure_future(tools.run(ToolUse("t", "run_code", {"code": "1"}), 50_000))
        ticks = 0
        while not task.done():
            await asyncio.sleep(0)
            ticks += 1
        return ticks

    interval = sys.getswitchinterval()
    assert asyncio.run(count()) > 1
    assert sys.getswitchinterval() == interval
