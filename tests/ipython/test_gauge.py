"""Laws of the gauge's comm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jupyter_ctx.core.events import ContextChanged, TextDelta, TurnFinished, TurnStarted
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.ipython import gauge as gauge_module
from jupyter_ctx.ipython.gauge import Gauge, Look

FINISHED = TurnFinished(1, "done", "end_turn", "", 1, Usage(), None, 1.0)


class Comm:
    """Stands for one page: keeps what it was sent."""

    _reply_subshell_for: object = "the kernel's last choice"

    def __init__(self, name: str) -> None:
        self.comm_id = name
        self.sent: list[dict[str, Any]] = []
        self.fails = False
        self.closed = False

    def send(self, data: dict[str, Any]) -> None:
        if self.fails:
            raise OSError("gone")
        self.sent.append(data)

    def on_close(self, call: Callable[..., None]) -> None:
        self.closing = call

    def on_msg(self, call: Callable[..., None]) -> None:
        self.hearing = call

    def close(self) -> None:
        self.closed = True


class Manager:
    """Stands for the kernel's comm manager."""

    def __init__(self) -> None:
        self.targets: dict[str, Any] = {}

    def register_target(self, name: str, call: Any) -> None:
        self.targets[name] = call

    def unregister_target(self, name: str, call: Any) -> None:
        assert self.targets.pop(name) == call


class Scene:
    """A gauge over fakes, with a clock and a session that tests set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.manager = Manager()
        self.own = Comm("own")
        self.session: tuple[str, str, dict[str, object]] | None = None
        self.costs: dict[str, float] | None = None

    def begin(self) -> Gauge:
        return Gauge(
            self.manager,
            lambda: None if self.session is None else Look(*self.session, self.costs),
            lambda: self.now,
        )


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene()
    monkeypatch.setattr(gauge_module, "create_comm", lambda target_name, data: made.own)
    return made


def test_a_page_first_gets_a_hello(scene: Scene) -> None:
    """On every comm a hello comes first, then the context known last, without a look anew."""
    gauge = scene.begin()
    scene.session = ("s1", "running", {"used_tokens": 5})
    scene.costs = {"output": 0.5}
    gauge.notice(TurnStarted(1, "hi"))
    scene.session = None
    page = Comm("page")
    scene.manager.targets["jupyter_ctx"](page, {})

    assert [m["type"] for m in scene.own.sent] == ["hello", "context", "hello", "context"]
    assert [m["session"] for m in scene.own.sent if m["type"] == "hello"] == [None, "s1"]
    hello, context = page.sent
    assert hello["session"] == "s1"
    assert context == {
        "version": 1,
        "type": "context",
        "phase": "running",
        "context": {"used_tokens": 5},
        "costs": {"output": 0.5},
    }


def test_moves_are_coalesced(scene: Scene) -> None:
    """Within 100 ms one message is sent; the last state is never lost."""
    gauge = scene.begin()
    scene.session = ("s1", "running", {"used_tokens": 0})
    gauge.send()
    scene.own.sent.clear()
    for used in range(50):
        scene.session = ("s1", "running", {"used_tokens": used})
        gauge.notice(ContextChanged(1))
    assert scene.own.sent == []
    wait = gauge.flush()
    assert wait is not None
    scene.now += wait
    assert gauge.flush() is None
    assert [m["context"]["used_tokens"] for m in scene.own.sent] == [49]
    gauge.notice(ContextChanged(1))
    scene.session = ("s1", "idle", {"used_tokens": 50})
    gauge.notice(FINISHED)
    assert scene.own.sent[-1]["context"]["used_tokens"] == 50
    assert gauge.flush() is None


def test_other_events_send_nothing(scene: Scene) -> None:
    """Text alone does not move the gauge."""
    gauge = scene.begin()
    scene.own.sent.clear()
    gauge.notice(TextDelta(1, 1, "x"))
    assert gauge.flush() is None

    assert scene.own.sent == []


def test_replies_are_not_rerouted(scene: Scene) -> None:
    """A page's messages must not wait behind the running cell."""
    scene.begin()

    assert scene.own._reply_subshell_for is None


def test_a_page_that_is_gone_disturbs_nobody(scene: Scene) -> None:
    """A comm that fails is forgotten; the others are still told."""
    gauge = scene.begin()
    page = Comm("page")
    scene.manager.targets["jupyter_ctx"](page, {})
    scene.own.fails = True
    gauge.send()
    scene.own.fails = False
    before = len(scene.own.sent)
    gauge.send()

    assert len(scene.own.sent) == before
    assert len(page.sent) == 4
    assert gauge.pages == 1
    page.closing({})
    assert gauge.pages == 0


def test_pages_that_were_reloaded_are_dropped(scene: Scene) -> None:
    """Of what pages opened only so many are kept; those heard last, and the kernel's own, stay."""
    gauge = scene.begin()
    ended: list[str] = []
    gauge.attach(lambda comm_id: None, lambda comm_id, data: None, ended.append)
    pages = [Comm(f"page {n}") for n in range(gauge_module.MOST_OPENED + 2)]
    for page in pages[:-2]:
        scene.manager.targets["jupyter_ctx"](page, {})
    pages[0].hearing({"content": {"data": {}}})
    for page in pages[-2:]:
        scene.manager.targets["jupyter_ctx"](page, {})

    assert [page.comm_id for page in pages if page.closed] == ended == ["page 1", "page 2"]
    assert gauge.pages == gauge_module.MOST_OPENED
    assert [gauge.owns(one) for one in ("own", "page 0", "page 1")] == [True, True, False]


def test_close_takes_everything_away(scene: Scene) -> None:
    """Afterwards there is no target and no open comm."""
    gauge = scene.begin()
    gauge.close()

    assert scene.manager.targets == {}
    assert scene.own.closed


def test_no_key_that_nbclient_takes_for_a_widget(scene: Scene) -> None:
    """No message has a key `state`: nbclient would take it for a widget's and fail."""
    gauge = scene.begin()
    scene.session = ("s1", "running", {"used_tokens": 5})
    gauge.send()

    assert all("state" not in message for message in scene.own.sent)
