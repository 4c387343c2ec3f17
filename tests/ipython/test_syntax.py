"""Laws of the input transforms: a prompt reaches the magic as typed."""

from __future__ import annotations

import ast

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from jupyter_ctx.ipython import syntax

PROMPTS = (
    "what is this?",
    "what is this??",
    "why",
    "costs $x or {y}, 100 % of it",
    "don't",
    'say "hi',
    "path C:\\new\\",
    "f(x",
    "f(x?",
    "a ] b }",
    "\N{LATIN SMALL LETTER E WITH ACUTE}t\N{LATIN SMALL LETTER E WITH ACUTE} 日本語 🙂",
    "'''",
    "# not a comment",
    "!ls",
    "%timeit x",
    "%%html",
    "x = 1; y",
    "two  spaces\tand a tab",
    "?",
)


@pytest.fixture
def manager():
    made = TransformerManager()
    syntax.install(made)
    return made


def prompts_of(code: str) -> list[str]:
    """Return what each `run_line_magic('agent', …)` call of the code is given."""
    calls = (node.args for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
    values = ([ast.literal_eval(arg) for arg in args] for args in calls if len(args) == 2)
    return [str(value) for name, value in values if name == "agent"]


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize(
    "cell",
    [
        "%agent {}",
        "x = 1\n%agent {}",
        "if True:\n    %agent {}\nx = 2",
        "\n\n    %agent {}\n    x = 2",
        "def f():\n    for i in range(2):\n        %agent {}\n    return i",
        "s = '''\n'''\n%agent {}\n!ls",
    ],
)
def test_a_prompt_arrives_as_typed(manager, cell, prompt):
    """Wherever the line stands, the magic gets exactly the text behind it, and all else runs."""
    code = manager.transform_cell(cell.replace("{}", prompt))

    assert prompts_of(code) == [prompt]


@pytest.mark.parametrize("cell", ["%agent?", "%agent??", "x = 1\n%agent?"])
def test_the_magic_alone_can_be_asked_about(manager, cell):
    """`%agent?` and `%agent??` alone show help."""
    code = manager.transform_cell(cell)

    assert prompts_of(code) == []
    assert "pinfo" in code


@pytest.mark.parametrize(
    "cell", ["%agents x?", "s = '''\n%agent x?\n'''", "%time 1", "x%agent", "%agent.x?"]
)
def test_other_lines_are_left_alone(manager, cell):
    """Other magics, and text within a string, are transformed as without us."""
    assert manager.transform_cell(cell) == TransformerManager().transform_cell(cell)


def test_a_backslash_does_not_eat_the_next_line(manager):
    """A backslash at the end is text; the next line is code of its own."""
    code = manager.transform_cell("%agent look in C:\\\nx = 1")

    assert prompts_of(code) == ["look in C:\\"]
    assert "x = 1" in code.splitlines()


def test_a_cell_magic_keeps_every_line(manager):
    """A `%%agent` cell arrives whole, whatever its lines look like."""
    body = "first?\n%agent no\n  indented \\\n'''\n\n!ls\n"
    code = manager.transform_cell("%%agent\n" + body)

    (call,) = (
        node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call) and node.args
    )
    assert [ast.literal_eval(arg) for arg in call.args] == ["agent", "", body]


def test_a_long_prompt_arrives(manager):
    """A prompt of 100 KB on one line arrives."""
    prompt = "why (" * 20_000

    assert prompts_of(manager.transform_cell(f"%agent {prompt}")) == [prompt.strip()]


def test_uninstall_takes_both_away(manager):
    """Afterwards the shell's input is what it was; doing it twice is no error."""
    syntax.uninstall(manager)
    syntax.uninstall(manager)
    plain = TransformerManager()

    assert manager.line_transforms == plain.line_transforms
    assert manager.token_transformers == plain.token_transformers
