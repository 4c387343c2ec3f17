"""Names that are gone, in a real kernel: `/summary` looks them up as the kernel is now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from tests.agent_kernel import agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic, call, last_text, reply

MODEL = "claude-sonnet-5-5"
SUMMARY = "`frame` of cell:first holds the sales, `_helper` and `scores` what was made of it."


def test_the_kernel_is_asked_for_what_a_summary_names(tmp_path: Path) -> None:
    """A name counts while it lives, hidden ones too; one that a cell deleted is told at once."""
    code = "_helper = 1\nscores = [_helper]"
    answers: list[Any] = [reply(tools=[call("run_code", code=code)]), "word " * 3_000, "Second."]

    def script(body: dict[str, Any]) -> Any:
        return SUMMARY if last_text(body).startswith(INSTRUCTION_OPEN) else answers.pop(0)

    with (
        FakeAnthropic(script) as server,
        agent_kernel(tmp_path, server, MODEL, JUPYTER_CTX_COMPACTION="manual") as kernel,
    ):
        run(kernel, "%config JupyterCtx.tail_tokens = 0")
        run(kernel, "frame = {'price': 1}", cell_id="first")
        ask(kernel, "Make the scores.")
        ask(kernel, "And now?")
        run(kernel, "%agent /compact")
        before = run(kernel, "%agent /summary").bundles("text/plain")
        run(kernel, "del frame, scores", cell_id="second")
        after = run(kernel, "%agent /summary").bundles("text/plain")

    assert "not in the kernel any more" not in str(before)
    assert "not in the kernel any more: frame, scores." in str(after)
