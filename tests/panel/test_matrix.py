"""Permission and Stop while the main thread is blocked: every road to it, on every ipykernel.

What a page says reaches a blocked kernel on the control channel (JupyterLab's extension), in a
subshell (ordinary messages, ipykernel 7), or is heard before it is routed (a widget, ipykernel
7.4). Where no page is, or none is heard, `input()` asks and an interrupt stops.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from ..fake_anthropic import FakeAnthropic, Hold, call, reply
from ..kernels import TIMEOUT_S, Ran, RealKernel, running_kernel
from ..pages import page_on
from .client import Item, PanelPage, Refusal, panel_page
from .conftest import KEY, LOAD
from .ipykernels import VERSIONS, environment
from .test_widget import WidgetPage

LOOP = "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.01)"
STOPPED = "Stopped by you"

SUBSHELLS = "kernel subshells"
"""What kernel_info says of a kernel that has them."""


# Kernels ------------------------------------------------------------------------------------------


class Versioned:
    """A kernel of one version of ipykernel, with the provider it talks to."""

    def __init__(self, version: str, kernel: RealKernel, server: FakeAnthropic) -> None:
        self.version = version
        self.kernel = kernel
        self.server = server
        info = kernel.client.kernel_info(reply=True, timeout=TIMEOUT_S)["content"]
        self.has_subshells = SUBSHELLS in info.get("supported_features", [])


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Versioned]]:
    """A function that gives the kernel of a version, with the extension loaded; one for all."""
    with ExitStack() as stack:

        @cache
        def start(version: str) -> Versioned:
            folder = tmp_path_factory.mktemp("kernel")
            server = stack.enter_context(FakeAnthropic([]))
            env = {
                **environment(version),
                "ANTHROPIC_BASE_URL": server.url,
                "ANTHROPIC_API_KEY": KEY,
                "JPY_SESSION_NAME": str(folder / "work" / "a.ipynb"),
            }
            kernel = stack.enter_context(running_kernel(folder, env))
            assert kernel.execute(LOAD).ok
            return Versioned(version, kernel, server)

        yield start


@pytest.fixture(params=list(VERSIONS))
def versioned(request: pytest.FixtureRequest, kernels: Callable[[str], Versioned]) -> Versioned:
    """A real kernel of each version."""
    return kernels(request.param)


@pytest.fixture
def found(versioned: Versioned) -> Iterator[Versioned]:
    """The kernel as if just loaded: no page, no rule, nothing stored in the namespace."""
    kernel, server = versioned.kernel, versioned.server
    assert kernel.execute("%reload_ext jupyter_ctx").ok
    assert kernel.execute("%agent /new").ok
    kernel.execute("x = None")
    yield versioned
    unused = server.unused
    server.drop_unused()
    assert server.refused == []
    assert unused == []


# Roads --------------------------------------------------------------------------------------------


class SubshellPage(PanelPage):
    """A page whose messages are ordinary ones, each for a subshell of its own."""

    def __init__(self, kernel: RealKernel) -> None:
        super().__init__(kernel)
        self.subshell = make_subshell(self._client)

    def send(self, data: Any) -> None:
        """Send any data on the shell channel, to the subshell."""
        send_to(self._client, self.comm_id, data, self.subshell)


class SubshellWidget(WidgetPage):
    """A widget whose front end has a subshell for it."""

    def __init__(self, kernel: RealKernel) -> None:
        super().__init__(kernel, "cell")
        self.subshell = make_subshell(self._client)

    def send_raw(self, data: Any) -> None:
        """Send any comm message of the widget to the subshell."""
        send_to(self._client, self.comm_id, data, self.subshell)


def make_subshell(client: Any) -> str:
    """Have the kernel make a subshell and return its id."""
    message = client.session.msg("create_subshell_request", {})
    client.control_channel.send(message)
    while True:
        answer = client.get_control_msg(timeout=TIMEOUT_S)
        if answer["parent_header"].get("msg_id") == message["header"]["msg_id"]:
            assert answer["content"]["status"] == "ok"
            return str(answer["content"]["subshell_id"])


def send_to(client: Any, comm_id: str, data: Any, subshell: str) -> None:
    """Send a comm message on the shell channel, for a subshell."""
    message = client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
    message["header"]["subshell_id"] = subshell
    client.shell_channel.send(message)


class Running:
    """A turn of `%agent` that blocks the main thread, and how a person reaches it."""

    def __init__(self, kernel: RealKernel, page: PanelPage | None) -> None:
        self.kernel = kernel
        self.page = page
        self.request = kernel.submit("%agent go", allow_stdin=True)
        self._opened: Item | None = None
        if isinstance(page, WidgetPage):
            page.wait_shown()
            self._opened = page.open()["question"]

    def wait_question(self) -> Item | None:
        """Wait until it is asked, and say that it is seen; None: `input()` asks."""
        if self.page is None:
            self.kernel.client.get_stdin_msg(timeout=TIMEOUT_S)
            return None
        asked = self._opened or self.page.wait_for("question")
        self.page.call("seen", question=asked["id"])
        return asked

    def allow(self, question: Item | None) -> None:
        """Allow once."""
        if question is None or self.page is None:
            self.kernel.client.input("y")
        else:
            decide(self.page, question, "once")

    def stop(self) -> None:
        """Stop the turn."""
        if self.page is None:
            self.kernel.interrupt()
        else:
            self.page.call("stop")

    def collect(self) -> Ran:
        """Return what the cell brought; no other question may come."""
        return self.kernel.collect(self.request)


def decide(page: PanelPage, question: Item, choice: str) -> dict[str, Any]:
    """Answer a question, with the digest of what was shown."""
    shown = f"{question['title']}\n\n{question['text']}".encode()
    args = {"sha256": hashlib.sha256(shown).hexdigest(), "word": "", "reason": ""}
    return page.call("decide", question=question["id"], choice=choice, **args)


@dataclass(frozen=True)
class Way:
    """One way to a blocked kernel, there from ipykernel `since` on; `make` opens its page."""

    name: str
    make: Callable[[RealKernel], PanelPage | None]
    since: str = "6"

    @contextmanager
    def open(self, found: Versioned) -> Iterator[PanelPage | None]:
        """Open its page; None: there is none."""
        page = self.make(found.kernel)
        setting = "on" if isinstance(page, WidgetPage) else "off"
        found.kernel.execute(f"%config JupyterCtx.cell_widget = '{setting}'")
        if page is None:
            yield None
            return
        try:
            if isinstance(page, WidgetPage):
                yield page
            else:
                with page_on(found.kernel, []):  # JupyterLab's page tells of its notebook too
                    open_idle(page)
                    yield page
        finally:
            page.close()


@contextmanager
def panel_on(kernel: RealKernel) -> Iterator[PanelPage]:
    """Give a page with the panel open, which tells of its notebook too."""
    kernel.execute("%config JupyterCtx.cell_widget = 'off'")
    with panel_page(kernel) as page, page_on(kernel, []):
        open_idle(page)
        yield page


def open_idle(page: PanelPage) -> None:
    """Open the panel of an idle kernel, asking again while that opens its session."""
    while True:
        try:
            page.open()
        except Refusal as refusal:
            if refusal.kind != "busy":
                raise
        else:
            return


WAYS = (
    Way("control channel", PanelPage),
    Way("subshell", SubshellPage, since="7"),
    Way("widget in a subshell", SubshellWidget, since="7"),
    Way("widget's hook", lambda kernel: WidgetPage(kernel, "cell"), since="7.4"),
    Way("stdin", lambda kernel: None),
)

MATRIX = [(version, way) for version in VERSIONS for way in WAYS if version >= way.since]

each_way = pytest.mark.parametrize(
    ("versioned", "way"),
    MATRIX,
    ids=[f"{version}, {way.name}" for version, way in MATRIX],
    indirect=["versioned"],
)


# Laws ---------------------------------------------------------------------------------------------


def test_the_version_is_the_one_that_is_meant(found: Versioned) -> None:
    """The kernel says so itself, and has subshells from 7 on."""
    assert found.kernel.eval("__import__('ipykernel').__version__") == found.version
    assert found.has_subshells is (found.version >= "7")


@each_way
def test_a_question_is_answered(found: Versioned, way: Way) -> None:
    """The code runs once it was allowed, and nobody else is asked."""
    with way.open(found) as page:
        found.server.append(reply("Let me look.", call("run_code", code="x = 6 * 7")), "It is 42.")
        before = history_of(found.kernel)
        turn = Running(found.kernel, page)
        turn.allow(turn.wait_question())
        ran = turn.collect()

    assert ran.ok
    assert ran.questions == []
    assert "It is 42." in "".join(ran.bundles("text/markdown"))
    assert found.kernel.eval("x") == 42
    assert history_of(found.kernel) == before


@each_way
def test_stop_while_the_model_answers(found: Versioned, way: Way) -> None:
    """The stream is left, and the cell says who stopped it; the next turn runs."""
    name = secrets.token_hex(4)
    with way.open(found) as page:
        found.server.append(reply("Half", Hold(name), " more"), "Again.")
        turn = Running(found.kernel, page)
        found.server.wait_held(name, TIMEOUT_S)
        turn.stop()
        ran = turn.collect()
        found.server.release(name)

    assert_stopped(found.kernel, ran)
    assert found.kernel.execute("%agent again").ok


@each_way
def test_stop_while_code_runs(found: Versioned, way: Way) -> None:
    """The code is interrupted, and no step follows."""
    with way.open(found) as page:
        found.server.append(reply(call("run_code", code=LOOP)))
        turn = Running(found.kernel, page)
        turn.allow(turn.wait_question())
        found.kernel.wait_for_text(turn.request, "begun")
        turn.stop()
        ran = turn.collect()

    assert_stopped(found.kernel, ran)


@each_way
def test_stop_while_it_asks(found: Versioned, way: Way) -> None:
    """The question ends with its turn, the code never runs, and a later answer finds none."""
    with way.open(found) as page:
        found.server.append(reply(call("run_code", code="x = 1")))
        turn = Running(found.kernel, page)
        question = turn.wait_question()
        turn.stop()
        ran = turn.collect()
        assert_stopped(found.kernel, ran)
        if page is not None and question is not None:
            with pytest.raises(Refusal, match="gone"):
                decide(page, question, "once")

    assert found.kernel.eval("x") is None


@pytest.mark.parametrize(
    "versioned", [version for version in VERSIONS if version < "7.4"], indirect=True
)
def test_a_page_that_is_not_heard_leaves_the_question_to_the_cell(found: Versioned) -> None:
    """A widget without subshell or hook: `input()` asks, and what the page says comes too late."""
    found.kernel.execute("%config JupyterCtx.cell_widget = 'on'")
    found.server.append(reply(call("run_code", code="x = 6 * 7")), "It is 42.")
    page = WidgetPage(found.kernel, "cell")
    try:
        request = found.kernel.submit("%agent go", allow_stdin=True)
        page.wait_shown()
        late = page.send_call("stop", {})
        found.kernel.client.get_stdin_msg(timeout=TIMEOUT_S)
        assert not page.has_answer(late)
        found.kernel.client.input("y")
        ran = found.kernel.collect(request)
        assert page.wait_answer(late)["stopped"] is False
    finally:
        page.close()

    assert ran.ok
    assert found.kernel.eval("x") == 42


def test_a_turn_of_the_panel(found: Versioned) -> None:
    """The panel's turn asks, runs code on the idle kernel and leaves it to the user meanwhile."""
    name = secrets.token_hex(4)
    found.server.append(
        reply("Let me look.", call("run_code", code="x = 6 * 7\nprint(x)")),
        reply(Hold(name), "It is 42."),
    )
    with panel_on(found.kernel) as page:
        before = history_of(found.kernel)
        page.call("submit", text="what is it?")
        decide(page, page.wait_for("question"), "once")
        page.wait_for("tool_finished", is_error=False)
        found.server.wait_held(name, TIMEOUT_S)
        assert history_of(found.kernel) == before
        ran = found.kernel.execute("print('mine', x + 1)", store_history=False)
        found.server.release(name)
        done = page.wait_for("turn_finished")

        assert (done["outcome"], done["text"]) == ("done", "It is 42.")
        assert page.of("tool_output")[-1]["text"] == "42\n"
    assert ran.text == "mine 43\n"
    cells = [
        one for one in page.others if one["parent_header"].get("msg_type") == "execute_request"
    ]
    told = [one["content"]["text"] for one in cells if one["msg_type"] == "stream"]
    assert "".join(told) == ran.text
    assert history_of(found.kernel) == before


@pytest.mark.parametrize("stage", ["answers", "runs", "asks"])
def test_stop_of_a_turn_of_the_panel(found: Versioned, stage: str) -> None:
    """It ends as stopped at every stage, and the kernel's own handler of interrupts is back."""
    name = secrets.token_hex(4)
    code = LOOP if stage == "runs" else "x = 1"
    streams = reply("Half", Hold(name), " more")
    found.server.append(streams if stage == "answers" else reply(call("run_code", code=code)))
    handler = "repr(__import__('signal').getsignal(2))"
    before = found.kernel.eval(handler)
    with panel_on(found.kernel) as page:
        page.call("submit", text="go")
        if stage == "answers":
            found.server.wait_held(name, TIMEOUT_S)
        else:
            question = page.wait_for("question")
            if stage == "runs":
                decide(page, question, "once")
                page.wait_for("tool_output")
        assert page.call("stop")["stopped"] is True
        page.wait_for("turn_finished", outcome="stopped")
        found.server.release(name)

    assert found.kernel.eval(handler) == before
    assert found.kernel.eval("x") is None


def assert_stopped(kernel: RealKernel, ran: Ran) -> None:
    """Assert that the cell says who stopped it, and that the kernel runs the next one."""
    assert not ran.ok
    assert STOPPED in ran.stderr
    assert kernel.execute("print('free')").text == "free\n"


def history_of(kernel: RealKernel) -> Any:
    """Return `Out` and the kernel's own code in `In`; the agent's may not be among it."""
    return kernel.eval("(sorted(Out), [one for one in In if '6 * 7' in one])")
