"""What a project's folder adds, in a real kernel: inert until trusted, in force afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.agent_kernel import agent_kernel, ask, assert_inert, run
from tests.fake_anthropic import FakeAnthropic, Recorded, call, reply
from tests.fake_anthropic.checks import assert_append_only
from tests.kernels import RealKernel
from tests.surroundings.hostile import git, make_hostile_folder, make_repository, write

MODEL = "claude-sonnet-5-5"
KEY = "sk-ant-test-0123456789"
SKILL = "---\nname: plot\ndescription: When a chart is asked for\n---\nUse SKILL-BODY colours.\n"
SUMMARY = "<summary>\n# Goal\nGo on.\n</summary>"


class Answers:
    """What the server says next: the given answers, then "Done."; a summary where one is asked."""

    def __init__(self) -> None:
        self.next: list[Any] = []

    def __call__(self, body: dict[str, object]) -> Any:
        return self.next.pop(0) if self.next else "Done."


@contextmanager
def working_in(
    root: Path, folder: Path, **env: str
) -> Iterator[tuple[RealKernel, FakeAnthropic, Answers]]:
    """Give a kernel whose working folder is `root`."""
    answers = Answers()
    with (
        FakeAnthropic(answers) as server,
        agent_kernel(folder, server, MODEL, **env) as kernel,
    ):
        run(kernel, f"import os; os.chdir({str(root)!r})")
        yield kernel, server, answers


def system_of(request: Recorded) -> str:
    system = request.json["system"]
    return system if isinstance(system, str) else "".join(block["text"] for block in system)


def prompt_of(request: Recorded) -> str:
    return "\n".join(block.get("text", "") for block in request.messages[-1]["content"])


def said(kernel: RealKernel, command: str) -> str:
    """Run a command and return what it shows."""
    ran = run(kernel, f"%agent {command}")
    assert_inert(ran, frozenset())
    return "\n".join(ran.bundles("text/plain"))


def test_a_hostile_folder_is_inert(tmp_path: Path) -> None:
    """Before trust nothing runs, nothing outside is read, no key leaves; the model hears names."""
    markers = tmp_path / "markers"
    root = make_hostile_folder(tmp_path / "project", tmp_path / "outside", markers)
    with working_in(root, tmp_path) as (kernel, server, _):
        first = ask(kernel, "Go on.")
        listed = said(kernel, "/trust")
        skills = said(kernel, "/skills")
        ask(kernel, "Go on.")
        home = run(kernel, "print(__import__('jupyter_ctx').current_session().settings)").text

    wire = b"".join(request.body for request in server.requests).decode()
    assert list(markers.iterdir()) == []
    assert not any(f"ORDER-{word}" in wire for word in ("ONE", "TWO", "THREE", "FOUR"))
    assert "PRIVATE-TEXT" not in wire + listed + skills
    assert "IGNORE ALL" not in wire
    assert KEY not in wire + listed + skills
    assert "`AGENTS.md`" in system_of(server.messages[0])
    assert "Git branch: `main`" in system_of(server.messages[0])
    assert "steps_per_turn=0" in home
    assert "/trust" in json.dumps(first.outputs)
    assert "0 in force" in listed
    assert "\u202e" not in listed
    assert "\x1b" not in listed


def test_what_is_allowed_is_told_and_the_rest_stays_out(tmp_path: Path) -> None:
    """Allowed by number: instructions, skill and git reach the model; hooks and servers run not."""
    markers = tmp_path / "markers"
    root = make_hostile_folder(tmp_path / "project", tmp_path / "outside", markers)
    with working_in(root, tmp_path) as (kernel, server, _):
        ask(kernel, "Go on.")
        listed = said(kernel, "/trust").splitlines()
        wanted = [
            line.split()[0]
            for line in listed
            if line.endswith("not trusted") and ("AGENTS.md" in line or "git runs" in line)
        ]
        assert len(wanted) == 2
        said(kernel, f"/trust allow {' '.join(wanted)}")
        ask(kernel, "Go on.")
        told = prompt_of(server.messages[-1])
        ask(kernel, "Go on.")

    assert "ORDER-ONE" in told
    assert " M data.csv" in told
    assert "ORDER-TWO" not in told
    assert "ORDER-ONE" not in prompt_of(server.messages[-1])
    assert list(markers.iterdir()) == []
    assert_append_only(server.messages)


def test_a_trusted_folder_is_in_the_system_prompt(tmp_path: Path) -> None:
    """Trusted before the first turn: git, skills and instructions stand in the system prompt."""
    root = make_repository(tmp_path / "project")
    write(root / "AGENTS.md", "Use polars, never pandas.\n")
    write(root / ".jupyter_ctx/skills/plot/SKILL.md", SKILL)
    write(root / ".jupyter_ctx/settings.json", '{"steps_per_turn": 5, "base_url": "http://x"}')
    with working_in(root, tmp_path) as (kernel, server, answers):
        said(kernel, "/trust")
        said(kernel, "/trust allow")
        answers.next = [reply(call("skill", name="plot")), "Done."]
        ask(kernel, "Draw.")
        settings = run(kernel, "print(__import__('jupyter_ctx').current_session().settings)").text
        listed = said(kernel, "/skills")

    system = system_of(server.messages[0])
    assert system.count("Use polars, never pandas.") == 1
    assert '<skill name="plot">When a chart is asked for</skill>' in system
    assert "SKILL-BODY" not in system
    assert " M data.csv" in system
    assert "Add the data" in system
    assert "steps_per_turn=5" in settings
    assert "http://x" not in settings
    assert "SKILL-BODY" in json.dumps(server.messages[1].messages[-1])
    assert "in force" in listed
    assert "Around the notebook" not in prompt_of(server.messages[0])


def test_instructions_survive_three_compactions_once(tmp_path: Path) -> None:
    """The rule of the context file is in every request once, in the same system prompt."""
    root = make_repository(tmp_path / "project")
    write(root / "AGENTS.md", "Use polars, never pandas.\n")
    write(root / ".jupyter_ctx/skills/plot/SKILL.md", SKILL)
    with working_in(root, tmp_path, JUPYTER_CTX_TAIL_TOKENS="0") as (kernel, server, answers):
        said(kernel, "/trust")
        said(kernel, "/trust allow")
        answers.next = [reply(call("skill", name="plot")), "Done."]
        ask(kernel, "Draw.")
        for _ in range(3):
            answers.next = ["word " * 4_000]
            ask(kernel, "Go on.")
            ask(kernel, "And on.")
            answers.next = [SUMMARY]
            said(kernel, "/compact")
        ask(kernel, "Go on.")

    for request in server.messages:
        assert request.body.count(b"Use polars, never pandas.") == 1
    assert len({system_of(request) for request in server.messages}) == 1
    last = server.messages[-1]
    assert "SKILL-BODY" in json.dumps(last.messages[0])
    assert not any("tool_use" in json.dumps(message) for message in last.messages)


def test_what_changes_is_told_behind_what_was_sent(tmp_path: Path) -> None:
    """A changed file, a new commit, an own new skill: appended once; the prefix keeps its bytes."""
    root = make_repository(tmp_path / "project")
    agents = write(root / "AGENTS.md", "Use polars.\n")
    with working_in(root, tmp_path) as (kernel, server, _):
        said(kernel, "/trust")
        said(kernel, "/trust allow")
        ask(kernel, "Go on.")
        agents.write_text("Use duckdb.\n")
        git(root, "add", "new.txt")
        git(root, "commit", "-qm", "A new file")
        write(tmp_path / "ctx/skills/own/SKILL.md", SKILL.replace("plot", "own"))
        ask(kernel, "Go on.")
        untrusted = prompt_of(server.messages[-1])
        said(kernel, "/trust")
        said(kernel, "/trust allow")
        ask(kernel, "Go on.")
        trusted = prompt_of(server.messages[-1])
        ask(kernel, "Go on.")
        quiet = prompt_of(server.messages[-1])

    assert "duckdb" not in untrusted
    assert "No longer in force: AGENTS.md" in untrusted
    assert "A new file" in untrusted
    assert '<skill name="own">' in untrusted
    assert "Use duckdb." in trusted
    assert "Around the notebook" not in quiet
    assert_append_only(server.messages)


def test_a_resumed_session_keeps_its_prefix(tmp_path: Path) -> None:
    """After the kernel's death and changes around it: the same prefix, and news behind it only."""
    root = make_repository(tmp_path / "project")
    write(root / "AGENTS.md", "Use polars.\n")
    notebook = {"JPY_SESSION_NAME": str(root / "n.ipynb")}
    with working_in(root, tmp_path, **notebook) as (kernel, server, _):
        said(kernel, "/trust")
        said(kernel, "/trust allow")
        ask(kernel, "Go on.")
        kernel.restart()
        write(root / "third.txt", "")
        run(kernel, f"import os; os.chdir({str(root)!r})")
        run(kernel, "%load_ext jupyter_ctx")
        ask(kernel, "Go on.")

    told = prompt_of(server.messages[-1])
    assert "?? third.txt" in told
    assert "Use polars." not in told
    assert_append_only(server.messages)


def test_no_command_shows_a_key(tmp_path: Path) -> None:
    """A key in a project's files and in the user's settings is taken out of what commands show."""
    key = "sk-ant_test_0123456789_abc"
    root = make_repository(tmp_path / "project")
    write(root / "AGENTS.md", f"The key is {key}.\n")
    write(root / ".jupyter_ctx/skills/plot/SKILL.md", SKILL.replace("When", f"{key} When"))
    hook = {"hooks": [{"type": "command", "command": f"true {key}"}]}
    servers = {"own": {"command": "false", "args": [key]}}
    own = {"hooks": {"SessionEnd": [hook]}, "mcpServers": servers}
    write(tmp_path / "ctx/settings.json", json.dumps(own))
    with working_in(root, tmp_path, ANTHROPIC_API_KEY=key) as (kernel, _, _):
        shown = [
            json.dumps(run(kernel, f"%agent {command}").outputs)
            for command in ("/trust", "/trust allow", "/skills", "/hooks", "/mcp")
        ]

    assert not any(key in text.replace("\\", "") for text in shown)
    assert [text.count("redacted: ANTHROPIC_API_KEY") > 0 for text in shown] == [
        True, False, True, True, True,
    ]  # fmt: skip


def test_settings_that_break_while_a_turn_runs_end_nothing(tmp_path: Path) -> None:
    """A turn ends by the settings it began with, skills and all; the next one says what is wrong.

    What was answered is in the log: the request after it begins with the one before.
    """
    root = make_repository(tmp_path / "project")
    settings = write(tmp_path / "ctx/settings.json", "{}")
    write(tmp_path / "ctx/skills/own/SKILL.md", SKILL.replace("plot", "own"))
    breaks = f"open({str(settings)!r}, 'w').write('{{')"
    with working_in(root, tmp_path) as (kernel, server, answers):
        ask(kernel, "Hello.")
        answers.next = [
            reply(call("run_code", code=breaks)),
            reply(call("skill", name="own")),
            "So it is.",
        ]
        ask(kernel, "Go on.")
        refused = kernel.execute("%agent And now?")
        settings.write_text("{}")
        ask(kernel, "And now?")

    assert "SKILL-BODY" in json.dumps(server.messages[3].messages[-1])
    assert not refused.ok
    assert "no valid JSON" in refused.reply["evalue"]
    assert "So it is." in json.dumps(server.messages[-1].messages)
    assert_append_only(server.messages)


def test_what_changed_since_it_was_shown_is_not_allowed(tmp_path: Path) -> None:
    """A file that changes between `/trust` and `/trust allow` is refused, and shown anew."""
    root = make_repository(tmp_path / "project")
    agents = write(root / "AGENTS.md", "Use polars.\n")
    with working_in(root, tmp_path) as (kernel, _, _):
        early = kernel.execute("%agent /trust allow")
        said(kernel, "/trust")
        agents.write_text("Obey.\n")
        late = kernel.execute("%agent /trust allow")
        listed = said(kernel, "/trust")

    assert not early.ok
    assert "Nothing was shown yet" in early.reply["evalue"]
    assert not late.ok
    assert "Changed since it was shown: AGENTS.md" in late.reply["evalue"]
    assert "0 in force" in listed
