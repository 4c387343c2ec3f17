"""Hooks that are commands: real children, their ends, their environment, and what they decide."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from jupyter_ctx.core.hook_answers import is_matched
from jupyter_ctx.core.ports import HookName, HookOutcome
from jupyter_ctx.hooks import Hook, HookCommands, read_hooks
from jupyter_ctx.hooks.child import MOST_BYTES
from jupyter_ctx.hooks.commands import NESTED_ENV, Setting, child_environ
from jupyter_ctx.hooks.entries import MOST_HOOKS, MOST_TIMEOUT_S

KEY = "sk-ant-planted-0123456789"


def make(folder: Path, *hooks: Hook, environ: dict[str, str] | None = None) -> HookCommands:
    setting = Setting("s1", "/t/transcript.jsonl", "/project", lambda: str(folder))
    return HookCommands(hooks, setting, {"PATH": os.environ["PATH"], **(environ or {})})


async def run(
    folder: Path, command: str, name: HookName = "PreToolUse", **more: object
) -> HookOutcome:
    """Run one command at an event and return what it decided."""
    hook = Hook(name, command, timeout_s=float(more.pop("timeout_s", 30)))  # type: ignore[arg-type]
    return await make(folder, hook).run(name, {"tool_name": "run_code", **more})


HOLD = "exec 9> held; echo begun >&9; sleep 600 & "
"""Begins a command whose processes all hold the pipe `held` for as long as they live."""


def watch(folder: Path) -> asyncio.Task[str]:
    """Return what ends when every process that holds the pipe has ended."""
    os.mkfifo(folder / "held")
    return asyncio.create_task(asyncio.to_thread((folder / "held").read_text))


async def test_it_gets_the_event_as_json(tmp_path: Path) -> None:
    """Standard input holds the names that people know, and what belongs to the event."""
    await run(tmp_path, "cat > given.json", tool_input={"code": "é\ud800"})

    assert json.loads((tmp_path / "given.json").read_text()) == {
        "session_id": "s1",
        "transcript_path": "/t/transcript.jsonl",
        "cwd": str(tmp_path),
        "hook_event_name": "PreToolUse",
        "tool_name": "run_code",
        "tool_input": {"code": "é\ud800"},
    }


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        ("true", HookOutcome()),
        ("echo fine", HookOutcome()),
        ("echo 'not this' >&2; exit 2", HookOutcome("not this")),
        ("exit 2", HookOutcome("It gave no reason.")),
        ("""echo '{"decision": "block", "reason": "no"}'""", HookOutcome("no")),
        (
            """echo '{"hookSpecificOutput": {"permissionDecision": "deny",
            "permissionDecisionReason": "never", "additionalContext": "psst"}}'""",
            HookOutcome("never", "psst"),
        ),
        (
            """echo '{"continue": false, "stopReason": "late", "systemMessage": "Look."}'""",
            HookOutcome(shown=("Look.",), ended_by="late"),
        ),
        ("""echo '{"hookSpecificOutput": {"permissionDecision": "allow"}}'""", HookOutcome()),
        ("""echo '{"continue": null, "stopReason": null}'""", HookOutcome()),
        ("""echo '{"reason": 5, "decision": null, "hookSpecificOutput": 3}'""", HookOutcome()),
        (
            "echo bad >&2; exit 3",
            HookOutcome(shown=("`echo bad >&2; exit 3` failed with status 3: bad",)),
        ),
        ("kill -9 $$", HookOutcome(shown=("`kill -9 $$` failed by signal 9: it said nothing",))),
    ],
)
async def test_what_an_end_decides(tmp_path: Path, command: str, outcome: HookOutcome) -> None:
    """0 with JSON, 2 with a reason, any other status: as documented; it never allows anything."""
    assert await run(tmp_path, command) == outcome


@pytest.mark.parametrize("wish", ['"permissionDecision": "ask"', '"updatedInput": {"code": ""}'])
async def test_a_wish_that_is_not_kept_forbids(tmp_path: Path, wish: str) -> None:
    """A hook that wants the user asked, or the call changed, has the call refused, with the why."""
    outcome = await run(tmp_path, f"""echo '{{"hookSpecificOutput": {{{wish}}}}}'""")

    assert outcome.blocked_by is not None
    assert outcome.blocked_by.startswith("It wants")


@pytest.mark.parametrize("name", ["SessionStart", "UserPromptSubmit", "PreCompact"])
async def test_plain_words_are_for_the_model(tmp_path: Path, name: HookName) -> None:
    """What these print is context; JSON that is broken is a fault that is shown."""
    assert await run(tmp_path, "echo ' Monday. '", name) == HookOutcome(context="Monday.")
    broken = await run(tmp_path, "echo '{\"a\":'", name)
    assert broken.context == ""
    assert "broken JSON" in broken.shown[0]


async def test_half_characters_and_bytes(tmp_path: Path) -> None:
    """Bytes that are no UTF-8, a character that is cut, NULs: text comes, nothing is raised."""
    outcome = await run(tmp_path, r"printf 'caf\303\251 \303\000\377' ; exit 0", "UserPromptSubmit")

    assert outcome.context == "café \ufffd\x00\ufffd"


async def test_one_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    """After its timeout the whole process group is gone, also what it began in the background."""
    held = watch(tmp_path)
    outcome = await run(tmp_path, f"{HOLD} sleep 600", timeout_s=0.5)

    assert "took longer than 0.5 s and was ended." in outcome.shown[0]
    assert outcome.blocked_by is None
    assert await held == "begun\n"


async def test_what_it_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    """A command that ends while a child of it still holds its output: both are gone, it counts."""
    held = watch(tmp_path)

    assert await run(tmp_path, f"{HOLD} echo no >&2; exit 2") == HookOutcome("no")
    assert await held == "begun\n"


async def test_what_leaves_the_group_holds_nothing_up(tmp_path: Path) -> None:
    """A process that left the group and holds the output: what was written until then counts."""
    outcome = await run(
        tmp_path,
        "setsid sh -c 'echo $$ > pid; exec sleep 600' & until [ -s pid ]; "
        "do :; done; echo no >&2; exit 2",
    )
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    assert outcome == HookOutcome("no")


async def test_one_that_floods_is_ended(tmp_path: Path) -> None:
    """More than a megabyte on either output ends it; memory holds no more than that."""
    for command in ("yes", "yes >&2"):
        outcome = await run(tmp_path, command)
        assert f"wrote over {MOST_BYTES:,} bytes and was ended." in outcome.shown[0]


async def test_one_that_reads_nothing_gets_along(tmp_path: Path) -> None:
    """A payload of megabytes for a command that closes its input, or never reads it."""
    for command in ("exec <&-; echo ok", "echo ok"):
        outcome = await run(tmp_path, command, "UserPromptSubmit", prompt="x" * 5_000_000)
        assert outcome == HookOutcome(context="ok")


async def test_a_stop_ends_the_child(tmp_path: Path) -> None:
    """Cancelling what waits for a hook ends its whole group."""
    held = watch(tmp_path)
    os.mkfifo(tmp_path / "begun")
    task = asyncio.create_task(run(tmp_path, f"{HOLD} echo > begun; wait"))
    await asyncio.to_thread((tmp_path / "begun").read_text)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await held == "begun\n"


async def test_a_status_that_is_lost_decides_nothing(tmp_path: Path) -> None:
    """Where children reap themselves (the user's code may say so) a block is not known: it is said.

    What the command did is done all the same.
    """
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        outcome = await run(tmp_path, "touch ran; exit 2")
    finally:
        signal.signal(signal.SIGCHLD, before)

    assert (tmp_path / "ran").exists()
    assert outcome.blocked_by is None
    assert "its exit status was lost" in outcome.shown[0]


async def test_one_that_cannot_begin_is_told(tmp_path: Path) -> None:
    """A folder that is gone is a sentence for the user, and decides nothing."""
    outcome = await run(tmp_path / "gone", "true")

    assert "could not be run" in outcome.shown[0]
    assert outcome.blocked_by is None


async def test_all_run_side_by_side_and_join(tmp_path: Path) -> None:
    """Two that wait for one another both end; the same command twice runs once; reasons join."""
    os.mkfifo(tmp_path / "pipe")
    hooks = [
        Hook("Stop", "echo x > pipe; echo one >&2; exit 2"),
        Hook("Stop", "cat pipe > /dev/null; echo two >&2; exit 2"),
        Hook("Stop", "echo $$ >> ran"),
        Hook("Stop", "echo $$ >> ran"),
    ]
    outcome = await make(tmp_path, *hooks).run("Stop", {})

    assert outcome.blocked_by == "one\ntwo"
    assert len((tmp_path / "ran").read_text().splitlines()) == 1


async def test_the_environment_has_no_key_of_ours(tmp_path: Path) -> None:
    """Neither by name nor by value; one that the entry names comes; the project's folder does."""
    environ = {"ANTHROPIC_API_KEY": KEY, "COPY": KEY, "OPENAI_API_KEY": "sk-other-987654", "A": "1"}
    environ["HEADERS"] = f"x-api-key: {KEY}, accept: text/plain"
    make_ = make(tmp_path, Hook("Stop", "env > seen"), environ=environ)
    await make_.run("Stop", {})

    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines())
    assert seen["A"] == "1"
    assert seen["JUPYTER_CTX_PROJECT_DIR"] == seen["CLAUDE_PROJECT_DIR"] == "/project"
    assert seen["JUPYTER_CTX_SESSION_ID"] == "s1"
    assert not {"ANTHROPIC_API_KEY", "COPY", "HEADERS", "OPENAI_API_KEY"} & seen.keys()

    setting = Setting("s1", "", "/project", str)
    asked = child_environ(environ, ["ANTHROPIC_API_KEY"], setting)
    assert asked["ANTHROPIC_API_KEY"] == KEY
    assert "OPENAI_API_KEY" not in asked


async def test_within_a_hook_no_hook_runs(tmp_path: Path) -> None:
    """What a hook starts has the mark by which its own hooks stay away: none calls itself."""
    assert child_environ({}, [], Setting("s1", "", "/p", str))[NESTED_ENV]
    nested = make(tmp_path, Hook("Stop", "touch ran"), environ={NESTED_ENV: "1"})
    await nested.run("Stop", {})

    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("matcher", "name", "payload", "matched"),
    [
        ("", "PreToolUse", {"tool_name": "run_code"}, True),
        ("*", "PreToolUse", {"tool_name": "run_code"}, True),
        ("run_code|run_cell", "PreToolUse", {"tool_name": "run_cell"}, True),
        ("run", "PreToolUse", {"tool_name": "run_code"}, False),
        ("mcp__.*", "PostToolUse", {"tool_name": "mcp__a__b"}, True),
        ("resume", "SessionStart", {"source": "startup"}, False),
        ("auto", "PreCompact", {"trigger": "proactive"}, True),
        ("auto", "PreCompact", {"trigger": "manual"}, False),
        ("nothing", "Stop", {}, True),
    ],
)
def test_a_matcher_means_the_whole_name(
    matcher: str, name: HookName, payload: dict[str, str], *, matched: bool
) -> None:
    """It is a regular expression for the whole name, source or trigger; other events match all."""
    assert is_matched(matcher, name, payload) is matched


def test_entries_are_read_as_people_write_them() -> None:
    """Events, groups with a matcher, commands with a timeout and keys, in their order."""
    raw = {
        "PreToolUse": [
            {"matcher": "run_code", "hooks": [{"type": "command", "command": "a", "timeout": 5}]},
            {"hooks": [{"command": "b", "env": ["ANTHROPIC_API_KEY"]}]},
        ],
        "Stop": [{"hooks": [{"type": "command", "command": "c", "timeout": 10**9}]}],
    }

    assert read_hooks(raw, "s.json") == (
        (
            Hook("PreToolUse", "a", "run_code", 5.0, "s.json"),
            Hook("PreToolUse", "b", "", 60.0, "s.json", ("ANTHROPIC_API_KEY",)),
            Hook("Stop", "c", "", MOST_TIMEOUT_S, "s.json"),
        ),
        (),
    )
    assert read_hooks(None, "s.json") == ((), ())


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "must be an object of events"),
        ({"PreTool": []}, "there is no event 'PreTool'"),
        ({"Stop": {}}, "Stop must be a list"),
        ({"Stop": ["x"]}, "Stop 1 must be an object"),
        ({"Stop": [{"hooks": [{"type": "prompt", "prompt": "x"}]}]}, "must be `command`"),
        ({"Stop": [{"hooks": [{"command": " "}]}]}, "must be a text"),
        ({"Stop": [{"hooks": [{"command": "a\0b"}]}]}, "must be a text"),
        ({"Stop": [{"hooks": [{"command": "x" * 10_001}]}]}, "too long"),
        ({"Stop": [{"hooks": [{"command": "a", "timeout": True}]}]}, "above 0"),
        ({"Stop": [{"hooks": [{"command": "a", "timeout": 0}]}]}, "above 0"),
        ({"Stop": [{"hooks": [{"command": "a", "env": "KEY"}]}]}, "list of names"),
        ({"Stop": [{"matcher": "(", "hooks": []}]}, "no regular expression"),
        ({"Stop": [{"matcher": 3, "hooks": []}]}, "no text"),
        ({"Stop": [{"hooks": [{"command": str(n)} for n in range(101)]}]}, f"first {MOST_HOOKS}"),
    ],
)
def test_what_is_wrong_is_told_and_not_loaded(raw: object, said: str) -> None:
    """Each fault names the file and the place; the rest of the file still counts."""
    hooks, faults = read_hooks(raw, "s.json")

    assert len(faults) == 1
    assert faults[0].startswith("s.json: ")
    assert said in faults[0]
    assert len(hooks) <= MOST_HOOKS
