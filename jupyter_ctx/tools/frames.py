"""Arrays, series and frames of numpy, pandas and polars: shape, types, a few rows.

Works on the exact classes only, of libraries that are loaded already; nothing lazy is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .values import describe, extends, is_plain, library_class, module_of, type_name

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
    """Return lines about an array, series, index or frame, None if `value` is none of those."""
    known: dict[tuple[str, str], Callable[[Any], str]] = {
        ("numpy", "ndarray"): _array,
        ("pandas", "DataFrame"): _pandas_frame,
        ("pandas", "Series"): _pandas_series,
        ("polars", "DataFrame"): _polars_frame,
        ("polars", "Series"): _polars_series,
        ("polars", "LazyFrame"): lambda _: "polars.LazyFrame, lazy: not computed",
    }
    for (library, name), tell in known.items():
        if type(value) is library_class(library, name):
            return tell(value)
    if _is_pandas_index(value):
        return _pandas_index(value)
    return None


def describe_columns(value: object) -> str:
    """Return a frame's size and its columns with their types in one line, "" if it is no frame."""
    frame: Any = value
    if type(value) is library_class("pandas", "DataFrame"):
        return f"{_frame_size('pandas', frame)}; columns: {_pandas_columns(frame, None)}"
    if type(value) is library_class("polars", "DataFrame"):
        return f"{_frame_size('polars', frame)}; columns: {_polars_columns(frame)}"
    return ""


def _array(array: Any) -> str:
    shape = " × ".join(f"{edge:,}" for edge in array.shape) or "a scalar"
    head = f"numpy.ndarray, {_dtype(array.dtype)}, {shape}"
    if array.dtype.kind not in "biufcmMSUO" or not array.size:
        return head
    values = [array.item()] if not array.shape else array.flat[:VALUES].tolist()
    said = ", ".join(describe(one, depth=0) for one in values)
    more = f", … {array.size - len(values):,} more" if array.size > len(values) else ""
    return f"{head}\nvalues: {said}{more}"


def _pandas_frame(frame: Any) -> str:
    lines = [_frame_size("pandas", frame)]
    lines.append(f"columns: {_pandas_columns(frame, _missing(frame))}")
    lines.append(f"index: {_index_line(frame.index)}")
    shown = frame.iloc[:ROWS, :SHOWN_COLUMNS]
    labels = ["", *(_label(label) for label in shown.columns)]
    columns = [shown.index.tolist()]
    for at, dtype in enumerate(shown.dtypes):
        columns.append(_values(shown.iloc[:, at], dtype))
    return "\n".join([*lines, *_table(labels, columns, frame.shape)])


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
    head = f"pandas.Series, {_dtype(series.dtype)}, {len(series):,} values"
    if series.name is not None:
        head += f", named {_label(series.name)}"
    if len(series) <= COUNTED_CELLS and _is_known_dtype(series.dtype):
        head += f", {int(series.isna().sum()):,} missing"
    values = ", ".join(
        describe(one, depth=0) for one in _values(series.iloc[:VALUES], series.dtype)
    )
    more = ", …" if len(series) > VALUES else ""
    return f"{head}\nindex: {_index_line(series.index)}\nvalues: {values}{more}"


def _pandas_index(index: Any) -> str:
    return _index_line(index)


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
    lines = [_frame_size("polars", frame), f"columns: {_polars_columns(frame)}"]
    return "\n".join([*lines, *_table(labels, columns, frame.shape)])


def _polars_columns(frame: Any) -> str:
    named = list(frame.schema.items())[:NAMED_COLUMNS]
    return _listed([f"{_label(name)} {dtype}" for name, dtype in named], frame.width)


def _polars_series(series: Any) -> str:
    values = ", ".join(describe(one, depth=0) for one in series.head(VALUES).to_list())
    more = ", …" if len(series) > VALUES else ""
    return f"polars.Series, {series.dtype}, {len(series):,} values\nvalues: {values}{more}"


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
