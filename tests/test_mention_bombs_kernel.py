"""Prompts that mention far more than a small window holds, in a real kernel."""

from __future__ import annotations

from pathlib import Path

from tests.agent_kernel import TURN_S, agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic
from tests.fake_anthropic.checks import assert_never_over_window
from tests.wire import answering, text_of_messages, window

MODEL = "claude-sonnet-5-5"
FRAMES = """import pandas as pd
for n in range(29):
    globals()[f"v{n}"] = pd.DataFrame({f"column_{m}": range(1_000) for m in range(60)})"""


def test_mentions_never_fill_a_small_window(tmp_path: Path) -> None:
    """One name 200 times, 29 wide frames, huge files and long rows of `@`: each turn is answered.

    A name that stands in a prompt many times is attached once; what names nothing is refused.
    """
    prompts = (
        "@v0 " * 200,
        "Look at @huge.txt",
        "Look at @wide.txt, @huge.txt and @v1",
        " ".join(f"@v{n}" for n in range(29)),
        "@v0 " + "w " * 20_000,
        "@" * 50_000,
        "(@v0" * 10_000,
    )
    with (
        FakeAnthropic(answering(["Yes."] * len(prompts)), models=window(8_000, MODEL)) as server,
        agent_kernel(tmp_path, server, MODEL) as kernel,
    ):
        run(kernel, FRAMES)
        (kernel.cwd / "huge.txt").write_text("a line of text\n" * 400_000)
        (kernel.cwd / "wide.txt").write_text("x" * 5_000_000)
        for prompt in prompts:
            ask(kernel, prompt)
        refused = kernel.execute("%%agent\n" + "@nothing " * 20_000, TURN_S)
        assert not refused.ok
        assert "Nothing was sent" in refused.stderr
        assert len(refused.stderr) < 1_000
        assert server.refused == []
        assert_never_over_window(server.messages)
        assert text_of_messages(server.messages[0]).count("v0: pandas.DataFrame") == 1
