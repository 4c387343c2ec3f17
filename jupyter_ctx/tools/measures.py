"""What a value measures: its shape and its bytes, told without computing anything.

Only the exact built-in containers and classes that loaded libraries define themselves are asked;
what is lazy or remote is asked only for what its own object holds already.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .naming import attributes_of, extends, library_class, library_of

SIZED_COLUMNS = 1_000
"""A frame with more columns is not asked for its size in bytes: that takes a step a column."""

COUNTED_MODULES = 10_000
"""The parameters of a network are counted in at most so many of its modules."""

_COUNTED: Mapping[type, str] = {
    list: "item",
    tuple: "item",
    set: "item",
    frozenset: "item",
    dict: "item",
    collections.OrderedDict: "item",
    collections.defaultdict: "item",
    collections.Counter: "item",
    collections.deque: "item",
    str: "character",
    bytes: "byte",
    bytearray: "byte",
}


def shape_of(value: object) -> str:
    """Return what the value measures: `1,000 × 3`, `5 items`, `float64 100 × 2`; "" if not safe."""
    for cls, unit in _COUNTED.items():
        if type(value) is cls:
            measured: Any = value
            return counted(len(measured), unit)
    kind = _kind_of(value)
    return str(kind.shape(value)) if kind else ""


def memory_of(value: object) -> str:
    """Return the size in memory (`8.0 MB`), shallow for object columns; "" if not known cheaply."""
    kind = _kind_of(value)
    count = kind.size(value) if kind else None
    return "" if count is None else in_bytes(count)


def counted(count: int, unit: str) -> str:
    """Return `1 item`, `2 items`."""
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def in_bytes(count: float) -> str:
    """Return a size as a person reads it: `32 B`, `8.0 MB`."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1_000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1_000
    return f"{size:.1f} TB"


def by(shape: Iterable[object]) -> str:
    """Return `1,000 × 3`; an edge that is not known is `?`."""
    edges = (f"{edge:,}" if type(edge) is int else "?" for edge in shape)
    return " × ".join(edges) or "scalar"


def count_parameters(network: object) -> int:
    """Return the number of parameters of a torch module, from what its attributes hold."""
    total, waiting, seen = 0, [network], set[int]()
    while waiting and len(seen) < COUNTED_MODULES:
        module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        held = attributes_of(module)
        for tensor in _entries(held.get("_parameters")).values():
            if id(tensor) not in seen and library_of(type(tensor)) == "torch":
                seen.add(id(tensor))
                known: Any = tensor
                total += int(known.numel())
        waiting.extend(_entries(held.get("_modules")).values())
    return total


def workers_of(client: object) -> dict[str, object]:
    """Return the workers of a Dask client or cluster as it last heard of them, by address."""
    for known in _identities(client):
        if workers := _entries(known.get("workers")):
            return workers
    return {}


def address_of(client: object) -> str:
    """Return the address of a Dask client's or cluster's scheduler, "" if it has none."""
    for known in _identities(client):
        if type(address := known.get("address")) is str:
            return address
    return ""


def _identities(client: object) -> Iterator[dict[str, object]]:
    """Yield what a client or cluster knows of its scheduler, what is kept up to date first."""
    held = attributes_of(client)
    yield _entries(attributes_of(held.get("cluster")).get("scheduler_info"))
    yield _entries(held.get("scheduler_info"))
    yield _entries(held.get("_scheduler_identity"))


def _entries(mapping: Any) -> dict[str, object]:
    return dict(dict.items(mapping)) if extends(mapping, dict) else {}


# What is asked, by class --------------------------------------------------------------------------

_Ask = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A class that is measured, with its subclasses of trusted libraries.

    `shape` gives a text, `size` the bytes or None.
    """

    module: str
    name: str
    shape: _Ask
    size: _Ask = lambda _: None


def _typed(value: Any) -> str:
    return f"{str(value.dtype)[:80]} {by(value.shape)}"


def _frame_bytes(frame: Any) -> int | None:
    if frame.shape[1] > SIZED_COLUMNS:
        return None
    return int(frame.memory_usage(index=False).sum())


def _tensor(tensor: Any) -> str:
    kind = str(tensor.dtype).removeprefix("torch.")
    device = "" if tensor.device.type == "cpu" else f" on {tensor.device}"
    return f"{kind} {by(tuple(tensor.shape))}{device}"


def _tensor_bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _network(network: Any) -> str:
    return counted(count_parameters(network), "parameter")


def _sparse(matrix: Any) -> str:
    return f"{_typed(matrix)}, {int(matrix.nnz):,} stored"


def _sparse_bytes(matrix: Any) -> int:
    held = attributes_of(matrix)
    parts = [one for one in held.values() if library_of(type(one)) == "numpy"]
    parts.extend(one for one in held.get("coords", ()) if library_of(type(one)) == "numpy")
    return sum(int(getattr(one, "nbytes", 0)) for one in parts)


def _rows(table: Any) -> str:
    return by((int(table.num_rows), int(table.num_columns)))


def _dims(data: Any) -> str:
    return ", ".join(f"{str(name)[:40]} {size:,}" for name, size in dict(data.sizes).items())


def _client(client: Any) -> str:
    return f"{address_of(client)}, {counted(len(workers_of(client)), 'worker')}"


def _spark(session: Any) -> str:
    held = attributes_of(session)
    master = (attributes_of(held["_sc"]) if "_sc" in held else held).get("master")
    return str(master)[:200] if type(master) is str else ""


def _ray(context: Any) -> str:
    address = context.address_info.get("address")
    return str(address)[:200] if type(address) is str else ""


_NBYTES: _Ask = lambda value: int(value.nbytes)  # noqa: E731  # one word for the table below
_TABLE: tuple[_Kind, ...] = (
    _Kind("numpy", "ndarray", _typed, _NBYTES),
    _Kind("pandas", "DataFrame", lambda frame: by(frame.shape), _frame_bytes),
    _Kind("pandas", "Series", _typed, _NBYTES),
    _Kind("pandas", "Index", lambda index: f"{index.dtype} {len(index):,}", _NBYTES),
    _Kind("polars", "DataFrame", lambda f: by(f.shape), lambda f: int(f.estimated_size())),
    _Kind("polars", "Series", _typed, lambda series: int(series.estimated_size())),
    _Kind("pyarrow", "Table", _rows, _NBYTES),
    _Kind("pyarrow", "RecordBatch", _rows, _NBYTES),
    _Kind("pyarrow", "Array", lambda array: f"{array.type} {len(array):,}"[:120], _NBYTES),
    _Kind("pyarrow", "ChunkedArray", lambda array: f"{array.type} {len(array):,}"[:120], _NBYTES),
    _Kind("torch", "Tensor", _tensor, _tensor_bytes),
    _Kind("torch.nn", "Module", _network),
    _Kind("scipy.sparse", "spmatrix", _sparse, _sparse_bytes),
    _Kind("scipy.sparse", "sparray", _sparse, _sparse_bytes),
    _Kind("xarray", "Dataset", _dims, _NBYTES),
    _Kind("xarray", "DataArray", _dims, _NBYTES),
    _Kind("dask.array", "Array", lambda array: f"{_typed(array)}, lazy"),
    _Kind("distributed", "Client", _client),
    _Kind("distributed.deploy.cluster", "Cluster", _client),
    _Kind("pyspark.sql", "SparkSession", _spark),
    _Kind("pyspark", "SparkContext", _spark),
    _Kind("ray._private.worker", "RayContext", _ray),
)

_TRUSTED = frozenset({"geopandas", *(kind.module.partition(".")[0] for kind in _TABLE)})


def _kind_of(value: object) -> _Kind | None:
    """Return how the value is measured, None if it is nothing we know to be safe."""
    if library_of(type(value)) not in _TRUSTED:
        return None
    for kind in _TABLE:
        cls = library_class(kind.module, kind.name)
        if cls is not None and extends(value, cls):
            return kind
    return None
