"""Laws of `/sessions` and `/resume`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jupyter_ctx.core.blocks import Text, assistant, user
from jupyter_ctx.core.entries import MessageEntry
from jupyter_ctx.errors import CtxError, PromptError
from jupyter_ctx.ipython.commands import Shown, complete, parse
from jupyter_ctx.ipython.sessions import MOST_CANDIDATES, MOST_ROWS, Shelf, find_session, when
from jupyter_ctx.store.sessions import SessionStore

from .test_markdown import acting_parts, lab_html


@dataclass
class Place:
    """What the commands of sessions need of a kernel."""

    sessions: Shelf


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    """Return an empty store."""
    return SessionStore(tmp_path)


def add(store: SessionStore, session_id: str, *prompts: str, notebook: str = "/w/a.ipynb") -> None:
    """Store a closed session of these prompts; the id's last two digits are when it was used."""
    session = store.create(session_id, notebook=notebook)
    for turn, text in enumerate(prompts, 1):
        session.append(MessageEntry(1.0, turn, 0, "prompt", user(Text(text))))
        session.append(MessageEntry(1.0, turn, 1, "reply", assistant(Text(f"answer {turn}"))))
    session.update_metadata(
        title=prompts[0] if prompts else "",
        turns=len(prompts),
        cost=0.25,
        updated=1_000_000.0 + int(session_id[-2:]),
    )
    session.close()


def run(store: SessionStore, text: str, current: str | None = None) -> Shown:
    """Run a command; return what it shows."""
    host: Any = Place(Shelf(store, current))
    command, argument = parse(text)
    shown = command.run(host, argument)
    assert shown is not None
    return shown


def test_sessions_are_a_table(store: SessionStore) -> None:
    """Each session has its title, notebook, turns, cost, time, state and id, the newest first."""
    add(store, "s-01", "Churn by cohort", "And by month")
    add(store, "s-02", "Sales | weekly", notebook="/w/x/sales.ipynb")
    add(store, "s-03")
    opened = store.load("s-02")

    shown = run(store, "/sessions", "s-01")

    head, second, first, *_ = shown.text.splitlines()
    assert head.split() == ["Title", "Notebook", "Turns", "Cost", "Last", "used", "State", "Id"]
    at = when(1_000_001.0, time.time())
    assert first.split("  ")[0] == "Churn by cohort"
    for cell in ("a.ipynb", " 2 ", "$0.25", at, "this one", "s-01"):
        assert cell in first
    for cell in ("Sales | weekly", "sales.ipynb", " 1 ", "in another kernel", "s-02"):
        assert cell in second
    assert "s-03" not in shown.text
    assert "Sales \\| weekly" in shown.markdown
    opened.close()


def test_a_search_shows_where_the_words_are(store: SessionStore) -> None:
    """Found sessions show the title or the turn and a line around the words; nothing is said so."""
    add(store, "s-01", "Churn by cohort", "A left join of orders")
    add(store, "s-02", "Sales")

    assert "turn 2: A left join of orders" in run(store, "/sessions join LEFT").text
    assert "s-02" not in run(store, "/sessions join LEFT").text
    assert run(store, "/sessions churn").text.splitlines()[1].endswith("title")
    assert "turn 2: answer 2" in run(store, "/sessions full answer 2").text
    assert run(store, "/sessions nowhere").text.startswith("No session has “nowhere”")
    with pytest.raises(PromptError, match="words"):
        run(store, "/sessions full")


def test_a_long_list_says_how_many_more(store: SessionStore) -> None:
    """Only the newest are listed, with the number of the others."""
    for n in range(10, 13 + MOST_ROWS):
        add(store, f"s-{n}", "Ask")

    text = run(store, "/sessions").text

    assert text.count("s-") == MOST_ROWS
    assert "3 more;" in text


def test_delete_and_restore(store: SessionStore) -> None:
    """A deleted session leaves the list for the trash, and comes back from there."""
    add(store, "s-01", "Churn")
    add(store, "s-02", "Sales")

    assert "Deleted: Churn (s-01)" in run(store, "/sessions delete s-01").text
    assert "s-01" not in run(store, "/sessions").text
    assert "s-01" in run(store, "/sessions trash").text
    assert "Restored: Churn" in run(store, "/sessions restore").text
    assert "s-01" in run(store, "/sessions").text
    assert run(store, "/sessions trash").text == "The trash is empty."
    for wrong in ("/sessions delete", "/sessions delete s-02", "/sessions delete x"):
        with pytest.raises(CtxError):
            run(store, wrong, current="s-02")
    assert "s-02" in run(store, "/sessions").text


def test_several_deleted_sessions_are_listed_to_choose_from(store: SessionStore) -> None:
    """Restoring without an id takes the only one back, and restores nothing if there are more."""
    add(store, "s-01", "Churn")
    add(store, "s-02", "Sales")
    run(store, "/sessions delete s-01")
    run(store, "/sessions delete s-02")

    shown = run(store, "/sessions restore")

    assert "s-01" in shown.text
    assert "s-02" in shown.text
    assert store.list() == []


def test_resume_takes_the_only_one(store: SessionStore) -> None:
    """An id names a session, and so do words that it alone has of those not open here."""
    add(store, "s-01", "Churn by cohort")
    add(store, "s-02", "Churn by month", "then a join")
    add(store, "s-03")

    assert find_session(Shelf(store, None), "s-01") == "s-01"
    assert find_session(Shelf(store, None), "s-03") == "s-03"
    assert find_session(Shelf(store, None), "JOIN") == "s-02"
    assert find_session(Shelf(store, "s-01"), "churn") == "s-02"


def test_resume_names_the_candidates(store: SessionStore) -> None:
    """Words of several sessions, of none, or only of the open one are an error that says which."""
    for n in range(10, 12 + MOST_CANDIDATES):
        add(store, f"s-{n}", f"Churn {n}")

    with pytest.raises(PromptError) as several:
        find_session(Shelf(store, None), "churn")
    said = str(several.value).splitlines()
    assert said[0].startswith(f"{MOST_CANDIDATES + 2} sessions have “churn”")
    assert said[1].startswith("s-19  Churn 19 (")
    assert len(said) == MOST_CANDIDATES + 2
    assert said[-1] == "and 2 more"
    with pytest.raises(PromptError, match="No session"):
        find_session(Shelf(store, None), "sales")
    with pytest.raises(PromptError, match="Only the session that is open here"):
        find_session(Shelf(store, "s-10"), "churn 10")


def test_completion_offers_ids(store: SessionStore) -> None:
    """What `/resume` and `/sessions` take is completed."""
    add(store, "s-01", "Churn")
    add(store, "s-02", "Sales")
    store.delete("s-02")
    host: Any = Place(Shelf(store, None))

    assert complete(host, "/resume s") == ["s-01"]
    assert complete(host, "/sessions ") == ["full", "trash", "delete", "restore"]
    assert complete(host, "/sessions delete ") == ["s-01"]
    assert complete(host, "/sessions restore ") == ["s-02"]


def test_titles_and_names_are_no_markup(store: SessionStore) -> None:
    """What a prompt or a path says is shown as text, on one line."""
    hostile = "<img src=x onerror=alert(1)> [a](javascript:alert(1)) \x1b[31m$x$ | `b`"
    add(store, "s-01", hostile, f"needle\n{hostile}", notebook=f"/w/{hostile}.ipynb")

    for command in ("/sessions", "/sessions needle", "/sessions full needle"):
        shown = run(store, command)
        assert acting_parts(lab_html(shown.markdown)) == []
        assert "\x1b" not in shown.text + shown.markdown
        assert len(shown.text.split("\n\n")[0].splitlines()) == 2


@pytest.mark.parametrize("at", [float("nan"), float("inf"), 1e300, -1e300])
def test_an_impossible_time_is_unknown(at: float) -> None:
    """A time that no calendar has is shown as a question mark."""
    assert when(at, time.time()) == "?"


def test_without_a_home_there_is_nothing_to_list() -> None:
    """Where nothing is stored, the list says so."""
    assert run(SessionStore(None), "/sessions").text == "No session is stored."
