"""What a test does with the agent's panel beside a notebook that is open in a browser."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, expect
from playwright.sync_api import TimeoutError as PageTimeoutError

from .notebook_page import NotebookPage

TURN_MS = 60_000
"""Longest turn: far more than any here needs."""


WIDE_PX = 420
TRY_MS = 1_000
TRIES = 30
TAKEN = "node => !node.isConnected || node.querySelector('button:disabled')"


class Panel:
    """The panel of the notebook in use, in `page`."""

    def __init__(self, page: NotebookPage) -> None:
        self.page = page
        self.root = page.page.locator(".jctx-notebook:not([hidden]) > .jctx-panel")
        self.prompt = self.root.get_by_role("textbox", name="Prompt")
        self.log = self.root.get_by_role("log", name="Conversation")
        self.question = self.root.get_by_role("group", name="Permission request")
        self.stop_button = self.root.locator("button.stop").last
        self.run_line = self.root.locator(".jctx-run [role=status]")
        self.fault = self.root.locator(".jctx-log .jctx-first")

    def open(self) -> Panel:
        """Show it and wait until a prompt can be typed."""
        self.page.command("jupyter-ctx:show-panel")
        expect(self.prompt).to_be_enabled(timeout=TURN_MS)
        return self

    def widen(self) -> None:
        """Make JupyterLab's right side area `WIDE_PX` wide, as a hand does."""
        mouse = self.page.page.mouse
        side = self.page.page.locator("#jp-right-stack").bounding_box()
        assert side is not None
        mouse.move(side["x"] - 2, side["y"] + 300)
        mouse.down()
        mouse.move(side["x"] - 2 - (WIDE_PX - side["width"]), side["y"] + 300, steps=8)
        mouse.up()

    def ask(self, text: str) -> None:
        """Type a prompt, send it, and wait until it stands there or waits."""
        there = self.log.get_by_role("article").or_(self.root.locator(".jctx-queue li"))
        before = there.count()
        self.prompt.fill(text)
        self.prompt.press("Enter")
        if text != "/compact":  # which shows a divider
            expect(there).not_to_have_count(before, timeout=TURN_MS)

    def turn(self, number: int) -> Locator:
        """Return turn `number` in the conversation."""
        return self.log.get_by_role("article", name=f"Turn {number}", exact=True)

    def open_rows(self, number: int) -> None:
        """Open each step of turn `number` that is closed; what an output draws is left alone."""
        closed = self.turn(number).locator(".jctx-tools > details:not([open]) > summary")
        while closed.count():
            closed.first.click()

    def wait_done(self) -> None:
        """Wait until the agent does nothing any more."""
        expect(self.stop_button).to_be_disabled(timeout=TURN_MS)

    def allow(self, *, key: str = "") -> None:
        """Answer the open question with a click on Allow once, or with a key.

        A new question takes no answer at first: it is given again until it is taken.
        """
        expect(self.question).to_be_visible(timeout=TURN_MS)
        question = self.question.element_handle()

        def answer() -> None:
            if key:
                self.question.scroll_into_view_if_needed()  # out of sight it takes no answer
                self.question.focus()
                self.page.page.keyboard.press(key)
            else:
                self.question.get_by_role("button", name="Allow once").click(timeout=TRY_MS)

        self._until(answer, TAKEN, question)

    def begin_denial(self, *, key: str = "") -> Locator:
        """Click Deny…, or press a key, and return the field for the reason."""
        question = self.question.element_handle()

        def begin() -> None:
            if key:
                self.question.scroll_into_view_if_needed()  # out of sight it takes no answer
                self.question.focus()
                self.page.page.keyboard.press(key)
            else:
                self.question.get_by_role("button", name="Deny…").click(timeout=TRY_MS)

        self._until(begin, "node => node.querySelector('input')", question)
        return self.question.get_by_role("textbox")

    def _until(self, act: Callable[[], None], condition: str, argument: object) -> None:
        """Do something again until `condition` holds: a new question takes no answer at first."""
        for _ in range(TRIES):
            try:
                act()
                self.page.page.wait_for_function(condition, arg=argument, timeout=TRY_MS)
            except PageTimeoutError:
                continue
            return
        raise AssertionError("The question took no answer.")
