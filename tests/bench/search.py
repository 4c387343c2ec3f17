"""Searching titles and prompts of 1,000 sessions, next to reading their metadata files."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from jupyter_ctx.core.blocks import Text, assistant, user
from jupyter_ctx.core.entries import MessageEntry
from jupyter_ctx.store.sessions import SessionStore

from .table import Row, cpu_seconds, seconds, times

SESSIONS = 1_000
TURNS = 20
PROMPT_CHARS = 400
REPLY_CHARS = 2_000
WORDS = "needle hay"


def write_sessions(home: Path) -> None:
    """Store sessions of some turns each; every hundredth has the words, in its last prompt."""
    store = SessionStore(home)
    for n in range(SESSIONS):
        session = store.create(f"session-{n:04}", notebook=f"/data/{n % 40}.ipynb")
        for turn in range(1, TURNS + 1):
            text = f"Prompt {turn} of {n}: " + "all about straw and more of it. " * 20
            if turn == TURNS and n % 100 == 0:
                text = f"{WORDS} {text}"
            prompt = user(Text(text[:PROMPT_CHARS]))
            session.append(MessageEntry(float(n), turn, 0, "prompt", prompt))
            answer = assistant(Text("answer " * (REPLY_CHARS // 7)))
            session.append(MessageEntry(float(n), turn, 1, "reply", answer))
        session.update_metadata(title=f"Prompt 1 of {n}", turns=TURNS, updated=float(n))
        session.close()


def measure() -> list[Row]:
    """Search once to read the transcripts, then as a user does."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_sessions(home)
        size = sum(path.stat().st_size for path in home.rglob("*.jsonl"))
        found: list[int] = []

        def search() -> None:
            found.append(len(SessionStore(home).search(WORDS)))

        def read_metadata() -> None:
            for path in home.glob("sessions/*/metadata.json"):
                json.loads(path.read_bytes())

        def search_all() -> None:
            found.append(len(SessionStore(home).search("answer", full=True)))

        cold = seconds(search)
        plain, plain_cpu = seconds(read_metadata), cpu_seconds(read_metadata)
        warm, warm_cpu = seconds(search), cpu_seconds(search)
        full = seconds(search_all)
        assert found == [SESSIONS // 100] * 3 + [SESSIONS], found
    what = f"{SESSIONS:,} sessions, {size / 1e6:.0f} MB"
    beside = f"{plain:.2f} s"
    return [
        Row(
            f"search titles and prompts of {what}, next to reading their metadata",
            f"{warm:.2f} s",
            beside,
            times(warm / plain),
            "< 1 s",
        ),
        Row(
            "the same in processor time",
            f"{warm_cpu:.2f} s",
            f"{plain_cpu:.2f} s",
            times(warm_cpu / plain_cpu),
        ),
        Row(
            "the first search, which reads all of it", f"{cold:.2f} s", beside, times(cold / plain)
        ),
        Row("a search of every message", f"{full:.2f} s", beside, times(full / plain)),
    ]
