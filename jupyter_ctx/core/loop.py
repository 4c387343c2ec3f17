"""One turn: from a prompt until the model stops, as a generator of events.

Every way out leaves a valid transcript: a stop or failure closes open tool calls with results
before anything else can be said. The generator ends with exactly one TurnFinished.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from ..errors import (
    CtxError,
    ModelError,
    PromptTooLongError,
    RequestTooLargeError,
)
from . import background
from .blocks import (
    Block,
    Message,
    Text,
    Thinking,
    ToolUse,
    text_of,
    user,
    without_last_thinking,
    without_thinking,
)
from .breaks import REFUSED
from .budget import Budget, is_bare_done
from .calls import new_reply, record_beside, run_call, store_reply
from .compaction_request import Attempt
from .due import can_compact_reactively, can_drop_images
from .engine import Engine
from .entries import ExcludeEntry, MessageEntry, RepairEntry, SpentEntry
from .events import (
    ContextChanged,
    CtxEvent,
    StepDiscarded,
    StepFinished,
    StepStarted,
    TextDelta,
    TurnFinished,
    TurnOutcome,
    TurnStarted,
)
from .exact import count_if_near
from .hooked import before_prompt, before_stop
from .offload import LEAST_RESULT_TOKENS
from .ports import ReplyDone
from .prompt import Prompt, record_prompt
from .recovery import (
    Compact,
    Continue,
    Drain,
    DropThinking,
    EndTurn,
    Failed,
    RaiseOutput,
    Refuse,
    Replied,
    Resume,
    RunTools,
    TurnState,
    next_action,
)
from .repair import orphan_results
from .reply import Reply
from .requests import build_request, can_raise_output
from .toolcalls import ToolCalls
from .update import load_update
from .window import LEAST_OUTPUT

STOPPED_TEXT = "[Stopped by the user]"
CONTINUE_TEXT = (
    "Your answer was cut off by the output limit. Go on exactly where it stops; repeat nothing."
)
PAUSED_TEXT = "Your answer was paused by the provider. Go on where it stops; repeat nothing."
CUT_SHORT = {
    "max_tokens": "it reached the output limit several times",
    "model_context_window_exceeded": "it reached the end of the context window",
    "pause_turn": "the provider paused it several times",
    "tool_use": "the model announced a tool call and sent none",
}
THINKING_REFUSED = "The provider refused the thinking of earlier answers."
GAUGE_EVERY_CHARS = 400

log = logging.getLogger("jupyter_ctx")


class _TurnOver(Exception):
    """The turn ends here; carries how."""

    def __init__(self, outcome: TurnOutcome, stop_reason: str, error: str | None = None) -> None:
        super().__init__(stop_reason)
        self.outcome = outcome
        self.stop_reason = stop_reason
        self.error = error


@dataclass(slots=True)
class Turn:
    """The turn under way. `prepare` asks about the model; it may raise a ModelError.

    `paused` is the reply that goes on when it is sent back as it came. `holds` is how often a Stop
    hook had the model go on, `start_words` what SessionStart hooks said with the prompt.
    """

    engine: Engine
    prompt: Prompt
    number: int
    prepare: Callable[[], Awaitable[None]]
    budget: Budget = field(default_factory=Budget)
    step: int = 0
    holds: int = 0
    start_words: str | None = None
    blocks: int = 0
    last_text: str = ""
    state: TurnState = field(init=False)
    reply: Reply | None = None
    shown_since_gauge: int = 0
    shown_preparation: str = "none"
    is_recorded: bool = False
    is_left_out: bool = False
    is_too_long: bool = False
    is_warned: bool = False
    paused: Message | None = None

    def __post_init__(self) -> None:
        self.state = self._fresh_state()
        self.engine.turn = self.number

    def _fresh_state(self) -> TurnState:
        """Return the state in which a step begins that goes on from no cut answer."""
        limits = self.engine.limits
        return TurnState(most_continuations=limits.continuations, most_pauses=limits.pauses)

    async def run(self) -> AsyncGenerator[CtxEvent, None]:
        """Run the turn to its end.

        To stop it, cancel the task that iterates; an iteration given up half-way is mended at the
        next prompt.
        """
        engine, redact = self.engine, self.engine.ports.redactor.text
        started = engine.ports.clock.monotonic()
        before, cost_before = engine.spent, engine.cost_usd
        over = _TurnOver("failed", "error", "The turn did not end in an orderly way.")
        try:
            yield TurnStarted(self.number, redact(self.prompt.text))
            await self.prepare()
            await self._ask_hooks()
            for note in engine.take_notes():
                yield note
            record_prompt(engine, self.prompt, self.number, await load_update(engine))
            self.is_recorded = True
            self.start_words, engine.start_words = engine.start_words, ""
            yield ContextChanged(self.number)
            async with aclosing(self._steps()) as events:
                async for event in events:
                    yield event
        except _TurnOver as end:
            over = end
        except asyncio.CancelledError:
            over = _TurnOver("stopped", "stopped")
        except CtxError as error:
            over = _TurnOver("failed", "error", redact(str(error)))
        except Exception as error:
            log.error("The turn ended with an error:\n%s", redact(traceback.format_exc()))
            over = _TurnOver("failed", "error", redact(f"Error in jupyter_ctx: {error!r}"))
        self._close(over.outcome, over.error)
        if over.outcome == "done":
            background.try_to(background.prepare_after_turn, engine)
        for note in engine.take_notes():
            yield note
        yield ContextChanged(self.number)
        cost = engine.cost_usd
        if cost is not None and cost_before is not None:
            cost -= cost_before
        yield TurnFinished(
            turn=self.number,
            outcome=over.outcome,
            stop_reason=over.stop_reason,
            text=self.last_text,
            steps=self.step,
            usage=engine.spent - before,
            cost_usd=cost,
            seconds=engine.ports.clock.monotonic() - started,
            error=over.error,
        )

    async def _ask_hooks(self) -> None:
        """Let hooks see the prompt; what they say goes with it. Raises _TurnOver if one blocks it.

        Nothing is recorded then, so the prompt can be sent again.
        """
        words = await before_prompt(self.engine, self.prompt.text)
        if words.blocked_by is not None:
            raise _TurnOver("failed", "hook", words.blocked_by)
        self.prompt = replace(self.prompt, hooked=words.text)

    def _record_note(self, *content: Block) -> None:
        """Record what the program says in the user's place."""
        at = self.engine.ports.clock.now()
        self.engine.record(MessageEntry(at, self.number, self.step, "note", user(*content)))

    # Steps --------------------------------------------------------------------------------------

    async def _steps(self) -> AsyncGenerator[CtxEvent, None]:
        """Take steps until one of them ends the turn (raises _TurnOver)."""
        engine = self.engine
        while True:
            await count_if_near(engine)
            if (failed := background.settle(engine)) is not None:
                yield failed
            if background.is_due(engine):
                async with aclosing(self._compact()) as events:
                    async for event in events:
                        yield event
            self._warn_if_full()
            most = engine.limits.steps_per_turn
            if most and self.step >= most:
                raise _TurnOver("done", "steps_per_turn")
            self.step += 1
            yield StepStarted(self.number, self.step)
            async with aclosing(self._call()) as events:
                async for event in events:
                    yield event
            for note in engine.take_notes():
                yield note

    def _warn_if_full(self) -> None:
        """Say once a turn that the reserve is reached, where no compaction comes by itself."""
        engine, mode = self.engine, self.engine.limits.compaction
        window, reserve, used = engine.window, engine.reserve, engine.used
        if self.is_warned or mode not in ("manual", "off") or window is None or reserve is None:
            return
        if window - used.cautious <= reserve:
            self.is_warned = True
            engine.note(
                "warning",
                f"The window is nearly full: {used.total:,} of {window:,} tokens.",
                f"Compaction is set to `{mode}`: run `/compact`, or the turn ends when it is full.",
            )

    async def _call(self) -> AsyncGenerator[CtxEvent, None]:
        """Make one model call and do what comes of it."""
        engine = self.engine
        self._end_with_user()
        reply = self.reply = new_reply(engine, self.number, self.step, self.blocks + 1)
        outcome: Replied | Failed
        try:
            await self._check_it_fits()
            background.try_to(background.prepare_between_steps, engine)
            request = build_request(engine, output_raised=self.state.output_raised)
            async with aclosing(run_call(engine, request, reply, self.number, self.step)) as events:
                async for event in events:
                    yield event
                    if self._gauge_moved(event):
                        yield ContextChanged(self.number)
        except ModelError as error:
            outcome = Failed(error)
        else:
            record_beside(engine, reply, self.number)
            done = reply.done
            assert done is not None  # run_call() returns only after ReplyDone
            self.budget = self.budget.spend(self._tokens_of(reply, done))
            has_tools = any(isinstance(block, ToolUse) for block in reply.blocks)
            outcome = Replied(done.stop_reason, has_tools)
        finally:
            engine.streaming_chars = 0
            self.blocks = reply.first_block - 1 + reply.text_blocks
        async with aclosing(self._act(reply, outcome)) as acts:
            async for event in acts:
                yield event

    def _tokens_of(self, reply: Reply, done: ReplyDone) -> int:
        """Return what the model wrote: the provider's figure, else the estimate."""
        if done.usage.output is not None or not reply.blocks:
            return done.usage.output or 0
        return self.engine.meter.estimate_message(Message("assistant", tuple(reply.blocks)))

    def _end_with_user(self) -> None:
        """Ask to go on where the view ends with a reply that cannot be sent back to go on.

        Only a paused one can, and only as it came: not without a call that was left out, or the
        thinking that a compaction took.
        """
        view = self.engine.transcript.view
        if view and view[-1].role == "assistant" and view[-1] is not self.paused:
            self._record_note(Text(PAUSED_TEXT))

    async def _check_it_fits(self) -> None:
        """Raise PromptTooLongError if the request, or a compaction after it, cannot fit the window.

        Such a request is not even sent. Where only the estimate says so (all is one right after a
        compaction), the provider's own count decides, if it has one.
        """
        engine = self.engine
        if not self._has_room():
            await count_if_near(engine)
        if not self._has_room():
            if (engine.window or 0) < engine.least_window:
                raise PromptTooLongError(
                    f"System prompt and tools leave no room to work in: they and a compaction take "
                    f"≈{engine.least_window:,} of {engine.window:,} tokens; choose a model with a "
                    "larger window by `/model`, or set `window_tokens` if this one is set too low."
                )
            raise PromptTooLongError(
                f"Prompt too long: {engine.used.total:,} of {engine.window:,} tokens, and answer "
                "and compaction need room too; run `/compact`, or start over with `/new`."
            )

    def _has_room(self) -> bool:
        left = self.engine.room().law_tokens
        return left is None or left >= LEAST_OUTPUT + LEAST_RESULT_TOKENS

    def _describe(self, error: ModelError) -> str:
        """Return an error in words; of a prompt that is too long, with what makes it long."""
        if isinstance(error, RequestTooLargeError):
            self.is_too_long = True
            weight = self.engine.weight
            noun = "image" if weight.images == 1 else "images"
            return f"{error} It has {weight.bytes:,} bytes, with {weight.images:,} {noun}."
        if not isinstance(error, PromptTooLongError):
            return str(error)
        self.is_too_long = True
        return f"{error} Largest parts, in tokens: {self.engine.largest_parts()}."

    def _gauge_moved(self, event: CtxEvent) -> bool:
        """Say whether enough arrived, or a summary was begun or finished beside it."""
        held, shown = self.engine.preparation, self.shown_preparation
        self.shown_preparation = "none" if held is None else held.state
        return self._has_grown(event) or shown != self.shown_preparation

    def _has_grown(self, event: CtxEvent) -> bool:
        if not isinstance(event, TextDelta):
            return False
        self.engine.streaming_chars += len(event.text)
        self.shown_since_gauge += len(event.text)
        if self.shown_since_gauge < GAUGE_EVERY_CHARS:
            return False
        self.shown_since_gauge = 0
        return True

    async def _act(self, reply: Reply, outcome: Replied | Failed) -> AsyncGenerator[CtxEvent, None]:
        """Perform the next action, as `recovery.next_action` names it."""
        engine = self.engine
        self.state = replace(
            self.state,
            can_compact=self._can_compact(outcome),
            can_raise_output=can_raise_output(engine),
            can_drain=background.can_use(engine),
        )
        action = next_action(self.state, outcome)
        match action:
            case RunTools():
                async with aclosing(self._run_tools(reply)) as events:
                    async for event in events:
                        yield event
            case EndTurn(stop_reason=reason):
                for event in self._finish_step(reply, _without_calls(reply.blocks)):
                    yield event
                if reason in CUT_SHORT:
                    engine.note("warning", f"The answer is not complete: {CUT_SHORT[reason]}.")
                elif self._was_nudged(reply):
                    return
                if await self._was_held(reply, is_complete=reason not in CUT_SHORT):
                    return
                raise _TurnOver("done", reason)
            case RaiseOutput():
                yield StepDiscarded(self.number, self.step)
                self._record_spent(reply, "cut by the output limit, asked again with a higher one")
                self.reply = None
                self.state = replace(self.state, output_raised=True)
            case Continue():
                for event in self._finish_step(reply, _without_calls(reply.blocks)):
                    yield event
                self._record_note(Text(CONTINUE_TEXT))
                self.state = replace(self.state, continuations=self.state.continuations + 1)
            case Resume():
                kept = _without_calls(reply.blocks)
                for event in self._finish_step(reply, kept):
                    yield event
                self.paused = engine.transcript.view[-1] if reply.is_whole(kept) else None
                self.state = replace(self.state, pauses=self.state.pauses + 1)
            case DropThinking():
                self._drop_thinking()
            case Drain() | Compact():
                async with aclosing(self._recover(reply, outcome, action)) as events:
                    async for event in events:
                        yield event
            case Refuse():
                self._refuse(reply)
            case _:
                error = action.error
                raise _TurnOver("failed", "error", self._describe(error)) from error

    async def _run_tools(self, reply: Reply) -> AsyncGenerator[CtxEvent, None]:
        """Store the reply and run its calls; the turn ends with one that was interrupted."""
        for event in self._finish_step(reply, reply.blocks):
            yield event
        self.state = self._fresh_state()
        uses = [block for block in reply.blocks if isinstance(block, ToolUse)]
        calls = ToolCalls(self.engine, self.number, self.step, uses, take_turn=take_agent_turn)
        async with aclosing(calls.run()) as events:
            async for event in events:
                yield event
        yield ContextChanged(self.number)
        if calls.interrupted:
            raise _TurnOver("stopped", "stopped")
        if calls.ended_by is not None:
            self.engine.note("info", "A hook ended the turn.", calls.ended_by)
            raise _TurnOver("done", "hook")

    def _can_compact(self, outcome: Replied | Failed) -> bool:
        """Say whether a compaction may come by itself; one that drops images helps where bytes do.

        Of a request by whose bytes the provider was too much, also where tokens would not be freed.
        """
        engine = self.engine
        by_bytes = isinstance(outcome, Failed) and isinstance(outcome.error, RequestTooLargeError)
        return can_compact_reactively(engine) or (by_bytes and can_drop_images(engine))

    def _was_nudged(self, reply: Reply) -> bool:
        """Ask the model to go on if the turn's budget says so; an empty answer is an end."""
        answer = text_of(reply.blocks)
        if not answer.strip() or not self.budget.goes_on(answer):
            return False
        self._record_note(Text(self.budget.words))
        self.budget = self.budget.nudge()
        self.state = self._fresh_state()
        return True

    async def _was_held(self, reply: Reply, *, is_complete: bool) -> bool:
        """Have the model go on if a Stop hook says so; an empty answer is an end."""
        answer = text_of(reply.blocks)
        can_hold = is_complete and bool(answer.strip())
        text = await before_stop(self.engine, answer, self.holds, can_hold=can_hold)
        if not text:
            return False
        self._record_note(Text(text))
        self.holds += 1
        self.state = self._fresh_state()
        return True

    def _drop_thinking(self) -> None:
        """Leave all thinking out of the view, since the provider refuses it there; say so."""
        engine = self.engine
        self.reply = None
        self.state = replace(self.state, thinking_dropped=True)
        bare = tuple(kept for m in engine.transcript.view if (kept := without_thinking(m)))
        engine.record(RepairEntry(engine.ports.clock.now(), bare, THINKING_REFUSED))
        engine.note(
            "warning",
            THINKING_REFUSED,
            "It was left out, and the prompt is written to the cache anew.",
        )

    async def _recover(
        self, reply: Reply, outcome: Replied | Failed, action: Drain | Compact
    ) -> AsyncGenerator[CtxEvent, None]:
        """Compact because the provider found the prompt too long, then take the step again."""
        if isinstance(action, Drain):
            self.state = replace(self.state, drained=True)
        else:
            self.state = replace(self.state, compacted=True)
            if action.keep_partial:
                for event in self._finish_step(reply, _without_calls(reply.blocks)):
                    yield event
                self._record_note(Text(CONTINUE_TEXT))
        self.reply = None
        error = outcome.error if isinstance(outcome, Failed) else None
        attempt = Attempt(self.number, "reactive")
        if isinstance(error, PromptTooLongError):
            self.engine.learn_overflow(error)
        if isinstance(error, RequestTooLargeError):
            self.engine.learn_bytes()
            attempt.drops_images = can_drop_images(self.engine)
        async with aclosing(background.compact(self.engine, attempt)) as events:
            async for event in events:
                yield event
        yield ContextChanged(self.number)
        if not attempt.succeeded and isinstance(outcome, Failed):
            raise _TurnOver("failed", "error", self._describe(outcome.error))

    async def _compact(self) -> AsyncGenerator[CtxEvent, None]:
        """Compact by itself before a step, and tell what is to be told of it."""
        attempt = Attempt(self.number, "proactive")
        async with aclosing(background.compact(self.engine, attempt)) as events:
            async for event in events:
                yield event
        for note in self.engine.take_notes():
            yield note
        yield ContextChanged(self.number)

    def _finish_step(self, reply: Reply, blocks: Sequence[Block]) -> tuple[CtxEvent, ...]:
        """Record the reply and return the events that tell that the step is done."""
        done = reply.done
        assert done is not None  # only complete replies come here
        self.reply = None
        content = without_last_thinking(blocks)
        if not content:
            self._record_spent(reply, f"no text came ({done.stop_reason})")
            if done.stop_reason == "end_turn":
                self.engine.note("warning", "The model sent an empty answer.")
        else:
            store_reply(self.engine, reply, content, self.number, self.step, done.stop_reason)
        text = text_of(content)
        if text and not (self.budget.nudged_at and self.last_text and is_bare_done(text)):
            self.last_text = text
        cost = self.engine.price(done.usage)
        return (
            StepFinished(self.number, self.step, done.stop_reason, done.usage, cost),
            ContextChanged(self.number),
        )

    def _record_spent(self, reply: Reply, reason: str) -> None:
        assert reply.done is not None  # only complete replies come here
        at = self.engine.ports.clock.now()
        self.engine.record(SpentEntry(at, self.number, reply.done.usage, reason))

    def _refuse(self, reply: Reply) -> None:
        """End the turn with the provider's words; the exchange is left out of the view."""
        words = text_of(reply.blocks)
        detail = reply.done.detail if reply.done and reply.done.detail else words
        self._record_spent(reply, "refusal")
        self.reply = None
        self._exclude_turn(REFUSED)
        raise _TurnOver("failed", "refusal", f"{REFUSED} {detail or ''}".strip())

    def _exclude_turn(self, reason: str, *, is_told: bool = False) -> None:
        """Leave this turn's messages out of the view, if no compaction came since its prompt."""
        count = self.engine.transcript.messages_since_prompt(self.number)
        if count:
            at = self.engine.ports.clock.now()
            self.engine.record(ExcludeEntry(at, count, reason, is_told))
            self.engine.start_words = self.start_words  # they went with the prompt
            self.is_left_out = True

    # The end ------------------------------------------------------------------------------------

    def _close(self, outcome: TurnOutcome, error: str | None = None) -> None:
        """Leave a valid transcript: keep what was finished, answer open calls, say what was."""
        if outcome == "done" or not self.is_recorded:
            return
        engine = self.engine
        if self.reply is not None and outcome == "stopped":
            kept = self.reply.kept_after_stop()
            if kept:
                store_reply(engine, self.reply, kept, self.number, self.step, "stopped")
        self.reply = None
        count = engine.transcript.messages_since_prompt(self.number)
        if outcome == "failed" and count == 1:
            reason = error or "The turn failed before it was answered."
            self._exclude_turn(reason, is_told=self.is_too_long)
            return
        if self.is_left_out:
            return
        results = orphan_results(engine.transcript.view)
        note = STOPPED_TEXT if outcome == "stopped" else f"[The turn failed: {error}]"
        self._record_note(*results, Text(note))


def take_agent_turn(engine: Engine, text: str, number: int) -> AsyncGenerator[CtxEvent, None]:
    """Run a sub-agent's turn: on what the model was told already, and without a budget."""

    async def prepare() -> None:
        """The parent's turn has asked about the model."""

    return Turn(engine, Prompt(text), number, prepare).run()


def _without_calls(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Return the blocks without tool calls: a call of a cut reply is never run.

    Nor does thinking stay behind one, to which it is bound, or at the end.
    """
    first = next((i for i, b in enumerate(blocks) if isinstance(b, ToolUse)), len(blocks))
    rest = (block for block in blocks[first:] if not isinstance(block, ToolUse | Thinking))
    return without_last_thinking([*blocks[:first], *rest])
