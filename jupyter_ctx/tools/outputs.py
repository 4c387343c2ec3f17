"""nbformat outputs as a model sees them: one text, and pictures.

Of each output the best form is taken once: a frame's plain form rather than its markup, a
picture as a picture, programs for a browser as one line. Everything else stays in the store.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.blocks import Image
from .charts import describe_chart, describe_svg
from .html_text import html_to_text
from .images import MAX_EDGE_PX, BadImageError, load_image
from .lines import LABEL_CHARS, shorten
from .media import describe_media
from .repeats import count_repeats
from .terminal import resolve
from .tracebacks import render_error
from .widgets import Finder, describe_widget, find_live, find_stored

MAX_IMAGES = 20
"""Pictures of one result; with more in a request the API allows 2,000 px a side only."""

MAX_IMAGES_BASE64 = 10_000_000
"""All pictures of one result together, in base64 characters; a request may have 32 MB."""

JSON_CHARS = 2_000
"""Longest JSON shown, in characters."""

EQUAL_OUTPUTS = 3
"""Of so many equal outputs in a row each is shown."""

HIDDEN_JSON_CHARS = 500
"""Longest JSON shown of a type we do not know, in characters."""

_PICTURES = ("image/png", "image/jpeg", "image/gif")
_WORDS = frozenset({"text/markdown", "text/html"})
_WIDGET = "application/vnd.jupyter.widget-view+json"
_BARE = re.compile(
    r"<(?:class ')?([\w.]+)'?(?: object)?(?: at 0x[0-9A-Fa-f]+)?>"
    r"|<(Figure) size [\d.]+x[\d.]+ with \d+ Axes>"
)
_DATA_URI = re.compile(
    r"data:([\w.+-]{1,100}/[\w.+-]{1,100})(?:;[\w.+-]{1,100}=[\w.+-]{1,100}){0,8};base64,"
    r"[A-Za-z0-9+/=_%-]*"
)
_MEDIA_BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/])(?:iVBORw0KGgo|/9j/4|R0lGOD|JVBERi0|UklGR|UEsDB)[A-Za-z0-9+/]{40,}={0,2}"
    r"(?:(?:\r?\n|\\n)[A-Za-z0-9+/]{64}(?:[A-Za-z0-9+/]{12})?(?![A-Za-z0-9+/=]))*"
)
_ANY_BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{500,}|(?:[A-Za-z0-9+/]{76}(?:\r?\n|\\n)){6,}[A-Za-z0-9+/]*"
    r"|(?:[A-Za-z0-9+/]{64}(?:\r?\n|\\n)){7,}[A-Za-z0-9+/]*)={0,2}"
)
_FRAME_TABLE = re.compile(r"<table\b[^<>]{0,300}\bdataframe\b", re.IGNORECASE)
_FRAME_SHAPE = re.compile(r"^([\d,]+) rows × ([\d,]+) columns$", re.MULTILINE)
_PLAIN_SHAPE = re.compile(r"\[\d+ rows x \d+ columns\]")
_MARKUP_MEDIA = re.compile(r"data:((?:image|audio|video)/[\w.+-]{1,40});base64,([A-Za-z0-9+/=\s]*)")
_MARKS = re.compile(r"\[(?:image|audio|video|frame)(?:: [^\]\n]{0,200})?\]")
_COLAB = "application/vnd.google.colaboratory.intrinsic+json"
_OLD_NAMES = {  # nbformat 2 and 3
    "text": "text/plain",
    "html": "text/html",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "latex": "text/latex",
    "json": "application/json",
    "javascript": "application/javascript",
    "pdf": "application/pdf",
}


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a model sees of some outputs.

    `text` is valid UTF-8 without control characters but newline and tab, and is empty only if
    there was no output. `mime_types` names every type the outputs had, sorted.
    """

    text: str
    images: tuple[Image, ...] = ()
    mime_types: tuple[str, ...] = ()


def render_outputs(
    outputs: Iterable[object],
    *,
    max_images: int = MAX_IMAGES,
    max_edge_px: int = MAX_EDGE_PX,
    widgets: object = None,
) -> Rendered:
    """Return `outputs` (nbformat, of any version) as the model sees them.

    At most `max_images` pictures, each at most `max_edge_px` on its long edge; a line of the text
    stands for every picture. A stream comes back character for character unless it holds control
    characters, base64, or long runs of equal lines, which are counted, as are equal outputs in a
    row. `widgets` is the notebook's `metadata.widgets`; without it the state of a widget is looked
    for in this process. Total: what is no valid output is named by type and size.
    """
    find = find_live if widgets is None else find_stored(widgets)
    renderer = _Renderer(max_images, max_edge_px, find)
    texts = (text for output in _merge_streams(outputs) if (text := renderer.render(output)))
    parts = list(_count_equal(texts))
    return Rendered(_join(parts), tuple(renderer.images), tuple(sorted(renderer.mime_types)))


def _count_equal(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts; of more than EQUAL_OUTPUTS equal ones in a row the first and a count."""
    for text, run in itertools.groupby(texts):
        times = sum(1 for _ in run)
        if times <= EQUAL_OUTPUTS:
            yield from [text] * times
        else:
            yield text
            yield f"[the same output {times - 1:,} more times]"


def summarise_outputs(outputs: Iterable[object]) -> str:
    """Return one short line about `outputs` without rendering them, "none" if there are none."""
    said: dict[str, int] = {}
    for output in _merge_streams(outputs):
        label, chars = _measure(output)
        said[label] = said.get(label, 0) + chars
    if not said:
        return "none"
    listed = [
        f"{label} ({chars:,} character{'s' if chars > 1 else ''})" if chars else label
        for label, chars in said.items()
    ]
    more = [f"… {len(listed) - 8} more kinds"] if len(listed) > 8 else []
    return ", ".join([*listed[:8], *more])


def _measure(output: object) -> tuple[str, int]:
    """Return what kind of output it is and how many characters of text, 0 if that says nothing."""
    if not isinstance(output, Mapping):
        return "unknown output", 0
    kind = output.get("output_type")
    if kind == "stream":
        return _stream_name(output), len(_text(output.get("text")))
    if kind in ("error", "pyerr"):
        return f"error {shorten(_text(output.get('ename')), 60)}", 0
    data = _bundle(output)
    rich = sorted(mime for mime in data if mime != "text/plain")
    label = " + ".join(shorten(mime, 60) for mime in (rich or ["text/plain"])[:4])
    if any(mime in data for mime in _PICTURES):
        return label, 0
    plain = _text(data.get("text/plain"))
    if plain and not _BARE.fullmatch(plain):
        return label, len(plain)
    return label, sum(len(_text(data[mime])) for mime in rich if mime.startswith("text/"))


class _Renderer:
    """Renders outputs in order; collects pictures and types on the way."""

    def __init__(self, max_images: int, max_edge_px: int, find: Finder = find_live) -> None:
        self._find = find
        self._max_images = max_images
        self._max_edge_px = max_edge_px
        self._base64_left = MAX_IMAGES_BASE64
        self.images: list[Image] = []
        self.mime_types: set[str] = set()

    def render(self, output: object) -> str:
        """Return the text of one output; "" only for a stream that holds nothing."""
        if not isinstance(output, Mapping):
            return f"[no output but {type(output).__name__}]"
        kind = output.get("output_type")
        if kind == "stream":
            return self._stream(output)
        if kind in ("error", "pyerr"):
            self.mime_types.add("text/plain")
            return strip_base64(
                render_error(
                    _text(output.get("ename")),
                    _text(output.get("evalue")),
                    _texts(output.get("traceback")),
                )
            )
        data = _bundle(output)
        self.mime_types.update(resolve(mime) for mime in data)
        if kind in ("display_data", "execute_result", "update_display_data", "pyout"):
            return self._bundle(data) or f"[{kind} without data]"
        if data:
            return self._bundle(data) or f"[{shorten(str(kind), 60)} without data]"
        return f"[output of unknown type {shorten(str(kind), 60)}, {_size_of(output)}]"

    def _stream(self, output: Mapping[str, object]) -> str:
        text = _text(output.get("text"))
        if not text:
            return ""
        self.mime_types.add("text/plain")
        return (
            strip_base64(count_repeats(resolve(text)))
            or f"[{_stream_name(output)}: only control characters]"
        )

    def _bundle(self, data: Mapping[str, object]) -> str:
        """Return the best text form of a MIME bundle, "" if it holds nothing."""
        plain = resolve(_text(data.get("text/plain")))
        latex = resolve(_text(data.get("text/latex"))).strip()
        markup = _text(data.get("text/html"))
        if latex and not markup and (_BARE.fullmatch(plain.strip()) or "\n" in plain.strip()):
            return strip_base64(latex)  # a formula drawn with letters says less
        if not latex:
            for mime in _PICTURES:
                if mime in data:
                    return self._picture(mime, _text(data[mime]), plain)
        for mime, value in data.items():
            if (said := describe_chart(mime, value, data)) is not None:
                return strip_base64(resolve(said))
        if _FRAME_TABLE.search(markup):
            return strip_base64(_frame_text(markup, plain, data.get(_COLAB)))
        if _WIDGET in data and not data.keys() & _WORDS and (said := self._widget(data[_WIDGET])):
            return strip_base64(said)
        bare = _BARE.fullmatch(plain.strip())
        if plain.strip() and not bare and _WIDGET not in data:
            return strip_base64(plain)
        if markup and (said := self._media_in(markup)):
            return said
        chosen = next((text for text in _rich_forms(data, plain) if text.strip()), "")
        return strip_base64(chosen or plain) or _named(data)

    def _widget(self, view: object) -> str:
        """Return what a widget shows now, "" if its state is not known."""
        model_id = view.get("model_id") if isinstance(view, Mapping) else None
        said = describe_widget(model_id, self._find) if isinstance(model_id, str) else ""
        return f"[widget: {resolve(said)}]" if said.strip() else ""

    def _media_in(self, markup: str) -> str:
        """Return the picture or the sound that markup consists of, "" if it says more in words."""
        found = _MARKUP_MEDIA.search(markup)
        if not found:
            return ""
        words = _MARKS.sub("", resolve(html_to_text(markup))).strip()
        if len(words) > LABEL_CHARS:
            return ""
        if found[1] in _PICTURES:
            return self._picture(found[1], found[2], words)
        said = describe_media(found[1], found[2])
        return f"{said} {words}".strip()

    def _picture(self, mime: str, data: str, plain: str) -> str:
        """Take one picture in and return the line that stands for it."""
        says_type = plain.rstrip().endswith(" object>") or " object at 0x" in plain
        label = f": {shorten(plain)}" if plain.strip() and len(plain) <= LABEL_CHARS else ""
        label = "" if says_type else label
        if len(self.images) >= self._max_images:
            return f"[{mime}, {_size_of(data)}, not shown: more than {self._max_images} pictures]"
        try:
            image, (width, height) = load_image(data, max_edge_px=self._max_edge_px)
        except BadImageError as error:
            return f"[{mime}, {_size_of(data)}, not shown: {error}{label}]"
        if len(image.data) > self._base64_left:
            return f"[{mime} {width}×{height}, not shown: the pictures before it take all the room]"
        self._base64_left -= len(image.data)
        self.images.append(image)
        scaled = (image.width_px, image.height_px) != (width, height)
        shown = f", shown at {image.width_px}×{image.height_px}" if scaled else ""
        return f"[{mime} {width}×{height}{shown}{label}]"


def strip_base64(text: str) -> str:
    """Return `text` with data URIs and base64 of pictures and documents named by size instead."""
    if "base64," in text:
        text = _DATA_URI.sub(lambda uri: f"[data:{uri[1]}, {len(uri[0]):,} characters]", text)
    text = _MEDIA_BASE64.sub(_name_base64, text)
    return _ANY_BASE64.sub(lambda run: _name_base64(run) if _is_base64(run[0]) else run[0], text)


def _name_base64(run: re.Match[str]) -> str:
    return f"[base64, {len(run[0]):,} characters]"


def _is_base64(text: str) -> bool:
    """Say whether letters are as mixed as in encoded bytes: a genome or a number is not."""
    head = text[:2_000]
    kinds = [str.isupper, str.islower, str.isdigit]
    return len(set(head)) >= 40 and all(any(map(is_kind, head)) for is_kind in kinds)


def _frame_text(markup: str, plain: str, colab: object) -> str:
    """Return a frame as text with its shape: the plain form, or rows where those are shorter.

    The plain form of a wide frame is broken into blocks and leaves columns out. Types are told
    where the output has them (polars' second row, Colab's summary); they are not guessed.
    """
    rows = _FRAME_SHAPE.sub(r"[\1 rows x \2 columns]", resolve(html_to_text(markup)))
    plain = "" if _BARE.fullmatch(plain.strip()) else plain.rstrip()
    broken = " \\\n" in plain or "\n..." in plain or " ... " in plain
    text = plain if plain and not broken and len(plain) <= len(rows) else rows
    said = _PLAIN_SHAPE.search(plain)
    known = said[0] if said else _count_cells(markup)
    shape = "" if " rows x " in text or "shape: (" in text else known
    return "\n".join(filter(None, [text or plain, shape, _colab_types(colab)]))


def _count_cells(markup: str) -> str:
    """Return the shape of a table that shows all its rows, "" if it is not to be seen."""
    body = markup.partition("<tbody")[2].partition("</tbody")[0]
    rows, cells = body.count("<tr"), body.count("<td")
    if not rows or cells % rows or "..." in body:
        return ""
    return f"[{rows:,} rows x {cells // rows:,} columns]"


def _colab_types(summary: object) -> str:
    """Return the column types that Colab adds to a frame, "" if there are none."""
    inner = summary.get("summary") if isinstance(summary, Mapping) else None
    try:
        fields = json.loads(inner)["fields"] if isinstance(inner, str) else []
        said = [f"{one['column']} {one['properties']['dtype']}" for one in fields[:200]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return f"types: {', '.join(said)}" if said else ""


def _rich_forms(data: Mapping[str, object], plain: str) -> Iterator[str]:
    """Yield the text forms of a bundle whose plain form says little, the best first."""
    for mime in ("text/markdown", "text/latex"):
        yield resolve(_text(data.get(mime)))
    markup = _text(data.get("text/html"))
    yield resolve(html_to_text(markup)) if markup else ""
    if "application/json" in data:
        yield _json_text(data["application/json"])
    if svg := _text(data.get("image/svg+xml")):
        label = "" if " at 0x" in plain or "object>" in plain else shorten(plain)
        yield describe_svg(resolve(svg), label)
    if _WIDGET in data:
        then = ", as first shown" if "[00:00" in plain else ""  # a bar whose state is lost
        yield f"[widget{then}: {shorten(plain)}]" if plain.strip() else "[widget]"
    for mime in sorted(data):
        if mime.startswith("text/") and mime not in ("text/plain", "text/html", "text/javascript"):
            yield resolve(_text(data[mime]))
    for mime in sorted(data):
        if mime.endswith("+json") and mime not in (_WIDGET, _COLAB):
            yield f"[{shorten(resolve(mime), 80)}: {_json_text(data[mime], HIDDEN_JSON_CHARS)}]"
        elif mime.startswith(("audio/", "video/")):
            yield describe_media(resolve(mime)[:80], _text(data[mime]))
    if any(mime != "text/plain" for mime in data):
        yield _named(data, plain)


def _named(data: Mapping[str, object], plain: str = "") -> str:
    """Return a bundle's types and sizes in one line."""
    bare = _BARE.fullmatch(plain.strip())
    said = [
        f"{shorten(resolve(mime), 80)}, {_size_of(value, mime)}"
        for mime, value in sorted(data.items())
        if mime != "text/plain" or len(data) == 1
    ]
    label = f"{bare[1] or bare[2]}: " if bare else ""
    more = f"; … {len(said) - 6} more" if len(said) > 6 else ""
    return f"[{label}{'; '.join(said[:6])}{more}]" if said else ""


def _json_text(value: object, chars: int = JSON_CHARS) -> str:
    text = resolve(value if isinstance(value, str) else _dump(value))
    if len(text) <= chars:
        return text
    return f"{text[:chars]}… [{len(text):,} characters of JSON in all]"


def _dump(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=lambda odd: f"<{type(odd).__name__}>")
    except (ValueError, TypeError, RecursionError) as error:
        return f"[JSON that cannot be written: {error}]"


def _size_of(value: object, mime: str = "") -> str:
    """Return the size of `value` in words; base64 is given in bytes of what it encodes."""
    text = value if isinstance(value, str) else _text(value) or _dump(value)
    is_text = mime.startswith("text/") or mime.endswith(("json", "javascript", "xml"))
    if mime and not is_text:
        return f"{len(text) * 3 // 4:,} bytes"
    return f"{len(text):,} characters"


def _bundle(output: Mapping[str, object]) -> dict[str, object]:
    """Return an output's MIME bundle; one of nbformat 2 or 3 keeps it in short names."""
    data = output.get("data")
    if isinstance(data, Mapping):
        return {str(mime) or "unnamed type": value for mime, value in data.items()}
    return {mime: output[name] for name, mime in _OLD_NAMES.items() if name in output}


def _merge_streams(outputs: Iterable[object]) -> Iterator[object]:
    """Yield the outputs, neighbouring pieces of one stream as one."""
    pieces: list[str] = []
    name = ""
    for output in outputs:
        is_stream = isinstance(output, Mapping) and output.get("output_type") == "stream"
        if is_stream and isinstance(output, Mapping):
            if pieces and _stream_name(output) != name:
                yield {"output_type": "stream", "name": name, "text": "".join(pieces)}
                pieces = []
            name = _stream_name(output)
            pieces.append(_text(output.get("text")))
            continue
        if pieces:
            yield {"output_type": "stream", "name": name, "text": "".join(pieces)}
            pieces = []
        yield output
    if pieces:
        yield {"output_type": "stream", "name": name, "text": "".join(pieces)}


def _stream_name(output: Mapping[str, object]) -> str:
    return "stderr" if "stderr" in (output.get("name"), output.get("stream")) else "stdout"


def _join(parts: Sequence[str]) -> str:
    """Return the parts, each beginning on a line of its own."""
    pieces: list[str] = []
    for part in parts:
        if pieces and not pieces[-1].endswith("\n"):
            pieces.append("\n")
        pieces.append(part)
    return "".join(pieces)


def _text(value: object) -> str:
    """Return a multi-line string of nbformat (a text or a list of texts), "" if it is none."""
    if isinstance(value, str):
        return value
    parts = _texts(value)
    # nbformat 2 kept the lines of a list without their ends, later ones keep them with them.
    ends = "\n" if len(parts) > 1 and not any("\n" in part for part in parts) else ""
    return ends.join(parts)


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return [part for part in value if isinstance(part, str)]
    return []
