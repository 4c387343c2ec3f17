"""Markdown of a model made safe to publish as `text/markdown`.

JupyterLab trusts the Markdown of a cell that was just run: raw HTML acts. So nothing of the source
is passed on. It is parsed, and written anew from the tree in one canonical form that leaves no room
for parsers to differ: every `<` of a text is an entity, code stands in fences longer than any run
in it, links have checked and percent-encoded targets and no titles, images are links, TeX is on one
line. A blank line stands around every fence, which ends whatever JupyterLab's search for TeX, which
runs before its parser, may have begun in the code.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from .mathtext import ACTIVE_MACRO, TEX_IN_CODE, add_math
from .plaintext import plain

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

# Beyond these, parsing costs too much (some forms take quadratic time); the text becomes one fence.
_MOST_CHARS = 100_000
_MOST_BRACKETS = 5_000
_DEEPEST = 60

_SAFE_TARGET = re.compile(r"(?:https?://[^/\s]|mailto:[^\s]|#)", re.IGNORECASE)
# An address that may stand as it is: nothing in it needs escaping, and white space follows.
_PLAIN_URL = re.compile(r"https?://[\w./?=#%+,-]*[\w/](?=[.,;:!?)]*(?: |$))", re.ASCII | re.I)
_BARE_URL = re.compile(r"https?://[^\s<>\"'`\\{}|^\[\]]+[^\s<>\"'`\\{}|^\[\]().,;:!?*_~$]", re.I)
# What is escaped in prose. `{` after \\begin and \\end would open TeX, `://` and `www.` a link.
_TO_ESCAPE = re.compile(
    r"[<`$\\_!&|*~\[\]\x00]|(?<=\\begin)\{|(?<=\\end)\{|:(?=//)|(?<=www)\.", re.IGNORECASE
)
_BLANK = "\x00"  # a line that stays blank in a block quote too

# ("text", s), ("code", s), ("math", s), ("raw", s): Markdown of ours, ("soft", ""), ("hard", "")
Piece: TypeAlias = tuple[str, str]


def safe_markdown(text: str) -> str:
    """Return Markdown that shows `text` and in which nothing acts.

    Total. Raw HTML is shown as text; links are http(s), mailto or `#`, others become plain text;
    images become links; an open fence is closed, so a text may be shown while it grows. Text too
    large to parse becomes one fenced block.
    """
    text = plain(text)
    if len(text) > _MOST_CHARS or text.count("[") > _MOST_BRACKETS:
        return _finish(_fence(text, "text"))
    tokens = _parser().parse(text)
    if any(token.level >= _DEEPEST - 2 for token in tokens):
        return _finish(_fence(text, "text"))
    from markdown_it.tree import SyntaxTreeNode

    return _finish(_blocks(SyntaxTreeNode(tokens).children))


def escape(text: str) -> str:
    """Return `text` on one line as Markdown that shows exactly it, for use within a line."""
    return _write([("text", " ".join(plain(text).split()))])


def with_code(text: str) -> str:
    """Return `text` on one line, escaped but for what stands between backticks: that is code."""
    parts = " ".join(plain(text).split()).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return _write(
        _merged(
            ("code" if at % 2 and not TEX_IN_CODE.search(part) else "text", part)
            for at, part in enumerate(parts)
        )
    )


def fence(text: str, info: str = "") -> str:
    """Return `text` as a fenced code block."""
    return _finish(_fence(plain(text), info))


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    parser.enable(["table", "strikethrough"]).disable(["html_block", "html_inline"])
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # decided when written
    add_math(parser)
    return parser


def _finish(lines: Iterable[str]) -> str:
    """Return `lines` as text, runs of blank lines as one, none at the ends."""
    kept: list[str] = []
    for line in lines:
        line = "" if line == _BLANK else line.rstrip("\n")
        if line or (kept and kept[-1]):
            kept.append(line)
    return "\n".join(kept).strip("\n")


# Blocks ---------------------------------------------------------------------------------------


def _blocks(nodes: Sequence[SyntaxTreeNode], tight: bool = False) -> list[str]:
    """Return the lines of `nodes`, a blank line between them unless `tight` allows none."""
    lines: list[str] = []
    for node in nodes:
        if lines and not (tight and _may_follow(node)):
            lines.append("")
        lines.extend(_block(node))
    return lines


def _may_follow(node: SyntaxTreeNode) -> bool:
    """Whether `node` may stand right below a paragraph and still be what it is."""
    return node.type == "bullet_list" or (
        node.type == "ordered_list" and int(node.attrs.get("start", 1)) == 1
    )


def _block(node: SyntaxTreeNode) -> list[str]:
    match node.type:
        case "paragraph":
            above = node.parent
            item = above is not None and above.type == "list_item" and above.children[0] is node
            return _write(_inline(node), item=item).split("\n")
        case "heading":
            text = _write(_inline(node), heading=True)
            return [f"{'#' * int(node.tag[1])} {text}".rstrip()]
        case "bullet_list" | "ordered_list":
            return _list(node)
        case "blockquote":
            return _quote(_blocks(node.children))
        case "fence" | "code_block":
            return _fence(node.content, node.info)
        case "table":
            return _table(node)
        case "hr":
            return ["___"]
        case "math_block":
            return [f"$${node.content}$$"]
        case _:
            return _write([("text", node.content)]).split("\n")


def _quote(inner: list[str]) -> list[str]:
    """Return the lines as a block quote; beside a blank line that must stay blank, no `>` alone."""
    lines: list[str] = []
    for index, line in enumerate(inner):
        beside = _BLANK in inner[max(0, index - 1) : index + 2]
        lines.append(_BLANK if (not line and beside) or line == _BLANK else f"> {line}".rstrip())
    return lines or [">"]


def _fence(content: str, info: str) -> list[str]:
    word = re.match(r"[\w+#.-]{0,40}", info.strip(), re.ASCII)
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    ticks = "`" * max(3, longest + 1)
    body = content.removesuffix("\n").split("\n")
    return [_BLANK, ticks + (word[0] if word else ""), *body, ticks, _BLANK]


def _list(node: SyntaxTreeNode) -> list[str]:
    lines: list[str] = []
    number = int(node.attrs.get("start", 1))
    for item in node.children:
        tight = all(child.hidden for child in item.children if child.type == "paragraph")
        mark = f"{number}{item.markup}" if node.type == "ordered_list" else item.markup
        body = _blocks(item.children, tight)
        while body and body[0] == _BLANK:
            body = body[1:]
        lines.append(f"{mark} {body[0]}".rstrip() if body else mark)
        pad = " " * (len(mark) + 1)
        lines.extend(pad + line if line and line != _BLANK else line for line in body[1:])
        if not tight:
            lines.append("")
        number += 1
    return lines


def _table(node: SyntaxTreeNode) -> list[str]:
    rows = [row for part in node.children for row in part.children]
    lines: list[str] = []
    for row in rows:
        cells = [_write(_inline(cell), table=True) for cell in row.children]
        lines.append(f"| {' | '.join(cells)} |")
        if len(lines) == 1:
            marks = [_align(str(cell.attrs.get("style", ""))) for cell in row.children]
            lines.append(f"| {' | '.join(marks)} |")
    return lines


def _align(style: str) -> str:
    left, right = ("left" in style or "center" in style), ("right" in style or "center" in style)
    return f"{':' if left else '-'}-{':' if right else '-'}"


# Lines ----------------------------------------------------------------------------------------


def _inline(node: SyntaxTreeNode) -> list[Piece]:
    """Return what stands in a paragraph, heading or cell; neighbouring texts are one."""
    children = (c.children if c.type == "inline" else [c] for c in node.children)
    return _merged(piece for nodes in children for piece in _pieces(nodes, frozenset()))


def _merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the pieces with neighbouring texts as one: a macro's name could be split over two."""
    merged: list[Piece] = []
    for kind, value in pieces:
        if kind == "text" and merged and merged[-1][0] == "text":
            merged[-1] = ("text", merged[-1][1] + value)
        else:
            merged.append((kind, value))
    return merged


def _pieces(nodes: Iterable[SyntaxTreeNode], within: frozenset[str]) -> Iterator[Piece]:
    for node in nodes:
        match node.type:
            case "softbreak":
                yield ("soft", "")
            case "hardbreak":
                yield ("hard", "")
            case "code_inline":
                hidden = TEX_IN_CODE.search(node.content)
                yield ("text" if hidden else "code", node.content)
            case "math_inline":
                yield ("math", f"{node.markup}{node.content}{node.markup}")
            case "em" | "strong" | "s" if node.type in within:
                yield from _pieces(node.children, within)
            case "em" | "strong" | "s":
                yield ("raw", node.markup)
                yield from _pieces(node.children, within | {node.type})
                yield ("raw", node.markup)
            case "link":
                yield from _link(node, str(node.attrs.get("href", "")), within)
            case "image":
                yield from _link(node, str(node.attrs.get("src", "")), within)
            case _:
                yield ("text", node.content)


def _link(node: SyntaxTreeNode, target: str, within: frozenset[str]) -> Iterator[Piece]:
    """Yield a link, or its label as text if the target is none of ours."""
    target = re.sub(r"[\x00-\x20\x7f]", "", target)
    label = list(_pieces(node.children, within | {"link"}))
    if not any(value.strip() for kind, value in label if kind != "raw"):
        label = [("text", "image" if node.type == "image" else target[:80] or "link")]
    if "link" in within:
        yield from label
    elif _SAFE_TARGET.match(target):
        yield ("raw", "[")
        yield from label
        yield ("raw", f"]({encode_target(target)})")
    else:
        yield from label
        if target and ("text", target) not in label:
            yield ("text", f" ({target[:80]}{'…' if len(target) > 80 else ''})")


def encode_target(target: str) -> str:
    """Return a link target of harmless characters only; `&` is written as an entity."""
    from urllib.parse import quote

    encoded = quote(target, safe="-._~:/?#@&+,;=%").replace("@@", "%40%40")
    return encoded.replace("&", "&amp;")


def _write(
    pieces: Sequence[Piece], *, table: bool = False, heading: bool = False, item: bool = False
) -> str:
    """Return the pieces as Markdown; in a table or heading as one line."""
    one_line = table or heading
    texts = "".join(value for kind, value in pieces if kind == "text")
    dollars = texts.count("$") + 2 * sum(kind == "math" for kind, _ in pieces)
    dollar = "\\\\$" if dollars > 1 else "\\$"
    out, in_link = "", False
    for index, (kind, value) in enumerate(pieces):
        at_start = not one_line and (not out or out.endswith("\n"))
        match kind:
            case "soft" | "hard" if one_line:
                out += " "
            case "soft":
                out += "\n"
            case "hard":
                out += "\\\n" if out and not at_start else ""
            case "code":
                out += (" " if out.endswith("`") else "") + _code(value, table)
            case "math":
                out += value.replace("\\|", "\\Vert ").replace("|", "\\vert ") if table else value
            case "raw":
                out += value
                in_link = value == "[" or (in_link and not value.startswith("]"))
            case _:
                text = re.sub(r"\s+", " ", value)
                text = text.lstrip(" ") if at_start or not out else text
                box = re.match(r"\[[ xX]\] ", text) if item and not out else None
                out, text = (box[0], text[4:]) if box else (out, text)
                ends = index + 1 == len(pieces) or pieces[index + 1][0] in ("soft", "hard")
                prose = _text(text if ends else text + "\x00", dollar, table, in_link)
                out += _line_start(prose) if at_start else prose
    out = re.sub(r"#(?=#*\s*$)", "\\#", out) if heading else out
    return re.sub(r" +$", "", out, flags=re.MULTILINE)


def _code(content: str, table: bool) -> str:
    content = re.sub(r"\s", " ", content)
    if not content:
        return ""
    runs = {len(run) for run in re.findall(r"`+", content)}
    ticks = "`" * next(n for n in range(1, len(runs) + 2) if n not in runs)
    padded = content.startswith(("`", " ")) or content.endswith(("`", " "))
    inner = f" {content} " if padded and content.strip() else content
    return ticks + (inner.replace("|", "\\|") if table else inner) + ticks


def _text(text: str, dollar: str, table: bool, in_link: bool) -> str:
    """Return prose as Markdown; an address becomes a link, unless it may stand as it is.

    `text` ends in NUL if something other than a line's end follows. JupyterLab's parser takes what
    follows an address, TeX's place holder too, into the link it makes of it; so no address touches
    anything.
    """
    out, done = "", 0
    for match in () if in_link else _BARE_URL.finditer(text):
        out += _prose(text[done : match.start()] + "\x00", dollar, table)
        if _PLAIN_URL.match(text, match.start()) and text[: match.start()][-1:] in ("", " ", "("):
            out += match[0]
        else:
            out += f"[{_prose(match[0], dollar, table)}]({encode_target(match[0])})"
        done = match.end()
    return out + _prose(text[done:], dollar, table)


def _prose(text: str, dollar: str, table: bool) -> str:
    text = ACTIVE_MACRO.sub(lambda match: f"\\\u200b{match[1]}", text)

    def escaped(match: re.Match[str]) -> str:
        char = match[0]
        after = text[match.end() : match.end() + 1]
        match char:
            case "<":
                return "&lt;"
            case "$":
                return dollar
            case "\\" if after.isalnum() or after == "\u200b":
                return char
            case "_" if after.isalnum() and text[match.start() - 1 : match.start()].isalnum():
                return char
            case "!" if after not in ("[", "\x00"):
                return char
            case "&" if not re.match(r"&#?\w+;", text[match.start() : match.start() + 40]):
                return char
            case "|" if not table:
                return char
            case "`" | "\\" | "!" | "{" | ":" | ".":
                return f"&#{ord(char)};"
            case "&":
                return "&amp;"
            case "\x00":
                return ""
            case _:
                return "\\" + char

    return _TO_ESCAPE.sub(escaped, text)


def _line_start(line: str) -> str:
    """Return the line with what would open a block at its start escaped."""
    if match := re.match(r"(\d{1,9})([.)])(?=\s|$)", line):
        return f"{match[1]}\\{line[match.end(1) :]}"
    if re.match(r"#|>|[-+](?:\s|$)|[-+=:|][-+=:|\s]*$", line):
        return "\\" + line
    return line
