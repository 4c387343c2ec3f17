"""Laws of `safe_markdown`, judged by parsing its output again as front ends do."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from jupyter_ctx.ipython.markdown import escape, fence, safe_markdown, with_code
from jupyter_ctx.ipython.mathtext import clean_math
from jupyter_ctx.ipython.plaintext import one_line, plain, shown_exactly

from .hostile import HOSTILE

SAFE_TAGS = {
    "p",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "li",
    "blockquote",
    "pre",
    "code",
    "em",
    "strong",
    "s",
    "a",
    "br",
    "hr",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
}
FRAGMENTS = [
    "`",
    "``",
    "```",
    "````",
    "~~~",
    "~~",
    "~",
    "$",
    "$$",
    "[",
    "]",
    "(",
    ")",
    "](",
    "![",
    "<",
    ">",
    "\\",
    "\\\\",
    "\\$",
    "{",
    "}",
    "*",
    "**",
    "_",
    "__",
    "!",
    "#",
    "=",
    "|",
    ":",
    "@",
    "%",
    '"',
    "'",
    "&",
    "a",
]
FRAGMENTS += ["\n", "\n\n", "\n> ", "\n- ", "\n  ", "1. ", "    ", "\t", " ", "b c", "---", "\\`"]
FRAGMENTS += ["<script>x</script>", "<img src=x onerror=y>", "</code>", "<!--", "-->", "]]>", "<?"]
FRAGMENTS += [
    "javascript:x",
    "http://a.b/",
    'https://x.y/$"z',
    "ftp://q.r",
    "www.x.y",
    "mailto:a@b.c",
]
FRAGMENTS += ["@@0@@", "@@1@@", "\\begin{a}", "\\end{a}", "\\\\(", "\\\\)", "~D", "~T"]
FRAGMENTS += ["&lt;", "&#60;", "&quot;", "&#96;", "&#10;", "&#36;", "&#92;", "[a]: javascript:x\n"]
FRAGMENTS += ["|a|b|\n|-|-|\n", "\\href{javascript:x}{y}", "- [ ] ", "\x00", "\u2028", "é"]

# JupyterLab 4.6, rendermime/latex.ts: what it takes for TeX is cut out before Markdown is parsed,
# and put back into the finished HTML with only & < > escaped.
_TEX_SPLIT = re.compile(
    r"(\$\$?|\\(?:begin|end)\{[a-z]*\*?\}|\\[{}$]|[{}]|(?:\n\s*)+|@@\d+@@|\\\\[()[\]])", re.I
)
_FENCES = re.compile(r"^(?P<f>`{3,}|(?:~T){3,})[^`\n]*\n([\s\S]*?)^(?P=f)`*$", re.M)
_SPANS = re.compile(r"(^|[^\\])(`+)([^\n]*?[^`\n])\2(?!`)", re.M)


def lab_html(markdown: str) -> str:
    """Return the HTML that JupyterLab makes of trusted Markdown, raw HTML allowed."""
    text, has_code = markdown, "`" in markdown or "~~~" in markdown
    if has_code:
        text = text.replace("~", "~T")
        for pattern in (_FENCES, _SPANS):
            text = pattern.sub(lambda match: match[0].replace("$", "~D"), text)

    def restored(part: str) -> str:
        return re.sub("~([TD])", lambda m: "~" if m[1] == "T" else "$", part) if has_code else part

    blocks, cut = _cut_tex(_TEX_SPLIT.split(text), restored)
    html = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    rendered = html.render(restored("".join(blocks)))
    return re.sub(r"@@(\d+)@@", lambda m: cut[int(m[1])] if int(m[1]) < len(cut) else "", rendered)


def _cut_tex(blocks: list[str], restored: Callable[[str], str]) -> tuple[list[str], list[str]]:
    cut: list[str] = []
    start: int | None = None
    last: int | None = None
    end: str | None = None
    depth = 0

    def close(start: int, upto: int) -> None:
        found = "".join(blocks[start : upto + 1])
        for old, new in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
            found = found.replace(old, new)
        blocks[start : upto + 1] = [f"@@{len(cut)}@@", *[""] * (upto - start)]
        cut.append(restored(found))

    for i in range(1, len(blocks), 2):
        block = blocks[i]
        if block.startswith("@"):
            blocks[i] = f"@@{len(cut)}@@"
            cut.append(block)
        elif start is not None:
            if block == end and depth:
                last = i
            elif block == end:
                close(start, i)
                start = last = end = None
            elif re.search(r"\n.*\n", block):
                if last is not None:
                    close(start, last)
                start = last = end = None
                depth = 0
            elif block == "{":
                depth += 1
            elif block == "}" and depth:
                depth -= 1
        elif block in ("$", "$$"):
            start, end, depth = i, block, 0
        elif block in ("\\\\(", "\\\\["):
            start, end, depth = i, "\\\\)" if block == "\\\\(" else "\\\\]", 0
        elif block[1:6] == "begin":
            start, end, depth = i, "\\end" + block[6:], 0
    if start is not None and last is not None:
        close(start, last)
    return blocks, cut


class _Judge(HTMLParser):
    """Collects every tag and attribute that could act."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[object] = []

    def handle_starttag(self, tag, attrs):
        if tag not in SAFE_TAGS:
            self.found.append(tag)
        for name, value in attrs:
            if (tag, name) == ("a", "href"):
                if not re.match(r"https?://|mailto:|#", value, re.I):
                    self.found.append(value)
            elif (tag, name) == ("code", "class"):
                if not re.fullmatch(r"language-[\w+#.-]*", value):
                    self.found.append(value)
            elif (tag, name) not in {("ol", "start"), ("th", "style"), ("td", "style")}:
                self.found.append((tag, name, value))

    def handle_comment(self, data):
        self.found.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def acting_parts(html: str) -> list[object]:
    judge = _Judge()
    judge.feed(html)
    judge.close()
    return judge.found


def rendered(markdown: str) -> str:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return str(parser.render(markdown))


def test_judge_sees_what_acts():
    """The judge itself finds fault with raw payloads, so that its silence means something."""
    caught = [text for text in HOSTILE if acting_parts(lab_html(text) + rendered(text))]

    assert len(caught) > len(HOSTILE) / 2
    assert acting_parts(lab_html("`a$b` and $x$ `c` <b>")) == ["b"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markup_is_inert(text):
    """No payload leaves a tag, an attribute or a link that acts, in either reading."""
    safe = safe_markdown(text)

    assert acting_parts(lab_html(safe)) == []
    assert acting_parts(rendered(safe)) == []


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join))
@example("\\\n<b>")
@settings(max_examples=400, deadline=None)
def test_any_markup_is_inert(text):
    """Whatever is put together from the pieces of markup, nothing acts; a second pass neither."""
    once = safe_markdown(text)

    assert acting_parts(lab_html(once)) == []
    assert acting_parts(rendered(once)) == []
    assert acting_parts(lab_html(safe_markdown(once))) == []


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join), st.integers(0, 200))
@settings(max_examples=200, deadline=None)
def test_a_growing_text_is_inert_at_every_length(text, cut):
    """A text cut anywhere, as streaming does, is as safe as the whole."""
    assert acting_parts(lab_html(safe_markdown(text[:cut]))) == []


ORDINARY = """\
# Churn by *cohort*

It is the join: 1,207 of 9,020 users changed **address**, so `email` drops them.

1. Run it:

   ```bash
   echo $HOME | tee a.txt
   ```

2. Then look

   - here
   - and there

> Quoted, with a [link](https://example.org/a_b?c=1&amp;d=2).

| name | share |
| --- | --: |
| `a` | 12 % |

With $a_1 \\lt b$ in it:

$$\\sum_{i} x_i$$

- [x] done
- [ ] open

___

```python
if a < b and c["<b>"]:
    print(f"{a}")
```"""


def test_ordinary_markdown_stays_as_it_is():
    """Headings, lists, tables, code, links, TeX and task lists come out as they went in."""
    assert safe_markdown(ORDINARY) == ORDINARY


def test_code_stays_verbatim():
    """Not one character of a fence's code or a code span is escaped."""
    code = "a < b && c > d  # <b>\n\tx = `y` \\begin{z} $q\n"

    assert f"```\n{code.rstrip()}\n```" in safe_markdown(f"```\n{code}```")
    assert safe_markdown("`a<b && *c*`") == "`a<b && *c*`"


def test_dollars_of_money_are_not_tex():
    """Two prices in one paragraph are not taken for a formula, by Lab's scan or by MathJax."""
    safe = safe_markdown("It costs $5 here and $6 there.")

    assert safe == "It costs \\\\$5 here and \\\\$6 there."
    assert safe_markdown(safe) == safe


def test_links_keep_to_three_kinds():
    """http(s), mailto and # stay links; any other becomes text with its target beside it."""
    text = "[a](http://x.y) [b](mailto:a@b.c) [c](#d) [e](data.csv) ![f](https://x.y/z.png)"

    assert safe_markdown(text) == (
        "[a](http://x.y) [b](mailto:a@b.c) [c](#d) e (data.csv) [f](https://x.y/z.png)"
    )


def test_open_fence_is_closed():
    """A fence that still grows is shown as code."""
    assert safe_markdown("so:\n```py\nx = 1") == "so:\n\n```py\nx = 1\n```"


def test_too_large_a_text_is_one_fence():
    """A text too large to parse is shown, whole, as one block of code."""
    text = "<b>`" * 50_000

    assert safe_markdown(text) == f"```text\n{text}\n```"


@pytest.mark.parametrize(
    ("source", "clean"),
    [
        ("a<b", "a\\lt b"),
        ("\\href{x}{y}", "\\text{href}{x}{y}"),
        ("a%comment\n+b", "a +b"),
        ("[a](b)", "[a] (b)"),
        ("{a", None),
        ("a`b", None),
        ("a\n\nb", None),
    ],
)
def test_tex_is_cleaned_or_refused(source, clean):
    """TeX loses what acts and stays on one line; what could upset a parser is no TeX."""
    assert clean_math(source) == clean


@given(st.text())
@example("<https://a.example/?q=1> and <me@a.example>, www.a.example")
def test_escaped_text_shows_exactly_itself(text):
    """Text escaped for one of our own lines renders as that text, white space apart; nothing acts.

    (A macro that does something in TeX gets a character of no width, by which it is none.)
    """
    html = rendered(f"x {escape(text)} y")

    class Texts(HTMLParser):
        seen = ""

        def handle_data(self, data):
            self.seen += data

    reader = Texts()
    reader.feed(html)
    reader.close()
    assert acting_parts(html) == []
    shown = " ".join(reader.seen.replace("\\$", "$").split())
    assert shown == " ".join(f"x {' '.join(plain(text).split())} y".replace("\\$", "$").split())


def test_code_helpers():
    """Inline code and fences hold any number of backticks."""
    assert with_code("run `/compact *x*`, *now*; ` alone") == escape(
        "run `/compact *x*`, *now*; ` alone"
    )
    assert with_code("run `/compact *x*`, *now*") == "run `/compact *x*`, \\*now\\*"
    assert fence("```", "py") == "````py\n```\n````"


def test_plain_text_controls_nothing():
    """Terminal sequences, NULs and lone surrogates are replaced, newlines and tabs are not."""
    assert plain("a\x1b]0;x\x07b\ud800\tc\r\nd") == "a\ufffd]0;x\ufffdb\ufffd\tc\nd"


def test_text_to_approve_hides_nothing():
    """Characters that reorder or hide text are spelled out."""
    assert shown_exactly("a\u202eb\u200bc\x1b") == "a\\u202eb\\u200bc\\u001b"


def test_one_line_marks_its_cut():
    """A long text is cut to the length asked for, mark included."""
    assert one_line("a\n" * 100, 10) == "a a a a a…"
