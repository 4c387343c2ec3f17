"""Names in a summary that no longer stand for anything in the kernel."""

import asyncio
import builtins
import keyword
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.entries import Reinjected
from jupyter_ctx.core.names import (
    MOST_CODE_CHARS,
    MOST_CODES,
    MOST_NAMES,
    Mentions,
    find_bound,
    find_lost,
    find_mentions,
    find_missing,
    lost_line,
    missing_line,
)
from jupyter_ctx.core.ports import Cell, NotebookCell
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.testing import FakeKernel, FakeNotebook, call
from tests.core.strategies import compaction_entry, prompt, reply_entry


def missing(summary, kernel=None, *entries, notebook=None):
    kernel, notebook = kernel or FakeKernel(), notebook or FakeNotebook()
    return asyncio.run(find_missing(summary, Transcript(entries), kernel, notebook))


def ran(code):
    return reply_entry(call("run_code", code=code))


# What a summary names ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("`df` has rows", ["df"]),
        ("`df.price.mean()` is 3", ["df"]),
        ('`df["x"]` and `f(x)`', ["df", "f"]),
        ("`x = 3`, `y: int`", ["x", "y"]),
        ("`train, test` were split", ["train", "test"]),
        ("`größe` and `数据`", ["größe", "数据"]),
        ("df without backticks", []),
        ("`data.csv`, `out/plot.png`, `a b c`, `3x`, ``", []),
        ("`SELECT id FROM sales`", []),
        ("`print(x)`, `None`, `for`, `len`", []),
        ("```python\n`inside` = 1\nother\n```\n`after`", ["after"]),
        ("`unclosed\nline`", []),
        ("`df` then `df.head()`", ["df"]),
    ],
)
def test_identifiers_in_backticks_are_names(text, names):
    """A span names its first part; files, sentences, keywords, builtins and fences name nothing."""
    assert list(find_mentions(text).names) == names


def test_cells_are_named_by_their_id():
    """`cell:ID` names a cell, in backticks or not, and is no identifier."""
    text = "See `cell:4f2a-9c` and cell:in-3. Not supercell:x, nor cell: y. Again cell:in-3"

    assert find_mentions(text) == Mentions((), ("4f2a-9c", "in-3"))


@given(st.text(alphabet="`a.[(=: ,\ncell9_#~", max_size=80))
def test_any_summary_can_be_read(text):
    """Whatever stands in it, each name is an identifier, none a keyword or builtin, each once."""
    names = find_mentions(text).names

    assert len(set(names)) == len(names)
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in names)
    assert not any(hasattr(builtins, name) for name in names)


# What code binds --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("a = b = 1", {"a", "b"}),
        ("a, (b, *c) = x", {"a", "b", "c"}),
        ("a: int = 1\nb += 1", {"a", "b"}),
        ("import os.path, numpy as np\nfrom x import y as z, w", {"os", "np", "z", "w"}),
        ("from x import *", set()),
        ("def f(p):\n    q = 1", {"f"}),
        ("def f():\n    global g\n    g = 1", {"f", "g"}),
        ("class C:\n    attribute = 1\n    def m(self): s = 1", {"C"}),
        ("async def f(): pass", {"f"}),
        ("for i, j in x:\n    k = 1\nelse:\n    m = 2", {"i", "j", "k", "m"}),
        ("with open(p) as f, g() as (h, k): pass", {"f", "h", "k"}),
        ("try:\n    a = 1\nexcept E as e:\n    b = 1\nfinally:\n    c = 1", {"a", "b", "c"}),
        ("while (n := f()): pass", {"n"}),
        ("[i for i in x if (last := i)]", {"last"}),
        ("lambda p: (q := p)", set()),
        ("x.attribute = 1\nx['key'] = 2", set()),
        ("match v:\n    case [a, *b]: pass\n    case {'k': c, **d}: pass", {"a", "b", "c", "d"}),
        ("del a", set()),
        ("%matplotlib inline\na = 1\n!ls\nb = 2\ndf?", {"a", "b"}),
        ("files = !ls *.csv\nout = %who_ls", {"files", "out"}),
        ("if True:\n    !ls\n    a = 1", {"a"}),
        ("%time a = f()", {"a"}),
        ("%%time\na = 1", {"a"}),
        ("%%bash\na=1", set()),
        ("x = (10\n   % 3)", {"x"}),
        ("this is no Python", set()),
        ("", set()),
    ],
)
def test_what_code_binds(code, names):
    """Names of the namespace, wherever in the code they are bound; no locals, no attributes."""
    assert find_bound(code) == names


HOSTILE = [
    "(" * 5_000 + ")" * 5_000,
    "x = " + "-" * 50_000 + "1",
    "x = " + "a." * 40_000 + "a",
    "x = '\x00'",
    "x = '\ud800'",
    "if 1:\n" * 500 + "x = 1",
    "x = 1\n" * MOST_CODE_CHARS,
    "\\",
]


@pytest.mark.parametrize("code", HOSTILE, ids=range(len(HOSTILE)))
def test_no_code_breaks_it(code):
    """Deep, long or broken code binds nothing or something, and raises nothing."""
    assert find_bound(code) <= {"x"}


def test_reading_code_warns_of_nothing():
    """The parser's own warnings would stand in the user's cell."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        assert find_bound(r"a = '\d \400 \N{BULLET}' + b'\u'" + "\nb = r'\\d' '\\'' ''") == {
            "a",
            "b",
        }


NAMES = st.sampled_from(["a", "b", "c", "d"])
STATEMENTS = st.one_of(
    st.builds("{} = 1".format, NAMES),
    st.builds("{}, [{}] = 1, [2]".format, NAMES, NAMES),
    st.builds("def {}(p=1):\n    local = p".format, NAMES),
    st.builds("class {}:\n    inner = 1".format, NAMES),
    st.builds("import sys as {}".format, NAMES),
    st.builds("for {} in [1]:\n    {} = 2".format, NAMES, NAMES),
    st.builds("[z for z in [1] if ({} := z)]".format, NAMES),
    st.builds("if 1:\n    {} = 1\nelse:\n    {} = 2".format, NAMES, NAMES),
    st.builds("try:\n    1 / 0\nexcept ZeroDivisionError as {}:\n    {} = 3".format, NAMES, NAMES),
    st.builds("match [1, 2]:\n    case [{}, *rest]:\n        pass".format, NAMES),
)


@given(st.lists(STATEMENTS, max_size=6))
def test_every_name_that_running_code_binds_is_found(statements):
    """Whatever stands in the namespace after the code ran was found in the code."""
    code = "\n".join(statements)
    namespace = {}
    exec(compile(code, "<code>", "exec"), namespace)

    assert namespace.keys() - {"__builtins__"} <= find_bound(code)
    assert "local" not in find_bound(code)
    assert "inner" not in find_bound(code)


# What is missing --------------------------------------------------------------------------------


def test_a_name_that_was_deleted_is_missing():
    """A name of the agent's code or of a cell that the kernel has no more is told, in order."""
    kernel = FakeKernel({"df": 1}, [Cell("c1", "model = fit(df)", 1, 1)])
    summary = "`model` of cell:c1, `scores`, `df`, `price` is a column, `pd.DataFrame`."

    assert missing(summary, kernel, ran("scores = [1]")) == ("model", "scores")


def test_only_code_that_ran_binds():
    """Code in another tool's call, or a call without code, bound nothing in the kernel."""
    other = reply_entry(
        call("insert_cell", code="a = 1"), call("run_code"), call("run_code", code="b = 1")
    )
    assert missing("`a` and `b`", None, other) == ("b",)


def test_a_name_of_an_earlier_inventory_is_missing():
    """What a compaction listed as alive was a kernel name, whoever bound it."""
    entry = compaction_entry(reinjected=(Reinjected("variable", "old", 3),))

    assert missing("`old` and `other`", None, prompt(), reply_entry(), entry) == ("old",)


def test_hidden_names_that_live_are_not_missing():
    """A helper of the agent's with a `_` is looked up in the namespace, not in the inventory."""
    kernel = FakeKernel({"_helper": 1})

    assert missing("`_helper`, `_gone`", kernel, ran("_helper = _gone = 1")) == ("_gone",)


def test_unknown_cells_are_missing():
    """A cell of which the kernel knows nothing is told, whether it was one or not."""
    kernel = FakeKernel(cells=[Cell("here", "1", 1, 1)])

    assert missing("cell:here, `cell:gone`", kernel) == ("cell:gone",)
    notebook = FakeNotebook(
        [NotebookCell("made", "code", "x = 1"), NotebookCell("m", "markdown", "")]
    )
    assert missing("cell:made, cell:m, cell:gone", kernel, notebook=notebook) == ("cell:gone",)


@given(st.lists(NAMES), st.lists(NAMES), st.sets(NAMES))
def test_only_what_was_once_bound_and_is_gone_is_missing(named, bound, alive):
    """Missing is exactly: named, bound once, and not alive now."""
    summary = " ".join(f"`{name}`" for name in named)
    code = "\n".join(f"{name} = 1" for name in bound)
    kernel = FakeKernel(dict.fromkeys(alive, 0))

    expected = [n for n in dict.fromkeys(named) if n in bound and n not in alive]

    assert missing(summary, kernel, ran(code)) == tuple(expected)


def test_the_line_for_the_model_is_bounded():
    """Many names are told as the first ones and a number; none is no line."""
    assert missing_line(()) == ""
    assert missing_line(["a", "cell:x"]) == (
        "Named in the summary, but not in the kernel any more: `a`, `cell:x`."
    )
    line = missing_line([f"n{i}" for i in range(1_000)])
    assert f"`n{MOST_NAMES - 1}` and 980 more." in line
    assert "\n" not in line


# What an earlier kernel had -----------------------------------------------------------------------


def test_what_an_earlier_kernel_had_is_lost():
    """Lost is what code bound or an inventory listed and is not there, the newest code first."""
    listed = compaction_entry(1, reinjected=(Reinjected("variable", "by_user", 3),))
    entries = [
        listed,
        ran("old = 1\nkept = 2"),
        ran("import new\n_own = 3\nfor i in old: print(i)"),
    ]

    assert find_lost(Transcript(entries), {"kept": 2}) == ("i", "new", "old", "by_user")


def test_a_long_session_is_looked_at_as_far_as_it_takes_no_time():
    """Names of the newest calls count; the line is bounded, and none if nothing is lost."""
    lost = find_lost(Transcript([ran(f"n{i} = {i}") for i in range(MOST_CODES + 100)]), {})

    assert lost == tuple(f"n{i}" for i in range(MOST_CODES + 99, 99, -1))
    assert lost_line(lost).endswith(f"n{MOST_CODES + 80} and {MOST_CODES - MOST_NAMES} more.")
    assert lost_line(()) == ""
