"""Figures, fitted models and networks: what they show and what they hold."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any

from .measures import count_parameters, counted, shape_of
from .naming import (
    attributes_of,
    dict_of,
    is_a,
    library_of,
    mro_of,
    type_name,
)
from .values import describe

PARTS = 20
"""So many parameters, layers or axes are told."""


def describe_object(value: object) -> str | None:
    """Return lines about a figure, axes, estimator or network, None if `value` is none."""
    if library_of(type(value)) == "matplotlib":
        if is_a(value, "matplotlib.figure", "Figure"):
            return _figure(value)
        if is_a(value, "matplotlib.axes", "Axes"):
            return f"{type_name(type(value))}\n{_axes(value)}"
    if is_a(value, "sklearn.base", "BaseEstimator"):
        return _estimator(value)
    if is_a(value, "torch.nn", "Module"):
        return _network(value)
    return None


def _figure(figure: Any) -> str:
    width, height = figure.get_size_inches()
    axes = list(figure.axes)
    size = f"{width:g} × {height:g} in at {figure.dpi:g} dpi"
    lines = [f"{type_name(type(figure))}, {size}, {len(axes)} axes"]
    if title := figure.get_suptitle():
        lines[0] += f', "{str(title)[:200]}"'
    lines.extend(f"axes {n}: {_axes(one)}" for n, one in enumerate(axes[:PARTS], 1))
    return "\n".join([*lines, *_left_out(len(axes))])


def _axes(axes: Any) -> str:
    """Return title, labels and what is drawn, of axes of matplotlib's own."""
    if library_of(type(axes)) not in ("matplotlib", "mpl_toolkits"):
        return type_name(type(axes))
    words = [("title", axes.get_title()), ("x", axes.get_xlabel()), ("y", axes.get_ylabel())]
    said = [f'{name} "{str(text)[:100]}"' for name, text in words if text]
    drawn = [
        ("line", axes.lines),
        ("patch", axes.patches),
        ("collection", axes.collections),
        ("image", axes.images),
    ]
    said.extend(counted(len(list(parts)), name) for name, parts in drawn if len(list(parts)))
    if (legend := axes.get_legend()) is not None:
        names = ", ".join(str(text.get_text())[:40] for text in legend.get_texts()[:PARTS])
        said.append(f"legend: {names}")
    return ", ".join(said) or "empty"


def _estimator(model: object) -> str:
    """Return parameters that are not the default, steps, and what fitting added.

    All of it is read from the instance's own attributes, so the class may be anybody's.
    """
    held = attributes_of(model)
    fitted = {k: one for k, one in held.items() if k.endswith("_") and not k.startswith("_")}
    given = {k: one for k, one in held.items() if not k.endswith("_") and not k.startswith("_")}
    defaults = _defaults(type(model))
    changed = {k: one for k, one in given.items() if k not in defaults or one is not defaults[k]}
    steps = changed.pop("steps", None)
    state = "fitted" if fitted or _is_fitted(steps) else "not fitted"
    lines = [f"{type_name(type(model))}, a scikit-learn estimator, {state}"]
    if changed:
        lines.append(f"parameters: {_listed(changed)}")
    if type(steps) is list:
        lines.append(f"steps: {', '.join(_step(step) for step in steps[:PARTS])}")
    if fitted:
        lines.append(f"after fitting: {_listed(fitted)}")
    return "\n".join(lines)


def _defaults(cls: type) -> dict[str, object]:
    """Return the defaults of the constructor's parameters."""
    for base in mro_of(cls):
        init = dict_of(base).get("__init__")
        if type(init) is types.FunctionType:
            code = init.__code__
            names = code.co_varnames[: code.co_argcount]
            found: dict[str, object] = dict(init.__kwdefaults__ or {})
            given = list(init.__defaults__ or ())
            found.update(zip(names[len(names) - len(given) :], given, strict=True))
            return found
    return {}


def _is_fitted(steps: object) -> bool:
    """Say whether the last step of a pipeline is fitted."""
    if type(steps) is not list or not steps or type(steps[-1]) is not tuple:
        return False
    held = attributes_of(steps[-1][-1])
    return any(name.endswith("_") and not name.startswith("_") for name in held)


def _step(step: object) -> str:
    if type(step) is tuple and len(step) >= 2 and type(step[0]) is str:
        return f"{step[0][:40]} {type_name(type(step[1]))}"
    return type_name(type(step))


def _network(network: object) -> str:
    """Return the number of parameters, the mode and the layers of a torch module."""
    held = attributes_of(network)
    mode = ", training" if held.get("training") is True else ""
    size = counted(count_parameters(network), "parameter")
    layers = held.get("_modules")
    parts = list(dict.items(layers)) if isinstance(layers, dict) else []
    lines = [f"{type_name(type(network))}, a torch module, {size}{mode}"]
    for name, one in parts[:PARTS]:
        count = count_parameters(one)
        lines.append(f"{str(name)[:40]}: {type_name(type(one))}, {counted(count, 'parameter')}")
    lines.extend(_left_out(len(parts)))
    plain = {k: v for k, v in held.items() if not k.startswith("_") and k != "training"}
    return "\n".join([*lines, f"attributes: {_listed(plain)}"] if plain else lines)


def _listed(values: Mapping[str, object]) -> str:
    said = [f"{name}={_short(one)}" for name, one in list(values.items())[:PARTS]]
    return ", ".join([*said, *_left_out(len(values))])


def _short(value: object) -> str:
    shape = shape_of(value)
    if shape and type_name(type(value)) == "numpy.ndarray":
        return f"<{shape}>"
    return describe(value, depth=1)


def _left_out(count: int) -> Iterable[str]:
    return [f"… {count - PARTS:,} more"] if count > PARTS else []
