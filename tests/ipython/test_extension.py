"""`%agent` in a real kernel, against the strict fake server: from the cell to the wire and back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..fake_anthropic import FakeAnthropic, Hold, call, reply, status
from ..kernels import TIMEOUT_S, Ran, RealKernel, running_kernel
from .test_markdown import acting_parts, lab_html

KEY = "sk-ant-test-0123456789abcdef"


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """A fake without a script; tests append their answers, and all of them must be used."""
    with FakeAnthropic([]) as running:
        yield running
        assert not running.refused
        assert not running.unused


@pytest.fixture
def kernel(server: FakeAnthropic, tmp_path: Path) -> Iterator[RealKernel]:
    """A kernel with the extension loaded, whose provider is the fake."""
    env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": KEY}
    with running_kernel(tmp_path, env) as running:
        running.execute("%load_ext jupyter_ctx\n%config JupyterCtx.permissions = 'auto'")
        yield running


def markdown(ran: Ran) -> list[str]:
    """Return the Markdown of the cell's displays, in order, as it was saved."""
    return [str(text) for text in ran.bundles("text/markdown")]


def wait_for_markdown(kernel: RealKernel, request: str, wanted: str) -> Ran:
    """Return what came until exactly that text stands below the cell; the request goes on."""
    ran = Ran()
    while wanted not in markdown(ran):
        message = kernel.client.get_iopub_msg(timeout=TIMEOUT_S)
        if message["parent_header"].get("msg_id") == request:
            ran.add(message)
    return ran


def prompt_of(server: FakeAnthropic, at: int = -1) -> str:
    """Return the user's words in a request: the last text block of its last user message."""
    content = server.messages[at].json["messages"][-1]["content"]
    return str(content[-1]["text"])


def test_a_turn_with_a_tool(kernel: RealKernel, server: FakeAnthropic) -> None:
    """Text, tool output and the last line stand below the cell, in order, as static Markdown."""
    server.append(reply("I *look*.", call("run_code", code="print(6 * 7)")), "It is **42**.")
    ran = kernel.execute("%agent what is 6 * 7?")

    assert ran.ok
    kinds = [out.get("name", out["output_type"]) for out in ran.outputs]
    assert kinds[-5:] == ["display_data"] * 2 + ["stdout"] + ["display_data"] * 2
    assert ran.text == "42\n"
    shown = markdown(ran)
    assert "I *look*." in shown
    assert shown[-2] == "It is **42**."
    assert shown[-1].startswith("*2 steps, ")
    assert prompt_of(server, 0) == "what is 6 * 7?"


def test_nothing_is_published_as_html(kernel: RealKernel, server: FakeAnthropic) -> None:
    """Hostile text of the model leaves the kernel escaped, also while it streams."""
    server.append("<script>alert(1)</script> [x](javascript:alert(1)) ![y](http://a.invalid/z)")
    ran = kernel.execute("%agent hi")

    bundles = [
        message["content"]["data"]
        for message in ran.messages
        if message["msg_type"] in ("display_data", "update_display_data")
    ]
    assert bundles
    for data in bundles:
        assert set(data) == {"text/markdown", "text/plain"}
        assert acting_parts(lab_html(data["text/markdown"])) == []


def test_the_text_streams(kernel: RealKernel, server: FakeAnthropic) -> None:
    """Text is seen while the answer is still under way."""
    server.append(reply("The first block.", Hold("middle"), "The second."))
    request = kernel.submit("%agent go")
    server.wait_held("middle")
    ran = wait_for_markdown(kernel, request, "The first block.")
    assert "The second." not in markdown(ran)
    server.release("middle")
    rest = kernel.collect(request)
    for message in rest.messages:
        ran.add(message)

    assert markdown(ran)[1:3] == ["The first block.", "The second."]


AS_TYPED = (
    "costs $x or {y}, 100 %?",
    "don't say \"hi",
    "is it ??",
    "path C:\\new\\",
    "là 日本 🙂",
)


def test_prompts_arrive_as_typed(kernel: RealKernel, server: FakeAnthropic) -> None:
    """What is typed is what is sent, on a line, in a block and in a cell magic."""
    kernel.execute("x = y = 1")
    for prompt in AS_TYPED:
        cells = (f"%agent {prompt}", f"if True:\n    %agent {prompt}", f"%%agent\n{prompt}\n")
        for cell in cells:
            server.append("ok")
            ran = kernel.execute(cell)
            assert ran.ok, ran.outputs
            assert prompt_of(server) == prompt


def test_a_long_prompt_arrives(kernel: RealKernel, server: FakeAnthropic) -> None:
    """A prompt of 100 KB in a cell magic is sent whole."""
    server.append("ok")
    prompt = "\n".join(f"line {n} of it" for n in range(7_000))

    assert kernel.execute(f"%%agent\n{prompt}").ok
    assert prompt_of(server) == prompt


def test_a_prompt_of_five_megabytes(kernel: RealKernel, server: FakeAnthropic) -> None:
    """Such a prompt runs: it is stored, and the model gets its ends and a name to read on by."""
    server.append("ok")
    ran = kernel.execute("%agent " + "five words (of a line) " * 220_000)

    assert ran.ok
    assert any("prompt-1" in text for text in markdown(ran))
    assert len(json.dumps(server.messages[0].json)) < 200_000


def test_output_can_be_captured(kernel: RealKernel, server: FakeAnthropic) -> None:
    """`%%capture` around a turn keeps its outputs from the cell."""
    server.append(reply(call("run_code", code="print(1)")), "Captured.")
    ran = kernel.execute("%%capture kept\n%agent go")

    assert ran.outputs == []
    assert "Captured." in kernel.execute("print([one.data for one in kept.outputs])").text
    assert kernel.execute("print(kept.stdout)").text == "1\n\n"


def test_errors_fail_the_cell_in_one_sentence(kernel: RealKernel, server: FakeAnthropic) -> None:
    """A refused key is one sentence, an error reply and no traceback; the prompt can go again."""
    server.append(status(401), "ok")
    ran = kernel.execute("%agent hello")

    assert ran.reply["ename"] == "UsageError"
    assert "401" in ran.reply["evalue"]
    assert "\n" not in ran.reply["evalue"]
    assert "Traceback" not in ran.stderr
    assert not [out for out in ran.outputs if out["output_type"] == "error"]
    assert kernel.execute("%agent hello").ok


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("%agent", "Type what the agent should do"),
        ("%%agent\n\n", "Type what the agent should do"),
        ("%agent /contxt", "Nearest: /context"),
        ("%agent /summary 3", "no compaction yet"),
        ("%agent /permissions never", "use one of ask, edits, auto, plan"),
        ("%agent /resume nothing", "No session has that id"),
    ],
)
def test_bad_input_is_one_sentence(
    kernel: RealKernel, server: FakeAnthropic, cell: str, says: str
) -> None:
    """What cannot run says how to write it, and nothing is sent."""
    ran = kernel.execute(cell)

    assert ran.reply["ename"] == "UsageError"
    assert says in ran.reply["evalue"]
    assert server.messages == []


def test_in_another_thread_it_is_refused(kernel: RealKernel, server: FakeAnthropic) -> None:
    """A turn runs in the main thread only, and says so elsewhere."""
    ran = kernel.execute(
        "import threading\n"
        "said = []\n"
        "def ask():\n"
        "    try:\n"
        "        get_ipython().run_line_magic('agent', 'hi')\n"
        "    except Exception as error:\n"
        "        said.append((type(error).__name__, str(error)))\n"
        "t = threading.Thread(target=ask); t.start(); t.join(); print(said)"
    )

    assert "UsageError" in ran.text
    assert "main thread" in ran.text


def test_in_a_function_it_works(kernel: RealKernel, server: FakeAnthropic) -> None:
    """The magic runs inside a function too, and returns None."""
    server.append("ok")
    ran = kernel.execute("def f():\n    got = %agent hello\n    print(got)\nf()")

    assert ran.ok
    assert ran.text == "None\n"


def test_tool_code_cannot_ask_again(kernel: RealKernel, server: FakeAnthropic) -> None:
    """Tool code that calls the agent gets one sentence as its error, and the turn goes on."""
    server.append(reply(call("run_code", code="%agent and again?")), "So be it.")
    ran = kernel.execute("%agent nest")

    assert ran.ok
    assert "So be it." in markdown(ran)
    result = server.messages[1].json["messages"][-1]["content"][0]
    assert result["is_error"]
    assert "A turn is running" in json.dumps(result["content"])


def test_permission_by_input(kernel: RealKernel, server: FakeAnthropic) -> None:
    """The code is shown whole, then asked about; yes runs it, no tells the model the reason."""
    kernel.execute("%agent /permissions ask")
    code = "a = 1\nprint('ran', a)"
    server.append(reply(call("run_code", code=code)), "Done.")
    ran = kernel.execute("%agent go", stdin_replies=["y"])
    assert ran.ok
    assert ran.text == "ran 1\n"
    assert any(code in text for text in ran.bundles("text/plain"))

    server.append(reply(call("run_code", code="print('again')")), "Denied, then.")
    denied = kernel.execute("%agent go", stdin_replies=["n use polars"])
    assert denied.ok
    assert denied.text == ""
    result = server.messages[-1].json["messages"][-1]["content"][0]
    assert "Denied by the user: use polars" in json.dumps(result)
    assert result["is_error"]


def test_headless_is_denied(kernel: RealKernel, server: FakeAnthropic) -> None:
    """Where nobody can be asked the call is denied, which the person reads too, once."""
    kernel.execute("%agent /permissions ask")
    server.append(reply(call("run_code", code="print(1)")), "ok")
    ran = kernel.execute("%agent go")

    assert ran.ok
    assert ran.text == ""
    assert sum("PERMISSIONS=auto" in text for text in ran.bundles("text/plain")) == 1
    assert "JUPYTER_CTX_PERMISSIONS=auto" in json.dumps(server.messages[-1].json["messages"][-1])


def test_stop_in_mid_stream(kernel: RealKernel, server: FakeAnthropic) -> None:
    """A stop keeps the text so far, fails the cell and leaves kernel and session usable."""
    server.append(reply("Half of it", Hold("never"), " and more."), "Back again.")
    request = kernel.submit("%agent go")
    wait_for_markdown(kernel, request, "Half of it")
    kernel.interrupt()
    ran = kernel.collect(request)
    server.release("never")

    assert ran.reply["ename"] == "UsageError"
    assert "Stopped by you at step 1" in ran.reply["evalue"]
    assert kernel.execute("print(1 + 1)").text == "2\n"
    assert kernel.execute("%agent again").ok
    sent = json.dumps(server.messages[-1].json["messages"])
    assert "Half of it" in sent
    assert "[Stopped by the user]" in sent


def test_stop_before_the_first_token(kernel: RealKernel, server: FakeAnthropic) -> None:
    """A stop while the provider is silent ends the turn; the next prompt works."""
    server.append(reply(Hold("silence"), "late"), "Here.")
    request = kernel.submit("%agent go")
    server.wait_held("silence")
    kernel.interrupt()
    ran = kernel.collect(request)
    server.release("silence")

    assert "Stopped by you" in ran.reply["evalue"]
    assert "Here." in markdown(kernel.execute("%agent again"))


def test_stop_in_tool_code(kernel: RealKernel, server: FakeAnthropic) -> None:
    """An interrupt of tool code stops the turn; no further step is asked for."""
    code = "import time\nprint('sleeping', flush=True)\ntime.sleep(600)"
    server.append(reply(call("run_code", code=code)))
    request = kernel.submit("%agent go")
    kernel.wait_for_text(request, "sleeping")
    kernel.interrupt()
    ran = kernel.collect(request)

    assert "Stopped by you" in ran.reply["evalue"]
    assert len(server.messages) == 1
    assert kernel.execute("print('alive')").text == "alive\n"


def test_stop_at_the_question(kernel: RealKernel, server: FakeAnthropic) -> None:
    """An interrupt at the question stops the turn; the code never runs."""
    kernel.execute("%agent /permissions ask")
    server.append(reply(call("run_code", code="ran = True")))
    request = kernel.submit("%agent go", allow_stdin=True)
    assert "Allow?" in kernel.client.get_stdin_msg(timeout=30)["content"]["prompt"]
    kernel.interrupt()
    ran = kernel.collect(request)

    assert "Stopped by you" in ran.reply["evalue"]
    assert kernel.eval("'ran' in globals()") is False


def test_settings_are_live(kernel: RealKernel, server: FakeAnthropic) -> None:
    """`%config` takes effect at the next turn, and refuses a bad value in one sentence."""
    server.append("ok", reply(call("run_code", code="print('a' * 700)")), "ok")
    kernel.execute("%agent one")
    kernel.execute("%config JupyterCtx.output_tokens = 1234\n%config JupyterCtx.thinking = 'off'")
    kernel.execute("%config JupyterCtx.max_result_chars = {'run_code': 600}")
    kernel.execute(
        "%config JupyterCtx.live_output_head = 0\n%config JupyterCtx.live_output_tail = 9"
    )
    ran = kernel.execute("%agent two")
    assert server.messages[-1].json["max_tokens"] == 1234
    assert any(text.startswith("*Result stored") for text in markdown(ran))
    assert ran.text.endswith("701 characters more; the last 9 follow]\naaaaaaaa\n")

    kernel.execute("%config JupyterCtx.max_result_chars = {'run_kode': 600}")
    assert "names no tool 'run_kode'" in kernel.execute("%agent three").reply["evalue"]
    kernel.execute("%config JupyterCtx.max_result_chars = {}")

    ran = kernel.execute("%config JupyterCtx.permissions = 'sometimes'")
    assert "use one of 'ask', 'edits', 'auto', 'plan'" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "Permissions: auto" in kernel.execute("%agent /permissions").bundles("text/plain")[0]


def test_rerun_replays(kernel: RealKernel, server: FakeAnthropic) -> None:
    """X3: with replay the same cell and text shows the stored answer and sends nothing."""
    server.append("The answer.", "Another.", "A third.")
    kernel.execute("%agent why?", cell_id="c1")
    anew = kernel.execute("%agent why?", cell_id="c1")
    assert any("Asked anew" in text for text in markdown(anew))
    kernel.execute("%config JupyterCtx.rerun = 'replay'")
    stored = kernel.execute("%agent why?", cell_id="c1")
    assert markdown(stored)[0] == "Another."
    assert "Stored answer" in markdown(stored)[1]
    assert len(server.messages) == 2
    kernel.execute("%agent why?", cell_id="c2")
    assert len(server.messages) == 3


def test_a_session_survives_a_restart(server: FakeAnthropic, tmp_path: Path) -> None:
    """After a restart the notebook's session goes on: said to the person, told to the model."""
    env = {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": KEY,
        "JPY_SESSION_NAME": str(tmp_path / "work" / "a.ipynb"),
    }
    server.append("First.", "Second.")
    with running_kernel(tmp_path, env) as kernel:
        kernel.execute("%load_ext jupyter_ctx\n%agent one")
        kernel.restart()
        ran = kernel.execute("%load_ext jupyter_ctx\n%agent two")

    assert any("Kernel restarted" in text for text in markdown(ran))
    first, second = (sent.json for sent in server.messages)
    assert second["system"] == first["system"]
    assert second["tools"] == first["tools"]
    told = json.dumps(second["messages"])
    assert "First." in told
    assert "kernel was restarted" in told


def test_loading_again_is_no_restart(server: FakeAnthropic, tmp_path: Path) -> None:
    """Where the variables still are, nobody is told that they are gone; on /resume elsewhere, both.

    The extension loaded again finds its session; so does /resume of one that ran in this kernel.
    """
    env = {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": KEY,
        "JPY_SESSION_NAME": str(tmp_path / "work" / "a.ipynb"),
    }
    server.append("First.", "Second.", "Third.", "Fourth.")
    with running_kernel(tmp_path, env) as kernel:
        kernel.execute("%load_ext jupyter_ctx\n%agent one")
        again = kernel.execute("%reload_ext jupyter_ctx\n%agent two")
        first = kernel.eval("__import__('jupyter_ctx').current_session().id")
        kernel.execute("%agent /new")
        back = kernel.execute(f"%agent /resume {first}\n%agent three")
        told = json.dumps(server.messages[-1].json["messages"])
        assert "First." in told
        assert "variables" not in "".join([told, *markdown(again), *markdown(back)])

        kernel.restart()
        kernel.execute("%load_ext jupyter_ctx\n%agent /new")
        ran = kernel.execute(f"%agent /resume {first}\n%agent four")
        assert any("another kernel" in text for text in markdown(ran))
        assert "another kernel" in json.dumps(server.messages[-1].json["messages"])


def test_a_model_that_cannot_be_used_stops_turns_only(
    kernel: RealKernel, server: FakeAnthropic
) -> None:
    """Turns are refused as long as it is set, never run on the old one; commands still mend it."""
    server.append("ok", "ok")
    kernel.execute("%agent one")
    kernel.execute("%config JupyterCtx.model = 'ollama:'")
    for _ in range(2):
        assert "names no model" in kernel.execute("%agent two").reply["evalue"]
    assert kernel.execute("%agent /doctor").ok
    ran = kernel.execute("%agent /help")
    assert ran.ok
    assert any("names no model" in text for text in markdown(ran))
    assert kernel.execute("%agent /model claude-sonnet-5-5").ok
    assert kernel.execute("%agent three").ok


def test_connections_end_with_the_session(kernel: RealKernel, server: FakeAnthropic) -> None:
    """/new and %unload_ext close the model's connections; the threads of a turn are gone."""
    server.append("ok", "ok")
    kernel.execute("%agent one\nold = __import__('jupyter_ctx').current_session()")
    client = "old._engine.ports.model._client is None"
    assert kernel.eval(client) is False
    kernel.execute("%agent /new")
    assert kernel.eval(client) is True
    kernel.execute("%agent two\nold = __import__('jupyter_ctx').current_session()")
    assert kernel.eval(client) is False
    kernel.execute("%unload_ext jupyter_ctx")
    assert kernel.eval(client) is True


def test_new_and_resume(kernel: RealKernel, server: FakeAnthropic) -> None:
    """/new starts over; /resume goes back to the folder's last session."""
    server.append("Blue it is.", "What?", "It was blue.")
    kernel.execute("%agent my colour is blue")
    assert kernel.execute("%agent /new").ok
    kernel.execute("%agent which colour?")
    assert "blue" not in json.dumps(server.messages[-1].json["messages"])
    assert kernel.execute("%agent /resume").ok
    kernel.execute("%agent which colour?")
    assert "my colour is blue" in json.dumps(server.messages[-1].json["messages"])


def test_context_and_cost_carry_json(kernel: RealKernel, server: FakeAnthropic) -> None:
    """/context shows Markdown and plain text and carries JSON whose parts add up."""
    server.append("ok")
    kernel.execute("%agent hi")
    (context,) = kernel.execute("%agent /context").bundles(
        "application/vnd.jupyter-ctx.context+json"
    )

    assert sum(context["parts"].values()) == context["used_tokens"]
    assert context["window_source"] == "api"
    assert "uncached" in kernel.execute("%agent /cost").bundles("text/plain")[0]


def test_doctor_finds_the_endpoint(kernel: RealKernel, server: FakeAnthropic) -> None:
    """/doctor asks the endpoint about its model and says where the window comes from."""
    (text,) = kernel.execute("%agent /doctor").bundles("text/plain")

    assert "No fault found" in text
    assert "Endpoint: it answers" in text
    assert "the provider says so" in text
    assert KEY not in text


def test_the_python_face(kernel: RealKernel, server: FakeAnthropic) -> None:
    """`current_session`, `ask` in a plain cell and `turn` in an async one run the same session."""
    server.append("One.", reply(call("run_code", code="z = 5")), "Two.")
    kernel.execute("import jupyter_ctx")
    assert kernel.execute("print(jupyter_ctx.current_session())").text == "None\n"
    kernel.execute("%agent /context")
    ran = kernel.execute("s = jupyter_ctx.current_session(); print(s.ask('one').text)")
    assert ran.text == "One.\n"
    ran = kernel.execute(
        "async for event in s.turn('two'):\n    print(type(event).__name__)\n"
        "print(s.last_turn.text, z)"
    )
    assert ran.ok, ran.outputs
    assert "ToolFinished" in ran.text
    assert ran.text.endswith("TurnFinished\nTwo. 5\n")


def test_keys_are_shown_to_nobody(kernel: RealKernel, server: FakeAnthropic) -> None:
    """The key is redacted from prompts, outputs and what is stored."""
    server.append(
        reply(call("run_code", code="import os; print(os.environ['ANTHROPIC_API_KEY'])")), "ok"
    )
    ran = kernel.execute(f"%agent is it {KEY}?")

    assert KEY not in json.dumps(ran.outputs)
    assert KEY not in json.dumps([sent.json for sent in server.messages])
    stored = [path.read_bytes() for path in kernel.home.rglob("*") if path.is_file()]
    assert stored
    assert not any(KEY.encode() in data for data in stored)


def test_a_full_disk_does_not_stop_the_turn(kernel: RealKernel, server: FakeAnthropic) -> None:
    """Where nothing can be stored the turn runs, with a warning that can be seen."""
    kernel.home.parent.mkdir(exist_ok=True)
    kernel.home.write_text("no folder")
    server.append("ok")
    ran = kernel.execute("%agent hi")

    assert ran.ok
    assert "ok" in markdown(ran)
    assert any("lost when the kernel stops" in text for text in markdown(ran)), markdown(ran)


def test_no_home_does_not_stop_the_turn(kernel: RealKernel, server: FakeAnthropic) -> None:
    """Where there is no home folder at all the turn runs in memory, and says so."""
    server.append("ok")
    kernel.execute(
        "import os, jupyter_core.paths\n"
        "def nowhere(): raise RuntimeError('Could not determine home directory.')\n"
        "jupyter_core.paths.jupyter_data_dir = nowhere\n"
        "del os.environ['JUPYTER_CTX_HOME']"
    )
    ran = kernel.execute("%agent hi")

    assert ran.ok, ran.outputs
    assert any("There is no home folder" in text for text in markdown(ran)), markdown(ran)


def test_demo_without_a_key(tmp_path: Path) -> None:
    """Without a key the demo answers, and says in its first line what it is."""
    with running_kernel(tmp_path, {"JUPYTER_CTX_PERMISSIONS": "auto"}) as kernel:
        kernel.execute("%load_ext jupyter_ctx")
        ran = kernel.execute("%agent hello")

    assert ran.ok
    assert markdown(ran)[0].startswith("**Demo model: no key is set.**")


def test_a_set_model_is_never_replaced(tmp_path: Path) -> None:
    """A model that is set but has no key is an error, not the demo."""
    with running_kernel(tmp_path, {"JUPYTER_CTX_MODEL": "claude-sonnet-5-5"}) as kernel:
        kernel.execute("%load_ext jupyter_ctx")
        ran = kernel.execute("%agent hello")

    assert "set ANTHROPIC_API_KEY" in ran.reply["evalue"]


LOOK = """
import sys, threading
def look():
    ip = get_ipython()
    events = {name: list(calls) for name, calls in ip.events.callbacks.items()}
    pub = [list(getattr(ip.display_pub, '_hooks', [])), list(getattr(ip.displayhook, '_hooks', []))]
    return repr((
        {kind: sorted(names) for kind, names in ip.magics_manager.magics.items()},
        sorted(vars(ip.magics_manager.user_magics)),
        ip.input_transformer_manager.line_transforms,
        ip.input_transformer_manager.token_transformers,
        events, pub,
        ip.Completer.custom_matchers, ip.configurables,
        sorted(ip.kernel.comm_manager.targets), sorted(ip.kernel.comm_manager.comms),
        sorted(ip.kernel.control_handlers), sorted(ip.kernel.shell_handlers),
        ip.display_pub, ip.displayhook, sys.stdout, sys.stderr, sys.displayhook,
        sorted(n for n in ip.user_ns if n[:1] != '_'),
        sorted(t.name for t in threading.enumerate()),
    ))
"""


def test_loading_is_light(tmp_path: Path) -> None:
    """Loading is silent, starts no thread and imports none of the heavy packages."""
    with running_kernel(tmp_path) as kernel:
        kernel.execute("import sys, threading")
        threads = kernel.eval("sorted(t.name for t in threading.enumerate())")
        ran = kernel.execute("%load_ext jupyter_ctx")
        assert ran.ok
        assert ran.outputs == []
        heavy = ["anthropic", "httpx2", "tiktoken", "PIL", "rich.markdown", "nbformat", "filelock"]
        heavy += ["jsonschema", "fastjsonschema", "anywidget", "markdown_it"]
        heavy += ["jupyter_ctx.session", "jupyter_ctx.core.ports", "mcp", "openai"]
        heavy += [f"jupyter_ctx.{part}" for part in ("surroundings", "hooks", "store", "export")]
        assert kernel.eval(f"[m for m in {heavy} if m in sys.modules]") == []
        assert kernel.eval("sorted(t.name for t in threading.enumerate())") == threads


def test_a_bad_setting_in_the_configuration(tmp_path: Path) -> None:
    """A bad value in IPython's configuration is one sentence at loading, and nothing stays."""
    with running_kernel(tmp_path) as kernel:
        ran = kernel.execute(
            "get_ipython().config.JupyterCtx.permissions = 'never'\n%load_ext jupyter_ctx"
        )
        assert ran.reply["ename"] == "UsageError"
        assert "Setting permissions is 'never'" in ran.reply["evalue"]
        assert kernel.eval("'agent' in get_ipython().magics_manager.magics['line']") is False


def test_unloading_leaves_the_shell_as_it_was(kernel: RealKernel, server: FakeAnthropic) -> None:
    """After turns and %unload_ext every hook, thread, comm and magic is gone; it loads again."""
    server.append(reply(call("run_code", code="1")), "ok", "ok")
    kernel.execute("%unload_ext jupyter_ctx")
    kernel.execute(LOOK + "before = look(); after = None")
    kernel.execute("before = look()")
    kernel.execute("%load_ext jupyter_ctx\n%config JupyterCtx.permissions = 'auto'")
    assert kernel.execute("%agent hi").ok
    kernel.execute("%unload_ext jupyter_ctx")
    kernel.execute("after = look()")

    assert kernel.eval("before == after"), kernel.execute("print(before); print(after)").text
    assert kernel.execute("%load_ext jupyter_ctx\n%reload_ext jupyter_ctx").ok
    assert kernel.execute("%agent hi").ok


def test_each_shell_has_its_own(kernel: RealKernel, server: FakeAnthropic) -> None:
    """A second shell of the process takes nothing from the first, and leaves it as it was."""
    server.append("ok", "ok")
    kernel.execute("%agent hi\nimport jupyter_ctx\nfirst = jupyter_ctx.current_session().id")
    kernel.execute(
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "other = InteractiveShell()\n"
        "jupyter_ctx.load_ipython_extension(other)\n"
        "same = jupyter_ctx.current_session().id\n"
        "jupyter_ctx.unload_ipython_extension(other)"
    )
    assert kernel.eval("first == same") is True
    assert kernel.execute("%agent hi").ok


def test_the_gauge_hears_of_it(kernel: RealKernel, server: FakeAnthropic) -> None:
    """A comm is opened at load; it carries a hello, asks for one, then the context of each step."""
    kernel.execute("%unload_ext jupyter_ctx")
    loaded = kernel.execute("%load_ext jupyter_ctx").messages
    opened = [m for m in loaded if m["msg_type"] == "comm_open"]
    assert [m["content"]["target_name"] for m in opened] == ["jupyter_ctx"]
    hello, idle, asks = (m["content"]["data"] for m in loaded if m["msg_type"] == "comm_msg")
    assert hello["type"] == "hello"
    assert (asks["type"], asks["op"]) == ("request", "hello")
    assert hello["session"] is None
    nothing = {"context": None, "costs": None}
    assert idle == {"version": 1, "type": "context", "phase": "idle", **nothing}

    server.append("ok")
    ran = kernel.execute("%agent hi")
    sent = [m["content"]["data"] for m in ran.messages if m["msg_type"] == "comm_msg"]
    assert sent[0]["session"]
    contexts = [data for data in sent if data["type"] == "context"]
    assert contexts[0]["phase"] == "running"
    assert contexts[-1]["phase"] == "idle"
    assert contexts[-1]["context"]["used_tokens"] > 0


def test_help_of_the_magic(kernel: RealKernel, server: FakeAnthropic) -> None:
    """`%agent?` shows help and asks nobody."""
    ran = kernel.execute("%agent?")

    assert "Ask the agent" in str(ran.reply["payload"])


def test_completion_offers_commands(kernel: RealKernel, server: FakeAnthropic) -> None:
    """Tab behind `%agent /` offers the commands, and an argument its choices."""

    def matches(code: str) -> list[str]:
        message_id = kernel.client.complete(code, len(code))
        while True:
            got = kernel.client.get_shell_msg(timeout=20)
            if got["parent_header"]["msg_id"] == message_id:
                return list(got["content"]["matches"])

    assert sorted(matches("%agent /co")) == ["/compact", "/context", "/cost"]
    assert matches("%agent /permissions p") == ["plan"]
    assert "/context" not in matches("x = 1; /co")


def test_under_nbclient(
    server: FakeAnthropic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headless execution works with environment variables alone; the notebook is static."""
    import nbformat
    from nbclient import NotebookClient

    for name, value in {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": KEY,
        "JUPYTER_CTX_HOME": str(tmp_path / "ctx"),
        "JUPYTER_CTX_PERMISSIONS": "auto",
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2])]),
    }.items():
        monkeypatch.setenv(name, value)
    server.append(reply("Looking.", call("run_code", code="print(2)")), "Two.")
    cells = ["%load_ext jupyter_ctx", "%agent how many?"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()

    outputs = notebook.cells[1].outputs
    nbformat.validate(notebook)
    assert [out["data"]["text/markdown"] for out in outputs if "data" in out][-2] == "Two."
    assert all("text/html" not in out.get("data", {}) for out in outputs)
