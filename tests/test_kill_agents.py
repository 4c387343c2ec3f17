"""A process that SIGKILL ends while sub-agents work leaves a session that resumes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_ctx.core.entries import AgentEntry
from jupyter_ctx.errors import StoreError
from jupyter_ctx.store.open_session import OpenSession
from jupyter_ctx.store.sessions import SessionStore
from tests.kill_agents_child import session_over


@pytest.mark.timeout(600)  # some 40 processes, each of which runs a turn
def test_every_kill_while_sub_agents_work_is_survived(tmp_path: Path) -> None:
    """Killed at any write, the session resumes with all that was told, and the fake takes it."""
    command = [sys.executable, "-m", "tests.kill_agents_child", str(tmp_path)]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    children = [json.loads(line) for line in said.splitlines()]
    store, orphans = SessionStore(tmp_path), 0
    ended: list[AgentEntry] = []
    for child in children:
        assert child["killed"] or child["status"] == 0
        try:
            stored = store.load(child["session_id"])
        except StoreError:
            assert child["acknowledged"] == []
            continue
        assert isinstance(stored, OpenSession)
        lines = (stored.path / "transcript.jsonl").read_text().splitlines()
        told = child["acknowledged"]
        assert lines[: len(told)] == told
        with session_over(stored, lambda body: "It goes on.") as (session, fake):
            session.ask("Go on.")
            assert session.last_turn is not None
            assert session.last_turn.text == "It goes on."
            assert fake.refused == []
            sent = fake.messages[-1].messages
            orphans += "tool call was interrupted" in str(sent)
        ended = [entry for entry in stored.entries if isinstance(entry, AgentEntry)]
        stored.close()

    assert len(children) >= 25
    assert orphans >= 10
    assert [entry.outcome for entry in ended] == ["done", "done"]
