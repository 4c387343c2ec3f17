"""A switch to a model with a smaller window, and back, over both protocols."""

from __future__ import annotations

import pytest

from jupyter_ctx.core.blocks import Thinking, images_of
from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.testing import FakeTools
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.fake_anthropic.checks import assert_never_over_window
from tests.fake_openai import FakeOpenAI
from tests.fake_openai.fake import MODEL as OTHER
from tests.pictures import png
from tests.talk import MODEL as CLAUDE
from tests.talk import run
from tests.wire import answering, is_summary, plain_talk, printing, steps, window


def servers(to_claude):
    """Return a large server, a small one, and the small one's and the large one's names."""
    big = [reply("First.", thinking="of the first"), *steps(60, 80), "Counted.", "Back."]
    small = answering([printing("print(1)", "S.", thinking="of the second"), "Small."])
    if to_claude:
        large = FakeOpenAI(big, kind="vllm", window=400_000)
        return large, FakeAnthropic(small, models=window(12_000)), CLAUDE, f"openai:{OTHER}"
    little = FakeOpenAI(small, kind="vllm", window=12_000, max_output=8_000)
    return FakeAnthropic(big), little, f"openai:{OTHER}", CLAUDE


@pytest.mark.parametrize("to_claude", [False, True])
def test_what_does_not_fit_is_compacted_first(to_claude):
    """A summary precedes the first step there, and no request is over the window.

    Back at the large model the talk goes on from the summary, and no request was refused.
    """
    large, little, name, back = servers(to_claude)
    with large, little, plain_talk(large, other=little) as session:
        run(session, "Remember SESAME.")
        run(session, "Count.")
        assert session.context()["used_tokens"] > 13_000
        session.switch_model(name)
        assert run(session, "Go on.")[-1].outcome == "done"
        assert is_summary(little.messages[0])
        assert_never_over_window(little.messages)
        assert session.facts.window_tokens == 12_000
        session.switch_model(back)
        assert run(session, "And back.")[-1].outcome == "done"

        assert large.refused == []
        assert session.facts.window_tokens > 300_000
        assert "SESAME" in large.messages[-1].body.decode()


@pytest.mark.parametrize("from_claude", [False, True])
def test_there_and_back_with_thinking_and_an_image(from_claude):
    """Each gets its own thinking back; who sees no image is told in words, who sees it gets it."""
    tools = FakeTools(plot=lambda: ToolOutput("figure", (png(40, 30),)))
    script = [
        reply(thinking="of the first", tools=[call("plot")]),
        reply("A figure."),
        reply("It is navy."),
    ]
    claude = FakeAnthropic(script if from_claude else [reply("B.", thinking="of the second")])
    local = FakeOpenAI(
        [reply("B.", thinking="of the second")] if from_claude else script,
        kind="vllm",
        sees=not from_claude,
    )
    first, second = (claude, local) if from_claude else (local, claude)
    names = (CLAUDE, f"openai:{OTHER}") if from_claude else (f"openai:{OTHER}", CLAUDE)
    with claude, local, plain_talk(first, other=second, tools=tools) as session:
        run(session, "Draw.")
        session.switch_model(names[1])
        assert run(session, "What is it?")[-1].outcome == "done"
        session.switch_model(names[0])
        assert run(session, "And the colour?")[-1].outcome == "done"

        data = next(i.data for m in session.transcript.view for i in images_of(m))
        there, again = second.accepted[-1].body.decode(), first.messages[-1].body.decode()
        assert (data in there) == (not from_claude)
        assert ("40 × 30 px" in there) == from_claude
        assert "of the first" not in there
        assert data in again
        assert "of the first" in again
        assert "of the second" not in again
        kept = [b for m in session.transcript.view for b in m.content if isinstance(b, Thinking)]
        assert len(kept) == 2
        assert first.refused == []
