"""Stored turns as items: the same as the live events told, and a page costs what it shows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.entries import MessageEntry, RewindEntry
from jupyter_ctx.errors import AuthError, CtxError
from jupyter_ctx.panel.history import find_turns, items_by_turn, items_of, turn_numbers
from jupyter_ctx.panel.wire import coalesce
from jupyter_ctx.testing import DenyAll, reply, thinking
from tests.panel.recorded import SCENES, notebook_tools, told, use

NOT_STORED = {
    "text_delta",
    "note_added",
    "retry_scheduled",
    "step_discarded",
    "tool_output",
    "question",
    "question_closed",
    "queued",
    "unqueued",
    "session",
    "shown",
    "failed",
    "cleared",
    "kernel_awaited",
    "edit_made",
    "edit_undone",
    "memory_changed",
}
UNKNOWN = (
    "seconds",
    "tokens",
    "decision",
    "footer",
    "at",
    "attachments",
    "has_outputs",
    "block",
    "failures",
)


def stored_items(session):
    """Return the items of all stored turns."""
    spans, has_earlier = find_turns(session.transcript.entries)
    assert not has_earlier
    return [item for span in spans for item in items_of(session, span)]


def known(items):
    """Return what a transcript can know of items: rewound turns gone, figures of time left out."""
    kept = []
    changed = {}
    for item in coalesce(items):
        if item["kind"] == "rewound":
            first = next(
                i
                for i, one in enumerate([*kept, item])
                if one is item or (one["kind"] == "turn_started" and one["turn"] >= item["turn"])
            )
            del kept[first:]
        elif item["kind"] == "summary_changed":
            changed.setdefault(item["n"], set()).add(item["condition"])
        elif item["kind"] == "compaction_failed" and "nothing to compact" in item["reason"]:
            kept.pop()  # nothing was asked for, so nothing is stored
        elif item["kind"] not in NOT_STORED:
            kept.append({k: v for k, v in item.items() if k not in UNKNOWN})
    return [
        {**item, "changed": changed.get(item["n"], set())}
        if item["kind"] == "compaction_finished"
        else item
        for item in without_empty_steps(kept)
    ]


def without_empty_steps(items):
    """Leave out what was told of a step that came to nothing, and a refusal's own words."""
    done = {(i["turn"], i["step"]) for i in items if i["kind"] == "step_finished"}
    is_empty = False
    for item in items:
        if item["kind"] == "step_started":
            is_empty = (item["turn"], item["step"]) not in done
        elif item["kind"] not in ("text_finished", "thinking_delta"):
            is_empty = False
        if item.get("stop_reason") == "refusal":
            yield {**item, "error": None}
        elif not is_empty:
            yield item


@pytest.mark.parametrize("name", sorted(set(SCENES) - {"cleared", "turn_retry"}))
def test_a_stored_scene_is_told_as_it_was_live(name):
    """The items of a stored session are those told live, but for what is not stored."""
    scene = SCENES[name]()

    assert known(stored_items(scene.session)) == known(scene.items)


def test_what_broke_off_before_it_came_is_not_in_the_stored_turn():
    """A stream that broke leaves nothing: the stored turn has the answer that came at last."""
    kinds = [item["kind"] for item in stored_items(SCENES["turn_retry"]().session)]

    assert kinds == [
        "turn_started",
        "step_started",
        "text_finished",
        "step_finished",
        "turn_finished",
    ]


# The law ----------------------------------------------------------------------------------------

STEPS = {
    "say": lambda n: [reply(thinking(f"I think of {n}."), f"Said {n}.")],
    "code": lambda n: [reply("Look:", use("run_code", n, code="churn")), reply("Seen.")],
    "two": lambda n: [
        reply(use("run_code", n, code="plot"), use("inspect", n + 50, names=["a"])),
        reply(f"Both {n}."),
    ],
    "large": lambda n: [reply(use("read_file", n, path="a")), reply("Read. " * 300)],
    "error": lambda n: [reply("Hm", use("run_code", n, code="1/0")), reply("It fails.")],
    "stop": lambda n: [
        reply(use("run_code", n, code="while True"), use("inspect", n + 50)),
        reply("Not run."),
    ],
    "refuse": lambda n: [reply("I will not.", stop_reason="refusal")],
    "fail": lambda n: [AuthError("The key was refused (401).")],
    "fail_late": lambda n: [reply("So:", use("run_code", n, code="churn")), AuthError("Gone.")],
    "pause": lambda n: [reply("Wait", stop_reason="pause_turn"), reply("Done.")],
}
acts = st.lists(
    st.sampled_from([*STEPS, *STEPS, "compact", "edit", "undo", "rewind"]), min_size=1, max_size=9
)


def perform(scene, name, n, number):
    """Do one act; what a session refuses changes nothing."""
    session = scene.session
    if name in STEPS:
        session.model.answers[:] = STEPS[name](n)
        scene.ask(f"Prompt {n}", cell_id=None if n % 2 else f"cell-{n}")
    elif name == "compact":
        session.model.answers[:] = [reply(f"Summary {n}.")]
        scene.compact()
    else:
        try:
            if name == "edit":
                entry = session.edit_summary(f"Edited {n}.")
                scene.add({"kind": "summary_changed", "n": entry.n, "condition": "edited"})
            elif name == "undo":
                undo = session.undo_summary()
                scene.add({"kind": "summary_changed", "n": undo.entry.n, "condition": "undone"})
            elif turns := session.transcript.turns:
                turn = turns[number % len(turns)]
                session.rewind(turn)
                scene.add({"kind": "rewound", "turn": turn})
        except CtxError:
            return


@settings(max_examples=40, deadline=None)
@given(acts, st.integers(0, 20), st.booleans())
def test_what_is_stored_is_told_as_it_was_live(names, number, is_denied):
    """Whatever happens in a session, its stored turns are told as they were live."""
    more = {"permissions": DenyAll("no")} if is_denied else {}
    scene = told(tools=notebook_tools(), tail_tokens=0, **more)
    for n, name in enumerate(names, start=1):
        perform(scene, name, n, number)

    assert known(stored_items(scene.session)) == known(scene.items)


# Pages ------------------------------------------------------------------------------------------


def long_session(turns):
    """Return a session of so many short turns."""
    scene = told(*(reply(f"Answer {n}.") for n in range(turns)), tools=notebook_tools())
    for n in range(turns):
        scene.ask(f"Prompt {n}")
    return scene.session


def test_pages_are_the_whole_conversation_once():
    """Page by page from the end, every turn comes once, in order, and the last page says so."""
    session = long_session(23)
    pages, before, has_earlier = [], None, True
    while has_earlier:
        numbers, has_earlier = turn_numbers(session, before, 5)
        pages.insert(0, numbers)
        before = numbers[0]

    assert [n for page in pages for n in page] == list(range(1, 24))
    assert [len(page) for page in pages] == [3, 5, 5, 5, 5]


def test_a_page_is_the_same_as_its_part_of_the_whole():
    """Turns asked for by number are told as in the whole conversation."""
    session = long_session(9)
    found = items_by_turn(session, [3, 4, 7, 99])

    assert list(found) == [3, 4, 7]
    whole = stored_items(session)
    assert found[4] == [item for item in whole if item["turn"] == 4]


class Counted(list[object]):
    """Entries that count how often one is looked at."""

    looks = 0

    def __reversed__(self):
        for at in range(len(self) - 1, -1, -1):
            self.looks += 1
            yield self[at]


def test_a_page_costs_what_it_shows():
    """The newest page looks at its own entries, however long the conversation is."""
    short, long = long_session(12), long_session(120)
    looks = []
    for session in (short, long):
        entries = Counted(session.transcript.entries)
        find_turns(entries, None, 5)
        looks.append(entries.looks)

    assert looks[0] == looks[1]


def test_a_rewound_turn_is_in_no_page():
    """What was rewound is told nowhere, also what was asked again under another number."""
    session = long_session(4)
    session.rewind(3)
    session.model.answers[:] = [reply("Anew.")]
    session.ask("Third, anew")

    assert turn_numbers(session, None, 30) == ([1, 2, 5], False)
    assert turn_numbers(session, None, 2) == ([2, 5], True)
    assert turn_numbers(session, 5, 30) == ([1, 2], False)
    assert any(isinstance(entry, RewindEntry) for entry in session.transcript.entries)


def test_what_went_with_a_rewound_turn_says_nothing_of_the_one_before():
    """A refusal in a turn that was rewound leaves the turn before it as it ended."""
    scene = told(reply("One."), reply("No.", stop_reason="refusal"), tools=notebook_tools())
    scene.ask("One?").ask("Two?")
    entries = [*scene.session.transcript.entries, RewindEntry(0.0, 2)]
    again = told(entries=entries, tools=notebook_tools())

    assert stored_items(again.session)[-1]["outcome"] == "done"


def test_a_turn_that_its_kernel_did_not_end_says_so():
    """Entries that stop in the middle of a turn give a turn that was cut off, its call with it."""
    scene = SCENES["turn_tools"]()
    entries = list(scene.session.transcript.entries)
    reply_at = next(
        i for i, e in enumerate(entries) if isinstance(e, MessageEntry) and e.kind == "reply"
    )
    again = told(entries=entries[: reply_at + 1], tools=notebook_tools())
    items = stored_items(again.session)

    assert items[-1]["outcome"] == "stopped"
    assert items[-1]["error"] == "The kernel ended before the turn did."
    assert [i["kind"] for i in items].count("tool_started") == 1
    assert "tool_finished" not in [i["kind"] for i in items]


def test_a_long_prompt_is_told_as_it_was_typed():
    """A prompt of which the model saw a preview is told from its stored text, cut in its item."""
    scene = told(reply("Long."), tools=notebook_tools(), window_tokens=9_000)
    text = "".join(f"word {n} " for n in range(6_000))
    scene.ask(text)
    stored = stored_items(scene.session)[0]["prompt"]

    assert stored == scene.items[0]["prompt"]
    assert stored[:1_000] == text[:1_000]
