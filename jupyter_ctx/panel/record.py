"""The conversation as static Markdown: what stays of the panel in a saved notebook. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..ipython.markdown import escape, fence, safe_markdown
from ..ipython.plaintext import plain
from .wire import Item

EMPTY_TEXT = "No turn yet. This conversation stands here once there is one."
EARLIER_TEXT = "Earlier turns are left out here."
MOST_CHARS = 400_000
"""So long the record is, its newest turns; about what a browser draws at once."""


def record_of(items: Iterable[Item], has_earlier: bool) -> tuple[str, str]:
    """Return the turns that `items` tell, as Markdown in which nothing acts, and as plain text."""
    turns = _by_turn(items)
    kept: list[list[tuple[str, str]]] = []
    room = MOST_CHARS
    for turn in reversed(turns):
        room -= sum(len(markdown) for markdown, _ in turn)
        if room < 0 and kept:
            has_earlier = True
            break
        kept.append(turn)
    parts = [part for turn in reversed(kept) for part in turn]
    if not parts:
        parts = [_quiet(EMPTY_TEXT)]
    elif has_earlier:
        parts.insert(0, _quiet(EARLIER_TEXT))
    return "\n\n".join(one for one, _ in parts), "\n\n".join(text for _, text in parts)


def _by_turn(items: Iterable[Item]) -> list[list[tuple[str, str]]]:
    turns: list[list[tuple[str, str]]] = []
    for item in items:
        if item["kind"] == "turn_started":
            turns.append([])
        if turns:
            turns[-1].extend(_parts(item))
    return turns


def _parts(item: Item) -> Iterator[tuple[str, str]]:
    match item:
        case {"kind": "turn_started", "turn": turn, "prompt": str(prompt)}:
            yield f"**[{turn}]**\n\n{fence(prompt, 'text')}", f"[{turn}] {prompt}"
        case {"kind": "text_finished", "text": str(text)} if text.strip():
            yield safe_markdown(text), plain(text)
        case {"kind": "tool_finished", "label": str(label)}:
            yield _quiet(label)
        case {"kind": "turn_finished", "footer": str(footer)} if footer:
            yield _quiet(footer)
        case {"kind": "shown", "command": str(command), "markdown": str(markdown), "text": text}:
            yield f"{_quiet(command)[0]}\n\n{markdown}", f"{command}\n{text}"


def _quiet(text: str) -> tuple[str, str]:
    line = plain(" ".join(text.split()))
    return (f"*{escape(line)}*" if line else ""), line
