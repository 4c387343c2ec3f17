"""Resuming a session of 10,000 messages and 50 MB, next to parsing the same file's JSON.

No provider takes a request of 50 MB, so a compaction replaced the older half of it.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path

from jupyter_ctx.core.blocks import Text, user
from jupyter_ctx.core.entries import CompactionEntry, Entry, MessageEntry
from jupyter_ctx.core.ports import Delta, ModelFacts, Request
from jupyter_ctx.models.anthropic_wire import MessageWires, build_params
from jupyter_ctx.store.sessions import SessionStore
from jupyter_ctx.testing import ScriptedModel, make_session, reply

from .logs import build_log
from .table import Row, cpu_seconds, seconds, times

MESSAGES = 10_000
TEXT_CHARS = 5_000
ID = "bench"
FACTS = ModelFacts("scripted", 100_000_000, "api", 64_000, factor_prior=1.0)


class SendingModel(ScriptedModel):
    """Keeps the bytes of the request, and when it had them."""

    sent = b""
    at = at_cpu = 0.0

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Build the request's body, then answer."""
        params = build_params(request, MessageWires())
        self.at, self.at_cpu = time.perf_counter(), time.process_time()
        self.sent = json.dumps(params, ensure_ascii=False).encode()
        async for delta in super().stream(request):
            yield delta


def compacted(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the entries, with a compaction of all messages so far where half of them came."""
    messages = 0
    for entry in entries:
        yield entry
        messages += isinstance(entry, MessageEntry)
        if isinstance(entry, MessageEntry) and messages == MESSAGES // 2:
            turn = entry.turn
            yield CompactionEntry(
                at=entry.at,
                n=1,
                turn=turn,
                trigger="proactive",
                message=user(Text("A summary.")),
                summary="A summary.",
                drop_messages=messages,
                drop_thinking=False,
                first_turn=1,
                last_turn=turn,
                tokens_before=1_000_000,
                tokens_after=100,
                seconds=1.0,
                cost_usd=None,
                usage=None,
            )


def first_request(entries: Iterable[Entry]) -> SendingModel:
    """Run one turn of a session of these entries; return the model that was asked."""
    model = SendingModel(reply("Ok."), facts=FACTS)
    session = make_session(model, entries=entries)
    assert session.ask("Go on.").outcome == "done"
    return model


def measure() -> list[Row]:
    """Write a session, then resume it; the request of the session as written is its twin's."""
    with tempfile.TemporaryDirectory() as folder:
        store = SessionStore(Path(folder))
        written = store.create(ID)
        for entry in compacted(list(build_log(MESSAGES, TEXT_CHARS, "scripted", ID))[1:]):
            written.append(entry)
        written.close()
        path = Path(folder) / "sessions" / ID / "transcript.jsonl"
        size = path.stat().st_size

        def parse() -> None:
            for line in path.read_bytes().splitlines():
                json.loads(line)

        plain, plain_cpu = seconds(parse), cpu_seconds(parse)
        begin, begin_cpu = time.perf_counter(), time.process_time()
        loaded = store.load(ID)
        at_hand = time.perf_counter() - begin
        model = first_request(loaded.entries)
        until_sent, sent_cpu = model.at - begin, model.at_cpu - begin_cpu
        loaded.close()
        twin = first_request(written.entries)
    what = f"{MESSAGES:,} messages, {size / 1e6:.0f} MB"
    equal = "equal" if model.sent == twin.sent else "DIFFER"
    return [
        Row(
            f"load a session of {what}, next to parsing its JSON",
            f"{at_hand:.2f} s",
            f"{plain:.2f} s",
            times(at_hand / plain),
            "< 1 s",
        ),
        Row(
            "the same until its first request is built",
            f"{until_sent:.2f} s",
            f"{plain:.2f} s",
            times(until_sent / plain),
            "< 1 s",
        ),
        Row(
            "the same in processor time",
            f"{sent_cpu:.2f} s",
            f"{plain_cpu:.2f} s",
            times(sent_cpu / plain_cpu),
            "< 1 s",
        ),
        Row("that request, next to the unkilled twin's", f"{len(model.sent):,} bytes", equal, ""),
    ]
