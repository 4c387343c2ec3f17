"""Small pictures for tests."""

import base64
import io

from jupyter_ctx.core.blocks import Image


def png(width: int, height: int) -> Image:
    """Return a PNG of one colour."""
    from PIL import Image as Pillow

    data = io.BytesIO()
    Pillow.new("RGB", (width, height), "navy").save(data, "PNG")
    return Image("image/png", base64.b64encode(data.getvalue()).decode(), width, height)
