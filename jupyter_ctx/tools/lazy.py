"""Frames and arrays that are computed only when somebody asks: told by their schema.

Nothing is computed, read or sent here: of each library only what the object itself holds already
is asked, never its `repr`, which some of them compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .measures import by, in_bytes
from .naming import attributes_of, is_a, library_class, library_of, type_name

NAMED_COLUMNS = 200
"""So many columns are named with their types."""

NODES = 200
"""So many steps of a task graph are looked at."""

LAZY = "lazy: not computed"

_IN_MEMORY = frozenset({"FromPandas", "FromPandasDivs", "FromArray", "FromDelayed", "FromGraph"})
"""Dask's sources that know their partitions without reading a file."""

_DASK_EXPR = "dask.dataframe.dask_expr._collection"


def describe_lazy(value: object) -> str | None:
    """Return lines about a lazy frame, relation or array, None if `value` is none."""
    tell = _TELLERS.get(library_of(type(value)))
    return tell(value) if tell is not None else None


def _polars(value: Any) -> str | None:
    """Name a lazy frame only: to resolve its schema polars runs the Python functions in it."""
    if type(value) is not library_class("polars", "LazyFrame"):
        return None
    return f"polars.LazyFrame, {LAZY}; its columns come with collect_schema(), which may read files"


def _pyarrow(value: Any) -> str | None:
    if is_a(value, "pyarrow.dataset", "Dataset"):
        return _frame(value, [(one.name, str(one.type)) for one in value.schema], "not read")
    if is_a(value, "pyarrow.parquet", "ParquetFile"):
        about = f"{value.metadata.num_rows:,} rows, not read"
        return _frame(value, [(one.name, str(one.type)) for one in value.schema_arrow], about)
    if is_a(value, "pyarrow", "Schema"):
        return _frame(value, [(one.name, str(one.type)) for one in value])
    return None


def _dask(value: Any) -> str | None:
    if is_a(value, "dask.array", "Array"):
        chunks = by(len(edge) for edge in value.chunks)
        size = _size_of(value.shape, value.dtype.itemsize)
        head = f"{value.dtype}, {by(value.shape)}{size}, in {chunks} chunks"
        return f"{type_name(type(value))}, {head}, {LAZY}"
    if is_a(value, "dask.bag", "Bag"):
        return f"{type_name(type(value))}, {value.npartitions:,} partitions, {LAZY}"
    if is_a(value, "dask.delayed", "Delayed"):
        return f"{type_name(type(value))}, {LAZY}"
    if not is_a(value, _DASK_EXPR, "FrameBase"):
        return None
    expr = attributes_of(value).get("_expr")
    parts = _partitions(value, expr)
    about = ", ".join([*([f"{parts:,} partitions"] if parts else []), LAZY])
    meta: Any = attributes_of(expr).get("_meta")
    if type(meta) is library_class("pandas", "DataFrame"):
        columns = [(str(name), str(kind)) for name, kind in meta.dtypes.items()]
        return _frame(value, columns, about)
    if type(meta) is library_class("pandas", "Series"):
        return f"{type_name(type(value))}, {meta.dtype}, named {str(meta.name)[:60]}, {about}"
    return f"{type_name(type(value))}, {about}"


def _partitions(value: Any, expr: object) -> int | None:
    """Return the number of partitions if it can be known without reading a file."""
    waiting, seen = [expr], 0
    while waiting:
        node = waiting.pop()
        below = [one for one in _operands(node) if is_a(one, "dask._expr", "Expr")]
        seen += 1
        if seen > NODES or (not below and type(node).__qualname__ not in _IN_MEMORY):
            return None
        waiting.extend(below)
    return int(value.npartitions)


def _operands(node: object) -> list[object]:
    found = attributes_of(node).get("operands")
    return list(found) if type(found) is list else []


def _duckdb(value: Any) -> str | None:
    if not is_a(value, "duckdb", "DuckDBPyRelation"):
        return None
    columns = zip(value.columns, (str(kind) for kind in value.types), strict=True)
    return _frame(value, list(columns), LAZY)


def _ibis(value: Any) -> str | None:
    if is_a(value, "ibis.expr.types", "Table"):
        columns = [(str(name), str(kind)) for name, kind in value.schema().items()]
        return _frame(value, columns, LAZY)
    if is_a(value, "ibis.expr.types", "Value"):
        return f"{type_name(type(value))}, {str(value.type())[:80]}, {LAZY}"
    return None


def _pyspark(value: Any) -> str | None:
    """Return a Spark frame's schema: of a remote session only one that it has fetched already."""
    if not is_a(value, "pyspark.sql", "DataFrame"):
        return None
    held = attributes_of(value)
    schema = held.get("schema") or held.get("_schema") or held.get("_cached_schema")
    if schema is None and "_jdf" in held:
        schema = value.schema  # asked of the driver in this machine; runs no job
    if schema is None:
        return f"{type_name(type(value))}, {LAZY}; its columns were not fetched yet"
    fields = [(one.name, one.dataType.simpleString()) for one in schema.fields]
    return _frame(value, fields, LAZY)


_TELLERS: dict[str, Callable[[Any], str | None]] = {
    "polars": _polars,
    "pyarrow": _pyarrow,
    "dask": _dask,
    "duckdb": _duckdb,
    "_duckdb": _duckdb,
    "ibis": _ibis,
    "pyspark": _pyspark,
}


def _frame(value: object, columns: Sequence[tuple[str, str]], *about: str) -> str:
    said = [f"{name[:60]} {kind[:80]}" for name, kind in columns[:NAMED_COLUMNS]]
    if len(columns) > NAMED_COLUMNS:
        said.append(f"… {len(columns) - NAMED_COLUMNS:,} more")
    head = ", ".join([type_name(type(value)), f"{len(columns):,} columns", *about])
    return f"{head}\ncolumns: {', '.join(said)}"


def _size_of(shape: Iterable[object], item_bytes: int) -> str:
    """Return the bytes an array of this shape would take, "" if an edge is not known."""
    total = item_bytes
    for edge in shape:
        if type(edge) is not int:
            return ""
        total *= edge
    return f", {in_bytes(total)} when computed"
