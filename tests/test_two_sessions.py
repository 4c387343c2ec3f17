"""Two processes on one session, turn by turn: each has a valid log of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from jupyter_ctx.core.blocks import text_of
from jupyter_ctx.core.entries import CompactionEntry, MessageEntry
from jupyter_ctx.core.repair import repair
from jupyter_ctx.core.view import build_view
from jupyter_ctx.store.jsonl import load_entries
from jupyter_ctx.store.sessions import SessionStore, transcript_file
from tests.kill_turns_child import session_over
from tests.wire import printing

TURNS = 50

CHILD = """
import sys
from pathlib import Path
from tests.test_two_sessions import serve
serve(Path(sys.argv[1]), sys.argv[2])
"""


def serve(home: Path, name: str) -> None:
    """Open the session `shared` and run a turn for each line of stdin; answer with the session."""
    answers = (answer for n in range(1, TURNS + 1) for answer in steps(name, n))
    stored = SessionStore(home).load("shared")
    with session_over(stored, answers) as (session, fake, _):
        print(stored.session_id, flush=True)
        for line in sys.stdin:
            session.ask(f"{name}: {line.strip()}")
            assert session.last_turn is not None
            assert session.last_turn.outcome == "done", session.last_turn
            assert fake.refused == []
            print(session.last_turn.text, flush=True)
    stored.close()


def steps(name: str, n: int) -> tuple[object, ...]:
    """Return the answers of one turn: code that prints some lines, then an end."""
    return printing(f"for i in range(60): print({name!r}, {n}, i)"), f"{name} {n}"


def start(home: Path, name: str) -> subprocess.Popen[str]:
    """Start a process that serves the session."""
    command = [sys.executable, "-c", CHILD, str(home), name]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def say(process: subprocess.Popen[str], text: str) -> str:
    """Send a line and return the answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_fifty_turns_each_interleaved(tmp_path: Path) -> None:
    """The second goes on with a copy; each log has its own turns, all of them, and no other's."""
    SessionStore(tmp_path).create("shared").close()
    with start(tmp_path, "first") as first, start(tmp_path, "second") as second:
        assert first.stdout is not None
        assert second.stdout is not None
        ids = {first.stdout.readline().strip(): "first", second.stdout.readline().strip(): "second"}
        assert len(ids) == 2
        assert "shared" in ids
        for n in range(1, TURNS + 1):
            assert say(first, f"turn {n}") == f"first {n}"
            assert say(second, f"turn {n}") == f"second {n}"
    assert (first.returncode, second.returncode) == (0, 0)

    for session_id, name in ids.items():
        loaded = load_entries(transcript_file(tmp_path, session_id))
        assert loaded.warnings == ()
        prompts = [e for e in loaded.entries if isinstance(e, MessageEntry) and e.kind == "prompt"]
        told = [text_of(entry.message.content) for entry in prompts]
        assert told == [f"{name}: turn {n}" for n in range(1, TURNS + 1)]
        assert sum(isinstance(entry, CompactionEntry) for entry in loaded.entries) >= 1
        view = build_view(loaded.entries)
        assert repair(view) == view
        again = SessionStore(tmp_path).load(session_id)
        assert again.session_id == session_id
        assert tuple(again.entries) == loaded.entries
        again.close()
