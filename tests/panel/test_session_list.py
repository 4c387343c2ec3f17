"""The list of sessions as a page asks for it: searched, gone on with, deleted, taken back."""

from __future__ import annotations

import json

import pytest

from jupyter_ctx.store.sessions import SessionStore

from ..fake_anthropic import FakeAnthropic, Hold, reply
from ..kernels import RealKernel
from .client import PanelPage, Refusal


def begun(server: FakeAnthropic, page: PanelPage) -> tuple[str, str]:
    """Have two sessions and return their ids: an older one, and the one that is open now."""
    server.append("It keeps every row.", "It is drawn.")
    page.open()
    page.call("submit", text="Why a left join?")
    page.wait_for("turn_finished", text="It keeps every row.")
    page.call("submit", text="/new")
    page.wait_for("shown", command="/new")
    page.open()
    page.call("submit", text="Plot churn by cohort")
    page.wait_for("turn_finished", text="It is drawn.")
    rows = page.call("sessions", text="", full=False)["rows"]
    return rows[1]["id"], rows[0]["id"]


def test_sessions_are_listed_and_found_by_their_words(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Titles and prompts are searched at once, messages on request; the newest comes first."""
    older, current = begun(server, page)

    listed = page.call("sessions", text="", full=False)
    assert [(row["id"], row["title"], row["state"]) for row in listed["rows"]] == [
        (current, "Plot churn by cohort", "here"),
        (older, "Why a left join?", ""),
    ]
    assert [row["turns"] for row in listed["rows"]] == [1, 1]
    assert listed["rows"][0]["notebook"] == "a.ipynb"
    found = page.call("sessions", text="JOIN left", full=False)
    assert [row["id"] for row in found["rows"]] == [older]
    assert page.call("sessions", text="every row", full=False)["rows"] == []
    whole = page.call("sessions", text="every row", full=True)["rows"]
    assert [(row["id"], row["found"], row["excerpt"]) for row in whole] == [
        (older, "text", "It keeps every row.")
    ]


def test_a_session_is_gone_on_with(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """The conversation shown is the other one, and the model is sent it with the next prompt."""
    older, current = begun(server, page)
    with pytest.raises(Refusal, match=r"refused: .*open here"):
        page.call("resume", id=current, copy=False)
    with pytest.raises(Refusal, match="failed: There is no session"):
        page.call("resume", id="20200101-000000-abcdef", copy=False)

    assert page.call("resume", id=older, copy=False) == {"waits": False}
    page.wait_for("cleared")
    opened = page.open()
    assert opened["session"]["id"] == older
    assert [i["prompt"] for i in opened["items"] if i["kind"] == "turn_started"] == [
        "Why a left join?"
    ]
    server.append("Nothing else.")
    page.call("submit", text="And what does it lose?")
    page.wait_for("turn_finished", text="Nothing else.")
    assert "Why a left join?" in json.dumps(server.messages[-1].json)


def test_a_copy_leaves_the_session_as_it_is(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """A copy has the turns so far and an id of its own; also of the session that is open here."""
    older, current = begun(server, page)
    for wanted in (older, current):
        page.call("resume", id=wanted, copy=True)
        assert page.open()["session"]["id"] not in (older, current)
    rows = page.call("sessions", text="", full=False)["rows"]

    assert len(rows) == 4
    assert {(row["id"], row["state"]) for row in rows} >= {(older, ""), (current, "")}


def test_a_session_of_another_kernel_is_asked_about_first(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Nothing is opened or deleted that another process has open; a copy of it is, on request."""
    older, current = begun(server, page)
    elsewhere = SessionStore(free.home).load(older)
    try:
        with pytest.raises(Refusal, match=r"elsewhere: .*“Why a left join\?” of a\.ipynb"):
            page.call("resume", id=older, copy=False)
        with pytest.raises(Refusal, match=r"failed: .*open in a kernel"):
            page.call("delete_session", id=older)
        rows = page.call("sessions", text="", full=False)["rows"]
        assert [row["state"] for row in rows] == ["here", "elsewhere"]
        assert page.open()["session"]["id"] == current
        page.call("resume", id=older, copy=True)
        opened = page.open()
        assert opened["session"]["id"] not in (older, current)
        assert opened["session"]["turns"] == 1
    finally:
        elsewhere.close()


def test_a_deleted_session_is_taken_back(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """It is among the deleted until then; the session that is open here stays."""
    older, current = begun(server, page)
    page.call("delete_session", id=older)
    listed = page.call("sessions", text="", full=False)
    assert [row["id"] for row in listed["rows"]] == [current]
    assert [(row["id"], row["state"]) for row in listed["trashed"]] == [(older, "deleted")]
    assert page.call("sessions", text="left join", full=False)["trashed"] == []
    page.call("restore_session", id=older)
    listed = page.call("sessions", text="", full=False)
    assert [row["id"] for row in listed["rows"]] == [current, older]
    assert listed["trashed"] == []

    with pytest.raises(Refusal, match="refused: This session is open here"):
        page.call("delete_session", id=current)
    for op in ("delete_session", "restore_session"):
        with pytest.raises(Refusal, match="failed: There is no"):
            page.call(op, id="../../etc")


def test_the_list_needs_no_main_thread_and_resume_waits_for_it(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """While a cell runs, sessions are listed; the chosen one is opened once the cell has ended."""
    older, _ = begun(server, page)
    cell = free.submit("print('begun', flush=True)\ninput('go on? ')", allow_stdin=True)
    free.wait_for_text(cell, "begun")
    assert len(page.call("sessions", text="", full=False)["rows"]) == 2
    assert page.call("resume", id=older, copy=False) == {"waits": True}
    assert page.of("cleared") == []
    assert free.collect(cell, stdin_replies=["yes"]).ok
    page.wait_for("session", id=older)
    assert "cleared" in page.kinds


def test_no_session_is_changed_while_a_turn_runs(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """The turn goes on where it is; the list is there meanwhile."""
    older, _ = begun(server, page)
    server.append(reply("Half ", Hold("half"), "and whole."))
    page.call("submit", text="go")
    page.wait_text("Half")
    with pytest.raises(Refusal, match="busy: "):
        page.call("resume", id=older, copy=False)
    assert len(page.call("sessions", text="", full=False)["rows"]) == 2
    server.release("half")
    page.wait_for("turn_finished", turn=2, outcome="done")


BAD: list[tuple[str, dict[str, object]]] = [
    ("sessions", {"text": 1, "full": False}),
    ("sessions", {"text": "x" * 1_001, "full": False}),
    ("sessions", {"text": ""}),
    ("resume", {"id": "x"}),
    ("resume", {"id": ["x"], "copy": True}),
    ("delete_session", {}),
    ("restore_session", {"id": "x" * 201}),
]


def test_arguments_of_another_form_are_refused(free: RealKernel, page: PanelPage) -> None:
    """A call that is none of ours changes nothing and says what it lacks."""
    page.open()
    for op, args in BAD:
        with pytest.raises(Refusal, match="bad: "):
            page.call(op, **args)
