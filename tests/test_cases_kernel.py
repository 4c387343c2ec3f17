"""Reported cases, in a real kernel against the strict server: what reaches the model and the disk.

All but the last tests share one kernel; each begins a session of its own.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from jupyter_ctx.core.repair import INTERRUPTED_TEXT
from tests.agent_kernel import agent_kernel, ask, context, run
from tests.fake_anthropic import (
    DEFAULT_MODELS,
    Call,
    FakeAnthropic,
    Recorded,
    Reply,
    call,
    last_text,
    reply,
)
from tests.fake_anthropic.checks import (
    assert_append_only,
    assert_never_over_window,
    assert_prefix_read,
)
from tests.kernels import Ran, RealKernel

WIDE, NARROW = "claude-sonnet-5-5", "claude-opus-5-5"
"""A model with a window of a million tokens, and one that is given a small window here."""

MODELS = {
    WIDE: DEFAULT_MODELS[WIDE],
    NARROW: replace(DEFAULT_MODELS[NARROW], window=16_000, max_output=8_000),
}
CAP_CHARS = 50_000
SUMMARY = "## Task\nAs the user asked.\n## Done\nSteps 1 and 2 are done; step 3 is next."

Answer = str | Reply | Call | Callable[[dict[str, Any]], Any]


class Stage:
    """A kernel with the agent, the server it talks to, and the answers of the running test.

    A request for a summary is answered by `SUMMARY`, any other by the next answer.
    """

    def __init__(self, kernel: RealKernel, server: FakeAnthropic, answers: list[Answer]) -> None:
        self.kernel, self.server = kernel, server
        self.answers = answers
        self._first = 0

    def begin(self, model: str, *answers: Answer) -> None:
        """Start a session with `model`, which will give these answers."""
        self.answers[:] = answers
        run(self.kernel, f"%config JupyterCtx.model = {model!r}")
        run(self.kernel, "%agent /new")
        self._first = len(self.server.messages)

    def end(self) -> None:
        """All was asked for, and nothing refused."""
        assert not self.answers
        assert not [record.error for record in self.requests if record.refused]

    @property
    def requests(self) -> list[Recorded]:
        """The requests of this session."""
        return self.server.messages[self._first :]

    @property
    def stored(self) -> dict[str, Path]:
        """The files of this session's results, by name."""
        folder = self.kernel.home / "tool-results" / self._session_id()
        return {path.name: path for path in sorted(folder.glob("*"))} if folder.is_dir() else {}

    def transcript(self) -> str:
        """Return this session's file."""
        path = self.kernel.home / "sessions" / self._session_id() / "transcript.jsonl"
        return path.read_text(encoding="utf-8")

    def _session_id(self) -> str:
        return str(self.kernel.eval("__import__('jupyter_ctx').current_session().id"))


@contextmanager
def staged(folder: Path, **env: str) -> Iterator[Stage]:
    """Give a stage whose kernel lives in `folder`."""
    answers: list[Answer] = []

    def script(body: dict[str, Any]) -> Any:
        if is_summary(body):
            return SUMMARY
        answer = answers.pop(0)
        return answer(body) if callable(answer) else answer

    with (
        FakeAnthropic(script, models=MODELS) as server,
        agent_kernel(folder, server, WIDE, **env) as kernel,
    ):
        yield Stage(kernel, server, answers)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Give the stage that the tests share."""
    with staged(tmp_path_factory.mktemp("kernel")) as made:
        yield made


def is_summary(body: dict[str, Any]) -> bool:
    """Whether a request asks for a summary."""
    return last_text(body).startswith(INSTRUCTION_OPEN)


def results(record: Recorded) -> list[str]:
    """Return the texts of the tool results in a request's newest message."""
    found = [block for block in record.messages[-1]["content"] if block["type"] == "tool_result"]
    return ["".join(inner.get("text", "") for inner in block["content"]) for block in found]


def reading(**arguments: Any) -> Callable[[dict[str, Any]], Call]:
    """Return an answer that reads the result stored last."""

    def answer(body: dict[str, Any]) -> Call:
        (handle,) = re.findall(r'read_result\(tool_use_id=\\"([\w-]+)\\"', json.dumps(body))[-1:]
        return call("read_result", tool_use_id=handle, **arguments)

    return answer


def printing(code: str) -> Call:
    """Return a call that runs code."""
    return call("run_code", code=code)


# Outputs ------------------------------------------------------------------------------------------


def test_a_long_log_is_stored_shown_and_read(stage: Stage) -> None:
    """C01: 20,000 lines: stored byte for byte, previewed, any of them read; shown live by ends."""
    log = "".join(f"line {n:06} of the long log, {n * 7919 % 1013}\n" for n in range(1, 20_001))
    code = "for n in range(1, 20_001): print(f'line {n:06} of the long log, {n * 7919 % 1013}')"
    assert run(stage.kernel, code).text == log

    wanted = reading(start_line=10_000, end_line=10_020)
    stage.begin(WIDE, printing(code), wanted, "Read.")
    shown = ask(stage.kernel, "Print the log.").text
    stage.end()
    _, second, third = stage.requests
    (preview,), (page,) = results(second), results(third)
    (name,) = [name for name in stage.stored if name.endswith(".txt")]

    assert stage.stored[name].read_bytes() == log.encode()
    assert len(preview) <= 2_000
    for part in (name.removesuffix(".txt"), name, "20,000 lines", f"{len(log):,} characters"):
        assert part in preview
    assert log.splitlines()[0] in preview
    assert log.splitlines()[-1] in preview
    *lines, note = page.splitlines()
    assert lines == log.splitlines()[9_999:10_020]
    assert "10,000–10,020 of 20,000" in note
    assert shown.startswith(log[: 256 * 1024])
    assert shown.endswith(log[-16 * 1024 :])
    assert len(shown) < 256 * 1024 + 16 * 1024 + 1_000


def test_an_output_up_to_the_cap_stays_whole(stage: Stage) -> None:
    """C02: 0 and 1 characters, cap − 1 and cap arrive verbatim; cap + 1 is preview and file."""
    sizes = (0, 1, CAP_CHARS - 1, CAP_CHARS, CAP_CHARS + 1)
    codes = [f"print('x' * {size}, end='')" for size in sizes]
    stage.begin(WIDE, printing("print(42)"), *map(printing, codes), "Seen.")
    ask(stage.kernel, "Print more and more.")
    stage.end()
    number, nothing, *kept, preview = [results(record)[0] for record in stage.requests[1:]]

    assert number == "42\n"
    assert nothing == "(run_code completed with no output)"
    assert kept == ["x", "x" * (CAP_CHARS - 1), "x" * CAP_CHARS]
    assert len(preview) <= 2_000
    assert "xxxxxxxx" in preview
    (text,) = [path for name, path in stage.stored.items() if name.endswith(".txt")]
    assert text.read_text() == "x" * (CAP_CHARS + 1)
    assert set(stage.stored) == {text.name, f"{text.stem}.json"}


FRAME = """
import numpy as np, pandas as pd
frame = pd.DataFrame({f'c{n:02}': np.arange(5_000) * n for n in range(38)})
frame['name'] = [f'row {n}' for n in range(5_000)]
frame['share'] = np.arange(5_000) / 5_000
"""


def test_a_frame_is_told_by_its_plain_form(stage: Stage) -> None:
    """C05: a 5,000 × 40 frame: shape, names, types and rows; its HTML only in the stored file."""
    stage.begin(WIDE, printing(f"{FRAME}frame"), "A frame.")
    ran = ask(stage.kernel, "Show the frame.")
    stage.end()
    (text,) = results(stage.requests[-1])
    (saved,) = [path for name, path in stage.stored.items() if name.endswith(".json")]
    (output,) = json.loads(saved.read_text())["outputs"]

    assert "5000 rows x 40 columns" in text
    for part in ("c01 int64", "share float64", "name ", "row 4999"):
        assert part in text
    assert "<t" not in text
    assert "<table" in output["data"]["text/html"]
    assert any("<table" in html for html in ran.bundles("text/html"))


def test_a_frame_over_the_cap_is_stored_once(stage: Stage) -> None:
    """C05: a table over the cap is one stored text, in its plain form, not one a MIME type."""
    whole = "with pd.option_context('display.max_rows', None, 'display.max_columns', None):"
    stage.begin(WIDE, printing(f"{FRAME}{whole}\n    display(frame)"), "A large frame.")
    ask(stage.kernel, "Show all of the frame.")
    stage.end()
    (preview,) = results(stage.requests[-1])
    names = list(stage.stored)

    assert len(preview) <= 2_000
    assert "<t" not in preview
    assert "text/html" in preview
    assert sorted(name.partition(".")[2] for name in names) == ["json", "txt"]
    (text,) = [path.read_text() for name, path in stage.stored.items() if name.endswith(".txt")]
    assert "row 2500" in text
    assert "<td" not in text


def test_a_cell_is_read_without_its_outputs(stage: Stage) -> None:
    """C07: read_cell gives source, id, count and a summary of outputs; 200 KB stay out."""
    source = "total = 0\nprint('zyx' * 70_000)"
    count = run(stage.kernel, source, "cell-big").reply["execution_count"]
    stage.begin(WIDE, call("read_cell", cell_id="cell-big"), "Renamed.")
    ask(stage.kernel, "Rename `total` in the cell with the long output.")
    (text,) = results(stage.requests[-1])

    assert source in text
    assert "cell-big" in text
    assert f"In[{count}]" in text
    assert "stdout (210,001 characters)" in text
    assert all(b"zyxzyx" not in record.body for record in stage.requests)
    assert "zyxzyx" not in stage.transcript()

    stage.begin(WIDE, call("read_cell", cell_id="cell-big", outputs=True), "Read.")
    ask(stage.kernel, "Now with its output.")
    stage.end()
    (text,) = results(stage.requests[-1])
    assert source in text
    assert "zyxzyx" in text
    assert "start_char" in text
    assert len(text) <= CAP_CHARS
    assert not stage.stored


# The gauge ----------------------------------------------------------------------------------------

LOOK = "import jupyter_ctx, json\nprint(json.dumps(jupyter_ctx.current_session().context()))"
KEYS = {
    *("version", "model", "window_tokens", "window_source", "used_tokens", "measured_tokens"),
    *("estimated_tokens", "is_estimate", "parts", "free_tokens", "reserve_tokens", "usage"),
    *("cost_usd", "cache_read_ratio", "compactions", "compaction"),
}
PARTS = ["system", "tools", "summary", "reinjected", "notebook", "conversation", "results"]


def assert_adds_up(found: dict[str, Any]) -> None:
    """The JSON has exactly its keys, and the parts are the whole."""
    assert set(found) == KEYS
    assert list(found["parts"]) == PARTS
    assert sum(found["parts"].values()) == found["used_tokens"]
    assert found["used_tokens"] == found["measured_tokens"] + found["estimated_tokens"]
    assert found["free_tokens"] == found["window_tokens"] - found["used_tokens"]


def provider_sum(record: Recorded) -> int:
    """Return the provider's own sum of a call."""
    usage = record.usage or {}
    kinds = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(usage[kind] for kind in (*kinds, "output_tokens"))


def test_the_gauge_is_right_at_every_step(stage: Stage) -> None:
    """C11: a figure before any request; the provider's own after each step; less after /compact."""
    for n in range(5):
        run(stage.kernel, f"loaded_{n} = {n}\nprint('cell', {n})", f"loaded-{n}")
    answers: list[Answer] = []
    for n in range(3):
        answers += [printing(LOOK), printing(LOOK), reply(f"Turn {n}. " * 400)]
    stage.begin(NARROW, *answers)
    found = context(stage.kernel)
    assert_adds_up(found)
    assert not stage.requests
    assert found["is_estimate"]
    assert found["used_tokens"] == found["estimated_tokens"] > 1_000
    assert found["parts"]["system"] > 0
    assert found["parts"]["tools"] > 0

    for n in range(3):
        ask(stage.kernel, f"Turn {n}")
        first, second, last = stage.requests[-3:]
        for before, after in ((first, second), (second, last)):
            seen = json.loads(results(after)[0])
            assert_adds_up(seen)
            assert seen["used_tokens"] == seen["measured_tokens"] == provider_sum(before)
        found = context(stage.kernel)
        assert_adds_up(found)
        assert found["used_tokens"] == found["measured_tokens"] == provider_sum(last)
        assert found["window_source"] == "api"

    run(stage.kernel, "%agent /compact")
    stage.end()
    compacted = context(stage.kernel)
    assert_adds_up(compacted)
    assert compacted["used_tokens"] < found["used_tokens"]
    assert compacted["parts"]["summary"] > 0
    assert compacted["compactions"] == 1
    assert compacted["is_estimate"]


# Compaction ---------------------------------------------------------------------------------------

FIVE = """Do five steps, one after the other; print the number of each: 1, 2, 3, 4, 5.
  Keep this line as it is: {"a": [1, 2]}, `x` — “quoted”, $HOME, 100 %."""


def filler(tokens: int) -> Reply:
    """Return an answer that takes about so many tokens by the fake's count."""
    return reply("The history grows by a sentence that says little. " * (tokens * 32 // 500))


def after_summary(requests: Sequence[Recorded]) -> Recorded:
    """Return the first request after a compaction."""
    places = [n for n, record in enumerate(requests) if is_summary(record.json)]
    return requests[places[0] + 1]


def test_a_request_survives_the_compaction_it_brings(stage: Stage) -> None:
    """C13: compaction within a request of five steps: its words are whole, all five are done."""
    steps = [
        reply(
            f"Step {n}. " + "It takes some words to say what is seen. " * 25,
            thinking=f"Now {n}.",
            tools=[printing(f"done = {[*range(1, n + 1)]}\nprint({n}, 'y ' * 800)")],
        )
        for n in range(1, 6)
    ]
    run(stage.kernel, "%config JupyterCtx.prepare_calls = 0")
    stage.begin(NARROW, filler(3_500), filler(3_500), *steps, "All five are done.")
    ask(stage.kernel, "Fill the window.")
    ask(stage.kernel, "Fill it more.")
    ask(stage.kernel, FIVE)
    run(stage.kernel, "%config JupyterCtx.prepare_calls = 3")
    stage.end()
    kinds = [is_summary(record.json) for record in stage.requests]
    next_one = after_summary(stage.requests)
    texts = [text for text in _texts(next_one.messages) if FIVE in text]

    assert stage.kernel.eval("done") == [1, 2, 3, 4, 5]
    assert kinds.count(True) == 1
    assert 1 <= kinds[2:].index(True) <= 4
    assert len(texts) == 1
    assert "step 3 is next" in next_one.messages[0]["content"][0]["text"]
    assert_never_over_window(stage.requests)
    assert_append_only(stage.requests, is_side=lambda record: is_summary(record.json))
    for record in stage.requests[kinds.index(True) + 1 :]:
        assert sum(text.count(FIVE) for text in _texts(record.messages)) == 1


def test_parallel_calls_stay_with_their_results(stage: Stage) -> None:
    """C19: eight calls a step, a compaction in their midst: every call is answered in place."""
    eight = [
        reply(
            f"Step {n}.",
            tools=[printing(f"print('result {n} {k}', 'r ' * 180)") for k in range(8)],
        )
        for n in range(12)
    ]
    stage.begin(NARROW, *eight, "Done.")
    ask(stage.kernel, "Run eight at a time.")
    stage.end()

    assert sum(is_summary(record.json) for record in stage.requests) >= 1
    assert_never_over_window(stage.requests)
    for record in stage.requests:
        for message, after in zip(record.messages, record.messages[1:], strict=False):
            uses = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
            found = [b["tool_use_id"] for b in after["content"] if b["type"] == "tool_result"]
            assert uses == found


def test_recent_cells_come_back_as_they_are_now(stage: Stage) -> None:
    """C15: after a compaction cells run with new source are there in that source, newest first."""
    cells = [
        ("cell-a", "alpha = 'first form of A'"),
        ("cell-b", "beta = 'first form of B'"),
        ("cell-c", "gamma = 'C is run twice as it is'"),
        ("cell-c", "gamma = 'C is run twice as it is'"),
        ("cell-a", "alpha = 'present form of A'"),
        ("cell-b", "beta = 'second form of B'"),
    ]
    for cell_id, source in cells:
        run(stage.kernel, source, cell_id)
    stage.begin(NARROW, filler(3_000), "I do.", "After.")
    ask(stage.kernel, "Look at A and B.")
    ask(stage.kernel, "Do you see them?")
    run(stage.kernel, "beta = 'present form of B, by the user'", "cell-b")
    run(stage.kernel, "%agent /compact")
    ask(stage.kernel, "Go on.")
    stage.end()
    text = "".join(_texts(stage.requests[-1].messages))

    assert "cell-a" in text
    assert "cell-b" in text
    places = ("present form of B, by the user", "present form of A", "C is run twice")
    # B's twice: the prompt's own update tells that the user ran it since.
    assert [text.count(place) for place in places] == [2, 1, 1]
    assert sorted(places, key=text.index) == list(places)  # a run of the same source moves nothing
    for old in ("first form of", "second form of"):
        assert old not in text
    assert "`alpha`" in text


def _texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [b["text"] for m in messages for b in m["content"] if b["type"] == "text"]


# A killed kernel ----------------------------------------------------------------------------------


def test_a_killed_kernel_goes_on_as_its_twin(tmp_path: Path) -> None:
    """W20: the first request after a kill is the unkilled twin's, byte for byte, and what is new.

    So it is in another folder too: the update says so, what the model was told keeps its bytes.
    """
    name = {"JPY_SESSION_NAME": str(tmp_path / "work" / "twin.ipynb")}
    saved = tmp_path / "saved"
    long = printing("print('0123456789' * 9_000)")
    with staged(tmp_path, **name) as stage:
        stage.answers[:] = [long, printing("kept = 1\nkept"), "First.", "Twin.", "Resumed."]
        ask(stage.kernel, "Begin.")
        shutil.copytree(stage.kernel.home, saved)
        ask(stage.kernel, "Go on.")
        twin = stage.requests[-1]
        stage.kernel.kill()
        shutil.rmtree(stage.kernel.home)
        saved.rename(stage.kernel.home)

        env = {**name, "JUPYTER_CTX_HOME": str(stage.kernel.home)}
        with agent_kernel(tmp_path, stage.server, WIDE, **env) as again:
            run(again, "import os\nos.chdir('/')")
            ran = ask(again, "Go on.")
            resumed = stage.requests[-1]
        stage.end()

    assert "restarted" in said(ran)
    note, update, rest = resumed.messages[-1]["content"]
    assert "restarted" in note["text"]
    assert "The working folder is now /." in update["text"]
    assert rest == twin.messages[-1]["content"][-1]
    assert len(twin.messages[-1]["content"]) == 1
    body = resumed.body
    for added in (note, update):
        as_sent = json.dumps(added, ensure_ascii=False, separators=(",", ":")).encode() + b","
        assert as_sent in body
        body = body.replace(as_sent, b"")
    assert body == twin.body
    assert resumed.plan is not None
    assert twin.plan is not None
    assert resumed.plan.read_tokens >= twin.plan.read_tokens > 1_000


def test_code_that_kills_the_kernel_leaves_a_session_that_goes_on(tmp_path: Path) -> None:
    """The call that was open when the kernel died is answered, and the next turn is accepted."""
    name = {"JPY_SESSION_NAME": str(tmp_path / "work" / "killed.ipynb")}
    with staged(tmp_path, **name) as stage:
        stage.answers[:] = [printing("import os\nos.kill(os.getpid(), 9)"), "I see."]
        with pytest.raises(AssertionError, match="kernel died"):
            stage.kernel.execute("%agent End it.")
        with agent_kernel(tmp_path, stage.server, WIDE, **name) as again:
            ask(again, "What happened?")
        stage.end()
        assert INTERRUPTED_TEXT in json.dumps(stage.requests[-1].json)
        assert_prefix_read(stage.requests)


def said(ran: Ran) -> str:
    """Return the plain text of all that a turn showed."""
    return "\n".join(ran.bundles("text/plain"))
