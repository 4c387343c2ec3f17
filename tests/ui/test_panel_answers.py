"""Answers and calls that no person gave, sent by JavaScript of the page itself, on the comm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.fake_anthropic import FakeAnthropic, Hold, call, reply

from .conftest import PageFor
from .notebook_page import NotebookPage
from .panel_page import TURN_MS
from .server import LabServer
from .test_diffs import HOLD
from .test_panel import opened

LISTEN = """() => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  window.heard = { questions: [], answers: {} };
  kernel.anyMessage.connect((_, { msg, direction }) => {
    const data = msg.header.msg_type === 'comm_msg' ? msg.content.data : null;
    if (direction !== 'recv' || !data) return;
    if (data.type === 'answer') window.heard.answers[data.id] = JSON.parse(data.text);
    for (const item of data.type === 'panel' ? data.items : []) {
      if (item.kind === 'question') window.heard.questions.push(item);
    }
  });
}"""

SEND = """async data => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const id = [...kernel._comms.keys()].at(-1);
  kernel.sendControlMessage({
    header: { msg_id: crypto.randomUUID(), msg_type: 'comm_msg', username: '', version: '5.3',
      session: kernel.clientId, date: new Date().toISOString() },
    parent_header: {}, metadata: {}, buffers: [], channel: 'control',
    content: { comm_id: id, data }
  }, false);
}"""
"""Puts one message on the comm, as any script of the page can."""


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []


class Script:
    """JavaScript in the page that hears what the kernel says and speaks in its place."""

    def __init__(self, page: NotebookPage) -> None:
        self.page = page.page
        self.sent = 0
        self.page.evaluate(LISTEN)

    def question(self, number: int) -> dict[str, Any]:
        """Wait for question `number` (from 0) and return it."""
        self.page.wait_for_function("n => window.heard.questions.length > n", arg=number)
        found: dict[str, Any] = self.page.evaluate("n => window.heard.questions[n]", number)
        return found

    def call(self, op: str, **args: object) -> dict[str, Any]:
        """Ask the kernel as the panel does; return its answer."""
        self.sent += 1
        call_id = f"script-{self.sent}"
        self.page.evaluate(SEND, message(call_id, op, args))
        self.page.wait_for_function("id => window.heard.answers[id]", arg=call_id)
        found: dict[str, Any] = self.page.evaluate("id => window.heard.answers[id]", call_id)
        return found

    def decide(self, question: str, sha256: str, choice: str = "once") -> dict[str, Any]:
        """Answer a question."""
        given = {"question": question, "sha256": sha256, "choice": choice}
        return self.call("decide", **given, word="", reason="")


def message(call_id: str, op: str, args: object) -> dict[str, Any]:
    """Return a call as one message."""
    text = json.dumps({"op": op, "args": args})
    head = {"version": 1, "type": "call", "id": call_id, "client": "script"}
    return {**head, "part": 1, "parts": 1, "text": text}


def test_an_answer_to_another_request_answers_none(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C29: of an id that was never asked, or is answered already: refused, and the question stays.

    Given twice, the first counts and the second is refused; the next question is asked anew.
    """
    page, panel = opened(lab, page_for, server, "other_id.ipynb", permissions="ask")
    script = Script(page)
    server.append(call("run_code", code="print(6 * 7)"), call("run_code", code="print(7 * 7)"))
    panel.ask("Calculate")
    first = script.question(0)
    expect(panel.question).to_contain_text("print(6 * 7)", timeout=TURN_MS)
    made_up = script.decide("made-up", first["sha256"])
    assert made_up["error"]["kind"] == "gone"
    expect(panel.question).to_contain_text("print(6 * 7)")

    assert script.decide(first["id"], first["sha256"]) == {"ok": True, "result": {"how": "once"}}
    second = script.question(1)
    assert second["id"] != first["id"]
    expect(panel.question).to_contain_text("print(7 * 7)", timeout=TURN_MS)
    for sha256 in (first["sha256"], second["sha256"]):
        assert script.decide(first["id"], sha256)["error"]["kind"] == "gone"
    expect(panel.question).to_contain_text("print(7 * 7)")
    assert len(server.messages) == 2
    server.append("It is 49.")
    panel.allow()
    panel.wait_done()
    expect(panel.turn(1)).to_contain_text("It is 49.")


def test_an_answer_to_another_text_is_a_denial(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C29: a digest of anything but what was shown denies, so does that of the request before."""
    page, panel = opened(lab, page_for, server, "other_text.ipynb", permissions="ask")
    script = Script(page)
    server.append(
        call("run_code", code="open('harm', 'w')"), call("run_code", code="open('harm2', 'w')")
    )
    panel.ask("Write")
    first = script.question(0)
    assert script.decide(first["id"], "0" * 64) == {"ok": True, "result": {"how": "denied"}}
    second = script.question(1)
    server.append("As you wish.")
    assert script.decide(second["id"], first["sha256"])["result"] == {"how": "denied"}
    panel.wait_done()

    expect(panel.turn(1)).to_contain_text("As you wish.")
    assert server.messages[-1].body.count(b"given to another text") == 2
    assert not (lab.root_dir / "harm").exists()
    assert not (lab.root_dir / "harm2").exists()


def test_a_late_click_does_not_answer_the_next_request(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C29: a click, or a key, meant for a request that was replaced meanwhile allows nothing."""
    page, panel = opened(lab, page_for, server, "late.ipynb", permissions="ask")
    page.page.evaluate(HOLD)  # the half second in which the next one takes no answer
    script = Script(page)
    server.append(call("run_code", code="print(6 * 7)"), call("run_code", code="open('late', 'w')"))
    panel.ask("Calculate")
    first = script.question(0)
    expect(panel.question).to_contain_text("print(6 * 7)", timeout=TURN_MS)
    box = panel.question.get_by_role("button", name="Allow once").bounding_box()
    assert box is not None
    page.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.page.mouse.down()  # pressed on the first, released over the second
    page.page.evaluate(
        """() => new MutationObserver((_, seen) => {
          const ask = [...document.querySelectorAll('.jctx-ask')].find(
            one => one.textContent.includes('late'));
          if (!ask) return;
          seen.disconnect();
          window.isReplaced = true;
        }).observe(document.body, { subtree: true, childList: true, characterData: true })"""
    )
    script.decide(first["id"], first["sha256"])
    page.page.wait_for_function("() => window.isReplaced")
    page.page.mouse.up()
    page.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.page.keyboard.press("y")

    expect(panel.question).to_contain_text("late")
    assert len(server.messages) == 2
    page.page.evaluate("() => window.held.forEach(act => act())")
    field = panel.begin_denial()
    server.append("As you wish.")
    field.press("Enter")
    panel.wait_done()
    assert not (lab.root_dir / "late").exists()


def test_wrong_messages_of_a_page_break_nothing(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Of another version, of no shape, too long, in parts that never fit: refused, in mid-turn."""
    page, panel = opened(lab, page_for, server, "wrong_calls.ipynb", "print('free')")
    script = Script(page)
    server.append(reply("Half", Hold("mid"), " and whole."))
    panel.ask("Write")
    server.wait_held("mid")
    right = message("right", "stop", {"seq": 0})
    wrong: list[Any] = [
        {**right, "id": "v2", "version": 2},
        {**right, "id": "v-text", "version": "1"},
        {**right, "id": "v-true", "version": True},
        {**right, "id": "zero", "part": 0},
        {**right, "id": "many", "parts": 10**9},
        {**right, "id": "no-text", "text": {"op": "stop"}},
        {**right, "id": "long", "text": "x" * 70_000},
        {**right, "id": "no-json", "text": "{"},
        {**right, "id": "list", "text": "[]"},
        {**right, "id": "no-op", "text": json.dumps({"op": "no_such", "args": {}})},
        {**right, "id": "no-args", "text": json.dumps({"op": "submit", "args": {"text": 7}})},
    ]
    for one in wrong:
        page.page.evaluate(SEND, one)
    for one in ({}, [], None, "stop", 7, {"type": "call"}, {**right, "id": ""}, {**right, "id": 5}):
        page.page.evaluate(SEND, one)
    names = [one["id"] for one in wrong]
    page.page.wait_for_function("ids => ids.every(id => id in window.heard.answers)", arg=names)
    answers = page.page.evaluate("() => window.heard.answers")
    assert {name: answers[name]["ok"] for name in names} == dict.fromkeys(names, False)
    assert {answers[name]["error"]["kind"] for name in ("v2", "v-text", "v-true")} == {"version"}
    assert "reload the page" in answers["v2"]["error"]["message"]

    server.release("mid")
    panel.wait_done()
    expect(panel.turn(1)).to_contain_text("Half and whole.")
    assert page.run_cell(1)[0]["text"] == "free\n"
    assert script.call("no_such")["ok"] is False
