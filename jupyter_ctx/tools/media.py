"""One line for sound and film: what it is, how long, how large."""

from __future__ import annotations

import base64
import binascii
import struct

HEAD_CHARS = 4_096
"""So much of the base64 text is decoded, in characters: the header of a sound is at its start."""


def describe_media(mime: str, data: str) -> str:
    """Return type, length and size of base64 `data`; what has no readable header has no length."""
    size = f"{len(data) * 3 // 4:,} bytes"
    head = _decode(data[: HEAD_CHARS // 4 * 4])
    about = _wave(head) if head[:4] == b"RIFF" and head[8:12] == b"WAVE" else ""
    return f"[{mime}, {about}{size}]"


def _decode(data: str) -> bytes:
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError):
        return b""  # no base64: only its length is told


def _wave(head: bytes) -> str:
    """Return length, rate and channels of a WAVE sound, "" if its header is broken."""
    at, rate, channels, bytes_a_second = 12, 0, 0, 0
    while at + 8 <= len(head):
        name, size = head[at : at + 4], struct.unpack("<I", head[at + 4 : at + 8])[0]
        if name == b"fmt " and at + 24 <= len(head):
            channels, rate, bytes_a_second = struct.unpack("<HII", head[at + 10 : at + 20])
        if name == b"data":
            if not bytes_a_second:
                return ""
            many = "channel" if channels == 1 else "channels"
            return f"{size / bytes_a_second:.1f} s, {rate:,} Hz, {channels} {many}, "
        at += 8 + size + size % 2
    return ""
