"""The kernel port over a real shell: variables, cells, runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from jupyter_ctx.config import Settings
from jupyter_ctx.core.ports import Kernel, Variable
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.ipython.inventory import user_names
from jupyter_ctx.ipython.kernel import IPythonKernel
from jupyter_ctx.ipython.recorder import CellRecorder
from jupyter_ctx.tools.measures import memory_of, shape_of
from jupyter_ctx.tools.naming import type_name

from .scratch import (
    SECRET,
    DirectCaller,
    ListSink,
    open_spool,
    plain_shell,
    plain_texts,
    stream_text,
)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Any]:
    """Give a plain shell of its own."""
    with plain_shell(tmp_path / "ipython") as shell:
        yield shell


@pytest.fixture
def kernel(shell: Any, tmp_path: Path) -> Iterator[IPythonKernel]:
    """Give the kernel over that shell."""
    recorder = CellRecorder(shell)
    kernel = IPythonKernel(
        shell,
        DirectCaller(),
        recorder,
        Settings(),
        Redactor([SECRET]),
        lambda: open_spool(tmp_path / "spools"),
        ListSink,
    )
    yield kernel
    kernel.close()
    recorder.close()


class Hostile:
    """Raises whatever is asked of it."""

    def __len__(self) -> int:
        raise AssertionError("asked for its length")

    def __repr__(self) -> str:
        raise AssertionError("asked for its text")

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    __hash__ = None  # type: ignore[assignment]  # no hash either


class LyingMeta(type):
    """A metaclass whose classes lie about where they come from."""

    @property
    def __module__(cls) -> str:  # type: ignore[override]  # that is the lie
        raise AssertionError("the metaclass was asked")


class Lying(metaclass=LyingMeta):
    """A class of it."""


class ndarray:  # the name is the lie
    """Claims to be numpy's."""

    __module__ = "numpy"

    @property
    def shape(self) -> tuple[int, ...]:
        raise AssertionError("taken for numpy's")


def test_it_is_a_kernel(kernel: IPythonKernel) -> None:
    """It has the port's methods (mypy checks their types)."""
    port: Kernel = kernel
    assert port is kernel


@pytest.mark.parametrize(
    ("value", "shape", "size"),
    [
        ([1, 2], "2 items", ""),
        ({"a": 1}, "1 item", ""),
        (deque(range(1_500)), "1,500 items", ""),
        ("text", "4 characters", ""),
        (b"ab", "2 bytes", ""),
        (5, "", ""),
        (np.zeros((1_000, 3)), "float64 1,000 × 3", "24.0 kB"),
        (np.array(5), "int64 scalar", "8 B"),
        (pd.DataFrame({"a": [1, 2], "b": [1.0, 2.0]}), "2 × 2", "32 B"),
        (pd.Series([1, 2, 3]), "int64 3", "24 B"),
        (pl.DataFrame({"a": [1, 2]}), "2 × 1", "16 B"),
        (pl.LazyFrame({"a": [1]}), "", ""),
        (Hostile(), "", ""),
        (ndarray(), "", ""),
        (Lying(), "", ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_what_is_safe_is_measured(value: object, shape: str, size: str) -> None:
    """Built-in containers and the real classes of known libraries are measured, nothing else."""
    assert (shape_of(value), memory_of(value)) == (shape, size)


def test_types_are_named_as_a_person_writes_them() -> None:
    """Built-in and notebook classes by name, others as one would import them."""
    values = (5, pd.DataFrame(), np.zeros(1), Hostile(), Path)
    assert [type_name(type(value)) for value in values] == [
        "int",
        "pandas.DataFrame",
        "numpy.ndarray",
        "tests.ipython.test_kernel.Hostile",
        "type",
    ]


async def test_the_users_names_are_listed(kernel: IPythonKernel, shell: Any) -> None:
    """Names are sorted; none of IPython's, none with `_`; each with the cell that bound it."""
    shell.user_ns["before"] = 1
    shell.run_cell("import os\nrows = [1, 2]\n_hidden = 1\ndef f(): pass", store_history=True)
    shell.run_cell("7\nrows = [1]", store_history=True)
    shell.run_cell("open = exit = 5", store_history=True)
    shell.user_ns["hostile"] = Hostile()

    assert list(await kernel.load_variables()) == [
        Variable("before", "int", "", "", "In[1]"),
        Variable("exit", "int", "", "", "In[3]"),
        Variable("f", "function", "", "", "In[1]"),
        Variable("hostile", "tests.ipython.test_kernel.Hostile", "", "", None),
        Variable("open", "int", "", "", "In[3]"),
        Variable("os", "module", "", "", "In[1]"),
        Variable("rows", "list", "1 item", "", "In[2]"),
    ]


async def test_a_fresh_namespace_is_empty(kernel: IPythonKernel, shell: Any) -> None:
    """Nothing of IPython's own is listed, also after a reset."""
    assert await kernel.load_variables() == []
    shell.run_cell("x = 1", store_history=True)
    shell.run_cell("%reset -f", store_history=True)
    assert await kernel.load_variables() == []


async def test_a_run_is_no_cell(kernel: IPythonKernel, shell: Any) -> None:
    """Code run for the agent is no recorded cell; the names it binds belong to no cell."""
    shell.run_cell("x = 1", store_history=True)

    execution = await kernel.run_code("y = 2\nprint(x)\ny")

    assert (stream_text(execution), plain_texts(execution)) == ("1\n", ["2"])
    assert [cell.source for cell in await kernel.load_cells()] == ["x = 1"]
    found = {variable.name: variable.cell for variable in await kernel.load_variables()}
    assert found == {"x": "In[1]", "y": None}


async def test_names_bound_by_a_run_belong_to_the_cell_around_it(
    kernel: IPythonKernel, shell: Any
) -> None:
    """During `%agent` what the agent's code binds is bound by that cell."""
    shell.user_ns["run"] = lambda: kernel._run("z = 3")

    shell.run_cell("run();", store_history=True)

    found = {variable.name: variable.cell for variable in await kernel.load_variables()}
    assert found["z"] == "In[1]"


async def test_the_namespace_can_be_looked_at_only(kernel: IPythonKernel, shell: Any) -> None:
    """`on_main` gives the live namespace, and it cannot be changed through it."""
    shell.user_ns["x"] = 5

    assert await kernel.on_main(lambda names: names["x"]) == 5
    assert await kernel.on_main(type) is MappingProxyType


async def test_keys_are_taken_out(kernel: IPythonKernel) -> None:
    """The kernel's redactor is applied to what a run brings."""
    execution = await kernel.run_code(f"print({SECRET!r})")

    assert SECRET not in repr(execution)


def test_names_that_are_none_are_left_out() -> None:
    """A key of the namespace that is text of another class runs nothing; a huge one is no name."""

    class Trap(str):
        def startswith(self, *args: object) -> bool:
            raise SystemExit

        def __len__(self) -> int:
            raise SystemExit

    names = {Trap("t"): 1, "x" * 10_000: 2, 3: 4, "a": 5}

    assert user_names(names, {}) == {"a": 5}
