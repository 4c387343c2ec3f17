"""What the tests of captured runs share; real kernels import it too."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jupyter_ctx.config import Settings
from jupyter_ctx.core.blocks import Json
from jupyter_ctx.core.ports import Execution
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.ipython.capture import run_nested
from jupyter_ctx.ipython.live import Sink
from jupyter_ctx.ipython.nested import NestedLoop
from jupyter_ctx.ipython.outputlog import StreamName
from jupyter_ctx.ipython.spool import Spool

T = TypeVar("T")

SECRET = "sk-ant-api03-secret"


@dataclass
class ListSink:
    """Keeps what it is asked to show; `calls` are (method, arguments) in order."""

    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    closed: int = 0

    def stream(self, name: StreamName, text: str) -> None:
        self.calls.append(("stream", (name, text)))

    def display(self, data: Json, metadata: Json, transient: Json, update: bool) -> None:
        self.calls.append(("display", (data, metadata, transient, update)))

    def clear(self, wait: bool) -> None:
        self.calls.append(("clear", (wait,)))

    def error(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        self.calls.append(("error", (ename, evalue, tuple(traceback))))

    def close(self) -> None:
        self.closed += 1

    @property
    def text(self) -> str:
        """All text shown, of both streams."""
        return "".join(args[1] for kind, args in self.calls if kind == "stream")

    @property
    def kinds(self) -> list[str]:
        """The methods called, in order."""
        return [kind for kind, _ in self.calls]


class CellSink:
    """Shows the output in the cell, through the publisher and streams in place before the run."""

    def __init__(self, shell: Any) -> None:
        self._publisher = shell.display_pub
        self._streams = {"stdout": sys.stdout, "stderr": sys.stderr}

    def stream(self, name: StreamName, text: str) -> None:
        self._streams[name].write(text)  # which the kernel sends in batches: one a line may be lost

    def display(self, data: Json, metadata: Json, transient: Json, update: bool) -> None:
        self.close()
        self._publisher.publish(dict(data), dict(metadata), transient=transient, update=update)

    def clear(self, wait: bool) -> None:
        self.close()
        self._publisher.clear_output(wait)

    def error(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        self._streams["stderr"].write("\n".join(traceback))

    def close(self) -> None:
        """Show what has waited."""
        for stream in self._streams.values():
            stream.flush()


@dataclass
class Scratch:
    """Runs code nested in a shell; spools go to `folder`."""

    shell: InteractiveShell
    folder: Path
    secrets: Iterable[str] = ()
    loop: NestedLoop | None = None

    def run(
        self,
        code: str,
        *,
        sink: Sink | None = None,
        make_spool: Callable[[], Spool] | None = None,
        **settings: Any,
    ) -> Execution:
        return run_nested(
            self.shell,
            code,
            sink=sink or ListSink(),
            redactor=Redactor(self.secrets),
            settings=Settings(**settings),
            make_spool=make_spool or (lambda: open_spool(self.folder)),
            loop=self.loop,
        )


def open_spool(folder: Path) -> Spool:
    """Return a spool to a new file in `folder`, made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder)
    return Spool(handle, Path(name))


@contextmanager
def plain_shell(folder: Path) -> Iterator[InteractiveShell]:
    """Give a plain shell of its own, the one `get_ipython()` returns; it writes no history."""
    InteractiveShell.clear_instance()
    config = Config(
        {"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "nocolor"}}
    )
    shell: Any = InteractiveShell.instance(config=config, ipython_dir=str(folder))
    # IPython keeps this one on the class: another shell's outputs may stand in it.
    shell.history_manager.outputs.clear()
    try:
        yield shell
    finally:
        InteractiveShell.clear_instance()


class DirectCaller:
    """A MainCaller for tests that are on the main thread already."""

    async def call(self, fn: Callable[[], T], /) -> T:
        return fn()


def stream_text(execution: Execution, name: str = "stdout") -> str:
    """Return a stream's text of all outputs."""
    return "".join(str(out["text"]) for out in execution.outputs if out.get("name") == name)


def kinds(execution: Execution) -> list[str]:
    """Return the types of the outputs; a stream is called by its name."""
    return [str(out.get("name", out["output_type"])) for out in execution.outputs]


def plain_texts(execution: Execution) -> list[str]:
    """Return the plain text of displays and results."""
    return [out["data"]["text/plain"] for out in execution.outputs if "data" in out]  # type: ignore[index]  # JSON
