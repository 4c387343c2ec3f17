"""Laws of pictures: what is sent can be shown, and is no larger than it need be."""

import base64
import io
from typing import Any

import pytest
from PIL import Image as Pillow

from jupyter_ctx.core.blocks import Image
from jupyter_ctx.tools.images import MAX_BASE64_CHARS, MAX_EDGE_PX, BadImageError, load_image

from ..pictures import png


def encode(picture: Any, kind: str, **options: Any) -> str:
    """Return a picture in base64."""
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return base64.b64encode(out.getvalue()).decode()


def decode(image: Image) -> Any:
    """Return what a provider would see."""
    picture = Pillow.open(io.BytesIO(base64.b64decode(image.data)))
    picture.load()
    return picture


def test_a_small_picture_is_sent_byte_for_byte() -> None:
    """Within the bounds nothing is encoded again; line breaks in the base64 are taken out."""
    small = png(40, 30)
    broken_up = "\n".join(small.data[at : at + 76] for at in range(0, len(small.data), 76)) + "\n"

    assert load_image(small.data) == (small, (40, 30))
    assert load_image(broken_up)[0] == small


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_large_picture_is_scaled(kind: str) -> None:
    """The long edge comes to the bound and the shape is kept."""
    image, size = load_image(encode(Pillow.new("RGB", (3_000, 1_500), "teal"), kind))

    assert size == (3_000, 1_500)
    assert (image.width_px, image.height_px) == (MAX_EDGE_PX, MAX_EDGE_PX // 2)
    assert decode(image).size == (image.width_px, image.height_px)
    assert image.media_type == f"image/{kind.lower()}"


def test_a_thin_picture_keeps_a_pixel() -> None:
    """Scaling never leaves an edge of none."""
    image, _ = load_image(encode(Pillow.new("L", (1, 9_000)), "PNG"))

    assert (image.width_px, image.height_px) == (1, MAX_EDGE_PX)


def test_a_heavy_picture_becomes_a_jpeg() -> None:
    """What is over the base64 bound as PNG is sent as JPEG, on white where it was transparent."""
    noise = Pillow.effect_noise((1_500, 1_500), 120).convert("RGBA")
    colours = Pillow.merge("RGBA", [Pillow.effect_noise((1_500, 1_500), 90) for _ in range(4)])
    data = encode(Pillow.blend(noise, colours, 0.5), "PNG")
    assert len(data) > MAX_BASE64_CHARS

    image, _ = load_image(data)

    assert image.media_type == "image/jpeg"
    assert len(image.data) <= MAX_BASE64_CHARS
    assert decode(image).mode == "RGB"


def test_other_colour_spaces_are_converted() -> None:
    """A CMYK picture is sent in RGB."""
    image, _ = load_image(encode(Pillow.new("CMYK", (20, 20)), "JPEG"))

    assert decode(image).mode == "RGB"


def test_the_first_frame_of_a_gif_is_sent() -> None:
    """An animation is one still PNG."""
    frames = [Pillow.new("RGB", (10, 10), colour) for colour in ("red", "blue")]
    data = encode(frames[0], "GIF", save_all=True, append_images=frames[1:])

    image, _ = load_image(data)

    assert image.media_type == "image/png"
    assert decode(image).convert("RGB").getpixel((0, 0)) == (255, 0, 0)


def cut_off() -> str:
    """Return a PNG whose end is missing."""
    whole = base64.b64decode(encode(Pillow.effect_noise((60, 60), 50), "PNG"))
    return base64.b64encode(whole[: len(whole) // 2]).decode()


def huge() -> str:
    """Return a PNG that claims to be enormous."""
    raw = bytearray(base64.b64decode(png(10, 10).data))
    raw[16:24] = (60_000).to_bytes(4, "big") * 2
    return base64.b64encode(bytes(raw)).decode()


@pytest.mark.parametrize(
    "data",
    ["", "!!!", "aGVsbG8=", cut_off(), huge(), base64.b64encode(b"\xff\xd8\xff\xe0").decode(),
     base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode(), "abc"],
    ids=["empty", "no base64", "no picture", "cut off", "huge", "empty jpeg", "zeros", "padding"],
)  # fmt: skip
def test_what_cannot_be_shown_is_refused(data: str) -> None:
    """A picture that a provider would refuse never gets out of here."""
    with pytest.raises(BadImageError):
        load_image(data)
