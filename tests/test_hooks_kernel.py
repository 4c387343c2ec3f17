"""Hooks in a real kernel: the home's run, the project's after trust, and the user reads of all."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.agent_kernel import agent_kernel, ask, assert_inert, run
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.fake_anthropic.checks import assert_append_only
from tests.kernels import RealKernel

MODEL = "claude-sonnet-5-5"
KEY = "sk-ant-test-0123456789"


def write_hooks(path: Path, **events: str | tuple[str, str]) -> None:
    """Write a settings file with one command for each event, or a matcher and a command."""
    groups = {
        event: [
            {
                "matcher": "" if isinstance(one, str) else one[0],
                "hooks": [{"type": "command", "command": one if isinstance(one, str) else one[1]}],
            }
        ]
        for event, one in events.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": groups}))


def said(kernel: RealKernel, command: str) -> str:
    """Run a command and return what it shows."""
    ran = run(kernel, f"%agent {command}")
    assert_inert(ran, frozenset())
    return "\n".join(ran.bundles("text/plain"))


def test_hooks_of_the_home_run_at_every_event(tmp_path: Path) -> None:
    """Each runs its command, with the event on stdin and no key; a forbidden call does not run.

    The prompt cache holds: every request begins with the one before.
    """
    heard = tmp_path / "heard.jsonl"
    record = f"cat >> {heard}; echo >> {heard}"
    write_hooks(
        tmp_path / "ctx" / "settings.json",
        SessionStart=f"{record}; env > {tmp_path / 'env'}; echo Branch main.",
        UserPromptSubmit=f"{record}; echo It is Monday.",
        PreToolUse=(
            "run_code",
            f"{record}; grep -q evil {heard} && {{ echo no evil >&2; exit 2; }}; true",
        ),
        PostToolUse=f'{record}; echo \'{{"additionalContext": "Mind the units."}}\'',
        PreCompact=f"{record}; echo Keep the SQL.",
        PostCompact=record,
        Stop=record,
        SessionEnd=record,
    )
    answers = iter(
        [
            reply("", tools=[call("run_code", code="ok = 1"), call("run_code", code="evil = 1")]),
            "An answer that takes its place in the window. " * 400,
            "Done.",
            "<summary>\nGo on.\n</summary>",
        ]
    )
    with (
        FakeAnthropic(lambda body: next(answers)) as server,
        agent_kernel(tmp_path, server, MODEL, JUPYTER_CTX_TAIL_TOKENS="0") as kernel,
    ):
        ask(kernel, "Go on.")
        ask(kernel, "More.")
        names = run(kernel, "print('ok' in globals(), 'evil' in globals())").text
        said(kernel, "/compact")
        listed = said(kernel, "/hooks")
        said(kernel, "/new")
        events = [json.loads(line) for line in heard.read_text().splitlines() if line]
        assert_append_only(server.messages)
        requests = [request.messages for request in server.messages]

    assert names == "True False\n"
    assert [event["hook_event_name"] for event in events] == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PreToolUse",
        "Stop",
        "UserPromptSubmit",
        "Stop",
        "PreCompact",
        "SessionStart",
        "PostCompact",
        "SessionEnd",
    ]
    assert Path(events[0]["transcript_path"]).name == "transcript.jsonl"
    assert events[0]["cwd"] == str(tmp_path / "work")
    environ = (tmp_path / "env").read_text()
    assert KEY not in environ
    assert f"CLAUDE_PROJECT_DIR={tmp_path / 'work'}" in environ
    first = "\n".join(block["text"] for block in requests[0][0]["content"])
    assert "Branch main." in first
    assert "It is Monday." in first
    results = requests[1][-1]["content"]
    assert "no evil" in json.dumps(results[1])
    assert "Mind the units." in results[2]["text"]
    assert "Keep the SQL." in json.dumps(requests[3][-1])
    assert listed.startswith("8 hooks in force.")
    assert str(tmp_path / "ctx" / "settings.json") in listed


def test_hooks_of_a_project_wait_for_trust(tmp_path: Path) -> None:
    """Before /trust none runs and /hooks shows them as waiting; after it they run from then on."""
    marker = tmp_path / "ran"
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    write_hooks(work / ".jupyter_ctx" / "settings.json", UserPromptSubmit=f"echo x >> {marker}")
    with (
        FakeAnthropic(lambda body: "Done.") as server,
        agent_kernel(tmp_path, server, MODEL) as kernel,
    ):
        ask(kernel, "Go on.")
        assert not marker.exists()
        before = said(kernel, "/hooks")
        said(kernel, "/trust")
        said(kernel, "/trust allow")
        ask(kernel, "And now?")
        after = said(kernel, "/hooks")
        assert marker.read_text() == "x\n"
        write_hooks(work / ".jupyter_ctx" / "settings.json", UserPromptSubmit=f"rm {marker}")
        ask(kernel, "And now?")

    assert marker.exists()
    assert before.startswith("0 hooks in force.")
    assert "waits for /trust" in before
    assert after.startswith("1 hook in force.")


def test_a_python_hook_in_a_cell(tmp_path: Path) -> None:
    """`current_session().hooks` takes callables in a cell; /hooks and /tools list what there is."""
    answers = iter(["Hello.", reply("", tools=[call("run_code", code="evil = 1")]), "Well."])
    with (
        FakeAnthropic(lambda body: next(answers)) as server,
        agent_kernel(tmp_path, server, MODEL) as kernel,
    ):
        ask(kernel, "Hello?")
        run(
            kernel,
            "import jupyter_ctx\n"
            "@jupyter_ctx.current_session().hooks.on('PreToolUse', matcher='run_code')\n"
            "def no_evil(event):\n"
            "    if 'evil' in event['tool_input']['code']:\n"
            "        return {'decision': 'block', 'reason': 'no evil'}",
        )
        ask(kernel, "Go on.")
        names = run(kernel, "print('evil' in globals())").text
        hooks, tools = said(kernel, "/hooks"), said(kernel, "/tools")
        result = server.messages[-1].messages[-1]["content"][0]

    assert names == "False\n"
    assert result["is_error"]
    assert "no evil" in json.dumps(result)
    assert "no_evil" in hooks
    assert "Python" in hooks
    assert "run_code" in tools
    assert "built in" in tools


def test_stop_ends_a_hook_that_hangs(tmp_path: Path) -> None:
    """An interrupt while a hook hangs ends the turn and the hook's processes; the kernel goes on.

    The call behind the hook did not run, and the next turn is a valid one.
    """
    held = tmp_path / "held"
    os.mkfifo(held)
    hang = f"exec 9> {held}; echo begun >&9; sleep 600 & sleep 600"
    write_hooks(tmp_path / "ctx" / "settings.json", PreToolUse=("run_code", hang))
    answers = iter([reply("", tools=[call("run_code", code="ran = 1")]), "Well."])
    with (
        FakeAnthropic(lambda body: next(answers)) as server,
        agent_kernel(tmp_path, server, MODEL) as kernel,
    ):
        request = kernel.submit("%agent Go on.")
        with held.open() as pipe:
            assert pipe.readline() == "begun\n"
            kernel.interrupt()
            ran = kernel.collect(request)
            assert pipe.read() == ""  # every process that held it has ended
        names = run(kernel, "print('ran' in globals())").text
        ask(kernel, "And now?")
        assert_append_only(server.messages)

    assert not ran.ok
    assert "Stopped by you" in str(ran.reply["evalue"])
    assert names == "False\n"
