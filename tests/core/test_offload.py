"""Which results stay whole, which leave a preview, and that the window always has room left."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import Image, Text, ToolResult
from jupyter_ctx.core.counts import image_tokens
from jupyter_ctx.core.entries import FateEntry
from jupyter_ctx.core.offload import (
    LEAST_RESULT_TOKENS,
    Decision,
    NewResult,
    Room,
    cap_chars,
    finish,
    ingest,
    ingest_prompt,
)
from jupyter_ctx.core.ports import SpooledText, ToolOutput, ToolSpec
from jupyter_ctx.core.tokens import SAFETY, TokenMeter
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.core.window import Limits

from .strategies import ByteCounter, facts, prompt, reply_entry, results_entry

SPEC = ToolSpec("run_code", "", {"type": "object"}, reads_only=False)
READER = dataclasses.replace(SPEC, name="read_result", reads_only=True, offloads=False)

INSTRUCTION_TOKENS = 800


def room(
    window: int | None = 200_000, used: int = 5_000, *, factor: float = 1.0, **limits: object
) -> Room:
    meter = TokenMeter(ByteCounter(), factor)
    known = Limits(**limits)  # type: ignore[arg-type]  # fields of Limits
    return Room.of(facts(window), known, used, meter, instruction_tokens=INSTRUCTION_TOKENS)


def new(
    text: str | SpooledText = "", id_: str = "toolu_1", spec: ToolSpec = SPEC, **output: object
) -> NewResult:
    return NewResult(id_, spec.name, spec, ToolOutput(text, **output))  # type: ignore[arg-type]


def one(result: NewResult, where: Room) -> Decision:
    (decision,) = ingest([result], {}, where)
    return decision


def path_of(decision: Decision) -> str | None:
    if decision.fate == "keep":
        return None
    return f"tool-results/20261130-101500-4f2a9c/{decision.result.tool_use_id}.txt"


def shown(decision: Decision) -> str:
    result = finish(decision, path_of(decision))
    return "\n".join(block.text for block in result.content if isinstance(block, Text))


def lines(count: int) -> str:
    return "".join(f"line {number} of the log\n" for number in range(1, count + 1))


# Each result alone --------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [8_000, 64_000, 200_000, 1_000_000])
def test_up_to_the_cap_a_text_stays_whole(window: int) -> None:
    """0, 1, cap-1 and cap characters arrive as they are; one more becomes a preview."""
    where = room(window, used=0)
    cap = min(50_000, window // 4)
    assert cap_chars(where, SPEC) == cap

    for size in (1, cap - 1, cap):
        text = ("x" * 99 + "\n") * (size // 100) + "y" * (size % 100)
        decision = one(new(text), where)
        assert decision.fate == "keep"
        assert finish(decision, None).content == (Text(text, "results"),)
    over = one(new("z" * (cap + 1)), where)
    assert over.fate == "offload"
    assert "zzzz" in shown(over)
    assert len(shown(over)) <= min(2_000, 0.4 * (cap + 1))


def test_the_tools_own_cap_and_the_setting() -> None:
    """A tool's `max_result_chars` bounds its results; a setting by its name takes its place."""
    spec = dataclasses.replace(SPEC, max_result_chars=4_000)
    assert cap_chars(room(), spec) == 4_000
    assert cap_chars(room(max_result_chars={"run_code": 9_000}), spec) == 9_000
    assert cap_chars(room(max_result_chars={"run_code": 90_000}), spec) == 50_000
    assert cap_chars(room(None), SPEC) == 50_000

    assert one(new("x" * 4_001, spec=spec), room()).fate == "offload"


def test_a_long_log_leaves_head_tail_and_handle() -> None:
    """The preview has first and last lines, size, line count, MIME types, path and handle."""
    text = lines(20_000)
    decision = one(new(text, mime_types=("text/plain", "image/png")), room())

    preview = shown(decision)

    assert decision.fate == "offload"
    assert (decision.chars, decision.lines) == (len(text), 20_000)
    assert "line 1 of the log\nline 2 of the log\n" in preview
    assert preview.endswith("line 19999 of the log\nline 20000 of the log\n")
    for fact in (
        f"{len(text):,} characters",
        "20,000 lines",
        "text/plain, image/png",
        "tool-results/20261130-101500-4f2a9c/toolu_1.txt",
        'read_result(tool_use_id="toolu_1"',
    ):
        assert fact in preview
    assert len(preview) <= 2_000


def test_nothing_is_offloaded_unless_that_halves_it() -> None:
    """A text just over a very small cap stays whole: its preview would be no shorter."""
    where = room(max_result_chars={"run_code": 100})

    assert one(new("x" * 101), where).fate == "keep"
    assert one(new("x" * 900), where).fate == "offload"


def test_a_spooled_text_is_always_offloaded() -> None:
    """Of a text that never was in memory, head and tail are shown and the whole is counted."""
    spooled = SpooledText("/x", 9_000_000, 300_000, 9_100_000, "head\n" * 900, "tail\n" * 900)
    decision = one(new(spooled), room())

    assert decision.fate == "offload"
    assert (decision.chars, decision.lines) == (9_000_000, 300_000)
    assert "9,000,000 characters, 300,000 lines" in shown(decision)
    assert "head\n" in shown(decision)
    assert shown(decision).endswith("tail\n")


@pytest.mark.parametrize(
    ("is_error", "text", "word"),
    [(False, "", "completed"), (False, " \n", "completed"), (True, "", "failed")],
)
def test_an_empty_result_is_named(is_error: bool, text: str, word: str) -> None:
    """Nothing, or nothing but blanks, becomes a sentence; an error stays one."""
    decision = one(new(text, is_error=is_error), room())

    assert decision.fate == "keep"
    assert finish(decision, None) == ToolResult(
        "toolu_1", (Text(f"(run_code {word} with no output)", "results"),), is_error
    )


def test_text_is_made_valid_for_the_wire() -> None:
    """Lone surrogates and NULs are replaced, one for one, in what is stored and in what is sent."""
    decision = one(new("a\ud800b\x00c"), room())

    assert decision.result.output.text == "a\ufffdb\ufffdc"
    assert shown(decision) == "a\ufffdb\ufffdc"


def test_a_result_that_could_not_be_stored_says_so() -> None:
    """Without a path the preview names none."""
    decision = one(new("x" * 60_000), room())
    result = finish(decision, None)

    assert isinstance(result.content[0], Text)
    assert "kept in memory only" in result.content[0].text


def test_rich_outputs_are_kept_for_the_store() -> None:
    """A result with more than plain text wants to be saved even if its text stays."""
    stream = {"output_type": "stream", "name": "stdout", "text": "x"}
    plain = {"output_type": "execute_result", "data": {"text/plain": "x"}}
    table = {"output_type": "display_data", "data": {"text/plain": "x", "text/html": "<table>"}}

    assert not one(new("x", outputs=(stream, plain)), room()).keep_outputs
    assert one(new("x", outputs=(stream, table)), room()).keep_outputs


# Fates --------------------------------------------------------------------------------------------


def test_a_fate_never_changes() -> None:
    """What was decided once holds, whatever the text or the room would say now."""
    past = {
        "a": FateEntry(0.0, "a", "keep", "run_code", 60_000, 1),
        "b": FateEntry(0.0, "b", "offload", "run_code", 1_000, 1),
    }
    results = [new("x" * 60_000, "a"), new("y" * 1_000, "b")]

    fates = [each.fate for each in ingest(results, past, room())]
    tight = [each.fate for each in ingest(results, past, room(8_000, 6_000))]

    assert fates == tight == ["keep", "offload"]


def test_decisions_are_deterministic() -> None:
    """The same results in the same room give the same bytes."""
    results = [new(lines(3_000), "a"), new("y" * 9_000, "b")]

    def content() -> list[ToolResult]:
        return [finish(d, path_of(d)) for d in ingest(results, {}, room(16_000))]

    assert content() == content()


# All results of a message -------------------------------------------------------------------------


def test_all_results_together_in_characters() -> None:
    """Over 200,000 characters together, the largest go first, and only as many as needed."""
    results = [new("x" * size, f"t{size}") for size in (40_000, 49_000, 45_000, 44_000, 43_000)]

    decisions = ingest(results, {}, room(1_000_000, factor=0.7))

    assert [each.fate for each in decisions] == ["keep", "offload", "keep", "keep", "keep"]
    assert sum(len(shown(each)) for each in decisions) <= 200_000


def test_all_results_together_without_a_known_window() -> None:
    """Where no window is known, characters are still bounded and nothing else is."""
    results = [new("x" * 45_000, f"t{index}") for index in range(6)]

    fates = [each.fate for each in ingest(results, {}, room(None))]

    assert fates == ["offload", "offload", "keep", "keep", "keep", "keep"]


def test_half_of_what_is_left() -> None:
    """Results take at most half of window - used - reserve: the largest leaves first."""
    where = room(16_000, used=6_000)
    assert where.share_tokens == (16_000 - 6_000 - 3_200) // 2

    decisions = ingest([new("x" * 3_000, "a"), new("y" * 3_900, "b")], {}, where)

    assert [each.fate for each in decisions] == ["keep", "offload"]


def test_a_small_result_stays_whole_near_the_reserve() -> None:
    """Under 5 % of the window a result stays whole while the law allows, however near a compaction.

    A preview of a few words would save next to nothing: the compaction that is due makes room.
    """
    error = new("KeyError: 'mocha'\n" * 10)

    assert one(error, room(8_000, 6_390)).fate == "keep"
    assert one(new(lines(140)), room(8_000, 6_390)).fate == "offload"


def test_previews_shrink_where_room_is_short() -> None:
    """When previews themselves are too much they shrink to 300 characters and a short header."""
    where = room(16_000, used=12_000)
    decisions = ingest([new(lines(900), "a"), new(lines(800), "b")], {}, where)

    for decision in decisions:
        assert decision.fate == "offload"
        assert len(shown(decision)) <= 460
        assert 'read_result(tool_use_id="' in shown(decision)
        assert "line 1 of the log" in shown(decision)


def test_a_short_text_stays_where_a_preview_would_not_help() -> None:
    """With no room to share, a text that a preview would not halve stays whole."""
    decision = one(new("x" * 90), room(16_000, used=13_000))

    assert decision.fate == "keep"


# Images -------------------------------------------------------------------------------------------


def picture(size: int = 560, data: str = "aGk=") -> Image:
    return Image("image/png", data, size, size)


def test_images_stay_behind_the_text() -> None:
    """Text first, then the images as they came."""
    images = (picture(), picture(28))
    decision = one(new("done", images=images), room())

    assert finish(decision, None).content == (Text("done", "results"), *images)


def test_images_give_way_to_a_line() -> None:
    """Where the window has no room for an image, a line of text stands for it."""
    decision = one(new("done", images=(picture(28), picture(1_400))), room(8_000, used=4_000))
    result = finish(decision, None)

    assert result.content == (
        Text("done", "results"),
        Text("[1 image left out: no room]", "results"),
        picture(28),
    )


def test_images_are_bounded_by_count_and_size() -> None:
    """No more images than a request may carry, by number and by bytes; the rest are one line."""
    where = dataclasses.replace(room(1_000_000), images_left=2)
    decisions = ingest(
        [new(images=(picture(28),) * 3), new("", "b", images=(picture(28),))], {}, where
    )
    assert [each.images for each in decisions] == [2, 0]
    assert shown(decisions[1]) == "[1 image left out: no room]"

    small = dataclasses.replace(where, bytes_left=10 + 4 * len("done"))
    assert one(new("done", images=(picture(28, "x" * 6),) * 2), small).images == 1


def test_a_prompt_is_bounded_in_bytes_too() -> None:
    """Where the bytes of a request run out, a prompt that the window would take is stored."""
    where, text = room(1_000_000), " " * 400_000 + "ü" * 50

    assert ingest_prompt(text, 1, dataclasses.replace(where, bytes_left=400_102)).text == text
    fitted = ingest_prompt(text, 1, dataclasses.replace(where, bytes_left=400_101))
    assert fitted.stored == text


def test_ten_thousand_images_are_one_line() -> None:
    """However many images come, what stays is bounded."""
    decision = one(new(images=(picture(28),) * 10_000), room(8_000))

    assert decision.images <= 100
    assert f"[{10_000 - decision.images:,} images left out" in shown(decision)


# Tools that bound themselves ----------------------------------------------------------------------


def test_a_reader_is_told_its_cap() -> None:
    """The cap of a tool that bounds itself follows the room, shared by its calls; at least 500."""
    assert cap_chars(room(), READER) == 50_000
    assert cap_chars(room(), READER, calls=8) == (200_000 - 5_000 - 40_000) // 2 // 8
    assert cap_chars(room(16_000, 6_000), READER) == 3_400
    assert cap_chars(room(16_000, 6_000), READER, calls=4) == 850
    assert cap_chars(room(16_000, 13_000), READER) == 500
    assert cap_chars(room(None), READER, calls=8) == 25_000


def test_a_reader_is_never_offloaded_but_cut_by_the_law() -> None:
    """Its result stays in the message, whole if it fits, else cut with a word that says so."""
    whole = one(new("数" * 9_000, spec=READER), room())
    assert (whole.fate, whole.cut_chars) == ("keep", None)

    cut = one(new("数" * 9_000, spec=READER), room(8_000, 4_000))

    assert cut.fate == "keep"
    assert shown(cut).startswith("数数数")
    assert shown(cut).endswith("Ask for a smaller range.]")


# The law ------------------------------------------------------------------------------------------

HANDLE_CHARS = 100
"""A result is told by so many characters at least: its size and the call that reads it."""
KINDS = ("x", "7", "a b\n", "数据", "🙂", "ab+/9Q=Z", "é\t", "Traceback (most recent call last):\n")
PIECES = st.tuples(
    st.sampled_from(KINDS),
    st.sampled_from([0, 1, 7, 60, 300, 900, 2_000, 2_100, 9_000, 49_000, 600_000]),
)


@st.composite
def results(draw: st.DrawFn) -> list[NewResult]:
    """Up to 8 parallel results of any content; some of tools that bound themselves."""
    made = []
    for index in range(draw(st.integers(1, 8))):
        kind, size = draw(PIECES)
        spec = draw(st.sampled_from([SPEC, SPEC, READER]))
        images = (picture(draw(st.sampled_from([28, 640, 1_568]))),) * draw(st.integers(0, 2))
        text = (kind * (size // len(kind) + 1))[:size]
        id_ = f"toolu_01AbCdEfGhJkLmNp{index:02}"
        made.append(new(text, id_, spec, images=images, is_error=draw(st.booleans())))
    return made


def after_ingest(window: int, used: int, factor: float, given: Sequence[NewResult]) -> int:
    """Return what is used, cautiously, when the results' message was appended."""
    meter = TokenMeter(ByteCounter(), factor)
    transcript = Transcript()
    for entry in (prompt(), reply_entry(usage=Usage(used - 10, 0, 0, 10))):
        transcript.append(entry)
        meter.observe(entry, transcript)
    used = meter.used(transcript).cautious
    where = Room.of(facts(window), Limits(), used, meter, instruction_tokens=INSTRUCTION_TOKENS)
    done = [finish(decision, path_of(decision)) for decision in ingest(given, {}, where)]
    transcript.append(results_entry(*done))
    return meter.used(transcript).cautious


@given(
    st.sampled_from([8_000, 16_000, 64_000, 200_000]),
    st.floats(0, 1),
    st.sampled_from([0.7, 1.35, 2.5]),
    results(),
)
@settings(max_examples=100, deadline=None)
def test_after_every_ingest_a_compaction_fits(
    window: int, full: float, factor: float, given_: list[NewResult]
) -> None:
    """Used + compaction request + summary fit the window, whatever came and however full it was.

    But for a text that is no longer than its own handle: it stays whole, dense as it may be.
    """
    compaction = INSTRUCTION_TOKENS + min(3_000, window // 20)
    meter = TokenMeter(ByteCounter(), factor)
    short = [text for each in given_ if len(text := str(each.output.text)) <= HANDLE_CHARS]
    whole = sum(math.ceil(SAFETY * meter.estimate_text(text)) for text in short)
    fullest = window - compaction - LEAST_RESULT_TOKENS * len(given_) - whole
    used = 1_000 + int(full * (fullest - 1_000))

    assert after_ingest(window, used, factor, given_) + compaction <= window


@pytest.mark.parametrize("window", [8_000, 16_000, 64_000, 200_000])
def test_one_result_of_300k_tokens(window: int) -> None:
    """One result larger than the window itself leaves a preview, and room."""
    huge = [new("0123456789 " * 60_000)]

    assert after_ingest(window, window // 2, 1.35, huge) < window * 0.8


@given(results())
@settings(max_examples=60, deadline=None)
def test_results_stay_valid(given_: list[NewResult]) -> None:
    """One result a call, in call order, never empty, and previews never empty either."""
    where = room(16_000, used=9_000)
    decisions = ingest(given_, {}, where)
    done = [finish(decision, path_of(decision)) for decision in decisions]

    assert [result.tool_use_id for result in done] == [each.tool_use_id for each in given_]
    for decision, result in zip(decisions, done, strict=True):
        texts = [block.text for block in result.content if isinstance(block, Text)]
        assert result.content
        assert all(text.strip() for text in texts) or decision.fate == "keep"
        if decision.fate == "offload":
            head, _, body = texts[0].partition("\n")
            assert "read_result" in head
            assert body
            assert len(texts[0]) < decision.chars
        assert decision.fate == "keep" or decision.result.spec.offloads


# Prompts ------------------------------------------------------------------------------------------


def test_a_prompt_that_fits_is_not_cut() -> None:
    """A user's text up to half of the room is sent as it is, but for what the wire refuses."""
    text = "Please look at this.\n" * 300

    assert ingest_prompt(text, 3, room(64_000)).text == text
    assert ingest_prompt("a\x00b", 3, room()).text == "a\ufffdb"
    assert ingest_prompt(text, 3, room(64_000)).stored is None


def test_a_long_prompt_is_stored_under_its_turn() -> None:
    """Over half of the room it leaves a preview that names `prompt-<turn>`; the whole is stored."""
    text = lines(200_000)
    fitted = ingest_prompt(text, 3, room())

    assert fitted.stored == text
    assert len(fitted.text) <= 2_000
    assert 'read_result(tool_use_id="prompt-3"' in fitted.text
    assert fitted.text.endswith("line 200000 of the log\n")


def test_a_small_prompt_is_kept_although_a_compaction_is_due() -> None:
    """Near the reserve a prompt under 5 % of the window stays whole; a larger one is previewed."""
    full = room(8_000, used=6_300)

    assert ingest_prompt("x" * 600, 3, full).stored is None
    assert ingest_prompt("x" * 6_000, 3, full).stored is not None


def test_a_prompt_preview_shrinks_with_the_room() -> None:
    """In a window that is all but full the preview is the handle and a few characters."""
    fitted = ingest_prompt("数" * 20_000, 3, room(8_000, used=7_200))

    assert len(fitted.text) < 100
    assert "prompt-3" in fitted.text
    assert fitted.stored is not None


def test_a_short_prompt_stays_whatever_the_room() -> None:
    """A text that a preview would not halve is sent, for the window's own rules to judge."""
    assert ingest_prompt("hello", 3, room(8_000, used=8_000)).text == "hello"


def test_a_prompt_without_a_known_window() -> None:
    """Where no window is known a prompt may be 200,000 characters."""
    assert ingest_prompt("x" * 200_000, 3, room(None)).stored is None
    assert ingest_prompt("x" * 200_001, 3, room(None)).stored is not None


def test_image_tokens_count_in_the_room() -> None:
    """A picture takes of the room what it will cost."""
    where = room(16_000, used=6_000)
    assert where.share_tokens is not None
    fits = [size for size in (560, 1_120, 1_568) if 1.15 * image_tokens(picture(size)) < 3_300]

    kept = [size for size in (560, 1_120, 1_568) if one(new(images=(picture(size),)), where).images]

    assert kept == fits == [560, 1_120]
