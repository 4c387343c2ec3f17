"""Attacks on a kernel with the agent loaded: each is survived, and the next turn works.

All tests share one kernel and one strict server; each begins a session of its own.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_ctx.config import load_settings, make_settings, read_file
from jupyter_ctx.errors import ConfigError
from tests.agent_kernel import agent_env, agent_kernel, ask, context, run
from tests.fake_anthropic import NO_USAGE, Call, FakeAnthropic, no_stop_reason, reply, status
from tests.kernels import RealKernel

MODEL = "claude-sonnet-5-5"
GO = "print('go', flush=True)\n"

STUBBORN = {
    "swallows the interrupt": "while True:\n  try: time.sleep(1)\n  except KeyboardInterrupt: pass",
    "swallows everything": "while True:\n  try: time.sleep(1)\n  except: pass",
    "swallows it twice": (
        "def f():\n  while True:\n    try:\n      try: time.sleep(1)\n      except: print()\n"
        "    except BaseException: print()\nwhile True:\n  try: f()\n  except: pass"
    ),
    "prints and swallows": "while True:\n  try: print('x' * 1000)\n  except: pass",
    "awaits and swallows": "while True:\n  try: await asyncio.sleep(1)\n  except: pass",
    "never cleans up": "try: time.sleep(600)\nfinally: time.sleep(600)",
    "nested cell": "get_ipython().run_cell('while True:\\n  try: time.sleep(1)\\n  except: pass')",
}


class Stage:
    """The kernel and the server."""

    def __init__(self, kernel: RealKernel, server: FakeAnthropic) -> None:
        self.kernel, self.server = kernel, server


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Give the kernel that the tests share."""
    folder = tmp_path_factory.mktemp("break")
    with FakeAnthropic() as server, agent_kernel(folder, server, MODEL) as kernel:
        run(kernel, "import asyncio, time")
        yield Stage(kernel, server)
        assert not server.refused
        assert not server.unused


@pytest.mark.parametrize("code", STUBBORN.values(), ids=STUBBORN)
def test_code_that_will_not_stop_is_stopped(stage: Stage, code: str) -> None:
    """Code that swallows every interrupt ends at the first all the same, and with it the turn."""
    kernel, server = stage.kernel, stage.server
    server.append(reply("I run it.", tools=[Call("run_code", code=GO + code)]), "Still here.")
    request = kernel.submit("%agent go")
    kernel.wait_for_text(request, "go\n")
    kernel.interrupt()
    stopped = kernel.collect(request, timeout=10)
    assert "Stopped by you" in stopped.reply["evalue"]
    assert "Still here." in str(ask(kernel, "and now?").outputs)
    assert run(kernel, "print(type(get_ipython().display_pub).__module__)").text == (
        "ipykernel.zmqshell\n"
    )


@pytest.mark.parametrize(
    "code",
    [
        "import builtins\nfor n in ('print', 'len', 'BaseException'): delattr(builtins, n)",
        "import builtins\nbuiltins.print = builtins.len = builtins.isinstance = None",
    ],
)
def test_builtins_are_as_they_were(stage: Stage, code: str) -> None:
    """Code that deletes or replaces builtins breaks neither the turn nor the user's cells."""
    kernel, server = stage.kernel, stage.server
    server.append(reply("I run it.", tools=[Call("run_code", code=code)]), "Still here.")
    assert "Still here." in str(ask(kernel, "go").outputs)
    assert run(kernel, "print(len([1]), isinstance(1, int))").text == "1 True\n"


@pytest.mark.parametrize("tokens", [10**18, 50_000_000, -5])
def test_absurd_usage_does_not_fill_the_window(stage: Stage, tokens: int) -> None:
    """A usage figure that cannot be true is no figure: the session goes on with an estimate."""
    kernel, server = stage.kernel, stage.server
    usage = {"input_tokens": tokens, "output_tokens": tokens}
    server.append(reply("One.", usage=usage), "Two.")
    ask(kernel, "one")
    assert context(kernel)["is_estimate"]
    assert 0 < context(kernel)["used_tokens"] < 100_000
    assert "Two." in str(ask(kernel, "two").outputs)
    assert not context(kernel)["is_estimate"]


def test_a_turn_without_usage_claims_no_tokens(stage: Stage) -> None:
    """Where the provider said nothing of a turn's tokens, its last line says nothing either."""
    stage.server.append(reply("One.", usage=NO_USAGE))
    last = ask(stage.kernel, "one").bundles("text/plain")[-1]
    assert last.startswith("1 step")
    assert " tokens" not in last
    assert "$" not in last


def test_text_of_a_reply_that_was_void_is_taken_back(stage: Stage) -> None:
    """A reply asked for again leaves no text of the first try, finished blocks included."""
    stage.server.append(no_stop_reason("Void words."), "Good words.")
    shown = ask(stage.kernel, "one").bundles("text/plain")
    assert "Void words." not in "".join(shown)
    assert "Good words." in shown


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout_s", math.nan),
        ("timeout_s", math.inf),
        ("timeout_s", 10**400),
        ("retries", 10**30),
        ("prices", {"model": 1}),
        ("prices", {"model": {"input": math.nan}}),
        ("prices", {"model": {"input": "much"}}),
    ],
)
def test_numbers_that_are_none_are_no_settings(name: str, value: object) -> None:
    """A setting of no use is refused when it is made, and the sentence names it."""
    with pytest.raises(ConfigError, match=name):
        make_settings({name: value})


@pytest.mark.parametrize("text", ["[" * 100_000, '{"nope": 1}', '{"retries": "x"}', "[1]", "{"])
def test_a_bad_settings_file_is_named(tmp_path: Path, text: str) -> None:
    """What is wrong in settings.json is said with the path of the file."""
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"settings\.json"):
        read_file(path)


def test_a_bad_environment_variable_is_named(tmp_path: Path) -> None:
    """What is wrong in the environment is said with the variable, unless it is overruled."""
    environ = {"JUPYTER_CTX_HOME": str(tmp_path), "JUPYTER_CTX_PERMISSIONS": "atuo"}
    with pytest.raises(ConfigError, match=r"JUPYTER_CTX_PERMISSIONS: .*'atuo'; use one of 'ask'"):
        load_settings(environ=environ)
    assert load_settings({"permissions": "plan"}, environ).permissions == "plan"


@pytest.mark.parametrize("name", ['""', "a b", "../x", "x" * 300])
def test_what_is_no_name_of_a_model_is_refused(stage: Stage, name: str) -> None:
    """`/model` with what no model is called changes nothing."""
    ran = stage.kernel.execute(f"%agent /model {name}")
    assert "no name of a model" in ran.reply["evalue"]
    model = stage.kernel.eval("__import__('jupyter_ctx').current_session().model_name")
    assert model == MODEL


def test_a_new_session_although_the_old_one_lost_its_folder(stage: Stage) -> None:
    """`/new` starts a session although the old one can no more be stored, and says that."""
    stage.server.append("One.", "Two.", "Three.")
    ask(stage.kernel, "one")
    shutil.rmtree(stage.kernel.home)
    ask(stage.kernel, "two")
    shown = str(run(stage.kernel, "%agent /new").outputs)
    assert "could not be written" in shown
    assert "New session" in shown
    assert "could not" not in str(ask(stage.kernel, "three").outputs)


@pytest.mark.parametrize("command", ["/no{}", "/resume {}", "/model {}", "/summary {}"])
def test_a_key_typed_into_a_command_is_not_shown(stage: Stage, command: str) -> None:
    """What a command says, also of a wrong argument, never holds a key of the program's own."""
    key = agent_env(stage.server, MODEL)["ANTHROPIC_API_KEY"]
    ran = stage.kernel.execute(f"%agent {command.format(key)}")
    assert not ran.ok
    shown = [message for message in ran.messages if message["msg_type"] != "execute_input"]
    assert key not in str(shown)
    assert key not in str(ran.reply)


def test_a_stopped_countdown_claims_no_further_try(stage: Stage) -> None:
    """Of a retry that was stopped before its time the cell does not say that it was made."""
    kernel, server = stage.kernel, stage.server
    server.append(status(429, retry_after=200))
    request = kernel.submit("%agent go")
    server.wait_for(len(server.messages) + 1)
    kernel.interrupt()
    shown = kernel.collect(request, timeout=10).bundles("text/plain")
    assert "Tried again" not in str(shown)
    server.append("Still here.")
    assert "Still here." in str(ask(kernel, "and now?").outputs)
