"""What the model saw of cells and files."""

from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.acting import Actor, acting
from jupyter_ctx.tools import seen as seen_module
from jupyter_ctx.tools.seen import Seen, digest_of


def test_only_the_newest_text_counts():
    """What was seen before a newer text is present no more; other ids and kinds are untouched."""
    seen = Seen()
    seen.mark("cell", "a", "x = 1")
    seen.mark("file", "a", "x = 1")
    seen.mark("cell", "a", "x = 2")

    assert not seen.is_present("cell", "a", "x = 1")
    assert seen.is_present("cell", "a", "x = 2")
    assert seen.is_present("file", "a", "x = 1")
    assert not seen.has("cell", "b")


def test_forgotten_is_never_present():
    """What was forgotten is not seen in any form; all else still is."""
    seen = Seen()
    for cell_id in "ab":
        seen.mark("cell", cell_id, "")
    seen.forget("cell", "a")

    assert not seen.has("cell", "a")
    assert seen.is_present("cell", "b", "")


def test_bounded(monkeypatch):
    """Only so many are remembered; the one not seen for the longest goes first."""
    monkeypatch.setattr(seen_module, "MOST_SEEN", 2)
    seen = Seen()
    for cell_id in ("a", "b", "a", "c"):
        seen.mark("cell", cell_id, "text")

    assert [seen.has("cell", one) for one in "abc"] == [True, False, True]


@given(st.text(), st.text())
def test_digests_tell_texts_apart(one, other):
    """Two texts have one digest exactly if they are equal, lone surrogates included."""
    assert (digest_of(one) == digest_of(other)) == (one == other)
    assert digest_of(one + "\ud800") != digest_of(one + "\udfff")


def test_parts_make_a_whole():
    """Lines read in order from the first one on make a text seen; a changed text begins anew."""
    seen = Seen()
    text = "a\nb\nc\nd"
    seen.mark_lines("cell", "x", text, 3, 4)
    seen.mark_lines("cell", "x", text, 1, 2)
    assert not seen.has("cell", "x")
    seen.mark_lines("cell", "x", "other\nb\nc\nd", 3, 4)
    assert not seen.has("cell", "x")
    seen.mark_lines("cell", "x", text, 1, 2)
    seen.mark_lines("cell", "x", text, 2, 4)
    assert seen.is_present("cell", "x", text)


def test_what_a_sub_agent_sees_counts_for_it_alone():
    """It begins with what the conversation saw; what it marks and forgets is its own."""
    seen = Seen()
    seen.mark("file", "a", "old")
    seen.mark("file", "b", "b")
    with acting(Actor("t1", "edit")):
        assert seen.is_present("file", "a", "old")
        seen.mark("file", "a", "new")
        seen.forget("file", "b")
        assert seen.is_present("file", "a", "new")
        assert not seen.has("file", "b")
    with acting(Actor("t2", "look")):
        assert seen.is_present("file", "a", "old")

    assert seen.is_present("file", "a", "old")
    assert not seen.is_present("file", "a", "new")
    assert seen.has("file", "b")
