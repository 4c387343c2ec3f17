"""Gateways that take a part of the Messages API: what they refuse by name is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_ctx.core.events import TurnFinished
from tests.fake_anthropic import FakeAnthropic, Recorded
from tests.fake_anthropic.checks import assert_append_only
from tests.fake_anthropic.errors import ApiError
from tests.fake_anthropic.exchange import Exchange, Result
from tests.talk import MODEL, run
from tests.wire import of, plain_talk, printing

WORDS = {
    "thinking": "thinking: Extra inputs are not permitted",
    "thinking.type": "thinking.type: Input should be 'enabled' or 'disabled'",
    "adaptive": "adaptive thinking is not supported on this model",
    "cache_control": "system.0.cache_control: Extra inputs are not permitted",
    "unknown": "Unknown parameter: 'cache_control'",
    "diagnostics": "diagnostics: Extra inputs are not permitted",
    "max_tokens": (
        "max_tokens: 8000 > 4096, which is the maximum allowed number of output tokens for it"
    ),
}


class Gateway(FakeAnthropic):
    """Refuses requests that hold what `lacks` names."""

    lacks = ""

    def is_refused(self, body: dict[str, Any]) -> bool:
        """Whether the gateway refuses a request."""
        if self.lacks == "max_tokens":
            return bool(body["max_tokens"] > 4_096)
        field = {"thinking.type": "thinking", "adaptive": "thinking", "unknown": "cache_control"}
        return f'"{field.get(self.lacks, self.lacks)}"' in json.dumps(body)

    def _exchange(self, record: Recorded) -> Exchange:
        return _Partly(self, record)


class _Partly(Exchange):
    fake: Gateway

    def answer(self) -> Result:
        if self.record.path == "/v1/messages" and self.fake.is_refused(self.record.json):
            self._scripted = ApiError(400, WORDS[self.fake.lacks])
            raise self._scripted
        return super().answer()


@pytest.mark.parametrize("lacks", WORDS)
def test_what_a_gateway_refuses_by_name_is_left_out_from_then_on(lacks: str) -> None:
    """One request is refused, the same is sent without it, and the talk goes on as ever."""
    with Gateway([printing("print(1)", "One."), "Two.", "Three."]) as server:
        server.lacks = lacks
        with plain_talk(server, cache_diagnostics="on", thinking="adaptive") as session:
            assert of(run(session), TurnFinished)[-1].outcome == "done"
            assert of(run(session), TurnFinished)[-1].outcome == "done"

        assert [record.status for record in server.messages] == [400, 200, 200, 200]
        assert_append_only(server.accepted)


def test_what_is_refused_otherwise_is_told() -> None:
    """A refusal that names nothing to leave out is shown, and nothing is tried again."""
    with Gateway(["One."]) as server, plain_talk(server, model=MODEL) as session:
        server.lacks = "system"
        WORDS["system"] = "system: your prompt is not to my liking"
        try:
            ended = of(run(session), TurnFinished)[-1]
        finally:
            del WORDS["system"]

        assert ended.outcome == "failed"
        assert "not to my liking" in (ended.error or "")
        assert len(server.messages) == 1
