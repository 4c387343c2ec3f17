"""What differs around the notebook since the model was last told: git, context files, skills.

What was told at the session's start stands in the frozen system prompt, what was told later in
prompts. Those a compaction takes out of the view, so what they told is told once more after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.transcript import Transcript
    from ..surroundings.watch import FolderWatch

COMPACTION = "compaction"
"""The mark that says after which compaction something was told."""


class FolderNews:
    """Tells of one project's folder, in the session of `transcript`; without a watch of nothing."""

    def __init__(
        self, watch: FolderWatch | None = None, transcript: Transcript | None = None
    ) -> None:
        self._watch = watch
        self._transcript = transcript

    async def load(self, old: Mapping[str, str], most_chars: int) -> tuple[dict[str, str], str]:
        """Return what the model then knows, as marks, and the text that tells what differs.

        `old` are the marks that came back from the newest prompt; the text is "" if nothing does.
        """
        watch, transcript = self._watch, self._transcript
        if watch is None or transcript is None:
            return {}, ""
        from ..surroundings.describe import find_news

        system = "" if transcript.prefix is None else transcript.prefix.system
        around = await asyncio.to_thread(watch.look)
        compaction = transcript.active_compaction
        last = str(0 if compaction is None else compaction.n)
        known = {key: mark for key, mark in old.items() if key != COMPACTION}
        if old.get(COMPACTION, last) != last:
            texts = {item.key: item.text for item in around.items}
            known = {key: mark for key, mark in known.items() if texts.get(key, "") in system}
        said = find_news(known, around, lambda text: text in system, most_chars)
        return {**around.digests, COMPACTION: last}, said
