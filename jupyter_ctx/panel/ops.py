"""What a page may ask, by name: the table of operations.

An operation gets service, call and arguments; it returns the result, or None if it answers later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ..core.blocks import Image, Text, title_of
from ..core.counts import image_tokens
from ..core.events import CompactionFailed, CompactionFinished, CtxEvent
from ..errors import BusyError, CompactionError, ConfigError, CtxError, PromptError
from ..ipython import commands, wayback
from ..ipython.mentions import find_begun, parse
from .calls import Call, RefusedError
from .prompts import MAX_IMAGES, MAX_PROMPT_CHARS, Prompt, Work, read_images
from .record import record_of
from .wire import Item, cut, memory_changed, plan_json

if TYPE_CHECKING:
    from ..core.rewind import Rewind
    from ..session import Session
    from .service import PanelService

Args: TypeAlias = Mapping[str, Any]
Result: TypeAlias = Mapping[str, object]
Op: TypeAlias = Callable[["PanelService", Call, Args], Result | None]
Made = TypeVar("Made")

MOST_ITEM_CHARS = 400_000
"""So long the items of one answer are together, as JSON; older turns are asked for by `earlier`."""

MOST_TURNS = 200
MOST_FACTS = 100
MOST_COMPLETIONS = 100


# Arguments --------------------------------------------------------------------------------------


def _text(args: Args, name: str, default: str | None = None, most: int = 100_000) -> str:
    value = args.get(name, default)
    if not isinstance(value, str) or len(value) > most:
        raise RefusedError("bad", f"`{name}` is a text of at most {most:,} characters.")
    return value


def _number(args: Args, name: str, default: int | None = None, least: int = 0) -> int:
    value = args.get(name, default)
    if type(value) is not int or value < least:
        raise RefusedError("bad", f"`{name}` is a whole number from {least} on.")
    return value


def _flag(args: Args, name: str) -> bool:
    value = args.get(name)
    if not isinstance(value, bool):
        raise RefusedError("bad", f"`{name}` is true or false.")
    return value


def _session(service: PanelService) -> Session:
    session = service.agent.current
    if session is None:
        raise RefusedError("none", "There is no session yet.")
    return session


def _no_turn(session: Session) -> None:
    if session.is_running:
        raise BusyError("A turn is running; wait for it or stop it first.")


# The conversation -------------------------------------------------------------------------------


def _open(service: PanelService, call: Call, args: Args) -> Result | None:
    turns = min(_number(args, "turns", 30, 1), MOST_TURNS)
    service.note_page(call)

    def answer() -> None:
        try:
            _ = service.agent.session  # opens it; the gauge counts what goes with any prompt
            service.show_context()
            service.answer(call, _opened(service, turns))
        except Exception as error:
            service.refuse(call, error)

    if service.agent.current is None:
        service.on_main(call, answer)
        return None
    return _opened(service, turns)


def _opened(service: PanelService, turns: int) -> Result:
    """Return all a page needs to begin with; what is told from `seq` on comes after it."""
    session = _session(service)
    snapshot = service.log.snapshot()
    items, first, has_earlier = _items(session, snapshot.turns, None, turns)
    return {
        "epoch": service.log.epoch,
        "seq": snapshot.seq,
        "session": service.describe_session(),
        "items": items,
        "first_turn": first,
        "has_earlier": has_earlier,
        "queue": service.queue,
        "question": service.questions.current,
        "plan": plan_json(session.plan),
        "is_running": service.is_running,
        "is_kernel_awaited": service.waits_for_kernel,
        "commands": [
            {"name": one.name, "usage": one.usage, "help": one.help}
            for one in commands.COMMANDS.values()
        ],
        "models": list(service.agent.known_models()),
    }


def _earlier(service: PanelService, call: Call, args: Args) -> Result:
    turns = min(_number(args, "turns", 30, 1), MOST_TURNS)
    before = _number(args, "before", None, 1)
    snapshot = service.log.snapshot()
    items, first, has_earlier = _items(_session(service), snapshot.turns, before, turns)
    return {"items": items, "first_turn": first, "has_earlier": has_earlier}


RECORD_TURNS = 30
"""So many turns stand in the record of the conversation."""


def record(service: PanelService) -> tuple[str, str]:
    """Return the conversation's newest turns as Markdown that is safe, and as text."""
    session = service.agent.current
    if session is None:
        return record_of((), False)
    items, _, has_earlier = _items(session, service.log.snapshot().turns, None, RECORD_TURNS)
    return record_of(items, has_earlier)


def _items(
    session: Session, told: Mapping[int, Sequence[Item]], before: int | None, turns: int
) -> tuple[list[Item], int | None, bool]:
    """Return the items of the newest `turns` turns before `before`, oldest first.

    With them the first turn's number, None if there is none, and whether there are earlier ones.
    """
    from . import history, lookups

    stored, has_earlier = history.turn_numbers(session, before, turns)
    numbers = sorted({*stored, *(n for n in told if before is None or n < before)})
    chosen = numbers[-turns:]
    missing = history.items_by_turn(session, [n for n in chosen if n not in told])
    pages = [told[n] if n in told else missing.get(n, []) for n in chosen]
    items, kept = lookups.fit_turns(pages, MOST_ITEM_CHARS)
    first = chosen[-kept] if kept else None
    return items, first, has_earlier or kept < len(numbers)


def _submit(service: PanelService, call: Call, args: Args) -> Result:
    from .service import new_id

    text = _text(args, "text", most=MAX_PROMPT_CHARS)
    given = args.get("images", [])
    if not isinstance(given, list):
        raise RefusedError("bad", "`images` is a list.")
    if not text.strip():
        raise RefusedError("refused", "The prompt is empty.")
    if text.strip().lower() == "/stop":
        return {"id": "", "queued": False, **_stop(service, call, {})}
    images, labels = read_images(given)
    if text.lstrip().startswith("/"):
        commands.parse(text)  # an unknown command is refused at once
    prompt = Prompt(new_id(), call.client, text, images, labels)
    return {"id": prompt.id, "queued": service.submit(prompt)}


def _prompt(service: PanelService, call: Call, args: Args) -> Result:
    from . import lookups

    if args.get("turn") is None:
        return {"text": lookups.whole(service.find_queued(_text(args, "id")).text)}
    return {"text": lookups.prompt(_session(service), _number(args, "turn", None, 1))}


def _unqueue(service: PanelService, call: Call, args: Args) -> Result:
    service.unqueue(_text(args, "id"))
    return {}


def _stop(service: PanelService, call: Call, args: Args) -> Result:
    seq = None if args.get("seq") is None else _number(args, "seq")
    if not service.is_running or not service.is_known(seq):
        return {"stopped": False}
    service.agent.bridge.cancel()
    return {"stopped": True}


def _try_now(service: PanelService, call: Call, args: Args) -> Result:
    turn, step, attempt = (_number(args, name) for name in ("turn", "step", "attempt"))
    return {"tried": _session(service).try_now(turn, step, attempt)}


# Questions --------------------------------------------------------------------------------------


def _seen(service: PanelService, call: Call, args: Args) -> Result:
    service.questions.see(_text(args, "question"))
    return {}


def _decide(service: PanelService, call: Call, args: Args) -> Result:
    how = service.questions.decide(
        _text(args, "question"),
        _text(args, "sha256"),
        _text(args, "choice"),
        _text(args, "word", ""),
        _text(args, "reason", ""),
    )
    return {"how": how}


# Looking ----------------------------------------------------------------------------------------


def _complete(service: PanelService, call: Call, args: Args) -> Result:
    text, cursor = _text(args, "text", most=MAX_PROMPT_CHARS), _number(args, "cursor")
    before = text[:cursor]
    begun = before.lstrip()
    if begun.startswith("/"):
        if "\n" in begun:
            return {"from": cursor, "items": []}
        word = begun.split(" ")[-1]
        helps = {f"/{one.name}": one.help for one in commands.COMMANDS.values()}
        items = [
            {"text": one, "detail": helps.get(one, ""), "kind": "command"}
            for one in commands.complete(service.agent, begun)
        ]
        return {"from": cursor - len(word), "items": items[:MOST_COMPLETIONS]}
    mention = find_begun(before)
    if mention is None:
        return {"from": cursor, "items": []}
    found = service.complete_mention(mention)[:MOST_COMPLETIONS]
    items = [{"text": one, "detail": "", "kind": "mention"} for one in found]
    return {"from": cursor - len(mention) - 1, "items": items}


MOST_COUNTED_CHARS = 100_000
"""So much of a prompt is looked at while it is typed; of a longer one the rest by its length."""

MOST_SIDE_PX = 100_000


def _estimate(service: PanelService, call: Call, args: Args) -> None:
    """Estimate what a prompt and its images take; what it mentions is looked up when it is sent."""
    session = _session(service)
    text = _text(args, "text", most=MAX_PROMPT_CHARS)
    head = text[:MOST_COUNTED_CHARS]
    sizes = _sizes(args.get("images", []))
    images = [Image("image/png", "", width, height) for width, height in sizes]

    def estimate() -> Result:
        tokens = session.estimate_tokens(Text(head)) * max(1, len(text)) // max(1, len(head))
        tokens += sum(map(image_tokens, images))
        return {"tokens": tokens, "mentions": len(parse(head).mentions)}

    _look_beside(service, call, estimate)


def _sizes(given: object) -> list[tuple[int, int]]:
    """Return the sizes of images in pixels; raises RefusedError if they are none."""
    if not isinstance(given, list) or len(given) > MAX_IMAGES:
        raise RefusedError("bad", f"`images` is a list of at most {MAX_IMAGES} sizes.")
    sizes = []
    for one in given:
        if not isinstance(one, dict):
            raise RefusedError("bad", "An image has `width_px` and `height_px`.")
        width, height = (_number(one, key, None, 0) for key in ("width_px", "height_px"))
        sizes.append((min(width, MOST_SIDE_PX), min(height, MOST_SIDE_PX)))
    return sizes


def _context(service: PanelService, call: Call, args: Args) -> Result:
    _session(service)
    shown = commands.COMMANDS["context"].run(service.agent, "")
    return {"markdown": "" if shown is None else shown.markdown}


def _summary(service: PanelService, call: Call, args: Args) -> Result:
    from . import lookups

    session = _session(service)
    n = None if args.get("n") is None else _number(args, "n", None, 1)
    found = lookups.summary(session, n)
    if found is None:
        raise RefusedError("gone", "There is no such compaction.")
    return found


def _outputs(service: PanelService, call: Call, args: Args) -> Result:
    from . import lookups

    return lookups.outputs(_session(service), _text(args, "tool_use_id"))


def _result(service: PanelService, call: Call, args: Args) -> Result:
    from . import lookups

    start = _number(args, "start", 0)
    return lookups.result(_session(service), _text(args, "tool_use_id"), start)


# Changing ---------------------------------------------------------------------------------------


def _edit_summary(service: PanelService, call: Call, args: Args) -> Result:
    session = _session(service)
    n, text = _number(args, "n", None, 1), _text(args, "text", most=1_000_000)
    active = session.transcript.active_compaction
    if active is None or active.n != n:
        raise RefusedError("gone", "Only the newest summary in force can be edited.")
    _no_turn(session)
    entry = session.edit_summary(text)
    service.settle()
    service.show_context()
    return {"n": entry.n}


def _undo_summary(service: PanelService, call: Call, args: Args) -> Result:
    session = _session(service)
    _no_turn(session)
    undo = session.undo_summary()
    service.settle()
    service.show_context()
    return {"n": undo.entry.n}


def _compact(service: PanelService, call: Call, args: Args) -> None:
    session, focus = _session(service), _text(args, "focus", "")
    ends: list[CtxEvent] = []

    async def run() -> AsyncGenerator[CtxEvent, None]:
        service.agent.refresh()
        async for event in session.run_compaction(focus):
            if isinstance(event, CompactionFinished | CompactionFailed):
                ends.append(event)
            yield event

    def end(error: BaseException | None) -> None:
        match ends:
            case [CompactionFinished(n=n)] if error is None:
                service.answer(call, {"n": n})
            case [CompactionFailed(reason=reason)]:
                service.refuse(call, CompactionError(reason))
            case _:
                service.refuse(call, error or CompactionError("The compaction was stopped."))

    service.run_work(Work(run, end))


def _undo_edit(service: PanelService, call: Call, args: Args) -> None:
    tool_use_id = args.get("tool_use_id")
    n = service.entries.find_edit(None if tool_use_id is None else _text(args, "tool_use_id"))
    session = _session(service)
    _run_once(service, call, lambda: session.run_undo(n), lambda undo: {"n": undo.n})


def _forget(service: PanelService, call: Call, args: Args) -> None:
    """Take facts out of the memory again, also while a turn runs; answered when that is done."""
    session, facts = _session(service), args.get("facts")
    if not isinstance(facts, list) or not all(isinstance(one, str) for one in facts):
        raise RefusedError("bad", "`facts` is a list of texts.")

    async def forget() -> None:
        try:
            gone = await session.run_forget(facts[:MOST_FACTS])
            service.tell(memory_changed(session.transcript.turn, facts, is_undone=True))
            service.answer(call, {"gone": len(gone)})
        except Exception as error:
            service.refuse(call, error)

    service.do(forget)


def _rewind(service: PanelService, call: Call, args: Args) -> None:
    session, turn = _session(service), _number(args, "turn", None, 1)

    def told(rewind: Rewind) -> Result:
        return {"turn": turn, "turns": len(rewind.turns), "not_put_back": len(rewind.not_put_back)}

    _run_once(service, call, lambda: session.run_rewind(turn), told)


def _run_once(
    service: PanelService,
    call: Call,
    act: Callable[[], Awaitable[Made]],
    told: Callable[[Made], Result],
) -> None:
    """Do something on the loop as a turn is done, and answer with what came of it."""
    made: list[Made] = []

    async def run() -> AsyncGenerator[CtxEvent, None]:
        made.append(await act())
        return
        yield

    def end(error: BaseException | None) -> None:
        if made:
            service.show_context()
            service.answer(call, told(made[0]))
            service.tell(service.describe_session())
        else:
            service.refuse(call, error or PromptError("It was stopped before it ended."))

    service.run_work(Work(run, end))


# Sessions ---------------------------------------------------------------------------------------

MOST_ID_CHARS = 200


def _sessions(service: PanelService, call: Call, args: Args) -> None:
    from . import lookups

    text, full = _text(args, "text", most=1_000), _flag(args, "full")
    _look_beside(service, call, lambda: lookups.sessions(service.agent.sessions, text, full))


def _delete_session(service: PanelService, call: Call, args: Args) -> None:
    session_id = _text(args, "id", most=MOST_ID_CHARS)

    def delete() -> Result:
        service.agent.sessions.delete(session_id)
        return {}

    _look_beside(service, call, delete)


def _restore_session(service: PanelService, call: Call, args: Args) -> None:
    session_id = _text(args, "id", most=MOST_ID_CHARS)

    def restore() -> Result:
        service.agent.sessions.restore(session_id)
        return {}

    _look_beside(service, call, restore)


def _look_beside(service: PanelService, call: Call, act: Callable[[], Result]) -> None:
    """Do something with what is stored on a thread of its own, and answer with what it gave."""

    async def run() -> None:
        try:
            service.answer(call, await asyncio.to_thread(act))
        except Exception as error:
            service.refuse(call, error)

    service.do(run)


def _resume(service: PanelService, call: Call, args: Args) -> None:
    """Go on with a stored session; answered when it is open, or when it waits for a cell."""
    session_id, as_copy = _text(args, "id", most=MOST_ID_CHARS), _flag(args, "copy")
    agent, told = service.agent, False

    async def run() -> AsyncGenerator[CtxEvent, None]:
        nonlocal told
        if not as_copy:
            await asyncio.to_thread(_check_free, service, session_id)
        if service.is_kept_from_main:
            told = True
            service.answer(call, {"waits": True})
        await agent.bridge.call(
            lambda: agent.resume(session_id, fork="always" if as_copy else "never")
        )
        if not told:
            told = True
            service.answer(call, {"waits": False})
        return
        yield

    def end(error: BaseException | None) -> None:
        if error is None and told:
            return
        error = error or PromptError("It was stopped before the session was open.")
        if told:
            title = cut(str(error), 2_000)
            service.tell({"kind": "failed", "id": None, "title": title, "detail": "", "text": ""})
        else:
            service.refuse(call, error)

    service.run_work(Work(run, end))


def _check_free(service: PanelService, session_id: str) -> None:
    """Raise RefusedError where another kernel has the session open, StoreError if it is gone."""
    from . import lookups

    row = service.agent.sessions.look(session_id)
    if row.state == "elsewhere":
        shown = lookups.session_row(row)
        name = shown["title"] or session_id
        where = "" if shown["notebook"] is None else f" of {shown['notebook']}"
        raise RefusedError(
            "elsewhere",
            f"Another kernel has been using “{name}”{where}. "
            "Two kernels never write to one session.",
        )


# Settings ---------------------------------------------------------------------------------------


def _configure(service: PanelService, call: Call, args: Args) -> Result:
    settings = args.get("settings")
    if not isinstance(settings, dict):
        raise RefusedError("bad", "`settings` is an object of names and values.")
    refused: dict[str, str] = {}
    for name, value in settings.items():
        try:
            service.agent.put_setting(name, value)
        except (ConfigError, AttributeError) as error:
            refused[cut(str(name), 100)] = str(error)
    _refresh(service)
    return {"refused": refused}


def _set_mode(service: PanelService, call: Call, args: Args) -> Result:
    service.agent.put_setting("permissions", _text(args, "mode"))
    _refresh(service)
    return {"mode": service.agent.permission_mode}


def _set_model(service: PanelService, call: Call, args: Args) -> Result:
    session = _session(service)
    _no_turn(session)
    name = _text(args, "name")
    shown = commands.COMMANDS["model"].run(service.agent, name)
    service.show(shown, f"/model {name}")
    return {"said": "" if shown is None else shown.text}


def _models(service: PanelService, call: Call, args: Args) -> Result:
    """Return the models to pick from, that in use first, each with what a switch would cost."""
    session = _session(service)
    rows = [
        {"name": one.switch.facts.name, "help": wayback.choice_line(session, one)}
        for one in commands.list_models(service.agent)
    ]
    return {"rows": rows}


def _refresh(service: PanelService) -> None:
    try:
        service.agent.refresh()
    except CtxError as error:
        service.warn(str(error))
    service.tell(service.describe_session())


OPS: Mapping[str, Op] = {
    "open": _open,
    "earlier": _earlier,
    "submit": _submit,
    "prompt": _prompt,
    "unqueue": _unqueue,
    "stop": _stop,
    "try_now": _try_now,
    "seen": _seen,
    "decide": _decide,
    "complete": _complete,
    "estimate": _estimate,
    "context": _context,
    "summary": _summary,
    "outputs": _outputs,
    "result": _result,
    "edit_summary": _edit_summary,
    "undo_summary": _undo_summary,
    "compact": _compact,
    "undo_edit": _undo_edit,
    "forget": _forget,
    "rewind": _rewind,
    "sessions": _sessions,
    "resume": _resume,
    "delete_session": _delete_session,
    "restore_session": _restore_session,
    "configure": _configure,
    "set_mode": _set_mode,
    "set_model": _set_model,
    "models": _models,
}


# The session ------------------------------------------------------------------------------------


def title_of_session(session: Session) -> str:
    """Return the first prompt's title, "" before it."""
    return next(map(title_of, session.transcript.prompts.values()), "")
