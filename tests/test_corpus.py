"""Long conversations about other people's notebooks, on a small window, against the strict server.

Each notebook's cells have run, with outputs large or odd; a scripted model then reads cells, shows
outputs again, reads on in what was stored, looks at variables and answers, for forty steps. Once
with a model that takes thinking back in any prompt or has none, once with one that binds it.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_ctx.config import Settings
from jupyter_ctx.core.blocks import ToolUse
from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from jupyter_ctx.core.events import CompactionFinished, CtxEvent, ResultOffloaded, TurnFinished
from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.testing import FakeTools, MemoryStore
from jupyter_ctx.tools import make_tools
from tests.agent_kernel import agent_kernel, ask, assert_inert, context
from tests.agent_kernel import run as run_cell
from tests.corpus import ReplayKernel, StoredNotebook, find_notebook, load_notebook
from tests.fake_anthropic import (
    DEFAULT_MODELS,
    FakeAnthropic,
    Recorded,
    Reply,
    call,
    last_text,
    reply,
)
from tests.fake_anthropic.checks import (
    assert_append_only,
    assert_healthy,
    assert_markers,
    assert_never_over_window,
    assert_prefix_read,
)
from tests.talk import run, talk

WINDOW_TOKENS = 16_000
TURNS, STEPS = 8, 5
"""Forty steps: in each turn four that call tools, then an answer."""

FREE, BINDING = "claude-haiku-4-5", "claude-sonnet-5-5"
"""Models whose thinking is not, and is, bound to the prompt it was written for."""

MODELS = {
    name: replace(DEFAULT_MODELS[name], window=WINDOW_TOKENS, max_output=8_000, cache_floor=512)
    for name in (FREE, BINDING)
}
NOTEBOOKS = (
    "odd-outputs",  # ours: one small cell of every odd kind
    "long-log",  # ours: thousands of lines, an error at their end
    "pytudes-pal3",  # a text of 128,000 characters
    "cookbook-rag-guide",  # 853 stream outputs of progress bars
    "handson-tools_pandas",  # 80 tables
    "scanpy-basic-scrna-tutorial",  # large pictures
    "vscode-errors",  # tracebacks in colour
)
MORE = ("cookbook-text-to-sql-guide", "pytudes-Advent-2024")
SUMMARY = (
    "## Task\nLook through the notebook, output by output.\n## Done\nThe first outputs are read."
)
HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(2)> [go](javascript:alert(3))"
_HANDLE = re.compile(r'read_result\(tool_use_id=\\"([\w-]+)\\"')


# The conversation ---------------------------------------------------------------------------------


class Analyst:
    """A scripted model that works through a notebook; `steps` counts its answers but summaries."""

    def __init__(self, notebook: StoredNotebook) -> None:
        self.notebook = notebook
        self.steps = 0

    def __call__(self, body: dict[str, Any]) -> str | Reply:
        """Answer a request: a summary where one is asked for, else the next step."""
        if last_text(body).startswith(INSTRUCTION_OPEN):
            return SUMMARY
        turn, step = divmod(self.steps, STEPS)
        self.steps += 1
        said = f"Turn {turn}, step {step}: " + "the outputs so far agree with one another. " * 20
        if step == STEPS - 1:
            return reply(f"{said}{HOSTILE}", thinking="That is all of it.")
        make = (self._orient, self._show, self._read_on, self._look)[step]
        return reply(said, thinking=f"What comes {step}th?", tools=list(make(turn, handles(body))))

    def _orient(self, turn: int, known: Sequence[str]) -> Iterator[Any]:
        """List the cells, or read one with its outputs."""
        if turn % 3 == 0:
            yield call("list_cells")
        yield call("read_cell", cell_id=self._cell(turn), outputs=turn % 2 == 1)

    def _show(self, turn: int, known: Sequence[str]) -> Iterator[Any]:
        """Show up to three outputs again, each by a call of its own."""
        for n in range(1 + turn % 3):
            yield call("run_code", code=f"notebook.show({self._cell(turn + n)!r})")

    def _read_on(self, turn: int, known: Sequence[str]) -> Iterator[Any]:
        """Read on in stored results, the newest and the oldest known, by lines and by pattern."""
        if not known:
            yield call("run_code", code="print('\\n'.join(map(str, range(20_000))))")
            return
        yield call("read_result", tool_use_id=known[-1], start_line=1 + turn, end_line=40 + turn)
        if turn % 2:
            yield call("read_result", tool_use_id=known[0], pattern="[0-9]{3}")

    def _look(self, turn: int, known: Sequence[str]) -> Iterator[Any]:
        """Look at variables; once ask for what is not there, and run what fails."""
        yield call("inspect", names=["notebook", "table"])
        if turn == 2:
            yield call("read_cells", cell_id="c1")
            yield call("read_cell", cell="c1")
            yield call("run_code", code="1 / 0")

    def _cell(self, n: int) -> str:
        largest = self.notebook.largest
        return largest[n % min(len(largest), 6)].id


def prompt(turn: int) -> str:
    """Return what the user says in a turn."""
    return f"Turn {turn}: look at the outputs. KEEP-{turn}-VERBATIM"


def handles(body: dict[str, Any]) -> list[str]:
    """Return the handles of stored results that a request names, each once, oldest first."""
    return list(dict.fromkeys(_HANDLE.findall(json.dumps(body["messages"]))))


# The laws -----------------------------------------------------------------------------------------


def assert_lawful(requests: Sequence[Recorded], notebook: StoredNotebook) -> None:
    """No request was too large, the log only grew between compactions, pairs are whole."""
    assert_never_over_window(requests)
    summaries = sum(map(is_summary, requests))
    assert len(requests) == TURNS * STEPS + summaries
    boundaries = assert_append_only(requests, is_side=is_summary)
    assert summaries - 1 <= len(boundaries) <= summaries  # one may be prepared and not used yet
    assert boundaries
    assert_markers(requests, is_side=is_summary)
    for _, group in itertools.groupby(requests, has_image):
        assert_prefix_read(list(group), is_side=is_summary)
    for record in requests:
        assert_paired(record.messages)
    is_told = any(b"image left out: no room" in record.body for record in requests)
    assert (any(map(has_image, requests)) or is_told) == any(
        "image/png" in output.get("data", {})
        for cell in notebook.largest[:6]
        for output in cell.outputs
    )
    last = requests[-1].body.decode()
    assert last.count("KEEP-0-VERBATIM") == last.count(f"KEEP-{TURNS - 1}-VERBATIM") == 1


def assert_paired(messages: Sequence[dict[str, Any]]) -> None:
    """Every call is answered in the very next message, in order, and nothing else is."""
    for message, after in itertools.pairwise([{"content": []}, *messages, {"content": []}]):
        uses = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        found = [b["tool_use_id"] for b in after["content"] if b["type"] == "tool_result"]
        assert uses == found


def is_summary(record: Recorded) -> bool:
    """Whether the request asks for a summary."""
    return last_text(record.json).startswith(INSTRUCTION_OPEN)


def has_image(record: Recorded) -> bool:
    """Whether an image is in the request: the provider's cache of messages depends on it."""
    return b'"media_type"' in record.body


def has_thinking(record: Recorded) -> bool:
    """Whether thinking of an earlier step is sent back in the request."""
    return any(b["type"] == "thinking" for m in record.messages for b in m["content"])


# Over a fake kernel: fast, and with every event at hand -------------------------------------------


class Texts:
    """The stored texts of a session in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def read_text(self, name: str) -> str | None:
        """Return a text, None if there is none of that name."""
        return self._store.texts.get(name)

    def names(self) -> list[str]:
        """Return all names."""
        return list(self._store.texts)


class RealTools(FakeTools):
    """The tools as they are, over a fake kernel."""

    def __init__(self, kernel: ReplayKernel, store: MemoryStore) -> None:
        super().__init__(kernel)
        self.registry = make_tools(kernel, Texts(store), Settings())
        self.specs = self.registry.specs

    async def run(self, use: ToolUse, cap_chars: int) -> ToolOutput:
        """Run one call."""
        return await self.registry.run(use, cap_chars)


@pytest.mark.parametrize("name", [*NOTEBOOKS, *MORE])
def test_forty_steps_about_a_notebook(name: str) -> None:
    """Forty steps about outputs of any size fit 16,000 tokens, and no request breaks a rule."""
    notebook, store = load_notebook(find_notebook(name)), MemoryStore()
    table = {f"row {n}": list(range(n)) for n in range(50)}
    tools = RealTools(ReplayKernel(notebook, {"table": table}), store)
    with (
        FakeAnthropic(Analyst(notebook), models=MODELS) as server,
        talk(server, tools=tools, store=store, model=BINDING) as session,
    ):
        events: list[CtxEvent] = []
        for turn in range(TURNS):
            events += run(session, prompt(turn))
        ends = [event for event in events if isinstance(event, TurnFinished)]
        assert [(end.outcome, end.error) for end in ends] == [("done", None)] * TURNS
        assert_healthy(server)
        assert_lawful(server.messages, notebook)
        assert any(map(has_thinking, server.messages))
        compacted = [event for event in events if isinstance(event, CompactionFinished)]
        assert all(event.tokens_after < event.tokens_before for event in compacted)
        stored = [event for event in events if isinstance(event, ResultOffloaded)]
        assert all(event.shown_chars < event.chars for event in stored)
        named = {handle for record in server.messages for handle in handles(record.json)}
        assert (
            named
            <= set(store.texts)
            == {event.tool_use_id for event in stored}
            | {key for key in store.texts if key in store.outputs}
        )


# In a real kernel ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_forty_steps_in_a_real_kernel(name: str, tmp_path: Path) -> None:
    """The same by `%agent` in a kernel that ran the cells; what it shows of answers is inert."""
    path = find_notebook(name)
    notebook = load_notebook(path)
    analyst = Analyst(notebook)
    with (
        FakeAnthropic(analyst, models=MODELS) as server,
        agent_kernel(tmp_path, server, FREE) as kernel,
    ):
        run_cell(
            kernel,
            f"from tests.corpus import load_notebook\nnotebook = load_notebook({str(path)!r})",
        )
        run_cell(kernel, "table = {f'row {n}': list(range(n)) for n in range(50)}")
        for cell in notebook.cells:
            assert kernel.execute(cell.replay_source, cell_id=cell.id).ok != cell.failed
        for model in (FREE, BINDING):
            analyst.steps = 0
            run_cell(kernel, f"%config JupyterCtx.model = {model!r}")
            run_cell(kernel, "%agent /new")
            for turn in range(TURNS):
                ran = ask(kernel, prompt(turn))
                assert_inert(ran, notebook.values)
            requests = [record for record in server.messages if record.json["model"] == model]
            assert_healthy(server)
            assert_lawful(requests, notebook)
            assert any(map(has_thinking, requests)) == (model == BINDING)
            assert context(kernel)["compactions"] == len(
                assert_append_only(requests, is_side=is_summary)
            )
