"""TeX within Markdown: finding it, and taking out of it what could act.

JupyterLab lifts `$…$`, `$$…$$` and `\\begin{…}` out of the source before it parses Markdown, and
MathJax reads the finished page once more. So the same text must be harmless in three readings:
as TeX, as Markdown by a parser that knows no TeX, and as text that MathJax meets later.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

# Macros of MathJax and KaTeX that take a URL, an attribute, a style or raw text for an element,
# load code, or change what other macros of the page mean.
_MACROS = (
    "href|url|class|style|cssId|data|html[A-Za-z]*|includegraphics|require|unicode|mmlToken|"
    "bbox|texttip|mathtip|toggle|def|gdef|edef|xdef|let|futurelet|global|newcommand|renewcommand|"
    "providecommand|newenvironment|renewenvironment|DeclareMathOperator|DeclarePairedDelimiters?|"
    "DeclarePairedDelimitersX|DeclarePairedDelimitersXPP|Newextarrow|mathtoolsset|newtagform|"
    "renewtagform|usetagform|definecolor|label|ref|eqref|csname|char"
)
ACTIVE_MACRO = re.compile(rf"\\({_MACROS})(?![A-Za-z])")
# What JupyterLab's own scan takes for an end of TeX or for its place holders, in code too.
TEX_IN_CODE = re.compile(r"\\(?:begin|end)\{|\\\\[()\[\]]|@@\d", re.IGNORECASE)

_MOST_CHARS = 4_000
_INLINE = re.compile(r"\$(?![\s$])((?:[^$\\]|\\.){1,1000}?)(?<!\s)\$(?![\d$])", re.DOTALL)
_DISPLAY = re.compile(r"\$\$((?:[^$\\]|\\.){1,4000}?)\$\$(?!\$)", re.DOTALL)
_ENVIRONMENT = re.compile(r"(\\begin\{([A-Za-z]{1,20}\*?)\}.{0,4000}?\\end\{\2\})", re.DOTALL)
_COMMENT = re.compile(r"(?<!\\)%[^\n]*")


def clean_math(source: str) -> str | None:
    """Return TeX on one line in which nothing acts, None if it is better shown as text.

    Text it is if it holds a backtick, a blank line, JupyterLab's place holder or unbalanced braces.
    """
    if len(source) > _MOST_CHARS or "`" in source or "@@" in source:
        return None
    if re.search(r"\n\s*\n", source) or not _is_balanced(source):
        return None
    line = " ".join(_COMMENT.sub("", source).split())
    if not line or "$" in line.replace("\\$", ""):
        return None
    line = line.replace("<", "\\lt ")
    line = re.sub(r"\](?=[(\[:])", "] ", line)
    line = re.sub(r"&(?=[#A-Za-z])", "& ", line)
    line = line.replace("://", ": //").replace("www.", "www .")
    line = ACTIVE_MACRO.sub(lambda match: f"\\text{{{match[1]}}}", line)
    return line + "{}" if line.endswith("\\") else line


def _is_balanced(source: str) -> bool:
    depth = 0
    for char in re.sub(r"\\.", "", source, flags=re.DOTALL):
        depth += (char == "{") - (char == "}")
        if depth < 0:
            return False
    return depth == 0


def add_math(parser: MarkdownIt) -> None:
    """Teach `parser` the tokens `math_inline` and `math_block`; their content is clean TeX.

    A `math_inline` has the markup `$` or `$$`.
    """
    add_dollar(parser)
    parser.inline.ruler.before("escape", "math_inline", _read_inline)
    parser.block.ruler.before(
        "fence",
        "math_block",
        _read_block,
        {"alt": ["paragraph", "reference", "blockquote", "list"]},
    )


def add_dollar(parser: MarkdownIt) -> None:
    """Teach `parser` that two backslashes before a dollar are one dollar.

    That is how a dollar is written which MathJax must not pair.
    """
    parser.inline.ruler.before("escape", "dollar", _read_dollar)


def _read_dollar(state: StateInline, silent: bool) -> bool:
    if not state.src.startswith("\\\\$", state.pos):
        return False
    if not silent:
        state.pending += "$"
    state.pos += 3
    return True


def _read_inline(state: StateInline, silent: bool) -> bool:
    src, pos = state.src, state.pos
    if src[pos] == "$":
        markup = "$$" if src.startswith("$$", pos) else "$"
        found = (_DISPLAY if markup == "$$" else _INLINE).match(src, pos)
    elif src.startswith("\\begin{", pos):
        markup, found = "$$", _ENVIRONMENT.match(src, pos)
    else:
        return False
    content = clean_math(found[1]) if found else None
    if found is None or content is None:
        return False
    if not silent:
        token = state.push("math_inline", "", 0)
        token.content, token.markup = content, markup
    state.pos = found.end()
    return True


def _read_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if state.is_code_block(start):
        return False
    first = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    pattern = _DISPLAY if first.startswith("$$") else _ENVIRONMENT
    if not first.startswith(("$$", "\\begin{")):
        return False
    for last in range(start, min(end, start + 200)):
        if state.isEmpty(last) or (last > start and state.sCount[last] < state.blkIndent):
            return False
        if "$$" not in state.src[state.bMarks[last] : state.eMarks[last]].rstrip()[-2:] and (
            "\\end{" not in state.src[state.bMarks[last] : state.eMarks[last]]
        ):
            continue
        text = state.getLines(start, last + 1, state.blkIndent, False).strip()
        found = pattern.fullmatch(text)
        content = clean_math(found[1]) if found else None
        if content is None:
            continue
        if not silent:
            token = state.push("math_block", "", 0)
            token.content, token.map = content, [start, last + 1]
        state.line = last + 1
        return True
    return False
