"""One line for outputs that are programs for a browser: plotly, Vega, Bokeh, widgets, SVG."""

from __future__ import annotations

import base64
import html
import json
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping

from .lines import shorten

SVG_CHARS = 400_000
"""So much of an SVG picture is searched for words, in characters."""

SVG_WORDS_CHARS = 800
"""Longest list of an SVG picture's words."""

RANGE_VALUES = 100_000
"""The range of a chart's values is told of so many."""

BOKEH_CHARS = 4_000_000
"""So much of a Bokeh script is searched, in characters."""

MOST_VIEWS = 40
"""So many views of a chart that is made of several are described."""

_SVG_COMMENT = re.compile(r"<!-- ([^<>]{1,200}?) -->")
_EDGE = re.compile(r"\w{1,20}(?:->|--)\w{1,20}|\d{1,6}|Tree|%3|Created with matplotlib.*")
_SVG_TEXT = re.compile(r"<(?:title|text|tspan)\b[^<>]{0,2000}>([^<>]{1,500})<", re.IGNORECASE)
_SVG_SIZE = re.compile(r"<svg\b[^<>]{0,4000}", re.IGNORECASE)
_AXES = ("x", "y", "z", "values", "r", "theta", "lat", "lon")
_PACKED = {"f8": "d", "f4": "f", "i4": "i", "i2": "h", "i1": "b", "u4": "I", "u2": "H", "u1": "B"}
_BOKEH_NAME = re.compile(r'"(?:name|type)":"(\w{1,40})"')
_BOKEH_WORDS = re.compile(r'"(?:axis_label|text|title)":"([^"\\]{1,200})"')
_GLYPHS = frozenset(
    {"Line", "Scatter", "Circle", "VBar", "HBar", "Quad", "Patch", "Patches", "Image", "MultiLine"}
    | {"Rect", "Segment", "Step", "VArea", "HArea", "Wedge", "Text", "ImageRGBA", "HexTile"}
)
_NOTHING: Mapping[str, object] = {}


def describe_chart(mime: str, value: object, data: Mapping[str, object]) -> str | None:
    """Return one line about `value` of type `mime`, None if `mime` is no chart.

    `data` is the bundle it is part of: Bokeh keeps its document in a script beside it.
    """
    if mime.startswith("application/vnd.plotly."):
        return _plotly(_as_object(value))
    if mime.startswith(("application/vnd.vega.", "application/vnd.vegalite.")):
        return _vega(mime, _as_object(value))
    if mime.startswith("application/vnd.bokehjs_load"):
        return "[Bokeh loaded]"
    if mime.startswith("application/vnd.bokehjs"):
        return _bokeh(data)
    if mime.startswith("application/vnd.holoviews"):
        return _holoviews(data)
    if mime in ("application/geo+json", "application/vnd.geo+json"):
        return _geojson(_as_object(value))
    return None


def describe_svg(markup: str, label: str = "") -> str:
    """Return one line about an SVG picture: its size as written, and the words in it.

    The words are its texts; where letters are drawn as paths (matplotlib), the comments that name
    them; of a drawn graph the number of nodes and edges too.
    """
    head = match[0] if (match := _SVG_SIZE.search(markup)) else ""
    width, height = _svg_attr(head, "width"), _svg_attr(head, "height")
    part = markup[:SVG_CHARS]
    words = [html.unescape(word).strip() for word in _SVG_TEXT.findall(part)]
    if not any(words):
        words = [html.unescape(word) for word in _SVG_COMMENT.findall(part)]
    words = [word for word in words if word and not _EDGE.fullmatch(word)]
    size = f" {width}×{height}" if width and height else ""
    nodes, edges = part.count('class="node"'), part.count('class="edge"')
    graph = f", {nodes:,} nodes, {edges:,} edges" if nodes else ""
    said = shorten("; ".join(filter(None, [label, *words])), SVG_WORDS_CHARS)
    return f"[SVG picture{size}{graph}, {len(markup):,} characters{': ' + said if said else ''}]"


def _plotly(figure: Mapping[str, object]) -> str:
    data = figure.get("data")
    traces = list(data) if isinstance(data, list | tuple) else []
    said = [_plotly_trace(_as_object(trace)) for trace in traces[:8]]
    if len(traces) > len(said):
        said.append(f"… {len(traces) - len(said):,} more")
    title = _title(_as_object(figure.get("layout")).get("title"))
    many = "trace" if len(traces) == 1 else "traces"
    axes = _axis_titles(_as_object(figure.get("layout")))
    return f"[plotly figure{title}: {len(traces):,} {many}{_listed(said)}{axes}]"


def _axis_titles(layout: Mapping[str, object]) -> str:
    titles = (_title(_as_object(layout.get(f"{axis}axis")).get("title")) for axis in "xyz")
    said = [f"{axis}{title}" for axis, title in zip("xyz", titles, strict=True) if title]
    return f"; {', '.join(said)}" if said else ""


def _plotly_trace(trace: Mapping[str, object]) -> str:
    """Return type, name, number of points and the ranges of a trace."""
    kind, name = trace.get("type"), trace.get("name")
    said = kind if isinstance(kind, str) else "scatter"
    said = shorten(f'{said} "{name}"' if isinstance(name, str) and name else said, 60)
    known = {axis: found for axis in _AXES if (found := _plotly_values(trace.get(axis)))}
    if not known:
        return said
    points = max(len(values) for values in known.values())
    ranges = [f"{axis} {range_}" for axis, one in known.items() if (range_ := _range_of(one))]
    return " ".join([said, f"{points:,} points", *ranges])


def _plotly_values(values: object) -> list[object]:
    """Return the values of an axis, also packed ones (`{"dtype": "f8", "bdata": base64}`)."""
    if isinstance(values, list | tuple):
        return list(values)
    packed = _as_object(values) if isinstance(values, Mapping) else _NOTHING
    kind, data = _PACKED.get(str(packed.get("dtype"))), packed.get("bdata")
    if kind is None or not isinstance(data, str):
        return []
    try:
        raw = base64.b64decode(data)
    except ValueError:
        return []
    size = struct.calcsize(kind)
    return list(struct.unpack(f"<{len(raw) // size}{kind}", raw[: len(raw) // size * size]))


def _range_of(values: list[object]) -> str:
    """Return `1–9` of numbers, the first and last of texts, "" if there is nothing to tell."""
    values = values[:RANGE_VALUES]
    numbers = [one for one in values if type(one) in (int, float) and one == one]
    if numbers and len(numbers) == sum(one is not None and one == one for one in values):
        low, high = min(numbers), max(numbers)  # type: ignore[type-var]  # numbers, as just asked
        return f"{low:g}–{high:g}"
    texts = [one for one in values if isinstance(one, str)]
    return f"{shorten(texts[0], 20)}–{shorten(texts[-1], 20)}" if texts else ""


def _vega(mime: str, spec: Mapping[str, object]) -> str:
    """Return marks, encodings, transformations and the number of rows of a chart."""
    kind = "Vega-Lite" if "vegalite" in mime else "Vega"
    said: list[str] = []
    for n, view in enumerate(_views(spec)):
        mark = view.get("mark")
        mark = _as_object(mark).get("type") if isinstance(mark, Mapping) else mark
        if isinstance(mark, str):
            said.append(f"mark {shorten(mark, 40)}")
        for channel, encoding in list(_as_object(view.get("encoding")).items())[:12]:
            if (text := _encoding(_as_object(encoding))) and n < 8:
                said.append(shorten(f"{channel}={text}", 60))
    rows = _rows_of(spec)
    return f"[{kind} chart{_title(spec.get('title'))}{_listed(said + rows)}]"


def _views(spec: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield the views of a layered, concatenated or repeated chart, MOST_VIEWS at most."""
    waiting, seen = [spec], 0
    while waiting and seen < MOST_VIEWS:
        view = waiting.pop(0)
        seen += 1
        yield view
        for name in ("layer", "hconcat", "vconcat", "concat", "marks"):
            inner = view.get(name)
            waiting += [_as_object(one) for one in inner] if isinstance(inner, list) else []
        if isinstance(view.get("spec"), Mapping):
            waiting.append(_as_object(view["spec"]))


def _encoding(encoding: Mapping[str, object]) -> str:
    """Return `mean(mpg)`, `hp`, `count()`."""
    name, how = encoding.get("field"), encoding.get("aggregate")
    name = name if isinstance(name, str) else ""
    return f"{how}({name})" if isinstance(how, str) else name


def _rows_of(spec: Mapping[str, object]) -> list[str]:
    sets = [_as_object(spec.get("data")).get("values")]
    sets.extend(_as_object(spec.get("datasets")).values())
    rows = sum(len(one) for one in sets if isinstance(one, list))
    return [f"{rows:,} rows"] if rows else []


def _bokeh(data: Mapping[str, object]) -> str:
    """Return titles, axis labels and glyphs of the document in the script beside it."""
    script = data.get("application/javascript")
    script = "".join(script) if isinstance(script, list) else script
    text = script[:BOKEH_CHARS] if isinstance(script, str) else ""
    glyphs = Counter(name for name in _BOKEH_NAME.findall(text) if name in _GLYPHS)
    words = dict.fromkeys(shorten(word, 60) for word in _BOKEH_WORDS.findall(text))
    said = [f"{name} ×{count}" if count > 1 else name for name, count in glyphs.items()]
    return f"[Bokeh plot{_listed([*said, *list(words)[:12]])}]"


def _holoviews(data: Mapping[str, object]) -> str:
    plain = data.get("text/plain")
    text = "".join(plain) if isinstance(plain, list) else plain
    said = shorten(text) if isinstance(text, str) else ""
    return f"[HoloViews plot {said}]" if said else "[HoloViews plot]"


def _geojson(value: Mapping[str, object]) -> str:
    """Return how many of which geometries, and the names of their properties."""
    features = value.get("features")
    listed = [_as_object(one) for one in features] if isinstance(features, list) else [value]
    kinds = Counter(str(_as_object(one.get("geometry")).get("type") or "?") for one in listed)
    said = [f"{count:,} {shorten(kind, 20)}" for kind, count in kinds.most_common(6)]
    names = list(_as_object(listed[0].get("properties")))[:12] if listed else []
    if names:
        said.append(f"properties {shorten(', '.join(map(str, names)))}")
    return f"[GeoJSON{_listed(said)}]"


def _title(value: object) -> str:
    text = _as_object(value).get("text") if isinstance(value, Mapping) else value
    return f' "{shorten(text)}"' if isinstance(text, str) and text.strip() else ""


def _listed(said: list[str]) -> str:
    return f" ({', '.join(said)})" if said else ""


def _as_object(value: object) -> Mapping[str, object]:
    """Return `value` as a JSON object, {} if it is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return _NOTHING
    return value if isinstance(value, Mapping) else _NOTHING


def _svg_attr(tag: str, name: str) -> str:
    found = re.search(rf"\s{name}\s?=\s?[\"']([\w.%]{{1,20}})[\"']", tag)
    return found[1] if found else ""
