"""The same strict API as Amazon Bedrock and Vertex AI serve it: other paths, other frames.

What these clouds do to a request is taken back before it is checked: the model stands in the path,
the version in the body. So every rule, the cache and the record are those of `FakeAnthropic`.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import unquote

from .exchange import COUNT, MESSAGES, Exchange
from .fake import FakeAnthropic
from .record import Recorded

_VERTEX = re.compile(
    r"/projects/(?P<project>[^/]+)/locations/(?P<region>[^/]+)/publishers/anthropic/models/"
    r"(?P<model>[^/:]+):(?P<act>\w+)"
)


class FakeCloud(FakeAnthropic):
    """What both have in common. `models` are named as the cloud names them."""

    def begin(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
    ) -> Exchange:
        """Record a request as the Messages API would have got it."""
        path, more = self.translate(unquote(path))
        value: dict[str, Any] = {**json.loads(body or b"{}"), **more}
        version = value.pop("anthropic_version", "")
        headers = {**headers, "anthropic-version": version}
        return super().begin(method, path, query, headers, json.dumps(value).encode())

    def translate(self, path: str) -> tuple[str, dict[str, Any]]:
        """Return the path of the Messages API, and what of the body stood in the cloud's."""
        raise NotImplementedError


class FakeBedrock(FakeCloud):
    """Amazon Bedrock, which streams in frames of its own; for ANTHROPIC_BEDROCK_BASE_URL."""

    def translate(self, path: str) -> tuple[str, dict[str, Any]]:
        found = re.fullmatch(r"/model/(.+)/invoke(-with-response-stream)?", path)
        if found is None:
            return path, {}
        return MESSAGES, {"model": found[1], **({"stream": True} if found[2] else {})}

    def _exchange(self, record: Recorded) -> Exchange:
        return _Framed(self, record)


class FakeVertex(FakeCloud):
    """Vertex AI; for ANTHROPIC_VERTEX_BASE_URL."""

    project: ClassVar[str] = "test-project"

    def translate(self, path: str) -> tuple[str, dict[str, Any]]:
        found = _VERTEX.fullmatch(path)
        if found is None or found["project"] != self.project:
            return path, {}
        if found["model"] == "count-tokens":
            return COUNT, {}
        return MESSAGES, {"model": found["model"]}


class _Framed(Exchange):
    """A Bedrock request: each event is a frame that holds it in base64."""

    stream_type = "application/vnd.amazon.eventstream"
    corrupt_text = b"\x00\x00\x00\x40\x00\x00\x00\x10 no frame"

    def encode(self, event: tuple[str, dict[str, Any]]) -> bytes:
        import base64

        inner = base64.b64encode(json.dumps(event[1]).encode()).decode()
        headers = {":message-type": "event", ":event-type": "chunk"}
        return frame(headers, json.dumps({"bytes": inner}).encode())

    def encode_error(self, kind: str) -> bytes:
        headers = {":message-type": "exception", ":exception-type": kind}
        return frame(headers, json.dumps({"message": "Too many requests"}).encode())


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one frame of Amazon's event stream: lengths and checksums around headers and body."""
    head = b"".join(
        struct.pack(">B", len(name))
        + name.encode()
        + struct.pack(">BH", 7, len(value))
        + value.encode()
        for name, value in {**headers, ":content-type": "application/json"}.items()
    )
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    body = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + payload
    return body + struct.pack(">I", zlib.crc32(body))
