"""Pictures for the model: checked, and scaled once, before they enter the transcript.

A provider refuses a request with a broken picture, and what is in the transcript is sent again
with every request: so each picture is decoded whole here, or described in words instead.
"""

from __future__ import annotations

import base64
import binascii
import io
import struct
import zlib
from typing import TYPE_CHECKING

from ..core.blocks import Image
from ..errors import CtxError

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

MAX_EDGE_PX = 1568
"""Longest edge sent; the API scales larger pictures down to it itself (Messages API, vision)."""

MAX_BASE64_CHARS = 5_000_000
"""Longest base64 text of one picture; the API's own bound is 10 MB."""

MAX_PIXELS = 89_478_485
"""Larger pictures are not decoded: the bound pillow warns at, 256 MB of RGB."""

_MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif"}
_SENT_AS_IS = frozenset({"1", "L", "LA", "P", "RGB", "RGBA"})
_JPEG_SIZE_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}

# What pillow raises on broken data, by format and by where the break is.
_BROKEN = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    OverflowError,
    MemoryError,
    struct.error,
    zlib.error,
)


class BadImageError(CtxError):
    """The picture cannot be shown; the text says why in a few words."""


def load_image(data: str, *, max_edge_px: int = MAX_EDGE_PX) -> tuple[Image, tuple[int, int]]:
    """Return the base64 picture `data` as it is sent, and its own width and height in px.

    PNG and JPEG within `max_edge_px` are sent byte for byte; larger ones are scaled down, other
    colour spaces converted, the first frame of a GIF sent as PNG. Raises BadImageError when the
    picture is broken, cut off, of another format, or over MAX_PIXELS.
    """
    raw = _decode(data)
    kind, width, height = _read_size(raw)
    if width * height > MAX_PIXELS:
        raise BadImageError(f"{width:,}×{height:,} px is too large to show")
    try:
        picture = _open(raw, kind)
        if kind != "GIF" and picture.mode in _SENT_AS_IS and max(picture.size) <= max_edge_px:
            text = base64.b64encode(raw).decode("ascii")
            if len(text) <= MAX_BASE64_CHARS:
                return Image(_MEDIA_TYPES[kind], text, width, height), (width, height)
        return _shrink(picture, kind, max_edge_px), (width, height)
    except _BROKEN as error:
        raise BadImageError(f"broken: {str(error)[:100] or type(error).__name__}") from error


def is_shown_kind(head: bytes) -> bool:
    """Whether a file that begins with `head` is a picture of a kind that is sent."""
    return head.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a"))


def _decode(data: str) -> bytes:
    try:
        raw = base64.b64decode(data, validate=False)
    except (binascii.Error, ValueError) as error:
        raise BadImageError(f"broken: {error}") from error
    if not raw:
        raise BadImageError("empty")
    return raw


def _read_size(raw: bytes) -> tuple[str, int, int]:
    """Return format, width and height from the header, before anything is decoded."""
    if raw.startswith(b"\x89PNG\r\n\x1a\n") and len(raw) >= 24:
        width, height = struct.unpack(">II", raw[16:24])
        return "PNG", width, height
    if raw[:6] in (b"GIF87a", b"GIF89a") and len(raw) >= 10:
        width, height = struct.unpack("<HH", raw[6:10])
        return "GIF", width, height
    if raw.startswith(b"\xff\xd8"):
        return ("JPEG", *_read_jpeg_size(raw))
    raise BadImageError("broken, or of a format that cannot be shown")


def _read_jpeg_size(raw: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        marker = raw[at + 1]
        if marker in _JPEG_SIZE_MARKERS:
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return width, height
        if marker == 0xFF:  # a fill byte
            at += 1
        else:
            at += 2 + max(2, int.from_bytes(raw[at + 2 : at + 4], "big"))
    raise BadImageError("broken: no size found in the JPEG")


def _open(raw: bytes, kind: str) -> Picture:
    """Return the picture, decoded to its last row."""
    from PIL import Image as pillow

    picture = pillow.open(io.BytesIO(raw), formats=[kind])
    picture.load()
    if picture.width < 1 or picture.height < 1:
        raise ValueError("no pixels")
    return picture


def _shrink(picture: Picture, kind: str, max_edge_px: int) -> Image:
    """Return the picture within both bounds, as PNG if it fits, else as JPEG."""
    from PIL import Image as pillow

    has_alpha = "A" in picture.mode or "transparency" in picture.info
    picture = picture.convert("RGBA" if has_alpha else "RGB")
    scale = min(1.0, max_edge_px / max(picture.size))
    size = tuple(max(1, round(edge * scale)) for edge in picture.size)
    if size != picture.size:
        picture = picture.resize((size[0], size[1]), pillow.Resampling.LANCZOS)
    if kind != "JPEG":
        text = _encode(picture, "PNG")
        if len(text) <= MAX_BASE64_CHARS:
            return Image("image/png", text, *picture.size)
    if has_alpha:
        ground = pillow.new("RGBA", picture.size, "white")
        picture = pillow.alpha_composite(ground, picture)
    text = _encode(picture.convert("RGB"), "JPEG")
    if len(text) > MAX_BASE64_CHARS:
        raise BadImageError("too large to show")
    return Image("image/jpeg", text, *picture.size)


def _encode(picture: Picture, kind: str) -> str:
    out = io.BytesIO()
    picture.save(out, kind, quality=85)
    return base64.b64encode(out.getvalue()).decode("ascii")
