"""Laws of the terminal: what a text shows when it was written to one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.tools.terminal import PADDING_CHARS, resolve

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
SEQUENCES = ["\r", "\b", "\n", "\x1b[A", "\x1b[2K", "\x1b[K", "\x1b[5D", "\x1b[9C", "\x1b[31m"]
written = st.lists(
    st.one_of(st.sampled_from([*SEQUENCES, "\x1b[2J", "\x1b[H", "\x1b]0;t\x07"]), st.text())
).map("".join)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n", "plain\n"),
        ("a\r\nb\r\n", "a\nb\n"),
        (" 10%\r 50%\r100%\n", "100%\n"),
        ("long text\rab\n", "abng text\n"),
        ("long text\r\x1b[Kab\n", "ab\n"),
        ("wait |\b/\b-\bdone", "wait done"),
        ("\x1b[1;31mred\x1b[0m and \x1b[38;5;28mgreen\x1b[39m", "red and green"),
        ("one\ntwo\x1b[1A\rONE\n", "ONE\ntwo"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]no end to this title", "no end to this title"),
        ("\x1b[?25lhidden cursor\x1b[?25h", "hidden cursor"),
        ("old\x1b[2J\x1b[Hnew", "new"),
        ("a\x00b\x07c", "abc"),
        ("pair \ud83d\ude00, lone \ud83d.", "pair 😀, lone \ufffd."),
        ("\x1b[3Gx", "  x"),
        ("", ""),
    ],
)
def test_shows_what_a_terminal_shows(text: str, shown: str) -> None:
    """The text left is what stands on the screen."""
    assert resolve(text) == shown


@given(written)
def test_leaves_no_control_character(text: str) -> None:
    """Whatever was written, the result is valid UTF-8 without control characters."""
    shown = resolve(text)

    assert not CONTROLS.search(shown)
    assert shown.encode().decode() == shown


@given(written)
def test_what_is_resolved_stays(text: str) -> None:
    """A second look changes nothing."""
    assert resolve(resolve(text)) == resolve(text)


@given(st.text().filter(lambda text: not CONTROLS.search(text)))
def test_text_without_control_characters_is_kept_whole(text: str) -> None:
    """What needs no terminal comes back character for character."""
    assert resolve(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000 + "\ra" * 300_000,
        "x" * 500_000 + "\x1b[31my" * 100_000,
        "\x1b]" * 300_000,
        "x" * 500_000 + "\n" + "y\x1b[A" * 200_000,
        "ab\x1b[2K" * 200_000,
        "\x1b[1" + "9" * 1_000_000,
        "".join(f"{n}\r\n" for n in range(20_000)),
    ],
    ids=["overwritten", "coloured", "titles", "two rows", "erased", "digits", "lines"],
)
def test_long_texts_end(text: str) -> None:
    """The work grows with the text: these would run for hours if it grew with its square."""
    assert len(resolve(text)) <= len(text)


def test_cursor_moves_cannot_fill_the_memory() -> None:
    """Blanks that cursor moves leave behind are bounded, whatever they ask for."""
    shown = resolve("\x1b[999999999Cx\n" * 20_000)

    assert len(shown) <= PADDING_CHARS + 2 * 20_000


def test_nested_progress_bars_end_in_their_last_state() -> None:
    """An inner bar that moves the cursor up leaves one line for each bar."""
    from .examples import fixture

    lines = resolve(fixture("nested_bars")["text"]).rstrip("\n").split("\n")

    assert lines == ["outer: 100%|##########| 2/2", "inner: 100%|##########| 3/3"]
