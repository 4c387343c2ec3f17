"""Bytes and images of a request: kept under their limits, and what a refusal by bytes does."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import (
    Image,
    Message,
    Text,
    ToolResult,
    images_of,
    message_to_wire,
    text_of,
    tool_results,
    user,
    without_images,
)
from jupyter_ctx.core.compaction import is_instruction
from jupyter_ctx.core.engine import LEAST_MOST_BYTES
from jupyter_ctx.core.entries import CompactionEntry
from jupyter_ctx.core.offload import MOST_BYTES
from jupyter_ctx.core.ports import ModelFacts, Request, ToolOutput
from jupyter_ctx.errors import PromptTooLongError, RequestTooLargeError
from jupyter_ctx.models.anthropic_wire import MessageWires, build_params
from jupyter_ctx.testing import (
    FakeSession,
    FakeTools,
    ScriptedModel,
    ScriptedReply,
    call,
    make_session,
    reply,
)

SUMMARY = reply("## Task\nGo on.")
TOO_LARGE = RequestTooLargeError("The request has more bytes than the server takes.", status=413)


def facts(images: int = 100, window: int = 200_000) -> ModelFacts:
    return ModelFacts("scripted", window, "api", 4_000, factor_prior=1.0, max_images=images)


def plot(chars: int = 1_000, count: int = 1) -> ToolOutput:
    """Return an output with images of so much base64."""
    images = (Image("image/png", "iVBORw0K" + "A" * (chars - 8), 560, 280),) * count
    outputs = ({"output_type": "display_data", "data": {"image/png": "iVBORw0K"}},) * count
    return ToolOutput("<Figure>", images, outputs)


def session_of(model: ScriptedModel, *, most_bytes: int = MOST_BYTES, **values: Any) -> FakeSession:
    """Return a session whose tool `plot` shows images; a request may have `most_bytes`."""
    session = make_session(model, tools=FakeTools(plot=plot), **values)
    session._engine.most_bytes = most_bytes
    return session


def bytes_of(request: Request) -> int:
    body = build_params(request, MessageWires())
    return len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())


def count_images(request: Request) -> int:
    return sum(len(images_of(message)) for message in request.messages)


def run(session: FakeSession, text: str = "go") -> str:
    session.ask(text)
    assert session.last_turn is not None
    return session.last_turn.outcome


def compactions(session: FakeSession) -> list[CompactionEntry]:
    return session.transcript.compactions


# Old images leave in time -------------------------------------------------------------------------


def test_images_leave_in_one_batch_when_their_number_nears_the_limit() -> None:
    """Of one image a turn, no request has more than may be; they leave at a compaction alone."""
    turns = [answer for _ in range(12) for answer in (reply(call("plot")), reply("Seen."))]
    model = ScriptedModel(*turns, facts=facts(images=8))
    model.answers = [
        lambda request: SUMMARY if is_instruction(request.messages[-1]) else turns.pop(0)
    ] * 40
    session = session_of(model)
    for turn in range(12):
        assert run(session, f"plot {turn}") == "done"

    steps = [r for r in model.requests if not is_instruction(r.messages[-1])]
    assert max(map(count_images, steps)) <= 8
    assert [entry.trigger for entry in compactions(session)] == ["proactive"]
    assert [broken.cause for broken in session.prefix_breaks] == ["compaction"]
    counts = [count_images(request) for request in steps]
    falls = [n for n, (a, b) in enumerate(itertools.pairwise(counts)) if b < a]
    assert len(falls) == 1
    (entry,) = compactions(session)
    head = text_of(entry.message.content)
    ids = [
        result.tool_use_id
        for r in steps[: falls[0]]
        for m in r.messages
        for result in tool_results(m)
        if images_of(m)
    ]
    for id_ in set(ids) - {r.tool_use_id for m in session.transcript.view for r in tool_results(m)}:
        assert f"`{id_}`: plot, 1 lines, with its images in tool-results/{id_}.json" in head


def test_images_leave_when_the_bytes_near_the_limit() -> None:
    """However large they are, every request stays below the bytes, those for summaries too."""
    turns = [
        answer for _ in range(20) for answer in (reply(call("plot", chars=90_000)), reply("."))
    ]
    model = ScriptedModel(facts=facts(window=2_000_000))
    model.answers = [
        lambda request: SUMMARY if is_instruction(request.messages[-1]) else turns.pop(0)
    ] * 60
    session = session_of(model, most_bytes=1_000_000)
    for turn in range(20):
        assert run(session, f"plot {turn}") == "done"

    assert max(map(bytes_of, model.requests)) <= 1_000_000
    assert 2 <= len(compactions(session)) <= 5
    assert not any(entry.drop_images for entry in compactions(session))
    view = session.transcript.view
    assert sum(len(images_of(message)) for message in view) > 0


def test_one_message_brings_no_more_than_fits() -> None:
    """Images beyond the bytes of a request are left out at ingest, with a line."""
    model = ScriptedModel(reply(call("plot", chars=300_000, count=5)), reply("Seen."))
    session = session_of(model, most_bytes=1_000_000)
    run(session)

    assert count_images(model.requests[1]) == 3
    assert "[2 images left out: no room]" in str(model.requests[1].messages[-1])
    assert bytes_of(model.requests[1]) <= 1_000_000


def test_no_compaction_that_would_not_lighten() -> None:
    """What was not sent yet cannot leave: nothing is asked for its sake, and nothing loops."""
    model = ScriptedModel(
        reply(call("plot", chars=300_000, count=3)), reply("Seen."), SUMMARY, reply("More.")
    )
    session = session_of(model, most_bytes=1_000_000)
    run(session)

    assert compactions(session) == []
    assert run(session, "on") == "done"
    (entry,) = compactions(session)
    assert entry.drop_messages == 3
    assert count_images(model.requests[-1]) == 0


@pytest.mark.parametrize("mode", ["manual", "off"])
def test_without_automatic_compaction_images_stay_and_new_ones_do_not_come(mode: str) -> None:
    """A user who compacts by hand keeps what there is; the limit holds at ingest."""
    turns = [answer for _ in range(5) for answer in (reply(call("plot")), reply("Seen."))]
    model = ScriptedModel(*turns, facts=facts(images=3))
    session = session_of(model, compaction=mode)
    for turn in range(5):
        assert run(session, f"plot {turn}") == "done"

    assert max(map(count_images, model.requests)) == 3
    assert compactions(session) == []


# Refused by bytes ---------------------------------------------------------------------------------


def refused_once(*answers: ScriptedReply | Exception) -> FakeSession:
    """Return a session after a turn with two plots whose third request was refused by bytes."""
    model = ScriptedModel(
        reply("One.", call("plot", chars=400_000)),
        reply("Two.", call("plot", chars=400_000)),
        TOO_LARGE,
        *answers,
        facts=facts(),
    )
    session = session_of(model)
    run(session, "plot twice")
    return session


def test_a_413_lets_the_images_go_and_nothing_else() -> None:
    """One compaction takes every image out; the texts of the newest steps stay as they were."""
    session = refused_once(SUMMARY, reply("Done."))
    model = session.model
    asked, sent = model.requests[3:]

    assert session.last_turn is not None
    assert session.last_turn.text == "Done."
    assert is_instruction(asked.messages[-1])
    assert [count_images(request) for request in model.requests] == [0, 1, 2, 0, 0]
    (entry,) = compactions(session)
    assert (entry.trigger, entry.drop_images, entry.drop_messages) == ("reactive", True, 1)
    kept = [message_to_wire(without_images(m)) for m in model.requests[2].messages[1:]]
    assert [message_to_wire(m) for m in sent.messages[1:]] == kept
    assert bytes_of(sent) < 20_000


def test_what_left_is_named_and_within_reach() -> None:
    """In place of an image stands a line that names its result; the list names its file."""
    session = refused_once(SUMMARY, reply("Done."))
    head, *rest = session.model.requests[-1].messages
    ids = [result.tool_use_id for message in rest for result in tool_results(message)]

    assert len(ids) == 2
    for id_ in ids:
        assert f"[Image left out to make room; it is stored with the result {id_}]" in str(rest)
        assert f"tool-results/{id_}.json" in text_of(head.content)
        assert session.results[id_].outputs


def test_an_undo_brings_the_images_back() -> None:
    """The log from before the compaction is what it was, images included."""
    session = refused_once(SUMMARY, reply("Done."))
    before = session.model.requests[2].messages
    session.undo_summary()

    assert tuple(session.transcript.view[: len(before)]) == before


def test_a_resumed_session_sends_the_same_without_images() -> None:
    """That the images are out is decided once and stored."""
    session = refused_once(SUMMARY, reply("Done."))
    again = make_session(ScriptedModel(), entries=session.transcript.entries)

    assert list(again.transcript.view) == list(session.transcript.view)


def test_a_second_413_ends_with_the_bytes() -> None:
    """There is no loop: after one compaction the error says how many bytes there are."""
    session = refused_once(SUMMARY, TOO_LARGE)
    turn = session.last_turn

    assert turn is not None
    assert turn.outcome == "failed"
    assert len(session.model.requests) == 5
    size = session._engine.weight.bytes
    assert turn.error is not None
    assert "more bytes than the server takes" in turn.error
    assert "bytes, with 0 images." in turn.error
    assert size < 10_000


def test_a_413_of_a_first_prompt_ends_with_the_bytes() -> None:
    """Where nothing can leave, nothing is asked for."""
    session = session_of(ScriptedModel(TOO_LARGE))
    run(session, "x" * 1_000)

    assert session.last_turn is not None
    assert session.last_turn.error is not None
    assert "bytes, with 0 images." in session.last_turn.error
    assert compactions(session) == []


def test_a_413_without_images_compacts_as_a_long_prompt_does() -> None:
    """Where there is only text, old text is summed up."""
    model = ScriptedModel(
        reply("x" * 60_000), reply("Two."), TOO_LARGE, SUMMARY, reply("Done."), facts=facts()
    )
    session = session_of(model)
    for text in ("one", "two", "three"):
        run(session, text)

    (entry,) = compactions(session)
    assert entry.trigger == "reactive"
    assert not entry.drop_images
    assert session.last_turn is not None
    assert session.last_turn.text == "Done."


def test_a_413_frees_images_where_tokens_would_not_be_freed() -> None:
    """After a compaction of little gain, tokens wait; images that are too many bytes do not."""
    model = ScriptedModel(
        reply("One.", call("plot", chars=9_000)), TOO_LARGE, SUMMARY, reply("Done."), facts=facts()
    )
    session = session_of(model, least_gain=1.0)
    run(session)
    model.answers += [
        reply("One.", call("plot", chars=9_000)),
        TOO_LARGE,
        SUMMARY,
        reply("Done again."),
    ]
    run(session, "again")

    assert session.last_turn is not None
    assert session.last_turn.text == "Done again."
    assert len(compactions(session)) == 2


def test_a_refusal_teaches_the_limit() -> None:
    """A server that takes less is not sent as much again; a small request teaches nothing."""
    session = refused_once(SUMMARY, reply("Done."))
    assert 800_000 < session._engine.most_bytes < 820_000
    small = session_of(ScriptedModel(TOO_LARGE))
    run(small)
    assert small._engine.most_bytes == MOST_BYTES
    assert LEAST_MOST_BYTES < 800_000


def test_a_long_prompt_never_drops_images_alone() -> None:
    """Too many tokens are another fault: images in the tail stay."""
    model = ScriptedModel(
        reply("x" * 60_000),
        reply("One.", call("plot")),
        PromptTooLongError(),
        SUMMARY,
        reply("Done."),
        facts=facts(),
    )
    session = session_of(model)
    run(session)
    run(session, "plot")

    (entry,) = compactions(session)
    assert not entry.drop_images
    assert count_images(model.requests[-1]) == 1


# The law ------------------------------------------------------------------------------------------


SIZES = st.sampled_from([1_000, 30_000, 200_000, 450_000])


@given(st.lists(st.tuples(SIZES, st.integers(1, 4)), max_size=25), st.integers(2, 12))
@settings(max_examples=25, deadline=None)
def test_no_request_is_over_its_bytes_or_images(plots: list[tuple[int, int]], most: int) -> None:
    """Whatever images come, in whatever number: every request fits, and every turn ends well."""
    model = ScriptedModel(facts=facts(most, 9_000_000))
    session = session_of(model, most_bytes=1_000_000)
    for number, (chars, count) in enumerate(plots):
        script = [reply(call("plot", chars=chars, count=count)), reply("Seen.")]

        def answer(request: Request, script: list[ScriptedReply] = script) -> ScriptedReply:
            return SUMMARY if is_instruction(request.messages[-1]) else script.pop(0)

        model.answers = [answer] * 5
        assert run(session, f"plot {number}") == "done"

    assert all(bytes_of(request) <= 1_000_000 + 50_000 for request in model.requests)
    assert all(count_images(request) <= most for request in model.requests)
    causes = {broken.cause for broken in session.prefix_breaks}
    assert causes <= {"compaction"}


def test_a_placeholder_stands_for_each_image() -> None:
    """Texts and calls stay; a message without images is the same object."""
    image = Image("image/png", "aGk=", 1, 1)
    message = user(Text("a"), image, ToolResult("t", (Text("b"), image, image), is_error=True))

    bare = without_images(message)

    assert images_of(bare) == ()
    assert isinstance(bare.content[2], ToolResult)
    assert [type(block) for block in bare.content[2].content] == [Text, Text, Text]
    assert bare.content[2].is_error
    assert without_images(bare) is bare
    assert Message("user", (Text("a"),)) == without_images(user(Text("a")))
