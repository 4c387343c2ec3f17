"""What the bytes of a file are: text and its encoding, or of which kind, told by their beginning.

Rule: whatever is shown of a file as text can be written back byte for byte, or is said to be for
reading only.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

Encoding: TypeAlias = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"]
Newline: TypeAlias = Literal["\n", "\r\n", "\r"]

SNIFFED_BYTES = 8_192
"""So much of a file's beginning tells of which kind it is."""

ODD_SHARE = 0.02
"""Text that is no UTF-8 has at most this share of control characters; else it is no text."""

_BOMS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAID: dict[Encoding, str] = {
    "utf-8": "UTF-8",
    "utf-8-sig": "UTF-8 with BOM",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "latin-1": "no UTF-8; shown as Latin-1",
}
_ODD = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")

_KINDS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG image"),
    (0, b"\xff\xd8\xff", "JPEG image"),
    (0, b"GIF8", "GIF image"),
    (8, b"WEBP", "WebP image"),
    (0, b"II*\x00", "TIFF image"),
    (0, b"MM\x00*", "TIFF image"),
    (0, b"BM", "BMP image"),
    (8, b"WAVE", "WAV audio"),
    (0, b"ID3", "MP3 audio"),
    (0, b"OggS", "Ogg audio or video"),
    (0, b"fLaC", "FLAC audio"),
    (4, b"ftyp", "MP4 or QuickTime video"),
    (0, b"%PDF-", "PDF document"),
    (0, b"PAR1", "Parquet table"),
    (0, b"ARROW1", "Arrow (Feather) table"),
    (0, b"FEA1", "Feather table"),
    (0, b"ORC", "ORC table"),
    (0, b"Obj\x01", "Avro table"),
    (0, b"\x89HDF\r\n\x1a\n", "HDF5 file"),
    (0, b"CDF\x01", "NetCDF file"),
    (0, b"CDF\x02", "NetCDF file"),
    (0, b"\x93NUMPY", "NumPy array (.npy)"),
    (0, b"SQLite format 3\x00", "SQLite database"),
    (8, b"DUCK", "DuckDB database"),
    (0, b"PK\x03\x04", "ZIP archive (or .xlsx, .docx, .npz, .pt, …)"),
    (0, b"\x1f\x8b", "gzip archive"),
    (0, b"BZh", "bzip2 archive"),
    (0, b"\xfd7zXZ\x00", "xz archive"),
    (0, b"\x28\xb5\x2f\xfd", "Zstandard archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (257, b"ustar", "tar archive"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old Office document (.xls, .doc)"),
    (0, b"\x7fELF", "ELF program or library"),
    (0, b"MZ", "Windows program or library"),
    (0, b"\x00asm", "WebAssembly"),
    (0, b"\xca\xfe\xba\xbe", "Java class or macOS program"),
    (0, b"GGUF", "GGUF model"),
    (0, b"\x80\x02", "pickle"),
    (0, b"\x80\x03", "pickle"),
    (0, b"\x80\x04", "pickle"),
    (0, b"\x80\x05", "pickle"),
)


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file, its newlines as they are, without BOM, and how it is encoded."""

    text: str
    encoding: Encoding

    @property
    def can_write(self) -> bool:
        """Whether it may be written back: Latin-1 is only a guess."""
        return self.encoding != "latin-1"

    @property
    def newline(self) -> Newline:
        """How its lines end, most of them."""
        pairs = self.text.count("\r\n")
        feeds = self.text.count("\n") - pairs
        if pairs > feeds:
            return "\r\n"
        return "\r" if not pairs and not feeds and "\r" in self.text else "\n"

    @property
    def shown(self) -> str:
        """The text as it is shown: every line ends with a newline."""
        text = self.text.replace("\r\n", "\n")
        return text.replace("\r", "\n") if self.newline == "\r" else text

    @property
    def note(self) -> str:
        """What is odd about it, "" if nothing is."""
        ends = {"\r\n": "lines end with CRLF", "\r": "lines end with CR", "\n": ""}[self.newline]
        said = "" if self.encoding == "utf-8" else _SAID[self.encoding]
        return "; ".join(filter(None, [said, ends]))

    def encode(self) -> bytes:
        """Return its bytes. Raises UnicodeEncodeError on a lone surrogate."""
        bom = next((bom for bom, encoding in _BOMS if encoding == self.encoding), b"")
        name = "utf-8" if self.encoding == "utf-8-sig" else self.encoding
        return bom + self.text.encode(name)


def decode(data: bytes) -> FileText | None:
    """Return the text that `data` is, None if it is none.

    Law: what can be written back encodes to `data`.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom) and not data.startswith(codecs.BOM_UTF32_LE):
            name = "utf-8" if encoding == "utf-8-sig" else encoding
            return _decode(data[len(bom) :], name, encoding)
    if b"\x00" in data:
        return None
    found = _decode(data, "utf-8", "utf-8")
    if found is not None:
        return None if looks_binary(data[:SNIFFED_BYTES]) else found
    return None if looks_binary(data) else FileText(data.decode("latin-1"), "latin-1")


def _decode(data: bytes, name: str, encoding: Encoding) -> FileText | None:
    try:
        return FileText(data.decode(name), encoding)
    except UnicodeDecodeError:
        return None


def looks_binary(data: bytes) -> bool:
    """Whether the beginning of a file without BOM is no text."""
    if b"\x00" in data or find_kind(data).startswith("PDF"):
        return True
    return bool(data) and len(_ODD.findall(data)) > max(1, ODD_SHARE * len(data))


def has_wide_bom(data: bytes) -> bool:
    """Whether the text behind its BOM has more than a byte a character."""
    return data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def find_kind(data: bytes) -> str:
    """Return in words what a file's first bytes say it is, "" if they say nothing known."""
    for offset, magic, kind in _KINDS:
        if data[offset : offset + len(magic)] == magic:
            return kind
    return ""


def describe_bytes(data: bytes) -> str:
    """Return the kind of a file that is no text and its first bytes, for a sentence."""
    kind = find_kind(data) or "of no known kind"
    return f"{kind}; it begins with the bytes {data[:16].hex(' ')}"
