"""Arrays and tensors of numpy, torch, scipy.sparse and xarray: shape, type, memory, some values.

What lies on another device, on disk or in a task graph is told by shape and type only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .measures import by, in_bytes, memory_of, shape_of
from .naming import attributes_of, extends, is_a, library_class, library_of, type_name
from .values import describe

VALUES = 10
"""So many values of an array are shown."""

COUNTED_CELLS = 1_000_000
"""Range and missing values are told of an array of at most so many cells: that takes 10 ms."""

VARIABLES = 40
"""So many variables of a dataset are named."""


def describe_array(value: object) -> str | None:
    """Return lines about an array, tensor, sparse matrix or dataset, None if it is none."""
    array = library_class("numpy", "ndarray")
    if array is not None and extends(value, array):
        return _array(value, array)
    library = library_of(type(value))
    if library == "torch" and is_a(value, "torch", "Tensor"):
        return _tensor(value)
    if library == "scipy" and shape_of(value):
        return _sparse(value)
    if library == "xarray" and is_a(value, "xarray", "DataArray"):
        return _labelled_array(value)
    if library == "xarray" and is_a(value, "xarray", "Dataset"):
        return _dataset(value)
    return None


def _array(value: Any, base: Any) -> str:
    """Return lines about a numpy array; one of a subclass is read as a plain one."""
    array = base.view(value, base)  # a method of C: nothing that a subclass overrides is called
    shape = by(array.shape) if array.shape else "a scalar"
    head = f"{type_name(type(value))}, {_dtype(array.dtype)}, {shape}, {in_bytes(array.nbytes)}"
    if type(value) is library_class("numpy", "memmap"):
        return f"{head}, on disk: not read"
    mask: Any = attributes_of(value).get("_mask")
    if library_of(type(value)) == "numpy" and type(mask) is base:
        head += f", {int(mask.sum()):,} masked"
    if array.dtype.kind not in "biufcmMSUO" or not array.size:
        return head
    head += _array_facts(array)
    values = [array.item()] if not array.shape else array.flat[:VALUES].tolist()
    return f"{head}\n{_values(values, array.size)}"


def _array_facts(array: Any) -> str:
    """Return range and missing values where they are cheap to know."""
    if array.size > COUNTED_CELLS or array.size <= VALUES or array.dtype.kind not in "iufmM":
        return ""
    missing = 0
    if array.dtype.kind in "fmM":
        gaps = array != array  # true of NaN and NaT only
        missing = int(gaps.sum())
        array = array[~gaps]
    said = f", {missing:,} missing" if missing else ""
    if array.size:
        said += f", from {_scalar(array.min())} to {_scalar(array.max())}"
    return said


def _scalar(value: Any) -> str:
    return f"{value:g}" if value.dtype.kind == "f" else str(value)


def _values(values: list[object], size: int) -> str:
    said = ", ".join(describe(one, depth=0) for one in values)
    more = f", … {size - len(values):,} more" if size > len(values) else ""
    return f"values: {said}{more}"


def _dtype(dtype: Any) -> str:
    return str(dtype)[:80] if library_of(type(dtype)) else type_name(type(dtype))


def _tensor(tensor: Any) -> str:
    """Return lines about a torch tensor; values only of one that lies in plain memory."""
    head = f"{type_name(type(tensor))}, {shape_of(tensor)}, {memory_of(tensor)}"
    if tensor.requires_grad:
        head += ", requires grad"
    plain = tensor.device.type == "cpu" and str(tensor.layout) == "torch.strided"
    if not plain or tensor.is_quantized or not tensor.numel():
        return f"{head}, {str(tensor.layout).removeprefix('torch.')}" if not plain else head
    flat = tensor.detach()
    while flat.dim() > 1:
        flat = flat[0]
    values = flat[:VALUES].tolist() if flat.dim() else [flat.item()]
    if tensor.numel() <= COUNTED_CELLS and tensor.dtype.is_floating_point:
        missing = int(tensor.detach().isnan().sum())
        head += f", {missing:,} missing" if missing else ""
    return f"{head}\n{_values(values, tensor.numel())}"


def _sparse(matrix: Any) -> str:
    head = f"{type_name(type(matrix))}, {shape_of(matrix)}, {memory_of(matrix)}"
    data: Any = attributes_of(matrix).get("data")
    if type(data) is not library_class("numpy", "ndarray") or data.dtype.kind not in "biufc":
        return head
    shown = data.flat[:VALUES].tolist()
    return f"{head}\nstored {_values(shown, data.size)}" if shown else head


def _labelled_array(array: Any) -> str:
    name = f", named {str(array.name)[:60]}" if array.name is not None else ""
    variable = array.variable
    lines = [f"xarray.DataArray{name}, {_variable(variable)}"]
    lines.extend(_coordinates(array.coords.variables))
    return "\n".join([*lines, *_notes(array.attrs), *_sample(variable)])


def _dataset(dataset: Any) -> str:
    names = list(dataset.data_vars.variables.items())
    lines = [f"xarray.Dataset, {shape_of(dataset)}, {len(names):,} variables"]
    lines.extend(f"{str(name)[:60]}: {_variable(one)}" for name, one in names[:VARIABLES])
    if len(names) > VARIABLES:
        lines.append(f"… {len(names) - VARIABLES:,} more")
    return "\n".join([*lines, *_coordinates(dataset.coords.variables), *_notes(dataset.attrs)])


def _variable(variable: Any) -> str:
    """Return dimensions, type and size; says where the data is if it is not in memory."""
    dims = ", ".join(
        f"{str(name)[:40]} {size:,}"
        for name, size in zip(variable.dims, variable.shape, strict=True)
    )
    place = "" if _is_loaded(variable) else ", not in memory: not read"
    return f"{_dtype(variable.dtype)} ({dims}), {in_bytes(int(variable.nbytes))}{place}"


def _is_loaded(variable: Any) -> bool:
    data = variable._data
    return type(data) is library_class("numpy", "ndarray") or (
        library_of(type(data)) == "xarray" and is_a(variable, "xarray", "IndexVariable")
    )


def _coordinates(coords: Mapping[Any, Any]) -> list[str]:
    said = []
    for name, variable in list(coords.items())[:VARIABLES]:
        first = [line.removeprefix("values: ") for line in _sample(variable)]
        said.append(f"coordinate {str(name)[:60]}: {'; '.join([_variable(variable), *first])}")
    return said


def _sample(variable: Any) -> list[str]:
    """Return the first values of a variable in memory."""
    if not _is_loaded(variable) or not variable.size or variable.dtype.kind not in "biufcmMSU":
        return []
    values = variable.values
    shown = [values.item()] if not values.shape else values.flat[:VALUES].tolist()
    return [_values(shown, int(variable.size))]


def _notes(attrs: Mapping[Any, object]) -> list[str]:
    if not attrs:
        return []
    said = [f"{str(key)[:40]}: {describe(one, depth=0)}" for key, one in list(attrs.items())[:8]]
    return [f"attributes: {'; '.join(said)}"]
