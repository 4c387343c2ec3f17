"""Laws of outputs: what a model sees of them."""

import base64
import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.tools.html_text import html_to_text
from jupyter_ctx.tools.outputs import MAX_IMAGES, render_outputs, summarise_outputs
from jupyter_ctx.tools.repeats import count_repeats

from ..pictures import png
from . import mime_examples
from .examples import CORPUS, bundle, corpus_notebooks, fixture, outputs_of, stream

UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
BASE64 = re.compile("[A-Za-z0-9+/]{200,}")


def render(*outputs: object) -> str:
    """Return the text of some outputs."""
    return render_outputs(outputs).text


def test_no_output_is_no_text() -> None:
    """Nothing in, nothing out; a stream of no characters is no output either."""
    assert render_outputs([]).text == ""
    assert render(stream("")) == ""


@pytest.mark.parametrize(
    "text", ["5\n", "no newline", "  indented\n\n", "日本語\t|\n", "x" * 50_001]
)
def test_a_stream_comes_back_verbatim(text: str) -> None:
    """Printed text is kept character for character."""
    assert render(stream(text)) == text


def test_pieces_of_a_stream_are_one() -> None:
    """A progress bar written in many pieces ends in its last state."""
    pieces = [stream(f"\r{n}%", "stderr") for n in range(0, 101, 5)]

    assert render(*pieces) == "100%"


def test_outputs_stand_in_order_on_lines_of_their_own() -> None:
    """Text, error stream and result follow one another as they came."""
    outputs = [stream("a"), stream("b\n", "stderr"), stream("c"), bundle(text__plain="42")]

    assert render(*outputs) == "a\nb\nc\n42"


def test_a_frame_is_shown_plain() -> None:
    """The plain form is taken, not the markup; both types are named."""
    rendered = render_outputs([fixture("frame")])

    assert rendered.text == "   city  people\n0  Oslo  709037\n[1 rows x 2 columns]"
    assert rendered.mime_types == ("text/html", "text/plain")


def test_a_table_without_plain_form_is_rows() -> None:
    """Where the plain form says only the type, HTML tables become lines."""
    assert render(fixture("styled_table")) == (
        "People & places\n | city | people\n0 | Oslo | 709 037\n1 | Bergen | 291 940"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "plotly",
            '[plotly figure "Sales by region": 2 traces (scatter "north" 3 points x 1–3 y 4–6,'
            ' bar "south" 3 points x 1–3 y 4–6)]',
        ),
        ("vega_lite", '[Vega-Lite chart "Horsepower" (mark point, x=hp, y=mpg, 2 rows)]'),
        ("bokeh", "[Bokeh plot]"),
    ],
)
def test_charts_are_one_line(name: str, said: str) -> None:
    """A program for a browser is described, not shown."""
    assert render(fixture(name)) == said


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ({"text/markdown": "**hi**", "text/plain": "<IPython.core.display.Markdown object>"},
         "**hi**"),
        ({"text/latex": "$x^2$", "text/plain": "<IPython.core.display.Latex object>"}, "$x^2$"),
        ({"application/json": {"a": [1, "é"]}, "text/plain": "<IPython.core.display.JSON object>"},
         '{"a": [1, "é"]}'),
        ({"application/pdf": "JVBERi0x" * 100, "text/plain": "<IPython.core.display.Pdf object>"},
         "[IPython.core.display.Pdf: application/pdf, 600 bytes]"),
        ({"application/javascript": "alert(1)"}, "[application/javascript, 8 characters]"),
        ({"audio/wav": "UklGRg==" * 50}, "[audio/wav, 300 bytes]"),
        ({"application/vnd.own.v1+json": {"k": 1}}, '[application/vnd.own.v1+json: {"k": 1}]'),
        ({"text/x-rst": "*rst*"}, "*rst*"),
        ({"application/x-odd": {"k": 1}}, "[application/x-odd, 6 bytes]"),
        ({"text/html": "<script>x()</script>"}, "[text/html, 20 characters]"),
        ({"image/svg+xml": "<svg width='4' height='5'><text>Hi</text></svg>"},
         "[SVG picture 4×5, 47 characters: Hi]"),
        ({"application/vnd.jupyter.widget-view+json": {"model_id": "x"},
          "text/plain": "IntSlider(value=7)"}, "[widget: IntSlider(value=7)]"),
        ({"text/plain": ""}, "[text/plain, 0 characters]"),
        ({}, "[display_data without data]"),
    ],
)  # fmt: skip
def test_the_best_form_is_taken(types: dict[str, object], said: str) -> None:
    """Markdown, LaTeX and JSON are text; what is for machines is named by type and size."""
    assert render({"output_type": "display_data", "data": types, "metadata": {}}) == said


def test_a_picture_is_a_picture() -> None:
    """A PNG comes as an image and as one line that says so; its base64 is nowhere in the text."""
    picture = png(30, 20)
    rendered = render_outputs([bundle(image__png=picture.data, text__plain="<Figure size 3x2>")])

    assert rendered.images == (picture,)
    assert rendered.text == "[image/png 30×20: <Figure size 3x2>]"


def test_a_broken_picture_is_a_line() -> None:
    """What cannot be shown is said, and no image is sent."""
    rendered = render_outputs([bundle(image__png="iVBORw0KGgo" + "A" * 400)])

    assert rendered.images == ()
    assert rendered.text.startswith("[image/png, 411 characters, not shown: broken")


def test_pictures_are_bounded() -> None:
    """Of ten thousand pictures the first ones are sent and the others counted."""
    rendered = render_outputs([bundle(image__png=png(5, 5).data)] * 10_000)

    assert len(rendered.images) == MAX_IMAGES
    assert rendered.text.endswith(f"[the same output {10_000 - MAX_IMAGES - 1:,} more times]")
    assert len(rendered.text) < 2_000


def test_base64_of_media_stays_out_of_text() -> None:
    """Printed data URIs and encoded files are named by size; other long words are kept."""
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4).decode()
    genome = "ACGT" * 5_000

    shown = render(stream(f"<img src='data:image/png;base64,{data}'>\n{data}\n{genome}"))

    assert data[:60] not in shown
    assert "[data:image/png, " in shown
    assert shown.endswith(genome)


def test_an_error_shows_the_users_frames_whole() -> None:
    """The user's lines stay, a library's frame is its place and line, and no colour is left."""
    shown = render(fixture("library_error"))

    assert "      1 def mine(df):\n----> 2     return df['nope']\n" in shown
    assert "-> 4102 indexer = self.columns.get_loc(key)" in shown
    assert "4101" not in shown
    assert "^^^" not in shown
    assert "The above exception was the direct cause" in shown
    assert shown.endswith("KeyError: 'nope'")


def test_library_frames_in_a_row_are_cut() -> None:
    """Of many frames of libraries the first and the last two are shown."""
    frames = [f"File /v/site-packages/lib/m{n}.py:{n}, in f(x)\n--> {n} f(x)" for n in range(9)]
    error = {
        "output_type": "error",
        "ename": "E",
        "evalue": "v",
        "traceback": [*frames, "", "E: v"],
    }

    shown = render(error)

    assert "… 6 frames of libraries left out" in shown
    assert [n for n in range(9) if f"m{n}.py" in shown] == [0, 7, 8]


def test_a_syntax_error_is_said_once() -> None:
    """Its message and its traceback differ in words; the traceback's are enough."""
    lines = ["  Cell In[1], line 1\n    f(:\n      ^\nSyntaxError: invalid syntax\n"]
    evalue = "invalid syntax (<string>, line 1)"
    error = {"output_type": "error", "ename": "SyntaxError", "evalue": evalue, "traceback": lines}

    assert render(error) == "  Cell In[1], line 1\n    f(:\nSyntaxError: invalid syntax"


@pytest.mark.parametrize("traceback", [[], None, ["\x1b[31mValueError\x1b[0m: no"], ["elsewhere"]])
def test_what_was_raised_is_always_said(traceback: object) -> None:
    """Name and message are there, once, whatever the traceback holds."""
    error = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": traceback}

    assert render(error).count("ValueError: no") == 1


def test_old_notebooks_are_understood() -> None:
    """Outputs of nbformat 2 and 3 keep their types in short names."""
    assert render({"output_type": "pyout", "text": ["1\n", "2"], "prompt_number": 3}) == "1\n2"
    assert render({"output_type": "stream", "stream": "stdout", "text": ["a", "b"]}) == "a\nb"
    assert "ValueError: no" in render(
        {"output_type": "pyerr", "ename": "ValueError", "evalue": "no"}
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
kinds = st.sampled_from(["stream", "display_data", "execute_result", "error", "pyout", "odd", ""])
fields = st.sampled_from(["text", "data", "ename", "evalue", "traceback", "name", "metadata"])
text_mimes = ["text/plain", "text/html", "text/latex", "application/json", "image/svg+xml"]
odd_mimes = ["image/png", "image/jpeg", "application/pdf", "application/vnd.plotly.v1+json", "odd"]
mimes = st.sampled_from([*text_mimes, *odd_mimes])
bundles = st.dictionaries(mimes, json_values, max_size=3)
any_output = st.one_of(
    json_values,
    st.builds(
        lambda kind, rest, data: {"output_type": kind, **rest, **({"data": data} if data else {})},
        kinds,
        st.dictionaries(fields, json_values, max_size=3),
        bundles,
    ),
)


@given(st.lists(any_output, max_size=4))
def test_any_json_is_accepted(outputs: list[Any]) -> None:
    """Whatever stands in a notebook, something fit to be sent comes of it."""
    rendered = render_outputs(outputs)

    assert rendered.text.encode().decode() == rendered.text
    assert not UNFIT.search(rendered.text)
    assert summarise_outputs(outputs)
    for output in outputs:
        is_stream = isinstance(output, dict) and output.get("output_type") == "stream"
        assert is_stream or render_outputs([output]).text


def test_the_summary_holds_no_output() -> None:
    """A summary names kinds and sizes only, in one short line."""
    outputs = [stream("secret " * 30_000), bundle(image__png="iVBOR", text__plain="<Figure>")]
    outputs.append({"output_type": "error", "ename": "KeyError", "evalue": "secret"})

    said = summarise_outputs(outputs)

    assert said == "stdout (210,000 characters), image/png, error KeyError"
    assert summarise_outputs([stream("1")]) == "stdout (1 character)"
    assert summarise_outputs([]) == "none"


def test_a_long_line_and_many_lines_pass() -> None:
    """A megabyte in one line and twenty thousand lines come back whole."""
    long_line, lines = "x" * 1_000_000, "\n".join(map(str, range(20_000)))

    assert render(stream(long_line)) == long_line
    assert render(stream(lines)) == lines


@pytest.mark.parametrize("path", corpus_notebooks() or [CORPUS / "absent"], ids=lambda p: p.stem)
def test_every_output_of_a_real_notebook_is_fit(path: Path) -> None:
    """Each output gives some bounded, valid text without control characters or base64."""
    if not path.exists():
        pytest.skip("../shared/corpus is absent: real notebooks were not looked at")
    for outputs in outputs_of(path):
        for output in outputs:
            rendered = render_outputs([output])
            assert rendered.text.encode()
            assert not UNFIT.search(rendered.text)
            assert not BASE64.search(rendered.text)
            assert len(rendered.text) <= len(json.dumps(output)) + 300


# Kind by kind -------------------------------------------------------------------------------------


def test_the_table_of_mime_types_is_up_to_date() -> None:
    """`mime_types.md` shows what the model gets of each kind of our own examples."""
    page = mime_examples.TABLE.read_text(encoding="utf-8")

    assert page.startswith(mime_examples.HEAD + mime_examples.render_table())


def test_the_table_of_the_corpus_is_up_to_date() -> None:
    """`mime_types.md` shows every set of MIME types of the corpus, with its first output."""
    if not CORPUS.exists():
        pytest.skip("NO CORPUS: ../shared/corpus is absent, so its MIME types were not looked at")
    page = mime_examples.TABLE.read_text(encoding="utf-8")

    assert page.endswith(mime_examples.CORPUS_HEAD + mime_examples.render_corpus_table())


@pytest.mark.parametrize("name", list(mime_examples.examples()))
def test_no_kind_is_empty_or_base64(name: str) -> None:
    """Every kind gives some text, and no encoded bytes are in it."""
    rendered = render_outputs([mime_examples.examples()[name]], widgets=mime_examples.WIDGETS)

    assert rendered.text.strip()
    assert not re.search("[A-Za-z0-9+/]{60,}", rendered.text)


@pytest.mark.parametrize(
    "data", [b"\x00\x01" * 400, json.dumps(list(range(900))).encode()], ids=["bytes", "json"]
)
def test_encoded_bytes_of_any_kind_stay_out(data: bytes) -> None:
    """Wrapped or not, known file or not: long base64 is named by its size."""
    mixed = bytes(n * 7 % 256 for n in range(900)) + data
    wrapped = base64.encodebytes(mixed).decode()

    for text in (base64.b64encode(mixed).decode(), wrapped):
        shown = render(stream(f"before\n{text}\nafter\n"))
        assert re.fullmatch(r"before\n\[base64, [\d,]+ characters\]\n+after\n", shown)


def test_equal_lines_are_counted() -> None:
    """A run of equal lines, or of equal blocks, is told once with its number; short ones stay."""
    warning = "m.py:3: FutureWarning: this will go\n  frame.append(row)\n"

    assert render(stream(f"a\n{warning * 50}b\n")) == (
        f"a\n{warning}[the 2 lines above 49 more times]\nb\n"
    )
    assert render(stream("ok\n" * 20)) == "ok\n" * 20
    assert render(stream("\n" * 2_000)) == "\n" * 2_000


def test_a_live_widget_shows_its_state() -> None:
    """In the kernel a widget is told as it stands now, not as it was when shown."""
    widgets = pytest.importorskip("ipywidgets")
    bar = widgets.IntProgress(value=2, max=9, description="Rows")
    bar.value = 9
    plain = "IntProgress(value=2, description='Rows', max=9)"
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": bar.model_id}}

    shown = render({"output_type": "display_data", "data": {**view, "text/plain": plain}})
    bar.close()

    assert shown == "[widget: Rows 9/9]"


def test_a_million_updates_are_bounded() -> None:
    """A million equal outputs are one and a number; nothing of them is kept."""
    tracemalloc.start()
    try:
        shown = render_outputs(bundle(text__plain="same") for _ in range(100_000)).text
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert shown == "same\n[the same output 99,999 more times]"
    assert peak < 1_000_000


def test_three_thousand_frames_are_bounded() -> None:
    """Of a deep recursion the first and the last frames are shown, and what was raised."""
    frame = (
        "Cell In[1], line {n}, in walk(n)\n      1 def walk(n):\n----> 2     return walk(n - 1)\n"
    )
    traceback = [frame.format(n=n) for n in range(3_000)]
    error = {
        "output_type": "error",
        "ename": "RecursionError",
        "evalue": "maximum recursion depth exceeded",
        "traceback": [*traceback, "RecursionError: maximum recursion depth exceeded"],
    }

    shown = render(error)

    assert "… 2,970 frames left out" in shown
    assert "line 0, in walk" in shown
    assert "line 2999, in walk" in shown
    assert shown.endswith("RecursionError: maximum recursion depth exceeded")
    assert len(shown) < 5_000


def test_a_table_of_five_thousand_columns_is_read_once() -> None:
    """A frame shown with all its columns becomes rows, with its shape."""
    cells = "".join(f"<td>{n}</td>" for n in range(5_000))
    heads = "".join(f"<th>c{n}</th>" for n in range(5_000))
    table = (
        f"<table class='dataframe'><thead><tr>{heads}</tr></thead><tbody><tr>{cells}</tr></tbody>"
    )

    shown = render(bundle(text__html=table + "</table>"))

    assert shown.startswith("c0 | c1 | c2 |")
    assert shown.endswith("4999\n[1 rows x 5,000 columns]")


def test_cells_that_reach_over_others_keep_columns_in_line() -> None:
    """A cell over two rows is told in both; one over two columns leaves an empty one."""
    rows = "<tr><td rowspan=2>a</td><td colspan='2'>b</td></tr><tr><td>c</td><td>d</td></tr>"

    assert (
        html_to_text(f"<table>{rows}<tr><td>e</td></tr></table>")
        == "a | b |\na | c | d\ne\n".strip()
    )


@given(st.text(alphabet="ab \n", max_size=400))
def test_counting_changes_no_short_text(text: str) -> None:
    """A text under the bound comes back as it is."""
    assert count_repeats(text) == text
