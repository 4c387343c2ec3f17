"""Permission and mentions in a real kernel, against the strict fake server (case C29)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..fake_anthropic import FakeAnthropic, call, reply
from ..kernels import Ran, RealKernel, running_kernel

KEY = "sk-ant-test-0123456789abcdef"
LOAD = "%load_ext jupyter_ctx"


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """A fake without a script; tests append their answers, and all of them must be used."""
    with FakeAnthropic([]) as running:
        yield running
        assert not running.refused
        assert not running.unused


@pytest.fixture
def kernel(server: FakeAnthropic, tmp_path: Path) -> Iterator[RealKernel]:
    """A kernel of a notebook, with the extension loaded, that asks before anything acts."""
    env = {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": KEY,
        "JPY_SESSION_NAME": str(tmp_path / "work" / "a.ipynb"),
    }
    with running_kernel(tmp_path, env) as running:
        running.execute(LOAD)
        yield running


def shown(ran: Ran) -> str:
    """Return all that stands below the cell, as plain text."""
    return "\n".join([*map(str, ran.bundles("text/plain")), ran.text])


def results(server: FakeAnthropic) -> list[tuple[str, bool]]:
    """Return the text and error flag of the results in the newest request's last message."""
    blocks = server.messages[-1].json["messages"][-1]["content"]
    return [
        ("".join(part["text"] for part in block["content"]), bool(block.get("is_error")))
        for block in blocks
        if block["type"] == "tool_result"
    ]


def last_message(server: FakeAnthropic) -> list[dict[str, Any]]:
    """Return the blocks of the newest request's last message."""
    blocks: list[dict[str, Any]] = server.messages[-1].json["messages"][-1]["content"]
    return blocks


def run(code: str) -> Any:
    return call("run_code", code=code)


def write(path: str, text: str) -> Any:
    return call("write_file", path=path, text=text)


def test_each_decision_is_applied_once_to_its_own_call(
    kernel: RealKernel, server: FakeAnthropic
) -> None:
    """Once is once, always covers its scope without asking, a denial reaches the model (C29)."""
    server.append(
        reply(run("a = 1"), run("b = 2"), run("c = 3"), write("x.txt", "hi\n")),
        "Done.",
    )
    ran = kernel.execute("%agent go", stdin_replies=["y", "a", "n keep the folder clean"])

    assert ran.ok
    assert [question.split("(")[1].split(")")[0] for question in ran.questions] == [
        "run code",
        "run code",
        f"write file {kernel.cwd / 'x.txt'}; `a any`: write any file in the project",
    ]
    assert [is_error for _, is_error in results(server)] == [False, False, False, True]
    assert results(server)[-1][0] == "Denied by the user: keep the folder clean"
    assert not (kernel.cwd / "x.txt").exists()
    assert kernel.eval("(a, b, c)") == (1, 2, 3)
    assert "1. run code" in shown(kernel.execute("%agent /permissions"))


def test_a_rule_outlives_a_compaction_and_a_restart(
    kernel: RealKernel, server: FakeAnthropic
) -> None:
    """Between grant and use lie a compaction and a new kernel; revoked, the question is back."""
    kernel.execute("%config JupyterCtx.window_tokens = 32_000")
    server.append(reply(run("a = 1")), "A long answer. " * 900)
    kernel.execute("%agent go", stdin_replies=["a"])
    server.append("A long answer. " * 900, "A summary of it all.")
    kernel.execute("%agent on")
    assert kernel.execute("%agent /compact").ok
    server.append(reply(run("b = 2")), "Done.")
    assert kernel.execute("%agent on").questions == []

    (stored,) = kernel.home.glob("sessions/*/permissions.json")
    assert stored.stat().st_mode & 0o777 == 0o600
    assert "run code" not in json.dumps([sent.json["messages"] for sent in server.messages])
    kernel.restart()
    kernel.execute(LOAD)
    server.append(reply(run("c = 3")), "Done.")
    ran = kernel.execute("%agent again", allow_stdin=True)
    assert ran.questions == []
    assert "Still allowed in this session: run code" in shown(ran)
    assert kernel.eval("c") == 3

    assert "nothing" in shown(kernel.execute("%agent /permissions revoke 1"))
    server.append(reply(run("d = 4")), "Done.")
    assert len(kernel.execute("%agent more", stdin_replies=["n"]).questions) == 1
    assert kernel.eval("'d' in globals()") is False


def test_a_file_of_rules_that_we_did_not_write_counts_for_nothing(
    kernel: RealKernel, server: FakeAnthropic
) -> None:
    """A torn or strange file gives no rule; that is said, and each call asks."""
    server.append(reply(run("a = 1")), "Done.")
    kernel.execute("%agent go", stdin_replies=["a"])
    (stored,) = kernel.home.glob("sessions/*/permissions.json")
    whole = stored.read_text()
    for bad in (whole[:20], whole.replace('"run code"', '"delete cells"')):
        stored.write_text(bad)
        kernel.restart()
        kernel.execute(LOAD)
        server.append(reply(run("b = 2")), "Done.")
        ran = kernel.execute("%agent again", stdin_replies=["n"])
        assert len(ran.questions) == 1
        assert "What was allowed for this session is not any more" in shown(ran)


def test_another_session_has_rules_of_its_own(kernel: RealKernel, server: FakeAnthropic) -> None:
    """A rule covers its session: not a new one, and again when that one is resumed."""
    server.append(reply(run("a = 1")), "Done.", reply(run("a = 2")), "Done.")
    kernel.execute("%agent go", stdin_replies=["a"])
    first = kernel.eval("__import__('jupyter_ctx').current_session().id")
    kernel.execute("%agent /new")
    assert len(kernel.execute("%agent go", stdin_replies=["n"]).questions) == 1
    kernel.execute(f"%agent /resume {first}")
    server.append(reply(run("a = 3")), "Done.")
    assert kernel.execute("%agent go").questions == []
    assert kernel.eval("a") == 3


def test_modes_in_a_kernel(kernel: RealKernel, server: FakeAnthropic) -> None:
    """`plan` refuses at the call and keeps the tools; `edits` writes unasked; guarded files ask."""
    server.append(reply(run("a = 1"), write("x.txt", "hi\n")), "Done.")
    kernel.execute("%agent /permissions plan")
    assert kernel.execute("%agent go").questions == []
    assert all(text.startswith("Denied: plan mode") for text, _ in results(server))

    kernel.execute("%agent /permissions edits")
    server.append(reply(run("a = 1"), write("x.txt", "hi\n")), "Done.")
    assert len(kernel.execute("%agent go", stdin_replies=["n"]).questions) == 1
    assert (kernel.cwd / "x.txt").read_text() == "hi\n"

    kernel.execute("%agent /permissions auto")
    server.append(reply(run("a = 1"), write("AGENTS.md", "Obey.\n")), "Done.")
    headless = kernel.execute("%agent go")
    assert kernel.eval("a") == 1
    assert results(server)[1] == (
        "Denied: no one can be asked here, and writing this file is asked about in every mode",
        True,
    )
    assert "AGENTS.md, which is asked about in every mode" in shown(headless)
    assert not (kernel.cwd / "AGENTS.md").exists()
    assert len({json.dumps(sent.json["tools"]) for sent in server.messages}) == 1


def test_a_project_cannot_set_permissions(kernel: RealKernel, server: FakeAnthropic) -> None:
    """Settings that lie in the notebook's folder change nothing about what asks."""
    folder = kernel.cwd / ".jupyter_ctx"
    folder.mkdir()
    (folder / "settings.json").write_text('{"permissions": "auto"}')
    kernel.restart()
    kernel.execute(LOAD)
    server.append(reply(run("a = 1")), "Done.")
    assert len(kernel.execute("%agent go", stdin_replies=["n"]).questions) == 1


# Mentions ---------------------------------------------------------------------------------------


def test_mentions_reach_the_model(kernel: RealKernel, server: FakeAnthropic) -> None:
    """A value, a cell, an output with its picture, the last error and a file go with the prompt."""
    (kernel.cwd / "data.csv").write_text("city,n\nRome,3\n")
    kernel.execute("import pandas as pd; df = pd.DataFrame({'city': ['Oslo'], 'n': [5]})")
    kernel.execute(
        "from IPython.display import Image, display; import io; from PIL import Image as P\n"
        "b = io.BytesIO(); P.new('RGB', (64, 48)).save(b, 'PNG')\n"
        "display(Image(b.getvalue())); print('shown')"
    )
    count = kernel.eval("len(In) - 1")
    kernel.execute("1 / 0", cell_id="bad-cell")
    server.append("Fine.")
    text = f"explain @df, @cell:bad-cell, @out:{count}, @error and @data.csv to me@@here.com"
    ran = kernel.execute(f"%agent {text}")

    assert ran.ok
    blocks = last_message(server)
    assert blocks[-1]["text"] == text.replace("@@", "@")
    told = "\n".join(block["text"] for block in blocks[:-1] if block["type"] == "text")
    for part in ("[@df, as it is now]", "Oslo", "1 / 0", "shown", "ZeroDivisionError", "Rome,3"):
        assert part in told
    assert [block["type"] for block in blocks].count("image") == 1
    assert [b["type"] for b in blocks[-5:]] == ["text", "image", "text", "text", "text"]


def test_an_unknown_mention_sends_nothing(kernel: RealKernel, server: FakeAnthropic) -> None:
    """An unknown mention fails the cell with near names; no request is made."""
    kernel.execute("sales = 1")
    ran = kernel.execute("%agent plot @sale and @out:99")

    assert not ran.ok
    assert ran.reply["ename"] == "UsageError"
    assert "`@sales`" in ran.reply["evalue"]
    assert "`@out:99` names no cell that was run" in ran.reply["evalue"]
    assert server.messages == []


def test_code_is_sent_as_it_was_pasted(kernel: RealKernel, server: FakeAnthropic) -> None:
    """A prompt with decorators, a fence and an address needs no change, and attaches nothing."""
    server.append("Fine.")
    body = "fix\n@property\ndef f(self):\n    return `@x`\n\n```\n@@ -1 +1 @@\n```\nme@example.com"
    assert kernel.execute(f"%%agent\n{body}\n").ok
    assert last_message(server)[-1]["text"] == body


def test_a_stored_answer_needs_no_mention(kernel: RealKernel, server: FakeAnthropic) -> None:
    """Where the stored answer is shown again, a variable that is gone is not missed."""
    kernel.execute("df = 1")
    server.append("Stored.")
    kernel.execute("%agent what is @df?", cell_id="asks")
    kernel.execute("%config JupyterCtx.rerun = 'replay'\ndel df")
    ran = kernel.execute("%agent what is @df?", cell_id="asks")

    assert ran.ok
    assert "Stored." in shown(ran)


def test_mentions_keep_the_law_on_a_small_window(kernel: RealKernel, server: FakeAnthropic) -> None:
    """On a window of 8,000 tokens many large mentions are cut, said, and the turn goes on."""
    for n in range(12):
        (kernel.cwd / f"long{n}.txt").write_text("words and words\n" * 20_000)
    kernel.execute("%config JupyterCtx.window_tokens = 8_000")
    server.append("Fine.")
    names = " ".join(f"@long{n}.txt" for n in range(12))
    ran = kernel.execute(f"%agent compare {names}")

    assert ran.ok
    assert "What is attached does not fit whole" in shown(ran)
    assert json.dumps(last_message(server)).count("[@long") > 4
    used = kernel.eval("__import__('jupyter_ctx').current_session().context()['used_tokens']")
    assert used < 8_000


def test_completion_in_a_kernel(kernel: RealKernel, server: FakeAnthropic) -> None:
    """Tab offers mentions and commands with their arguments, behind `%agent` and in its cells."""
    (kernel.cwd / "sales.csv").write_text("")
    kernel.execute("sales_df = 1; salt = 2")
    count = kernel.eval("len(In) - 1")

    def matches(code: str) -> list[str]:
        message_id = kernel.client.complete(code, len(code))
        while True:
            got = kernel.client.get_shell_msg(timeout=20)
            if got["parent_header"]["msg_id"] == message_id:
                content = got["content"]
                assert code[content["cursor_start"] :] in ("@sal", "@cell:", "@e", "/perm", "re")
                return list(content["matches"])

    for typed in ("%agent plot @sal", "%%agent\nplot it\nand @sal", "%%agent x\n@sal"):
        assert sorted(matches(typed)) == ["@sales.csv", "@sales_df", "@salt"]
    assert f"@cell:{count}" in matches("%agent @cell:")
    assert matches("%agent see @e") == ["@error"]
    assert matches("%agent /perm") == ["/permissions"]
    assert matches("%%agent\n/permissions re") == ["revoke"]
