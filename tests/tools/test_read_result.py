"""Laws of `read_result`: any text, of any size, can be read to its end."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.errors import StoreError, ToolError
from jupyter_ctx.tools.pages import Slice, read_page
from jupyter_ctx.tools.search import search_text

from .examples import NUMBERED, Texts, call, text_of

LEAST = 500


def read(text: Path | str, *, cap: int = 50_000, **arguments: Any) -> str:
    """Return what `read_result` gives of `text`."""
    given = {"tool_use_id": "toolu_x", **arguments}
    return text_of(call("read_result", given, texts={"toolu_x": text}, cap=cap))


@pytest.fixture
def spooled(tmp_path: Path) -> Path:
    """Return the numbered lines as a file."""
    path = tmp_path / "toolu_x.txt"
    path.write_text(NUMBERED, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", ["", "a", "a\n", "a\n\nb", "\n", "日本語\n" * 50])
def test_a_small_text_comes_back_as_it_is(text: str) -> None:
    """A text that fits has no note; an empty one is named."""
    assert read(text) == (text or "(the text is empty)")


def test_a_range_is_exact(spooled: Path) -> None:
    """C01: lines 10,000 to 10,020 are those lines and no other."""
    wanted = "".join(f"line {n}\n" for n in range(10_000, 10_021))

    for text in (spooled, NUMBERED):
        shown = read(text, start_line=10_000, end_line=10_020)
        assert shown == f"{wanted}[lines 10,000–10,020 of 20,000]"


def test_a_long_text_names_where_to_go_on(spooled: Path) -> None:
    """The note at the end gives the lines shown, their number, and the next line."""
    shown = read(spooled)

    found = re.search(r"\[lines 1–([\d,]+) of 20,000; go on with start_line=(\d+)\]$", shown)
    assert found
    assert int(found[1].replace(",", "")) + 1 == int(found[2])
    assert len(shown) <= 50_000


@pytest.mark.parametrize("cap", [LEAST, 7_000])
def test_following_the_notes_reads_everything(cap: int, tmp_path: Path) -> None:
    """Short and long lines are read to the last character, each page under the cap."""
    lines = ["short", "x" * 1_999, "y" * 2_000, "é" * 2_001, "", "z" * 9_000, "last"]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    seen = [""] * len(lines)
    line, char = 1, None
    while True:
        arguments = {"start_line": line, **({"start_char": char} if char else {})}
        shown = read(path, cap=cap, **arguments)
        assert len(shown) <= cap
        body = shown.split("\n")
        last = body.pop() if body[-1].startswith("[line") else ""
        for offset, part in enumerate(body):
            text, _, note = part.partition("… [line ")
            seen[line - 1 + offset] += text
            if note:
                following = re.search(r"start_line=(\d+), start_char=(\d+)\]", note)
                break
        else:
            following = re.search(r"start_line=(\d+)(?:, start_char=(\d+))?\]$", last)
        if not following:
            break
        line, char = int(following[1]), int(following[2]) if following[2] else None

    assert seen == lines


lines = st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=60))


@given(lines, st.integers(1, 8), st.integers(0, 8))
def test_lines_count_from_one_and_both_ends_are_in(texts: list[str], start: int, more: int) -> None:
    """A range gives exactly its lines, whatever is in them."""
    text = "".join(line + "\n" for line in texts)
    if start > max(1, len(texts)):
        with pytest.raises(ToolError, match="start_line"):
            read_page(text, Slice(start, start + more), 50_000)
        return

    shown = read_page(text, Slice(start, start + more), 50_000)

    wanted = texts[start - 1 : start + more]
    if start == 1 and more + 1 >= len(texts):
        assert shown == (text or "(the text is empty)")
    else:
        assert shown.rpartition("\n")[0] == "\n".join(wanted)


def test_a_line_is_read_on_within(spooled: Path) -> None:
    """`start_char` counts from 1 and says where the line ends."""
    line = "abcdefghij" * 1_000

    assert read(line, start_char=9_991) == (
        "abcdefghij\n[line 1, characters 9,991–10,000 of 10,000]"
    )
    assert read(f"{line}\nnext", start_char=10_000).endswith("; go on with start_line=2]")
    with pytest.raises(ToolError, match="line 1 has 10,000 characters"):
        read(line, start_char=10_001)
    with pytest.raises(ToolError, match="line 1 has 6 characters"):
        read(spooled, start_char=100)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"start_line": 20_001}, "the text has 20,000 lines"),
        ({"start_line": 5, "end_line": 4}, "at least start_line"),
        ({"pattern": "(", "start_line": 1}, "no Python regular expression"),
        ({"pattern": "a{99999999999}"}, "no Python regular expression"),
        ({"pattern": "a", "start_char": 3}, "do not go together"),
        ({"pattern": "a", "start_line": 20_001}, "the text has 20,000 lines"),
    ],
)
def test_what_cannot_be_read_is_said(arguments: dict[str, Any], said: str, spooled: Path) -> None:
    """A place that is not there, or a bad pattern, is an error that says what there is."""
    with pytest.raises(ToolError, match=re.escape(said)):
        read(spooled, **arguments)


def test_an_unknown_name_lists_near_ones() -> None:
    """The error names the nearest stored texts."""
    texts = {"toolu_abc1": "x", "prompt-3": "y"}

    with pytest.raises(ToolError, match=r"`toolu_abd1`\. Nearest: `toolu_abc1`"):
        call("read_result", {"tool_use_id": "toolu_abd1"}, texts=texts)
    with pytest.raises(ToolError, match="nothing is stored yet"):
        call("read_result", {"tool_use_id": "x"})


def test_a_vanished_file_is_an_error(tmp_path: Path) -> None:
    """A path that is no longer there is said, with and without a pattern."""
    with pytest.raises(ToolError, match="cannot be read"):
        read(tmp_path / "gone.txt")
    with pytest.raises(ToolError, match="cannot be read"):
        read(tmp_path / "gone.txt", pattern="x")


def test_a_failing_store_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's own words reach the model."""

    def fail(self: Texts, name: str) -> str:
        raise StoreError("the disk is gone")

    monkeypatch.setattr(Texts, "read_text", fail)
    with pytest.raises(ToolError, match="the disk is gone"):
        call("read_result", {"tool_use_id": "x"})


def test_a_pattern_lists_matching_lines(spooled: Path) -> None:
    """Hits come with their line numbers, and the note says where was searched."""
    wanted = "".join(f"{n}: line {n}\n" for n in (1_990, 1_991))

    for text in (spooled, NUMBERED):
        shown = read(text, pattern=r"^line 199[01]$", start_line=1_000, end_line=3_000)
        assert shown == f"{wanted}[2 hits in lines 1,000–3,000 of 20,000]"


def test_hits_are_bounded(spooled: Path) -> None:
    """After 100 hits the note says where to go on; under a small cap, after fewer."""
    shown = read(spooled, pattern="7$")
    small = read(spooled, pattern="7$", cap=LEAST)

    assert shown.count("\n") == 100
    assert shown.endswith("[100 hits in lines 1–997 of 20,000; go on with start_line=998]")
    assert len(small) <= LEAST
    assert re.search(r"go on with start_line=\d+\]$", small)


def test_no_hit_is_said(spooled: Path) -> None:
    """An empty search is no empty text."""
    assert read(spooled, pattern="nowhere") == "[0 hits in lines 1–20,000 of 20,000]"


def test_a_long_line_shows_the_hit_and_its_place() -> None:
    """Of a line of three million characters the surroundings of each hit are shown."""
    line = "x" * 1_500_000 + "NEEDLE" + "y" * 999_994 + "NEEDLE" + "z" * 500_000

    shown = read(line, pattern="NEE+DLE").split("\n")

    assert [hit.split(":")[0] for hit in shown[:-1]] == [
        "1 (character 1,500,001)",
        "1 (character 2,500,001)",
    ]
    assert all("NEEDLE" in hit and len(hit) < 500 for hit in shown[:-1])


@pytest.mark.parametrize("place", range(999_995, 1_000_003))
def test_a_hit_across_two_pieces_is_found_once(place: int) -> None:
    """Where a long line is cut for the search makes no difference."""
    line = "x" * place + "NEEDLE" + "y" * 100_000

    shown = read(line, pattern="NEEDLE")

    assert shown.startswith(f"1 (character {place + 1:,}): x")
    assert shown.endswith("\n[1 hit in lines 1–1 of 1]")


def test_a_pattern_without_end_is_stopped() -> None:
    """A search that would take for ever is ended by its time limit, and the kernel was not held."""
    text = "a" * 40 + "b\n"

    with pytest.raises(ToolError, match=r"stopped after 0\.5 s without a hit"):
        search_text(text, "(a+)+$", Slice(), 50_000, limit_s=0.5)


def test_hits_before_the_time_limit_are_kept() -> None:
    """What was found is shown, with where to go on."""
    text = "aaab aaa\n" * 3 + "a" * 40 + "b\n"

    shown = search_text(text, "(a+)+$", Slice(), 50_000, limit_s=4)

    assert shown.split("\n")[:3] == ["1: aaab aaa", "2: aaab aaa", "3: aaab aaa"]
    assert "stopped after 4 s; go on with start_line=4]" in shown


def test_a_large_file_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """Paging and searching a 60 MB file holds a few MB at most, one line of 30 MB included."""
    import tracemalloc

    path = tmp_path / "large.txt"
    with path.open("w", encoding="utf-8") as file:
        for n in range(300_000):
            file.write(f"{n:09d} " + "x" * 90 + "\n")
        for _ in range(300):
            file.write("y" * 100_000)
        file.write("\nlast\n")
    tracemalloc.start()
    try:
        assert read(path, start_line=300_002) == "last\n[lines 300,002–300,002 of 300,002]"
        assert "start_line=300001, start_char=2001" in read(path, start_line=300_000)
        assert read(path, start_line=300_001, start_char=30_000_000).startswith("y\n[line")
        assert "299999" in read(path, pattern="^000299999")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 16 * 1024 * 1024


def test_control_characters_of_a_stored_text_are_not_sent(tmp_path: Path) -> None:
    """A spooled text may hold colours and broken bytes; what is read of it does not."""
    path = tmp_path / "raw.txt"
    path.write_bytes(b"\x1b[31mred\x1b[0m\xff\n 1%\r 2%\n")

    assert read(path) == "red\ufffd\n 2%\n"
    assert read(path, pattern="red").startswith("1: red\ufffd\n")
