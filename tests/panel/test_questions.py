"""Permission by the panel: an answer counts for exactly the question that was shown."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from ..fake_anthropic import FakeAnthropic, Hold, call, reply
from ..kernels import RealKernel
from .client import Item, PanelPage, Refusal


def run(code: str) -> Any:
    return call("run_code", code=code)


def digest(question: Item) -> str:
    """Return the sha256 of what a page shows."""
    return hashlib.sha256(f"{question['title']}\n\n{question['text']}".encode()).hexdigest()


def decide(page: PanelPage, question: Item, choice: str, **more: str) -> dict[str, Any]:
    args = {"sha256": digest(question), "word": "", "reason": "", **more}
    return page.call("decide", question=question["id"], choice=choice, **args)


def test_a_turn_of_the_panel_asks_the_panel(
    kernel: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Once is once, always covers its scope, a denial reaches the model with its reason."""
    server.append(reply(run("a = 1"), run("b = 2"), run("c = 3")), "Done.")
    page.open()
    page.call("submit", text="go")
    first = page.wait_for("question")
    assert first["text"] == "a = 1"
    assert first["offers"] == [{"word": "", "label": "run code"}]
    page.call("seen", question=first["id"])
    assert decide(page, first, "once") == {"how": "once"}
    second = page.wait_for("question", text="b = 2")
    assert decide(page, second, "deny", reason="too early") == {"how": "denied"}
    third = page.wait_for("question", text="c = 3")
    assert decide(page, third, "always") == {"how": "always"}
    page.wait_for("turn_finished", outcome="done")

    assert [item["decision"] for item in page.of("tool_finished")] == ["once", None, "always"]
    assert [item["denied"] for item in page.of("tool_finished")] == [False, True, False]
    assert kernel.eval("(a, 'b' in globals(), c)") == (1, False, 3)
    results = server.messages[-1].json["messages"][-1]["content"]
    assert "Denied by the user: too early" in json.dumps(results)


def test_a_cell_asks_the_panel_while_the_main_thread_is_blocked(
    kernel: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """A page that shows the question answers it for `%agent`, and nobody is asked by `input()`."""
    server.append(reply(run("a = 1")), "Done.")
    page.open()
    cell = kernel.submit("%agent go", allow_stdin=True, cell_id="c1")
    question = page.wait_for("question")
    page.call("seen", question=question["id"])
    decide(page, question, "once")
    ran = kernel.collect(cell)

    assert ran.ok
    assert ran.questions == []
    assert kernel.eval("a") == 1
    started = page.wait_for("turn_started")
    assert (started["origin"], started["cell_id"]) == ("cell", "c1")


def test_a_page_that_comes_in_mid_turn_is_asked_in_the_right_step(
    kernel: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """A question names the step that asks it, also where no page saw that step begin."""
    server.append(reply("Half", Hold("late"), run("a = 1")), "Done.")
    cell = kernel.submit("%agent go", allow_stdin=True)
    server.wait_held("late")
    page.open()
    server.release("late")
    question = page.wait_for("question")
    decide(page, question, "once")

    assert (question["turn"], question["step"]) == (1, 1)
    assert kernel.collect(cell).ok


def test_without_a_word_from_the_page_the_cell_asks(
    kernel: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """A page that does not say in 3 s that it shows the question is not waited for."""
    server.append(reply(run("a = 1"), run("b = 2")), "Done.")
    page.open()
    ran = kernel.execute("%agent go", stdin_replies=["y", "y"])
    assert ran.ok
    assert len(ran.questions) == 2
    assert len(page.of("question")) == 1, "a page that is silent is not waited for again"
    question = page.wait_for("question")
    assert page.wait_for("question_closed", id=question["id"])["how"] == "elsewhere"
    with pytest.raises(Refusal, match="gone"):
        decide(page, question, "deny")

    server.append(reply(run("c = 3")), "Done.")
    cell = kernel.submit("%agent on", allow_stdin=True)
    decide(page, page.wait_for("question", text="c = 3"), "once")
    assert kernel.collect(cell).questions == []


def test_another_text_than_the_one_asked_about_is_a_denial(
    kernel: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """An answer with the sha256 of another text denies, whatever it says."""
    server.append(reply(run("a = 1")), "Done.")
    page.open()
    page.call("submit", text="go")
    question = page.wait_for("question")
    answer = decide(page, question, "always", sha256=hashlib.sha256(b"other").hexdigest())
    assert answer == {"how": "denied"}
    page.wait_for("turn_finished")
    assert kernel.eval("'a' in globals()") is False


def test_an_answer_never_counts_for_another_question(
    kernel: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """A late answer, an unknown id, a word that is not offered: refused, and the question stays."""
    server.append(reply(run("a = 1"), run("a = 1")), "Done.")
    page.open()
    page.call("submit", text="go")
    first = page.wait_for("question")
    decide(page, first, "once")
    page.wait_for("question_closed", id=first["id"])
    page.on_item = lambda item: None
    while len(page.of("question")) < 2:
        page.call("complete", text="", cursor=0)
    second = page.of("question")[1]
    assert (second["sha256"], second["text"]) == (first["sha256"], first["text"])

    for question_id, choice, word, kind in (
        (first["id"], "once", "", "gone"),
        ("unknown", "once", "", "gone"),
        (second["id"], "always", "any", "bad"),
        (second["id"], "yes", "", "bad"),
    ):
        args = {"sha256": second["sha256"], "choice": choice, "word": word, "reason": ""}
        with pytest.raises(Refusal) as refused:
            page.call("decide", question=question_id, **args)
        assert refused.value.kind == kind
    assert page.open()["question"]["id"] == second["id"]
    decide(page, second, "deny")
    page.wait_for("turn_finished", outcome="done")


def test_a_message_of_another_version_or_shape_changes_nothing(
    kernel: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """It is refused where an id can be read, else dropped; the question waits on."""
    server.append(reply(run("a = 1")), "Done.")
    page.open()
    page.call("submit", text="go")
    question = page.wait_for("question")
    args = {"question": question["id"], "sha256": digest(question), "choice": "once"}
    text = json.dumps({"op": "decide", "args": args})
    good = page.part("any", text)
    bad: list[dict[str, Any]] = [
        {**good, "version": 2},
        {**good, "version": True},
        {**good, "part": 0},
        {**good, "part": 2},
        {**good, "parts": 2_000},
        {**good, "text": 7},
        {**good, "text": "x" * 70_000},
        {**good, "text": "no json"},
        {**good, "text": json.dumps({"op": "decide"})},
        {**good, "text": json.dumps({"op": "nothing", "args": {}})},
    ]
    for n, message in enumerate(bad):
        page.send({**message, "id": f"bad-{n}"})
        with pytest.raises(Refusal):
            page.wait_answer(f"bad-{n}")
    dropped: list[Any] = [{**good, "id": 7}, {**good, "client": ""}, {"type": "call"}, [], None]
    for nothing in dropped:
        page.send(nothing)
    assert page.open()["question"]["id"] == question["id"]
    decide(page, question, "deny")
    page.wait_for("turn_finished", outcome="done")
    assert kernel.eval("'a' in globals()") is False


def test_a_call_is_handled_once(kernel: RealKernel, server: FakeAnthropic, page: PanelPage) -> None:
    """The same call sent again does nothing and is not answered again."""
    server.append("Once.")
    page.open()
    text = json.dumps({"op": "submit", "args": {"text": "go"}})
    for _ in range(3):
        page.send(page.part("same", text))
    assert page.wait_answer("same")["queued"] is False
    page.wait_for("turn_finished")
    page.call("complete", text="", cursor=0)
    assert len(server.messages) == 1
