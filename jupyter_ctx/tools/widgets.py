"""Widgets as what they show: a slider its value, a bar its place, a box its parts.

The state comes from a notebook's metadata, or from the widgets that live in this kernel, whose
traits are read without running code of theirs. Without a state the plain form is told, which is
that of the moment when the widget was shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .html_text import html_to_text
from .lines import shorten
from .naming import attributes_of, extends, library_class, library_value

MODELS = 200
"""So many widgets within one are looked at."""

TEXT_CHARS = 2_000
"""Longest text of one widget, in characters."""

State = tuple[str, Mapping[str, Any]]
"""A widget's class (`IntSlider`) and its traits."""

Finder = Callable[[object], State | None]
"""Finds the state of a model id, of `IPY_MODEL_<id>`, or of a live widget."""

_NOTHING: Mapping[str, Any] = {}
_BOXES = frozenset({"Box", "HBox", "VBox", "GridBox"})
_STACKS = frozenset({"Tab", "Accordion", "Stack"})
_TEXTS = frozenset({"HTML", "HTMLMath", "Label"})
_BARS = frozenset({"FloatProgress", "IntProgress"})
_BUTTONS = frozenset({"Button", "FileUpload", "Play"})


def find_stored(states: object) -> Finder:
    """Return a finder in a notebook's `metadata.widgets`, of any of its forms."""
    found: Any = states if isinstance(states, Mapping) else _NOTHING
    for name in ("application/vnd.jupyter.widget-state+json", "state"):
        inner = found.get(name)
        found = inner if isinstance(inner, Mapping) else found

    def find(key: object) -> State | None:
        entry = found.get(_id_of(key))
        state = entry.get("state") if isinstance(entry, Mapping) else None
        if not isinstance(state, Mapping):
            return None
        name = entry.get("model_name")
        return (name.removesuffix("Model") if isinstance(name, str) else "widget", state)

    return find


def find_live(key: object) -> State | None:
    """Return the state of a widget of this kernel, given by its model id or itself."""
    base = library_class("ipywidgets", "Widget")
    if base is None:
        return None
    if isinstance(key, str):
        known: Any = library_value("ipywidgets.widgets.widget", "_instances")
        key = dict.get(known, _id_of(key)) if isinstance(known, dict) else None
    if key is None or not extends(key, base):
        return None
    traits = attributes_of(key).get("_trait_values")
    if not isinstance(traits, dict):
        return None
    return type(key).__name__, {str(name): one for name, one in list(dict.items(traits))}


def describe_widget(model_id: object, find: Finder) -> str:
    """Return the text a widget shows, "" if its state is not known."""
    left = [MODELS]
    return shorten_lines("\n".join(_show(model_id, find, left)))


def shorten_lines(text: str) -> str:
    """Return `text`, cut at TEXT_CHARS."""
    return text if len(text) <= TEXT_CHARS else text[: TEXT_CHARS - 1] + "…"


def _show(key: object, find: Finder, left: list[int]) -> Iterator[str]:
    """Yield the lines of a widget; `left` counts down, which also ends boxes in a circle."""
    left[0] -= 1
    found = find(key) if left[0] >= 0 else None
    if found is None:
        return
    name, state = found
    if name in _BOXES or name in _STACKS:
        yield from _box(name, state, find, left)
    elif name == "Output":
        yield from _output(state.get("outputs"))
    elif text := _one(name, state):
        yield text


def _box(name: str, state: Mapping[str, Any], find: Finder, left: list[int]) -> Iterator[str]:
    children = state.get("children")
    parts = list(children) if isinstance(children, list | tuple) else []
    if _is_bar_with_words(parts, find):
        parts = [parts[0], parts[2]]  # they say in words where the bar is
    shown = ["\n".join(_show(child, find, left)) for child in parts[:MODELS]]
    if name in _STACKS:
        titles = state.get("titles") or state.get("_titles")
        for n, text in enumerate(shown):
            yield f"[{_title_of(titles, n) or f'{name} {n + 1}'}] {text}"
    elif name == "HBox" and not any("\n" in text for text in shown):
        yield " ".join(filter(None, shown))
    else:
        yield from filter(None, shown)


def _is_bar_with_words(parts: list[Any], find: Finder) -> bool:
    """Say whether these are the parts of tqdm's bar: words, the bar, words."""
    if len(parts) != 3:
        return False
    names = [found[0] if (found := find(part)) else "" for part in parts]
    return names[1] in _BARS and names[0] in _TEXTS and names[2] in _TEXTS


def _title_of(titles: object, n: int) -> str:
    if isinstance(titles, Mapping):
        return str(titles.get(str(n)) or "")[:80]
    if isinstance(titles, list | tuple) and n < len(titles):
        return str(titles[n])[:80]
    return ""


def _one(name: str, state: Mapping[str, Any]) -> str:
    """Return what a widget without parts shows."""
    label = _text(state.get("description"))
    value = state.get("value")
    if name in _TEXTS:
        return html_to_text(_text(value)) if name != "Label" else _text(value)
    if name in _BARS:
        head = f"{label} " if label else ""
        return f"{head}{_number(value)}/{_number(state.get('max', 100))}"
    if name in _BUTTONS:
        return f"[{name}: {label}]" if label else f"[{name}]"
    if "_options_labels" in state or "index" in state:
        value = _chosen(state)
    head = f"{name} {label}".strip()
    return head if value is None else f"{head} = {_value(value)}"


def _chosen(state: Mapping[str, Any]) -> object:
    """Return the labels that are chosen, and how many there are to choose from."""
    labels, index = state.get("_options_labels"), state.get("index")
    if not isinstance(labels, list | tuple) or index is None:
        return state.get("value")
    places = index if isinstance(index, list | tuple) else [index]
    chosen = [str(labels[n]) for n in places if isinstance(n, int) and 0 <= n < len(labels)]
    return f"{', '.join(chosen)} (of {len(labels)})"


def _output(outputs: object) -> Iterator[str]:
    """Yield the texts an Output widget caught."""
    for output in outputs if isinstance(outputs, list | tuple) else ():
        if isinstance(output, Mapping):
            data = output.get("data")
            plain = data.get("text/plain") if isinstance(data, Mapping) else output.get("text")
            if text := _text(plain):
                yield text.rstrip("\n")


def _text(value: object) -> str:
    return str.__str__(value)[: 4 * TEXT_CHARS] if isinstance(value, str) else ""


def _number(value: object) -> str:
    return f"{value:,.10g}" if isinstance(value, int | float) else "?"


def _value(value: object) -> str:
    if isinstance(value, str):
        return shorten(value)
    if isinstance(value, list | tuple):
        return "–".join(_value(one) for one in value[:4])
    return str(value) if type(value) in (int, float, bool) else f"<{type(value).__name__}>"


def _id_of(key: object) -> str:
    return key.removeprefix("IPY_MODEL_") if isinstance(key, str) else ""
