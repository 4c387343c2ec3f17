"""Images: what is refused, and what they cost."""

from __future__ import annotations

import base64
import io
from typing import Any

import anthropic
import pytest
from PIL import Image

from . import FakeAnthropic
from .raw import TOOL, accept, assistant, body_of, refusal, send, tool_result, tool_use, user


def picture(width: int, height: int, kind: str = "PNG") -> str:
    buffer = io.BytesIO()
    Image.new("L", (width, height)).save(buffer, kind)
    return base64.b64encode(buffer.getvalue()).decode()


def image(data: str, media_type: str = "image/png") -> dict[str, Any]:
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": media_type, "data": data},
    }


SMALL = picture(4, 4)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_the_four_kinds_are_accepted(server: FakeAnthropic, kind: str) -> None:
    """PNG, JPEG, GIF and WebP are taken."""
    accept(server, body_of(user(image(picture(8, 8, kind), f"image/{kind.lower()}"))))


def test_wrong_media_type(server: FakeAnthropic) -> None:
    """The media type must be one of four, and that of the bytes."""
    unknown = refusal(server, body_of(user(image(picture(8, 8, "BMP"), "image/bmp"))))
    other = refusal(server, body_of(user(image(picture(8, 8, "JPEG")))))

    assert "media_type: Input should be 'image/jpeg'" in unknown
    assert other.endswith(
        "specified using the image/png media type, but the image appears to be a image/jpeg image"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("no base64!", "Invalid base64 data"),
        (base64.b64encode(b"no image").decode(), "Could not process image"),
        (SMALL[: len(SMALL) // 2 // 4 * 4], "Could not process image"),
        (picture(8, 8, "BMP"), "Could not process image"),
        ("", "Could not process image"),
    ],
    ids=["no base64", "no image", "torn", "another kind", "empty"],
)
def test_bytes_that_are_no_image(server: FakeAnthropic, data: str, message: str) -> None:
    """What cannot be decoded is refused."""
    assert message in refusal(server, body_of(user(image(data))))


def test_image_over_10_mb(server: FakeAnthropic) -> None:
    """More than 10 MB of base64 in one image is refused."""
    assert "image exceeds 10 MB maximum" in refusal(
        server, body_of(user(image("A" * (10 * 1024 * 1024 + 4))))
    )


def test_pixels(server: FakeAnthropic) -> None:
    """A side may have 8,000 px, and 2,000 px when a request has more than 20 images."""
    wide = image(picture(8_001, 1))
    answer = send(server, body_of(user(wide)))[1]
    many = refusal(server, body_of(user(*[image(SMALL)] * 20, image(picture(2_001, 1)))))

    assert "exceed max allowed size: 8000 pixels" in answer["error"]["message"]
    assert answer["error"]["details"]["error_code"] == "image_dimensions_too_large"
    assert answer["error"]["details"]["paths"] == ["messages.0.content.0"]
    assert "exceed max allowed size for many-image requests: 2000 pixels" in many
    accept(server, body_of(user(image(picture(8_000, 1)))))
    accept(server, body_of(user(*[image(SMALL)] * 19, image(picture(2_001, 1)))))


def test_pixels_through_the_sdk(server: FakeAnthropic, client: anthropic.Anthropic) -> None:
    """The SDK reads the error's code and details."""
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(**body_of(user(image(picture(8_001, 1)))))

    assert caught.value.error_code == "image_dimensions_too_large"


def test_number_of_images(server: FakeAnthropic) -> None:
    """A 200k model takes 100 images, those inside tool results counted."""
    inside = tool_result("a", [image(SMALL)] * 60)
    talk = (user(*[image(SMALL)] * 40), assistant(tool_use("a")))
    model = {"model": "claude-haiku-4-5", "tools": [TOOL]}

    accept(server, body_of(*talk, user(inside), **model))
    message = refusal(server, body_of(*talk, user(inside, image(SMALL)), **model))

    assert "too many images and documents: 101 + 0 > 100" in message


@pytest.mark.parametrize(
    ("model", "width", "height", "tokens"),
    [
        ("claude-haiku-4-5", 280, 280, 100),
        ("claude-haiku-4-5", 281, 280, 110),
        ("claude-sonnet-5-5", 1_000, 1_000, 1_296),
    ],
)
def test_tokens_of_images(
    server: FakeAnthropic, model: str, width: int, height: int, tokens: int
) -> None:
    """An image costs ceil(w/28) × ceil(h/28) tokens."""
    without = accept(server, body_of(user("x"), model=model))["usage"]["input_tokens"]
    both = body_of(user("x", image(picture(width, height))), model=model)

    assert accept(server, both)["usage"]["input_tokens"] - without == tokens + 3


def test_large_images_are_scaled_down(server: FakeAnthropic) -> None:
    """Over the model's edge and tokens, an image costs at most those tokens."""
    usage = accept(server, body_of(user(image(picture(6_000, 6_000))), model="claude-haiku-4-5"))

    assert 1_400 < usage["usage"]["input_tokens"] < 1_600
