"""A kernel killed at any write of a session loses nothing that was acknowledged."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_ctx.core.repair import repair
from jupyter_ctx.core.view import build_view
from jupyter_ctx.errors import StoreError
from jupyter_ctx.store.sessions import SessionStore

from .examples import RECORDED


def killed_sessions(home: Path, how: str) -> list[dict[str, Any]]:
    """Return what each killed child said; the last one was not killed."""
    command = [sys.executable, "-m", "tests.store.kill_child", str(home), how]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("how", ["before", "middle", "after"])
def test_nothing_acknowledged_is_lost(tmp_path: Path, how: str) -> None:
    """Killed at each write in turn, the session loads with all it had said was stored."""
    store = SessionStore(tmp_path)
    children = killed_sessions(tmp_path, how)

    assert len(children) > 3 * len(RECORDED)
    assert [child["killed"] for child in children] == [True] * (len(children) - 1) + [False]
    for child in children:
        acknowledged = [said["entry"] for said in child["said"] if "entry" in said]
        try:
            session = store.load(child["session_id"])
        except StoreError:
            assert acknowledged == []
            continue
        assert session.session_id == child["session_id"]
        assert tuple(session.entries[1:][: len(acknowledged)]) == RECORDED[: len(acknowledged)]
        for said in child["said"]:
            if "result" in said:
                assert session.read_text(said["result"]) == said["text"]
        view = build_view(session.entries)
        assert repair(view) == view
        assert session.path is not None
        owned = [p for p in tmp_path.rglob(".*") if session.session_id in p.parts]
        litter = [p.name for p in owned if p.name != ".lock"]
        assert litter == []
        entries = tuple(session.entries)
        session.close()
        again = store.load(child["session_id"])
        assert tuple(again.entries) == entries
        again.close()
