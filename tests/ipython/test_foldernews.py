"""News of the folder: once, and once more after a compaction took them out of the view."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from jupyter_ctx.ipython.foldernews import FolderNews
from jupyter_ctx.surroundings.describe import Around, Item


class Watch:
    """A folder whose items a test sets."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    def look(self) -> Around:
        items = (Item(f"context:{key}", text, text) for key, text in self.texts.items())
        return Around(tuple(items))


def news_of(watch: Watch, system: str, compaction: int | None = None) -> FolderNews:
    made = SimpleNamespace(
        prefix=SimpleNamespace(system=system),
        active_compaction=None if compaction is None else SimpleNamespace(n=compaction),
    )
    return FolderNews(cast(Any, watch), cast(Any, made))


async def test_what_the_system_prompt_says_is_known() -> None:
    """The first prompt tells nothing of what the frozen prompt holds."""
    marks, text = await news_of(Watch(a="A-TEXT"), "… A-TEXT …").load({}, 1_000)

    assert text == ""
    assert marks["context:a"] == "A-TEXT"


async def test_a_change_is_told_once() -> None:
    """What was told is known at the next prompt, by the marks that come back."""
    watch = Watch(a="A-TEXT")
    marks, _ = await news_of(watch, "A-TEXT").load({}, 1_000)
    watch.texts["a"] = "B-TEXT"

    marks, told = await news_of(watch, "A-TEXT").load(marks, 1_000)
    _, quiet = await news_of(watch, "A-TEXT").load(marks, 1_000)

    assert "B-TEXT" in told
    assert quiet == ""


async def test_after_a_compaction_only_what_it_took_is_told_again() -> None:
    """What stands in the system prompt is not; what a prompt told is, and then no more."""
    watch = Watch(a="A-TEXT", b="B-TEXT")
    marks, told = await news_of(watch, "A-TEXT").load({}, 1_000)

    marks, again = await news_of(watch, "A-TEXT", 1).load(marks, 1_000)
    _, quiet = await news_of(watch, "A-TEXT", 1).load(marks, 1_000)

    assert "B-TEXT" in told
    assert "B-TEXT" in again
    assert "A-TEXT" not in told + again
    assert quiet == ""


async def test_a_session_of_an_older_version_is_told_everything() -> None:
    """Marks that never were: what the old system prompt does not hold is told."""
    _, told = await news_of(Watch(a="A-TEXT"), "an old prompt").load({}, 1_000)

    assert "A-TEXT" in told


async def test_without_a_watch_there_is_nothing() -> None:
    """Nobody watches: no mark, no text."""
    assert await FolderNews().load({}, 1_000) == ({}, "")
