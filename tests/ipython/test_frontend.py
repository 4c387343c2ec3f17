"""Laws of the frontend link, in a real kernel with a stand-in for the page (`tests/pages.py`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ctx.ipython.frontend import (
    MAX_CHARS,
    MAX_PARTS,
    MOST_PAGES,
    Part,
    _Request,
    read_part,
)
from tests.agent_kernel import agent_env
from tests.fake_anthropic import Call, FakeAnthropic, call
from tests.fake_anthropic.script import RequestJson
from tests.kernels import Ran, RealKernel, running_kernel
from tests.pages import Page, code, page_on

MODEL = "claude-sonnet-5-5"
PART = {
    "version": 1,
    "type": "reply",
    "id": "r",
    "client": "c",
    "part": 1,
    "parts": 1,
    "text": "{}",
}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeAnthropic]:
    """The provider of every test here."""
    with FakeAnthropic([]) as fake:
        yield fake


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, server: FakeAnthropic) -> Iterator[RealKernel]:
    """One kernel for all tests here; each loads the extension anew."""
    with running_kernel(tmp_path_factory.mktemp("kernel"), agent_env(server, MODEL)) as running:
        yield running


@pytest.fixture
def page(kernel: RealKernel) -> Iterator[Page]:
    """The page that runs the kernel's cells, with three cells; the extension is loaded."""
    cells = [code("a", "x = 1"), code("b", "y = 2"), code("ask", "%agent go")]
    with page_on(kernel, cells) as shown:
        load(kernel)
        yield shown


def load(kernel: RealKernel) -> None:
    """Load the extension anew, with a session of its own."""
    kernel.execute("%unload_ext jupyter_ctx")
    assert kernel.execute("%load_ext jupyter_ctx").ok


def turn(kernel: RealKernel, server: FakeAnthropic, *calls: Any, cell_id: str = "ask") -> Ran:
    """Run a turn that makes these calls, in a new session."""
    kernel.execute("%agent /new")
    server.append(*calls, "Done.")
    ran = kernel.execute("%agent go", cell_id=cell_id)
    assert ran.ok, ran.stderr
    assert server.refused == []
    return ran


def results(server: FakeAnthropic) -> list[str]:
    """Return the texts of the tool results in the last request, in order."""
    found = []
    for message in server.requests[-1].json["messages"]:
        for block in message["content"]:
            if isinstance(block, dict) and block["type"] == "tool_result":
                content = block["content"]
                found.append(content if isinstance(content, str) else content[0]["text"])
    return found


def new_id(request: RequestJson) -> str:
    """Return the id that the newest result gives an inserted cell."""
    text = json.dumps(request["messages"][-1])
    return text.split("cell `")[1].split("`")[0]


def on_new(make: Callable[[str], Call]) -> Callable[[RequestJson], Call]:
    """Return a call about the cell that was inserted last."""
    return lambda request: make(new_id(request))


def test_a_turn_changes_the_notebook_while_its_cell_runs(
    kernel: RealKernel, server: FakeAnthropic, page: Page
) -> None:
    """Inserted, edited, run, moved and deleted while the main thread waits in `%agent`."""
    ran = turn(
        kernel,
        server,
        call("read_cell", cell_id="b"),
        call("edit_cell", cell_id="b", source="y = 3"),
        call("insert_cell", source="print('made')", after="a"),
        on_new(lambda name: call("run_cell", cell_id=name)),
        call("move_cell", cell_id="b"),
        call("read_cell", cell_id="a"),
        call("delete_cell", cell_id="a"),
    )

    assert page.ops == ["edit_cell", "insert_cell", "move_cell", "delete_cell", "set_outputs"]
    made = next(name for name in page.ids if name not in ("b", "ask"))
    assert page.ids == ["b", made, "ask"]
    assert page.cell("b")["source"] == "y = 3"
    (output,) = page.cell(made)["outputs"]
    assert output["text"] == "made\n"
    assert "made" in ran.text
    assert kernel.eval("'x' in globals()") is False


def test_the_kernel_is_busy_as_long_as_its_cell_runs(
    kernel: RealKernel, server: FakeAnthropic, page: Page
) -> None:
    """After each answer the kernel says again that it is busy; front ends hear "idle" otherwise.

    The last word is the cell's own "idle".
    """
    turn(kernel, server, call("list_cells"), call("insert_cell", source="new"))
    page.wait_for_idle(2 + 2)  # unload, load, /new, and the turn

    states = page.states
    after = [states[at + 1] for at, state in enumerate(states) if state == ("comm_msg", "idle")]
    asked = [one for one in page.asked if one["op"] != "hello"]
    assert after.count(("execute_request", "busy")) >= len(asked) - 1
    assert states[-1] == ("execute_request", "idle")


def test_outputs_come_after_the_turn(kernel: RealKernel, server: FakeAnthropic, page: Page) -> None:
    """Nothing is put into the cell before the model's last answer was asked for."""
    asked: list[int] = []
    page.on_request = lambda request: (
        asked.append(len(server.requests)) if request["op"] == "set_outputs" else None
    )
    turn(kernel, server, call("run_cell", cell_id="a"), call("run_cell", cell_id="b"))

    assert asked == [len(server.requests)] * 2
    assert (page.cell("a")["outputs"], page.cell("b")["outputs"]) == ([], [])
    assert kernel.eval("(x, y)") == (1, 2)


def test_what_the_user_types_meanwhile_is_kept(
    kernel: RealKernel, server: FakeAnthropic, page: Page
) -> None:
    """C22: typed between the model's look and its write, or between our look and the page."""

    def type_at_the_write(request: dict[str, Any]) -> None:
        if request["op"] == "edit_cell":
            page.cell("b")["source"] = "y = 'mine'"

    def type_before(request: RequestJson) -> Call:
        page.cell("a")["source"] = "x = 'mine'"
        return call("edit_cell", cell_id="a", source="x = 2")

    page.on_request = type_at_the_write
    turn(
        kernel,
        server,
        call("read_cell", cell_id="a"),
        type_before,
        call("read_cell", cell_id="b"),
        call("edit_cell", cell_id="b", source="y = 3"),
    )

    first, second = results(server)[1], results(server)[3]
    assert "was changed since you saw it" in first
    assert first.endswith("x = 'mine'")
    assert "the user changed the cell meanwhile" in second
    assert second.endswith("y = 'mine'")
    assert (page.cell("a")["source"], page.cell("b")["source"]) == ("x = 'mine'", "y = 'mine'")


def test_the_running_cell_is_not_changed(
    kernel: RealKernel, server: FakeAnthropic, page: Page
) -> None:
    """The cell of the turn itself, and cells that the page calls busy, are left alone."""
    page.cell("b")["busy"] = True
    turn(
        kernel,
        server,
        call("read_cell", cell_id="ask"),
        call("edit_cell", cell_id="ask", source="no"),
        call("move_cell", cell_id="ask"),
        call("move_cell", cell_id="b"),
        call("insert_cell", source="below", after="ask"),
    )

    assert "runs this turn" in results(server)[1]
    assert "runs this turn" in results(server)[2]
    assert "waits to run" in results(server)[3]
    assert page.ids[:3] == ["a", "b", "ask"]
    assert len(page.ids) == 4


def test_of_several_pages_the_one_that_asked_is_changed(
    kernel: RealKernel, server: FakeAnthropic, page: Page
) -> None:
    """Another notebook on the kernel hears everything and is asked for no edit, also if first."""
    with page_on(kernel, [code("a", "x = 1"), code("other", "")], "another page") as other:
        turn(kernel, server, call("insert_cell", source="new"), call("run_cell", cell_id="a"))

        assert other.ids == ["a", "other"]
        assert other.ops == []
        assert "notebook" in [one["op"] for one in other.asked]
    assert len(page.ids) == 4
    assert page.ops == ["insert_cell", "set_outputs"]


def test_an_edit_is_taken_back_in_the_page_that_asks_for_it(
    kernel: RealKernel, server: FakeAnthropic, page: Page
) -> None:
    """`/undo` comes without a look of the model: the page is found all the same, also another."""
    turn(kernel, server, call("read_cell", cell_id="a"), call("delete_cell", cell_id="a"))
    assert page.ids == ["b", "ask"]
    page.is_mute = True
    with page_on(kernel, [code("b", ""), code("undo", "%agent /undo")], "the page anew") as anew:
        ran = kernel.execute("%agent /undo", cell_id="undo")

        assert ran.ok, ran.stderr
        assert anew.ids == ["a", "b", "undo"]
        assert anew.cell("a")["source"] == "x = 1"


def test_a_page_that_was_loaded_anew_takes_over(
    kernel: RealKernel, server: FakeAnthropic, page: Page
) -> None:
    """Of pages that did not start the cell, the one that shows it is believed, and it alone."""
    page.is_mute = True
    with (
        page_on(kernel, [code("else", "")], "another notebook") as other,
        page_on(kernel, [code("ask", "%agent go")], "the page anew") as anew,
    ):
        turn(kernel, server, call("insert_cell", source="new"))

        assert anew.ops == ["insert_cell"]
        assert other.ops == []


def test_a_page_is_asked_again_until_it_is_there(
    kernel: RealKernel, server: FakeAnthropic, page: Page
) -> None:
    """While a page is being loaded it hears nothing; what was asked meanwhile is asked anew."""
    hear, unheard = page._hear, [0]

    def come_late(comm_id: str, request: dict[str, Any]) -> None:
        if request["op"] == "notebook" and unheard[0] < 4:
            unheard[0] += 1
        else:
            hear(comm_id, request)

    page._hear = come_late  # type: ignore[method-assign]
    turn(kernel, server, call("insert_cell", source="new"))

    assert page.ops == ["insert_cell"]
    assert unheard == [4]
    assert results(server)[0].startswith("Inserted")


def test_a_page_that_was_closed_is_not_waited_for_twice(
    kernel: RealKernel, server: FakeAnthropic, page: Page
) -> None:
    """C25: without an answer nothing is "done"; one cell is handed on, more are not applied."""
    kernel.execute("y = 2", cell_id="b")
    page.is_mute = True
    ran = turn(
        kernel,
        server,
        call("insert_cell", source="print('first')"),
        call("insert_cell", source="print('second')"),
        call("move_cell", cell_id="b"),
    )

    first, second, third = results(server)
    assert first.startswith("Not applied yet: the cell was handed to the front end")
    assert first.endswith("print('first')")
    assert second.startswith("Not applied: this front end does not let the kernel change")
    assert second.endswith("add a code cell at the end and paste this into it:\n\nprint('second')")
    assert third.endswith("By hand: move cell `b` to the top.")
    assert next_cells(ran) == ["print('first')"]
    assert page.ids == ["a", "b", "ask"]


def test_an_edit_whose_answer_is_lost_is_looked_for(
    kernel: RealKernel, server: FakeAnthropic, page: Page
) -> None:
    """A page that did it and fell silent for the answer: read back, it is done, once."""
    reply = page.reply
    page.reply = lambda comm_id, request_id, text: (  # type: ignore[method-assign]
        None if page.asked[-1]["op"] == "insert_cell" else reply(comm_id, request_id, text)
    )
    turn(kernel, server, call("insert_cell", source="new", after="a"))

    assert "Inserted code cell" in results(server)[0]
    assert page.ops == ["insert_cell"]


async def test_unfinished_answers_are_bounded() -> None:
    """However many pages begin an answer, the parts of a few are kept; a page that ends counts."""
    loop = asyncio.get_running_loop()
    waiting = _Request(loop, loop.create_future(), None, lambda client, answer: 1, 1)
    for n in range(1_000):
        waiting.add("c", Part("r", f"page {n}", 1, 2, "x" * MAX_CHARS))
    assert len(waiting.parts) == MOST_PAGES

    waiting.parts.popitem()
    waiting.add("c", Part("r", "whole", 1, 1, '{"ok": true}'))
    assert waiting.future.result()[1] == "whole"


@pytest.mark.parametrize(
    "told", [{}, {"cell": 3}, {"cell": {}, "index": 0}, {"cell": code("b", "lie"), "index": 1}]
)
def test_an_answer_that_says_nothing_of_the_change_is_looked_after(
    kernel: RealKernel, server: FakeAnthropic, page: Page, told: dict[str, Any]
) -> None:
    """ "Done" is said only of what stands there: an answer of another shape or cell is none."""
    do = page._do
    page._do = lambda op, args: told if op.endswith("_cell") else do(op, args)  # type: ignore[method-assign]
    look = call("read_cell", cell_id="a")
    turn(kernel, server, look, call("edit_cell", cell_id="a", source="x = 5"))

    assert results(server)[1].startswith("Not applied: the page did not do it.")
    assert page.cell("a")["source"] == "x = 1"


def test_late_foreign_and_broken_answers_change_nothing(
    kernel: RealKernel, server: FakeAnthropic, page: Page
) -> None:
    """Wrong id, wrong page, wrong comm, no JSON, no schema: the right answer still counts."""
    ids: list[str] = []

    def disturb(request: dict[str, Any]) -> None:
        comm_id = page.heard_on
        ids.append(request["id"])
        right = {**PART, "id": request["id"], "client": page.client}
        lie = json.dumps({"ok": True, "result": {"cells": [code("lie", "")]}})
        for data in (
            {**right, "text": lie, "id": "guessed"},
            {**right, "text": "{no json"},
            {**right, "text": '"ok"'},
            {**right, "text": lie, "version": 2},
            {**right, "text": lie, "part": 2, "parts": 1},
            {**right, "text": "x" * (MAX_CHARS + 1)},
            ["reply"],
            None,
        ):
            page.send(comm_id, data)
        page.send("no-such-comm", {**right, "text": lie})

    page.on_request = disturb
    turn(kernel, server, call("list_cells"))

    assert "lie" not in results(server)[0]
    assert "a | In[ ] | not run | x = 1" in results(server)[0]
    assert len(set(ids)) == len(ids)
    assert all(len(one) >= 20 for one in ids)


def test_a_long_notebook_comes_in_parts(
    kernel: RealKernel, server: FakeAnthropic, page: Page
) -> None:
    """Sources of 3 MB are told in parts of 64 KB at most, and put together again."""
    text = "# " + "é\u2028\U0001f600'\"\\\n" * 500
    page.cells += [code(f"big-{n}", f"{text}{n}") for n in range(600)]
    turn(kernel, server, call("read_cell", cell_id="big-599"))

    assert results(server)[0].endswith("599")


def test_the_idle_kernel_hears_ordinary_messages_too(kernel: RealKernel, page: Page) -> None:
    """An answer that comes as an ordinary comm message counts as one on the control channel."""
    kernel.execute(
        "from jupyter_ctx.ipython.extension import _loaded\n"
        "link = _loaded[get_ipython()].agent.link\n"
        "async def look():\n"
        "    answer = await link.request('notebook', {'outputs': []})\n"
        "    print([cell['id'] for cell in answer['cells']])"
    )
    page.speaks_on_shell = True

    assert kernel.execute("await look()").text == "['a', 'b', 'ask']\n"


def test_the_control_handler_is_chained_and_put_back(kernel: RealKernel, page: Page) -> None:
    """Other comms' messages go to the handler that was there; unloading leaves it alone."""
    greeted = page.greetings
    kernel.execute("%unload_ext jupyter_ctx")
    kernel.execute(
        "import threading\n"
        "heard, twice = [], threading.Event()\n"
        "def theirs(stream, ident, message):\n"
        "    heard.append(message['content']['comm_id'])\n"
        "    len(heard) == 2 and twice.set()\n"
        "handlers = get_ipython().kernel.control_handlers\n"
        "handlers['comm_msg'] = theirs\n"
        "%load_ext jupyter_ctx"
    )
    page.wait_greeted(greeted + 1)  # only then it knows the comm of today
    ours = page.heard_on
    page.send("theirs", {**PART})
    page.send(ours, {**PART})
    page.send("theirs", {**PART})
    kernel.execute("assert twice.wait(60)")

    assert kernel.eval("heard") == ["theirs", "theirs"]
    assert kernel.eval("handlers['comm_msg'] is theirs") is False
    kernel.execute("%unload_ext jupyter_ctx")
    assert kernel.eval("handlers['comm_msg'] is theirs") is True
    kernel.execute("del handlers['comm_msg']\n%load_ext jupyter_ctx\n%unload_ext jupyter_ctx")
    assert kernel.eval("'comm_msg' in handlers") is False


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"type": "hello"},
        {"id": ""},
        {"id": "x" * 129},
        {"id": 5},
        {"client": None},
        {"part": 0},
        {"part": 2},
        {"part": True},
        {"part": 1.0},
        {"parts": MAX_PARTS + 1},
        {"text": None},
        {"text": "x" * (MAX_CHARS + 1)},
        {"text": "é" * (MAX_CHARS // 2 + 1)},
    ],
)
def test_only_what_fits_the_schema_is_taken(change: dict[str, Any]) -> None:
    """One wrong field, or a text over 64 KB, and the message is none of ours."""
    assert read_part(PART) is not None
    assert read_part({**PART, **change}) is None


def test_a_kernel_without_pages_asks_nobody(
    kernel: RealKernel, server: FakeAnthropic, tmp_path: Path
) -> None:
    """Headless, no request waits for anybody; the notebook is what was executed."""
    load(kernel)
    kernel.execute("x = 1", cell_id="a")
    ran = turn(kernel, server, call("list_cells"), call("edit_cell", cell_id="a", source="no"))

    assert "a | In[" in results(server)[0]
    requests = [
        m["content"]["data"]
        for m in ran.messages
        if m["msg_type"] == "comm_msg" and m["content"]["data"]["type"] == "request"
    ]
    assert requests == []


def next_cells(ran: Ran) -> list[str]:
    """Return the texts that the kernel handed to the front end for new cells."""
    return [one["text"] for one in ran.reply["payload"] if one["source"] == "set_next_input"]
