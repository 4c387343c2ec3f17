"""Laws of mentions: what is one, what is not, and that all other text is sent as it was typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.ipython.mentions import Mention, find_begun, find_code, parse


def said(text: str) -> list[str]:
    """Return the mentions of a text, as they are written."""
    return list(map(str, parse(text).mentions))


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("plot @df.", ["@df"]),
        ("@df, @df and (@other)?", ["@df", "@other"]),
        ("compare @cell:3,@cell:in-4; then @out:5 — @error!", ["@cell:3", "@cell:in-4", "@out:5"]),
        ("@df.columns", ["@df.columns"]),
        ("read @data/x.csv, @./y.csv and @2024/z_1.csv.", ["@data/x.csv", "@./y.csv"]),
        ('and @"my file.csv"', ['@"my file.csv"']),
        ("@größe @数据", ["@größe", "@数据"]),
        ("a matrix A @B", ["@B"]),
        ("first\n\n@df", ["@df"]),
    ],
)
def test_mentions_are_found(text: str, mentions: list[str]) -> None:
    """A mention begins a word; what ends the sentence is no part of it; each counts once."""
    assert said(text)[: len(mentions)] == mentions
    assert parse(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        "mail me: a.person@example.com, or <b@example.com>",
        "see https://medium.com/@user/post and @user@mastodon.social",
        "A @ B and 5 @ 3",
        "bought 5 @3.50, 7 @5% at @3pm",
        "`@df` and ``a ` @df`` are code",
        "```python\n@df\n```",
        "~~~\n@df\n\n@x\n~~~",
        "```\n@df",
        "@property\ndef f(self): ...",
        "@app.get(\n    '/x',\n)\n@cached\n# why\nasync def f(): ...",
        "    @staticmethod\n    def f(): ...",
        "@dataclass\nclass A: ...",
        "@lru_cache(maxsize=None)",
        "the keys '@id', \"@type\" and [@smith2020] of {@link}",
        "\\@foo a@b x.@y",
        "@ @. @- @..",
    ],
)
def test_code_and_addresses_have_no_mentions(text: str) -> None:
    """Addresses, quoted text, code and the decorators of a definition are left as they are."""
    assert parse(text).text == text
    assert said(text) == []


def test_a_decorator_without_a_definition_is_a_mention() -> None:
    """A line `@name` above anything else is a mention like any other."""
    assert said("@df\nWhat is in it?") == ["@df"]
    assert said("@df\n\n@property\ndef f(): ...\n\n@df2\nplot") == ["@df", "@df2"]


def test_code_ends() -> None:
    """Behind a span, a fence or a definition mentions count again; a lone backtick opens none."""
    assert said("`@a` @b") == ["@b"]
    assert said("```\n@a\n```\n@b") == ["@b"]
    assert said("````\n```\n@a\n````\n@b") == ["@b"]
    assert said("a ` b @c\n\n` @d") == ["@c", "@d"]


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("@@df", "@df"),
        ("a@@b.com", "a@b.com"),
        ("@@@@", "@@"),
        ("@@@df", "@@df"),
        ("`@@` @@", "`@@` @"),
        ("@@ -1,3 +1,4 @@ def f():\n-@@x", "@@ -1,3 +1,4 @@ def f():\n-@x"),
    ],
)
def test_two_are_one(typed: str, sent: str) -> None:
    """`@@` is a literal `@`, but in code and in the head of a diff's hunk."""
    assert parse(typed).text == sent
    assert said(typed) == []


@pytest.mark.parametrize(
    ("typed", "kind", "rest"),
    [
        ("@df", "name", "df"),
        ("@df.x", "name", "df.x"),
        ("@error", "error", "error"),
        ("@cell:3", "cell", "3"),
        ("@out:in-3", "out", "in-3"),
        ("@a/b", "file", "a/b"),
        ("@./b", "file", "./b"),
        ('@"error"', "file", "error"),
        ("@2024_x.csv", "file", "2024_x.csv"),
    ],
)
def test_kinds(typed: str, kind: str, rest: str) -> None:
    """The form of a mention says what is looked up."""
    (mention,) = parse(typed).mentions

    assert (mention.kind, mention.rest) == (kind, rest)


WORDS = st.lists(
    st.sampled_from(
        ["@", "@@", "@df", "a", " ", "\n", "`", "```", "~~~", "(", '"', "def f():", "cell:3", "."]
    ),
    max_size=40,
).map("".join)


@given(st.one_of(st.text(), WORDS))
def test_parsing_is_total(text: str) -> None:
    """Any text is parsed; without an `@@` it is sent as it was typed."""
    parsed = parse(text)

    assert len(parsed.text) <= len(text)
    if "@@" not in text:
        assert parsed.text == text
    for mention in parsed.mentions:
        assert str(mention) in text
        assert mention.rest


@given(st.one_of(st.text(), WORDS))
def test_code_is_ranges_in_order(text: str) -> None:
    """Where code stands is told as ranges that ascend, and lie within the text or its end."""
    last = 0
    for start, end in find_code(text):
        assert last <= start < end <= len(text) + 1
        last = end


@given(st.one_of(st.text(alphabet=st.characters(exclude_characters="@`~")), st.just("")))
def test_any_text_can_be_sent(text: str) -> None:
    """What `@@` is written for reaches the agent as it is meant, whatever stands around it."""
    assert parse(f"{text}@@{text}").text == f"{text}@{text}"


@pytest.mark.parametrize(
    ("text", "begun"),
    [
        ("@", ""),
        ("plot @d", "d"),
        ("(@cell:", "cell:"),
        ("@a/b.c", "a/b.c"),
        ('@"my f', '"my f'),
        ("a@b", None),
        ("plot @df ", None),
        ("`x` @d", "d"),
        ("```\n@d", None),
        ("@@d", None),
    ],
)
def test_a_mention_that_is_begun(text: str, begun: str | None) -> None:
    """Completion begins where a mention would."""
    assert find_begun(text) == begun


def test_a_mention_is_written_as_it_is_read() -> None:
    """The written form of a mention is read as the same mention."""
    for mention in (Mention("df"), Mention("cell:3"), Mention("my file", is_quoted=True)):
        assert parse(str(mention)).mentions == (mention,)
