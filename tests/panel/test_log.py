"""What the panel was told: numbered without a gap, sent in time, kept as it is needed."""

from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.panel.log import EVERY_S, KEPT_TURNS, PanelLog
from jupyter_ctx.panel.wire import coalesce, tool_output


class Wire:
    """Keeps what a log sends; `now` and what is due are moved by hand."""

    def __init__(self, *, has_loop=True):
        self.messages = []
        self.now = 100.0
        self.due = []
        self._has_loop = has_loop
        self.log = PanelLog("e", self.messages.append, self._later, lambda: self.now)

    def _later(self, function, delay_s):
        self.due.append((self.now + delay_s, function))
        return self._has_loop

    def come_due(self):
        """Let the time pass until all that was put off has been called."""
        due, self.due = self.due, []
        for at, function in due:
            self.now = max(self.now, at)
            function()

    @property
    def items(self):
        return [item for message in self.messages for item in message["items"]]


def started(turn):
    return {"kind": "turn_started", "turn": turn}


def step(n):
    return {"kind": "step_started", "turn": 1, "step": n}


def delta(block, text):
    return {"kind": "text_delta", "turn": 1, "block": block, "text": text}


def finished(block, text):
    return {"kind": "text_finished", "turn": 1, "block": block, "text": text}


def tool(kind, n):
    return {"kind": kind, "turn": 1, "tool_use_id": f"t{n}"}


@st.composite
def turns(draw):
    """The items of one turn: steps of text and tools, in the order that a turn tells them."""
    items, block = [started(1)], 0
    for n in range(1, draw(st.integers(1, 4)) + 1):
        items.append(step(n))
        for _ in range(draw(st.integers(0, 2))):
            block += 1
            pieces = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
            items += [delta(block, piece) for piece in pieces]
            items.append(finished(block, "".join(pieces)))
        items.append(tool("tool_started", n))
        items += [tool_output(1, f"t{n}", text) for text in draw(st.lists(st.just("x")))]
        items.append(tool("tool_finished", n))
    return items


@given(turns(), st.integers(0, 60), st.data())
def test_a_page_that_opens_is_told_no_more_than_it_needs(items, upto, data):
    """A snapshot has all but the pieces of finished texts and the tails of finished tools."""
    told = items[: upto + 1]
    wire = Wire()
    for item in told:
        wire.log.add(item)
        wire.now += data.draw(st.sampled_from([0.0, EVERY_S]))
    kept = wire.log.snapshot().turns[1]

    whole = {item["block"] for item in told if item["kind"] == "text_finished"}
    done = {item["tool_use_id"] for item in told if item["kind"] == "tool_finished"}
    needed = [
        item
        for item in coalesce(told)
        if not (item["kind"] == "text_delta" and item["block"] in whole)
        and not (item["kind"] == "tool_output" and item["tool_use_id"] in done)
    ]
    assert list(kept) == needed


@given(turns(), st.data())
def test_items_are_numbered_without_a_gap(items, data):
    """However they are joined, each message begins where the one before ended."""
    wire = Wire()
    for item in items:
        wire.log.add(item)
        wire.now += data.draw(st.sampled_from([0.0, EVERY_S]))
    wire.log.flush()

    seq = 0
    for message in wire.messages:
        assert message["seq"] == seq
        seq += len(message["items"])
    assert wire.log.snapshot().seq == seq
    assert coalesce(wire.items) == coalesce(items)


def test_deltas_wait_for_one_another_and_for_nothing_else():
    """Deltas within 40 ms go out together; any other item goes at once, behind what waited."""
    wire = Wire()
    for item in (started(1), delta(1, "a"), delta(1, "b")):
        wire.log.add(item)
    assert wire.items == [started(1)]
    wire.come_due()
    assert wire.items[1:] == [delta(1, "ab")]
    wire.log.add(delta(1, "c"))
    wire.log.add(finished(1, "abc"))
    assert wire.items[2:] == [delta(1, "c"), finished(1, "abc")]
    wire.come_due()
    assert len(wire.messages) == 3


def test_without_a_loop_a_delta_is_told_at_once():
    """Where nothing can be put off, nothing waits."""
    wire = Wire(has_loop=False)
    wire.log.add(started(1))
    wire.log.add(delta(1, "a"))

    assert wire.items == [started(1), delta(1, "a")]


def test_old_turns_and_rewound_ones_are_let_go():
    """The newest turns are kept as they were told, and none that is no part of the conversation."""
    wire = Wire()
    for turn in range(1, KEPT_TURNS + 3):
        wire.log.add(started(turn))
    assert list(wire.log.snapshot().turns) == list(range(3, KEPT_TURNS + 3))
    wire.log.forget(5)
    assert list(wire.log.snapshot().turns) == [3, 4]
    wire.log.forget()
    wire.log.add({"kind": "note_added", "turn": 0})
    assert dict(wire.log.snapshot().turns) == {}
