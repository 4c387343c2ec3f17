"""The laws of the bounded log of outputs, of the spool and of what is shown live."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.config import Settings
from jupyter_ctx.ipython.live import NOTE_EVERY_S, Live
from jupyter_ctx.ipython.outputlog import Limits, OutputLog, StreamName
from jupyter_ctx.ipython.spool import HEAD_CHARS, TAIL_CHARS, Spool, utf8_bytes, valid_text

from .scratch import ListSink, open_spool

Writes = list[tuple[StreamName, str]]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WRITES = st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), TEXTS), max_size=30)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def merged(writes: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the writes as a notebook keeps them: neighbours of one stream joined."""
    found: list[tuple[str, str]] = []
    for name, text in writes:
        if found and found[-1][0] == name:
            found[-1] = (name, found[-1][1] + text)
        else:
            found.append((name, text))
    return found


@given(WRITES)
def test_streams_merge_and_keep_their_order(writes: Writes) -> None:
    """The outputs are the writes, neighbours of one stream joined, nothing lost."""
    log = OutputLog(Limits())
    for name, text in writes:
        log.stream(name, text)

    assert [(out["name"], out["text"]) for out in log.outputs()] == merged(writes)
    assert log.outputs() == log.outputs()


@given(WRITES, st.integers(0, 500))
def test_a_spool_holds_every_byte(writes: Writes, bound: int) -> None:
    """Past any bound the file is the whole text, and the counts are the file's."""
    with TemporaryDirectory() as folder:
        log = OutputLog(Limits(text_bytes=bound), lambda: open_spool(Path(folder)))
        for name, text in writes:
            log.stream(name, text)
        spooled = log.finish()
        whole = "".join(text for _, text in writes)

        if spooled is None:
            assert "".join(str(out["text"]) for out in log.outputs()) == whole
            return
        assert Path(spooled.path).read_bytes() == whole.encode()
        assert spooled.size_bytes == len(whole.encode())
        assert spooled.chars == len(whole)
        assert spooled.lines == whole.count("\n") + (not whole.endswith("\n") and bool(whole))


@given(st.lists(st.integers(1, 3 * TAIL_CHARS), max_size=8))
def test_head_and_tail_are_exact(sizes: list[int]) -> None:
    """However it was written, head and tail are the first and last characters."""
    spool, whole = Spool(), ""
    for n, size in enumerate(sizes):
        piece = (f"{n}→\n" * size)[:size]
        spool.write(piece)
        whole += piece

    assert (spool.head, spool.tail) == (whole[:HEAD_CHARS], whole[-TAIL_CHARS:])
    assert spool.chars == len(whole)
    assert spool.lines == whole.count("\n") + (not whole.endswith("\n") and bool(whole))


@given(st.text())
def test_any_text_becomes_valid(text: str) -> None:
    """`valid_text` gives UTF-8, changes valid text not at all, and is idempotent."""
    valid = valid_text(text)

    valid.encode()
    assert valid_text(valid) == valid
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert valid == text


def test_no_file_is_no_error() -> None:
    """Where no file can be made, counting goes on and the whole text is in no file."""
    spool = Spool(error=OSError("read-only"))
    spool.write("text\n")

    assert spool.finish() is None
    assert (spool.head, spool.lines) == ("text\n", 1)


def test_what_is_not_text_has_its_lines_in_the_spool(tmp_path: Path) -> None:
    """Displays, results and errors stand in the spooled text at their place, on own lines."""
    log = OutputLog(Limits(text_bytes=500), lambda: open_spool(tmp_path))
    log.stream("stdout", "a" * 600)
    log.display({"text/plain": "shown"}, {})
    log.display({"image/png": "AAAA"}, {})
    log.error("ValueError", "bad", ["line 1", "ValueError: bad"])
    log.stream("stdout", "end")

    spooled = log.finish()
    assert spooled is not None
    expected = "a" * 600 + "\nshown\n[image/png]\nline 1\nValueError: bad\nend"
    assert Path(spooled.path).read_text() == expected


def test_the_last_error_is_always_kept() -> None:
    """After more outputs than are kept, the newest error is still there."""
    log = OutputLog(Limits(outputs=2))
    for n in range(5):
        log.error("E", str(n), [])

    errors = [out["evalue"] for out in log.outputs() if out["output_type"] == "error"]
    assert errors == ["0", "1", "4"]


def test_a_huge_error_is_cut() -> None:
    """Of an error's text the middle is left out when it is too long to hold."""
    log = OutputLog(Limits())
    log.error("E", "x" * 10_000_000, ["y" * 10_000_000])

    assert log.outputs()[0]["evalue"].startswith("xxx")  # type: ignore[attr-defined]  # JSON
    assert len(repr(log.outputs())) < 2 * HEAD_CHARS + 2_000 + 2 * TAIL_CHARS


def shown_live(writes: Writes, head: int, tail: int) -> str:
    """Return what is shown of the writes, all made at one moment."""
    sink = ListSink()
    live = Live(sink, Settings(live_output_head=head, live_output_tail=tail), Clock())
    for name, text in writes:
        live.stream(name, text)
    live.finish()
    return sink.text


@given(WRITES, st.integers(0, 100), st.integers(0, 50))
def test_the_beginning_and_the_end_are_shown(writes: Writes, head: int, tail: int) -> None:
    """All of a short text is shown; of a long one the head, how much is left out, and the tail."""
    whole = "".join(text for _, text in writes)
    shown = shown_live(writes, head, tail)

    if utf8_bytes(whole) <= head:
        assert shown == whole
        return
    first, _, rest = shown.partition("[… ")
    _, _, last = rest.partition("follow]\n")
    assert whole.startswith(first[:-1])
    assert whole.endswith(last)
    assert utf8_bytes(first) <= head + 1
    assert utf8_bytes(last) <= tail


def test_the_count_is_renewed_each_second() -> None:
    """Past the head a count is shown at most once a second, over the one before."""
    clock, sink = Clock(), ListSink()
    live = Live(sink, Settings(live_output_head=4, live_output_tail=0), clock)
    for tenth in range(31):
        clock.now = tenth / 10
        live.stream("stdout", "line\n")

    notes = [args[1] for _, args in sink.calls[1:]]
    assert NOTE_EVERY_S == 1.0
    assert notes == [f"{start}[… {n} characters more so far]" for start, n in NOTES]


NOTES = [("\n", 1), ("\r", 51), ("\r", 101), ("\r", 151)]


@pytest.mark.parametrize("value", [{"a": [1]}, ["x"], None, 5, "text"])
def test_json_values_count(value: Any) -> None:
    """Bundles of any JSON value are kept while there is room, and go when there is none."""
    kept, gone = OutputLog(Limits()), OutputLog(Limits(bundle_bytes=1))
    for log in (kept, gone):
        log.display({"application/json": value}, {})

    assert kept.outputs()[0]["data"] == {"application/json": value}
    assert "not kept" in repr(gone.outputs()[0]["data"])
