"""Sub-agents through the real SDK and the strict fake: what they are sent, cost, and bring back."""

import threading

import pytest

from jupyter_ctx.core.acting import find_actor
from jupyter_ctx.core.agents import MOST_AT_ONCE
from jupyter_ctx.core.entries import Edit, FateEntry, SpentEntry
from jupyter_ctx.core.events import ToolFinished, ToolProgress, ToolStarted
from jupyter_ctx.core.ports import Allowed, Denied, ToolOutput
from jupyter_ctx.models.openai_wire import FAILED
from jupyter_ctx.store.agents import load_agent
from jupyter_ctx.store.sessions import SessionStore
from jupyter_ctx.testing import FakeFiles
from tests import both
from tests.agents import MANY, Look, conversation, requests_of, task
from tests.both import on_both
from tests.fake_anthropic import FakeAnthropic, Hold, Text, call, reply
from tests.fake_openai.exchange import CACHE_STEP
from tests.talk import run
from tests.wire import messages_of


def read_share(record):
    return both.cached_of(record) / both.prompt_of(record)


def told_of(record):
    """Return the contents of the results that stand last in a request."""
    results = [b for b in messages_of(record)[-1]["content"] if b["type"] == "tool_result"]
    return [result["content"] for result in results]


def is_error(record, place=0):
    """Whether a result of the last ones says that its call failed."""
    block = messages_of(record)[-1]["content"][place]
    return block.get("is_error") or block["content"][0]["text"].startswith(FAILED)


def asking_both(first, second, end="Both answered."):
    """Return the conversation's part: two tasks in one reply, then the end."""
    return [reply("I have both looked at.", tools=[task(first), task(second)]), end]


@on_both
def test_the_first_request_of_a_sub_agent_reads_its_prompt_from_the_cache(fake):
    """A sub-agent's first request is the parent's prompt and one message, read by ≥ 95 %."""
    main = [
        reply("I look.", thinking="Hm.", tools=[call("run_code", code=MANY)]),
        reply("I have it counted.", thinking="Well.", tools=[task("Count the lines.")]),
        "There are 1,500.",
    ]
    parts = {
        "Count the lines.": [
            reply(thinking="So.", tools=[call("look", text="a")]),
            "1,500 lines.",
        ]
    }
    with conversation(fake, main, parts, thinking="adaptive") as (server, session):
        run(session)

        assert session.last_turn.text == "There are 1,500."
        assert not server.refused
        parent, agent = requests_of(server, None), requests_of(server, "Count the lines.")
        assert agent[0].json.get("system") == parent[1].json.get("system")
        assert both.system_of(agent[0]) == both.system_of(parent[1])
        assert agent[0].json["tools"] == parent[1].json["tools"]
        assert len(agent[0].messages) == len(parent[1].messages) + 1
        assert both.cached_of(agent[0]) >= 0.95 * parent[1].input_tokens
        assert read_share(agent[0]) >= 0.95
        step = 5 if fake is FakeAnthropic else CACHE_STEP
        assert both.cached_of(agent[1]) >= agent[0].input_tokens - step
        assert read_share(parent[2]) >= 0.9
        assert not session.prefix_breaks
        assert both.assert_append_only(parent) == 0
        assert both.assert_append_only(agent) == 0


@pytest.fixture
def stored(tmp_path):
    """A session in a real store."""
    opened = SessionStore(tmp_path).create(cwd="/")
    yield opened
    opened.close()


@on_both
def test_only_the_answer_comes_back_and_the_steps_lie_in_a_transcript_of_their_own(fake, stored):
    """The parent's log gets the answer as the call's result; the steps lie under `agents/`."""
    main = [reply(tools=[task("Look.")]), "Done."]
    parts = {"Look.": [reply("A step.", tools=[call("look", text="a")]), "It is blue."]}
    with conversation(fake, main, parts, store=stored, agents=stored) as (server, session):
        run(session)

        sent = server.messages[-1].messages
        assert "It is blue." in str(sent[-1])
        assert "A step." not in str(sent)
        (entry,) = session.transcript.agents
        assert (entry.outcome, entry.steps, entry.description) == ("done", 2, "look around")
        own = load_agent(stored.path, entry.agent_id)
        assert own[0].parent == session.id
        assert "A step." in str(own)
        assert "A step." not in str(stored.entries)


@on_both
def test_its_cost_is_the_parents(fake, stored):
    """Tokens and money of a sub-agent are the session's, call by call, also when it is rebuilt."""
    main = [reply(tools=[task("Look.")]), "Done."]
    parts = {"Look.": [reply(tools=[call("look", text="a")]), "Blue."]}
    with conversation(fake, main, parts, store=stored, agents=stored) as (server, session):
        events = run(session)

        told = list(map(both.output_of, server.messages))
        assert len(told) == 4
        assert session.total_usage.output == sum(told)
        assert events[-1].usage.output == sum(told)
        (entry,) = session.transcript.agents
        spent = [e for e in stored.entries if isinstance(e, SpentEntry)]
        assert entry.usage.output == sum(e.usage.output for e in spent)
        costs = [session.price(e.usage) for e in spent]
        assert entry.cost_usd == pytest.approx(sum(costs))
        assert session.cost()["agents"][0]["cost_usd"] == entry.cost_usd


@on_both
def test_two_that_read_run_at_the_same_time(fake):
    """Two sub-agents that only read both have a request open at once."""
    parts = {
        "A": [reply(Text("A is done."), Hold("a"))],
        "B": [reply(Text("B is done."), Hold("b"))],
    }
    with conversation(fake, asking_both("A", "B"), parts) as (server, session):

        def release():
            server.wait_held("a")
            server.wait_held("b")
            server.release("b")
            server.release("a")

        helper = threading.Thread(target=release)
        helper.start()
        run(session)
        helper.join()

        assert session.last_turn.text == "Both answered."
        told = told_of(server.messages[-1])
        assert told == [[{"type": "text", "text": f"{name} is done."}] for name in "AB"]


@on_both
def test_two_that_run_code_run_it_one_after_the_other(fake):
    """From its first call of code to its end a sub-agent has the kernel to itself."""
    tools = Look()

    def code(name):
        return reply(tools=[call("run_code", code=name)])

    parts = {
        "A": [code("a = 1"), code("a = 2"), reply(Text("A done."), Hold("a"))],
        "B": [code("b = 1"), code("b = 2"), reply(Text("B done."), Hold("b"))],
    }
    with conversation(fake, asking_both("A", "B"), parts, tools=tools) as (server, session):
        seen = []

        def release():
            server.wait_for(5)  # the parent's, three of the first, one of the other
            first = "a" if tools.order[0] == "run a = 1" else "b"
            server.wait_held(first)
            seen.append(list(tools.order))
            server.release(first)
            server.release("b" if first == "a" else "a")

        helper = threading.Thread(target=release)
        helper.start()
        run(session)
        helper.join()

        assert session.last_turn.text == "Both answered."
        assert len(seen[0]) == 2
        assert len({said[4] for said in seen[0]}) == 1
        assert sorted(tools.order) == ["run a = 1", "run a = 2", "run b = 1", "run b = 2"]


@on_both
def test_stop_ends_them_all_within_the_turn(fake, stored):
    """Stop while two sub-agents stream ends both; the log is valid and goes on."""
    parts = {
        "A": [reply(Text("A is done."), Hold("a"))],
        "B": [reply(Text("B is done."), Hold("b"))],
    }
    with conversation(
        fake, asking_both("A", "B", "All is well."), parts, store=stored, agents=stored
    ) as (
        server,
        session,
    ):

        def stop():
            server.wait_held("a")
            server.wait_held("b")
            session._ports.runner.loop.get_loop().call_soon_threadsafe(session.cancel)

        helper = threading.Thread(target=stop)
        helper.start()
        events = run(session)
        helper.join()

        assert events[-1].outcome == "stopped"
        assert [entry.outcome for entry in session.transcript.agents] == ["stopped", "stopped"]
        for record in server.messages[1:]:
            assert record.gone.wait(20)
        assert run(session, "Go on.")[-1].outcome == "done"
        assert not server.refused


@on_both
def test_what_a_sub_agent_may_not_do_is_refused_at_the_call(fake):
    """A sub-agent's own `task` is refused with the reason, and it goes on."""
    main = [reply(tools=[task("Look.")]), "Done."]
    parts = {"Look.": [reply(tools=[task("Deeper.")]), "I did it myself."]}
    with conversation(fake, main, parts) as (server, session):
        run(session)

        refused = requests_of(server, "Look.")[1]
        assert is_error(refused)
        assert "cannot use `task`" in str(told_of(refused))
        assert session.last_turn.outcome == "done"


@on_both
def test_one_that_fails_is_an_error_result_and_the_turn_goes_on(fake):
    """A refusal within a sub-agent ends that one; the parent reads why."""
    main = [reply(tools=[task("Look.")]), "It could not."]
    parts = {"Look.": [reply("I will not.", stop_reason="refusal")]}
    with conversation(fake, main, parts) as (server, session):
        run(session)

        assert is_error(server.messages[-1])
        assert "The sub-agent failed" in str(told_of(server.messages[-1]))
        assert session.transcript.agents[0].outcome == "failed"
        assert session.last_turn.text == "It could not."


@on_both
def test_progress_is_told_on_the_row_of_its_call(fake):
    """While a sub-agent works, events of its call say the step and the tool that runs."""
    main = [reply(tools=[task("Look.")]), "Done."]
    parts = {"Look.": [reply(tools=[call("look", text="a")]), "Blue."]}
    with conversation(fake, main, parts) as (_, session):
        events = run(session)

        kinds = [
            type(e) for e in events if isinstance(e, ToolStarted | ToolProgress | ToolFinished)
        ]
        assert kinds == [ToolStarted, *[ToolProgress] * 3, ToolFinished]
        texts = [e.text for e in events if isinstance(e, ToolProgress)]
        assert texts == ["step 1: thinking", "step 1: look", "step 2: thinking"]
        (started,) = [e for e in events if isinstance(e, ToolStarted)]
        assert {e.tool_use_id for e in events if isinstance(e, ToolProgress)} == {
            started.tool_use_id
        }


@on_both
def test_calls_beside_tasks_keep_their_order(fake):
    """Calls before and after a group of tasks run before and after it; results stand in order."""
    tools = Look()
    main = [
        reply(tools=[call("look", text="1"), task("A"), task("B"), call("look", text="4")]),
        "Done.",
    ]
    parts = {name: [reply(tools=[call("look", text=name)]), f"{name} is done."] for name in "AB"}
    with conversation(fake, main, parts, tools=tools) as (server, session):
        run(session)

        assert [tools.order[0], tools.order[-1]] == ["look 1", "look 4"]
        told = told_of(server.messages[-1])
        assert [text for ((text),) in told] == [
            {"type": "text", "text": said}
            for said in ("look 1: done", "A is done.", "B is done.", "look 4: done")
        ]


@on_both
def test_a_small_window_is_compacted_within_the_sub_agent(fake):
    """A sub-agent that fills the window compacts its own prompt; the parent's stays as it is."""

    def steps():
        for n in range(30):
            code = f"for i in range(150): print('step {n} line', i, i * 37 % 101)"
            yield reply(f"Step {n}.", thinking="Hm.", tools=[call("run_code", code=code)])
        yield "All thirty are done."

    parts = {"Go through.": steps()}
    main = [reply(thinking="I.", tools=[task("Go through.")]), "Thirty."]
    with conversation(fake, main, parts, window=12_000, compaction="crush") as (server, session):
        run(session, "Units are metres, dates are ISO. " * 40)  # over the caches' least length
        cast = server._talk

        assert session.last_turn.text == "Thirty."
        assert not server.refused
        assert session.transcript.compactions == []
        sent = requests_of(server, None)
        assert messages_of(sent[-1])[0]["role"] == "user"
        assert read_share(sent[-1]) > 0.8
        assert len(cast.summaries) >= 2
        assert set(cast.summaries) == {"Go through."}


@on_both
def test_a_long_answer_is_offloaded_as_any_result(fake, stored):
    """The parent sees a preview of a long answer and reads the rest by the call's id."""
    long = "\n".join(f"finding {n}: {n * 37 % 101}" for n in range(4_000))
    main = [reply(tools=[task("Look.")]), "Done."]
    asked = 1 if fake is FakeAnthropic else 2  # once more with a larger output limit
    parts = {"Look.": [long] * asked}
    with conversation(fake, main, parts, store=stored, agents=stored) as (server, session):
        run(session)

        shown = str(server.messages[-1].messages[-1])
        assert len(shown) < 5_000
        ((id_, fate),) = session.transcript.fates.items()
        assert fate.fate == "offload"
        assert session.results[id_].text == long


@on_both
def test_two_siblings_may_give_the_same_ids(fake, stored):
    """Where a server repeats ids, results of siblings do not take one another's place."""
    long = {name: f"{name} " * 40_000 for name in "AB"}
    tools = Look()
    tools.functions["look"] = lambda text="": long[text]

    def part(name):
        return [
            reply(tools=[call("look", _id="call_1", text=name)]),
            reply(Text(f"{name} is done."), Hold(name)),
        ]

    parts = {name: part(name) for name in "AB"}
    options = {"tools": tools, "store": stored, "agents": stored, "binds_thinking": False}
    with conversation(fake, asking_both("A", "B"), parts, **options) as (server, session):

        def release():
            for name in "AB":
                server.wait_held(name)
            for name in "AB":
                server.release(name)

        helper = threading.Thread(target=release)
        helper.start()
        run(session)
        helper.join()

        for agent in session.transcript.agents:
            own = load_agent(stored.path, agent.agent_id)
            (fate,) = [entry for entry in own if isinstance(entry, FateEntry)]
            kept = stored.read_text(fate.tool_use_id)
            (name,) = {name for name in "AB" if f"{name} is done." in str(own)}
            assert kept == long[name]


@on_both
def test_an_edit_of_a_sub_agent_is_undone_as_one_of_the_agent(fake):
    """What a sub-agent edits is recorded with the parent, in the turn that started it."""
    edit = Edit("file", "/home/user/a.py", {"text": "old"}, {"text": "new"})
    files = FakeFiles({"/home/user/a.py": {"text": "new"}})
    tools = Look()
    tools.functions["look"] = lambda text="": ToolOutput("edited", edits=(edit,))
    parts = {"Edit.": [reply(tools=[call("look", text="a")]), "Edited."]}
    main = [reply(tools=[task("Edit.")]), "Done."]
    with conversation(fake, main, parts, tools=tools, files=files) as (_, session):
        run(session)

        (entry,) = session.transcript.edits
        assert (entry.turn, entry.n) == (1, 1)
        session.undo()
        assert files.states["/home/user/a.py"] == {"text": "old"}


@on_both
def test_a_question_names_the_sub_agent_and_only_its_own(fake):
    """Permission is asked through the parent's port, by whoever acts; a denial reaches only it."""
    asked = []

    class Asks:
        async def check(self, use, spec):
            asked.append((use.name, None if (actor := find_actor()) is None else actor.description))
            return Allowed() if spec.reads_only else Denied("Denied by the user: not now")

    main = [reply(tools=[task("Run.", "run it"), call("run_code", code="1")]), "Denied."]
    parts = {"Run.": [reply(tools=[call("run_code", code="2")]), "It was denied."]}
    with conversation(fake, main, parts, permissions=Asks()) as (server, session):
        run(session)

        assert asked == [("task", None), ("run_code", "run it"), ("run_code", None)]
        refused = told_of(requests_of(server, "Run.")[1])
        assert "not now" in str(refused)
        assert session.last_turn.text == "Denied."


@on_both
def test_no_more_than_eight_run_at_once(fake):
    """Of ten sub-agents of one reply the last two begin when others have ended."""
    names = [f"T{n}" for n in range(10)]
    main = [reply(tools=[task(name) for name in names]), "All ten."]
    parts = {name: [reply(Text("Done."), Hold(name))] for name in names}
    with conversation(fake, main, parts) as (server, session):
        begun = []

        def release():
            for name in names[:MOST_AT_ONCE]:
                server.wait_held(name)
            begun.append(len(server.messages))
            for name in names:
                server.release(name)

        helper = threading.Thread(target=release)
        helper.start()
        run(session)
        helper.join()

        assert begun == [1 + MOST_AT_ONCE]
        assert len(server.messages) == 12
        assert session.last_turn.text == "All ten."


@on_both
def test_code_that_sub_agents_ran_is_told_before_a_rewind(fake):
    """What cannot be taken back counts their code too; a denied or refused call is none."""
    main = [reply(tools=[task("Run.")]), "Done."]
    parts = {"Run.": [reply(tools=[call("run_code", code="x = 1"), task("No.")]), "It ran."]}
    with conversation(fake, main, parts) as (_, session):
        run(session)

        assert session.plan_rewind(1).ran == (("task", 1),)
