"""Why the prompt cache was missed: asked through the real SDK, told with our own explanation."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_ctx.session import Session
from tests.fake_anthropic import FakeAnthropic, Recorded, refuse
from tests.fake_anthropic.script import Given
from tests.talk import MODEL, run, talk
from tests.wire import SUMMARY, answering, filler, is_summary, printing, window

ASKED: dict[str, Any] = {"cache_diagnostics": "on"}
OTHER = "claude-sonnet-5"
BOTH = {**window(200_000), **window(200_000, OTHER, binds_thinking=False)}


def asked(record: Recorded) -> Any:
    """Return the id that a request names, "unasked" if it asks nothing."""
    return record.json.get("diagnostics", {"previous_message_id": "unasked"})["previous_message_id"]


def told(session: Session) -> list[dict[str, Any]]:
    """Return the misses in the session's cost."""
    found = session.cost()["cache_misses"]
    assert isinstance(found, list)
    return found


def misses(session: Session) -> list[tuple[object, ...]]:
    """Return turn, step, reason and cause of each miss."""
    return [(m["turn"], m["step"], m["reason"], m["cause"]) for m in told(session)]


def test_each_request_names_the_reply_before() -> None:
    """The first sends null, each further one the id of the newest reply; nothing was missed."""
    script: list[Given] = [printing("print(1)"), "One.", "Two."]
    with FakeAnthropic(script, models=BOTH) as server, talk(server, **ASKED) as session:
        run(session)
        run(session)
        ids = [record.message_id for record in server.messages]

        assert list(map(asked, server.messages)) == [None, *ids[:-1]]
        assert misses(session) == []


def test_by_itself_only_anthropics_own_address_is_asked() -> None:
    """A server of another address gets no field that it might refuse."""
    with FakeAnthropic(["One."], models=BOTH) as server, talk(server) as session:
        run(session)

        assert "diagnostics" not in server.messages[0].json


def test_without_the_cache_nothing_is_asked() -> None:
    """With the prompt cache off there is nothing to miss."""
    with (
        FakeAnthropic(["One."], models=BOTH) as server,
        talk(server, prompt_cache=False, **ASKED) as session,
    ):
        run(session)

        assert "diagnostics" not in server.messages[0].json


def test_a_compaction_explains_the_miss_after_it() -> None:
    """The provider sees other messages; the cost names the compaction as the cause."""
    script = answering([filler(4_000), "Two.", "Three.", "Four."])
    with (
        FakeAnthropic(script, models=BOTH) as server,
        talk(server, tail_tokens=0, **ASKED) as session,
    ):
        run(session)
        run(session)
        session.compact()
        run(session)
        run(session)
        requests = server.messages

        assert misses(session) == [(3, 1, "messages_changed", "compaction")]
        (miss,) = told(session)
        assert miss["tokens"] > 1_000
        assert [asked(record) for record in requests if is_summary(record)] == [None]
        assert asked(requests[3]) == requests[1].message_id


def test_a_summary_edit_and_an_undo_explain_theirs() -> None:
    """Each act on a summary is a cause of its own."""
    script = answering([filler(4_000), "Two.", "Three.", "Four.", "Five."])
    with (
        FakeAnthropic(script, models=BOTH) as server,
        talk(server, tail_tokens=0, **ASKED) as session,
    ):
        for _ in range(2):
            run(session)
        session.compact()
        run(session)
        session.edit_summary(f"{SUMMARY} Edited.")
        run(session)
        session.undo_summary()
        run(session)

        assert [(turn, cause) for turn, _, _, cause in misses(session)] == [
            (3, "compaction"),
            (4, "summary_edit"),
            (5, "summary_undo"),
        ]
        assert [broken.cause for broken in session.prefix_breaks] == [
            "compaction",
            "summary_edit",
            "summary_undo",
        ]


def test_a_refused_exchange_explains_its_miss() -> None:
    """The exchange is taken off the end, which the provider sees, if it goes beyond one step."""
    script: list[Given] = ["One.", printing("print(1)"), refuse("No."), "Three."]
    with FakeAnthropic(script, models=BOTH) as server, talk(server, **ASKED) as session:
        for prompt in ("one", "two", "three"):
            run(session, prompt)

        assert misses(session) == [(3, 1, "messages_changed", "refusal")]
        assert [broken.cause for broken in session.prefix_breaks] == ["refusal"]


def test_each_model_is_asked_about_its_own_replies() -> None:
    """After a switch the first request names none; back again, the newest of the first model."""
    script = ["One.", "Two.", "Three."]
    with FakeAnthropic(script, models=BOTH) as server, talk(server, **ASKED) as session:
        run(session)
        session.switch_model(OTHER)
        run(session)
        session.switch_model(MODEL)
        run(session)
        first = server.messages[0].message_id

        assert list(map(asked, server.messages)) == [None, None, first]
        assert misses(session) == []
        assert [broken.cause for broken in session.prefix_breaks] == ["model_switch"] * 2


def test_a_resumed_session_asks_about_the_last_reply() -> None:
    """The id lies in the transcript, and so does what was told."""
    script = answering([filler(4_000), "Two.", "Three.", "Four."])
    with FakeAnthropic(script, models=BOTH) as server:
        with talk(server, tail_tokens=0, **ASKED) as session:
            run(session)
            run(session)
            session.compact()
            run(session)
            before, entries = misses(session), session.transcript.entries
        with talk(server, entries=entries, **ASKED) as again:
            run(again)

            assert misses(again) == before != []
        assert asked(server.messages[-1]) == server.messages[-2].message_id


def test_a_count_asks_nothing() -> None:
    """Neither does a count of tokens, which takes no such field."""
    script: list[Given] = [
        *(filler(4_200) for _ in range(3)),
        printing("print('word ' * 300)"),
        ".",
    ]
    small = window(16_000)
    with (
        FakeAnthropic(script, models=small) as server,
        talk(server, compaction="manual", **ASKED) as session,
    ):
        for _ in range(4):
            run(session)
        counts = [r for r in server.requests if r.path.endswith("count_tokens")]

        assert server.refused == []
        assert counts
        assert all("diagnostics" not in record.json for record in counts)


@pytest.mark.parametrize("reason", ["previous_message_not_found", "unavailable"])
def test_a_provider_that_does_not_know_says_so(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its word is kept, without tokens and without a cause of ours."""
    found = {"cache_miss_reason": {"type": reason}}
    monkeypatch.setattr("tests.fake_anthropic.exchange.find_cache_miss", lambda *given: found)
    with FakeAnthropic(["One."], models=BOTH) as server, talk(server, **ASKED) as session:
        run(session)
        (miss,) = told(session)

        assert miss == {"turn": 1, "step": 1, "reason": reason, "tokens": None, "cause": None}
