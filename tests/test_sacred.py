"""The user's kernel is sacred: whatever the agent's code breaks is put back, and told.

All tests share one kernel and one strict server: what one piece of code leaves behind, the next
ones and the user's own cells would meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent_kernel import agent_kernel, ask, run
from tests.fake_anthropic import Call, FakeAnthropic, reply
from tests.kernels import Ran, RealKernel

MODEL = "claude-sonnet-5-5"
TURNS = 100

NASTY: dict[str, tuple[str, str]] = {
    "closes the streams": ("import sys; sys.stdout.close(); sys.stderr.close()", ""),
    "takes the streams away": ("import sys; sys.stdout = sys.stderr = sys.stdin = None", ""),
    "closes Python's own streams": (
        "import sys; sys.__stdout__.close(); sys.__stderr__.close()",
        "sys.__stderr__",
    ),
    "breaks the capture's stream": ("import sys; type(sys.stdout).write = None", ".write"),
    "breaks the capture's publisher": (
        "type(get_ipython().display_pub).publish = None",
        "CapturePublisher.publish",
    ),
    "breaks the kernel's publisher": (
        "from ipykernel.zmqshell import ZMQDisplayPublisher as P; P.publish = None",
        "ZMQDisplayPublisher.publish",
    ),
    "breaks the kernel's stream": (
        "from ipykernel.iostream import OutStream; OutStream.write = OutStream.flush = None",
        "OutStream.flush",
    ),
    "hides run_cell": (
        "ip = get_ipython(); ip.run_cell = ip.run_cell_async = ip.run_code = None",
        "the method run_cell",
    ),
    "replaces run_cell": ("type(get_ipython()).run_cell = None", "run_cell"),
    "deletes a method": (
        "from IPython.core.interactiveshell import InteractiveShell as S; del S.run_code",
        "InteractiveShell.run_code",
    ),
    "silences errors": (
        "get_ipython().showtraceback = lambda *a, **k: None",
        "the method showtraceback",
    ),
    "takes questions away": (
        "import builtins; builtins.input = None; get_ipython().kernel.raw_input = None",
        "the method raw_input",
    ),
    "takes execution away": ("get_ipython().kernel.do_execute = None", "the method do_execute"),
    "takes the handlers away": (
        "k = get_ipython().kernel; k.shell_handlers.clear(); k.control_handlers.clear()",
        "message handlers",
    ),
    "takes the kernel away": ("get_ipython().kernel = None", "the shell's kernel"),
    "takes the comms away": (
        "get_ipython().kernel.comm_manager.targets.clear()",
        "comm targets",
    ),
    "replaces the hooks": (
        "import sys, threading\nsys.excepthook = threading.excepthook = sys.unraisablehook = None",
        "threading.excepthook",
    ),
    "takes the signals": (
        "import signal\nfor s in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):\n"
        "  signal.signal(s, lambda *a: None)",
        "the handler of SIGTERM",
    ),
    "sets an alarm": ("import signal; signal.alarm(30)", "the alarm clock"),
    "clears the events": (
        "for each in get_ipython().events.callbacks.values(): each.clear()",
        "event callbacks",
    ),
    "clears the transformers": (
        "m = get_ipython().input_transformer_manager\n"
        "for each in (m.token_transformers, m.line_transforms, m.cleanup_transforms): each.clear()",
        "input transformers",
    ),
    "clears the magics": (
        "for each in get_ipython().magics_manager.magics.values(): each.clear()",
        "magics",
    ),
    "takes modules out": (
        "import sys\nfor n in ('json', 'threading', 'asyncio', 'IPython', 'jupyter_ctx.session'):\n"
        "  sys.modules.pop(n)",
        "module asyncio",
    ),
    "forbids modules": (
        "import sys\nfor n in ('json', 'uuid', 'inspect', 'jupyter_ctx'): sys.modules[n] = None",
        "module jupyter_ctx",
    ),
    "takes all modules out": ("import sys; sys.modules.clear()", "module "),
    "forgets where modules are": (
        "import sys; sys.path.clear(); sys.meta_path.clear(); sys.path_hooks.clear()",
        "sys.meta_path",
    ),
    "leaves no room for calls": ("import sys; sys.setrecursionlimit(120)", "the recursion limit"),
    "traces": (
        "import sys\nsys.settrace(lambda *a: 1 / 0)\nsys.setprofile(lambda *a: 1 / 0)",
        "",
    ),
    "profiles": ("import sys; sys.setprofile(lambda *a: None); None", ""),
    "sets another policy": (
        "import asyncio\n"
        "class Policy(asyncio.DefaultEventLoopPolicy):\n  def get_event_loop(self): 1 / 0\n"
        "asyncio.set_event_loop_policy(Policy())",
        "asyncio's policy",
    ),
    "stops the loop": (
        "import asyncio; asyncio.get_event_loop().stop()",
        "the kernel's event loop",
    ),
    "stops the kernel's loop": (
        "get_ipython().kernel.io_loop.stop()",
        "the kernel's event loop",
    ),
    "makes warnings errors": ("import warnings; warnings.simplefilter('error')", ""),
    "breaks time": ("import time; time.monotonic = time.sleep = time.time = None", "time.sleep"),
    "breaks json": ("import json; json.dumps = json.loads = None", "json.dumps"),
    "breaks threads": (
        "import threading; threading.Thread.start = threading.Lock = None",
        "threading.Lock",
    ),
    "breaks os": ("import os; os.fstat = os.write = os.getcwd = None", "os.fstat"),
    "empties the namespace": ("get_ipython().user_ns.clear()", ""),
    "resets": ("%reset -f", ""),
    "deletes IPython's names": ("del get_ipython, exit, quit", ""),
    "deletes builtins": (
        "import builtins\nfor n in ('print', 'len', 'BaseException', 'vars'): delattr(builtins, n)",
        "",
    ),
    "forks": ("import os\nif os.fork() == 0: os._exit(0)", ""),
    "starts threads that fail late": (
        "import threading, time\nfor n in range(20):\n"
        "  late = lambda: (time.sleep(0.05), print('late'), 1 / 0)\n"
        "  threading.Thread(target=late, name=f'late {n}').start()",
        "",
    ),
    "closes descriptors": ("import os; os.close(0); os.close(1); os.close(2)", "descriptor 1"),
    "redirects descriptors": (
        "import os; f = os.open('/dev/null', os.O_WRONLY); os.dup2(f, 1); os.dup2(f, 2)",
        "descriptor 2",
    ),
    "takes the formatter away": (
        "ip = get_ipython(); ip.display_formatter = None; ip.displayhook = None",
        "display_formatter",
    ),
    "breaks logs": ("import logging; logging.getLogger = None", "logging.getLogger"),
}
"""What the code does, its text, and what the user is told of ("": nothing need be said)."""

WAIT = """
import threading
for thread in threading.enumerate():
    if thread.name.startswith("late"): thread.join()
"""
"""What a thread still prints is the cell's that runs then, whoever started it."""

PROBE = """
def _probe():
    import asyncio, os, signal, sys, threading
    ip = get_ipython()
    return {
        "streams": [type(s).__name__ for s in (sys.stdout, sys.stderr)],
        "publisher": type(ip.display_pub).__name__,
        "hooks": [sys.excepthook.__name__, threading.excepthook.__name__],
        "signals": [str(signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGTERM)],
        "alarm": signal.getitimer(signal.ITIMER_REAL)[0],
        "events": {name: len(each) for name, each in ip.events.callbacks.items()},
        "magics": {kind: len(each) > 10 for kind, each in ip.magics_manager.magics.items()},
        "handlers": [len(ip.kernel.shell_handlers), len(ip.kernel.control_handlers)],
        "limit": sys.getrecursionlimit() > 500,
        "traced": [sys.gettrace(), sys.getprofile()],
        "open": [os.path.exists(f"/proc/self/fd/{n}") for n in range(3)],
    }
import json
print(json.dumps(_probe(), default=str))
from IPython.display import display
display({"text/plain": "shown"}, raw=True)
[1, 2]
"""


class Stage:
    """The kernel, the server, and what the kernel said of itself before anything ran."""

    def __init__(self, kernel: RealKernel, server: FakeAnthropic) -> None:
        self.kernel, self.server = kernel, server
        run(kernel, "keep = 42")
        self.before = run(kernel, PROBE).text
        self.turns = 0

    def turn(self, code: str) -> Ran:
        """Have the agent run `code`; the turn ends well whatever it does."""
        if self.turns % 10 == 0:  # or a summary of the long conversation would be due some time
            run(self.kernel, "%agent /new")
        self.turns += 1
        use = Call("run_code", code=code)
        self.server.append(reply("I run it.", tools=[use]), f"Turn {self.turns} is done.")
        ran = ask(self.kernel, "go")
        assert f"Turn {self.turns} is done." in str(ran.outputs)
        return ran

    def check(self) -> None:
        """The user's own cells work as before the first turn."""
        kernel = self.kernel
        kernel.execute(WAIT)
        probe = kernel.execute(PROBE)
        assert (probe.text, probe.stderr) == (self.before, "")
        assert [out["output_type"] for out in probe.outputs][1:] == [
            "display_data",
            "execute_result",
        ]
        asked = kernel.execute("answer = input('who? ')\n!echo $answer", stdin_replies=["Ada"])
        assert (asked.questions, asked.text.strip()) == (["who? "], "Ada")
        failed = kernel.execute("import asyncio\nawait asyncio.sleep(0)\n1 / 0")
        assert [out.get("ename") for out in failed.outputs] == ["ZeroDivisionError"]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Give the kernel that the tests share."""
    folder = tmp_path_factory.mktemp("sacred")
    with FakeAnthropic() as server, agent_kernel(folder, server, MODEL) as kernel:
        yield Stage(kernel, server)
        assert not server.refused
        assert not server.unused


@pytest.mark.parametrize(("code", "told"), NASTY.values(), ids=NASTY)
def test_what_code_breaks_is_put_back_and_told(stage: Stage, code: str, told: str) -> None:
    """After the turn the user's cells work as before, and what was put back is named."""
    ran = stage.turn(code)

    assert told in ran.stderr
    assert ("put back as before" in ran.stderr) == bool(told)
    stage.check()


def test_the_kernel_is_as_before_after_a_hundred_turns(stage: Stage) -> None:
    """A hundred turns of such code in one kernel: all end well, and cells work as before."""
    pieces = [code for code, _ in NASTY.values()]
    while stage.turns < TURNS:
        stage.turn(pieces[stage.turns % len(pieces)])

    stage.check()


def test_what_is_not_put_back_is_told(stage: Stage, tmp_path: Path) -> None:
    """Another working folder may be meant, and open files too: the user is told of both."""
    moved = stage.turn(f"import os; before = os.getcwd(); os.chdir({str(tmp_path)!r})")
    assert f"The working folder is now {tmp_path}" in moved.stderr
    gone = stage.turn("import tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)")
    assert "The working folder is gone" in gone.stderr
    assert run(stage.kernel, "os.chdir(before)").ok
    stage.check()


def test_files_left_open_are_told(stage: Stage) -> None:
    """Where no file can be opened any more, the turn ends with words, and the kernel goes on."""
    code = "fs = []\ntry:\n  while True: fs.append(open('/dev/null'))\nexcept OSError: pass"
    use = Call("run_code", code=code)
    stage.server.append(reply("I run it.", tools=[use]), "Done.")
    ran = stage.kernel.execute("%agent go")

    assert "Too many files are open" in ran.stderr
    assert run(stage.kernel, "for f in fs: f.close()\nprint('closed')").text == "closed\n"
    stage.check()


def test_code_may_unload_and_reload_the_agent(tmp_path: Path) -> None:
    """What code takes out by `%unload_ext` does not come back; reloaded, nothing is there twice."""
    counts = (
        "(len(get_ipython().events.callbacks['post_run_cell']),"
        " 'agent' in get_ipython().magics_manager.magics['line'],"
        " 'comm_msg' in get_ipython().kernel.control_handlers)"
    )
    with FakeAnthropic() as server, agent_kernel(tmp_path, server, MODEL) as kernel:
        loaded = kernel.eval(counts)
        for act, after in (("reload", loaded), ("unload", (loaded[0] - 1, False, False))):
            server.append(Call("run_code", code=f"%{act}_ext jupyter_ctx"))
            stopped = kernel.execute("%agent go")
            assert "put back" not in stopped.stderr
            assert kernel.eval(counts) == after


def test_ordinary_code_is_told_nothing(stage: Stage) -> None:
    """What cells are for changes nothing of the kernel's: no word is said."""
    code = (
        "%matplotlib inline\nimport logging, warnings, random, decimal\n"
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n"
        "warnings.simplefilter('ignore')\nlogging.basicConfig()\n"
        "x = [n for n in range(10)]\nimport pandas as pd\npd.set_option('display.max_rows', 5)\n"
        "%load_ext autoreload\n%autoreload 2\n_ = 3\nawait __import__('asyncio').sleep(0)"
    )
    told = stage.turn(code).stderr
    assert told == "", told[-3_000:]
    stage.kernel.execute("%autoreload 0")
