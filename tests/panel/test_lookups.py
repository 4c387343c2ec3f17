"""What a page looks up: a summary and what it replaced, outputs, stored texts, within bounds."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import PARTS
from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.panel.calls import MAX_ANSWER_CHARS, RefusedError
from jupyter_ctx.panel.lookups import (
    ITEMS_CHARS,
    OUTPUTS_CHARS,
    RESULT_CHARS,
    fit_outputs,
    fit_turns,
    outputs,
    prompt,
    result,
    summary,
)
from jupyter_ctx.testing import FakeTools, ScriptedModel, make_session, reply
from tests.panel.recorded import FACTS, FIGURE, SCENES, notebook_tools, told, use


def after(output, **more):
    """Return a session in which one call gave `output`, as `toolu_01`."""
    tools = FakeTools(run_code=lambda code="": output)
    return told(reply(use("run_code", 1, code="x")), reply("Done."), tools=tools, **more).ask("Go")


# Prompts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chars", [30_000, 300_000])
def test_a_prompt_comes_back_whole(chars):
    """What an item shows cut, and what the model got as a preview, is edited as it was typed."""
    text = f"Count. {'x' * chars} End."
    scene = told(reply("Done."), tools=notebook_tools()).ask(text)

    assert prompt(scene.session, 1) == text


@pytest.mark.parametrize(("turn", "why"), [(1, "large"), (2, "gone")])
def test_a_prompt_that_cannot_come_back_whole_is_refused(turn, why):
    """A prompt is edited whole or not at all."""
    scene = told(reply("Done."), tools=notebook_tools()).ask("x" * 500_000)

    with pytest.raises(RefusedError) as refused:
        prompt(scene.session, turn)
    assert refused.value.kind == why


# Summaries --------------------------------------------------------------------------------------


def compacted():
    """Return a session after a compaction of two turns."""
    scene = told(
        reply("One. " * 1_200),
        reply("One again."),
        reply("The user counts."),
        reply("Two."),
        tools=notebook_tools(),
        tail_tokens=0,
    )
    scene.ask("Count to one").ask("And again").compact()
    return scene


def test_a_summary_comes_with_what_it_replaced():
    """The turns that a compaction replaced are told as they were, and its undo has a price."""
    scene = compacted()
    found = summary(scene.session, None)

    assert found["summary"] == "The user counts."
    started = [i["prompt"] for i in found["replaced_items"] if i["kind"] == "turn_started"]
    assert started == ["Count to one", "And again"]
    assert found["undo"]["ok"]
    assert found["undo"]["reason"] == ""
    assert "$" in found["undo"]["price"]


def test_the_parts_of_a_compaction_add_up():
    """What each part held before and after adds up to the compaction's own totals."""
    scene = compacted()
    found = summary(scene.session, None)

    assert list(found["parts"]["before"]) == list(found["parts"]["after"]) == list(PARTS)
    assert sum(found["parts"]["before"].values()) == found["tokens_before"]
    assert sum(found["parts"]["after"].values()) == found["tokens_after"]
    assert found["parts"]["before"]["summary"] == 0
    assert found["parts"]["after"]["summary"] > 0
    conversation = [found["parts"][when]["conversation"] for when in ("before", "after")]
    assert conversation[0] > 1_000 > conversation[1]


def test_a_compaction_stored_without_parts_has_none():
    """A session of before parts were stored shows totals alone."""
    scene = compacted()
    (entry,) = scene.session.transcript.compactions
    bare = replace(entry, parts_before=(), parts_after=())
    entries = [bare if one is entry else one for one in scene.session.transcript.entries]
    older = make_session(ScriptedModel(facts=FACTS), entries=entries)

    assert summary(older, None)["parts"] is None


def test_an_undone_summary_says_why_it_cannot_be_undone():
    """A summary that is not the newest in force is shown, and its undo tells the reason."""
    scene = compacted()
    scene.session.undo_summary()
    found = summary(scene.session, 1)

    assert found["state"] == "undone"
    assert found["undo"]["ok"] is False
    assert found["undo"]["reason"].startswith("No compaction is in force")


def test_there_is_no_summary_without_a_compaction():
    """Asking for one that is not there gives None."""
    assert summary(compacted().session, 7) is None
    assert summary(told(tools=notebook_tools()).session, None) is None


# Turns within bounds ----------------------------------------------------------------------------


def test_the_newest_turns_come_as_far_as_there_is_room():
    """Whole turns, from the newest back, as many as fit."""
    turns = [[{"kind": "turn_started", "turn": n, "prompt": "x" * 1_000}] for n in range(10)]
    items, count = fit_turns(turns, 3_500)

    assert [item["turn"] for item in items] == [7, 8, 9]
    assert count == 3


def test_a_turn_too_long_alone_is_told_in_short():
    """The newest turn is always told: in short, with its prompt, its end and a note."""
    step = {"kind": "text_finished", "turn": 1, "block": 1, "text": "x" * 5_000}
    first = {"kind": "turn_started", "turn": 1, "prompt": "Go"}
    last = {"kind": "turn_finished", "turn": 1, "footer": "done"}
    items, count = fit_turns([[first, *[step] * 10_000, last]], ITEMS_CHARS)

    assert count == 1
    assert (items[0], items[-1]) == (first, last)
    assert items[1]["kind"] == "note_added"
    assert len(json.dumps(items)) <= ITEMS_CHARS


def test_what_tools_gave_is_cut_before_what_the_model_said():
    """A turn that is long by its tools keeps every word of its answer."""
    tool = {"kind": "tool_finished", "turn": 1, "text": "y" * 2_000, "input": {"code": "z" * 9_000}}
    said = {"kind": "text_finished", "turn": 1, "block": 1, "text": "x" * 5_000}
    first = {"kind": "turn_started", "turn": 1, "prompt": "Go"}
    items, _ = fit_turns([[first, *[tool] * 100, said]], 200_000)

    assert items[-1] == said
    assert len(items) == 102


# Outputs ----------------------------------------------------------------------------------------


def test_outputs_come_as_they_are_stored():
    """A figure comes as the tool's code displayed it."""
    scene = SCENES["turn_figure"]()
    with pytest.raises(RefusedError, match="no such result"):
        outputs(scene.session, "toolu_99")
    rich = after(ToolOutput("x" * 60_000, outputs=(FIGURE,)))

    assert outputs(rich.session, "toolu_01") == {"outputs": [FIGURE]}


def test_a_result_that_is_all_text_is_one_output():
    """A result without outputs is shown as the text that it is."""
    scene = after(ToolOutput("Hello"))

    assert outputs(scene.session, "toolu_01") == {
        "outputs": [{"output_type": "stream", "name": "stdout", "text": "Hello"}]
    }


def test_a_form_that_is_too_large_gives_way():
    """Of a huge HTML table with its text the text is left."""
    html, text = "<td>" * 500_000, "a table"
    output = {
        "output_type": "display_data",
        "data": {"text/html": html, "text/plain": text},
        "metadata": {},
    }

    assert fit_outputs([output]) == [{**output, "data": {"text/plain": text}}]


sizes = st.sampled_from([0, 10, 5_000, 150_000, 300_000, 900_000])
KINDS = {
    "stream": lambda n, m: {"output_type": "stream", "name": "stdout", "text": "é" * n},
    "lines": lambda n, m: {"output_type": "stream", "text": ["x"] * (n // 10)},
    "data": lambda n, m: {
        "output_type": "display_data",
        "data": {"text/plain": "x" * n, "image/png": "y" * m},
    },
    "error": lambda n, m: {"output_type": "error", "traceback": ["\x1b[31m" * n]},
    "odd": lambda n, m: {"data": [1, None], "text": {"a": "x" * n}, "more": m},
}


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(sorted(KINDS)), sizes, sizes), max_size=8))
def test_outputs_are_bounded_whatever_is_stored(wanted):
    """However many and large, the answer has room for them, and each is an object."""
    made = fit_outputs([KINDS[kind](n, m) for kind, n, m in wanted])

    assert len(json.dumps(made)) < OUTPUTS_CHARS + 2_000 < MAX_ANSWER_CHARS
    assert all(isinstance(one, dict) for one in made)


def test_many_outputs_end_with_a_line():
    """What is more than there is room for is told, not dropped in silence."""
    many = [{"output_type": "stream", "name": "stdout", "text": "x" * 1_000}] * 5_000

    assert "More outputs" in fit_outputs(many)[-1]["text"]


# Texts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, RESULT_CHARS - 1, RESULT_CHARS, 3 * RESULT_CHARS + 5])
def test_a_text_is_read_piece_by_piece(length):
    """The pieces of a text, each begun where the one before says, are the whole of it."""
    text = "".join(chr(0x1F600 + n % 40) for n in range(length))
    scene = after(ToolOutput(text))
    start, read = 0, ""
    while start is not None:
        piece = result(scene.session, "toolu_01", start)
        assert len(json.dumps(piece)) < MAX_ANSWER_CHARS
        read, start = read + piece["text"], piece["next"]

    assert read == (text or "(run_code completed with no output)")


def test_behind_the_end_of_a_text_there_is_nothing():
    """A piece from behind the end is empty and the last."""
    scene = after(ToolOutput("Hello"))

    assert result(scene.session, "toolu_01", 99) == {"text": "", "next": None, "chars": 5}


def test_a_text_that_is_gone_is_refused_in_a_sentence():
    """A stored text whose file is gone is an error that says so, and nothing breaks."""
    scene = after(ToolOutput("x" * 60_000))
    scene.session.store.texts.clear()
    scene.session.store.outputs.clear()

    for look in (
        lambda: result(scene.session, "toolu_01", 0),
        lambda: outputs(scene.session, "toolu_01"),
    ):
        with pytest.raises(RefusedError, match="no stored"):
            look()
