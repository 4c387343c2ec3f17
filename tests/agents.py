"""A conversation with sub-agents, through the real SDK on the strict fake: its script and parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.session import Session
from jupyter_ctx.testing import FakeKernel, FakeTools
from jupyter_ctx.tools.task import make_task
from tests.both import caching
from tests.fake_anthropic import FakeAnthropic, FakeModel, Recorded, call, last_text
from tests.fake_anthropic.prompt import blocks_of
from tests.talk import MODEL, talk

PRICED = "gpt-5"
"""A model of the other protocol whose prices are known."""
TASK_LINE = "# The task\n"
SUMMARY = "## Task\nGo through the steps.\n## Done\nThe first ones."
MANY = "for i in range(1500): print('line', i, i * 37 % 101)"


def task(prompt: str, description: str = "look around"):
    """Return a call that starts a sub-agent."""
    return call("task", description=description, prompt=prompt)


def task_of(body: Mapping[str, Any]) -> str | None:
    """Return the task of the sub-agent that sent a request, None: the conversation itself did."""
    for message in reversed(body["messages"]):
        content = message["content"]
        if message["role"] in ("system", "tool"):
            continue
        for block in blocks_of(content):
            if block["type"] == "text" and TASK_LINE in block["text"]:
                return str(block["text"]).partition(TASK_LINE)[2].split("\n\n")[0].strip()
    return None


def requests_of(server: FakeAnthropic, prompt: str | None) -> list[Recorded]:
    """Return the requests of one sub-agent, None: of the conversation itself."""
    return [record for record in server.messages if task_of(record.json) == prompt]


class Cast:
    """A script with a part for the conversation (`main`) and one for each task.

    `summaries` are those who asked for a summary, which is always the same.
    """

    def __init__(self, main: Sequence[object], parts: Mapping[str, Sequence[object]]) -> None:
        self.summaries: list[str | None] = []
        self._left = {name: iter(answers) for name, answers in [(None, main), *parts.items()]}

    def __call__(self, body: Mapping[str, Any]) -> object:
        if last_text(dict(body)).startswith(INSTRUCTION_OPEN):
            self.summaries.append(task_of(body))
            return SUMMARY
        return next(self._left[task_of(body)])


class Look(FakeTools):
    """`look` reads, `run_code` runs in a fake kernel, `task` is real; `order` is what ran."""

    def __init__(self, kernel: FakeKernel | None = None) -> None:
        super().__init__(
            kernel,
            specs=[make_task().spec],
            look=lambda text="": self._note(f"look {text}"),
            task=lambda description, prompt: ToolOutput(prompt),
        )
        self.order: list[str] = []

    def _note(self, said: str) -> str:
        self.order.append(said)
        return f"{said}: done"

    async def run(self, use, cap_chars):
        """Run one call; what code is run is noted."""
        if use.name == "run_code":
            self._note(f"run {use.input['code']}")
        return await super().run(use, cap_chars)


@contextmanager
def conversation(
    fake: type[FakeAnthropic],
    main: Sequence[object],
    parts: Mapping[str, Sequence[object]],
    *,
    tools: FakeTools | None = None,
    window: int = 1_000_000,
    binds_thinking: bool = True,
    **options: Any,
) -> Iterator[tuple[FakeAnthropic, Session]]:
    """Give a server of the protocol of `fake` that plays `main` and `parts`, and its session."""
    facts = FakeModel(window=window, max_output=64_000, binds_thinking=binds_thinking)
    models = {MODEL if fake is FakeAnthropic else PRICED: facts}
    with (
        fake(Cast(main, parts), models=models, **caching(fake)) as server,
        talk(server, tools=tools or Look(), **options) as session,
    ):
        yield server, session
