"""What a page changes beside the prompts: settings, model, compaction, summary, rewind."""

from __future__ import annotations

from typing import Any

import pytest

from ..fake_anthropic import FakeAnthropic, call, reply, status
from ..kernels import RealKernel
from .client import PanelPage, Refusal


def when_idle(page: PanelPage, op: str, **args: Any) -> dict[str, Any]:
    """Make a call that is refused while a turn, whose end is told already, is put away."""
    for _ in range(500):
        try:
            return page.call(op, **args)
        except Refusal as refused:
            if refused.kind != "busy":
                raise
    raise AssertionError("It never ended.")


def test_settings_count_at_once_and_bad_ones_are_named(
    kernel: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Good settings of one call are taken although another is refused, with the reason."""
    page.open()
    refused = page.call("configure", settings={"rerun": "replay", "permissions": "nonsense"})
    assert list(refused["refused"]) == ["permissions"]
    assert page.call("set_mode", mode="plan")["mode"] == "plan"
    assert page.wait_for("session", permission_mode="plan")
    with pytest.raises(Refusal):
        page.call("set_mode", mode="nonsense")
    said = page.call("set_model", name="demo")["said"]
    assert "demo" in said
    assert page.wait_for("session", model="demo")["is_demo"] is True


def test_each_model_is_told_with_the_price_of_a_switch(
    kernel: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """The one in use comes first; what a switch costs is known before it, and none is made."""
    opened = page.open()
    in_use, known = opened["session"]["model"], opened["models"]
    rows = page.call("models")["rows"]
    names = [row["name"] for row in rows]
    assert names[0] == in_use
    assert set(names) == {in_use, *known}
    assert rows[0]["help"].endswith("tokens · in use")
    assert any("$" in row["help"] for row in rows[1:])
    assert page.open()["session"]["model"] == in_use


@pytest.mark.parametrize("is_in_cell", [True, False])
def test_a_wait_for_the_provider_is_ended_by_a_press(
    free: RealKernel, server: FakeAnthropic, page: PanelPage, is_in_cell: bool
) -> None:
    """Four minutes were asked for; the main thread is blocked or free; each press is for one try.

    The turn ends long before: what waits here has far less time.
    """
    server.append(*[status(429, retry_after=240)] * 2, "At last.")
    page.open()
    running = free.submit("%agent Go on") if is_in_cell else None
    if not is_in_cell:
        page.call("submit", text="Go on")
    tries: list[dict[str, int]] = []
    for attempt in (2, 3):
        wait = page.wait_for("retry_scheduled", attempt=attempt)
        assert wait["wait_s"] >= 240
        assert [page.call("try_now", **over)["tried"] for over in tries] == [False] * len(tries)
        tries.append({name: wait[name] for name in ("turn", "step", "attempt")})
        assert page.call("try_now", **tries[-1])["tried"] is True
    assert page.wait_for("turn_finished")["outcome"] == "done"
    if running is not None:
        assert "At last." in str(free.collect(running).bundles("text/markdown"))
    assert page.call("try_now", **tries[-1])["tried"] is False
    assert len(server.messages) == 3


def test_a_compaction_is_made_edited_and_undone_and_a_turn_rewound(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Each is answered when it is done, and told to every page as an item."""
    free.execute("%config JupyterCtx.window_tokens = 32_000")
    server.append("A long answer. " * 900, "A long answer. " * 900, "A summary of it all.")
    page.open()
    for n in (1, 2):
        page.call("submit", text=f"prompt {n}")
        page.wait_for("turn_finished", turn=n)
    assert when_idle(page, "compact", focus="")["n"] == 1
    assert page.wait_for("compaction_finished")["n"] == 1
    assert page.call("summary", n=None)["n"] == 1
    when_idle(page, "edit_summary", n=1, text="Only this.")
    assert page.wait_for("summary_changed", condition="edited")["n"] == 1
    when_idle(page, "undo_summary")
    assert page.wait_for("summary_changed", condition="undone")["n"] == 1
    edited, undone = (context["used_tokens"] for context in page.contexts[-2:])
    assert edited < undone  # the gauge moves with each
    when_idle(page, "rewind", turn=2)
    assert page.contexts[-1]["used_tokens"] < undone
    assert page.wait_for("rewound")["turn"] == 2
    prompts = [i["prompt"] for i in page.open()["items"] if i["kind"] == "turn_started"]
    assert prompts == ["prompt 1"]
    with pytest.raises(Refusal):
        page.call("rewind", turn=9)


def test_an_edit_is_undone_and_the_page_is_told_which(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Undo of the newest edit puts the file back, is answered with its number, and once only."""
    server.append(
        reply(tools=[call("write_file", path="notes.txt", text="Seven.\n")]), "It is written."
    )
    page.open()
    page.call("submit", text="Write it down")
    page.wait_for("turn_finished", turn=1)
    file = free.cwd / "notes.txt"
    assert file.read_text() == "Seven.\n"

    assert when_idle(page, "undo_edit", tool_use_id=None)["n"] == 1
    assert page.wait_for("edit_undone")
    assert not file.exists()
    with pytest.raises(Refusal):
        when_idle(page, "undo_edit", tool_use_id=None)


def test_a_fact_is_taken_back_while_the_turn_runs(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Undo of what was remembered waits for nothing: file, pages and the next prompt have it."""
    fact = "Amounts are in cents."
    items = [{"text": "Load", "state": "in_progress"}]
    server.append(
        reply(tools=[call("update_plan", items=items), call("remember", text=fact)]),
        reply(tools=[call("run_code", code="input('go on? ')")]),
        "Done.",
        "I heard it.",
    )
    page.open()
    page.call("submit", text="Remember it")
    assert page.wait_for("plan_changed")["items"] == items
    assert page.wait_for("memory_changed")["facts"] == [fact]
    (file,) = free.home.glob("memory/*.md")
    assert fact in file.read_text()
    page.wait_for("tool_started", name="run_code")

    assert page.call("forget", facts=[fact])["gone"] == 1
    assert page.wait_for("memory_changed", is_undone=True)["facts"] == [fact]
    assert fact not in file.read_text()
    page.wait_for("turn_finished", turn=1)
    with pytest.raises(Refusal):
        page.call("forget", facts=[1])
    page.call("submit", text="And now?")
    page.wait_for("turn_finished", turn=2)
    assert f"it holds no more: {fact}" in str(server.messages[-1].json["messages"][-1])


def test_a_plan_follows_its_edits_and_a_rewind(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Whoever changes the plan, each page has it as it is, and so has one that comes later."""
    items = [{"text": "Load", "state": "done"}, {"text": "Plot", "state": "pending"}]
    server.append("Hello.", reply(tools=[call("update_plan", items=items)]), "Planned.")
    page.open()
    for n, text in enumerate(("Hi", "Plan it"), start=1):
        page.call("submit", text=text)
        page.wait_for("turn_finished", turn=n)
    assert page.open()["plan"] == items
    page.call("submit", text="/plan edit\n- [>] Plot")
    assert page.wait_for("shown")["text"].startswith("Plan: 0 of 1 done")
    edited = [{"text": "Plot", "state": "in_progress"}]
    assert page.wait_for("plan_changed", items=edited)
    assert page.open()["plan"] == edited
    when_idle(page, "rewind", turn=2)
    assert page.wait_for("plan_changed", items=[])
    assert page.open()["plan"] == []
