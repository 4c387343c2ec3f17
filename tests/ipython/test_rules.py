"""Laws of the rules of a session: each covers what its words say, and nothing else."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.entries import Edit, EditEntry, EditUndoneEntry, Entry
from jupyter_ctx.ipython.rules import (
    CELL_VERBS,
    FILE_VERBS,
    Act,
    Rule,
    covers,
    find_made,
    find_offers,
    kind_of,
    rules_from_json,
    rules_to_json,
)

VERBS = ("run code", "insert cells", "use fetch", *CELL_VERBS, *FILE_VERBS)


@st.composite
def acts(draw: st.DrawFn) -> Act:
    """Return any act that a call may be."""
    verb = draw(st.sampled_from(VERBS))
    target = draw(st.sampled_from(["", "a", "b", "/p/f.txt"])) if kind_of(verb) else ""
    digest = draw(st.sampled_from(["0a", "0b"])) if verb == "run cells" and target else ""
    is_made = bool(target) and draw(st.booleans())
    return Act(verb, target, is_made, digest, draw(st.booleans()))


@given(acts())
def test_what_is_offered_covers_the_call(act: Act) -> None:
    """A rule that is offered with a question allows the call that it is asked about."""
    assert all(covers(rule, act) for rule in find_offers(act).values())


@given(acts(), acts())
def test_a_rule_stays_within_its_words(first: Act, second: Act) -> None:
    """A rule covers no other group, no unknown or guarded target, no person's cell's deletion."""
    for rule in find_offers(first).values():
        if not covers(rule, second):
            continue
        assert first.verb == second.verb
        assert not second.always_asks
        assert bool(second.target) == bool(kind_of(second.verb))
        if second.verb == "delete cells":
            assert second.is_made
        if rule.reach == "this":
            assert (first.target, first.digest) == (second.target, second.digest)
        if rule.reach == "made":
            assert second.is_made


@given(acts(), acts())
def test_no_rule_can_be_wider_than_the_offers(first: Act, second: Act) -> None:
    """What covers a call is among the rules that its own question would offer."""
    for rule in find_offers(first).values():
        assert covers(rule, second) == (rule in find_offers(second).values())


def test_the_words_of_each_rule() -> None:
    """A rule says what it covers, on one line, with nothing that hides."""
    said = [
        str(rule)
        for act in (
            Act("run code"),
            Act("edit cells", "a1", is_made=True),
            Act("run cells", "a1", digest="0a"),
            Act("delete cells", "a1", is_made=True),
            Act("edit files", "/p/f.txt"),
        )
        for rule in find_offers(act).values()
    ]

    assert said == [
        "run code",
        "edit cell a1",
        "edit cells the agent made",
        "edit any cell",
        "run cell a1 as shown",
        "run any cell",
        "delete cells the agent made",
        "edit file /p/f.txt",
        "edit any file in the project",
    ]
    assert str(Rule("edit cells", "this", "a\nb\u202e")) == "edit cell a\\nb\\u202e"


def test_deleting_a_persons_cell_has_no_rule() -> None:
    """For deleting a cell that is not the agent's, or changed since, nothing is offered."""
    assert find_offers(Act("delete cells", "a")) == {}


@given(st.lists(acts()))
def test_rules_come_back_from_the_disk(made: list[Act]) -> None:
    """What can be offered is stored and read back the same."""
    rules = dict.fromkeys(rule for act in made for rule in find_offers(act).values())
    stored = json.loads(json.dumps(rules_to_json(rules, "s")))

    assert rules_from_json(stored, "s") == tuple(rules)


GOOD: dict[str, Any] = {
    "version": 1,
    "session_id": "s",
    "rules": [{"verb": "run code", "reach": "all", "target": "", "digest": ""}],
}


def changed(**fields: object) -> dict[str, Any]:
    """Return a good file whose rule has other fields."""
    stored = copy.deepcopy(GOOD)
    stored["rules"][0].update(fields)
    return stored


@pytest.mark.parametrize(
    "stored",
    [
        None,
        [],
        "run code",
        {},
        {**GOOD, "version": 2},
        {**GOOD, "version": True},
        {**GOOD, "session_id": "other"},
        {**GOOD, "more": 1},
        {**GOOD, "rules": {}},
        {**GOOD, "rules": [*GOOD["rules"], "run code"]},
        {**GOOD, "rules": GOOD["rules"] * 1_001},
        changed(verb=""),
        changed(verb="run\ncode"),
        changed(verb=7),
        changed(more=""),
        changed(reach="any"),
        changed(reach="everything"),
        changed(target="a"),
        changed(verb="delete cells", reach="any"),
        changed(verb="delete cells", reach="this", target="a"),
        changed(verb="edit cells"),
        changed(verb="edit cells", reach="this"),
        changed(verb="edit cells", reach="any", target="a"),
        changed(verb="run cells", reach="this", target="a"),
        changed(verb="run cells", reach="this", target="a", digest="x"),
        changed(verb="edit cells", reach="this", target="a", digest="0a"),
        changed(verb="edit files", reach="this", target="x" * 5_000),
    ],
)
def test_of_a_strange_file_no_rule_counts(stored: object) -> None:
    """A file that holds anything that is never written gives no rule at all."""
    assert rules_from_json(GOOD, "s") == (Rule("run code"),)
    with pytest.raises(ValueError, match=r"^it(s| )"):
        rules_from_json(stored, "s")


# What the agent made ----------------------------------------------------------------------------


def edited(n: int, kind: Any, target: str, before: str | None, after: str | None) -> Entry:
    """Return the entry of an edit; the texts are sources."""
    key = "source" if kind == "cell" else "text"
    was, now = ({key: text} if text is not None else None for text in (before, after))
    return EditEntry(0.0, n, 1, Edit(kind, target, was, now))


def test_what_the_agent_made() -> None:
    """Cells and files it inserted count with their present source; what it only edited does not."""
    made = find_made(
        [
            edited(1, "cell", "a", None, "x"),
            edited(2, "cell", "a", "x", "y"),
            edited(3, "cell", "person", "p", "q"),
            edited(4, "file", "/f", None, "t"),
            edited(5, "file", "/g", "t", "u"),
            edited(6, "cell", "gone", None, "z"),
            edited(7, "cell", "gone", "z", None),
        ]
    )

    assert made.cells == {"a": "y"}
    assert made.files == {"/f"}


def test_an_undone_edit_does_not_count() -> None:
    """An insert that was undone was not made; an undone edit leaves the source before it."""
    entries = [
        edited(1, "cell", "a", None, "x"),
        edited(2, "cell", "a", "x", "y"),
        EditUndoneEntry(0.0, 2),
    ]

    assert find_made(entries).cells == {"a": "x"}
    assert find_made([*entries, EditUndoneEntry(0.0, 1)]).cells == {}
