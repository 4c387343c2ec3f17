"""A process that SIGKILL ends at any write of its turns loses nothing that was acknowledged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ctx.core.blocks import tool_uses
from jupyter_ctx.core.entries import CompactionEntry, Entry, FateEntry, MessageEntry
from jupyter_ctx.errors import StoreError
from jupyter_ctx.store.codec import dump_line, load_line
from jupyter_ctx.store.open_session import OpenSession
from jupyter_ctx.store.sessions import SessionStore
from tests.kill_turns_child import session_over

POINTS = 200
"""So many kill points at least."""


def killed(home: Path) -> Iterator[dict[str, Any]]:
    """Yield what each child said, while the next ones run; the last one was not killed."""
    command = [sys.executable, "-m", "tests.kill_turns_child", str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as children:
        assert children.stdout is not None
        for line in children.stdout:
            yield json.loads(line)
    assert children.returncode == 0


def assert_kept(session: OpenSession, acknowledged: list[str]) -> None:
    """What was acknowledged is in the file, byte for byte, and its results can be read."""
    lines = (session.path / "transcript.jsonl").read_bytes().splitlines(keepends=True)
    assert lines[: len(acknowledged)] == [line.encode() + b"\n" for line in acknowledged]
    assert session.missing_results() == ()
    entries = [load_line(line) for line in acknowledged]
    codes = {
        use.id: str(use.input["code"])
        for entry in entries
        if isinstance(entry, MessageEntry)
        for use in tool_uses(entry.message)
    }
    for entry in entries:
        if isinstance(entry, FateEntry) and entry.path is not None:
            printed = codes[entry.tool_use_id].removeprefix("print('").removesuffix("')")
            assert session.read_text(entry.tool_use_id).strip() == printed


def assert_goes_on(session: OpenSession) -> None:
    """The resumed session asks once more, and the strict server has nothing to object."""
    with session_over(session, iter(["It goes on."])) as (resumed, fake, sent):
        resumed.ask("Go on.")
        assert resumed.last_turn is not None
        assert (resumed.last_turn.outcome, resumed.last_turn.text) == ("done", "It goes on.")
        assert sent
        assert fake.refused == []


@pytest.mark.timeout(1_200)  # 226 processes, each of which runs a session
def test_every_kill_is_survived(tmp_path: Path) -> None:
    """Killed at any write, a session resumes, goes on, and has all that events had told."""
    store, points, never_said = SessionStore(tmp_path), 0, 0
    last: list[Entry] = []
    for child in killed(tmp_path):
        assert child["killed"] or child["status"] == 0
        points += child["killed"]
        try:
            session = store.load(child["session_id"])
        except StoreError:
            assert child["acknowledged"] == []
            never_said += 1
            continue
        assert isinstance(session, OpenSession)
        assert session.session_id == child["session_id"]  # its lock died with the process
        assert_kept(session, child["acknowledged"])
        if child["killed"]:
            assert_goes_on(session)
        last = list(session.entries)
        session.close()
        again = store.load(child["session_id"])
        assert [dump_line(e) for e in again.entries] == [dump_line(e) for e in last]
        again.close()

    assert points >= POINTS
    assert never_said <= 2
    assert sum(isinstance(entry, CompactionEntry) for entry in last) >= 3
    assert sum(isinstance(e, FateEntry) and e.fate == "offload" for e in last) >= 5
