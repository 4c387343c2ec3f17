"""A real ipykernel in its own process, driven as any front end does: with jupyter_client.

`RealKernel` lets a test run cells, answer questions, interrupt and restart. Everything it writes
goes below the folder it is given.
"""

from __future__ import annotations

import ast
import os
import queue
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parents[1]

TIMEOUT_S = 60.0
"""How long a cell may take before the test fails: far more than any here needs."""

BROKEN_PREFIX = "does not begin as the one before"
"""What the log of a kernel says of a prompt that changed unmeant: an internal error (conftest)."""

_OUTPUTS = ("stream", "display_data", "execute_result", "error")


@dataclass
class Ran:
    """What running a cell brought.

    `reply` is the content of the execute_reply; `outputs` are nbformat outputs as a notebook would
    keep them (streams merged, updates applied, clears done); `messages` all that came on iopub.
    """

    reply: dict[str, Any] = field(default_factory=dict)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    _ids: list[str | None] = field(default_factory=list)
    _clear_next: bool = False

    @property
    def ok(self) -> bool:
        """Whether the cell succeeded."""
        return bool(self.reply.get("status") == "ok")

    @property
    def text(self) -> str:
        """What it wrote to stdout."""
        return self._stream("stdout")

    @property
    def stderr(self) -> str:
        """What it wrote to stderr."""
        return self._stream("stderr")

    def bundles(self, mime: str) -> list[Any]:
        """Return that type's values of all displays and results, in order."""
        return [out["data"][mime] for out in self.outputs if mime in out.get("data", {})]

    def _stream(self, name: str) -> str:
        return "".join(out["text"] for out in self.outputs if out.get("name") == name)

    def add(self, message: dict[str, Any]) -> None:
        """Fold one iopub message in."""
        self.messages.append(message)
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            assert BROKEN_PREFIX not in content["text"], content["text"]
        if kind == "clear_output":
            self._clear_next = True
            if not content["wait"]:
                self._clear()
        elif kind == "update_display_data":
            for at, display_id in enumerate(self._ids):
                if display_id == content["transient"]["display_id"]:
                    self.outputs[at].update(data=content["data"], metadata=content["metadata"])
        elif kind in _OUTPUTS:
            if self._clear_next:
                self._clear()
            self._append(kind, content)

    def _append(self, kind: str, content: dict[str, Any]) -> None:
        last = self.outputs[-1] if self.outputs else {}
        if kind == "stream" and last.get("name") == content["name"]:
            last["text"] += content["text"]
            return
        output = {"output_type": kind, **content}
        transient = output.pop("transient", {})
        self.outputs.append(output)
        self._ids.append(transient.get("display_id"))

    def _clear(self) -> None:
        self.outputs.clear()
        self._ids.clear()
        self._clear_next = False


class RealKernel:
    """One kernel process: `cwd` is its folder, `home` its JUPYTER_CTX_HOME.

    What the process writes outside of any cell is in `kernel.log` of the folder given.
    """

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.cwd = folder / "work"
        self.home = folder / "ctx"
        self.cwd.mkdir(parents=True, exist_ok=True)
        self._env = {**make_environment(folder), "JUPYTER_CTX_HOME": str(self.home), **(env or {})}
        self._manager = KernelManager(kernel_name="python3")
        self._manager.kernel_spec_manager.ensure_native_kernel = True
        self._log = (folder / "kernel.log").open("ab")
        self._manager.start_kernel(
            env=self._env, cwd=str(self.cwd), stdout=self._log, stderr=self._log
        )
        self.client: BlockingKernelClient = self._connect()

    def _connect(self) -> BlockingKernelClient:
        client: BlockingKernelClient = self._manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=TIMEOUT_S)
        return client

    def connect(self) -> BlockingKernelClient:
        """Return one more client of the idle kernel, whose channels are the caller's to stop.

        From now on it hears everything.
        """
        client = BlockingKernelClient(connection_file=self._manager.connection_file)
        client.load_connection_file()
        client.start_channels()
        client.wait_for_ready(timeout=TIMEOUT_S)
        return client

    def execute(
        self,
        code: str,
        timeout: float = TIMEOUT_S,
        *,
        stdin_replies: Sequence[str] = (),
        allow_stdin: bool | None = None,
        cell_id: str | None = None,
        store_history: bool = True,
    ) -> Ran:
        """Run a cell to its end. `stdin_replies` answer its questions, in order.

        `allow_stdin` defaults to whether there are replies. Raises TimeoutError.
        """
        if allow_stdin is None:
            allow_stdin = bool(stdin_replies)
        request = self.submit(
            code, allow_stdin=allow_stdin, cell_id=cell_id, store_history=store_history
        )
        return self.collect(request, timeout, stdin_replies=stdin_replies)

    def submit(
        self,
        code: str,
        *,
        allow_stdin: bool = False,
        cell_id: str | None = None,
        store_history: bool = True,
        user_expressions: Mapping[str, str] | None = None,
    ) -> str:
        """Send a cell and return the request's id for `collect`."""
        content = {
            "code": code,
            "silent": False,
            "store_history": store_history,
            "user_expressions": dict(user_expressions or {}),
            "allow_stdin": allow_stdin,
            "stop_on_error": True,
        }
        metadata = {} if cell_id is None else {"cellId": cell_id}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def collect(
        self, request: str, timeout: float = TIMEOUT_S, *, stdin_replies: Sequence[str] = ()
    ) -> Ran:
        """Wait until the request is done. Raises TimeoutError that shows what came so far."""
        ran = Ran()
        replies = iter(stdin_replies)
        for message in self._iopub(request, timeout, ran, replies):
            ran.add(message)
        ran.reply = self._reply(request, timeout)
        return ran

    def wait_for_text(self, request: str, wanted: str, timeout: float = TIMEOUT_S) -> Ran:
        """Collect until stdout holds `wanted`; the request goes on (`collect` the rest).

        A question that comes meanwhile waits for `collect`.
        """
        ran = Ran()
        for message in self._iopub(request, timeout, ran, None):
            ran.add(message)
            if wanted in ran.text:
                return ran
        raise AssertionError(f"the cell ended without {wanted!r}: {ran.outputs}")

    def eval(self, expression: str) -> Any:
        """Return the value of an expression in the kernel, by its repr; no history is made."""
        request = self.submit("", store_history=False, user_expressions={"it": expression})
        result = self.collect(request).reply["user_expressions"]["it"]
        if result["status"] != "ok":
            raise AssertionError(f"{expression}: {result['ename']}: {result['evalue']}")
        return ast.literal_eval(result["data"]["text/plain"])

    def interrupt(self) -> None:
        """Interrupt what runs, as the Stop button does."""
        self._manager.interrupt_kernel()

    def restart(self) -> None:
        """Restart the process; the namespace is empty afterwards."""
        self.client.stop_channels()
        self._manager.restart_kernel(now=True)
        self.client = self._connect()

    def kill(self) -> None:
        """End the process without a word, as a crash does; only `shutdown` may follow."""
        self._manager.signal_kernel(9)

    def shutdown(self) -> None:
        """End the process."""
        self.client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._log.close()
        told = Path(self._log.name).read_text(encoding="utf-8", errors="replace")
        assert BROKEN_PREFIX not in told, told

    def _iopub(
        self, request: str, timeout: float, ran: Ran, replies: Iterator[str] | None
    ) -> Iterator[dict[str, Any]]:
        """Yield the request's messages until it is idle, answering its questions meanwhile."""
        end = time.monotonic() + timeout
        while True:
            if replies is not None:
                self._answer(ran, replies)
            if time.monotonic() > end:
                raise TimeoutError(f"not done in {timeout} s; so far: {ran.outputs}")
            try:
                message = self.client.get_iopub_msg(timeout=0.1)
            except queue.Empty:
                if not self._manager.is_alive():
                    raise AssertionError(f"the kernel died; so far: {ran.outputs}") from None
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return
            yield message

    def _answer(self, ran: Ran, replies: Iterator[str]) -> None:
        if not self.client.stdin_channel.msg_ready():
            return
        question = self.client.get_stdin_msg(timeout=1)
        ran.questions.append(question["content"]["prompt"])
        reply = next(replies, None)
        if reply is None:
            self.interrupt()  # or the kernel waits on, and every later test with it
            raise AssertionError(f"an unexpected question: {question['content']['prompt']!r}")
        self.client.input(reply)

    def _reply(self, request: str, timeout: float) -> dict[str, Any]:
        end = time.monotonic() + timeout
        while True:
            message = self.client.get_shell_msg(timeout=max(0.1, end - time.monotonic()))
            if message["parent_header"].get("msg_id") == request:
                content: dict[str, Any] = message["content"]
                return content


@contextmanager
def running_kernel(folder: Path, env: Mapping[str, str] | None = None) -> Iterator[RealKernel]:
    """Give a kernel that is shut down at the end."""
    kernel = RealKernel(folder, env)
    try:
        yield kernel
    finally:
        kernel.shutdown()


def make_environment(folder: Path) -> dict[str, str]:
    """Return an environment of its own: no key, no settings of the person who runs the tests."""
    own = {
        "HOME": "home",
        "IPYTHONDIR": "ipython",
        "JUPYTER_CONFIG_DIR": "jupyter-config",
        "JUPYTER_DATA_DIR": "jupyter-data",
        "JUPYTER_RUNTIME_DIR": "jupyter-runtime",
        "MPLCONFIGDIR": "matplotlib",
    }
    secret = ("ANTHROPIC_", "OPENAI_", "JUPYTER_CTX_", "JPY_", "PYTEST_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(secret)}
    for name, child in own.items():
        path = folder / child
        path.mkdir(parents=True, exist_ok=True)
        env[name] = str(path)
    paths = [str(ROOT), *filter(None, [env.get("PYTHONPATH")])]
    return {**env, "PYTHONPATH": os.pathsep.join(paths), "PATH": _path(env.get("PATH", ""))}


def _path(path: str) -> str:
    """Put this Python's own tools first."""
    return os.pathsep.join([str(Path(sys.executable).parent), path])
