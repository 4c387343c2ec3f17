"""The account through the real SDK: when it compacts, and what a session costs then."""

import pytest

from jupyter_ctx.core.events import CompactionFailed, CompactionFinished
from jupyter_ctx.testing import MemoryStore
from tests.economy import compaction_of, played, served, steps, turns
from tests.fake_anthropic import max_tokens
from tests.talk import MODEL, run, talk


@pytest.mark.parametrize("window", [200_000, 1_000_000])
def test_the_account_is_cheaper_than_the_reserve(window):
    """POLICY: on a large window it compacts at 40,000 to 100,000 tokens, and costs less."""
    cost, compactions = played(window, "economic")
    dearer, _ = played(window, "crush")

    assert len(compactions) >= 2
    assert all(40_000 < entry.tokens_before < 100_000 for entry in compactions)
    assert cost < 0.85 * dearer


def test_the_window_does_not_matter_where_it_is_large():
    """The account knows nothing of the window: 200k and 1M compact at the same calls."""
    figures = [
        [(entry.turn, entry.tokens_before) for entry in played(window, "economic")[1]]
        for window in (200_000, 1_000_000)
    ]

    assert figures[0] == figures[1]


def test_a_resumed_session_decides_the_same():
    """Loaded at any turn's end, the account is the same; so is the step at which it compacts.

    Nothing is prepared: a summary under way is lost with the kernel, so a resumed session asks for
    one later than its twin.
    """
    store, said = MemoryStore(), turns(6)
    with served(said, 1_000_000) as server, talk(server, store=store, prepare_calls=0) as session:
        for n in range(6):
            run(session, f"turn {n}")
            with talk(server, entries=list(store.entries), prepare_calls=0) as resumed:
                assert compaction_of(resumed) == compaction_of(session)
            if n == 3:
                kept = list(store.entries)
        body = server.messages[44].body
        twin = session.transcript.compactions
    with (
        served(said[44:], 1_000_000) as server,
        talk(server, entries=kept, prepare_calls=0) as session,
    ):
        run(session, "turn 4")
        run(session, "turn 5")

        again = session.transcript.compactions
        assert [entry.tokens_before for entry in again] == [e.tokens_before for e in twin]
        assert len(twin) == 1
        assert server.messages[0].body == body


def test_a_turns_first_call_is_the_better_moment():
    """Between 1.0 and 2.5 x the price (alpha 2) only a new turn compacts, before its first call."""
    with (
        served([*steps(45), "Done.", "Hello."], 1_000_000) as server,
        talk(server, prepare_calls=0) as session,
    ):
        assert not [e for e in run(session, "count") if isinstance(e, CompactionFinished)]
        now = compaction_of(session)
        assert now["price"] < now["account"] < 2.5 * now["price"]
        assert now["steps_left"] == 0

        events = run(session, "and now?")
        assert [e.turn for e in events if isinstance(e, CompactionFinished)] == [2]
        assert compaction_of(session)["account"] == 0


def test_alpha_is_how_long_it_waits():
    """A larger alpha compacts at a longer prompt; 0 as soon as there is anything to drop."""
    longest = []
    for alpha in (0, 0.2, 0.4):
        with served([*steps(45), "Done."], 1_000_000) as server, talk(server, alpha=alpha) as one:
            run(one, "count")
            longest.append(one.transcript.compactions[0].tokens_before)

    assert longest == sorted(set(longest))


def test_without_a_cache_it_compacts_earlier():
    """With the cache off carrying is as dear as anything, so less of it is paid."""
    first = []
    for cached in (True, False):
        with (
            served([*steps(45), "Done."], 1_000_000) as server,
            talk(server, prompt_cache=cached, alpha=0.5) as session,
        ):
            run(session, "count")
            first.append(session.transcript.compactions[0].tokens_before)

    assert first[1] < first[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"prices": {MODEL: {"input": 0, "output": 0}}},
        {"compaction": "crush"},
        {"compaction": "manual"},
        {"compaction": "off"},
    ],
    ids=["free", "crush", "manual", "off"],
)
def test_no_account_is_kept(settings):
    """Free models and other presets have no account, and nothing is compacted by one."""
    with (
        served([*steps(30), "Done."], 1_000_000) as server,
        talk(server, alpha=0.2, **settings) as session,
    ):
        run(session, "count")

        assert not session.transcript.compactions
        found = compaction_of(session)
        assert (found["account"], found["price"]) == (None, None)


def test_the_reserve_still_binds():
    """On a window too small for the account to fill, `economic` keeps crush's reserve."""
    free = {MODEL: {"input": 0, "output": 0}}
    figures = []
    for settings in ({"compaction": "crush"}, {"prices": free}):
        with (
            served([*steps(60, 80), "Done."], 16_000, "## Task\nCount on.") as server,
            talk(server, **settings) as session,
        ):
            run(session, "count")
            figures.append([entry.tokens_before for entry in session.transcript.compactions])

    assert figures[0] == figures[1] != []


def test_the_breaker_holds_for_the_account():
    """Three summaries that fail pause it; the turn goes on, for the window has room."""
    with (
        served([*steps(30), "Done."], 1_000_000, max_tokens("half a summ")) as server,
        talk(server, alpha=0.2) as session,
    ):
        events = run(session, "count")

        assert [e.paused for e in events if isinstance(e, CompactionFailed)] == [False, False, True]
        assert session.state == "paused"
        assert events[-1].outcome == "done"
