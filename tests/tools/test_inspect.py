"""Laws of `inspect`: it looks without running code of what it looks at."""

import collections
import datetime
import decimal
import sys
import threading
import types
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.errors import ToolError
from jupyter_ctx.testing import FakeKernel
from jupyter_ctx.tools import inspect, patience
from jupyter_ctx.tools.inspect import VALUE_CHARS, inspect_value
from jupyter_ctx.tools.patience import within

from .examples import call, text_of


class Touched(BaseException):
    """Code of an inspected value ran."""


def refuse(*args: object, **kwargs: object) -> Any:
    """Stand for any method that must not be called."""
    raise Touched


class HostileMeta(type):
    """A metaclass whose every answer is refused."""

    __eq__ = refuse
    __hash__ = refuse
    __getattribute__ = refuse
    __instancecheck__ = refuse
    __subclasscheck__ = refuse


def make_hostile_class() -> Any:
    """Return a class of which nothing may be called; pytest itself would touch one it can see."""

    class Hostile(metaclass=HostileMeta):
        """Nothing of it may be called."""

        __getattribute__ = refuse
        __repr__ = refuse
        __str__ = refuse
        __len__ = refuse
        __iter__ = refuse
        __eq__ = refuse
        __hash__ = refuse
        __bool__ = refuse
        __array__ = refuse

    return Hostile


class HostileList(list[int]):
    """A list that lies and raises."""

    __repr__ = refuse
    __len__ = refuse
    __iter__ = refuse
    __getitem__ = refuse


class HostileDict(dict[str, int]):
    """A dictionary likewise."""

    __repr__ = refuse
    __len__ = refuse
    __iter__ = refuse
    items = refuse


class HostileText(str):
    """A string likewise."""

    __repr__ = refuse
    __len__ = refuse
    __getitem__ = refuse


class LazyProxy:
    """Says that it is something else, and computes to know what."""

    @property  # type: ignore[misc]  # the point of it
    def __class__(self) -> Any:
        raise Touched

    @property
    def shape(self) -> Any:
        """Compute."""
        raise Touched


class LoadsItself(types.ModuleType):
    """A module that loads itself when it is looked at."""

    __getattribute__ = refuse


class LyingFrame(pd.DataFrame):
    """A frame that is not what it seems."""

    __getattribute__ = refuse


def hidden(value: object) -> Any:
    """Return an object array that holds `value`, without numpy looking at it."""
    array = np.empty(1, dtype=object)
    array[0] = {"a": value}
    return array


def hostile_values() -> dict[str, object]:
    """Return values that refuse to be touched, by what they are."""
    cls = make_hostile_class()
    hostile = object.__new__(cls)
    return {
        "object": hostile,
        "class": cls,
        "in a list": [1, hostile],
        "as a dict value": {"a": hostile},
        "in an array": hidden(hostile),
        "as a default": lambda x=hostile: x,
        "list": HostileList([1, 2]),
        "dict": HostileDict(a=1),
        "text": HostileText("abc"),
        "proxy": LazyProxy(),
        "module": LoadsItself("lazy"),
        "frame": LyingFrame.__new__(LyingFrame),
        "generator": (refuse() for _ in [1]),
    }


@pytest.mark.parametrize("name", list(hostile_values()))
def test_no_code_of_a_value_is_run(name: str) -> None:
    """Nothing hostile is called, and something is said all the same."""
    said = inspect_value(hostile_values()[name])

    assert said
    assert "could not be looked into" not in said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (5, "int 5"),
        (True, "bool True"),
        (None, "NoneType None"),
        (1.5, "float 1.5"),
        (10**1000, "int an int of 3,322 bits"),
        ("héllo", "str, 5 characters\n'héllo'"),
        (b"ab", "bytes, 2 bytes\nb'ab'"),
        ([], "list, 0 items\n[]"),
        ((1,), "tuple, 1 item\n(1,)"),
        ({"b", "a"}, "set, 2 items\n{'a', 'b'}"),
        (range(9), "range(0, 9)"),
        (list(range(12)), "list, 12 items\n[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … 2 more]"),
        ({"a": [1, [2, [3]]]}, "dict, 1 item\n{'a': [1, <list of 2>]}"),
        (collections.Counter("aab"), "collections.Counter, 2 items\n"
         "collections.Counter: {'a': 2, 'b': 1}"),
        (collections.deque([1]), "collections.deque, 1 item\ndeque([1])"),
        (decimal.Decimal("1.10"), "decimal.Decimal Decimal('1.10')"),
        (datetime.date(2026, 11, 30), "datetime.date(2026, 11, 30)"),
        (HostileList([1, 2]), None),
    ],
)  # fmt: skip
def test_plain_values_are_written_out(value: object, said: str | None) -> None:
    """Built-in values show their content, bounded in number and depth."""
    assert inspect_value(value) == (
        said or f"{__name__}.HostileList, 2 items\n{__name__}.HostileList: [1, 2]"
    )


def test_long_strings_are_cut() -> None:
    """A string shows its beginning and its length."""
    said = inspect_value("x" * 1_000_000)

    assert said.startswith("str, 1,000,000 characters\n'xxx")
    assert len(said) < 1_000


def test_a_list_that_holds_itself_ends() -> None:
    """Recursion is bounded by depth."""
    endless: list[object] = []
    endless.append(endless)

    assert inspect_value(endless) == "list, 1 item\n[[<list of 1>]]"


def test_functions_show_their_signature() -> None:
    """Parameters, defaults and the first line of documentation; annotations are not evaluated."""

    hostile = object.__new__(make_hostile_class())

    def add(a: int, b: int = 2, /, *rest: int, c: object = hostile, **more: int) -> int:
        """Add up.

        Never shown.
        """
        return a

    said = inspect_value(add)

    assert "add(a, b=2, /, *rest, c=<" in said
    assert ", **more)\n" in said
    assert said.endswith("\nAdd up.")


def test_objects_name_their_attributes() -> None:
    """An unknown object is told by type, module, and the types of its attributes."""
    value = types.SimpleNamespace(name="x", rows=[1])

    said = inspect_value(value)

    assert said.startswith("types.SimpleNamespace\n")
    assert "attributes: name: str, rows: list" in said


def test_arrays_show_shape_type_and_values() -> None:
    """Shape, dtype and the first values are told."""
    assert inspect_value(np.arange(24.0).reshape(4, 6)) == (
        "numpy.ndarray, float64, 4 × 6, 192 B, from 0 to 23\n"
        "values: 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, … 14 more"
    )
    assert inspect_value(np.array(3)) == "numpy.ndarray, int64, a scalar, 8 B\nvalues: 3"
    assert inspect_value(np.float32(1.5)).endswith("np.float32(1.5)")


def test_a_frame_shows_shape_columns_and_rows() -> None:
    """Shape, columns with types and gaps, index and first rows; cells of unknown types by type."""
    frame = pd.DataFrame(
        {
            "when": pd.to_datetime(["2026-01-01", "NaT"]),
            "city": ["Oslo", "a very long name that goes on and on"],
            "odd": pd.Series([LazyProxy, object()], dtype=object),
        },
        index=["x", "y"],
    )
    frame["odd"] = pd.Series([object(), 5], dtype=object, index=frame.index)

    lines = inspect_value(frame).split("\n")

    assert lines[0].startswith("pandas.DataFrame, 2 rows × 3 columns, ")
    assert lines[0].endswith(" B and its objects")
    assert lines[1].startswith("columns: when datetime64[")
    assert "(1 missing), city str, odd object" in lines[1]
    assert lines[3:5] == ["first 2 rows:", " | when | city | odd"]
    assert lines[5] == "x | 2026-01-01 00:00:00 | Oslo | <object>"
    assert lines[6] == "y | NaT | a very long name that goes on… | 5"


def test_a_wide_frame_is_bounded() -> None:
    """Of 3,000 columns some are named and the rest counted."""
    said = inspect_value(pd.DataFrame(np.zeros((3, 3_000))))

    assert "3 rows × 3,000 columns" in said
    assert "… 2,800 more" in said
    assert len(said) <= VALUE_CHARS


def test_series_and_indexes_are_told() -> None:
    """Their type, length and first values are shown."""
    series = pd.Series([1.0, None], name="q")

    assert inspect_value(series).startswith(
        "pandas.Series, float64, 2 values, 16 B, named q, 1 missing\n"
        "index: RangeIndex, int64, 2: 0, 1\n"
    )
    assert inspect_value(pd.MultiIndex.from_product([[1], ["a", "b"]])) == (
        "MultiIndex, object, 2: (1, 'a'), (1, 'b')"
    )


def test_lazy_frames_are_not_computed() -> None:
    """A lazy frame whose computation would fail is told as lazy."""
    lazy = pl.DataFrame({"a": [1]}).lazy().map_batches(refuse)

    assert inspect_value(lazy).startswith("polars.LazyFrame, lazy: not computed; ")
    assert inspect_value(pl.DataFrame({"a": [1], "b": ["x"]})) == (
        "polars.DataFrame, 1 rows × 2 columns, 9 B\ncolumns: a Int64, b String\n"
        "first 1 rows:\na | b\n1 | x"
    )


def test_a_broken_value_of_a_known_type_is_named() -> None:
    """An array library that raises inside is reported and ends nothing."""
    broken: Any = pd.DataFrame({"a": [1]})
    broken._mgr = None

    assert "could not be looked into" in inspect_value(broken)


def test_a_look_that_blocks_is_left_behind() -> None:
    """After its time it is given up; whatever it raises later ends nothing."""
    never = threading.Event()
    try:
        with pytest.raises(TimeoutError, match=r"no answer within 0.01 s"):
            within(lambda: str(never.wait()), 0.01)
    finally:
        never.set()


def test_a_value_that_blocks_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The type is named, and that no answer came."""
    never = threading.Event()
    monkeypatch.setattr(patience, "LOOK_S", 0.01)
    monkeypatch.setattr(inspect, "describe_table", lambda _: str(never.wait()))
    try:
        said = inspect_value(5)
    finally:
        never.set()

    assert said == "int; it could not be looked into: TimeoutError: no answer within 0.01 s"


@pytest.mark.parametrize("raised", [SystemExit(), KeyboardInterrupt(), GeneratorExit()])
def test_what_a_look_raises_ends_nothing(
    raised: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that would end the process, or pretend that the user stopped it, is an answer."""

    def tell(value: object) -> str:
        raise raised

    monkeypatch.setattr(inspect, "describe_table", tell)

    assert type(raised).__name__ in inspect_value(5)


class Cell:
    """What a hostile label may be."""

    def __repr__(self) -> str:
        raise Touched

    __str__ = __repr__


def test_labels_of_unknown_types_are_not_written_out() -> None:
    """Column labels may be any object; an unknown one is told by type."""
    assert "<tests.tools.test_inspect.Cell> int64" in inspect_value(pd.DataFrame({Cell(): [1]}))


values = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner)
    ),
)  # fmt: skip


@given(values)
def test_any_value_is_told_within_bounds(value: object) -> None:
    """The text is never empty, valid, without control characters, and bounded."""
    said = inspect_value(value)

    assert said
    assert len(said) <= VALUE_CHARS
    assert said.encode().decode() == said
    assert "\x1b" not in said


def test_names_are_looked_up() -> None:
    """Each known name gets its text; an unknown one lists near names and spoils nothing."""
    kernel = FakeKernel({"prices": [1], "_hidden": 2})

    text = text_of(call("inspect", {"names": ["prices", "price", "prices[0]"]}, kernel=kernel))

    assert text == (
        "prices: list, 1 item\n[1]\n\n"
        "There is no variable `price`. Nearest: `prices`.\n\n"
        "`prices[0]` is no name; use run_code for an expression."
    )


def test_only_unknown_names_are_an_error() -> None:
    """If no name is known the call fails and says which are near."""
    with pytest.raises(ToolError, match=r"no variable `pricse`\. Nearest: `prices`"):
        call("inspect", {"names": ["pricse"]}, kernel=FakeKernel({"prices": 1}))


def test_no_library_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no data library loaded, looking at a value loads none."""
    for name in ("numpy", "pandas", "polars"):
        monkeypatch.delitem(sys.modules, name)

    inspect_value(object())

    assert "pandas" not in sys.modules
