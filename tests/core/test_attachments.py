"""Laws of what is attached to a prompt: it fits, the prompt comes first, and a cut says so."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.attachments import CUT_LINE, Attachment, fit_attachments
from jupyter_ctx.core.blocks import Image, Text, json_bytes
from jupyter_ctx.core.counts import image_tokens
from jupyter_ctx.core.offload import Room
from jupyter_ctx.core.tokens import SAFETY
from jupyter_ctx.core.window import Limits

SMALL = Image("image/png", "A" * 40, 56, 56)


def count(text: str) -> int:
    """Count a token for every three characters."""
    return math.ceil(len(text) / 3)


def room(window: int | None = 8_000, used: int = 2_000, **more: int) -> Room:
    """Return a room of `window` tokens of which `used` are used."""
    made = Room(window, used, 1_600, 1_500, Limits(), count)
    return replace(made, **more)  # type: ignore[arg-type]  # every field given is an int


def test_what_fits_stays_as_it_is() -> None:
    """Attachments that fit are sent whole, in their order, images included."""
    given = (Text("a", "notebook"), SMALL, Text("b" * 300, "notebook"))
    fitted = fit_attachments(given, "the prompt", room())

    assert fitted.blocks == given
    assert (fitted.cut, fitted.left_out) == (0, 0)
    assert fitted.room.images_left == room().images_left - 1
    assert fitted.room.used_tokens > room().used_tokens


def test_a_large_one_is_cut_and_small_ones_are_not() -> None:
    """What is too large is cut at a line and says so; a small one beside it stays whole."""
    large = "\n".join(f"line {n}" for n in range(3_000))
    fitted = fit_attachments([Text(large), Text("small")], "p", room())

    first, second = fitted.blocks
    assert isinstance(first, Text)
    head, _, last = first.text.rpartition("\n")
    assert last == CUT_LINE
    assert large.startswith(head + "\n")
    assert head.count("\n") > 300
    assert second == Text("small")
    assert fitted.cut == 1


def test_one_long_line_is_cut_too() -> None:
    """A text of one line is cut within it."""
    fitted = fit_attachments([Text("x" * 100_000)], "p", room())

    assert isinstance(fitted.blocks[0], Text)
    assert fitted.blocks[0].text.startswith("xxx")
    assert fitted.blocks[0].text.endswith(f"x\n{CUT_LINE}")


def test_without_room_nothing_is_attached() -> None:
    """A prompt that takes all the room leaves none; that is counted, so that it can be told."""
    fitted = fit_attachments([Text("hello"), SMALL], "p" * 30_000, room())

    assert fitted.blocks == ()
    assert fitted.left_out == 2


def test_an_image_without_a_place_leaves_a_line() -> None:
    """Where no image may be sent, or is too large, its type and size stand in its place."""
    large = Image("image/png", "A" * 400, 1_500, 1_500)
    for where in (room(images_left=0), room(used=4_800), room(window=None, bytes_left=400)):
        fitted = fit_attachments([large], "p", where)
        assert fitted.blocks == (
            Text("[image/png, 1,500 × 1,500 px, not attached: no room for it]", "notebook"),
        )
        assert fitted.cut == 1


def test_without_a_window_characters_bound() -> None:
    """Where the window is not known, the characters of one message are the bound."""
    most = Limits().message_chars
    fitted = fit_attachments([Text("x\n" * most), SMALL], "p", room(window=None))

    assert isinstance(fitted.blocks[0], Text)
    assert most - 200 < len(fitted.blocks[0].text) < most
    assert fitted.blocks[1] == SMALL


def test_what_is_attached_is_valid_for_the_wire() -> None:
    """Lone surrogates are replaced before anything is counted."""
    fitted = fit_attachments([Text("a\ud800b")], "p", room())

    assert fitted.blocks == (Text("a\ufffdb"),)


ATTACHMENTS = st.lists(
    st.one_of(
        st.builds(Text, st.text("ab\n ", max_size=40).map(lambda text: text * 400)),
        st.builds(Text, st.text(max_size=30)),
        st.builds(
            Image,
            st.just("image/png"),
            st.integers(0, 4_000).map(lambda n: "A" * n),
            st.integers(1, 3_000),
            st.integers(1, 3_000),
        ),
    ),
    max_size=6,
)


@given(ATTACHMENTS, st.integers(0, 9_000), st.integers(0, 20_000), st.integers(0, 3))
def test_the_law_of_the_room_holds(
    attachments: list[Attachment], used: int, bytes_left: int, images_left: int
) -> None:
    """Whatever is attached, used + prompt + attachments + compaction request fit the window."""
    where = room(used=used, bytes_left=bytes_left, images_left=images_left)
    prompt = "What is this?"
    fitted = fit_attachments(attachments, prompt, where)
    tokens = sum(
        image_tokens(one) if isinstance(one, Image) else count(one.text) for one in fitted.blocks
    )

    if fitted.blocks:
        law = where.law_tokens
        assert law is not None
        assert SAFETY * (tokens + count(prompt)) <= law
        assert sum(isinstance(one, Image) for one in fitted.blocks) <= images_left
        sizes = (len(b.data) if isinstance(b, Image) else json_bytes(b.text) for b in fitted.blocks)
        assert sum(sizes) + json_bytes(prompt) <= bytes_left
    assert len(fitted.blocks) + fitted.left_out == len(attachments)
    assert fit_attachments(attachments, prompt, where) == fitted
