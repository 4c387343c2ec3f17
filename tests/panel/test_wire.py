"""Events as items: the fixtures are what real sessions tell, and whatever comes is bounded JSON."""

import hashlib
import json
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.events import (
    ContextChanged,
    CtxEvent,
    NoteAdded,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from jupyter_ctx.panel.ops import OPS
from jupyter_ctx.panel.wire import (
    INPUT_CHARS,
    MOST_MEMBERS,
    TAIL_CHARS,
    Around,
    bounded,
    coalesce,
    is_delta,
    item_of,
    sha256_of,
    tool_output,
)
from tests.panel.recorded import CALLS, FIXTURES, make_all

MADE = make_all()


def load(name):
    return json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(MADE))
def test_a_fixture_is_what_is_told_now(name):
    """Each fixture is exactly what a session tells; `-m tests.panel.recorded` writes them."""
    assert load(name) == MADE[name]


def test_there_is_no_fixture_that_nothing_makes():
    """Every file among the fixtures is made by a scene."""
    assert {path.stem for path in FIXTURES.glob("*.json")} == set(MADE)


def test_every_operation_is_in_a_fixture():
    """Both languages know the same operations: each has its call among the fixtures."""
    assert {call["op"] for call in CALLS} == set(OPS)


def test_every_kind_of_item_is_in_a_fixture():
    """Both languages are tested with every kind of item that there is."""
    told = {item["kind"] for one in MADE.values() for item in one.get("items", ())}

    for event in get_args(CtxEvent):
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in event.__name__).lstrip("_")
        assert snake in told or event in (ContextChanged, ToolProgress)
    assert len(told) == 33


def test_a_change_of_the_context_is_no_item():
    """The gauge tells that the context changed, not the panel."""
    assert item_of(ContextChanged(1)) is None


texts = st.text(alphabet=st.characters(), max_size=40)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(st.dictionaries(texts, anything, max_size=6))
def test_an_item_is_json_whatever_the_input(input_):
    """Whatever a model gives a tool becomes strict JSON of valid Unicode."""
    item = item_of(ToolStarted(1, 1, "t", "run_code", input_))

    json.dumps(item, allow_nan=False, ensure_ascii=False).encode()


def test_lone_surrogates_never_leave_the_kernel():
    """Half a character in any text of an event becomes U+FFFD: the page would refuse it."""
    half = "a\ud83d"
    finished = ToolFinished(1, 1, half, half, half, True, True, 1, 1, 0.1)
    events = (TextDelta(1, 1, half), NoteAdded(1, "info", half, half), finished)

    for event in events:
        item = item_of(event, Around(input={"code": half, half: [half]}))
        json.dumps(item, ensure_ascii=False).encode()


def test_an_input_is_bounded():
    """Long texts are cut, long lists too, and what is nested deep is left out."""
    deep = "x"
    for _ in range(2_000):
        deep = [deep]
    big = {"text": "x" * 10_000_000, "list": [1] * 1_000_000, "deep": deep}

    found = bounded(big)

    assert len(found["text"]) == INPUT_CHARS
    assert len(found["list"]) < MOST_MEMBERS
    assert len(json.dumps(found)) < 2 * INPUT_CHARS


def test_many_long_texts_are_bounded_together():
    """All of an input together has a bound, not each text alone."""
    found = bounded({f"k{n}": "x" * INPUT_CHARS for n in range(MOST_MEMBERS)})

    assert len(json.dumps(found)) < 4 * INPUT_CHARS


def test_the_tail_of_an_output_is_its_end():
    """What a running tool printed is told by its last characters."""
    item = tool_output(1, "t", "a" * 5_000 + "end")

    assert len(item["text"]) == TAIL_CHARS
    assert item["text"].endswith("end")


def test_the_digest_of_a_question_is_that_of_title_and_text():
    """The page computes the same digest: sha256 of title, a blank line and text, in UTF-8."""
    told = hashlib.sha256("Allow?\n\nprint('é')".encode()).hexdigest()

    assert sha256_of("Allow?", "print('é')") == told


# Coalescing -------------------------------------------------------------------------------------

deltas = st.one_of(
    st.builds(TextDelta, st.integers(1, 2), st.integers(1, 2), texts).map(item_of),
    st.builds(ThinkingDelta, st.integers(1, 2), texts).map(item_of),
    st.builds(tool_output, st.integers(1, 2), st.sampled_from("ab"), texts),
    st.builds(NoteAdded, st.just(1), st.just("info"), texts, texts).map(item_of),
)


@settings(deadline=None)
@given(st.lists(deltas, max_size=30), st.integers(0, 30))
def test_what_is_joined_loses_nothing(items, cut):
    """Joined at once or in two pieces, every block has the same text and every tool its last tail.

    Nothing else changes its order.
    """
    whole, pieces = coalesce(items), coalesce([*coalesce(items[:cut]), *coalesce(items[cut:])])

    assert whole == pieces == coalesce(whole)
    for kind in ("text_delta", "thinking_delta"):
        told = ["".join(i["text"] for i in some if i["kind"] == kind) for some in (items, whole)]
        assert told[0] == told[1]
    assert [i for i in whole if not is_delta(i)] == [i for i in items if not is_delta(i)]


def test_coalescing_takes_time_linear_in_the_text():
    """A hundred thousand deltas of one block become one item, and none is copied into the next."""
    items = [item_of(TextDelta(1, 1, "word ")) for _ in range(100_000)]

    assert coalesce(items) == [item_of(TextDelta(1, 1, "word " * 100_000))]


def test_progress_is_told_as_the_output_of_a_running_call():
    """Where a sub-agent is, its row shows as it shows what running code prints."""
    item = item_of(ToolProgress(2, 3, "toolu_1", "task", "step 4: run_code"))

    assert item == {
        "kind": "tool_output",
        "turn": 2,
        "tool_use_id": "toolu_1",
        "text": "step 4: run_code",
    }
