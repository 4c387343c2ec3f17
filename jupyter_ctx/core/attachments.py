"""What the user attached to a prompt, made to fit. Pure.

The law of the room holds with it: used + prompt + attachments + compaction request fit the window.
The prompt comes first; what it leaves is shared: a small attachment stays whole, a large one is cut
at its end, and says so. What an attachment says is fixed once it is sent, like all in the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from .blocks import Image, Text, json_bytes
from .counts import image_tokens
from .offload import Room
from .preview import clean_text
from .tokens import SAFETY

BLOCK_TOKENS = 16
"""What a block takes beside its text, in tokens, with room to spare."""
CUT_LINE = "[Cut here: there is no room for more. The tools read the rest.]"

Attachment: TypeAlias = Text | Image


@dataclass(frozen=True, slots=True)
class Fitted:
    """The attachments as they are sent, and the room that is left behind them.

    `cut` and `left_out` are how many were cut and how many have no place at all.
    """

    blocks: tuple[Attachment, ...]
    room: Room
    cut: int = 0
    left_out: int = 0


def fit_attachments(attachments: Sequence[Attachment], prompt: str, room: Room) -> Fitted:
    """Return as much of the attachments as there is room for behind `prompt`'s own need, in order.

    Together with the prompt they take at most what one message may (see Room.whole_tokens). An
    image that does not fit leaves a line with its type and size.
    """
    items = [_cleaned(one) for one in attachments]
    cost = _costs(room)
    whole = room.whole_tokens
    most = (room.limits.message_chars if whole is None else whole) - cost(Text(prompt))
    most_bytes, images = room.bytes_left - json_bytes(prompt), room.images_left
    fitted: dict[int, Attachment | None] = {}
    order = sorted(range(len(items)), key=lambda at: (cost(items[at]), at))
    for done, at in enumerate(order):
        left = len(order) - done
        share, share_bytes = max(0, most) // left, max(0, most_bytes) // left
        item = items[at]
        if isinstance(item, Image) and not images:
            item = _line_for(item)

        def fits(one: Attachment, share: int = share, share_bytes: int = share_bytes) -> bool:
            return cost(one) <= share and _bytes_of(one) <= share_bytes

        found = _fit(item, fits)
        fitted[at] = found
        if found is not None:
            most, most_bytes = most - cost(found), most_bytes - _bytes_of(found)
            images -= isinstance(found, Image)
    kept = [found for at in range(len(items)) if (found := fitted[at]) is not None]
    return Fitted(
        tuple(kept),
        _behind(room, kept),
        sum(1 for at, item in enumerate(items) if fitted[at] not in (None, item)),
        len(items) - len(kept),
    )


def _cleaned(one: Attachment) -> Attachment:
    return Text(clean_text(one.text), one.part) if isinstance(one, Text) else one


def _costs(room: Room) -> Callable[[Attachment], int]:
    """Return what an attachment takes: cautious tokens, or characters where no window is known."""
    counted: dict[str, int] = {}

    def cost(one: Attachment) -> int:
        if isinstance(one, Image):
            return 0 if room.window_tokens is None else _cautious(image_tokens(one))
        if room.window_tokens is None:
            return len(one.text)
        if one.text not in counted:
            counted[one.text] = _cautious(room.count(one.text))
        return counted[one.text]

    return cost


def _cautious(tokens: int) -> int:
    return math.ceil(SAFETY * (tokens + BLOCK_TOKENS))


def _bytes_of(one: Attachment) -> int:
    return len(one.data) + 200 if isinstance(one, Image) else json_bytes(one.text)


def _fit(item: Attachment, fits: Callable[[Attachment], bool]) -> Attachment | None:
    """Return the item, the most of it that fits, or None."""
    if fits(item):
        return item
    if isinstance(item, Image):
        line = _line_for(item)
        return line if fits(line) else None
    text = item.text

    def cut_at(chars: int) -> Text:
        head = text[:chars]
        at = head.rfind("\n")
        return Text(f"{head[:at] if 2 * at > chars else head}\n{CUT_LINE}", item.part)

    low, high = 0, len(text)  # a head of `low` characters fits, one of `high` does not
    while high - low > 1:
        middle = (low + high) // 2
        if fits(cut_at(middle)):
            low = middle
        else:
            high = middle
    cut = cut_at(low)
    return cut if low and fits(cut) else None


def _line_for(image: Image) -> Text:
    size = f"{image.width_px:,} × {image.height_px:,} px"
    return Text(f"[{image.media_type}, {size}, not attached: no room for it]", "notebook")


def _behind(room: Room, kept: Sequence[Attachment]) -> Room:
    """Return the room that is left behind what is kept."""
    tokens = 0
    for one in kept:
        tokens += _cautious(image_tokens(one) if isinstance(one, Image) else room.count(one.text))
    return replace(
        room,
        used_tokens=room.used_tokens + tokens,
        images_left=room.images_left - sum(isinstance(one, Image) for one in kept),
        bytes_left=max(0, room.bytes_left - sum(map(_bytes_of, kept))),
    )
