"""Laws of the permission question."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.config import PermissionMode
from jupyter_ctx.core.blocks import ToolUse
from jupyter_ctx.core.entries import Edit, EditEntry, Entry
from jupyter_ctx.core.ports import Allowed, Denied, NotebookCell, NotebookState, ToolSpec
from jupyter_ctx.errors import PromptError, StoreError
from jupyter_ctx.ipython.asked import DIFF_LINES, ask_plainly, unified
from jupyter_ctx.ipython.permissions import (
    HEADLESS_FILE_TEXT,
    HEADLESS_TEXT,
    PLAN_TEXT,
    UNCLEAR_TEXT,
    AskPermissions,
    CannotAskError,
)
from jupyter_ctx.ipython.plaintext import shown_exactly
from jupyter_ctx.ipython.rules import rules_from_json
from jupyter_ctx.ipython.targets import Targets
from jupyter_ctx.store.sessions import SessionStore
from jupyter_ctx.tools.project import Project
from jupyter_ctx.tools.seen import Seen, digest_of

from .test_markdown import acting_parts, lab_html

RUN = ToolSpec("run_code", "", {}, reads_only=False, permission="run code")
EDIT = ToolSpec("edit_cell", "", {}, reads_only=False, permission="edit cells")
DELETE = ToolSpec("delete_cell", "", {}, reads_only=False, permission="delete cells")
MOVE = ToolSpec("move_cell", "", {}, reads_only=False, permission="move cells")
INSERT = ToolSpec("insert_cell", "", {}, reads_only=False, permission="insert cells")
CELL = ToolSpec("run_cell", "", {}, reads_only=False, permission="run cells")
WRITE = ToolSpec("write_file", "", {}, reads_only=False, permission="edit files")
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


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\u202egnp.py", "a\\u202egnp.py"),
        ("a\u200b.py", "a\\u200b.py"),
        ("x  y.py", "x\\u0020\\u0020y.py"),
        ("d/" * 150 + "end.py", "d/" * 150 + "end.py"),
    ],
)
async def test_the_name_of_what_is_asked_about_is_whole(tmp_path: Path, name: str, shown: str):
    """A file's name and a cell's id are shown whole, with nothing in them that hides."""
    person, cells = Person("n", "n", "n"), Shown()
    cells.cells[name] = "x = 1"
    permissions = looking(person, shown=cells, project=Project(str(tmp_path)))
    await permissions.check(ToolUse("id", "write_file", {"path": name, "text": "x"}), WRITE)
    await permissions.check(on_cell(CELL, name), CELL)
    await permissions.check(on_cell(MOVE, "mine", after=name), MOVE)

    assert f"create {shown}:" in person.shown[0]
    assert f"run cell {shown} (" in person.shown[1]
    assert f"below cell {shown}:" in person.shown[2]


async def test_a_uuid_is_shown_by_its_beginning_as_far_as_no_other_begins_so():
    """The id of 36 characters that front ends give is short in the question, and means one cell.

    A rule is kept for the whole id: it covers no other cell, and is told whole once it was stored.
    """
    tail = "-0000-4000-8000-000000000000"
    one, like, other = f"1a2b3c4d{tail}", f"1a2b3c4d{tail[:-1]}1", f"5e6f7a8b{tail}"
    shown, store = Shown(), Memory()
    shown.cells.update({one: "x = 1", other: "y = 2"})
    person = Person("a", "n", "n")
    permissions = looking(person, shown=shown, store=store)

    assert await allows(permissions, EDIT, on_cell(EDIT, one, source="x = 2"))
    assert "edit cell 1a2b3c4d… (" in person.shown[0]
    assert "this session (edit cell 1a2b3c4d…;" in person.questions[0]
    assert permissions.rules == ("edit cell 1a2b3c4d…",)
    shown.cells[like] = "z = 3"
    assert not await allows(permissions, EDIT, on_cell(EDIT, like, source="z = 4"))
    assert f"edit cell {like} (" in person.shown[1]
    await permissions.check(on_cell(MOVE, other, after=one), MOVE)
    assert f"move cell 5e6f7a8b… (5 of 6, not the agent's) below cell {one}:" in person.shown[2]
    assert looking(Person(), shown=shown, store=store).rules == (f"edit cell {one}",)


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
    asked = ask_plainly(use(), hostile)

    assert acting_parts(lab_html(asked.markdown)) == []
    assert "<b onclick=x>" in asked.plain


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
        ("auto", DELETE, Allowed()),
        ("edits", EDIT, Allowed()),
        ("edits", INSERT, Allowed()),
        ("edits", MOVE, Allowed()),
        ("edits", RUN, Denied("Denied by the user: no reason given")),
        ("edits", CELL, Denied("Denied by the user: no reason given")),
        ("edits", DELETE, Denied("Denied by the user: no reason given")),
        ("plan", RUN, Denied(PLAN_TEXT)),
        ("plan", EDIT, Denied(PLAN_TEXT)),
        ("plan", READ, Allowed()),
        ("ask", READ, Allowed()),
    ],
)
async def test_modes(mode, spec, decision):
    """Each mode lets through what it names, refuses what it forbids and asks about the rest."""
    assert await deciding(Person("n"), mode).check(use(), spec) == decision


# Cells and files --------------------------------------------------------------------------------


class Shown:
    """A notebook whose cells stand as they are put; two were made by the agent."""

    def __init__(self) -> None:
        self.cells = {"mine": "a = 1\nb = 2", "bot": "c = 3", "bot2": "d = 4"}
        made = [Edit("cell", id, None, {"source": self.cells[id]}) for id in ("bot", "bot2")]
        self.entries: list[Entry] = [
            EditEntry(0.0, n, 1, edit) for n, edit in enumerate(made, start=1)
        ]

    async def load(self, outputs_of: Any = ()) -> NotebookState:
        cells = tuple(NotebookCell(id, "code", source) for id, source in self.cells.items())
        return NotebookState(cells, "front end", can_edit=True)

    async def apply(self, change: object) -> Any:
        raise AssertionError("Nothing is changed here.")


class Memory:
    """Keeps rules; None: nothing was saved."""

    def __init__(self, stored: object = None) -> None:
        self.stored = stored

    def load_rules(self) -> object:
        if isinstance(self.stored, BaseException):
            raise self.stored
        return self.stored

    def save_rules(self, rules: object) -> None:
        if isinstance(self.stored, BaseException):
            raise self.stored
        self.stored = json.loads(json.dumps(rules))


def looking(
    person: Person,
    mode: PermissionMode = "ask",
    shown: Shown | None = None,
    project: Project | None = None,
    store: Memory | None = None,
) -> AskPermissions:
    """Return permissions that see a notebook and a project."""
    shown = shown or Shown()
    permissions = deciding(person, mode)
    targets = Targets(shown, project, lambda: shown.entries)
    assert permissions.take("s", store or Memory(), targets) == []
    return permissions


def on_cell(spec: ToolSpec, cell_id: str, **more: object) -> ToolUse:
    return ToolUse("id", spec.name, {"cell_id": cell_id, **more})


async def allows(permissions: AskPermissions, spec: ToolSpec, call: ToolUse) -> bool:
    return await permissions.check(call, spec) == Allowed()


async def test_an_edit_is_shown_as_a_diff():
    """The question for an edit shows the whole diff, the cell, its place and whose it is."""
    person = Person("n")
    await looking(person).check(on_cell(EDIT, "mine", source="a = 1\nb = 5"), EDIT)

    assert person.shown == [
        "The agent asks to edit cell mine (1 of 3, not the agent's):\n\n"
        "@@ -1,2 +1,2 @@\n a = 1\n-b = 2\n+b = 5"
    ]
    assert "edit cell mine; `a any`: edit any cell)" in person.questions[0]


@pytest.mark.parametrize(
    ("spec", "more", "title", "body"),
    [
        (DELETE, {}, "delete cell bot (2 of 3, made by the agent):", "c = 3"),
        (CELL, {}, "run cell bot (2 of 3, made by the agent):", "c = 3"),
        (MOVE, {}, "move cell bot (2 of 3, made by the agent) to the top:", "c = 3"),
        (MOVE, {"after": "mine"}, "made by the agent) below cell mine:", "c = 3"),
        (MOVE, {"after": "zz"}, "below cell zz, which is not there:", "c = 3"),
        (EDIT, {"source": 7}, "The agent asks to edit cells:", '"source": 7'),
        (DELETE, {"more": 1}, "The agent asks to delete cells:", '"more": 1'),
    ],
)
async def test_the_source_is_shown(spec, more, title, body):
    """A deletion, a run and a move show the cell's source; what is off the schema its arguments."""
    person = Person("n")
    await looking(person).check(on_cell(spec, "bot", **more), spec)

    assert title in person.shown[0]
    assert body in person.shown[0]


async def test_an_insert_shows_source_and_place():
    """The question for a new cell shows its whole source and where it will stand."""
    person = Person("n", "n")
    permissions = looking(person)
    await permissions.check(ToolUse("id", "insert_cell", {"source": "x = 1"}), INSERT)
    markdown = {"source": "# Hi", "cell_type": "markdown", "after": "mine"}
    await permissions.check(ToolUse("id", "insert_cell", markdown), INSERT)

    assert person.shown == [
        "The agent asks to insert a code cell at the end:\n\nx = 1",
        "The agent asks to insert a markdown cell below cell mine:\n\n# Hi",
    ]


async def test_this_cell_is_no_other_cell():
    """Always covers the cell that was shown: not another one, not its deletion or run."""
    person = Person("a", "n", "n", "n")
    permissions = looking(person)

    assert await allows(permissions, EDIT, on_cell(EDIT, "mine", source="1"))
    assert await allows(permissions, EDIT, on_cell(EDIT, "mine", source="2"))
    assert not await allows(permissions, EDIT, on_cell(EDIT, "bot", source="1"))
    assert not await allows(permissions, DELETE, on_cell(DELETE, "mine"))
    assert not await allows(permissions, CELL, on_cell(CELL, "mine"))
    assert permissions.rules == ("edit cell mine",)
    assert len(person.questions) == 4


async def test_cells_the_agent_made():
    """`a made` covers the cells the agent made; a person's asks."""
    person = Person("a made", "n")
    permissions = looking(person)

    assert await allows(permissions, EDIT, on_cell(EDIT, "bot", source="1"))
    assert await allows(permissions, EDIT, on_cell(EDIT, "bot2", source="1"))
    assert not await allows(permissions, EDIT, on_cell(EDIT, "mine", source="1"))


async def test_any_cell():
    """`a any` covers every cell, for that one group of calls."""
    person = Person("A ANY", "n")
    permissions = looking(person)

    assert await allows(permissions, EDIT, on_cell(EDIT, "mine", source="1"))
    assert await allows(permissions, EDIT, on_cell(EDIT, "bot", source="1"))
    assert not await allows(permissions, MOVE, on_cell(MOVE, "bot"))


async def test_a_persons_cell_is_never_deleted_by_a_rule():
    """Deleting a cell that is not the agent's, or that was changed since, is asked each time."""
    shown, person = Shown(), Person("a", "a", "a any", "y", "y", "n")
    permissions = looking(person, shown=shown)

    assert await allows(permissions, DELETE, on_cell(DELETE, "bot"))
    assert permissions.rules == ("delete cells the agent made",)
    assert await allows(permissions, DELETE, on_cell(DELETE, "bot2"))
    assert await allows(permissions, DELETE, on_cell(DELETE, "mine"))
    assert await allows(permissions, DELETE, on_cell(DELETE, "mine"))
    shown.cells["bot"] = "c = 3  # mine now"
    assert not await allows(permissions, DELETE, on_cell(DELETE, "bot"))
    assert person.questions[1:] == ["Allow? [y]es once, [n]o (and why): "] * 5


async def test_a_run_is_allowed_as_shown():
    """Always for running a cell covers the source that was shown; another one asks."""
    shown, person = Shown(), Person("a", "n")
    permissions = looking(person, shown=shown)

    assert await allows(permissions, CELL, on_cell(CELL, "mine"))
    assert await allows(permissions, CELL, on_cell(CELL, "mine"))
    shown.cells["mine"] = "import shutil"
    assert not await allows(permissions, CELL, on_cell(CELL, "mine"))


async def test_what_was_asked_about_is_what_may_run():
    """The source that the question showed is known to the tool that runs the cell, once."""
    seen, shown = Seen(), Shown()
    permissions = deciding(Person("y"))
    permissions.take("s", Memory(), Targets(shown, None, lambda: shown.entries, seen=seen))
    await permissions.check(on_cell(CELL, "mine"), CELL)

    assert seen.take_asked("mine") == digest_of("a = 1\nb = 2")
    assert seen.take_asked("mine") is None


async def test_a_word_that_was_not_offered_asks_again():
    """A widening that the question does not name is no answer."""
    person = Person("a made", "a all", "always any cell", "n")

    assert not await allows(looking(person), EDIT, on_cell(EDIT, "mine", source="1"))
    assert len(person.questions) == 4


async def test_a_cell_that_is_not_there_has_no_rule():
    """Of a call whose cell nobody knows only the arguments are shown, and nothing lasts."""
    person = Person("a", "n")

    assert not await allows(looking(person), EDIT, on_cell(EDIT, "zz", source="1"))
    assert '"cell_id": "zz"' in person.shown[0]
    assert person.questions == ["Allow? [y]es once, [n]o (and why): "] * 2


# Files ------------------------------------------------------------------------------------------


def writing(path: str, text: str = "new\n") -> ToolUse:
    return ToolUse("id", "write_file", {"path": path, "text": text})


@pytest.mark.parametrize("mode", ["auto", "edits", "ask"])
@pytest.mark.parametrize(
    "path", [".jupyter_ctx/settings.json", ".git/config", ".bashrc", "AGENTS.md", "sub/CLAUDE.md"]
)
async def test_guarded_files_ask_in_every_mode(tmp_path: Path, path: str, mode: PermissionMode):
    """No mode and no rule covers the files that tell agents what to do, nor hidden ones."""
    person = Person("a any", "a", "y", "n", CannotAskError())
    permissions = looking(person, mode, project=Project(str(tmp_path)))

    if mode == "ask":
        assert await allows(permissions, WRITE, writing("data.txt"))
        assert permissions.rules == ("edit any file in the project",)
        assert await allows(permissions, WRITE, writing("other.txt"))
    else:
        person.answers.pop(0)
        assert await allows(permissions, WRITE, writing("data.txt"))
    assert await allows(permissions, WRITE, writing(path))
    assert not await allows(permissions, WRITE, writing(path))
    denied = await permissions.check(writing(path), WRITE)
    assert denied == Denied(HEADLESS_FILE_TEXT if mode == "auto" else HEADLESS_TEXT)
    assert "asked about in every mode" in person.shown[-1]


async def test_a_link_to_a_guarded_file_asks(tmp_path: Path):
    """A path counts as what it really leads to."""
    (tmp_path / "notes.txt").symlink_to("AGENTS.md")
    person = Person("n")

    permissions = looking(person, "auto", project=Project(str(tmp_path)))
    assert not await allows(permissions, WRITE, writing("notes.txt"))
    assert len(person.questions) == 1


async def test_without_a_project_every_file_asks():
    """Where nobody knows the project, no mode lets a file be written unasked."""
    person = Person("n")

    assert not await allows(looking(person, "auto"), WRITE, writing("data.txt"))


async def test_a_file_is_shown_as_a_diff(tmp_path: Path):
    """The question names the file and shows its diff, of a new file its whole text."""
    (tmp_path / "data.txt").write_text("one\ntwo\n")
    person = Person("n", "n", "n", "n")
    permissions = looking(person, project=Project(str(tmp_path)))
    await permissions.check(writing("data.txt", "one\n2\n"), WRITE)
    edit = {"path": "data.txt", "old": "two", "new": "2"}
    await permissions.check(ToolUse("id", "edit_file", edit), WRITE)
    await permissions.check(writing("new.txt", "hi\n"), WRITE)
    await permissions.check(ToolUse("id", "edit_file", {**edit, "old": "zz"}), WRITE)

    assert person.shown[:3] == [
        "The agent asks to write over data.txt:\n\n@@ -1,2 +1,2 @@\n one\n-two\n+2",
        "The agent asks to edit data.txt:\n\n@@ -1,2 +1,2 @@\n one\n-two\n+2",
        "The agent asks to create new.txt:\n\nhi\n",
    ]
    assert "does not stand there exactly once" in person.shown[3]


async def test_a_question_shows_no_key(tmp_path: Path):
    """The program's own keys are not in what is shown: it is saved with the notebook."""
    (tmp_path / "data.txt").write_text("key = sk-secret\n")
    person = Person("n")
    permissions = deciding(person)
    hide = Targets(
        project=Project(str(tmp_path)), redact=lambda text: text.replace("sk-secret", "[key]")
    )
    permissions.take("s", Memory(), hide)
    await permissions.check(writing("data.txt"), WRITE)

    assert "-key = [key]\n+new" in person.shown[0]


async def test_this_file_is_no_other_file(tmp_path: Path):
    """Always covers the file that was named, by its real path; a path outside has no rule."""
    person = Person("a", "n", "a", "n")
    permissions = looking(person, project=Project(str(tmp_path)))

    assert await allows(permissions, WRITE, writing("data.txt"))
    assert await allows(permissions, WRITE, writing("./data.txt"))
    assert permissions.rules == (f"edit file {tmp_path / 'data.txt'}",)
    assert not await allows(permissions, WRITE, writing("other.txt"))
    assert not await allows(permissions, WRITE, writing("/etc/passwd"))


# Differences ------------------------------------------------------------------------------------


def test_a_long_text_has_a_diff_too():
    """Beyond the limit the lines that differ are shown as taken out and put in, with context."""
    old = [str(n) for n in range(DIFF_LINES * 50)]
    new = [*old[:500], "x", *old[502:]]

    assert unified("\n".join(old) + "\n", "\n".join(new) + "\n").split("\n") == [
        "@@ -498,8 +498,7 @@",
        *(f" {n}" for n in (497, 498, 499)),
        *("-500", "-501", "+x"),
        *(f" {n}" for n in (502, 503, 504)),
    ]


@given(st.text("ab\n"), st.text("ab\n"))
def test_a_diff_tells_texts_apart(before: str, after: str):
    """A diff is empty of changes if and only if the texts are equal."""
    assert (unified(before, after) == "(no change)") == (before == after)


# The session's rules ----------------------------------------------------------------------------


async def test_rules_are_saved_and_come_back():
    """A rule is saved when it is made, holds for the session resumed, and for no other."""
    store, person = Memory(), Person("a", "n")
    permissions = looking(person, store=store)
    assert await allows(permissions, RUN, use())

    again = looking(Person(), store=store)
    assert again.rules == ("run code",)
    assert await allows(again, RUN, use())
    assert permissions.take("t", Memory(), None) == []
    assert not await allows(permissions, RUN, use())


async def test_one_rule_or_all_are_revoked():
    """A rule is revoked by its number, everything by none; that is saved."""
    store = Memory()
    person = Person("a", "a any", "a")
    permissions = looking(person, store=store)
    for spec, call in [
        (RUN, use()),
        (EDIT, on_cell(EDIT, "mine", source="1")),
        (CELL, on_cell(CELL, "bot")),
    ]:
        assert await allows(permissions, spec, call)
    with pytest.raises(PromptError, match="no rule 4; they are 1 to 3"):
        permissions.revoke(4)
    permissions.revoke(2)

    assert permissions.rules == ("run code", "run cell bot as shown")
    assert list(map(str, rules_from_json(store.stored, "s"))) == list(permissions.rules)
    permissions.revoke()
    assert rules_from_json(store.stored, "s") == ()
    with pytest.raises(PromptError, match="no rule 1; there is none"):
        permissions.revoke(1)


@pytest.mark.parametrize(
    "stored", [{"version": 1}, {"version": 2}, "run code", StoreError("It is torn.", path="p")]
)
async def test_of_a_bad_file_no_rule_counts(stored):
    """Rules that cannot be read are none, and the person is told."""
    person = Person("n")
    permissions = deciding(person)

    (warning,) = permissions.take("s", Memory(stored), None)
    assert warning.startswith("What was allowed for this session is not any more: ")
    assert permissions.rules == ()
    assert not await allows(permissions, RUN, use())


async def test_a_rule_that_cannot_be_saved_is_told():
    """Without a disk a rule holds in this kernel, and says so; revoking it says what stays."""
    store, person = Memory(), Person("a")
    permissions = looking(person, store=store)
    store.stored = StoreError("The disk is full.", path="p")

    assert await allows(permissions, RUN, use())
    assert person.shown[-1] == "Allowed until the kernel restarts, but not saved: The disk is full."
    with pytest.raises(StoreError):
        permissions.revoke()
    assert permissions.rules == ()


def test_rules_lie_beside_the_transcript(tmp_path: Path):
    """Rules are a file of the owner alone, read at resume; a link or a torn file is an error."""
    session = SessionStore(tmp_path).create("s")
    assert session.load_rules() is None
    session.save_rules({"version": 1})
    path = tmp_path / "sessions" / "s" / "permissions.json"

    assert path.stat().st_mode & 0o777 == 0o600
    assert session.load_rules() == {"version": 1}
    path.write_bytes(path.read_bytes()[:5])
    with pytest.raises(StoreError, match=r"permissions.json could not be read"):
        session.load_rules()
    path.write_bytes(b" " * 2_000_000)
    with pytest.raises(StoreError, match="too large"):
        session.load_rules()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere.json")
    (tmp_path / "elsewhere.json").write_text("{}")
    with pytest.raises(StoreError):
        session.load_rules()
    session.close()
    fork = SessionStore(None).create()
    fork.save_rules({"version": 1})
    assert fork.load_rules() == {"version": 1}
