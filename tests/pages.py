"""Stands for a page that shows a notebook: hears a kernel's comms, answers on the control channel.

`Page` holds the cells and does what labextension/src/lab/bridge.ts does, on a thread of its own, so
that it answers while a test waits for a cell. `is_mute` makes it a page that was closed;
`speaks_on_shell` one that sends ordinary comm messages.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import zmq
from jupyter_client.blocking.client import BlockingKernelClient

from .kernels import TIMEOUT_S, RealKernel

PART_CHARS = 20_000


def code(cell_id: str, source: str, **more: Any) -> dict[str, Any]:
    """Return a code cell as a page tells it."""
    return {
        "id": cell_id,
        "type": "code",
        "source": source,
        "execution_count": None,
        "failed": False,
        "busy": False,
        "outputs": None,
        "output_chars": 0,
        "extra": {"metadata": {}},
        **more,
    }


class Page:
    """One page on a kernel. `client` names it; `asked` are the requests it heard, in order.

    `on_request` is called with each before it is answered: what the person does meanwhile. `states`
    are what the kernel said of itself, each with the type of the message that it said it of.
    """

    def __init__(self, kernel: RealKernel, cells: list[dict[str, Any]], client: str = "") -> None:
        self.cells = cells
        self.client = client or kernel.client.session.session
        self.asked: list[dict[str, Any]] = []
        self.on_request: Callable[[dict[str, Any]], None] = lambda request: None
        self.is_mute = False
        self.speaks_on_shell = False
        self.shows_widgets = False
        self._greetings = 0
        self.heard_on = ""
        self.states: list[tuple[str, str]] = []
        self._client: BlockingKernelClient = kernel.connect()
        self._heard = threading.Condition()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._ends.set()
        self._thread.join(10)
        self._client.stop_channels()

    def cell(self, cell_id: str) -> dict[str, Any]:
        """Return a cell of the page."""
        return next(cell for cell in self.cells if cell["id"] == cell_id)

    @property
    def ids(self) -> list[str]:
        """The cells' ids, in order."""
        return [str(cell["id"]) for cell in self.cells]

    @property
    def ops(self) -> list[str]:
        """What it was asked to do, looks and greetings left out."""
        return [one["op"] for one in self.asked if one["op"] not in ("hello", "notebook")]

    @property
    def greetings(self) -> int:
        """How often the kernel has greeted it."""
        return self._greetings

    def wait_greeted(self, count: int) -> None:
        """Wait until it has answered so many greetings."""
        with self._heard:
            assert self._heard.wait_for(lambda: self._greetings >= count, TIMEOUT_S)

    def wait_for_idle(self, count: int) -> None:
        """Wait until the kernel has said "idle" of so many cells."""
        idle = ("execute_request", "idle")
        with self._heard:
            assert self._heard.wait_for(lambda: self.states.count(idle) >= count, TIMEOUT_S)

    def send(self, comm_id: str, data: Any) -> None:
        """Send any data on the control channel, or, if it speaks there, as an ordinary message."""
        message = self._client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        client = self._client
        (client.shell_channel if self.speaks_on_shell else client.control_channel).send(message)

    def _listen(self) -> None:
        while not self._ends.is_set():
            if not self._client.iopub_channel.socket.poll(50, zmq.POLLIN):
                continue
            message = self._client.iopub_channel.get_msg(timeout=1)
            data = message["content"].get("data", {})
            if message["msg_type"] == "status":
                parent = message["parent_header"].get("msg_type", "")
                with self._heard:
                    self.states.append((parent, message["content"]["execution_state"]))
                    self._heard.notify_all()
            if message["msg_type"] == "comm_msg" and data.get("type") == "request":
                self.heard_on = message["content"]["comm_id"]
                self._hear(message["content"]["comm_id"], data)

    def _hear(self, comm_id: str, request: dict[str, Any]) -> None:
        if self.is_mute or request["to"] not in (None, self.client):
            return
        if any(one["id"] == request["id"] for one in self.asked):
            return
        self.on_request(request)
        self.asked.append(request)
        try:
            answer = {"ok": True, "result": self._do(request["op"], request["args"])}
        except Refusal as refusal:
            answer = {"ok": False, "error": {"kind": refusal.kind, "message": "no", **refusal.more}}
        self.reply(comm_id, request["id"], json.dumps(answer))
        if request["op"] == "hello":
            with self._heard:
                self._greetings += 1
                self._heard.notify_all()

    def reply(self, comm_id: str, request_id: str, text: str) -> None:
        """Send an answer in parts."""
        pieces = [text[at : at + PART_CHARS] for at in range(0, len(text), PART_CHARS)]
        for at, piece in enumerate(pieces, 1):
            part = {"part": at, "parts": len(pieces), "text": piece, "client": self.client}
            self.send(comm_id, {"version": 1, "type": "reply", "id": request_id, **part})

    def _do(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        match op:
            case "hello":
                return {"widgets": self.shows_widgets}
            case "notebook":
                return {"path": "a.ipynb", "can_edit": True, "active": None, "cells": self.cells}
            case "insert_cell":
                end = 0 if args.get("at_top") else len(self.cells)
                at = end if args["after"] is None else self._at(args["after"]) + 1
                kept = {"outputs": args.get("outputs"), "execution_count": args.get("count")}
                cell = code(args["id"], args["source"], type=args["type"], **kept)
                self.cells.insert(at, cell)
                return self._standing(at, None, None)
        at = self._at(args["cell_id"])
        cell, above = self.cells[at], self._above(at)
        before = dict(cell)
        if cell["busy"]:
            raise Refusal("busy")
        if args.get("expected", cell["source"]) != cell["source"]:
            raise Refusal("stale", source=cell["source"])
        match op:
            case "edit_cell":
                cell["source"] = args["source"]
            case "set_outputs":
                cell.update(outputs=args["outputs"], execution_count=args["count"])
            case "delete_cell":
                del self.cells[at]
                below = self.ids[at] if at < len(self.cells) else None
                places = {"above": above, "below": below, "above_before": above}
                return {"cell": before, "index": at, "before": before, **places}
            case "move_cell":
                del self.cells[at]
                at = 0 if args["after"] is None else self._at(args["after"]) + 1
                self.cells.insert(at, cell)
        return self._standing(at, before, above)

    def _standing(self, at: int, before: Any, above_before: str | None) -> dict[str, Any]:
        below = self.ids[at + 1] if at + 1 < len(self.cells) else None
        return {
            "cell": self.cells[at],
            "index": at,
            "above": self._above(at),
            "below": below,
            "before": before,
            "above_before": above_before,
        }

    def _above(self, at: int) -> str | None:
        return self.ids[at - 1] if at else None

    def _at(self, cell_id: str) -> int:
        if cell_id not in self.ids:
            raise Refusal("no_cell")
        return self.ids.index(cell_id)


class Refusal(Exception):
    """The page does not do it."""

    def __init__(self, kind: str, **more: Any) -> None:
        super().__init__(kind)
        self.kind = kind
        self.more = more


@contextmanager
def page_on(kernel: RealKernel, cells: list[dict[str, Any]], client: str = "") -> Iterator[Page]:
    """Give a page on `kernel`; unless `client` says otherwise, the one that runs its cells."""
    page = Page(kernel, cells, client)
    try:
        yield page
    finally:
        page.close()
