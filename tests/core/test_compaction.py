"""Where the cuts of a compaction fall and what it puts back."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core import compaction as c
from jupyter_ctx.core import recent as rc
from jupyter_ctx.core import reinjection as r
from jupyter_ctx.core.blocks import (
    Image,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    assistant,
    tool_results,
    tool_uses,
    user,
)
from jupyter_ctx.errors import CompactionError


def size(message):
    return sum(len(getattr(block, "text", "x" * 10)) for block in message.content)


def letters(text):
    return len(text)


@st.composite
def logs(draw):
    """A valid conversation: turns of steps, each step with 0–3 calls but the last."""
    messages, n = [], 0
    for turn in range(draw(st.integers(1, 5))):
        messages.append(user(Text(f"prompt {turn} " + "p" * draw(st.integers(0, 50)))))
        for _ in range(draw(st.integers(0, 4))):
            calls = [ToolUse(f"t{n + i}", "run_code", {}) for i in range(draw(st.integers(1, 3)))]
            n += len(calls)
            messages.append(assistant(Text("step"), *calls))
            results = [
                ToolResult(call.id, (Text("r" * draw(st.integers(1, 80))),)) for call in calls
            ]
            messages.append(user(*results))
        if draw(st.booleans()):
            messages.append(assistant(Text("answer")))
    return messages


@given(logs(), st.integers(0, 500))
def test_the_cut_never_splits_a_pair(view, budget):
    """What is kept begins with a reply, and every kept result has its call in what is kept."""
    sent = c.find_last_sent(view)
    cut = c.find_tail(view, sent, budget, size)
    kept = view[cut:]

    assert cut <= sent
    if sent:
        assert kept[0].role == "assistant"
        assert cut > 0
    calls = {use.id for message in kept for use in tool_uses(message)}
    assert {r.tool_use_id for message in kept for r in tool_results(message)} <= calls


@given(logs())
def test_the_end_is_what_the_user_said_last(view):
    """Everything but the user's words behind the last step, results included in the step."""
    end = c.find_end(view)

    assert all(m.role == "user" and not tool_results(m) for m in view[end:])
    assert end == 0 or view[end - 1].role == "assistant" or tool_results(view[end - 1])


@given(logs(), st.integers(0, 500))
def test_the_tail_fits_its_budget(view, budget):
    """The tail never holds more than its budget, and one whole step more would not fit."""
    sent = c.find_last_sent(view)
    cut = c.find_tail(view, sent, budget, size)

    assert sum(size(message) for message in view[cut:sent]) <= budget


@given(logs(), st.integers(1, 3))
def test_shrink_keeps_pairs_and_the_instruction(view, attempt):
    """A request made shorter keeps its last message and every pair, and is really shorter."""
    request = [*view, user(Text("Summarise."))]
    try:
        shorter = c.shrink(request, attempt)
    except CompactionError:
        return
    calls = {use.id for message in shorter for use in tool_uses(message)}
    results = {r.tool_use_id for message in shorter for r in tool_results(message)}

    assert shorter[-1] == request[-1]
    assert results <= calls
    assert len(shorter) < len(request)


IMAGE = Image("image/png", "aGk=", 10, 10)


@given(logs(), st.booleans(), st.booleans(), st.integers(1, 3))
def test_what_goes_first_when_the_request_is_too_long(view, has_images, has_back, times):
    """Images and what was put back, then the oldest turns, whole; the first message stays."""
    back = [Text("put back", "reinjected")] if has_back else []
    images = [IMAGE] if has_images else []
    first = user(*view[0].content, *back)
    last = [user(Text("newest"), *images), assistant(Text("answer"))]
    request = [first, *view[1:], *last, user(Text("Summarise."))]
    bare = c.shrink(request, 1) if has_images or has_back else tuple(request)
    shorter = request
    for attempt in range(1, times + 1):
        try:
            shorter = c.shrink(shorter, attempt)
        except CompactionError:
            break
        if attempt == 1 and (has_images or has_back):
            assert len(shorter) == len(request)
        assert "aGk=" not in str(shorter)
        assert "put back" not in str(shorter)
        assert (shorter[0], shorter[-1]) == (bare[0], bare[-1])
        assert shorter[1:] == bare[len(bare) - len(shorter) + 1 :]
        begins = shorter[1]
        is_turn = begins.role == "user" and not tool_results(begins)
        assert is_turn or begins.role == "assistant"
        assert all(_is_pair(call, answer) for call, answer in itertools.pairwise(shorter))


def _is_pair(message, following):
    """Whether the next message answers exactly the calls of this one, if it has any."""
    calls = [use.id for use in tool_uses(message)]
    return not calls or [result.tool_use_id for result in tool_results(following)] == calls


def test_shrink_halves_the_steps_of_a_single_turn():
    """One long turn is cut by steps; its prompt and the instruction stay."""
    steps = [
        message
        for n in range(8)
        for message in (
            assistant(ToolUse(str(n), "run_code", {})),
            user(ToolResult(str(n), (Text("out"),))),
        )
    ]
    request = [user(Text("prompt")), *steps, user(Text("Summarise."))]

    shorter = c.shrink(request, 1)

    assert (shorter[0], shorter[-1]) == (request[0], request[-1])
    assert shorter[1:] == tuple(request[-len(shorter) + 1 :])
    assert len(shorter) <= len(request) * 0.7
    assert shorter[1].role == "assistant"


def test_shrink_halves_the_longest_texts_of_a_single_step():
    """Beginning and end of texts, results and calls stay, half as long, until none is too long."""
    call = ToolUse("t1", "run_code", {"code": "c" * 3_000, "n": 3, "note": "short"})
    picture = Image("image/png", "aGk=", 10, 10)
    thought = Thinking({"type": "thinking", "thinking": "hm"})
    result = ToolResult("t1", (Text("begin" + "r" * 9_000 + "end"), picture), is_error=True)
    request = [
        user(Text("p" * 5_000), Text("short")),
        assistant(thought, call),
        user(result),
        user(Text("Summarise.")),
    ]
    bare = c.shrink(request, 1)
    shorter = c.shrink(bare, 2)

    assert shorter[-1] == request[-1]
    assert shorter[1].content[0] == thought
    assert shorter[1].content[1] == call  # shorter than half of the longest
    (answer,) = shorter[2].content
    text = answer.content[0].text
    assert len(text) <= 4_504
    assert text.startswith("begin")
    assert text.endswith("end")
    assert answer.is_error
    while (next_ := _shrunk_or_none(shorter)) is not None:
        assert _longest(next_) < _longest(shorter)
        shorter = next_
    assert shorter[0].content[1] == Text("short")
    cut = shorter[1].content[1]
    assert len(cut.input["code"]) < 500
    assert (cut.input["n"], cut.input["note"]) == (3, "short")
    assert _longest(shorter) <= c.LEAST_CUT_CHARS


def _shrunk_or_none(request):
    try:
        return c.shrink(request, 2)
    except CompactionError:
        return None


def _longest(request):
    return max(len(t) for m in request[:-1] for b in m.content for t in c._texts_of(b))


def test_shrink_takes_what_was_put_back_before_any_turn():
    """What an earlier compaction put back can be put back again; the summary it made stays."""
    summary = user(Text("so far", "summary"), Text("cells", "reinjected"))
    request = [summary, assistant(Text("a")), user(Text("b")), user(Text("Summarise."))]

    assert c.shrink(request, 1) == (user(Text("so far", "summary")), *request[1:])


def test_a_thousand_prompts_left_out_are_named_in_few_words():
    """The list of what is not repeated does not grow with the conversation."""
    prompts = [r.Instruction(n, "x" * (9 if n % 7 else 9_000)) for n in range(1, 2_000)]

    section = r.choose_instructions(prompts, 1, 200, len)

    assert section is not None
    assert len(section.text) < 1_500
    assert "`prompt-2` to `prompt-" in section.text


def test_many_single_prompts_left_out_are_named_in_few_words():
    """Where every second one is left out, the first ones are named and the rest by their ends."""
    prompts = [r.Instruction(n, "x" * (2_000 if n % 2 else 1)) for n in range(2, 80)]

    section = r.choose_instructions(prompts, 2, 2_100, len, long_tokens=100)

    assert "`prompt-3`, `prompt-5`, " in section.text
    assert "`prompt-21` to `prompt-77`" in section.text


def test_shrink_takes_images_first():
    """The first attempt takes images out and keeps every message."""
    image = Image("image/png", "aGk=", 10, 10)
    request = [
        user(Text("look"), image),
        assistant(ToolUse("a", "run_code", {})),
        user(ToolResult("a", (Text("plot"), image))),
        user(Text("Summarise.")),
    ]
    shorter = c.shrink(request, 1)

    assert len(shorter) == 4
    assert "[Image left out to make room" in str(shorter)
    assert "aGk=" not in str(shorter)


@pytest.mark.parametrize("reason", ["max_tokens", "tool_use", "refusal", "pause_turn"])
def test_only_a_finished_summary_counts(reason):
    """A stop other than `end_turn` is a failure, whatever text came."""
    with pytest.raises(CompactionError, match=reason):
        c.read_reply(assistant(Text("half")), reason, has_memory=False)


def test_no_text_is_a_failure():
    """A reply without text is no summary."""
    with pytest.raises(CompactionError, match="no summary"):
        c.read_reply(assistant(ToolUse("a", "run_code", {})), "end_turn", has_memory=False)


def prompts(*lengths):
    return [r.Instruction(n, f"{n}:" + "x" * length) for n, length in enumerate(lengths, 1)]


def test_first_and_newest_instruction_are_whole():
    """However small the budget, the first and the newest prompt are given whole."""
    section = r.choose_instructions(prompts(300, 300, 300), 1, 10, letters, long_tokens=200)

    assert "1:" + "x" * 300 in section.text
    assert "3:" + "x" * 300 in section.text
    assert "`prompt-2`" in section.text
    assert "2:" not in section.text
    assert [item.id for item in section.items] == ["prompt-1", "prompt-3"]


def test_instructions_are_chosen_newest_first_and_shown_oldest_first():
    """With room for one more, the newer one is taken; the order shown is that of the turns."""
    section = r.choose_instructions(prompts(10, 100, 100, 10), 1, 130, letters)

    assert [item.id for item in section.items] == ["prompt-1", "prompt-3", "prompt-4"]
    assert section.text.index("1:") < section.text.index("3:") < section.text.index("4:")


def test_a_long_instruction_in_between_is_a_preview():
    """A long prompt that is neither first nor newest is given by its beginning and name."""
    section = r.choose_instructions(prompts(1, 5_000, 1), 1, 10_000, letters, long_tokens=2_000)

    assert "5,002 characters in all: `prompt-2`" in section.text
    assert "x" * 700 not in section.text


def test_sources_too_long_are_named():
    """A cell over its bound is named with its id, the next one still comes whole."""
    sources = [rc.Source("a", "cell:a", "y" * 90), rc.Source("b", "cell:b", "z = 1")]
    section = rc.choose_sources(sources, 100, letters, most_each_tokens=50)

    assert "cell:a" in section.text
    assert "y" * 10 not in section.text
    assert "z = 1" in section.text


def test_a_fence_in_a_source_does_not_end_it():
    """A source with backticks is fenced by more of them."""
    section = rc.choose_sources([rc.Source("a", "cell:a", "s = '''```'''")], 100, letters)

    assert "````python" in section.text


def test_lines_stop_at_the_budget_and_say_so():
    """A list that does not fit is cut at a whole line and says how many are missing."""
    section = r.choose_lines("# T", "k", [(str(n), "x" * 9) for n in range(10)], 35, letters)

    assert section.text.count("xxxxxxxxx") == 3
    assert "and 7 more" in section.text
    assert r.choose_lines("# T", "k", [], 35, letters) is None
    assert r.choose_lines("# T", "k", [("1", "x")], 0, letters) is None


def test_the_summary_message_is_one_user_message():
    """Summary first, then what is put back, counted as such."""
    section = r.choose_lines("# T", "k", [("1", "x")], 10, letters)
    message, items = c.build_summary_message("Intro.", "What was.", [None, section])

    assert message.role == "user"
    assert [block.part for block in message.content] == ["summary", "reinjected"]
    assert "What was." in message.content[0].text
    assert [item.id for item in items] == ["1"]
