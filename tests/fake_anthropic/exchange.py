"""One request from its bytes to its answer: every check in the API's order, then the script."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from .cache import check_markers, lay_out
from .diagnostics import find_cache_miss
from .errors import ApiError
from .images import check_images
from .models import FakeModel, list_models, model_info
from .prompt import Turn, canonical, extend, merge_turns, prefix_hashes
from .record import Recorded
from .rules import check_rules
from .schema import check_model_settings, check_schema
from .script import Broken, Foreign, Hold, Reply, Status
from .thinking import Bound, verify_thinking
from .transport import OLD_VERSION, check_headers, parse_body
from .writing import Desk, Event, final_usage, message_json, stream_events, write_reply

if TYPE_CHECKING:
    from .fake import FakeAnthropic

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
MODELS = "/v1/models"

Result: TypeAlias = dict[str, Any] | list[Event] | Foreign | Broken


class Exchange:
    """A request being answered; `broken` is the fault of its stream, if it has one."""

    stream_type = "text/event-stream; charset=utf-8"
    corrupt_text: str | bytes = 'event: content_block_delta\ndata: {"type": "content_block_del\n\n'

    def __init__(self, fake: FakeAnthropic, record: Recorded) -> None:
        self.fake = fake
        self.record = record
        self.request_id = f"req_fake{record.number:08d}"
        self.broken: Broken | None = None
        self.holds: list[str] = []
        self._scripted: ApiError | None = None

    def answer(self) -> Result:
        """Return a JSON body, stream events, a foreign response, or a connection to drop.

        `holds` then names where to wait before a body is sent. Raises ApiError.
        """
        record, fake = self.record, self.fake
        betas = check_headers(record.headers, fake.api_key)
        where = (record.method, record.path)
        if where == ("POST", MESSAGES):
            return self._messages(betas)
        if where == ("POST", COUNT) and fake.has_count_tokens:
            self._understand(betas, counting=True)
            record.status = 200
            return {"input_tokens": record.input_tokens}
        if record.method == "GET" and record.path.startswith(MODELS) and fake.has_models:
            return self._models()
        raise ApiError(404, "Not found")

    def fail(self, error: ApiError) -> None:
        """Record an error answer."""
        self.record.status = error.status
        body: Any = error.body(self.request_id)["error"]
        self.record.error = body
        self.record.refused = self.record.refused or error is not self._scripted

    def encode(self, event: tuple[str, dict[str, Any]]) -> str | bytes:
        """Return an event as it goes over the wire."""
        name, data = event
        return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"

    def encode_error(self, kind: str) -> str | bytes:
        """Return an error in the stream as it goes over the wire."""
        error = ApiError(200, "Overloaded", type=kind)
        return f"event: error\ndata: {json.dumps(error.body(''))}\n\n"

    def is_last(self, event: tuple[str, dict[str, Any]]) -> bool:
        """Say whether the reply is whole with this event."""
        return event[0] == "message_stop"

    # Understanding the request -----------------------------------------------------------------

    def _understand(self, betas: frozenset[str], *, counting: bool) -> tuple[FakeModel, Bound]:
        record = self.record
        body = parse_body(record.body)
        record._json = body
        old = record.headers["anthropic-version"] == OLD_VERSION
        check_schema(body, counting=counting, old_version=old, betas=betas)
        model = self.fake.models.get(body["model"])
        if model is None:
            raise ApiError(404, f"model: {body['model']}")
        check_model_settings(body, model)
        turns = merge_turns(body["messages"])
        may_prefill = counting or model.prefill or self._goes_on(turns)
        check_rules(body, turns, model, may_prefill=may_prefill)
        record.prefix_hashes = prefix_hashes(body)
        sizes = check_images(body, model)
        binding = (body.get("thinking") or {}).get("block_binding") or {}
        drop = binding.get("prefix_mismatch_behavior") == "drop_block"
        judge = replace(model, binds_thinking=False) if counting else model
        bound = verify_thinking(body, turns, judge, self.fake.ledger, drop)
        record.row = lay_out(
            body,
            turns,
            model,
            dropped=bound.dropped,
            thinking_tokens=bound.tokens,
            sizes=sizes,
        )
        check_markers(body, record.row)
        record.input_tokens = record.row[-1].upto_tokens
        record.window_tokens = model.window
        return model, bound

    def _goes_on(self, turns: list[Turn]) -> bool:
        """Return whether the last turn is a paused reply that is sent back to go on."""
        texts = [canonical(placed.block) for placed in turns[-1].blocks] if turns else []
        return extend("", *texts) in self.fake.paused

    # Answering -----------------------------------------------------------------------------------

    def _messages(self, betas: frozenset[str]) -> Result:
        record = self.record
        model, bound = self._understand(betas, counting=False)
        body = record.json
        if record.input_tokens > model.window:
            raise ApiError(
                400,
                f"prompt is too long: {record.input_tokens} tokens > {model.window} maximum",
            )
        cache, name = self.fake.cache, body["model"]
        with self.fake.lock:
            record.plan = cache.plan(name, model, record.row, record.at)
        given = self.fake.next_answer(body) if body["max_tokens"] else Reply((), "max_tokens")
        if isinstance(given, Status):
            self._scripted = ApiError(
                given.status,
                given.message,
                type=given.type,
                details=given.details,
                headers=given.headers,
            )
            raise self._scripted
        if isinstance(given, Foreign):
            return given
        if isinstance(given, Broken):
            self.broken = given
            if given.how == "disconnect" and given.after == 0:
                return given
        with self.fake.lock:
            cache.commit(name, model, record.row, record.plan, record.at)
        return self._reply(given.reply if isinstance(given, Broken) else given, model, bound)

    def _reply(self, reply: Reply, model: FakeModel, bound: Bound) -> Result:
        record, body = self.record, self.record.json
        assert record.plan is not None
        name = body["model"]
        desk = Desk(
            name=name,
            model=model,
            bound=bound,
            max_tokens=body["max_tokens"],
            room_tokens=model.window - record.input_tokens,
            shows_thinking=_shows_thinking(body, model),
            note=lambda prefix, last: self.fake.ledger.note(name, prefix, last),
        )
        written = write_reply(reply, desk)
        if self.broken is not None and self.broken.how == "no_stop":
            written.stop_reason = None
        usage = final_usage(record.plan.usage(), written, reply.usage)
        record.message_id = "msg_01" + extend(record.row[-1].digest, str(record.number))[:22]
        message = message_json(record.message_id, name, reply, written, usage)
        message["diagnostics"] = find_cache_miss(self.fake.messages, record)
        if bound.dropped:
            message["input_transformations"] = [
                {"type": "thinking_dropped", "path": path, "reason": reason}
                for path, reason in bound.dropped.items()
            ]
        record.status, record.usage, record.reply = 200, usage, written.content
        record.stop_reason = message["stop_reason"]
        if written.stop_reason == "pause_turn":
            last = merge_turns(body["messages"])[-1]
            before = last.blocks if last.role == "assistant" else ()
            texts = [canonical(placed.block) for placed in before]
            self.fake.paused.add(extend("", *texts, *map(canonical, written.content)))
        if body.get("stream"):
            return self._break_stream(stream_events(message, reply, written, usage))
        return self._whole(message, written.events)

    def _break_stream(self, events: list[Event]) -> list[Event]:
        """Settle where a broken stream breaks: by default half-way, without stop reason nowhere."""
        if self.broken is not None and self.broken.after is None:
            count = sum(not isinstance(event, Hold) for event in events)
            place = -1 if self.broken.how == "no_stop" else max(1, count // 2)
            self.broken = replace(self.broken, after=place)
        return events

    def _whole(self, message: dict[str, Any], events: list[Event]) -> Result:
        """Answer without a stream; holds and faults apply to the whole."""
        for event in events:
            if isinstance(event, Hold):
                self.holds.append(event.name)
        how = self.broken.how if self.broken is not None else None
        if self.broken is not None and how == "stall":
            self.holds.append(self.broken.detail)
        if self.broken is not None and how == "disconnect":
            return self.broken
        if self.broken is not None and how == "error":
            self._scripted = ApiError(529, "Overloaded", type=self.broken.detail)
            raise self._scripted
        if how in ("truncate", "corrupt"):
            data = json.dumps(message).encode()
            return Foreign(200, "application/json", data[: len(data) // 2])
        self.record.complete = how is None
        return message

    def _models(self) -> dict[str, Any]:
        models = self.fake.models
        self.record.status = 200
        if self.record.path != MODELS:
            name = self.record.path.removeprefix(f"{MODELS}/")
            if name not in models:
                self.record.status = None
                raise ApiError(404, f"model: {name}")
            return model_info(name, models[name])
        return list_models(models, self.record.query)


def _shows_thinking(body: dict[str, Any], model: FakeModel) -> bool | None:
    """Return whether the text of thinking is shown, None if there is no thinking."""
    config = body.get("thinking") or {}
    if config.get("type") not in ("adaptive", "enabled"):
        return None
    display = config.get("display") or ("omitted" if model.omits_thinking else "summarized")
    return bool(display == "summarized")
