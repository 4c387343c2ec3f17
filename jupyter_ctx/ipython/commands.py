"""The slash commands: one table, from which help, completion and errors are made."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, get_args

from ..config import PermissionMode
from ..core.context import CONTEXT_MIME
from ..core.events import CompactionFailed, CtxEvent
from ..errors import ConfigError, CtxError, PromptError
from . import reports, wayback, words
from .markdown import escape

if TYPE_CHECKING:
    from ..session import Session
    from ..surroundings import Folder
    from ..tools.mcp import ServerReport
    from .exports import Folders
    from .hooking import LoadedHooks
    from .permissions import AskPermissions
    from .sessions import Shelf

MODES: tuple[str, ...] = get_args(PermissionMode)
MODE_TEXTS = {
    "ask": "asks before code runs, or a cell or file is changed",
    "edits": "edits of cells and files run unasked; code, running and deleting cells ask",
    "auto": "nothing asks but files that tell agents what to do, and hidden ones",
    "plan": "only reading is allowed",
}
SUMMARY_MIME = "application/vnd.jupyter-ctx.summary+json"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a command shows: Markdown that is safe, the same as plain text, JSON for programs."""

    markdown: str
    text: str
    json: Mapping[str, object] = field(default_factory=dict)


class Host(Protocol):
    """What commands act on: the agent of one kernel."""

    @property
    def session(self) -> Session:
        """The kernel's session; started or resumed if there is none yet."""
        ...

    @property
    def permissions(self) -> AskPermissions:
        """The rules of this session."""
        ...

    @property
    def permission_mode(self) -> PermissionMode:
        """The mode in force."""
        ...

    @property
    def on_event(self) -> Callable[[CtxEvent], None]:
        """Shows events in the running cell."""
        ...

    def put_setting(self, name: str, value: object) -> None:
        """Set a setting for this kernel. Raises ConfigError."""
        ...

    def start_new(self) -> Session:
        """Leave the session and start another."""
        ...

    def resume(self, session_id: str | None) -> Session:
        """Go on with a session, None: the last one of this folder. Raises StoreError."""
        ...

    @property
    def sessions(self) -> Shelf:
        """The stored sessions."""
        ...

    def known_models(self) -> Sequence[str]:
        """Return the names of models that can be chosen."""
        ...

    def find_lack(self, name: str) -> CtxError | None:
        """Return why a model cannot be used, as far as that is known; None: nothing is missing."""
        ...

    @property
    def folder(self) -> Folder:
        """The project's folder, and what it and the home add. Raises ConfigError."""
        ...

    @property
    def servers(self) -> Sequence[ServerReport]:
        """The MCP servers of the session as they stand now. Raises CtxError."""
        ...

    @property
    def hooks(self) -> LoadedHooks | None:
        """The commands of the settings files that run as hooks, None without a session."""
        ...

    @property
    def tool_sources(self) -> Mapping[str, str]:
        """Who brought each tool that is not built in, by the tool's name."""
        ...

    def restart_server(self, name: str) -> str:
        """Reach an MCP server again and return how that came out. Raises ToolError."""
        ...

    @property
    def export_folders(self) -> Folders:
        """Where exports may be written."""
        ...

    def show_panel(self) -> None:
        """Show the panel below the running cell. Raises PromptError where there is none."""
        ...

    def find_faults(self) -> Sequence[reports.Finding]:
        """Look at everything a turn needs."""
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `run` gets the host and the text behind the name.

    `choices` are what its argument may become, for completion; they may have several words.
    """

    name: str
    usage: str
    help: str
    example: str
    run: Callable[[Host, str], Shown | None]
    choices: Callable[[Host], Sequence[str]] = lambda host: ()


def parse(text: str) -> tuple[Command, str]:
    """Return the command of a text that starts with `/`, and its argument.

    Raises PromptError that lists near names.
    """
    name, *rest = text.strip().split(maxsplit=1)
    argument = rest[0] if rest else ""
    command = COMMANDS.get(name[1:].lower())
    if command is None:
        near = difflib.get_close_matches(name[1:].lower(), COMMANDS, 3, 0.5)
        hint = f" Nearest: {', '.join('/' + one for one in near)}." if near else ""
        raise PromptError(f"There is no command {name[:40]}.{hint} `%agent /help` lists all.")
    return command, argument.strip()


def complete(host: Host, text: str) -> list[str]:
    """Return what the last word of a begun command may become."""
    name, *said = re.split(r"\s+", text.lstrip())
    if not said:
        return [f"/{one}" for one in COMMANDS if one.startswith(name[1:].lower())]
    command = COMMANDS.get(name[1:].lower())
    if command is None:
        return []
    *before, begun = said
    found = (choice.split(" ") for choice in command.choices(host))
    fit = (one for one in found if one[: len(before)] == before and len(one) > len(before))
    return [*dict.fromkeys(one[len(before)] for one in fit if one[len(before)].startswith(begun))]


# What they do -----------------------------------------------------------------------------------


def _help(host: Host, argument: str) -> Shown:
    rows = [(c.usage, c.help, f"%agent {c.example}") for c in COMMANDS.values()]
    lead = "`%agent TEXT` asks. A text that starts with `/` is a command:"
    width = max(len(usage) for usage, _, _ in rows)
    text = "\n".join(f"{usage:<{width}}  {what}" for usage, what, _ in rows)
    table = [f"| `{usage}` | {escape(what)} | `{example}` |" for usage, what, example in rows]
    head = ["| Command | Does | Example |", "| --- | --- | --- |"]
    return Shown("\n".join([lead, "", *head, *table]), f"{lead.replace('`', '')}\n{text}")


def _context(host: Host, argument: str) -> Shown:
    session = host.session
    context = session.context()
    report = reports.context_report(context, session.settings.window_tokens, session.preparation)
    return Shown(*report, {CONTEXT_MIME: context})


def _cost(host: Host, argument: str) -> Shown:
    return Shown(*reports.cost_report(host.session.cost()))


def _compact(host: Host, argument: str) -> None:
    show = host.on_event

    def see(event: CtxEvent) -> None:
        if not isinstance(event, CompactionFailed):  # that becomes the error of the cell
            show(event)

    host.session.compact(argument, on_event=see)


def _summary(host: Host, argument: str) -> Shown:
    session = host.session
    act, *rest = argument.split(maxsplit=1) or [""]
    if act.lower() == "undo":
        return _summary_undo(session, rest[0] if rest else "")
    if act.lower() == "edit":
        edited = session.edit_summary(rest[0] if rest else "")
        return _said(
            f"The summary of compaction {edited.n} is edited by you.",
            wayback.anew_line(session),
            *_told(session),
        )
    if argument and not argument.isdecimal():
        raise PromptError(
            f"/summary takes the number of a compaction, undo or edit TEXT, not {argument[:40]!r}."
        )
    entry = session.find_compaction(int(argument) if argument else None)
    found = None if entry is None else session.summary(entry.n)
    if entry is None or found is None:
        there = len(session.transcript.compactions)
        if not there:
            raise PromptError("This session has no compaction yet.")
        raise PromptError(f"This session has no compaction {argument}; it has 1 to {there}.")
    active = session.transcript.active_compaction
    is_newest = active is not None and active.n == entry.n
    price = wayback.undo_line(session, session.plan_undo()) if is_newest else ""
    report = reports.summary_report(found, session.missing_names(entry.n))
    return Shown(*reports.join(report, price), {SUMMARY_MIME: found})


def _summary_undo(session: Session, number: str) -> Shown:
    if number and not number.isdecimal():
        raise PromptError(f"/summary undo takes the number of a compaction, not {number[:40]!r}.")
    undo = session.undo_summary(int(number) if number else None)
    back = words.count(undo.messages, "message") + (" stand" if undo.messages > 1 else " stands")
    lines = [
        f"Compaction {undo.entry.n} is undone: {back} in its place again.",
        wayback.anew_line(session, undo.tokens),
    ]
    if session.is_compaction_due:
        lines.append("They leave too little room, so the next call is preceded by a compaction.")
    return _said(*lines, *_told(session))


def _rewind(host: Host, argument: str) -> Shown:
    session = host.session
    if not argument:
        return Shown(*wayback.turns_report(session))
    if not argument.isdecimal():
        raise PromptError(f"/rewind takes the number of a turn, not {argument[:40]!r}.")
    rewind = session.rewind(int(argument))
    gone = words.count(len(rewind.turns), "turn")
    lines = [
        f"The conversation is again as it was before turn {rewind.entry.turn}; {gone} taken out.",
        *wayback.put_back_lines(session, rewind),
        wayback.ran_line(rewind),
        wayback.rewound_line(session, rewind),
    ]
    return _said(*lines, *_told(session))


def _undo(host: Host, argument: str) -> Shown:
    session = host.session
    if argument and not argument.isdecimal():
        raise PromptError(f"/undo takes the number of an edit, not {argument[:40]!r}.")
    undo = session.undo(int(argument) if argument else None)
    return Shown(*reports.join(wayback.undo_report(undo), *_told(session)))


def _edit_numbers(host: Host) -> Sequence[str]:
    transcript = host.session.transcript
    numbers = (entry.n for entry in reversed(transcript.edits))
    return [str(n) for n in numbers if n not in transcript.undone_edits]


def _turn_numbers(host: Host) -> Sequence[str]:
    return [str(n) for n in reversed(host.session.transcript.turns)]


def _pin(host: Host, argument: str) -> Shown:
    session = host.session
    made = session.pin(argument) if argument else None
    report = reports.pins_report(session.pins, made)
    return Shown(*reports.join(report, *_told(session)))


def _unpin(host: Host, argument: str) -> Shown:
    session = host.session
    if not argument.isdecimal():
        there = ", ".join(map(str, sorted(session.pins)))
        has = f"the pins are {there}" if there else "this session has none"
        raise PromptError(f"/unpin takes the number of a pin; {has}.")
    text = session.unpin(int(argument))
    lead = f"Pin {int(argument)} is off; the model hears of it with the next prompt."
    return Shown(*reports.join(lead, text, *_told(session)))


def _pin_numbers(host: Host) -> Sequence[str]:
    return [str(n) for n in sorted(host.session.pins)]


def _told(session: Session) -> list[str]:
    """Return what went wrong on the side (a store that cannot be written), in words."""
    return [f"{note.title} {note.detail}".strip() for note in session.take_notes()]


def _budget(host: Host, argument: str) -> Shown:
    session = host.session
    wanted = argument.lower().replace(",", "").replace("_", "")
    if wanted == "off":
        session.budget_tokens = 0
    elif wanted.isdecimal() and wanted.isascii() and int(wanted):
        session.budget_tokens = int(wanted)
    elif wanted:
        raise PromptError(f"/budget takes a number of tokens or off, not {argument[:40]!r}.")
    tokens = session.budget_tokens
    if not tokens:
        return _said("No turn budget: a turn ends when the model ends it.")
    return _said(
        f"Turn budget: {tokens:,} tokens written by the model.",
        "A turn that ends below 90 % of it is asked to go on with what is left. "
        "/budget off ends that.",
    )


def _new(host: Host, argument: str) -> Shown:
    session = host.start_new()
    return _said(f"New session {session.id}. The variables stay; the conversation is empty.")


def _resume(host: Host, argument: str) -> Shown:
    from .sessions import find_session

    session = host.resume(find_session(host.sessions, argument) if argument else None)
    turns = words.count(session.transcript.turn, "turn")
    return _said(f"Resumed session {session.id}: {turns} so far.")


def _sessions(host: Host, argument: str) -> Shown:
    from .sessions import show_sessions

    return show_sessions(host, argument)


def _session_choices(host: Host) -> Sequence[str]:
    from .sessions import session_choices

    return session_choices(host)


def _permissions(host: Host, argument: str) -> Shown:
    act, *rest = argument.lower().split() or [""]
    if act == "revoke":
        host.permissions.revoke(_rule_number(host, rest))
    elif act in MODES and not rest:
        host.put_setting("permissions", act)
    elif act:
        raise PromptError(
            f"There is no mode {argument[:40]!r}; use one of {', '.join(MODES)}, or revoke."
        )
    now = host.permission_mode
    rules = host.permissions.rules
    lines = [f"Permissions: {now} ({MODE_TEXTS[now]})."]
    if not rules:
        return _said(*lines, "Allowed for this session: nothing.")
    lines.append("Allowed for this session:")
    lines += [f"{n}. {rule}" for n, rule in enumerate(rules, start=1)]
    return _said(*lines, "/permissions revoke N takes one back, /permissions revoke all every one.")


def _rule_number(host: Host, given: Sequence[str]) -> int | None:
    """Return which rule is to go, None: all. Raises PromptError if that is not said."""
    match given:
        case ["all"]:
            return None
        case [number] if number.isdecimal() and number.isascii():
            return int(number)
    rules = host.permissions.rules
    there = f"the rules are 1 to {len(rules)}" if rules else "there is no rule"
    raise PromptError(f"/permissions revoke takes the number of a rule or all; {there}.")


def _permission_choices(host: Host) -> Sequence[str]:
    numbers = range(1, len(host.permissions.rules) + 1)
    return (*MODES, *(f"revoke {one}" for one in ("all", *numbers)))


def _model(host: Host, argument: str) -> Shown:
    asks = argument.endswith("?")
    try:
        session = host.session
    except ConfigError as error:
        if error.name != "model" or not argument or asks:
            raise
        host.put_setting("model", argument)  # the way out of a setting that names no usable model
        session = host.session
    if asks:
        name = argument.rstrip("? ")
        lines = wayback.switch_lines(session, session.plan_switch(name))
        return _said(*lines[:-1], *_lack_lines(host, name), lines[-1])
    before = session.model_name
    if argument:
        session.switch_model(argument)
        host.put_setting("model", argument)
    name = session.model_name
    switched = name != before
    is_known = _knows(host, name) or session.has_heard(name)
    lines = wayback.model_lines(session, is_known=is_known) + _lack_lines(host, name)
    if switched:
        lines += wayback.switched_lines(session, before)
    if argument:
        return _said(*lines)
    said = _said(*lines)
    report = wayback.models_report(session, list_models(host))
    return Shown(*reports.join((said.markdown, said.text), report))


def list_models(host: Host) -> list[wayback.Choice]:
    """Return the models that can be chosen: that in use, that of the last answer, the others."""
    session = host.session
    first = filter(None, (session.model_name, session.last_speaker))
    return [
        wayback.Choice(session.plan_switch(one, checks=False), host.find_lack(one))
        for one in dict.fromkeys((*first, *host.known_models()))
    ]


def _lack_lines(host: Host, model: str) -> list[str]:
    lack = host.find_lack(model)
    return [] if lack is None else [str(lack)]


def _knows(host: Host, model: str) -> bool:
    """Whether this version knows the model, with or without a date behind its name."""
    return re.sub(r"-20\d{6}$", "", model) in host.known_models()


def _export(host: Host, argument: str) -> Shown:
    from .exports import run_export

    return run_export(host, argument)


def _panel(host: Host, argument: str) -> None:
    host.show_panel()


def _doctor(host: Host, argument: str) -> Shown:
    return Shown(*reports.doctor_report(host.find_faults()))


def _plan(host: Host, argument: str) -> Shown:
    from .keeping import plan

    return plan(host, argument)


def _memory(host: Host, argument: str) -> Shown:
    from .keeping import memory

    return memory(host, argument)


def _trust(host: Host, argument: str) -> Shown:
    from .trusting import trust

    return trust(host, argument)


def _skills(host: Host, argument: str) -> Shown:
    from .trusting import skills

    return skills(host, argument)


def _hooks(host: Host, argument: str) -> Shown:
    from .hooking import hooks

    return hooks(host, argument)


def _tools(host: Host, argument: str) -> Shown:
    from .hooking import tools

    return tools(host, argument)


def _mcp(host: Host, argument: str) -> Shown:
    from .mcp import mcp

    return mcp(host, argument)


def _server_choices(host: Host) -> Sequence[str]:
    from .mcp import server_choices

    return server_choices(host)


def _said(*lines: str) -> Shown:
    return Shown("  \n".join(escape(line) for line in lines), "\n".join(lines))


_ALL = (
    Command("help", "/help", "all commands, with examples", "/help", _help),
    Command("context", "/context", "what fills the window, by part", "/context", _context),
    Command(
        "cost",
        "/cost",
        "tokens by kind, money, cache reads, and misses with their reason",
        "/cost",
        _cost,
    ),
    Command(
        "compact",
        "/compact [FOCUS]",
        "compact now; the focus shapes the summary",
        "/compact keep the SQL",
        _compact,
    ),
    Command(
        "summary",
        "/summary [N]",
        "show compaction N and what it replaced; undo takes the newest back, edit TEXT rewrites it",
        "/summary undo",
        _summary,
        lambda host: ("undo", "edit"),
    ),
    Command(
        "rewind",
        "/rewind [N]",
        "go back to before turn N, with the agent's edits of cells and files since; without N, "
        "list turns and the price",
        "/rewind 3",
        _rewind,
        _turn_numbers,
    ),
    Command(
        "undo",
        "/undo [N]",
        "undo the agent's last edit of a cell or file, or edit N",
        "/undo",
        _undo,
        _edit_numbers,
    ),
    Command(
        "pin",
        "/pin [TEXT]",
        "keep a text verbatim through every compaction; without one, list what is pinned",
        "/pin Amounts are in cents",
        _pin,
    ),
    Command("unpin", "/unpin N", "take pin N off", "/unpin 1", _unpin, _pin_numbers),
    Command(
        "plan",
        "/plan",
        "show the plan; add TEXT, done N, next N, remove N, edit LINES and clear change it",
        "/plan done 2",
        _plan,
        lambda host: ("add", "done", "next", "remove", "edit", "clear"),
    ),
    Command(
        "memory",
        "/memory",
        "show what is kept across sessions; add TEXT, edit N TEXT and forget N change it, "
        "undo takes out what was kept last",
        "/memory forget 1",
        _memory,
        lambda host: ("add", "edit", "forget", "undo"),
    ),
    Command(
        "budget",
        "/budget [TOKENS]",
        "token budget for each turn, so that long work goes on until all is done; or off",
        "/budget 200,000",
        _budget,
        lambda host: ("off",),
    ),
    Command("new", "/new", "start another session", "/new", _new),
    Command(
        "sessions",
        "/sessions [TEXT]",
        "list sessions, or find them by title and prompts; full TEXT searches every message; "
        "delete ID, trash, restore ID",
        "/sessions churn",
        _sessions,
        _session_choices,
    ),
    Command(
        "resume",
        "/resume [ID or TEXT]",
        "go on with a session, by its id or words of its title and prompts; without them the last "
        "one of this folder",
        "/resume churn",
        _resume,
        lambda host: host.sessions.ids(),
    ),
    Command(
        "permissions",
        "/permissions [MODE]",
        "show or set what asks first: ask, edits, auto, plan; revoke N or all takes a rule back",
        "/permissions plan",
        _permissions,
        _permission_choices,
    ),
    Command(
        "model",
        "/model [NAME]",
        "show the model and what a switch to each other would cost; NAME? tells of one, NAME "
        "switches",
        "/model demo",
        _model,
        lambda host: host.known_models(),
    ),
    Command(
        "trust",
        "/trust [allow [N …]]",
        "show what this folder would add; allow puts it in force as shown, revoke ends that",
        "/trust",
        _trust,
        lambda host: ("allow", "revoke"),
    ),
    Command(
        "skills", "/skills", "the skills there are, from where, in force or not", "/skills", _skills
    ),
    Command(
        "hooks", "/hooks", "what runs at which event, from where, in force or not", "/hooks", _hooks
    ),
    Command(
        "tools", "/tools", "the tools, which of them ask, and who brought each", "/tools", _tools
    ),
    Command(
        "mcp",
        "/mcp",
        "the MCP servers: state, tools, and why one is not there; restart NAME reaches one again",
        "/mcp",
        _mcp,
        _server_choices,
    ),
    Command(
        "export",
        "/export [PATH]",
        "write the session to a file: a notebook (.ipynb), Markdown (.md) or its lines (.jsonl)",
        "/export analysis.ipynb",
        _export,
    ),
    Command("panel", "/panel", "show the panel below the cell", "/panel", _panel),
    Command("doctor", "/doctor", "look for faults, and what to do about each", "/doctor", _doctor),
)
COMMANDS: Mapping[str, Command] = {command.name: command for command in _ALL}
