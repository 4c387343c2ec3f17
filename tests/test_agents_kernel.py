"""Sub-agents in a real kernel: their code, what a cell shows, Stop, a kill, and what they saw."""

from contextlib import contextmanager

from jupyter_ctx.store.agents import load_agent
from jupyter_ctx.store.sessions import SessionStore
from tests.agent_kernel import agent_kernel, ask
from tests.agents import Cast, requests_of, task
from tests.fake_anthropic import FakeAnthropic, FakeModel, Hold, Text, call, reply
from tests.talk import MODEL


def code(source):
    return reply(tools=[call("run_code", code=source)])


@contextmanager
def served(main, parts):
    models = {MODEL: FakeModel(window=1_000_000, max_output=64_000, binds_thinking=True)}
    with FakeAnthropic(Cast(main, parts), models=models) as server:
        yield server


def both(end="Both answered."):
    calls = [task("A", "the first"), task("B", "the second")]
    return [reply(thinking="Hm.", tools=calls), end]


def result_texts(record):
    return [block["content"][0]["text"] for block in record.messages[-1]["content"]]


def test_two_sub_agents_run_code_in_the_users_kernel(tmp_path):
    """Their code runs there one after the other, and the cell shows a line for each."""
    parts = {name: [code(f"{name} = 6 * 7; print({name})"), f"{name} is 42."] for name in "AB"}
    with (
        served(both(), parts) as server,
        agent_kernel(tmp_path, server, MODEL) as kernel,
    ):
        ran = ask(kernel, "Look at both.")

        assert kernel.eval("A + B") == 84
        assert result_texts(server.messages[-1]) == ["A is 42.", "B is 42."]
        shown = "\n".join(ran.bundles("text/plain"))
        assert "Sub-agent answered: the first" in shown
        assert "Sub-agent answered: the second" in shown
        assert server.refused == []
        first = requests_of(server, "A")[0]
        parent = requests_of(server, None)[0]
        assert first.usage["cache_read_input_tokens"] >= 0.95 * parent.input_tokens


def test_the_question_names_the_sub_agent_that_asks(tmp_path):
    """In mode `ask` the person reads whose code it is, and a denial reaches that one."""
    main = [reply(tools=[task("A", "count rows")]), "It was not let."]
    parts = {"A": [code("x = 1"), "Not allowed."]}
    with (
        served(main, parts) as server,
        agent_kernel(tmp_path, server, MODEL, JUPYTER_CTX_PERMISSIONS="ask") as kernel,
    ):
        ran = kernel.execute("%agent look", stdin_replies=["n not now"])

        assert ran.ok
        shown = "\n".join(ran.bundles("text/plain"))
        assert "The sub-agent “count rows” asks to run code" in shown
        assert "not now" in str(requests_of(server, "A")[1].messages[-1])


def test_stop_ends_code_and_streams_of_sub_agents(tmp_path):
    """An interrupt while one runs code and another streams ends the cell; the next turn is good."""
    parts = {
        "A": [code("import time\nprint('sleeps', flush=True)\ntime.sleep(600)")],
        "B": [reply(Text("B is"), Hold("b"))],
    }
    with (
        served(both("All is well."), parts) as server,
        agent_kernel(tmp_path, server, MODEL) as kernel,
    ):
        request = kernel.submit("%agent look at both")
        kernel.wait_for_text(request, "sleeps")
        server.wait_held("b")
        kernel.interrupt()
        ran = kernel.collect(request)

        assert not ran.ok
        assert requests_of(server, "B")[0].gone.wait(20)
        ask(kernel, "Go on.")
        sent = server.messages[-1].messages
        assert "Stopped by the user" in str(sent)
        assert server.refused == []


def test_what_a_sub_agent_saw_and_changed_is_not_what_the_conversation_saw(tmp_path):
    """A file that a sub-agent read and edited must be read by the conversation before it edits."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("one\n")
    edit = call("edit_file", path="a.txt", old="two", new="three")
    main = [
        reply(tools=[call("read_file", path="a.txt")]),
        reply(tools=[task("A")]),
        reply(tools=[edit]),
        "Refused.",
    ]
    parts = {
        "A": [reply(tools=[call("edit_file", path="a.txt", old="one", new="two")]), "Edited."],
    }
    with (
        served(main, parts) as server,
        agent_kernel(tmp_path, server, MODEL) as kernel,
    ):
        ask(kernel, "Edit it.")

        assert not requests_of(server, "A")[1].messages[-1]["content"][0].get("is_error")
        refused = server.messages[-1].messages[-1]["content"][0]
        assert refused["is_error"]
        assert "two" in str(refused)
        kernel.execute("%agent /undo")
        assert (tmp_path / "work" / "a.txt").read_text() == "one\n"


def test_a_kernel_killed_while_sub_agents_work_leaves_a_session_that_resumes(tmp_path):
    """After a kill the next kernel goes on; what the sub-agent had said lies in its transcript."""
    main = [reply(tools=[task("A")]), "It goes on."]
    parts = {"A": [code("import time\nprint('sleeps', flush=True)\ntime.sleep(600)")]}
    notebook = {"JPY_SESSION_NAME": str(tmp_path / "work" / "a.ipynb")}
    with served(main, parts) as server:
        with agent_kernel(tmp_path, server, MODEL, **notebook) as kernel:
            request = kernel.submit("%agent look")
            kernel.wait_for_text(request, "sleeps")
            kernel.kill()
        with agent_kernel(tmp_path, server, MODEL, **notebook) as kernel:
            ask(kernel, "Go on.")

        assert "tool call was interrupted" in str(server.messages[-1].messages)
        assert server.refused == []
        (info,) = SessionStore(tmp_path / "ctx").list()
        stored = SessionStore(tmp_path / "ctx").load(info.session_id)
        (agent,) = (stored.path / "agents").iterdir()
        assert "time.sleep" in str(load_agent(stored.path, agent.name))
        stored.close()
