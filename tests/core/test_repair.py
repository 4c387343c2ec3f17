"""A mended view is one that the provider takes, and a good one is left alone."""

from __future__ import annotations

from hypothesis import given, settings

from jupyter_ctx.core.blocks import (
    Image,
    Message,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    assistant,
    tool_results,
    tool_uses,
    user,
)
from jupyter_ctx.core.repair import (
    INTERRUPTED_TEXT,
    LOST_START_TEXT,
    interrupted,
    orphan_results,
    repair,
)

from .strategies import broken_views, valid_views

A, B = ToolUse("a", "run_code", {}), ToolUse("b", "run_code", {})
RA, RB = (ToolResult(id_, (Text(f"result {id_}"),)) for id_ in "ab")
GO = user(Text("go"))
fast = settings(max_examples=100, deadline=None)


@fast
@given(broken_views)
def test_repair_pairs_every_tool_use(view: tuple[Message, ...]) -> None:
    """The very next message answers each tool_use, in order, results first; no result is left."""
    repaired = repair(view)

    assert not repaired or repaired[0].role == "user"
    for before, message in zip([user(), *repaired], [*repaired, user()], strict=True):
        calls = [use.id for use in tool_uses(before)]
        results = [result.tool_use_id for result in tool_results(message)]
        assert calls == results
        assert all(isinstance(block, ToolResult) for block in message.content[: len(results)])
        assert len(set(calls)) == len(calls)


@fast
@given(broken_views)
def test_a_second_repair_changes_nothing(view: tuple[Message, ...]) -> None:
    """Repair is idempotent, and leaves no empty message, text or result."""
    repaired = repair(view)

    assert repair(repaired) == repaired
    for message in repaired:
        assert message.content
        inner = [b for r in tool_results(message) for b in r.content]
        texts = [b.text for b in (*message.content, *inner) if isinstance(b, Text)]
        assert all(texts)
        assert all(result.content for result in tool_results(message))


@fast
@given(valid_views())
def test_a_valid_view_is_left_alone(view: tuple[Message, ...]) -> None:
    """What the provider takes comes back as the very same messages."""
    assert all(left is right for left, right in zip(repair(view), view, strict=True))


def test_an_open_call_at_the_end_is_answered() -> None:
    """A call that was interrupted gets the one error result, in a user message of its own."""
    view = (GO, assistant(A, B))

    assert repair(view) == (*view, user(interrupted("a"), interrupted("b")))
    assert orphan_results(view) == (interrupted("a"), interrupted("b"))
    assert interrupted("a").content[0] == Text(INTERRUPTED_TEXT, "results")
    assert interrupted("a").is_error


def test_nothing_is_open() -> None:
    """An answered view, and an empty one, have no orphans."""
    assert orphan_results(()) == ()
    assert orphan_results((GO, assistant(A), user(RA))) == ()
    assert repair(()) == ()


def test_results_come_first_and_in_call_order() -> None:
    """Texts before or between results go behind them; a missing result stands in its place."""
    view = (GO, assistant(A, B), user(Text("note"), RB))

    assert repair(view)[2] == user(interrupted("a"), RB, Text("note"))


def test_results_in_two_messages_are_joined() -> None:
    """A result in a second user message moves to the first; the text there stays where it is."""
    view = (GO, assistant(A, B), user(RA), user(RB, Text("note")))

    assert repair(view)[2:] == (user(RA, RB), user(Text("note")))


def test_a_result_further_down_is_moved_to_its_call() -> None:
    """A result that strayed behind the next reply is not lost."""
    view = (GO, assistant(A), user(Text("note")), assistant(Text("hm")), user(RA))

    assert repair(view) == (GO, assistant(A), user(RA, Text("note")), assistant(Text("hm")))


def test_a_result_of_a_repeated_id_is_not_moved() -> None:
    """With two calls of one id, a stray result cannot be told to be the first one's."""
    view = (GO, assistant(A), user(Text("x")), assistant(A), user(RA))

    assert repair(view)[2] == user(interrupted("a"), Text("x"))
    assert repair(view)[4] == user(RA)


def test_duplicates_and_strangers_are_dropped() -> None:
    """The first result of a call counts; one without a call goes, and its message if empty."""
    again = ToolResult("a", (Text("again"),))
    view = (user(RB), GO, assistant(A, A), user(RA, again, RB), user(RB))

    assert repair(view) == (GO, assistant(A), user(RA))


def test_replies_are_joined_only_for_a_pair() -> None:
    """Two replies in a row stay two unless the first has a call to be answered next."""
    apart = (GO, assistant(Text("one")), assistant(Text("two")))
    assert repair(apart) == apart

    view = (GO, assistant(A), assistant(B), user(RA, RB))
    assert repair(view) == (GO, assistant(A, B), user(RA, RB))


def test_a_lost_beginning_is_said() -> None:
    """A view that begins with a reply gets a user message that says why."""
    view = (assistant(Text("hm")), GO)

    assert repair(view) == (user(Text(LOST_START_TEXT)), *view)


def test_blocks_in_the_wrong_place_are_dropped() -> None:
    """A user makes no calls, an assistant gives no results."""
    assert repair((user(A, Text("go")), assistant(RA, Text("hm")))) == (GO, assistant(Text("hm")))


def test_empty_texts_are_dropped() -> None:
    """Empty texts go; blank ones too where the message has no other text; results get a word."""
    image = Image("image/png", "aGk=", 1, 1)
    thought = Thinking({"type": "thinking"})
    view = (
        user(Text(""), Text(" "), Text("go")),
        assistant(thought, Text(" "), A),
        user(ToolResult("a", (Text(""),))),
        user(image, Text("\n")),
        user(Text("")),
    )

    assert repair(view) == (
        user(Text(" "), Text("go")),
        assistant(thought, A),
        user(ToolResult("a", (Text("(no output)", "results"),))),
        user(image),
    )
