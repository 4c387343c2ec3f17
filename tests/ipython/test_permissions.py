"""Laws of the permission question."""

from __future__ import annotations

import unicodedata

import pytest

from jupyter_ctx.config import PermissionMode
from jupyter_ctx.core.blocks import ToolUse
from jupyter_ctx.core.ports import Allowed, Denied, ToolSpec
from jupyter_ctx.ipython.permissions import (
    HEADLESS_TEXT,
    PLAN_TEXT,
    UNCLEAR_TEXT,
    AskPermissions,
    CannotAskError,
    describe,
)
from jupyter_ctx.ipython.plaintext import shown_exactly

from .test_markdown import acting_parts, lab_html

RUN = ToolSpec("run_code", "", {}, reads_only=False, permission="run code")
EDIT = ToolSpec("edit_cell", "", {}, reads_only=False, permission="edit cells")
READ = ToolSpec("inspect", "", {}, reads_only=True)


class Person:
    """Gives answers in order; an exception is raised in place of one."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.questions: list[str] = []
        self.shown: list[str] = []

    def show(self, markdown, text):
        self.shown.append(text)

    def ask(self, question):
        self.questions.append(question)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Here:
    """Makes calls at once."""

    async def call(self, function):
        return function()


def deciding(person: Person, mode: PermissionMode = "ask") -> AskPermissions:
    return AskPermissions(Here(), lambda: mode, lambda: person)


def use(code: str = "1 + 1") -> ToolUse:
    return ToolUse("id", "run_code", {"code": code})


@pytest.mark.parametrize("answer", ["y", "Y", " yes ", "YES", "y\n"])
async def test_yes_allows_once(answer):
    """Yes, in any case and with spaces around, allows this call and asks again at the next."""
    person = Person(answer, answer)
    permissions = deciding(person)

    assert await permissions.check(use(), RUN) == Allowed()
    assert await permissions.check(use(), RUN) == Allowed()
    assert len(person.questions) == 2


@pytest.mark.parametrize("answer", ["a", "ALWAYS", " always "])
async def test_always_covers_its_scope_only(answer):
    """Always allows that kind of call for the session, no other kind, until it is revoked."""
    person = Person(answer, "n", "n")
    permissions = deciding(person)

    assert await permissions.check(use(), RUN) == Allowed()
    assert await permissions.check(use(), RUN) == Allowed()
    assert isinstance(await permissions.check(use(), EDIT), Denied)
    assert permissions.rules == ("run code",)
    permissions.revoke()
    assert isinstance(await permissions.check(use(), RUN), Denied)
    assert len(person.questions) == 3


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("n", "no reason given"),
        ("No", "no reason given"),
        ("n use polars", "use polars"),
        ("no, use Polars instead", "use Polars instead"),
        (" N: too slow ", "too slow"),
        ("n — later", "later"),
    ],
)
async def test_no_denies_with_the_reason(answer, reason):
    """No denies; what follows is the reason the model is told."""
    decision = await deciding(Person(answer)).check(use(), RUN)

    assert decision == Denied(f"Denied by the user: {reason}")


async def test_other_text_asks_again_three_times():
    """Any other text asks again, three times, then the call is denied."""
    person = Person("what?", "", "not now", "yes please", "y")

    assert await deciding(person).check(use(), RUN) == Denied(UNCLEAR_TEXT)
    assert len(person.questions) == 4
    late = Person("hm", "hm", "hm", "y")
    assert await deciding(late).check(use(), RUN) == Allowed()


async def test_the_question_names_the_scope():
    """The question says what always would cover."""
    person = Person("y")
    await deciding(person).check(use(), RUN)

    assert person.questions == [
        "Allow? [y]es once, [a]lways for this session (run code), [n]o (and why): "
    ]


async def test_the_whole_code_is_shown():
    """What is asked about is shown whole, with deceptive characters spelled out."""
    code = "\n".join(f"line_{n} = {n}" for n in range(2_000)) + "\nx = 'a\u202eb'"
    person = Person("y")
    await deciding(person).check(use(code), RUN)

    assert code.replace("\u202e", "\\u202e") in person.shown[0]


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\rx", "\\u000dx"),
        ("\x1b[8m", "\\u001b[8m"),
        ("\x85", "\\u0085"),
        ("\u3164", "\\u3164"),
        ("\u00a0", "\\u00a0"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
    ],
)
async def test_nothing_hides_in_what_is_asked_about(hidden, shown):
    """A character that shows nothing, or moves or hides others, is spelled out."""
    person = Person("y")
    await deciding(person).check(use(f"a = 1  # {hidden}"), RUN)

    assert person.shown[0].endswith(f"a = 1  # {shown}")


def test_every_invisible_character_is_spelled_out():
    """No control, separator or surrogate of Unicode stays as it is, nor a format that is unseen."""
    seen = "\t\n \u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"
    seen += "\U000110bd\U000110cd"  # the signs of Arabic, Syriac and Kaithi that span a number
    for char in map(chr, range(0x110000)):
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs") and char not in seen:
            assert char not in shown_exactly(f"a{char}b"), ascii(char)


async def test_other_arguments_are_shown_as_json():
    """A call that is not just code shows every argument."""
    person = Person("y")
    call = ToolUse("id", "edit_cell", {"cell_id": "a", "source": "x = 1"})
    await deciding(person).check(call, EDIT)

    assert '"cell_id": "a"' in person.shown[0]
    assert '"source": "x = 1"' in person.shown[0]


def test_a_tools_name_is_text():
    """What is asked for is named as text, whatever a tool is called."""
    hostile = ToolSpec("<b onclick=x> [a](http://b.invalid)", "", {}, reads_only=False)
    markdown, text = describe(use(), hostile)

    assert acting_parts(lab_html(markdown)) == []
    assert "<b onclick=x>" in text


async def test_headless_is_denied():
    """Where no one can be asked the call is denied; its line, not a second text, says so."""
    person = Person(CannotAskError("no stdin"))

    assert await deciding(person).check(use(), RUN) == Denied(HEADLESS_TEXT)
    assert not any(HEADLESS_TEXT in text for text in person.shown)
    assert HEADLESS_TEXT == ("Denied: no one can be asked here; set JUPYTER_CTX_PERMISSIONS=auto")


async def test_an_interrupt_goes_through():
    """An interrupt at the question is no answer: it stops the turn."""
    with pytest.raises(KeyboardInterrupt):
        await deciding(Person(KeyboardInterrupt())).check(use(), RUN)


@pytest.mark.parametrize(
    ("mode", "spec", "decision"),
    [
        ("auto", RUN, Allowed()),
        ("auto", EDIT, Allowed()),
        ("edits", EDIT, Allowed()),
        ("edits", RUN, Denied("Denied by the user: no reason given")),
        ("plan", RUN, Denied(PLAN_TEXT)),
        ("plan", EDIT, Denied(PLAN_TEXT)),
        ("plan", READ, Allowed()),
        ("ask", READ, Allowed()),
    ],
)
async def test_modes(mode, spec, decision):
    """Each mode lets through what it names, refuses what it forbids and asks about the rest."""
    assert await deciding(Person("n"), mode).check(use(), spec) == decision
