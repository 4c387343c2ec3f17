"""Laws of `metadata.json`: old ones load for ever, and a lost one is made again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jupyter_ctx.core.blocks import Text, assistant, user
from jupyter_ctx.core.entries import Entry, MessageEntry, RewindEntry
from jupyter_ctx.store.metadata import MOST_BYTES, SessionInfo, build_info, read_info, write_info
from jupyter_ctx.store.sessions import SessionStore

GOLDEN = Path(__file__).parent / "golden" / "metadata-v1.json"
OLD = SessionInfo(
    "20261130-101502-a1b2c3",
    1796033702.5,
    1796033802,
    "Churn by cohort — 日本",
    "/home/u/a.ipynb",
    "/home/u",
    "claude-sonnet-5-5",
    12345,
    0.25,
)


def prompt(turn: int, text: str) -> MessageEntry:
    """Return a prompt."""
    return MessageEntry(turn * 10.0, turn, 0, "prompt", user(Text(text)))


def reply(turn: int) -> MessageEntry:
    """Return a reply."""
    return MessageEntry(turn * 10.0 + 1, turn, 1, "reply", assistant(Text("Ok.")))


def test_the_golden_file_loads() -> None:
    """What the first version wrote is read as it was meant; it did not count turns."""
    assert read_info(GOLDEN, OLD.session_id) == OLD
    assert OLD.turns is None


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Metadata that is written and read again is the same, turns included."""
    info = SessionInfo("a", 1.0, 2.0, "Title", None, "", None, 0, None, "parent", 7)
    write_info(tmp_path / "metadata.json", info)

    assert read_info(tmp_path / "metadata.json", "a") == info


@pytest.mark.parametrize("turns", ["7", 7.5, True, [7]])
def test_turns_that_are_no_number_are_not_believed(tmp_path: Path, turns: object) -> None:
    """Edited metadata of another type is as good as lost: it is made from the transcript."""
    path = tmp_path / "metadata.json"
    write_info(path, SessionInfo("a", 1.0, 2.0, turns=turns))  # type: ignore[arg-type]

    assert read_info(path, "a") is None


@pytest.mark.parametrize("name", ["created", "updated", "cost", "tokens", "turns"])
@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-1", "9" * 400])
def test_impossible_numbers_are_not_believed(tmp_path: Path, name: str, number: str) -> None:
    """No list shows a number that cannot be: such metadata is made from the transcript."""
    path = tmp_path / "metadata.json"
    stored = {"version": 1, "created": 1.0, "updated": 2.0, "turns": 3, "tokens": 4, "cost": 5.0}
    path.write_text(json.dumps({**stored, name: "HERE"}).replace('"HERE"', number))

    assert read_info(path, "a") is None
    odd = MessageEntry(float(number), 1, 0, "prompt", user(Text("Hello.")))
    info = build_info("a", [prompt(1, "Hello."), odd])
    assert (info.created, info.updated) == (10.0, 10.0)


@pytest.mark.parametrize("kind", ["pipe", "link to a device", "too large"])
def test_what_is_no_metadata_file_holds_nothing_up(tmp_path: Path, kind: str) -> None:
    """A pipe or a device in the place of metadata, or a huge file, is as good as a lost one."""
    session = SessionStore(tmp_path).create("a")
    session.append(prompt(1, "Hello."))
    session.close()
    path = tmp_path / "sessions" / "a" / "metadata.json"
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "too large":
        path.write_text(" " * MOST_BYTES + '{"version":1,"created":1.0,"updated":2.0}')
    else:
        path.symlink_to("/dev/zero")

    (info,) = SessionStore(tmp_path).list()
    assert (info.title, info.turns) == ("Hello.", 1)


def test_title_and_turns_are_those_in_force() -> None:
    """What a rewind took back counts no more: neither as title nor as turn."""
    entries: list[Entry] = [prompt(1, "First"), reply(1), prompt(2, "Second"), reply(2)]

    assert (build_info("a", entries).title, build_info("a", entries).turns) == ("First", 2)
    back: list[Entry] = [*entries, RewindEntry(30.0, 1)]
    assert (build_info("a", back).title, build_info("a", back).turns) == ("", 0)
    anew = [*back, prompt(3, "Third"), reply(3)]
    assert (build_info("a", anew).title, build_info("a", anew).turns) == ("Third", 1)


def test_lost_metadata_is_made_again(tmp_path: Path) -> None:
    """A list shows the same without it as with it, and a resumed session stores it anew."""
    store = SessionStore(tmp_path)
    session = store.create("a", notebook="/w/a.ipynb")
    session.append(prompt(1, "First"))
    session.append(reply(1))
    session.update_metadata(title="First", turns=1, updated=11.0)
    session.close()
    (before,) = store.list()
    path = tmp_path / "sessions" / "a" / "metadata.json"
    path.unlink()

    assert store.list() == [before]
    store.load("a").close()
    assert read_info(path, "a") == before


def test_a_first_turn_that_died_is_listed(tmp_path: Path) -> None:
    """A kernel that was killed in its first turn left a session that is found and resumed."""
    store = SessionStore(tmp_path)
    session = store.create("a", cwd="/w")
    session.append(prompt(1, "First of all"))
    session.close()
    store.create("empty", cwd="/w").close()

    titles = {hit.info.session_id: hit.info.title for hit in store.search("")}
    latest = store.latest("/w")

    assert titles == {"a": "First of all", "empty": ""}
    assert latest is not None
    assert (latest.session_id, latest.turns) == ("a", 1)
