"""What waits to run for the panel: prompts, commands, and other long work."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from ..core.attachments import Attachment
from ..core.blocks import Image, Text
from ..core.events import CtxEvent
from ..tools.images import BadImageError, load_image
from .calls import RefusedError
from .wire import Item, cut

MAX_IMAGES = 20
"""So many pictures with one prompt: with more, the API takes none over 2,000 px a side."""

MAX_PROMPT_CHARS = 2_000_000
LABEL_CHARS = 200


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt or command as it was submitted by page `client`; `images` come in front of it."""

    id: str
    client: str
    text: str
    images: tuple[Attachment, ...] = ()
    labels: tuple[Item, ...] = ()

    @property
    def is_command(self) -> bool:
        """Whether it is a slash command."""
        return self.text.lstrip().startswith("/")

    @property
    def queued(self) -> Item:
        """The item that shows it waiting."""
        labels = [dict(label) for label in self.labels]
        return {
            "kind": "queued",
            "id": self.id,
            "text": cut(self.text, 20_000),
            "attachments": labels,
        }


@dataclass(frozen=True, slots=True)
class Work:
    """Something else that runs as a turn does; `on_end` gets the error that ended it, or None."""

    run: Callable[[], AsyncGenerator[CtxEvent, None]]
    on_end: Callable[[BaseException | None], None]


def read_images(given: Sequence[object]) -> tuple[tuple[Attachment, ...], tuple[Item, ...]]:
    """Return pictures as they are sent, each behind its name, and what the panel shows of them.

    Raises RefusedError that names the first picture that cannot be sent.
    """
    if len(given) > MAX_IMAGES:
        raise RefusedError("bad", f"A prompt takes at most {MAX_IMAGES} images.")
    attached: list[Attachment] = []
    labels: list[Item] = []
    for n, one in enumerate(given, start=1):
        data, name = (one.get("data"), one.get("name")) if isinstance(one, dict) else (None, None)
        if not isinstance(data, str):
            raise RefusedError("bad", "An image has a name and its data.")
        label = cut(name, LABEL_CHARS) if isinstance(name, str) and name else f"image {n}"
        try:
            image, (width, height) = load_image(data)
        except BadImageError as error:
            raise RefusedError("image", f"{label} cannot be sent: {error}") from None
        attached += [Text(f"[{label}]", "notebook"), image]
        labels.append({"label": label, "detail": f"{width:,} × {height:,} px"})
    return tuple(attached), tuple(labels)


def label_of(attachment: Attachment) -> Item | None:
    """Return what the panel shows of something mentioned: the title of a text."""
    if isinstance(attachment, Image):
        return None
    title, _, rest = attachment.text.partition("]\n")
    return {"label": cut(title.lstrip("["), LABEL_CHARS), "detail": f"{len(rest):,} characters"}
