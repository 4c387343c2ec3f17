"""Pages come and go, kernels restart, the extension is unloaded: nothing twice, nothing lost."""

from __future__ import annotations

import pytest

from ..fake_anthropic import FakeAnthropic, Hold, call, reply
from ..kernels import RealKernel
from .client import Item, PanelPage, Refusal, panel_page
from .conftest import LOAD


def test_a_second_prompt_waits_and_can_be_taken_back(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Prompts run in order, one at a time; one that waits can be cancelled, once."""
    server.append(reply("One.", Hold("one")), "Three.")
    page.open()
    page.call("submit", text="first")
    page.wait_text("One.")
    second = page.call("submit", text="second")
    third = page.call("submit", text="third")
    assert second["queued"] is True
    assert [item["text"] for item in page.open()["queue"]] == ["second", "third"]
    page.call("unqueue", id=second["id"])
    assert page.wait_for("unqueued", id=second["id"])["how"] == "cancelled"
    with pytest.raises(Refusal, match="gone"):
        page.call("unqueue", id=second["id"])
    server.release("one")
    page.wait_for("turn_finished", text="Three.")
    assert page.wait_for("unqueued", id=third["id"])["how"] == "started"
    assert [item["prompt"] for item in page.of("turn_started")] == ["third"]


def test_a_prompt_waits_for_a_turn_below_a_cell(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """While `%agent` runs, the panel's prompt waits; it starts when the cell has ended."""
    server.append(reply("Cell.", Hold("cell")), "Panel.")
    page.open()
    cell = free.submit("%agent go")
    page.wait_text("Cell.")
    assert page.call("submit", text="then")["queued"] is True
    server.release("cell")
    assert free.collect(cell).ok
    page.wait_for("turn_finished", text="Panel.")


def test_a_cell_cannot_ask_while_a_turn_of_the_panel_runs(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """`%agent` is refused in one sentence, and commands that only look work."""
    server.append(reply("Panel.", Hold("panel")))
    page.open()
    page.call("submit", text="go")
    page.wait_text("Panel.")
    ran = free.execute("%agent hello")
    assert not ran.ok
    assert "A turn runs in the panel" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert free.execute("%agent /context").ok
    server.release("panel")
    page.wait_for("turn_finished", outcome="done")


def test_a_second_page_and_a_reload_see_the_running_turn_once(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """What `open` gives and what comes after it make the whole conversation, nothing twice."""
    server.append("Before.", reply("Half ", Hold("half"), "and whole."))
    page.open()
    page.call("submit", text="first")
    page.wait_for("turn_finished", text="Before.")
    page.call("submit", text="second")
    page.wait_text("Half")
    with panel_page(free) as other:
        found = other.open()
        again = page.open()
        assert found["is_running"] is True
        assert found["items"] == again["items"]
        assert [i["prompt"] for i in found["items"] if i["kind"] == "turn_started"] == [
            "first",
            "second",
        ]
        server.release("half")
        for one in (page, other):
            one.wait_for("turn_finished", turn=2)
            assert blocks([*found["items"], *one.items]) == ["Half ", "and whole."]
    with pytest.raises(Refusal):
        page.call("earlier", before="x")
    assert page.call("earlier", before=2, turns=1)["first_turn"] == 1


def blocks(items: list[Item]) -> list[str]:
    """Return the text blocks of turn 2, as a page puts them together."""
    texts: dict[int, str] = {}
    for item in items:
        if item.get("turn") == 2 and item["kind"] == "text_delta":
            texts[item["block"]] = texts.get(item["block"], "") + item["text"]
        if item.get("turn") == 2 and item["kind"] == "text_finished":
            assert texts.get(item["block"], item["text"]) == item["text"], "some of it came twice"
            texts[item["block"]] = item["text"]
    return list(texts.values())


def test_a_page_that_comes_after_a_restart_finds_the_conversation(
    free: RealKernel, server: FakeAnthropic
) -> None:
    """After a restart another epoch begins, and what is stored is told."""
    server.append("Before.", "After.")
    with panel_page(free) as page:
        first = page.open()["epoch"]
        page.call("submit", text="remember")
        page.wait_for("turn_finished")
    free.restart()
    free.execute(LOAD)
    with panel_page(free) as page:
        opened = page.open()
        assert opened["epoch"] != first
        told = [(i["kind"], i.get("text")) for i in opened["items"]]
        assert ("text_finished", "Before.") in told
        assert opened["session"]["turns"] == 1
        page.call("submit", text="on")
        page.wait_for("turn_finished", text="After.")
        notes = [item["title"] for item in page.of("note_added")]
        assert any("Kernel restarted" in note for note in notes)


def test_a_busy_kernel_without_a_session_says_so(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Before there is a session a page waits 2 s for the main thread, no longer."""
    cell = free.submit("print('asks')\ninput('?')", allow_stdin=True)
    free.wait_for_text(cell, "asks")
    with pytest.raises(Refusal, match="busy"):
        page.open()
    free.collect(cell, stdin_replies=["on"])
    assert page.open()["is_running"] is False


@pytest.mark.parametrize("where", ["stream", "question"])
def test_unloading_in_mid_turn_ends_it(
    kernel: RealKernel, server: FakeAnthropic, page: PanelPage, where: str
) -> None:
    """`%unload_ext` ends the turn and its thread; nothing of ours is left, and it loads again."""
    code = call("run_code", code="x = 1")
    server.append(reply("Half.", Hold("never") if where == "stream" else code), "Again.")
    page.open()
    page.call("submit", text="go")
    page.wait_text("Half.")
    if where == "question":
        page.wait_for("question")
    assert kernel.execute("%unload_ext jupyter_ctx").ok
    names = "[t.name for t in __import__('threading').enumerate()]"
    assert "jupyter_ctx" not in kernel.eval(names)
    assert kernel.eval("'x' in globals()") is False
    kernel.execute(LOAD)
    with panel_page(kernel) as again:
        again.open()
        again.call("submit", text="on")
        again.wait_for("turn_finished", text="Again.")


def test_nothing_of_the_panel_is_there_before_the_first_call(
    kernel: RealKernel, server: FakeAnthropic
) -> None:
    """Loading imports none of it, and starts no thread; a page's first call starts no thread."""
    service = "'jupyter_ctx.panel.service' in __import__('sys').modules"
    names = "[t.name for t in __import__('threading').enumerate()]"
    assert kernel.eval(service) is False
    with panel_page(kernel) as page:
        page.open()
    assert kernel.eval(service) is True
    assert "jupyter_ctx" not in kernel.eval(names)


def test_the_gauge_has_an_estimate_before_the_first_turn(
    kernel: RealKernel, server: FakeAnthropic
) -> None:
    """Opening tells what system and tools take, as an estimate, without a request."""
    with panel_page(kernel) as page:
        page.open()
        context = page.contexts[-1]
    assert context["is_estimate"]
    assert context["measured_tokens"] == 0
    assert context["used_tokens"] == context["parts"]["system"] + context["parts"]["tools"] > 0
    assert server.messages == []


def test_the_epoch_is_in_the_hello(kernel: RealKernel, server: FakeAnthropic) -> None:
    """A page learns from the hello that it has to ask anew."""
    ran = kernel.execute("%reload_ext jupyter_ctx")
    hellos = [m["content"]["data"] for m in ran.messages if m["msg_type"] == "comm_msg"]
    (hello,) = [data for data in hellos if data.get("type") == "hello"]
    with panel_page(kernel) as page:
        assert page.open()["epoch"] == hello["epoch"]
