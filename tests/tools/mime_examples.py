"""One small output of every kind a notebook may hold, and the table of what the model gets.

`python -m tests.tools.mime_examples` writes `mime_types.md` anew.
"""

from __future__ import annotations

import base64
import json
import struct
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_ctx.tools.outputs import Rendered, render_outputs

from ..pictures import png
from .examples import CORPUS, bundle, corpus_notebooks, fixture, stream

TABLE = Path(__file__).parent / "mime_types.md"
SHOWN_CHARS = 240

WIDGETS: Mapping[str, Any] = {
    "application/vnd.jupyter.widget-state+json": {
        "version_major": 2,
        "state": {
            "slider": {
                "model_name": "IntSliderModel",
                "state": {"description": "Rows", "value": 7, "max": 10},
            },
            "words": {"model_name": "HTMLModel", "state": {"value": "Epoch 3:&nbsp;100%"}},
            "place": {"model_name": "FloatProgressModel", "state": {"value": 9, "max": 9}},
            "after": {"model_name": "HTMLModel", "state": {"value": "9/9 [00:04]"}},
            "bar": {
                "model_name": "HBoxModel",
                "state": {"children": [f"IPY_MODEL_{n}" for n in ("words", "place", "after")]},
            },
            "choice": {
                "model_name": "DropdownModel",
                "state": {"description": "City", "_options_labels": ["Oslo", "Rome"], "index": 1},
            },
            "tabs": {
                "model_name": "TabModel",
                "state": {
                    "titles": ["A", "B"],
                    "children": ["IPY_MODEL_slider", "IPY_MODEL_choice"],
                },
            },
        },
    }
}


def wave() -> str:
    """Return half a second of silence as base64."""
    data = bytes(8_000)
    form = struct.pack("<HHIIHH", 1, 1, 8_000, 16_000, 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", 8_000) + data
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(body)) + body).decode()


def of(types: Mapping[str, Any]) -> dict[str, object]:
    """Return an output of these MIME types, whose names are no Python names."""
    return bundle(**types)


def view(model_id: str, plain: str = "Box(children=(…))") -> dict[str, object]:
    """Return the output of a widget."""
    return of(
        {
            "application__vnd.jupyter.widget-view+json": {"model_id": model_id},
            "text__plain": plain,
        }
    )


def examples() -> dict[str, object]:
    """Return the outputs, by what they are."""
    picture, sound = png(30, 20).data, wave()
    bar = "".join(f"\r{n:3}%|{'#' * (n // 25)}" for n in range(0, 101, 5))
    table = (
        "<table class='dataframe'><thead><tr><th></th><th colspan='2'>2026</th></tr></thead>"
        "<tbody><tr><th rowspan='2'>Oslo</th><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr>"
        "</tbody></table>"
    )
    colab = {"type": "dataframe", "summary": json.dumps(
        {"fields": [{"column": "city", "properties": {"dtype": "string"}}]}
    )}  # fmt: skip
    vega = {
        "layer": [
            {"mark": "bar", "encoding": {"x": {"field": "hp"}, "y": {"aggregate": "count"}}},
            {"mark": {"type": "rule"}, "encoding": {"x": {"aggregate": "mean", "field": "hp"}}},
        ],
        "data": {"values": [{"hp": 1}, {"hp": 2}]},
    }
    packed = base64.b64encode(struct.pack("<3d", 1, 5, 3)).decode()
    plotly = {"data": [{"y": {"dtype": "f8", "bdata": packed}}], "layout": {}}
    svg = "<svg width='40pt' height='30pt'><g class=\"node\"><text>root</text></g></svg>"
    bokeh = '{"type":"object","name":"Line"},{"axis_label":"month"},{"text":"Sales"}'
    place = {"geometry": {"type": "Point"}, "properties": {"name": "Oslo"}}
    return {
        "text/plain": bundle("execute_result", text__plain="42"),
        "stream": stream("rows: 5\n"),
        "stream, progress bar": stream(bar, "stderr"),
        "stream, equal lines": stream("start\n" + "UserWarning: this is no good at all\n" * 400),
        "stream, base64": stream(base64.b64encode(bytes(range(256)) * 4).decode()),
        "error": fixture("library_error"),
        "text/html, frame": fixture("frame"),
        "text/html, frame with spans": bundle(text__html=table, text__plain="  2026\nOslo 1 2" * 9),
        "text/html, frame of Colab": of(
            {
                "text__html": "<table class='dataframe'><tr><td>Oslo</td></tr></table>",
                "text__plain": "   city\n0  Oslo",
                "application__vnd.google.colaboratory.intrinsic+json": colab,
            }
        ),
        "text/html, styled": fixture("styled_table"),
        "text/html, scripts only": bundle(text__html="<script>draw()</script>"),
        "text/html, picture in a data URI": bundle(
            text__html=f"<img src='data:image/png;base64,{picture}'>",
            text__plain="<IPython.core.display.HTML object>",
        ),
        "text/html, sound": bundle(
            text__html=f"<audio controls><source src='data:audio/wav;base64,{sound}'></audio>",
            text__plain="<IPython.lib.display.Audio object>",
        ),
        "text/html, film": bundle(
            text__html=f"<video src='data:video/mp4;base64,{'AAAA' * 99}'></video>",
            text__plain="<IPython.core.display.Video object>",
        ),
        "text/markdown": bundle(text__markdown="**hi**", text__plain="<Markdown object>"),
        "text/latex": bundle(text__latex="$x^2 + y$", text__plain=" 2    \nx  + y"),
        "text/x-rst": of({"text__x-rst": "*rst*"}),
        "image/png": bundle(image__png=picture, text__plain="<Figure size 3x2 with 1 Axes>"),
        "image/png, broken": bundle(image__png="iVBORw0KGgo" + "A" * 40),
        "image/svg+xml": of({"image__svg+xml": svg, "text__plain": "<Svg object>"}),
        "application/json": bundle(application__json={"a": [1, 2]}),
        "application/javascript": bundle(application__javascript="alert(1)"),
        "application/pdf": bundle(application__pdf="JVBERi0x" * 9),
        "application/geo+json": of({"application__geo+json": {"features": [place, place]}}),
        "audio/wav": bundle(audio__wav=sound),
        "video/mp4": bundle(video__mp4="AAAA" * 99),
        "application/vnd.plotly.v1+json": fixture("plotly"),
        "application/vnd.plotly.v1+json, packed": of({"application__vnd.plotly.v1+json": plotly}),
        "application/vnd.vegalite.v5+json": fixture("vega_lite"),
        "application/vnd.vegalite.v5+json, layers": of({"application__vnd.vegalite.v5+json": vega}),
        "application/vnd.bokehjs_exec.v0+json": of(
            {"application__vnd.bokehjs_exec.v0+json": "", "application__javascript": bokeh}
        ),
        "application/vnd.bokehjs_load.v0+json": of({"application__vnd.bokehjs_load.v0+json": ""}),
        "application/vnd.holoviews_exec.v0+json": of(
            {
                "application__vnd.holoviews_exec.v0+json": "",
                "text__plain": ":Curve   [x]   (y)",
                "text__html": "<div></div>",
            }
        ),
        "application/vnd.jupyter.widget-view+json, slider": view("slider"),
        "application/vnd.jupyter.widget-view+json, progress bar": view("bar"),
        "application/vnd.jupyter.widget-view+json, tabs": view("tabs"),
        "application/vnd.jupyter.widget-view+json, state lost": view("gone", "IntSlider(value=7)"),
        "application/vnd.jupyter.widget-view+json, bar lost": view("gone", "0%| | 0/9 [00:00<?]"),
        "application/vnd.own.v1+json": of({"application__vnd.own.v1+json": {"k": 1}}),
        "application/octet-stream": of({"application__octet-stream": "AAAA" * 9}),
        "nothing": bundle(),
    }


def render_table() -> str:
    """Return the table of our own examples."""
    rows = (
        f"| {name} | {cell(render_outputs([output], widgets=WIDGETS))} |"
        for name, output in examples().items()
    )
    return "\n".join(["| Output | What the model gets |", "|---|---|", *rows, ""])


def render_corpus_table() -> str:
    """Return the table of the corpus: each set of MIME types, how often, and its first output."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for path in corpus_notebooks():
        notebook = json.loads(path.read_text(encoding="utf-8"))
        widgets = notebook.get("metadata", {}).get("widgets", {})
        for output in all_outputs(notebook):
            kind = kind_of(output)
            counts[kind] += 1
            first.setdefault(kind, cell(render_outputs([output], widgets=widgets)))
    rows = (f"| {kind} | {counts[kind]:,} | {first[kind]} |" for kind in sorted(counts))
    return "\n".join(["| Output | Count | The first one |", "|---|---|---|", *rows, ""])


def all_outputs(notebook: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the outputs of all cells, of any version of the format."""
    cells = list(notebook.get("cells", []))
    for sheet in notebook.get("worksheets", []):
        cells.extend(sheet.get("cells", []))
    return [output for one in cells for output in one.get("outputs") or []]


def kind_of(output: Mapping[str, Any]) -> str:
    """Return an output's MIME types, or what it is."""
    data = output.get("data")
    if isinstance(data, Mapping):
        return " + ".join(sorted(data))
    if output["output_type"] in ("stream", "error", "pyerr"):
        return str(output["output_type"])
    names = sorted(set(output) - {"output_type", "metadata", "prompt_number"})
    return f"{output['output_type']} of an older format: {' + '.join(names)}"


def cell(rendered: Rendered) -> str:
    """Return what the model gets in one table cell."""
    text = rendered.text if len(rendered.text) <= SHOWN_CHARS else rendered.text[:SHOWN_CHARS] + "…"
    said = "<br>".join(text.strip("\n").split("\n")).replace("|", "\\|").replace("`", "ˋ")
    said = said.replace("/tmp/", "…/")  # where a notebook of the corpus happened to run
    pictures = f" and {len(rendered.images)} picture" if rendered.images else ""
    return f"`{said}`{pictures}"


HEAD = """# What the model gets, MIME type by MIME type

Written by `python -m tests.tools.mime_examples`; a test holds it to the code.
Texts longer than 240 characters are cut here, not for the model.

## Our own examples

"""

CORPUS_HEAD = """
## The notebooks of the corpus

"""


def main() -> None:
    """Write the page anew; without the corpus its part stays as it was."""
    old = TABLE.read_text(encoding="utf-8") if TABLE.exists() else ""
    corpus = render_corpus_table() if CORPUS.exists() else old.partition(CORPUS_HEAD)[2]
    TABLE.write_text(HEAD + render_table() + CORPUS_HEAD + corpus, encoding="utf-8")


if __name__ == "__main__":
    main()
