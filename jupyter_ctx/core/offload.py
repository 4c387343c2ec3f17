"""Large results go to the store at ingest, and a preview stays: fates, decided once.

Two bounds hold (DESIGN.md 5, Offload). Each result alone: longer than its tool's cap, it is
offloaded. All new results of one message together: 200,000 characters, and half of what the window
has left. The largest go first, then previews shrink, then images give way to a line of text; but
nothing is offloaded unless its replacement is shorter by half.

Above both stands the law: after every ingest, used + compaction request + summary fit the window.
Where the law demands it, results are offloaded whatever that saves, previews shrink to a handle and
a few characters, and what a tool that bounds itself has brought is cut. It can hold only while each
result has some room at all: see `LEAST_RESULT_TOKENS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from .blocks import Image, Text, ToolResult, json_bytes
from .counts import MESSAGE_FRAME, TOOL_FRAME, image_tokens
from .entries import FateEntry, FateKind
from .ports import ModelFacts, SpooledText, ToolOutput, ToolSpec
from .preview import build_preview, clean_text, count_lines
from .tokens import MOST_FACTOR, SAFETY
from .window import Limits, reserve_tokens, summary_budget, window_of

__all__ = [
    "LEAST_RESULT_TOKENS",
    "Decision",
    "FittedPrompt",
    "NewResult",
    "Room",
    "build_preview",
    "cap_chars",
    "clean_text",
    "finish",
    "ingest",
    "ingest_prompt",
]

# What the smallest form of one result takes at most (handle, four characters, a line for images,
# frames), with the largest factor and dense text; half of it is usual.
LEAST_RESULT_TOKENS = 256
# "Shorter by half", and the share of a text its preview may be.
SHORTER, PREVIEW_SHARE = 0.5, 0.4
SHORT_HEADER_CHARS = 160
# What is this small (share of the window) is kept whole if it fits at all: a compaction that is
# due will make room for it. Else, near the reserve, the shortest result would leave a preview.
SMALL_SHARE = 0.05
LEAST_CAP_CHARS = 500
# 32 MB is the most of a request (API.md 1, as the smaller of its two readings): 2 MB are left to
# the answer, to the words that ask for a summary and to what the adapter adds.
MOST_BYTES = 30_000_000
MOST_CHAR_BYTES = 4
LEAST_CUT_CHARS = 4
# Frames are raw tokens; with the largest factor they are these.
_MESSAGE_FRAME, _TOOL_FRAME = (math.ceil(MOST_FACTOR * raw) for raw in (MESSAGE_FRAME, TOOL_FRAME))
CUT_TEXT = "\n[Cut here: the window has no room for more now. Ask for a smaller range.]"


class Estimates(Protocol):
    """What a room needs of a token meter."""

    def estimate_text(self, text: str) -> int:
        """Return the calibrated tokens of `text`."""
        ...


@dataclass(frozen=True, slots=True)
class Room:
    """What the window has left, in tokens; `window_tokens` None: only characters are bounded.

    `used_tokens` is what is used before the new message (the cautious figure).
    `compaction_tokens` is what a compaction request adds to the prompt, its summary included.
    `count` gives calibrated tokens. `images_left` and `bytes_left` are how many more images, and
    how many more bytes on the wire, a request may carry.
    """

    window_tokens: int | None
    used_tokens: int
    reserve_tokens: int
    compaction_tokens: int
    limits: Limits
    count: Callable[[str], int]
    images_left: int = 100
    bytes_left: int = MOST_BYTES

    @classmethod
    def of(
        cls,
        facts: ModelFacts,
        limits: Limits,
        used_tokens: int,
        meter: Estimates,
        *,
        instruction_tokens: int,
        images_left: int | None = None,
        bytes_left: int = MOST_BYTES,
    ) -> Room:
        """Return the room that a model and its limits leave.

        `instruction_tokens` is what the words that ask for a summary take.
        """
        window = window_of(limits, facts)
        return cls(
            window_tokens=window,
            used_tokens=used_tokens,
            reserve_tokens=reserve_tokens(limits, facts) or 0,
            compaction_tokens=instruction_tokens + summary_budget(limits, window),
            limits=limits,
            count=meter.estimate_text,
            images_left=facts.max_images if images_left is None else images_left,
            bytes_left=bytes_left,
        )

    @property
    def share_tokens(self) -> int | None:
        """What all new results of a message may take together: half of what is left."""
        if self.window_tokens is None:
            return None
        return max(0, self.window_tokens - self.used_tokens - self.reserve_tokens) // 2

    @property
    def law_tokens(self) -> int | None:
        """What they can take at most: then a compaction request still fits."""
        if self.window_tokens is None:
            return None
        return max(0, self.window_tokens - self.used_tokens - self.compaction_tokens)

    @property
    def whole_tokens(self) -> int | None:
        """What stays whole: up to the share, and up to 5 % of the window where the law allows."""
        share, law = self.share_tokens, self.law_tokens
        if share is None or law is None or self.window_tokens is None:
            return None
        return min(law, max(share, int(self.window_tokens * SMALL_SHARE)))


@dataclass(frozen=True, slots=True)
class NewResult:
    """What a call brought, before anything was decided about it."""

    tool_use_id: str
    tool: str
    spec: ToolSpec
    output: ToolOutput


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one result. Its text is valid for the wire already.

    `most_chars` bounds the preview of an offloaded text; `cut_chars` is where a text that cannot be
    offloaded is cut, None if nowhere; `images` is how many of the images stay, the first ones.
    """

    result: NewResult
    fate: FateKind
    images: int
    most_chars: int = 0
    cut_chars: int | None = None

    @property
    def chars(self) -> int:
        """The characters of the whole text."""
        text = self.result.output.text
        return text.chars if isinstance(text, SpooledText) else len(text)

    @property
    def lines(self) -> int:
        """The lines of the whole text."""
        text = self.result.output.text
        return text.lines if isinstance(text, SpooledText) else count_lines(text)

    @property
    def keep_outputs(self) -> bool:
        """The result has more than its text, so the store should have it in any case."""
        bundles = (output.get("data") for output in self.result.output.outputs)
        return any(set(data) - {"text/plain"} for data in bundles if isinstance(data, Mapping))


def cap_chars(room: Room, spec: ToolSpec, calls: int = 1) -> int:
    """Return the longest text of `spec`'s result that is kept whole, in characters.

    The smallest of the tool's own cap (or the setting by its name), the general cap and 0.25
    characters for each token of the window. For a tool that bounds itself, also what the message
    allows to each of `calls` results, at one character a token; at least 500 (a dense text is cut
    when it comes).
    """
    limits = room.limits
    cap = min(limits.max_result_chars.get(spec.name, spec.max_result_chars), limits.max_chars)
    if room.window_tokens is not None:
        cap = min(cap, int(limits.chars_per_window_token * room.window_tokens))
    if spec.offloads:
        return cap
    each = limits.message_chars
    if room.share_tokens is not None:
        each = min(each, room.share_tokens)
    return min(cap, max(LEAST_CAP_CHARS, each // max(1, calls)))


def ingest(
    results: Sequence[NewResult], past: Mapping[str, FateEntry], room: Room
) -> tuple[Decision, ...]:
    """Decide what becomes of all new results of one message, in their order.

    A fate in `past` is kept as it is, for ever. Pure: the store is asked to save what is offloaded
    after this, then `finish` gives what the model sees.
    """
    drafts = [_Draft(_clean(result), past.get(result.tool_use_id), room) for result in results]
    _bound_images(drafts, room)
    most_chars = room.limits.message_chars
    _reduce(drafts, _SOFT[:2], lambda: sum(d.chars for d in drafts) <= most_chars)
    whole, law = room.whole_tokens, room.law_tokens
    if whole is not None and law is not None:
        _reduce(drafts, _SOFT, lambda: _cautious(drafts) <= whole)
        _reduce(drafts, _HARD, lambda: _cautious(drafts) <= law)
        _cut(drafts, law)
    return tuple(draft.decision for draft in drafts)


def finish(decision: Decision, path: str | None) -> ToolResult:
    """Return what the model sees. `path` is where the text was stored, None if it was not."""
    output, images = decision.result.output, decision.result.output.images
    shown: list[Text | Image] = []
    text = _shown_text(decision, path)
    if text:
        shown.append(Text(text, "results"))
    kept = () if output.is_error else images[: decision.images]
    dropped = len(images) - len(kept)
    if dropped and output.is_error:
        noun = "image" if dropped == 1 else "images"
        line = f"[{dropped:,} {noun} of the failed call shown to the user only]"
        shown.append(Text(line, "results"))
    elif dropped:
        noun = "image" if dropped == 1 else "images"
        line = f"[{dropped:,} {noun} left out: no room]"
        shown.append(Text(line, "results"))
    shown += kept
    if not shown:
        done = "failed" if output.is_error else "completed"
        shown.append(Text(f"({decision.result.tool} {done} with no output)", "results"))
    return ToolResult(decision.result.tool_use_id, tuple(shown), output.is_error)


@dataclass(frozen=True, slots=True)
class FittedPrompt:
    """A prompt as the model sees it; `stored` is the whole of it if that is only a preview."""

    text: str
    stored: str | None = None


def ingest_prompt(text: str, turn: int, room: Room) -> FittedPrompt:
    """Return the user's text as it is sent, made valid for the wire.

    Over half of the room, or over the bytes that are left, it is to be stored as `prompt-<turn>`
    and a preview is sent; so it is over 200,000 characters where the window is not known. One under
    5 % of the window stays whole as long as it fits at all.
    """
    text = clean_text(text)
    whole = room.whole_tokens
    if whole is None:
        allowed = room.limits.message_chars
        fits = len(text) <= allowed
    else:
        allowed = whole
        fits = _with_safety(room.count(text) + _MESSAGE_FRAME) <= allowed
    if fits and json_bytes(text) <= room.bytes_left:
        return FittedPrompt(text)
    preview = _prompt_preview(text, f"prompt-{turn}", room, allowed)
    return (
        FittedPrompt(preview, text) if len(preview) <= SHORTER * len(text) else FittedPrompt(text)
    )


def _prompt_preview(text: str, name: str, room: Room, allowed_tokens: int) -> str:
    """Return the longest preview of a prompt that fits, else the smallest."""
    limits, preview = room.limits, ""
    for most in (limits.preview_chars, limits.small_preview_chars, 0):
        preview = build_preview(text, name, f"{name}.txt", most_chars=_most(text, most))
        if room.window_tokens is None or _with_safety(room.count(preview)) <= allowed_tokens:
            return preview
    return preview


# Drafts -----------------------------------------------------------------------------------------


class _Draft:
    """A decision in the making, with the size of what the model would see of it."""

    def __init__(self, result: NewResult, past: FateEntry | None, room: Room) -> None:
        self._room = room
        self._counted: dict[str, int] = {}
        self.is_settled = past is not None
        self.decision = Decision(result, "keep", len(result.output.images))
        text = result.output.text
        if isinstance(text, SpooledText) or (past is not None and past.fate == "offload"):
            self._offload(room.limits.preview_chars)
            return
        self._measure()
        if len(text) > cap_chars(room, result.spec):
            self.offload_for_half()

    def _measure(self) -> None:
        """Bring `chars` and, where the window is known, `tokens` up to date."""
        shown = finish(self.decision, _path_to_expect(self.decision.result.tool_use_id))
        texts = [block.text for block in shown.content if isinstance(block, Text)]
        self.chars = sum(map(len, texts))
        self._tokens: int | None = None
        self._texts, self._images = texts, shown.content[len(texts) :]

    @property
    def tokens(self) -> int:
        """Estimated tokens of what the model would see; counted when first asked for."""
        if self._tokens is None:
            images = sum(image_tokens(image) for image in self._images if isinstance(image, Image))
            self._tokens = _TOOL_FRAME + images + sum(map(self._count, self._texts))
        return self._tokens

    def _count(self, text: str) -> int:
        if text not in self._counted:
            self._counted[text] = self._room.count(text)
        return self._counted[text]

    @property
    def can_offload(self) -> bool:
        return (
            self.decision.fate == "keep"
            and not self.is_settled
            and self.decision.result.spec.offloads
        )

    def _set(self, decision: Decision) -> None:
        self.decision = decision
        self._measure()

    def _offload(self, most_chars: int) -> None:
        most = _most(self.decision.result.output.text, most_chars)
        self._set(replace(self.decision, fate="offload", most_chars=most))

    # The moves, from the mildest on; each does nothing where it does not apply or does not help.

    def offload_for_half(self) -> None:
        """Offload, if what stays is shorter by half."""
        self._offload_if(self._room.limits.preview_chars, SHORTER)

    def shrink(self) -> None:
        """Make a preview a small one."""
        small = self._room.limits.small_preview_chars + SHORT_HEADER_CHARS
        if self.decision.fate == "offload" and self.decision.most_chars > small:
            self._set(replace(self.decision, most_chars=small))

    def drop_image(self) -> None:
        """Leave the last image out."""
        self.keep_images(max(0, self.decision.images - 1))

    def keep_images(self, count: int) -> None:
        """Keep only the first `count` images."""
        if count < self.decision.images:
            self._set(replace(self.decision, images=count))

    def offload_for_any(self) -> None:
        """Offload to the smallest form, if that is shorter at all."""
        self._offload_if(0, 1.0)

    def shrink_to_handle(self) -> None:
        """Make a preview the handle and a few characters."""
        if self.decision.fate == "offload" and self.decision.most_chars:
            self._set(replace(self.decision, most_chars=0))

    def cut(self, most_tokens: int) -> None:
        """Cut a text that cannot be offloaded until the whole result takes `most_tokens`."""
        text = self.decision.result.output.text
        if self.is_settled or self.decision.result.spec.offloads or isinstance(text, SpooledText):
            return
        length = len(text)
        while self.tokens > most_tokens and length > LEAST_CUT_CHARS:
            length = min(length - 1, int(length * max(0.1, 0.9 * most_tokens / self.tokens)))
            self._set(replace(self.decision, cut_chars=length))

    def _offload_if(self, most_chars: int, shorter: float) -> None:
        if not self.can_offload:
            return
        kept, chars = self.decision, self.decision.chars
        tokens = self.tokens if self._counts_tokens else 0
        before = self.chars - chars
        self._offload(most_chars)
        is_shorter = self.chars - before <= shorter * chars
        if not is_shorter or (tokens and self.tokens >= tokens):
            self._set(kept)

    @property
    def _counts_tokens(self) -> bool:
        """Count a kept text only if it is short enough to be kept: no megabyte is ever counted."""
        return self.decision.chars <= cap_chars(self._room, self.decision.result.spec)


_Move = Callable[[_Draft], None]
_SOFT: tuple[_Move, ...] = (_Draft.offload_for_half, _Draft.shrink, _Draft.drop_image)
_HARD: tuple[_Move, ...] = (_Draft.offload_for_any, _Draft.shrink_to_handle)


def _reduce(drafts: Sequence[_Draft], moves: Iterable[_Move], fits: Callable[[], bool]) -> None:
    """Make the moves one after the other, each on the largest result first, until it fits."""
    for move in moves:
        for draft in sorted(drafts, key=lambda draft: -draft.chars):
            repeats = draft.decision.images if move is _Draft.drop_image else 1
            for _ in range(repeats):
                if fits():
                    return
                move(draft)


def _cut(drafts: Sequence[_Draft], law_tokens: int) -> None:
    """Cut what could not be offloaded, the largest first, until the law holds."""
    for draft in sorted(drafts, key=lambda draft: -draft.tokens):
        over = _cautious(drafts) - law_tokens
        if over <= 0:
            return
        draft.cut(draft.tokens - math.ceil(over / SAFETY))


def _bound_images(drafts: Sequence[_Draft], room: Room) -> None:
    """Leave out the images beyond what one request may carry, the last ones first."""
    left = room.images_left
    chars = room.bytes_left - MOST_CHAR_BYTES * sum(draft.chars for draft in drafts)
    for draft in drafts:
        images = draft.decision.result.output.images
        stay = 0
        while stay < len(images) and left > 0 and len(images[stay].data) <= chars:
            left, chars, stay = left - 1, chars - len(images[stay].data), stay + 1
        draft.keep_images(stay)


def _cautious(drafts: Iterable[_Draft]) -> int:
    return _with_safety(_MESSAGE_FRAME + sum(draft.tokens for draft in drafts))


def _with_safety(tokens: int) -> int:
    return math.ceil(SAFETY * tokens)


def _clean(result: NewResult) -> NewResult:
    """Return the result with a text that the wire takes; a blank one becomes empty."""
    text = result.output.text
    if isinstance(text, SpooledText):
        return result
    cleaned = clean_text(text) if text.strip() else ""
    if cleaned == text:
        return result
    return replace(result, output=replace(result.output, text=cleaned))


def _path_to_expect(tool_use_id: str) -> str:
    """Return a path like the one the store will give, but of an id as long as they come."""
    return f"tool-results/{'0123456789abcdef-' * 2}/{tool_use_id}.txt"


def _most(text: str | SpooledText, most_chars: int) -> int:
    """Return a preview's longest form: `most_chars`, and at most 40 % of the text."""
    chars = text.chars if isinstance(text, SpooledText) else len(text)
    return min(most_chars, int(PREVIEW_SHARE * chars))


def _shown_text(decision: Decision, path: str | None) -> str:
    output = decision.result.output
    if decision.fate == "offload":
        return build_preview(
            output.text,
            decision.result.tool_use_id,
            path,
            mime_types=output.mime_types,
            is_error=output.is_error,
            most_chars=decision.most_chars,
            path_chars=len(_path_to_expect(decision.result.tool_use_id)),
        )
    text = output.text
    assert isinstance(text, str)  # a spooled text is offloaded always
    if decision.cut_chars is not None:
        return text[: decision.cut_chars] + CUT_TEXT
    return text
