"""What runs around a compaction: hooks in their order, and the memory of what the user stated."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.around import CUT_TEXT, MOST_LINE_CHARS, MOST_SHOWN_LINES, cut_to
from jupyter_ctx.core.blocks import text_of
from jupyter_ctx.core.compaction import is_instruction
from jupyter_ctx.core.entries import CompactionEntry
from jupyter_ctx.core.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    MemoryChanged,
    NoteAdded,
    TurnFinished,
)
from jupyter_ctx.core.memory import MOST_FACT_CHARS, MOST_FACTS, split_memory
from jupyter_ctx.core.ports import HookOutcome, ModelFacts
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.errors import CompactionError
from jupyter_ctx.testing import (
    FakeHooks,
    FakeMemory,
    MemoryStore,
    ScriptedModel,
    call,
    make_session,
    reply,
)

KEY = "sk-ant-planted-0123456789"
LONG = "Some answer that takes a place. " * 300
FACT = "<memory>\n- The user counts amounts in cents.\n</memory>"


def talked(summary="It went well.", *more, facts=None, **ports):
    """A session with two answered turns whose next reply is `summary`."""
    model = ScriptedModel(
        reply(LONG), reply("Second."), reply(summary), *map(reply, more), facts=facts
    )
    session = make_session(model, compaction="manual", tail_tokens=0, **ports)
    session.ask("Do it.")
    session.ask("Go on.")
    return session


def compact(session, focus=""):
    """Compact and return the events."""
    events = []
    session.compact(focus, on_event=events.append)
    return events


def instruction(session):
    return text_of(session.model.requests[2].messages[-1].content)


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def around(hooks):
    """The events of compactions that hooks heard of, with their payloads."""
    return [
        (name, payload)
        for name, payload in hooks.calls
        if "Compact" in name or payload == {"source": "compact"}
    ]


def titles(events):
    return [note.title for note in of(events, NoteAdded)]


# Hooks ------------------------------------------------------------------------------------------


def test_the_order_of_events():
    """PreCompact, request, memory, SessionStart, record, PostCompact; each once."""
    order = []

    class Hooks(FakeHooks):
        async def run(self, name, payload):
            if "Compact" in name or payload == {"source": "compact"}:
                order.append(name)
            return await super().run(name, payload)

    class Memory(FakeMemory):
        async def add(self, facts):
            order.append("memory")
            return await super().add(facts)

    class Store(MemoryStore):
        def append(self, entry):
            if isinstance(entry, CompactionEntry):
                order.append("record")
            super().append(entry)

    hooks = Hooks()
    session = talked(f"Summary.\n{FACT}", hooks=hooks, memory=Memory(), store=Store())
    answer = session.model.answers[0]
    session.model.answers[0] = lambda request: order.append("request") or answer

    compact(session, "the schema")

    assert order == ["PreCompact", "request", "memory", "SessionStart", "record", "PostCompact"]
    entry = session.find_compaction()
    assert around(hooks) == [
        ("PreCompact", {"trigger": "manual", "custom_instructions": "the schema"}),
        ("SessionStart", {"source": "compact"}),
        (
            "PostCompact",
            {
                "trigger": "manual",
                "summary": "Summary.",
                "tokens_before": entry.tokens_before,
                "tokens_after": entry.tokens_after,
            },
        ),
    ]


def test_a_hook_blocks_before_anything_is_asked():
    """PreCompact with a reason: no request, the transcript unchanged but for the failure."""
    hooks = FakeHooks({"PreCompact": HookOutcome(f"not now,\n{KEY}", shown=("from the hook",))})
    session = talked(hooks=hooks, redactor=Redactor([KEY]))
    view = list(session.transcript.view)
    events = []

    with pytest.raises(CompactionError) as raised:
        session.compact(on_event=events.append)

    reason = "A PreCompact hook blocked the compaction: not now, [redacted: ANTHROPIC_API_KEY]"
    assert str(raised.value) == reason
    assert len(session.model.requests) == 2
    assert list(session.transcript.view) == view
    assert [name for name, _ in around(hooks)] == ["PreCompact"]
    assert of(events, CompactionFailed)[0].failures == 1
    assert titles(events) == ["PreCompact hook: from the hook"]


@pytest.mark.parametrize("prepare_calls", [0, 3])
def test_a_hook_that_always_blocks_is_asked_three_times(prepare_calls):
    """A block counts for the breaker; the turn goes on and later steps ask no more."""
    hooks = FakeHooks({"PreCompact": HookOutcome("never")})
    steps = [reply(LONG[:3_200], call("run_code", code="print(1)")) for _ in range(24)]
    facts = ModelFacts("scripted", 32_000, "api", 1_000, factor_prior=1.0)
    model = ScriptedModel(*steps, reply("Done."), facts=facts)
    session = make_session(model, hooks=hooks, reserve_tokens=16_000, prepare_calls=prepare_calls)
    events = []
    session.ask("go", on_event=events.append)

    assert of(events, TurnFinished)[0].outcome == "done"
    failures = of(events, CompactionFailed)
    assert [failed.paused for failed in failures] == [False, False, True]
    assert len(around(hooks)) == 3
    assert session.state == "paused"
    assert not any(is_instruction(request.messages[-1]) for request in model.requests)


def test_nothing_to_compact_asks_no_hook():
    """Where no compaction is possible, no hook hears of one."""
    hooks = FakeHooks()
    session = make_session(ScriptedModel(), hooks=hooks)

    with pytest.raises(CompactionError, match="nothing to compact yet"):
        session.compact()
    assert hooks.calls == []


def test_a_hooks_context_shapes_the_summary_like_a_focus():
    """Its words join the focus in the instruction, redacted; the entry keeps the focus alone."""
    hooks = FakeHooks({"PreCompact": HookOutcome(context=f"Keep the SQL. {KEY}\x00")})
    session = talked(hooks=hooks, redactor=Redactor([KEY]))

    compact(session, "the schema")

    text = instruction(session)
    assert "the schema\nKeep the SQL. [redacted: ANTHROPIC_API_KEY]\ufffd" in text
    assert session.find_compaction().focus == "the schema"


def test_a_hooks_context_never_makes_the_request_too_long():
    """However long, it takes only room that the request leaves: nothing else is cut for it."""
    facts = ModelFacts("scripted", 8_000, "api", 8_000, factor_prior=1.0)
    plain = talked(facts=facts)
    compact(plain)
    hooks = FakeHooks({"PreCompact": HookOutcome(context="keep this " * 100_000)})
    session = talked(facts=facts, hooks=hooks)

    compact(session)

    before, after = plain.model.requests[2], session.model.requests[2]
    assert after.messages[:-1] == before.messages[:-1]
    assert instruction(plain) != instruction(session)
    assert CUT_TEXT in instruction(session)
    used = session._engine.meter.estimate_request(after.messages)
    assert used + after.max_tokens <= 8_000
    assert after.max_tokens >= 400


def test_a_hooks_context_has_its_place_at_the_reserve():
    """Where the window is as full as it may get, a hook's words still reach the summary."""
    hooks = FakeHooks({"PreCompact": HookOutcome(context="Keep the SQL.")})
    full = Usage(uncached=179_000, cache_read=0, cache_write=0, output=1_000)
    model = ScriptedModel(
        reply("w " * 190_000), reply("Nearly full.", usage=full), reply("Summary."), reply("Done.")
    )
    session = make_session(model, hooks=hooks, prepare_calls=0, tail_tokens=0)
    for prompt in ("Do it.", "Go on.", "And now?"):
        session.ask(prompt)

    request = model.requests[2]
    assert is_instruction(request.messages[-1])
    assert "Keep the SQL." in instruction(session)
    assert request.max_tokens >= 3_000


def test_a_session_start_hooks_context_is_the_last_section():
    """What SessionStart says stands last in the new context, counted, redacted and bounded."""
    said = f"Branch main. {KEY} " + "word " * 100_000
    hooks = FakeHooks({"SessionStart": HookOutcome(context=said)})
    facts = ModelFacts("scripted", 32_000, "api", 8_000, factor_prior=1.0)
    session = talked(facts=facts, hooks=hooks, redactor=Redactor([KEY]))

    compact(session)

    entry = session.find_compaction()
    last = entry.message.content[-1]
    assert last.part == "reinjected"
    assert last.text.startswith("Branch main. [redacted: ANTHROPIC_API_KEY] word")
    assert last.text.endswith(CUT_TEXT)
    tokens = session._engine.meter.estimate_text(last.text)
    assert (entry.reinjected[-1].kind, entry.reinjected[-1].tokens) == ("hook", tokens)
    assert tokens <= 32_000 * 0.05


def test_what_hooks_show_becomes_notes():
    """Lines for the user are notes: redacted, each bounded, and not without end."""
    many = "\n".join(f"line {n}" for n in range(100))
    hooks = FakeHooks(
        {
            "PreCompact": HookOutcome(shown=(f"one {KEY}", "", "x" * 10_000)),
            "PostCompact": HookOutcome(shown=(many,)),
        }
    )
    session = talked(hooks=hooks, redactor=Redactor([KEY]))

    events = compact(session)

    shown = titles(events)
    assert shown[0] == "PreCompact hook: one [redacted: ANTHROPIC_API_KEY]"
    assert len(shown[1]) <= MOST_LINE_CHARS + 20
    assert shown[2] == "PostCompact hook: line 0"
    assert shown[-1] == "PostCompact hook: … and 80 more lines"
    assert len(shown) == 2 + MOST_SHOWN_LINES + 1
    kinds = [type(event) for event in events]
    assert kinds.index(CompactionStarted) < kinds.index(NoteAdded) < kinds.index(CompactionFinished)


def test_a_stop_while_postcompact_runs_undoes_nothing():
    """The compaction is recorded by then: it is reported once, as done."""
    session = None

    class Hooks(FakeHooks):
        async def run(self, name, payload):
            if name == "PostCompact":
                session.cancel()
                await asyncio.sleep(0)
            return await super().run(name, payload)

    session = talked(hooks=Hooks())
    events = compact(session)

    assert len(of(events, CompactionFinished)) == 1
    assert of(events, CompactionFailed) == []
    assert session.find_compaction().n == 1


@given(st.text(max_size=300), st.integers(-5, 200))
def test_a_cut_text_fits(text, most):
    """A text is given whole if it fits; else its beginning with a mark, within the bound."""
    cut = cut_to(text, most, len)

    assert len(cut) <= max(0, most)
    assert cut == text or cut == "" or cut.endswith(CUT_TEXT)
    if len(text) <= most:
        assert cut == text


# Memory -----------------------------------------------------------------------------------------


def test_facts_are_kept_and_noted():
    """The part is asked for and taken out of the summary; new facts are kept and told once."""
    memory = FakeMemory(["Already known."])
    session = talked(
        f"Summary.\n\n<memory>\n- Amounts are in cents.\n- Key {KEY}\n- Already known.\n</memory>",
        memory=memory,
        redactor=Redactor([KEY]),
    )
    events = compact(session)

    assert "<memory>" in instruction(session)
    assert f"at most {MOST_FACTS}." in instruction(session)
    assert session.find_compaction().summary == "Summary."
    assert "memory>" not in str(session.transcript.view)
    redacted = "Key [redacted: ANTHROPIC_API_KEY]"
    assert memory.facts == ["Already known.", "Amounts are in cents.", redacted]
    assert of(events, MemoryChanged) == [MemoryChanged(2, ("Amounts are in cents.", redacted))]


def test_without_memory_nothing_is_asked_for():
    """With memory off the instruction has no such part, and a reply's words stay its summary."""
    memory = FakeMemory(is_on=False)
    session = talked(f"Summary.\n{FACT}", memory=memory)

    compact(session)

    assert "<memory>" not in instruction(session)
    assert session.find_compaction().summary == f"Summary.\n{FACT}"
    assert memory.facts == []


def test_a_memory_that_fails_is_a_warning():
    """A full disk costs the facts, never the compaction."""
    session = talked(f"Summary.\n{FACT}", memory=FakeMemory(fails=True))

    events = compact(session)

    notes = of(events, NoteAdded)
    assert [(note.level, note.detail) for note in notes] == [
        ("warning", "No space left on device.")
    ]
    assert session.find_compaction().summary == "Summary."


def test_the_room_for_the_memory_part_is_kept_free():
    """With memory on, a compaction counts the longer instruction and the part in the answer."""
    facts = ModelFacts("scripted", 8_000, "api", 8_000, factor_prior=1.0)
    off, on = talked(facts=facts), talked(facts=facts, memory=FakeMemory())

    more = on._engine.room().compaction_tokens - off._engine.room().compaction_tokens

    text = on._engine.meter.estimate_text(on._engine.texts.memory)
    assert more >= text + on._engine.memory_tokens
    assert on._engine.memory_tokens == 160


LINES = st.text(alphabet="abc .,`#-", min_size=1, max_size=20).filter(lambda s: s.strip())
SUMMARIES = st.lists(LINES, min_size=1, max_size=4).map("\n".join)
FACTS = st.lists(st.text(alphabet="abcd ", max_size=9).map(lambda s: f"f{s}g"), max_size=4)


def stated(facts):
    return tuple(dict.fromkeys(" ".join(fact.split()) for fact in facts))


@given(SUMMARIES, FACTS, st.sampled_from(["before", "behind", "unclosed"]), st.booleans())
def test_the_part_is_never_part_of_the_summary(summary, facts, where, has_tags):
    """Wherever it stands, closed or not: the summary is the rest, the facts are its lines."""
    shown = f"<summary>\n{summary}\n</summary>" if has_tags else summary
    part = "<memory>\n" + "".join(f"- {fact}\n" for fact in facts)
    text = {
        "before": f"{part}</memory>\n{shown}",
        "behind": f"{shown}\n{part}</memory>",
        "unclosed": f"{shown}\n{part}",
    }[where]

    assert split_memory(text) == (shown.strip(), stated(facts))


TAGS = st.sampled_from(
    ["<memory>", "</memory>", "<summary>", "</summary>", "\n", "- ", "word", "# Task", " ", "none"]
)


@given(st.lists(TAGS, max_size=14).map("".join))
def test_no_reply_loses_its_summary(text):
    """Whatever the reply looks like: words in it leave a summary, and no line opens a part."""
    summary, facts = split_memory(text)
    words = text.replace("<memory>", "").replace("</memory>", "")

    assert bool(summary) == bool(words.strip())
    assert not any(line.strip().startswith("<memory>") for line in summary.splitlines())
    assert len(facts) <= MOST_FACTS


def test_an_unclosed_part_ends_where_the_summary_goes_on():
    """A heading or the summary's tag behind an unclosed part begins the summary again."""
    text = "<memory>\n- A fact.\n<summary>\n## Task\nGo on.\n</summary>"

    assert split_memory(text) == ("<summary>\n## Task\nGo on.\n</summary>", ("A fact.",))
    assert split_memory("<memory>\n- A fact.\n# Task\nGo on.") == ("# Task\nGo on.", ("A fact.",))


def test_a_summary_may_speak_of_the_tag():
    """Only a line that begins with the tag opens a part."""
    text = "The reply has a <memory> part, `<memory>` closed by `</memory>`."

    assert split_memory(text) == (text, ())


@pytest.mark.parametrize("line", ["None.", "- none", "N/A", "---", "", "x" * 1_000])
def test_what_is_no_fact(line):
    """A word for nothing, a rule, and a text too long to be one fact are not kept."""
    assert split_memory(f"Summary.\n<memory>\n{line}\n</memory>") == ("Summary.", ())


def test_facts_are_bounded():
    """At most so many facts, each one line of bounded length without control characters."""
    lines = "\n".join(f"{n}. fact\x1b[31m {n} \x00" for n in range(1, 40))

    _, facts = split_memory(f"S.\n<memory>{lines}</memory>")

    assert len(facts) == MOST_FACTS
    assert facts[0] == "fact [31m 1 \ufffd"
    assert all(len(fact) <= MOST_FACT_CHARS and fact.isprintable() for fact in facts)
