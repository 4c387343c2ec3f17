"""A real kernel with the agent loaded, talking to the strict server: what a headless user has.

Nothing but environment variables sets it up, and nothing but executed cells drives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from tests.fake_anthropic import FakeAnthropic
from tests.fake_openai import FakeOpenAI
from tests.kernels import Ran, RealKernel, running_kernel

CONTEXT_MIME = "application/vnd.jupyter-ctx.context+json"
TURN_S = 120.0
"""How long a turn of the agent may take before the test fails: far more than any here needs."""


def agent_env(server: FakeAnthropic, model: str, **more: str) -> dict[str, str]:
    """Return the variables that make `%agent` talk to `server` and ask for no permission."""
    family = "OPENAI" if isinstance(server, FakeOpenAI) else "ANTHROPIC"
    return {
        f"{family}_BASE_URL": server.url,
        f"{family}_API_KEY": "sk-ant-test-0123456789",
        "JUPYTER_CTX_MODEL": model,
        "JUPYTER_CTX_PERMISSIONS": "auto",
        **more,
    }


@contextmanager
def agent_kernel(
    folder: Path, server: FakeAnthropic, model: str, **more: str
) -> Iterator[RealKernel]:
    """Give a kernel whose extension is loaded; `more` are further environment variables."""
    with running_kernel(folder, agent_env(server, model, **more)) as kernel:
        run(kernel, "%load_ext jupyter_ctx")
        yield kernel


def run(kernel: RealKernel, code: str, cell_id: str | None = None) -> Ran:
    """Run a cell that must succeed."""
    ran = kernel.execute(code, TURN_S, cell_id=cell_id)
    assert ran.ok, f"{code[:200]}: {ran.reply} {ran.stderr[-2_000:]}"
    return ran


def ask(kernel: RealKernel, text: str, cell_id: str | None = None) -> Ran:
    """Run one turn, which must end well."""
    return run(kernel, f"%%agent\n{text}", cell_id)


def context(kernel: RealKernel) -> dict[str, Any]:
    """Return what `/context` carries for programs."""
    (found,) = run(kernel, "%agent /context").bundles(CONTEXT_MIME)
    assert isinstance(found, dict)
    return found


def assert_inert(ran: Ran, shown: frozenset[str]) -> None:
    """Nothing published is HTML or active Markdown but what code itself displayed (`shown`)."""
    for html in ran.bundles("text/html"):
        assert html in shown, f"HTML that no code displayed: {html[:200]!r}"
    parser = MarkdownIt("commonmark", {"html": True})
    for markdown in ran.bundles("text/markdown"):
        if markdown in shown:
            continue
        blocks = parser.parse(markdown)
        tokens = [*blocks, *(token for block in blocks for token in block.children or ())]
        active = [t for t in tokens if t.type in ("html_block", "html_inline", "image")]
        hrefs = [str(t.attrs["href"]) for t in tokens if t.type == "link_open"]
        odd = [h for h in hrefs if not h.startswith(("http://", "https://", "mailto:", "#"))]
        assert not active, f"active Markdown: {active}"
        assert not odd, f"links that act: {odd}"
