"""Laws of HTML as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.tools.html_text import html_to_text

PIECES = ["<", ">", "<a ", "'", '"', "<!--", "-->", "<table>", "<tr>", "<td>", "</table>", "&lt;"]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>One</p><p>two &amp; three</p>", "One\ntwo & three"),
        ("a<br>b<hr>c", "a\nb\nc"),
        ("<h2>Title</h2>text", "## Title\ntext"),
        ("<ul><li>a</li><li>b</li></ul>", "- a\n- b"),
        ("<pre>a  b\n  c</pre>", "a  b\n  c"),
        ("<b>one</b> <i> two</i>", "one two"),
        ("<script>var x = '<p>no</p>';</script>yes<style>p{}</style>", "yes"),
        ("<!-- no -->yes<!DOCTYPE html>", "yes"),
        ('<a title="x > y">link</a>', "link"),
        ('<img alt="a cat" src="cat.png">', "[image: a cat]"),
        ('<img src="data:image/png;base64,iVBORw0KGgo=">', "[image: image/png]"),
        ('<audio controls src="data:audio/wav;base64,UklGRg=="></audio>', "[audio: audio/wav]"),
        ('<progress value="3" max="10"></progress>', "[progress 3/10]"),
        ("<svg><text>hidden</text></svg>", "[SVG]"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("&#" + "9" * 5_000 + ";", "&#" + "9" * 5_000 + ";"),
        ("data:1,2,3 stays", "data:1,2,3 stays"),
        ("", ""),
    ],
)
def test_text_of_markup(markup: str, text: str) -> None:
    """What a reader would read is kept, in lines; the rest leaves at most a mark."""
    assert html_to_text(markup) == text


def test_a_row_of_a_table_is_a_line() -> None:
    """Cells are joined by bars; line breaks within a cell are blanks; empty rows are left out."""
    markup = (
        "<table><thead><tr><th></th><th>a</th></tr></thead><tbody>"
        "<tr><th>0</th><td>1<br>2</td></tr><tr></tr><tr><td>x<td>y</tbody></table>after"
    )

    assert html_to_text(markup) == " | a\n0 | 1 2\nx | y\nafter"


def test_a_table_in_a_cell_stays_in_its_line() -> None:
    """The rows of an inner table are joined, so that the outer row stays one line."""
    inner = "<table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table>"

    assert html_to_text(f"<table><tr><td>{inner}</td><td>z</td></tr></table>") == "1 | 2; 3 | z"


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5))).map("".join))
def test_any_text_is_accepted(markup: str) -> None:
    """Broken markup gives some text, never an error."""
    assert isinstance(html_to_text(markup), str)


@pytest.mark.parametrize(
    "piece",
    ["<", "<a ", "<!--", "<a b=\"", "<script>", "</", "<![CDATA[", '<a ">"', "<a '>", "<table>",
     "<table><tr><td>x", "&", "<img alt=\"", "data:a/b;"],
)  # fmt: skip
def test_long_broken_markup_ends(piece: str) -> None:
    """The work grows with the markup: these would run for hours if it grew with its square."""
    markup = piece * (1_000_000 // len(piece))

    assert len(html_to_text(markup)) <= 2 * len(markup)
