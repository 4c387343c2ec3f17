"""One request from its bytes to its answer: checked, counted, cached, and written in chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..fake_anthropic.errors import ApiError
from ..fake_anthropic.exchange import Exchange, Result
from ..fake_anthropic.prompt import extend
from ..fake_anthropic.record import Recorded
from ..fake_anthropic.script import NO_USAGE, Broken, Foreign, Hold, Reply, Status
from ..fake_anthropic.thinking import Bound
from ..fake_anthropic.tokens import text_tokens
from ..fake_anthropic.transport import parse_body
from ..fake_anthropic.writing import Desk, Event, Written, write_reply
from .kinds import ServerError, overflow
from .rules import Checker

if TYPE_CHECKING:
    from .fake import FakeOpenAI

COMPLETIONS = "/v1/chat/completions"
IMAGE_TOKENS = 300
CACHE_FLOOR, CACHE_STEP = 1_024, 128
FINISH = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "stop_sequence": "stop",
    "pause_turn": "stop",
}


class OpenAIExchange(Exchange):
    """A request being answered; `fake.kind` says as whose."""

    fake: FakeOpenAI
    corrupt_text = 'data: {"choices": [{"del\n\n'

    def __init__(self, fake: FakeOpenAI, record: Recorded) -> None:
        super().__init__(fake, record)
        self.kind = fake.kind

    def answer(self) -> Result:
        """Return a JSON body, stream events, a foreign response, or a connection to drop."""
        record = self.record
        key = self.fake.api_key
        bearer = record.headers.get("authorization", "")
        if not bearer.startswith("Bearer ") or (key and bearer != f"Bearer {key}"):
            raise self._error(401, "Incorrect API key provided", code="invalid_api_key")
        if (record.method, record.path) == ("POST", COMPLETIONS):
            return self._complete()
        told = self.fake.tell(record.path)
        if told is None:
            raise self._error(404, "Not Found")
        record.status = 200
        return dict(told)

    def fail(self, error: ApiError) -> None:
        """Record an error answer."""
        self.record.status = error.status
        self.record.error = {"message": error.message}
        is_rule = error is not self._scripted and self.record.path == COMPLETIONS
        self.record.refused = self.record.refused or is_rule

    def encode(self, event: tuple[str, dict[str, Any]]) -> str:
        """Return a chunk as it goes over the wire."""
        name, data = event
        return f"data: {name if name == '[DONE]' else json.dumps(data, ensure_ascii=False)}\n\n"

    def encode_error(self, kind: str) -> str:
        """Return an error in the stream as it goes over the wire."""
        body = self._error(200, "Overloaded", type="server_error").body("")
        return f"data: {json.dumps(body[0] if isinstance(body, list) else body)}\n\n"

    def is_last(self, event: tuple[str, dict[str, Any]]) -> bool:
        """Say whether the reply is whole with this event."""
        return event[0] == "[DONE]"

    def _error(self, status: int, message: str, **more: Any) -> ServerError:
        return ServerError(self.kind, status, message, **more)

    # The request ---------------------------------------------------------------------------------

    def _complete(self) -> Result:
        record, fake = self.record, self.fake
        body = record._json = parse_body(record.body)
        model = fake.models.get(body.get("model", ""))
        if model is None:
            message = f"The model `{body.get('model')}` does not exist"
            raise self._error(404, message, code="model_not_found")
        Checker(self.kind, body, fake.sees, fake.signed).check()
        record.prefix_hashes, tokens = lay_out(body)
        record.input_tokens, record.window_tokens = tokens[-1], model.window
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or model.max_output
        if limit > model.max_output:
            text = (
                f"max_tokens is too large: {limit}. This model supports at most "
                f"{model.max_output} completion tokens, whereas you provided {limit}."
            )
            self._scripted = self._error(400, text, code="invalid_value")
            raise self._scripted
        if record.input_tokens > model.window:
            if not self.kind.truncates:
                raise overflow(self.kind, record.input_tokens, model.window)
            record.input_tokens = model.window // 2  # the oldest messages are dropped, unsaid
        given = fake.next_answer(body)
        if isinstance(given, Status):
            self._scripted = self._error(given.status, given.message, headers=given.headers)
            raise self._scripted
        if isinstance(given, Foreign):
            return given
        if isinstance(given, Broken):
            self.broken = given
            if given.how == "disconnect" and given.after == 0:
                return given
        read = fake.read_cache(record.prefix_hashes, tokens)
        reply = given.reply if isinstance(given, Broken) else given
        return self._write(reply, limit, model.window, read)

    def _write(self, reply: Reply, limit: int, window: int, read: int) -> Result:
        record, body = self.record, self.record.json
        thinks = True if self.kind.reasoning else None
        bound = Bound(extend(record.prefix_hashes[-1], str(record.number)), "", {}, {})
        model = self.fake.models[body["model"]]
        room = window - record.input_tokens
        desk = Desk(body["model"], model, bound, limit, room, thinks, lambda *_: None)
        written = write_reply(reply, desk)
        if self.broken is not None and self.broken.how == "no_stop":
            written.stop_reason = None
        record.message_id = f"chatcmpl-{record.number}"
        record.status, record.reply = 200, written.content
        record.stop_reason = written.stop_reason
        record.usage = self._usage(reply, written, read)
        events = list(self._chunks(reply, written))
        if body.get("stream_options", {}).get("include_usage") and record.usage is not None:
            events.append(self._chunk([], usage=record.usage))
        return self._break_stream([*events, ("[DONE]", {})])

    def _usage(self, reply: Reply, written: Written, read: int) -> dict[str, Any] | None:
        if reply.usage is NO_USAGE:
            return None
        prompt, output = self.record.input_tokens, written.output_tokens
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
        }
        if self.kind.name == "gemini":  # thinking is in the total only
            usage["completion_tokens"] = output - written.thinking_tokens
        if self.kind.caches:
            usage["prompt_tokens_details"] = {"cached_tokens": read}
        return {**usage, **(reply.usage or {})}

    # The chunks ----------------------------------------------------------------------------------

    def _chunks(self, reply: Reply, written: Written) -> Iterator[Event]:
        yield self._delta(role="assistant", content="")
        calls = -1
        signature = f"sig-{extend(self.record.prefix_hashes[-1], 'sig')[:16]}"
        for event in written.events:
            if isinstance(event, Hold):
                yield event
                continue
            name, data = event
            if name == "content_block_start" and data["content_block"]["type"] == "tool_use":
                calls += 1
                start = data["content_block"]
                call: dict[str, Any] = {"id": start["id"].replace("toolu_", "call_")}
                call |= {"type": "function", "function": {"name": start["name"], "arguments": ""}}
                if self.kind.signs and not calls:
                    self.fake.signed.add(signature)
                    call["extra_content"] = {"google": {"thought_signature": signature}}
                yield self._call(calls, call)
            elif name == "content_block_delta":
                yield from self._piece(data["delta"], calls)
        if written.stop_reason is not None:
            details = reply.stop_details or {}
            if details.get("explanation"):
                yield self._delta(refusal=details["explanation"])
            yield self._chunk(
                [{"index": 0, "delta": {}, "finish_reason": FINISH[written.stop_reason]}]
            )

    def _piece(self, delta: Mapping[str, Any], calls: int) -> Iterator[Event]:
        match delta["type"]:
            case "text_delta":
                yield self._delta(content=delta["text"])
            case "thinking_delta":
                yield self._delta(**{self.kind.reasoning: delta["thinking"]})
            case "input_json_delta" if delta["partial_json"]:
                yield self._call(calls, {"function": {"arguments": delta["partial_json"]}})

    def _call(self, index: int, call: Mapping[str, Any]) -> Event:
        place = 0 if self.kind.same_index else index
        return self._delta(tool_calls=[{"index": place, **call}])

    def _delta(self, **delta: Any) -> Event:
        return self._chunk([{"index": 0, "delta": delta, "finish_reason": None}])

    def _chunk(self, choices: list[Any], **more: Any) -> Event:
        head = {"id": self.record.message_id, "object": "chat.completion.chunk", "created": 1}
        return "chunk", {**head, "model": self.record.json["model"], "choices": choices, **more}

    def _break_stream(self, events: list[Event]) -> list[Event]:
        """Settle where a broken stream breaks: by default half-way, before the reply's end."""
        if self.broken is not None and self.broken.after is None:
            count = sum(not isinstance(event, Hold) for event in events)
            place = -1 if self.broken.how == "no_stop" else max(1, count // 2)
            self.broken = replace(self.broken, after=place)
        return events


def lay_out(body: Mapping[str, Any]) -> tuple[list[str], list[int]]:
    """Return digests and token sums after the tools and after each message in turn."""
    tools = json.dumps(body.get("tools") or [], ensure_ascii=False)
    hashes, sums = [extend("", tools)], [text_tokens(tools)]
    for message in body["messages"]:
        text = json.dumps(message, ensure_ascii=False)
        hashes.append(extend(hashes[-1], text))
        sums.append(sums[-1] + 4 + message_tokens(message))
    return hashes, sums


def message_tokens(message: Mapping[str, Any]) -> int:
    """Return the tokens of one message; an image costs the same whatever its size."""
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    words = "".join(part["text"] for part in parts if part["type"] == "text")
    images: int = sum(part["type"] == "image_url" for part in parts)
    calls = json.dumps(message["tool_calls"]) if message.get("tool_calls") else ""
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    return sum(map(text_tokens, (words, calls, thought))) + images * IMAGE_TOKENS
