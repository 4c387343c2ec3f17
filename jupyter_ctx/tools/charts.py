"""One line for outputs that are programs for a browser: plotly, Vega, Bokeh, widgets, SVG."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping

LABEL_CHARS = 200
"""Longest piece of an output's own words in a description."""

_SVG_TEXT = re.compile(r"<(?:title|text|tspan)\b[^<>]{0,2000}>([^<>]{1,500})<", re.IGNORECASE)
_SVG_SIZE = re.compile(r"<svg\b[^<>]{0,4000}", re.IGNORECASE)
_NOTHING: Mapping[str, object] = {}


def describe_chart(mime: str, value: object) -> str | None:
    """Return one line about `value` of type `mime`, None if `mime` is no chart or widget."""
    if mime.startswith("application/vnd.plotly."):
        return _plotly(_as_object(value))
    if mime.startswith(("application/vnd.vega.", "application/vnd.vegalite.")):
        return _vega(mime, _as_object(value))
    if mime.startswith("application/vnd.bokehjs"):
        return "[Bokeh plot]"
    if mime.startswith("application/vnd.holoviews"):
        return "[HoloViews plot]"
    return None


def describe_svg(markup: str) -> str:
    """Return one line about an SVG picture: its size as written, and the words in it."""
    head = match[0] if (match := _SVG_SIZE.search(markup)) else ""
    width, height = _svg_attr(head, "width"), _svg_attr(head, "height")
    words = [html.unescape(word).strip() for word in _SVG_TEXT.findall(markup[:200_000])]
    size = f" {width}×{height}" if width and height else ""
    said = shorten("; ".join(word for word in words if word))
    return f"[SVG picture{size}, {len(markup):,} characters{': ' + said if said else ''}]"


def shorten(text: str, chars: int = LABEL_CHARS) -> str:
    """Return `text` on one line, cut at `chars` characters."""
    line = " ".join(text[: 4 * chars].split())
    return line if len(line) <= chars else line[: chars - 1] + "…"


def _plotly(figure: Mapping[str, object]) -> str:
    data = figure.get("data")
    traces = list(data) if isinstance(data, list | tuple) else []
    said = [_plotly_trace(_as_object(trace)) for trace in traces[:8]]
    if len(traces) > len(said):
        said.append(f"… {len(traces) - len(said):,} more")
    title = _title(_as_object(figure.get("layout")).get("title"))
    many = "trace" if len(traces) == 1 else "traces"
    return f"[plotly figure{title}: {len(traces):,} {many}{_listed(said)}]"


def _plotly_trace(trace: Mapping[str, object]) -> str:
    kind, name = trace.get("type"), trace.get("name")
    said = kind if isinstance(kind, str) else "scatter"
    return shorten(f'{said} "{name}"' if isinstance(name, str) and name else said, 60)


def _vega(mime: str, spec: Mapping[str, object]) -> str:
    kind = "Vega-Lite" if "vegalite" in mime else "Vega"
    mark = spec.get("mark")
    mark = _as_object(mark).get("type") if isinstance(mark, Mapping) else mark
    said = [f"mark {shorten(mark, 40)}"] if isinstance(mark, str) else []
    for channel, encoding in list(_as_object(spec.get("encoding")).items())[:12]:
        name = _as_object(encoding).get("field")
        if isinstance(name, str):
            said.append(shorten(f"{channel}={name}", 60))
    return f"[{kind} chart{_title(spec.get('title'))}{_listed(said)}]"


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
