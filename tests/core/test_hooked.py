"""The hooks of a turn: what they forbid, what they say to the model, and where it stands."""

import pytest

from jupyter_ctx.core.blocks import Text, text_of, tool_results
from jupyter_ctx.core.events import NoteAdded, ToolFinished, ToolStarted, TurnFinished
from jupyter_ctx.core.hooked import MOST_HOLDS, fit_words
from jupyter_ctx.core.ports import Denied, HookOutcome, ModelFacts
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.core.tokens import SAFETY
from jupyter_ctx.errors import RequestRefusedError
from jupyter_ctx.testing import FakeHooks, MemoryStore, ScriptedModel, call, make_session, reply

KEY = "sk-ant-planted-0123456789"
RUN = call("run_code", code="print(1)")


def session_with(outcomes, *replies, **ports):
    hooks = FakeHooks(outcomes)
    session = make_session(ScriptedModel(*replies), hooks=hooks, compaction="manual", **ports)
    return session, hooks


def ask(session, text="Do it."):
    events = []
    session.ask(text, on_event=events.append)
    return events


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def names(hooks):
    return [name for name, _ in hooks.calls]


def test_the_order_in_a_turn():
    """SessionStart once, then for each prompt its own; around each call two; Stop at the end."""
    session, hooks = session_with({}, reply("I run it.", RUN), reply("Done."), reply("Again."))
    ask(session)
    ask(session, "More.")

    assert names(hooks) == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "UserPromptSubmit",
        "Stop",
    ]
    payloads = [payload for _, payload in hooks.calls]
    assert payloads[0] == {"source": "startup"}
    assert payloads[1] == {"prompt": "Do it."}
    assert payloads[2]["tool_name"] == "run_code"
    assert payloads[2]["tool_input"] == {"code": "print(1)"}
    assert payloads[3]["tool_response"] == {
        "text": "1\n",
        "chars": 2,
        "is_error": False,
        "images": 0,
    }
    assert payloads[4] == {"stop_hook_active": False, "last_assistant_message": "Done."}


def test_a_resumed_session_says_so():
    """SessionStart of a session that has turns has the source resume."""
    store = MemoryStore()
    session, _ = session_with({}, reply("Done."), store=store)
    ask(session)

    resumed, hooks = session_with({}, reply("Again."), entries=store.entries)
    ask(resumed)

    assert hooks.calls[0] == ("SessionStart", {"source": "resume"})


def test_words_stand_with_the_prompt_and_the_rest_stays():
    """What hooks say is in the prompt's message, before the text; later requests begin the same."""
    outcomes = {
        "SessionStart": HookOutcome(context="Branch main."),
        "UserPromptSubmit": HookOutcome(context=f"It is Monday. {KEY}\x1b[31m\u202e"),
    }
    session, _ = session_with(outcomes, reply("One."), reply("Two."), redactor=Redactor([KEY]))
    ask(session)
    ask(session, "More.")

    first, second = (request.messages for request in session.model.requests)
    said = [block.text for block in first[0].content]
    assert said[0] == (
        "[A SessionStart hook of the user says:]\nBranch main.\n\n[A UserPromptSubmit hook of the "
        "user says:]\nIt is Monday. [redacted: ANTHROPIC_API_KEY]"
    )
    assert said[-1] == "Do it."
    assert second[:1] == first
    assert "Branch main." not in text_of(second[-1].content)
    assert session.prefix_breaks == ()


def test_a_blocked_prompt_is_not_recorded():
    """UserPromptSubmit that blocks: a sentence, no request, no entry; the prompt can be sent again.

    What SessionStart said goes with the prompt that is recorded then.
    """
    outcomes = {
        "SessionStart": HookOutcome(context="Branch main."),
        "UserPromptSubmit": HookOutcome("no names of people"),
    }
    session, hooks = session_with(outcomes, reply("Done."))
    entries = len(session.transcript.entries)
    finished = of(ask(session), TurnFinished)

    assert [event.outcome for event in finished] == ["failed"]
    assert finished[0].error == "A UserPromptSubmit hook blocked the prompt: no names of people"
    assert session.model.requests == []
    assert len(session.transcript.entries) == entries

    del hooks.outcomes["UserPromptSubmit"]
    ask(session)
    assert "Branch main." in text_of(session.model.requests[0].messages[0].content)
    assert names(hooks).count("SessionStart") == 1


def test_a_forbidden_call_does_not_run():
    """PreToolUse that blocks: nobody is asked, nothing runs, the reason is the result."""
    asked = []

    class Permissions:
        async def check(self, use, spec):
            asked.append(use)
            return Denied("not reached")

    outcomes = {"PreToolUse": HookOutcome("no loops\nat all")}
    session, hooks = session_with(
        outcomes, reply("I run it.", RUN), reply("Well."), permissions=Permissions()
    )
    events = ask(session)

    (finished,) = of(events, ToolFinished)
    assert finished.denied
    assert not of(events, ToolStarted)
    assert asked == []
    (result,) = tool_results(session.model.requests[1].messages[-1])
    assert result.is_error
    assert text_of(result.content) == "Denied by a PreToolUse hook of the user: no loops\nat all"
    assert "PostToolUse" not in names(hooks)


def test_a_call_that_cannot_run_asks_no_hook():
    """A tool that does not exist is refused as ever; no hook hears of it."""
    session, hooks = session_with({}, reply("", call("no_such", x=1)), reply("Well."))
    ask(session)

    assert not {"PreToolUse", "PostToolUse"} & set(names(hooks))


def test_words_stand_behind_the_results():
    """What PreToolUse and PostToolUse say comes in one block behind all results of the reply."""
    outcomes = {
        "PreToolUse": HookOutcome(context="Mind the units."),
        "PostToolUse": HookOutcome("It is slow.", "Tests pass."),
    }
    session, _ = session_with(outcomes, reply("", RUN, RUN), reply("Done."))
    ask(session)

    content = session.model.requests[1].messages[-1].content
    assert [type(block).__name__ for block in content] == ["ToolResult", "ToolResult", "Text"]
    assert content[-1].part == "notebook"
    said = content[-1].text
    assert said.index("Mind the units.") < said.index("It is slow.") < said.index("Tests pass.")


def test_a_hook_ends_the_turn_behind_a_call():
    """`ended_by`: the calls behind are not run, no request follows, the transcript is valid."""
    outcomes = {"PostToolUse": HookOutcome(ended_by="enough")}
    session, _ = session_with(outcomes, reply("", RUN, RUN), reply("Later."))
    events = ask(session)

    assert [event.stop_reason for event in of(events, TurnFinished)] == ["hook"]
    assert len(of(events, ToolFinished)) == 1
    assert ("A hook ended the turn.", "enough") in [
        (note.title, note.detail) for note in of(events, NoteAdded)
    ]
    assert len(tool_results(session.transcript.view[-1])) == 2
    assert [event.outcome for event in of(ask(session, "Go on."), TurnFinished)] == ["done"]


def test_stop_has_the_model_go_on_a_few_times():
    """A Stop hook that always blocks: three notes, then the turn ends and says so."""
    outcomes = {"Stop": HookOutcome("run the tests")}
    session, hooks = session_with(outcomes, *[reply(f"Answer {n}.") for n in range(9)])
    events = ask(session)

    assert len(session.model.requests) == MOST_HOLDS + 1
    stops = [payload["stop_hook_active"] for name, payload in hooks.calls if name == "Stop"]
    assert stops == [False, True, True, True]
    said = text_of(session.model.requests[1].messages[-1].content)
    assert said == "[A Stop hook of the user has you go on:]\nrun the tests"
    assert "A Stop hook had the turn go on 3 times; it ends here." in [
        note.title for note in of(events, NoteAdded)
    ]
    assert session.prefix_breaks == ()


@pytest.mark.parametrize("end", [HookOutcome("more", ended_by="no"), HookOutcome()])
def test_a_stop_that_does_not_block_is_an_end(end):
    """Without a reason to go on, or with one to end, the turn ends with its answer."""
    session, _ = session_with({"Stop": end}, reply("Answer."))

    assert [event.text for event in of(ask(session), TurnFinished)] == ["Answer."]
    assert len(session.model.requests) == 1


def test_words_keep_to_their_share_and_to_the_room():
    """Hooks that flood take 5 % of the window at most, each message; the window is never left."""
    flood = "Keep this in mind. " * 50_000
    outcomes = {
        name: HookOutcome(context=flood)
        for name in ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse")
    }
    facts = ModelFacts("scripted", 8_000, "api", 1_000, factor_prior=1.0)
    hooks = FakeHooks({**outcomes, "Stop": HookOutcome(flood)})
    answers = [reply("", RUN, RUN), *[reply("Done.")] * 9]
    session = make_session(ScriptedModel(*answers, facts=facts), hooks=hooks)
    ask(session)

    count = session._engine.meter.estimate_text
    blocks = [
        block.text
        for message in session.transcript.view
        for block in message.content
        if isinstance(block, Text) and "hook of the user" in block.text
    ]
    assert len(blocks) == 2 + MOST_HOLDS
    assert max(map(count, blocks)) <= 0.05 * 8_000 * SAFETY  # the factor was learnt since


def test_where_there_is_no_room_nothing_is_said():
    """Words for which the law of the room has nothing left are left out whole."""
    session, _ = session_with({}, reply("Done."))
    ask(session)
    engine = session._engine
    full = engine.room()
    narrow = type(full)(
        window_tokens=1_000,
        used_tokens=1_000,
        reserve_tokens=0,
        compaction_tokens=0,
        limits=full.limits,
        count=full.count,
    )

    assert fit_words(engine, "something", narrow) == ("", narrow)


async def test_session_end_comes_once_and_only_after_a_start():
    """A session that had no prompt here ends without a word; one that had ends with one."""
    session, hooks = session_with({}, reply("Done."))
    await session.aclose()
    assert hooks.calls == []

    async for _ in session.run("Do it."):
        pass
    await session.aclose()
    await session.aclose()
    assert [call for call in hooks.calls if call[0] == "SessionEnd"] == [
        ("SessionEnd", {"reason": "other"})
    ]


def test_what_cannot_be_blocked_is_shown():
    """A SessionStart that forbids has nothing to forbid: the user reads what it says."""
    session, _ = session_with({"SessionStart": HookOutcome("no\tstart")}, reply("Done."))
    events = ask(session)

    assert "SessionStart hook: no\tstart" in [note.title for note in of(events, NoteAdded)]
    assert [event.outcome for event in of(events, TurnFinished)] == ["done"]


def test_where_the_window_is_not_known_only_the_share_bounds():
    """Without a window a hook's words have 10,000 tokens, and what is short stays whole."""
    facts = ModelFacts("scripted", None, "unknown", 1_000, factor_prior=1.0)
    outcomes = {"UserPromptSubmit": HookOutcome(context="Short.")}
    session = make_session(
        ScriptedModel(reply("Done."), facts=facts), hooks=FakeHooks(outcomes), compaction="manual"
    )
    ask(session)

    assert "Short." in text_of(session.model.requests[0].messages[0].content)


def test_words_of_the_start_are_said_again_where_their_prompt_was_left_out():
    """A first prompt that failed is no part of the view: the next one brings what went with it."""
    outcomes = {"SessionStart": HookOutcome(context="Branch main.")}
    session, hooks = session_with(outcomes, RequestRefusedError("Refused."), reply("Done."))
    ask(session)
    ask(session, "Again.")

    assert "Branch main." in text_of(session.model.requests[1].messages[-1].content)
    assert names(hooks).count("SessionStart") == 1
