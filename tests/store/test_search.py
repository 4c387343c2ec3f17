"""Laws of finding sessions by words."""

import json
from pathlib import Path

import pytest

from jupyter_ctx.core.blocks import Text, ToolResult, ToolUse, assistant, user
from jupyter_ctx.core.entries import MessageEntry
from jupyter_ctx.store.open_session import OpenSession
from jupyter_ctx.store.search import EXCERPT_CHARS, INDEX, PROMPT_CHARS
from jupyter_ctx.store.sessions import SessionStore


def prompt(turn: int, text: str) -> MessageEntry:
    """Return a prompt."""
    return MessageEntry(float(turn), turn, 0, "prompt", user(Text(text)))


def reply(turn: int, text: str) -> MessageEntry:
    """Return a reply."""
    return MessageEntry(float(turn), turn, 1, "reply", assistant(Text(text)))


def store_of(home: Path, **prompts: str) -> SessionStore:
    """Return a store with one closed session for each name, of one prompt."""
    store = SessionStore(home)
    for name, text in prompts.items():
        session = store.create(name)
        session.append(prompt(1, text))
        session.update_metadata(title=text[:80], updated=float(len(name)))
        session.close()
    return store


def ids(store: SessionStore, text: str, *, full: bool = False) -> list[str]:
    """Return the ids of the sessions found."""
    return [found.info.session_id for found in store.search(text, full=full)]


def go_on(store: SessionStore, session_id: str, *entries: MessageEntry) -> None:
    """Append to a stored session as a kernel would."""
    session = store.load(session_id)
    for entry in entries:
        session.append(entry)
    session.close()


def test_every_word_in_one_text_in_any_case(tmp_path: Path) -> None:
    """A session is found if one title or prompt of it has all the words, the newest first."""
    store = store_of(tmp_path, a="Left JOIN of orders", bb="A left outer JOIN", ccc="Straße left")
    go_on(store, "ccc", prompt(2, "now join"))

    assert ids(store, "join  LEFT") == ["bb", "a"]
    assert ids(store, "STRASSE") == ["ccc"]
    assert ids(store, "") == ["ccc", "bb", "a"]
    assert ids(store, "nowhere") == []
    found = store.search("now")[0]
    assert (found.where, found.turn, found.excerpt) == ("prompt", 2, "now join")
    assert store.search("strasse")[0].where == "title"


def test_what_was_appended_since_is_found(tmp_path: Path) -> None:
    """Prompts that came after a search are found by the next one, those before all the same."""
    store = store_of(tmp_path, a="first thing")
    assert ids(store, "second") == []

    go_on(store, "a", prompt(2, "the second thing"))

    assert [(f.turn, f.where) for f in store.search("second")] == [(2, "prompt")]
    assert ids(store, "first") == ["a"]


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    """Half a line of another kernel hides nothing that comes later."""
    store = store_of(tmp_path, a="first")
    path = tmp_path / "sessions" / "a" / "transcript.jsonl"
    go_on(store, "a", prompt(2, "second"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert ids(store, "second") == []

    with path.open("ab") as file:
        file.write(whole[-20:])

    assert ids(store, "second") == ["a"]


def test_messages_only_on_request(tmp_path: Path) -> None:
    """What the model said or was given is found with `full` only, with its turn."""
    store = store_of(tmp_path, a="Question", bb="Other")
    use = MessageEntry(
        1.0, 1, 1, "reply", assistant(ToolUse("c", "run_code", {"code": "df.left()"}))
    )
    result = ToolResult("c", (Text('KeyError: "région"', "results"),))
    answer = MessageEntry(1.0, 1, 1, "results", user(result))
    go_on(store, "a", use, answer, reply(1, "It is a KeyError."))

    for words in ("df.left()", '"région"', "KEYERROR"):
        assert ids(store, words) == []
        assert [(f.info.session_id, f.where, f.turn) for f in store.search(words, full=True)] == [
            ("a", "text", 1)
        ]
    assert ids(store, "role assistant", full=True) == []


def test_an_excerpt_is_one_short_line(tmp_path: Path) -> None:
    """Found text is shown on one line around the word, cut with ellipses where it goes on."""
    store = store_of(tmp_path, a="title\n" + "x " * 400 + "needle\n\n here " + "y " * 400)

    excerpt = store.search("needle")[0].excerpt

    assert "x needle here y" in excerpt
    assert excerpt[0] == excerpt[-1] == "…"
    assert len(excerpt) <= EXCERPT_CHARS + 2


def test_an_index_that_is_lost_bad_or_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    """The same sessions are found without it, and it is made again."""
    store = store_of(tmp_path, a="needle")
    assert ids(store, "needle") == ["a"]
    path = tmp_path / INDEX
    whole = path.read_bytes()
    for bad in (b"", b"[]", b'{"version":1}', b'{"version":1,"sessions":{"a":[1]}}', whole[:30]):
        path.write_bytes(bad)
        assert ids(store, "needle") == ["a"]
        assert path.read_bytes() == whole
    path.unlink()
    path.mkdir()
    assert ids(store, "needle") == ["a"]


def test_the_index_forgets_deleted_sessions(tmp_path: Path) -> None:
    """No prompt of a deleted session is kept in the index after the next search."""
    store = store_of(tmp_path, a="needle", bb="thread")
    store.search("needle")

    store.delete("a")

    assert ids(store, "needle") == []
    assert list(json.loads((tmp_path / INDEX).read_bytes())["sessions"]) == ["bb"]


def test_a_replaced_transcript_is_read_anew(tmp_path: Path) -> None:
    """A transcript that another file took the place of is searched as it is now."""
    store = store_of(tmp_path, a="needle", bb="thread of wool, a long one")
    store.search("needle")
    sessions = tmp_path / "sessions"

    (sessions / "bb" / "transcript.jsonl").replace(sessions / "a" / "transcript.jsonl")

    assert ids(store, "wool") == ["bb", "a"]


@pytest.mark.parametrize("length", [PROMPT_CHARS, PROMPT_CHARS + 100])
def test_the_end_of_a_long_prompt_is_found_on_request(tmp_path: Path, length: int) -> None:
    """A prompt is searched at once up to its bound, beyond it with `full`."""
    store = store_of(tmp_path, a="x" * (length - 7) + " needle")

    assert ids(store, "needle") == (["a"] if length == PROMPT_CHARS else [])
    assert ids(store, "needle", full=True) == ["a"]


def test_nothing_is_found_without_a_home() -> None:
    """A store without a home has nothing to search, to list or to empty."""
    store = SessionStore(None)

    assert (store.search("x"), store.list(), store.trashed(), store.empty_trash()) == (
        [],
        [],
        [],
        (),
    )


def test_an_open_session_is_searched(tmp_path: Path) -> None:
    """A session that a kernel has open is found with all that it has recorded."""
    store = SessionStore(tmp_path)
    session = store.create("a")
    assert isinstance(session, OpenSession)
    session.append(prompt(1, "needle"))

    assert ids(SessionStore(tmp_path), "needle") == ["a"]
    session.close()
