"""Stands for a page with the panel open: hears a kernel's comms, calls on the control channel.

What it does is what labextension/src/client.ts does, on a thread of its own: it goes on
while a test waits for a cell. Items go by number: one that was there is left out, and a
gap fails the test.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import zmq
from jupyter_client.blocking.client import BlockingKernelClient

from ..kernels import RealKernel

PART_CHARS = 20_000
TIMEOUT_S = 40.0
"""How long an answer or an item may take before the test fails: far more than any here needs."""

Item = dict[str, Any]


class Refusal(Exception):
    """The kernel refused a call."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class PanelPage:
    """One page. `items` are those it took, in order; `states` the kernel's, with what they answer.

    `on_item` is called with each new item, on the listening thread: what the person does at once.
    """

    def __init__(self, kernel: RealKernel) -> None:
        self.client = secrets.token_hex(8)
        self.items: list[Item] = []
        self.epoch = ""
        self.next_seq: int | None = None
        self.gaps = 0
        self.states: list[tuple[str, str]] = []
        self.on_item: Callable[[Item], None] = lambda item: None
        self.others: list[dict[str, Any]] = []
        self.contexts: list[dict[str, Any]] = []
        self._client: BlockingKernelClient = kernel.connect()
        reply = self._client.comm_info(target_name="jupyter_ctx", reply=True, timeout=TIMEOUT_S)
        self.comm_id = next(iter(reply["content"]["comms"]))
        self._answers: dict[str, dict[int, str]] = {}
        self._done: dict[str, dict[str, Any]] = {}
        self._heard = threading.Condition()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._ends.set()
        self._thread.join(10)
        self._client.stop_channels()

    # Calling ------------------------------------------------------------------------------------

    def open(self, turns: int = 30) -> dict[str, Any]:
        """Open the panel, as after a reload: what was there before is forgotten."""
        with self._heard:
            self.next_seq = None
            self.items.clear()
        found = self.call("open", turns=turns)
        with self._heard:
            self.epoch = found["epoch"]
            early, self.items = self.items, []
            self.next_seq = found["seq"]
            for item in early:
                self._take(item.pop("_seq"), item)
        return found

    def call(self, op: str, **args: Any) -> dict[str, Any]:
        """Call and return the result. Raises Refusal."""
        return self.wait_answer(self.send_call(op, args))

    def send_call(self, op: str, args: Mapping[str, Any]) -> str:
        """Send a call, and return its id for `wait_answer`."""
        call_id = secrets.token_hex(8)
        text = json.dumps({"op": op, "args": args})
        pieces = [text[at : at + PART_CHARS] for at in range(0, len(text), PART_CHARS)]
        for n, piece in enumerate(pieces, 1):
            self.send(self.part(call_id, piece, n, len(pieces)))
        return call_id

    def part(self, call_id: str, text: str, part: int = 1, parts: int = 1) -> dict[str, Any]:
        """Return the message of one part of a call."""
        told = {"id": call_id, "client": self.client, "part": part, "parts": parts, "text": text}
        return {"version": 1, "type": "call", **told}

    def send(self, data: Any) -> None:
        """Send any data on the control channel."""
        message = self._client.session.msg("comm_msg", {"comm_id": self.comm_id, "data": data})
        self._client.control_channel.send(message)

    def send_escaped(self, data: Any) -> None:
        """The same in plain ASCII, as a page's `JSON.stringify` writes half a character."""
        packs = self._client.session.pack
        try:
            self._client.session.pack = lambda one: json.dumps(one, default=str).encode()
            self.send(data)
        finally:
            self._client.session.pack = packs

    def wait_answer(self, call_id: str) -> dict[str, Any]:
        """Return the result of a call. Raises Refusal."""
        with self._heard:
            assert self._heard.wait_for(lambda: call_id in self._done, TIMEOUT_S), "no answer"
            answer = self._done[call_id]
        if not answer["ok"]:
            raise Refusal(answer["error"]["kind"], answer["error"]["message"])
        result: dict[str, Any] = answer["result"]
        return result

    def has_answer(self, call_id: str) -> bool:
        """Whether the answer to a call has come."""
        with self._heard:
            return call_id in self._done

    # Hearing ------------------------------------------------------------------------------------

    def wait_for(self, kind: str, **fields: Any) -> Item:
        """Return the first item of that kind with those fields, waiting for it."""

        def find() -> Item | None:
            return next((one for one in self.items if _fits(one, kind, fields)), None)

        with self._heard:
            if not self._heard.wait_for(lambda: find() is not None, TIMEOUT_S):
                kinds = [item["kind"] for item in self.items]
                raise AssertionError(f"no {kind} {fields} among {kinds}: {self.items[-3:]}")
            found = find()
            assert found is not None
            return found

    def wait_text(self, wanted: str) -> None:
        """Wait until the streamed text holds `wanted`."""
        with self._heard:
            assert self._heard.wait_for(lambda: wanted in self.text, TIMEOUT_S), self.text

    def wait_state(self, kind: str, state: str, count: int = 1) -> None:
        """Wait until the kernel has said `state` of so many requests of a type."""
        with self._heard:
            found = (kind, state)
            assert self._heard.wait_for(lambda: self.states.count(found) >= count, TIMEOUT_S)

    def of(self, kind: str) -> list[Item]:
        """Return the items of a kind."""
        with self._heard:
            return [item for item in self.items if item["kind"] == kind]

    @property
    def kinds(self) -> list[str]:
        """The kinds of all items, in order."""
        with self._heard:
            return [item["kind"] for item in self.items]

    @property
    def text(self) -> str:
        """The text of all deltas."""
        return "".join(item["text"] for item in self.items if item["kind"] == "text_delta")

    def _listen(self) -> None:
        while not self._ends.is_set():
            if not self._client.iopub_channel.socket.poll(50, zmq.POLLIN):
                continue
            message = self._client.iopub_channel.get_msg(timeout=1)
            with self._heard:
                new = self._hear(message)
                self._heard.notify_all()
            for item in new:
                self.on_item(item)

    def _hear(self, message: dict[str, Any]) -> list[Item]:
        kind = message["msg_type"]
        if kind == "status":
            parent = message["parent_header"].get("msg_type", "")
            self.states.append((parent, message["content"]["execution_state"]))
            return []
        data = message["content"].get("data")
        if kind != "comm_msg" or not isinstance(data, dict):
            self.others.append(message)
            return []
        if data.get("type") == "answer" and data["to"] == self.client:
            self._hear_answer(data)
        if data.get("type") == "context" and data["context"] is not None:
            self.contexts.append(data["context"])
        if data.get("type") == "panel":
            new = [(data["seq"] + n, item) for n, item in enumerate(data["items"])]
            return [item for seq, item in new if self._take(seq, item)]
        return []

    def _hear_answer(self, data: dict[str, Any]) -> None:
        assert data["id"] not in self._done, "answered twice"
        parts = self._answers.setdefault(data["id"], {})
        parts[data["part"]] = data["text"]
        if len(parts) == data["parts"]:
            self._done[data["id"]] = json.loads("".join(parts[n] for n in sorted(parts)))

    def _take(self, seq: int, item: Item) -> bool:
        if self.next_seq is None:  # before `open`: kept until it is known what is new
            self.items.append({"_seq": seq, **item})
            return False
        if seq < self.next_seq:
            return False
        assert seq == self.next_seq, f"items {self.next_seq} to {seq - 1} are missing"
        self.next_seq = seq + 1
        self.items.append(item)
        return True


def _fits(item: Item, kind: str, fields: Mapping[str, Any]) -> bool:
    return item["kind"] == kind and all(item.get(name) == value for name, value in fields.items())


@contextmanager
def panel_page(kernel: RealKernel) -> Iterator[PanelPage]:
    """Give a page on an idle kernel; the panel is not open yet."""
    page = PanelPage(kernel)
    try:
        yield page
    finally:
        page.close()
