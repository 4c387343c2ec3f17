"""What the real API refuses of images: type, bytes, pixels, number."""

from __future__ import annotations

import base64
import binascii
import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

from .errors import ApiError, invalid
from .models import FakeModel
from .prompt import Placed, walk_blocks

MAX_BASE64_BYTES = 10 * 1024 * 1024
MAX_EDGE_PX = 8_000
MAX_EDGE_MANY_PX = 2_000
MANY = 20
_FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


def check_images(body: Mapping[str, Any], model: FakeModel) -> dict[int, tuple[int, int]]:
    """Check every image of the request; return sizes in pixels by `id(block)`. Raises ApiError."""
    found = [placed for placed in walk_blocks(body) if placed.block["type"] == "image"]
    if len(found) > model.many_images:
        raise invalid(
            "messages", f"too many images and documents: {len(found)} + 0 > {model.many_images}"
        )
    sizes = {
        id(placed.block): _measure(placed)
        for placed in found
        if placed.block["source"]["type"] == "base64"
    }
    _check_edges(found, sizes)
    return sizes


def _measure(placed: Placed) -> tuple[int, int]:
    source = placed.block["source"]
    path = f"{placed.path}.image.source.base64"
    size = len(source["data"])
    if size > MAX_BASE64_BYTES:
        message = f"image exceeds 10 MB maximum: {size} bytes > {MAX_BASE64_BYTES} bytes"
        raise invalid(path, message)
    try:
        data = base64.b64decode(source["data"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(f"{path}.data", "Invalid base64 data") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data)) as image:
                kind, width, height = image.format, *image.size
                image.verify()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise invalid("", "Could not process image") from error
    actual = _FORMATS.get(kind or "")
    if actual is None:
        raise invalid("", "Could not process image")
    if actual != source["media_type"]:
        raise invalid(
            path,
            f"The image was specified using the {source['media_type']} media type, but the image "
            f"appears to be a {actual} image",
        )
    return width, height


def _check_edges(found: Sequence[Placed], sizes: Mapping[int, tuple[int, int]]) -> None:
    many = len(found) > MANY
    limit = MAX_EDGE_MANY_PX if many else MAX_EDGE_PX
    over = [p.path for p in found if max(sizes.get(id(p.block), (0, 0))) > limit]
    if not over:
        return
    of = " for many-image requests" if many else ""
    raise ApiError(
        400,
        f"{over[0]}.image.source.base64.data: At least one of the image dimensions exceed max "
        f"allowed size{of}: {limit} pixels",
        details={
            "error_code": "image_dimensions_too_large",
            "max_side_length_pixels": limit,
            "paths": over,
        },
    )
