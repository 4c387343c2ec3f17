"""`/hooks` and `/tools`, and what loads the hooks of a session from the settings files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..errors import PromptError
from ..hooks import Hook, HookCommands, read_hooks
from . import words
from .plaintext import on_one_line
from .reports import Report, join, table

if TYPE_CHECKING:
    from ..hooks.commands import Setting
    from ..session import Session
    from ..surroundings import Folder
    from .commands import Host, Shown

MOST_CHARS = 120
"""So much of a command is shown in the table; /trust shows the whole of it."""
NONE_TEXT = (
    "No hook is set. Commands stand under hooks in settings.json of the agent's home, or in a "
    "trusted project's .jupyter_ctx/settings.json (/trust); Python callables are added by "
    "session.hooks.add."
)
NESTED_TEXT = "This kernel runs within a hook, so none of these commands runs here."
RUNS, WAITS = "runs", "waits for /trust"
BUILT_IN = "built in"


class LoadedHooks:
    """The commands of a session as they stand in the files, read anew between turns.

    `folder` gives the project's folder, which says what is trusted of it.
    """

    def __init__(
        self, folder: Callable[[], Folder], setting: Setting, environ: Mapping[str, str]
    ) -> None:
        self._folder = folder
        self.commands = HookCommands((), setting, environ)
        self.waiting: tuple[Hook, ...] = ()
        """What is not trusted, as it would run."""
        self.faults: tuple[str, ...] = ()
        """What is wrong with the files, a sentence each."""
        self.load()

    def load(self) -> None:
        """Read the files; what is trusted runs from the next event on."""
        running: list[Hook] = []
        waiting: list[Hook] = []
        faults: list[str] = []
        for found in self._folder().extensions(untrusted=True)["hooks"]:
            hooks, wrong = read_hooks(found.value, found.source)
            (running if found.is_trusted else waiting).extend(hooks)
            faults += wrong
        self.commands.use(running)
        self.waiting, self.faults = tuple(waiting), tuple(faults)


def hooks(host: Host, argument: str) -> Shown:
    """Show what runs at which event, from where, and whether it is in force."""
    from .commands import Shown

    if argument:
        raise PromptError(f"/hooks takes nothing, not {argument[:40]!r}.")
    session, loaded = host.session, host.hooks
    if loaded is not None:
        loaded.load()
    rows = [*_command_rows(loaded), *_python_rows(session)]
    faults = "\n".join(map(on_one_line, loaded.faults if loaded else ()))
    if not rows:
        return Shown(*join(NONE_TEXT, faults))
    running = sum(row[-1] == RUNS for row in rows)
    head = ("Event", "For", "Runs", "From", "State")
    nested = NESTED_TEXT if loaded is not None and loaded.commands.is_nested else ""
    lead = f"{words.count(running, 'hook')} in force."
    return Shown(*join(lead, table(head, rows, right=5), nested, faults))


def _command_rows(loaded: LoadedHooks | None) -> list[tuple[str, ...]]:
    if loaded is None:
        return []
    found = [(RUNS, loaded.commands.hooks), (WAITS, loaded.waiting)]
    return [_row(hook, state) for state, some in found for hook in some]


def _row(hook: Hook, state: str) -> tuple[str, ...]:
    shown = on_one_line(hook.command)
    shown = shown if len(shown) <= MOST_CHARS else f"{shown[: MOST_CHARS - 1]}…"
    if hook.keys:
        shown += f" (gets {', '.join(map(on_one_line, hook.keys))})"
    return (hook.event, on_one_line(hook.matcher) or "all", shown, on_one_line(hook.source), state)


def _python_rows(session: Session) -> list[tuple[str, ...]]:
    return [
        (hook.event, on_one_line(hook.matcher) or "all", on_one_line(hook.label), "Python", RUNS)
        for hook in session.hooks.callables
    ]


def tools(host: Host, argument: str) -> Shown:
    """Show the tools of the session, what each asks for, and where it comes from."""
    from .commands import Shown

    if argument:
        raise PromptError(f"/tools takes nothing, not {argument[:40]!r}.")
    session = host.session
    prefix = session.transcript.prefix
    told = None if prefix is None else {str(tool.get("name")) for tool in prefix.tools}
    specs = {spec.name: spec for spec in session.tool_specs}
    window = session.context()["window_tokens"]
    rows = []
    for name in sorted(specs.keys() | (told or set())):
        spec = specs.get(name)
        asks = "not here any more" if spec is None else "no" if spec.reads_only else "yes"
        state = "yes" if told is None or name in told else "from the next compaction on"
        if spec is not None and isinstance(window, int) and window < spec.least_window:
            state = f"on windows from {spec.least_window:,} tokens on"
        source = host.tool_sources.get(name, BUILT_IN)
        rows.append((name, asks, on_one_line(source), state))
    lead = f"{words.count(len(rows), 'tool')}; the mode of /permissions says which of them ask."
    report: Report = table(("Tool", "Asks", "From", "Known to the model"), rows, right=4)
    return Shown(*join(lead, report))
