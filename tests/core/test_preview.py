"""What a preview shows, for any text and any room."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.ports import SpooledText
from jupyter_ctx.core.preview import build_preview, clean_text, count_lines

ID, PATH = "toolu_1", "tool-results/s/toolu_1.txt"
TRACEBACK = (
    "Traceback (most recent call last):\n"
    + '  File "cell", line 1, in f\n    g()\n' * 400
    + "ValueError: the column 'price' is missing\n"
)


@given(st.text(max_size=50))
def test_clean_text_is_valid_utf8_of_the_same_length(text: str) -> None:
    """Every character stays or becomes U+FFFD, so offsets in the stored text hold."""
    dirty = f"\ud83d{text}\udc00\x00"
    cleaned = clean_text(dirty)

    assert len(cleaned) == len(dirty)
    assert cleaned.encode()
    assert "\x00" not in cleaned
    assert cleaned[1:-2] == text.replace("\x00", "\ufffd")


@pytest.mark.parametrize(
    ("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)]
)
def test_count_lines(text: str, lines: int) -> None:
    """A newline ends a line; what follows the last one counts if there is anything."""
    assert count_lines(text) == lines


@given(
    st.lists(st.sampled_from(["a", "\n", "数", "word ", "🙂", "-" * 70]), min_size=30).map("".join),
    st.integers(0, 3_000),
    st.booleans(),
    st.none() | st.just(PATH) | st.just("/" + "p" * 500),
)
@settings(max_examples=100, deadline=None)
def test_previews_are_bounded_and_never_empty(
    text: str, most: int, is_error: bool, path: str | None
) -> None:
    """At most `most_chars` (or the handle and 4 characters), one header line, and some text."""
    preview = build_preview(text, ID, path, is_error=is_error, most_chars=most)
    header, _, body = preview.partition("\n")

    assert header.startswith("[")
    assert header.endswith("]")
    assert f'read_result(tool_use_id="{ID}"' in header
    assert body
    assert len(preview) <= max(most, len(header) + 5)


def test_a_short_body_is_whole() -> None:
    """Where the whole text has room behind the header, it is shown without a gap."""
    preview = build_preview("a\nb\n" * 50, ID, PATH, most_chars=2_000)

    assert preview.endswith("]\n" + "a\nb\n" * 50)


def test_the_gap_names_lines_where_it_can() -> None:
    """Cut at line ends, the gap says which lines are left out; else how many characters."""
    text = "".join(f"{number}\n" for number in range(1, 5_001))
    preview = build_preview(text, ID, PATH, most_chars=1_000)
    gap = next(line for line in preview.split("\n") if line.startswith("[… "))
    first, last = (int(word.replace(",", "")) for word in gap.split() if word[0].isdigit())

    assert f"\n{first - 1}\n{gap}\n{last + 1}\n" in preview
    assert "left out" in gap

    one_line = build_preview("x" * 9_000, ID, PATH, most_chars=1_000)
    assert " characters left out …]" in one_line


def test_the_gap_counts_lines_without_a_last_newline() -> None:
    """A text that does not end with a newline has its last line counted."""
    text = "\n".join(str(number) for number in range(1, 5_001))
    preview = build_preview(text, ID, PATH, most_chars=1_000)
    gap = next(line for line in preview.split("\n") if line.startswith("[… "))
    last = int(gap.split()[4].replace(",", ""))

    assert f"{gap}\n{last + 1}\n" in preview
    assert preview.endswith("\n5000")


def test_an_errors_tail_is_the_larger_part() -> None:
    """Of an error the last lines stay, its name among them."""
    preview = build_preview(TRACEBACK, ID, PATH, is_error=True, most_chars=1_000)
    head, tail = preview.split("left out …]\n")

    assert tail.endswith("ValueError: the column 'price' is missing\n")
    assert len(tail) > len(head) - len(preview.split("\n")[0])


def test_the_line_that_names_the_error_is_kept() -> None:
    """An error whose message runs on for pages still shows the line that names it."""
    text = TRACEBACK + "more about it\n" * 500
    preview = build_preview(text, ID, PATH, is_error=True, most_chars=1_000)

    assert "ValueError: the column 'price' is missing\n" in preview
    assert preview.endswith("more about it\n")
    assert len(preview) <= 1_000


def test_an_error_without_a_name_keeps_its_last_line() -> None:
    """Where nothing looks like an error's name, the last line counts as it, its beginning first."""
    text = "building\n" * 900 + "fatal: " + "y" * 5_000
    preview = build_preview(text, ID, PATH, is_error=True, most_chars=1_000)

    assert "\nfatal: yyyy" in preview


def test_very_little_room() -> None:
    """With next to no room the handle and a few characters stay, of an error the last ones."""
    text = "begin " + "x" * 9_000 + " end"

    assert build_preview(text, ID, PATH, most_chars=0).endswith(f'"{ID}")]\nbegi')
    assert build_preview(text, ID, PATH, most_chars=0, is_error=True).endswith("]\n end")
    assert PATH not in build_preview(text, ID, PATH, most_chars=150)


def test_a_small_preview_has_a_short_header() -> None:
    """Size, lines, handle and path fit a small preview, with head and tail."""
    preview = build_preview("a\n" * 9_000 + "z", ID, PATH, most_chars=460)

    assert preview.startswith(
        f'[18,001 characters, 9,001 lines: read_result(tool_use_id="{ID}"); {PATH}]\na\n'
    )
    assert preview.endswith("\nz")


def test_long_paths_and_types_are_clipped() -> None:
    """A path keeps its end, a list of MIME types its beginning, on one clean line."""
    types = ["text/plain", "bad\ntype\ud800", *(f"application/{i}" for i in range(99))]
    preview = build_preview("x" * 9_000, ID, "/" + "p" * 900 + "/end.txt", mime_types=types)
    header = preview.split("\n")[0]

    assert "…" in header
    assert "/end.txt" in header
    assert "(text/plain, bad type\ufffd, application/0" in header
    assert len(header) < 600


def test_a_spooled_text_shows_its_ends() -> None:
    """Of a text on disk only the two ends are known; they are made valid, and the gap is exact."""
    spooled = SpooledText("/x", 9_000_000, 90_000, 9_000_000, "h\x00\n" * 900, "t\n" * 900)
    preview = build_preview(spooled, ID, PATH, most_chars=1_000)
    gap = next(line for line in preview.split("\n") if line.startswith("[… lines"))
    first, last = (int(word.replace(",", "")) for word in gap.split() if word[0].isdigit())
    head, tail = preview.split("]\n", 1)[1].split(gap + "\n")

    assert head.count("\n") == first - 1
    assert tail.count("\n") == 90_000 - last
    assert set(head) == {"h", "\ufffd", "\n"}


def test_the_body_does_not_grow_with_a_shorter_path() -> None:
    """What was counted with a long path holds with a short one, with none, and for any text."""
    text = "数" * 9_000

    for path in (PATH, "p", None):
        for most in (0, 460, 2_000):
            expected = build_preview(text, ID, "q" * 80, most_chars=most)
            preview = build_preview(text, ID, path, most_chars=most, path_chars=80)
            assert preview.count("数") <= expected.count("数")
            assert len(preview) <= len(expected)
