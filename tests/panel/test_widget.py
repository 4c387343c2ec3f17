"""The widget in a real kernel: heard while a cell blocks, and gone from the outputs afterwards."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_ctx.panel.widget import VIEW_MIME

from ..fake_anthropic import FakeAnthropic, Hold, call, reply
from ..kernels import TIMEOUT_S, Ran, RealKernel, running_kernel
from ..pages import code, page_on
from .client import PanelPage, Refusal
from .conftest import KEY, LOAD

TARGET = "jupyter.widget"


class WidgetPage(PanelPage):
    """Stands for labextension/src/widget/link.ts: all it knows comes by one widget's messages.

    It speaks on the shell channel, as widgets do. `states` are the widget's traits.
    """

    def __init__(self, kernel: RealKernel, mode: str) -> None:
        self.mode = mode
        self.traits: dict[str, Any] = {}
        self.told: list[dict[str, Any]] = []
        super().__init__(kernel)
        self.comm_id = ""

    def wait_shown(self) -> None:
        """Wait until the widget is there."""
        with self._heard:
            assert self._heard.wait_for(lambda: self.comm_id, TIMEOUT_S), "no widget was made"

    def wait_trait(self, name: str, wanted: str) -> None:
        """Wait until a trait holds `wanted`."""
        with self._heard:
            found = self._heard.wait_for(lambda: wanted in self.traits.get(name, ""), TIMEOUT_S)
            assert found, self.traits.get(name)

    def wait_told(self, kind: str) -> dict[str, Any]:
        """Return the first message of that type that is no item, waiting for it."""

        def find() -> dict[str, Any] | None:
            return next((one for one in self.told if one.get("type") == kind), None)

        with self._heard:
            assert self._heard.wait_for(lambda: find() is not None, TIMEOUT_S)
            found = find()
            assert found is not None
            return found

    def wait_record(self, wanted: str) -> dict[str, Any]:
        """Return the newest replaced display whose text holds `wanted`, waiting for it."""

        def find() -> dict[str, Any] | None:
            shown = (one["content"]["data"] for one in self.others if "update_" in one["msg_type"])
            return next((one for one in shown if wanted in one["text/plain"]), None)

        with self._heard:
            assert self._heard.wait_for(lambda: find() is not None, TIMEOUT_S)
            found = find()
            assert found is not None
            return found

    def send(self, data: Any) -> None:
        """Send a custom message of the widget."""
        self.send_raw({"method": "custom", "content": data})

    def send_raw(self, data: Any) -> None:
        """Send any comm message of the widget."""
        content = {"comm_id": self.comm_id, "data": data}
        self._client.shell_channel.send(self._client.session.msg("comm_msg", content))

    def _hear(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        content, kind = message["content"], message["msg_type"]
        if kind == "comm_open" and content["target_name"] == TARGET:
            state = content["data"]["state"]
            if state.get("mode") == self.mode:
                self.comm_id, self.traits = content["comm_id"], dict(state)
        if kind != "comm_msg":
            return super()._hear(message)
        if content["comm_id"] != self.comm_id:
            return []
        match content["data"]:
            case {"method": "update", "state": state}:
                self.traits.update(state)
            case {"method": "custom", "content": told}:
                if told.get("type") not in ("panel", "answer"):
                    self.told.append(told)
                return super()._hear({**message, "content": {**content, "data": told}})
        return []


@contextmanager
def widget_page(kernel: RealKernel, mode: str = "cell") -> Iterator[WidgetPage]:
    """Give a page that shows the widget of that mode, once it is made."""
    page = WidgetPage(kernel, mode)
    try:
        yield page
    finally:
        page.close()


@pytest.fixture
def shown(kernel: RealKernel) -> RealKernel:
    """The kernel with a widget below each running cell."""
    kernel.execute("%config JupyterCtx.cell_widget = 'on'")
    return kernel


def views(ran: Ran) -> list[Any]:
    """Return the widget views that were ever shown by a cell."""
    data = [m["content"].get("data", {}) for m in ran.messages if "display" in m["msg_type"]]
    return [one[VIEW_MIME]["model_id"] for one in data if VIEW_MIME in one]


def test_a_blocked_cell_hears_its_widget(shown: RealKernel, server: FakeAnthropic) -> None:
    """While the main thread is blocked the conversation opens, a question is answered, Stop stops.

    What the cell shows then is static.
    """
    server.append(
        reply("Let me look.", call("run_code", code="x = 6 * 7")),
        reply("And ", Hold("slow"), "on."),
    )
    with widget_page(shown) as page:
        request = shown.submit("%agent go")
        page.wait_shown()
        opened = page.open()
        assert opened["is_running"]
        question = opened["question"] or page.wait_for("question")
        assert page.call("seen", question=question["id"]) == {}
        shown_text = f"{question['title']}\n\n{question['text']}"
        digest = hashlib.sha256(shown_text.encode()).hexdigest()
        page.call(
            "decide",
            question=question["id"],
            sha256=digest,
            choice="once",
            word="",
            reason="",
        )
        done = page.wait_for("tool_finished")
        assert (done["denied"], done["decision"]) == (False, "once")
        server.wait_held("slow", TIMEOUT_S)
        page.call("stop")
        assert page.wait_for("turn_finished")["outcome"] == "stopped"
        server.release("slow")
        ran = shown.collect(request)

    assert shown.eval("x") == 42
    assert not ran.ok  # a stopped turn fails its cell
    assert set(views(ran)) == {page.comm_id}
    assert [set(o["data"]) for o in ran.outputs if "data" in o] == [
        {"text/markdown", "text/plain"} for o in ran.outputs if "data" in o
    ]


def test_the_first_output_is_shown_in_the_widget(shown: RealKernel, server: FakeAnthropic) -> None:
    """What will stand in the widget's place is carried by it while it runs."""
    server.append(reply("Look *here*.", Hold("slow"), " Done."))
    with widget_page(shown) as page:
        request = shown.submit("%agent go")
        page.wait_shown()
        page.wait_trait("carried", "Look *here*.")
        server.release("slow")
        ran = shown.collect(request)

    assert ran.bundles("text/markdown")[1:3] == ["Look *here*.", "Done."]


def answers() -> list[Any]:
    """Return a script with text, calls, a failure and outputs."""
    return [
        call("run_code", code="print('a')"),
        reply("So:", call("run_code", code="1 / 0"), call("list_cells")),
        reply("The end.", call("run_code", code="from IPython.display import display; display(3)")),
        "Done.",
    ]


def test_the_static_result_is_the_same_with_and_without(tmp_path: Path) -> None:
    """Byte for byte, but for display ids and times: the notebook keeps no sign of the widget."""
    kept: list[list[dict[str, Any]]] = []
    for setting in ("on", "off"):
        with FakeAnthropic(answers()) as server:
            env = {
                "ANTHROPIC_BASE_URL": server.url,
                "ANTHROPIC_API_KEY": KEY,
                "JUPYTER_CTX_PERMISSIONS": "auto",
                "JUPYTER_CTX_CELL_WIDGET": setting,
            }
            with running_kernel(tmp_path / setting, env) as kernel:
                kernel.execute(LOAD)
                ran = kernel.execute("%agent go")
                assert ran.ok
                assert bool(views(ran)) is (setting == "on")
                kept.append(ran.outputs)

    with_it, without = (re.sub(r"(&lt;|<)?\d+(\.\d+)? s\b", "… s", repr(one)) for one in kept)
    assert with_it == without


def test_auto_waits_for_a_page_that_shows_widgets(
    kernel: RealKernel, server: FakeAnthropic
) -> None:
    """With no page, as in nbclient, and with one that does not say so, no widget is made."""
    server.append("One.", "Two.", "Three.")
    kernel.execute("%config JupyterCtx.permissions = 'auto'")
    assert views(kernel.execute("%agent go", cell_id="a")) == []
    with page_on(kernel, [code("a", "")]) as page:
        kernel.execute("%reload_ext jupyter_ctx")
        assert views(kernel.execute("%agent go", cell_id="a")) == []
        page.shows_widgets = True
        kernel.execute("%reload_ext jupyter_ctx")
        page.wait_greeted(2)
        assert kernel.execute("").ok  # the greeting was sent before
        assert views(kernel.execute("%agent go", cell_id="a")) != []


def test_what_is_no_call_changes_nothing(shown: RealKernel, server: FakeAnthropic) -> None:
    """Messages of a wrong version or shape are refused or dropped, and a call counts once."""
    server.append(reply("Slow", Hold("slow"), "."))
    with widget_page(shown) as page:
        request = shown.submit("%agent go")
        page.wait_shown()
        page.open()
        page.send({**page.part("v2", '{"op":"stop","args":{}}'), "version": 2})
        with pytest.raises(Refusal, match="version"):
            page.wait_answer("v2")
        bad: tuple[Any, ...] = (None, [], "stop", {"type": "call"}, {"type": "call", "id": 3})
        for data in bad:
            page.send(data)
        page.send_raw({"method": "custom"})
        page.send_raw("stop")
        page.send({"type": "hello", "version": 1})
        assert page.wait_told("context")["phase"] == "running"
        server.release("slow")
        assert page.wait_for("turn_finished")["outcome"] == "done"
        assert shown.collect(request).ok


def test_importing_waits_for_the_first_widget(kernel: RealKernel, server: FakeAnthropic) -> None:
    """Neither loading nor a turn without a widget imports anywidget."""
    server.append("One.")
    assert kernel.execute("%agent go").ok

    assert kernel.eval("'anywidget' in __import__('sys').modules") is False


def test_panel_shows_a_widget_and_keeps_a_record(shown: RealKernel, server: FakeAnthropic) -> None:
    """`/panel` has two outputs; the second is the conversation, renewed when a turn has ended."""
    server.append("First.", "<b>Second</b>.")
    with widget_page(shown, "panel") as page:
        ran = shown.execute("%agent /panel", allow_stdin=True)
        assert ran.ok, ran.reply
        assert [set(one["data"]) for one in ran.outputs] == [
            {VIEW_MIME, "text/plain"},
            {"text/markdown", "text/plain"},
        ]
        assert "No turn yet" in ran.outputs[1]["data"]["text/plain"]
        page.wait_shown()
        assert page.open()["items"] == []
        for text, turn in (("one", 1), ("two", 2)):
            page.call("submit", text=text, images=[])
            page.wait_for("turn_finished", turn=turn)
        record = page.wait_record("Second")

    assert record["text/plain"].startswith("[1] one\n\nFirst.")
    assert "&lt;b>Second" in record["text/markdown"]


def test_panel_makes_no_widget_where_nobody_is(kernel: RealKernel) -> None:
    """In nbclient, which takes no input and would store the widget, there is only the record."""
    ran = kernel.execute("%agent /panel", allow_stdin=False)

    assert [set(one["data"]) for one in ran.outputs] == [{"text/markdown", "text/plain"}]
