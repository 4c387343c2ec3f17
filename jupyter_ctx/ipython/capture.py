"""Runs code inside the running cell and takes its outputs, leaving the shell as it was.

The run is a nested `shell.run_cell(store_history=False)` on the main thread. While it lasts the
shell's publisher, display hook, error display and streams are ours; afterwards every one of them is
the object it was before, whatever the code did. Output that goes around Python (`os.system`, C code
writing to a descriptor) is not taken: it appears in the cell, as from any cell.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.payload import PayloadManager

from ..config import Settings
from ..core.blocks import Json
from ..core.ports import Execution
from ..core.redact import Redactor
from .belongings import Belongings
from .collector import Collector
from .live import Live, Sink
from .nested import InterruptGuard, NestedLoop, cut_own_frames, outer_loop_kept
from .outputlog import Limits, OutputLog, StreamName
from .remote import cancel_jobs
from .spool import Spool
from .streams import CaptureHook, CapturePublisher, CaptureStream, Others

_MISSING = object()

_HISTORY_NAMES = ("_", "__", "___", "_i", "_ii", "_iii", "In", "Out", "_ih", "_oh")
"""Names of the namespace that belong to the user's history; `for _ in …` must not change them."""

CODE_LABEL = ("Code", "run by the agent")
"""What tracebacks call it: "Code run by the agent, line 2"."""

_LAST_ERROR_NAMES = ("last_type", "last_value", "last_traceback", "last_exc")
"""Where `sys` keeps the error that `%debug` and `%tb` look at; it stays the user's."""


def run_nested(
    shell: InteractiveShell,
    code: str,
    *,
    sink: Sink,
    redactor: Redactor,
    settings: Settings,
    make_spool: Callable[[], Spool] = Spool,
    loop: NestedLoop | None = None,
) -> Execution:
    """Run `code` as scratch and return what it brought; to be called on the main thread.

    `In`, `Out`, `_` and the execution count stay as they were. Output goes to `sink` while it is
    made, and into the Execution; over `settings.spool_bytes` its text goes to a spool. `loop` runs
    top-level `await` where the thread's own loop is busy (default: one for this call). An interrupt
    ends the code: `interrupted` is set. Nothing is raised: what escapes the shell becomes an error
    output.
    """
    log = OutputLog(Limits(text_bytes=settings.spool_bytes), make_spool)
    guard = InterruptGuard(Collector.__module__, shell.user_global_ns)
    collector = Collector(log, Live(sink, settings), redactor)
    with guard, contextlib.ExitStack() as borrowed:
        runner = loop or borrowed.enter_context(contextlib.closing(NestedLoop()))
        result, escaped = _run(shell, code, collector, guard, runner)
        error = _error_of(result) if escaped is None else escaped
        # Of a magic's UsageError IPython has printed the one line there is.
        is_said = collector.has_error or (escaped is None and isinstance(error, UsageError))
        if error is not None and not is_said:
            collector.exception(error, with_traceback=escaped is not None)
        collector.finish()
    interrupted = guard.interrupted or isinstance(error, KeyboardInterrupt)
    if interrupted:
        cancel_jobs()
    return Execution(
        outputs=log.outputs(),
        failed=error is not None,
        interrupted=interrupted,
        spooled=log.finish(),
    )


def _error_of(result: object) -> BaseException | None:
    """Return what an ExecutionResult says went wrong."""
    before: BaseException | None = getattr(result, "error_before_exec", None)
    during: BaseException | None = getattr(result, "error_in_exec", None)
    return during if before is None else before


def _run(
    shell: InteractiveShell,
    code: str,
    collector: Collector,
    guard: InterruptGuard,
    loop: NestedLoop,
) -> tuple[object, BaseException | None]:
    """Run the code with everything replaced; return its result and what escaped the shell."""
    belongings = Belongings(shell)
    known_builtins = dict(vars(builtins))
    live_builtins = vars(builtins)
    result: object = None
    escaped: BaseException | None = None
    replaced = contextlib.ExitStack()
    try:
        _replace_hooks(replaced, shell, code, collector, guard.check)
        replaced.enter_context(outer_loop_kept())
        if loop.is_needed(shell):
            _swap(replaced, shell, "loop_runner", loop.run)
        run_cell: Callable[..., object] = shell.run_cell
        result = guard.run(lambda: run_cell(code, store_history=False))
    except:  # noqa: E722 - the code may have deleted the very name BaseException
        escaped = sys.exc_info()[1]
    finally:
        # First the builtins, and without the help of any: what follows needs them as they were.
        for name in known_builtins:
            live_builtins[name] = known_builtins[name]
        belongings.put_back_code()
        replaced.close()
        belongings.put_back()
    if belongings.text:
        collector.tell(belongings.text)
    return result, escaped


def _replace_hooks(
    stack: contextlib.ExitStack,
    shell: InteractiveShell,
    code: str,
    collector: Collector,
    check: Callable[[], None],
) -> None:
    """Put our objects in place; closing the stack puts the old ones back, newest first."""
    for name in _LAST_ERROR_NAMES:
        _keep(stack, sys, name)
    for name in ("last_execution_result", "last_execution_succeeded", "execution_count"):
        _keep(stack, shell, name)
    _keep(stack, sys, "stdin")
    _keep(stack, shell, "displayhook")
    stack.callback(_restore_names, shell, _history_of(shell))
    others = Others()
    stack.callback(others.close)
    names: tuple[StreamName, ...] = ("stdout", "stderr")
    for stream in names:
        ours = CaptureStream(collector, check, stream, getattr(sys, stream), others)
        stack.callback(ours.detach)
        _swap(stack, sys, stream, ours)
    hook = CaptureHook(shell, collector, check, code)
    _swap(stack, sys, "displayhook", hook)
    _swap(stack, shell.display_trap, "hook", hook)
    _swap(
        stack, shell, "display_pub", CapturePublisher(collector, check, shell.display_pub, others)
    )
    _swap(stack, shell, "_get_exc_info", _exc_info_of(shell))
    _swap(stack, shell, "_showtraceback", collector.show_traceback)
    _swap(stack, shell, "payload_manager", PayloadManager())
    _swap(stack, shell, "ask_exit", _refuse_exit)
    _name_code(stack, shell.compile)
    if hasattr(shell, "_tee"):
        # IPython keeps every stream's text for its history, without a bound.
        _swap(stack, shell, "_tee", _no_tee)
    # The terminal runs `!cmd` on the screen itself; only a pipe can be captured.
    _swap(stack, shell, "system", shell.system_piped)
    stack.enter_context(_pager(shell, collector))


def _name_code(stack: contextlib.ExitStack, compiler: Any) -> None:
    """Have tracebacks name the code for what it is, not by an In[N] that the user does not have.

    Its file name is none of a cell's: of equal source, the cell would else take the run's number.
    numba and joblib know code of IPython by how the name begins.
    """

    def get_code_name(raw_code: str, transformed_code: str, number: int) -> str:
        digest = hashlib.blake2b(raw_code.encode("utf-8", "surrogatepass"), digest_size=6)
        return f"<ipython-agent-{digest.hexdigest()}>"

    known: Callable[[str], object] = compiler.format_code_name

    def format_code_name(name: str) -> object:
        return CODE_LABEL if name.startswith("<ipython-agent-") else known(name)

    def cache(transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        name = keep(transformed_code, number, raw_code)
        compiler._filename_map.pop(name, None)  # else it would be called In[N] after the run
        return name

    keep: Callable[..., str] = compiler.cache
    _swap(stack, compiler, "get_code_name", get_code_name)
    _swap(stack, compiler, "format_code_name", format_code_name)
    _swap(stack, compiler, "cache", cache)


def _keep(stack: contextlib.ExitStack, target: Any, name: str) -> None:
    """Have `target.name` put back as it is now when the stack closes."""
    traits = getattr(target, "has_trait", None)
    is_trait = traits is not None and traits(name)
    old = getattr(target, name) if is_trait else vars(target).get(name, _MISSING)
    stack.callback(_put_back, target, name, old)


def _put_back(target: Any, name: str, old: object) -> None:
    if old is not _MISSING:
        setattr(target, name, old)
    elif name in vars(target):
        delattr(target, name)


def _swap(stack: contextlib.ExitStack, target: Any, name: str, new: object) -> None:
    _keep(stack, target, name)
    setattr(target, name, new)


def _history_of(shell: InteractiveShell) -> Json:
    return MappingProxyType({name: shell.user_ns.get(name, _MISSING) for name in _HISTORY_NAMES})


def _restore_names(shell: InteractiveShell, names: Json) -> None:
    for name, value in names.items():
        if value is not _MISSING:
            shell.user_ns[name] = value
        else:
            shell.user_ns.pop(name, None)


@contextlib.contextmanager
def _pager(shell: InteractiveShell, collector: Collector) -> Iterator[None]:
    """Take what would open in a pager (`obj?`, `%psource`) as an output."""
    hooks: dict[str, object] = shell.hooks
    old = hooks.get("show_in_pager", _MISSING)
    hooks["show_in_pager"] = lambda data, *args, **kwargs: collector.paged(data)
    try:
        yield
    finally:
        if old is _MISSING:
            hooks.pop("show_in_pager", None)
        else:
            hooks["show_in_pager"] = old


def _exc_info_of(shell: InteractiveShell) -> Callable[..., object]:
    """Return the shell's own look-up of an error, without our frames in one of an interrupt."""
    look_up: Callable[..., Any] = shell._get_exc_info

    def exc_info(exc_tuple: object = None) -> object:
        kind, error, trace = look_up(exc_tuple)
        if issubclass(kind, KeyboardInterrupt):
            cut_own_frames(trace)
        return kind, error, trace

    return exc_info


def _refuse_exit() -> None:
    """Stand in for the shell's own exit: code that runs as scratch cannot end the kernel."""
    raise SystemExit("exit() ends this run only; the kernel goes on")


@contextlib.contextmanager
def _no_tee(channel: str) -> Iterator[None]:
    yield
