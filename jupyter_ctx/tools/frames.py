"""Series and frames that lie in memory: shape, types, memory, missing values, a few rows.

Of pandas (subclasses too, read past what they override), polars and pyarrow, of libraries that are
loaded already. Lazy frames are in `lazy.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .measures import SIZED_COLUMNS, in_bytes, memory_of
from .naming import attributes_of, extends, library_class, library_of, module_of, type_name
from .values import describe, is_plain

ROWS = 5
"""So many rows are shown."""

SHOWN_COLUMNS = 20
"""The rows show so many columns."""

NAMED_COLUMNS = 200
"""So many columns are named with their types."""

CELL_CHARS = 30
"""Longest table cell shown, in characters."""

COUNTED_CELLS = 1_000_000
"""Missing values are counted in a table of at most so many cells: that takes milliseconds."""

VALUES = 10
"""So many values of an array are shown."""


def describe_table(value: object) -> str | None:
    """Return lines about a series, index or frame, None if `value` is none of those."""
    frame = _as_pandas(value)
    said = _describe(frame)
    return said if said is None or frame is value else f"{type_name(type(value))}: {said}"


def _describe(value: object) -> str | None:
    known: dict[tuple[str, str], Callable[[Any], str]] = {
        ("pandas", "DataFrame"): _pandas_frame,
        ("pandas", "Series"): _pandas_series,
        ("polars", "DataFrame"): _polars_frame,
        ("polars", "Series"): _polars_series,
        ("pyarrow", "Table"): _arrow_table,
        ("pyarrow", "RecordBatch"): _arrow_table,
        ("pyarrow", "ChunkedArray"): _arrow_array,
    }
    for (library, name), tell in known.items():
        if type(value) is library_class(library, name):
            return tell(value)
    if _is_pandas_index(value):
        return _index_line(value)
    array = library_class("pyarrow", "Array")
    if array is not None and extends(value, array) and library_of(type(value)) == "pyarrow":
        return _arrow_array(value)
    return None


def describe_columns(value: object) -> str:
    """Return a frame's size and its columns with their types in one line, "" if it is no frame."""
    frame: Any = value
    if type(value) is library_class("pandas", "DataFrame"):
        return f"{_frame_size('pandas', frame)}; columns: {_pandas_columns(frame, None)}"
    if type(value) is library_class("polars", "DataFrame"):
        return f"{_frame_size('polars', frame)}; columns: {_polars_columns(frame, [])}"
    return ""


def _as_pandas(value: object) -> object:
    """Return a frame or series of a subclass as pandas' own class over the same data.

    The data is taken from the instance itself, so nothing that the subclass overrides is called.
    Anything else, also a subclass that holds no data yet, comes back as it is.
    """
    for name in ("DataFrame", "Series"):
        cls = library_class("pandas", name)
        if cls is None or type(value) is cls or not extends(value, cls):
            continue
        held = attributes_of(value)
        data: Any = held.get("_mgr")
        if library_of(type(data)) == "pandas":
            made: Any = cls._from_mgr(data, data.axes)
            if name == "Series":
                made._name = held.get("_name")
            return made
    return value


def _pandas_frame(frame: Any) -> str:
    lines = [f"{_frame_size('pandas', frame)}{_pandas_memory(frame)}"]
    lines.append(f"columns: {_pandas_columns(frame, _missing(frame))}")
    lines.append(f"index: {_index_line(frame.index)}")
    shown = frame.iloc[:ROWS, :SHOWN_COLUMNS]
    labels = ["", *(_label(label) for label in shown.columns)]
    columns = [shown.index.tolist()]
    for at, dtype in enumerate(shown.dtypes):
        columns.append(_values(shown.iloc[:, at], dtype))
    return "\n".join([*lines, *_table(labels, columns, frame.shape)])


def _pandas_memory(frame: Any) -> str:
    """Return what the frame takes in memory; objects in cells are not followed."""
    if frame.shape[1] > SIZED_COLUMNS:
        return ""
    more = " and its objects" if any(str(dtype) == "object" for dtype in frame.dtypes) else ""
    return f", {in_bytes(int(frame.memory_usage().sum()))}{more}"


def _pandas_columns(frame: Any, missing: Sequence[int] | None) -> str:
    dtypes = frame.iloc[:0, :NAMED_COLUMNS].dtypes
    said = []
    for at, (label, dtype) in enumerate(zip(dtypes.index, dtypes, strict=True)):
        gaps = f" ({missing[at]:,} missing)" if missing and missing[at] else ""
        said.append(f"{_label(label)} {_dtype(dtype)}{gaps}")
    return _listed(said, frame.shape[1])


def _missing(frame: Any) -> list[int] | None:
    """Return the missing values of each column, None if counting them is not cheap and safe."""
    if frame.size > COUNTED_CELLS or frame.shape[1] > NAMED_COLUMNS:
        return None
    if not all(_is_known_dtype(dtype) for dtype in frame.dtypes):
        return None
    return [int(count) for count in frame.isna().sum().tolist()]


def _pandas_series(series: Any) -> str:
    size = f"{len(series):,} values, {in_bytes(int(series.nbytes))}"
    head = f"pandas.Series, {_dtype(series.dtype)}, {size}"
    if series.name is not None:
        head += f", named {_label(series.name)}"
    if len(series) <= COUNTED_CELLS and _is_known_dtype(series.dtype):
        head += f", {int(series.isna().sum()):,} missing"
    values = ", ".join(
        describe(one, depth=0) for one in _values(series.iloc[:VALUES], series.dtype)
    )
    more = ", …" if len(series) > VALUES else ""
    return f"{head}\nindex: {_index_line(series.index)}\nvalues: {values}{more}"


def _index_line(index: Any) -> str:
    head = f"{type(index).__name__}, {_dtype(index.dtype)}, {len(index):,}"
    values = ", ".join(describe(one, depth=1) for one in _values(index[:3], index.dtype))
    more = ", …" if len(index) > 3 else ""
    return f"{head}: {values}{more}" if values else head


def _is_pandas_index(value: object) -> bool:
    base = library_class("pandas", "Index")
    return base is not None and extends(value, base) and _is_of(value, "pandas")


def _polars_frame(frame: Any) -> str:
    columns = [frame[:ROWS, at].to_list() for at in range(min(SHOWN_COLUMNS, frame.width))]
    labels = [_label(name) for name in frame.columns[:SHOWN_COLUMNS]]
    missing = [frame[:, at].null_count() for at in range(min(NAMED_COLUMNS, frame.width))]
    lines = [
        f"{_frame_size('polars', frame)}, {memory_of(frame)}",
        f"columns: {_polars_columns(frame, missing)}",
    ]
    return "\n".join([*lines, *_table(labels, columns, frame.shape)])


def _polars_columns(frame: Any, missing: Sequence[int]) -> str:
    named = list(frame.schema.items())[:NAMED_COLUMNS]
    gaps = [_gaps(count) for count in missing] or [""] * len(named)
    said = [
        f"{_label(name)} {str(kind)[:80]}{gap}"
        for (name, kind), gap in zip(named, gaps, strict=True)
    ]
    return _listed(said, frame.width)


def _polars_series(series: Any) -> str:
    values = ", ".join(describe(one, depth=0) for one in series.head(VALUES).to_list())
    more = ", …" if len(series) > VALUES else ""
    head = f"polars.Series, {series.dtype}, {len(series):,} values, {memory_of(series)}"
    name = f", named {_label(series.name)}" if series.name else ""
    return f"{head}{name}{_gaps(series.null_count(), ', {} missing')}\nvalues: {values}{more}"


def _arrow_table(table: Any) -> str:
    """Return a table's or batch's schema and first rows; extension types are named only."""
    rows, width = int(table.num_rows), int(table.num_columns)
    fields = list(table.schema)[:NAMED_COLUMNS]
    said = [
        f"{_label(field.name)} {str(field.type)[:80]}{_gaps(int(table.column(at).null_count))}"
        for at, field in enumerate(fields)
    ]
    lines = [
        f"{type_name(type(table))}, {rows:,} rows × {width:,} columns, {memory_of(table)}",
        f"columns: {_listed(said, width)}",
    ]
    head = table.slice(0, ROWS)
    columns = [_arrow_values(head.column(at)) for at in range(min(SHOWN_COLUMNS, width))]
    labels = [_label(field.name) for field in fields[:SHOWN_COLUMNS]]
    return "\n".join([*lines, *_table(labels, columns, (rows, width))])


def _arrow_array(array: Any) -> str:
    values = ", ".join(describe(one, depth=0) for one in _arrow_values(array.slice(0, VALUES)))
    more = ", …" if len(array) > VALUES else ""
    head = f"{type_name(type(array))}, {str(array.type)[:80]}, {len(array):,} values"
    gaps = _gaps(int(array.null_count), ", {} missing")
    return f"{head}, {memory_of(array)}{gaps}\nvalues: {values}{more}"


def _arrow_values(array: Any) -> list[object]:
    """Return the values; an extension type may be the user's, whose code is not run."""
    base = library_class("pyarrow", "BaseExtensionType")
    if base is None or extends(array.type, base):
        return ["…"] * len(array)
    found: list[object] = array.to_pylist()
    return found


def _gaps(count: int, words: str = " ({} missing)") -> str:
    return words.format(f"{count:,}") if count else ""


def _frame_size(library: str, frame: Any) -> str:
    rows, columns = frame.shape
    return f"{library}.DataFrame, {rows:,} rows × {columns:,} columns"


def _table(
    labels: Sequence[str], columns: Sequence[list[object]], shape: Sequence[int]
) -> list[str]:
    """Return the first rows as lines of cells joined by ` | `."""
    if not shape[0]:
        return []
    head = f"first {min(ROWS, shape[0])} rows"
    if shape[1] > SHOWN_COLUMNS:
        head += f" of the first {SHOWN_COLUMNS} columns"
    rows = [" | ".join(_cell(one) for one in row) for row in zip(*columns, strict=True)]
    return [f"{head}:", " | ".join(labels), *rows]


def _cell(value: object) -> str:
    if type(value) is str:
        text = " ".join(value[: 2 * CELL_CHARS].split())
    elif is_plain(value):
        text = str(value)
    else:
        text = describe(value, depth=0, text_chars=CELL_CHARS)
    return text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"


def _values(column: Any, dtype: object) -> list[object]:
    """Return a column's values; those of a type we do not know are not asked for."""
    if not _is_known_dtype(dtype):
        return ["…"] * len(column)
    found: list[object] = column.tolist()
    return found


def _is_known_dtype(dtype: object) -> bool:
    return _is_of(dtype, "numpy", "pandas")


def _is_of(value: object, *libraries: str) -> bool:
    """Say whether the value's type is defined by one of the libraries."""
    return module_of(type(value)).partition(".")[0] in libraries


def _dtype(dtype: object) -> str:
    return str(dtype)[:80] if _is_known_dtype(dtype) else type_name(type(dtype))


def _label(label: object) -> str:
    text = label if type(label) is str else describe(label, depth=1)
    return " ".join(text[:120].split())[:60]


def _listed(said: Iterable[str], count: int) -> str:
    shown = list(said)
    if count > len(shown):
        shown.append(f"… {count - len(shown):,} more")
    return ", ".join(shown)
