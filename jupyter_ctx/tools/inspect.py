"""`inspect`: looks at variables of the user's kernel without running code of theirs."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.blocks import Json
from ..core.ports import Kernel, ToolOutput, ToolSpec
from ..errors import ToolError
from .arrays import describe_array
from .base import Tool, find_near, load_description, make_schema, quote_names
from .frames import describe_table
from .handles import describe_handle
from .lazy import describe_lazy
from .naming import attributes_of, dict_of, extends, mro_of, type_name
from .objects import describe_object
from .patience import within
from .terminal import resolve
from .values import built_in_of, describe, size_of

MAX_NAMES = 50
"""So many names in one call."""

VALUE_CHARS = 6_000
"""Longest description of one value, in characters."""

MEMBERS = 20
"""So many attributes or methods are named."""

_MODULE_DICT: Any = vars(types.ModuleType)["__dict__"]

STRING_CHARS = 500
"""Of a string that is inspected by itself so many characters are shown."""


def make_inspect(kernel: Kernel) -> Tool:
    """Return the tool `inspect`."""

    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        names = [str(name) for name in arguments["names"]]  # type: ignore[attr-defined]  # by schema
        text = await kernel.on_main(lambda namespace: inspect_names(namespace, names))
        return ToolOutput(text)

    names = {
        "type": "array",
        "items": {"type": "string", "minLength": 1},
        "minItems": 1,
        "maxItems": MAX_NAMES,
        "description": "Names only, no expressions.",
    }
    spec = ToolSpec(
        "inspect",
        load_description("inspect"),
        make_schema({"names": names}, ["names"]),
        reads_only=True,
    )
    return Tool(spec, run)


def inspect_names(namespace: Mapping[str, object], names: Sequence[str]) -> str:
    """Return what the named values are. Raises ToolError if none of the names is bound."""
    known = [name for name in list(namespace) if type(name) is str and not name.startswith("_")]
    parts = []
    found = 0
    for name in dict.fromkeys(names):
        if name in namespace:
            found += 1
            parts.append(f"{name}: {inspect_value(namespace[name])}")
        else:
            parts.append(_unknown(name, known))
    if not found:
        raise ToolError(" ".join(parts))
    return "\n\n".join(parts)


def inspect_value(value: object) -> str:
    """Return what `value` is: type, size, a part of its content; at most VALUE_CHARS characters."""
    try:
        text = resolve(within(lambda: _tell(value)))
    except Exception as error:
        # A known type that is broken or blocks inside must not end the turn (DESIGN section 9).
        said = str(error) if type(error) in (TimeoutError, RuntimeError) else ""
        why = f"{type_name(type(error))}{f': {said[:200]}' if said else ''}"
        text = f"{type_name(type(value))}; it could not be looked into: {why}"
    return text if len(text) <= VALUE_CHARS else text[: VALUE_CHARS - 1] + "…"


def _unknown(name: str, known: Sequence[str]) -> str:
    if not name.isidentifier():
        return f"`{name[:80]}` is no name; use run_code for an expression."
    near = quote_names(find_near(name, known))
    return f"There is no variable `{name[:80]}`." + (f" Nearest: {near}." if near else "")


def _tell(value: object) -> str:
    for tell in (describe_table, describe_array, describe_lazy, describe_object, describe_handle):
        if (said := tell(value)) is not None:
            return said
    if extends(value, types.ModuleType):
        return _module(value)
    if type(value) is types.FunctionType:
        return _function(value)
    if type(value) is types.MethodType:
        bound: Any = value
        return f"method of a {type_name(type(bound.__self__))}: {_tell(bound.__func__)}"
    if type(value) is types.BuiltinFunctionType:
        return f"built-in function {value.__name__}"
    if extends(value, type):
        return _class(value)
    if built_in_of(value) is not None:
        size = size_of(value)
        head = f"{type_name(type(value))}, {size}\n" if size else f"{type_name(type(value))} "
        return f"{head}{describe(value, text_chars=STRING_CHARS)}"
    said = describe(value)
    if not said.startswith("<"):
        name = type_name(type(value))
        return said if said.startswith(name) else f"{name} {said}"
    return _object(value)


def _module(module: object) -> str:
    """Return name and version, read past a module that loads itself at the first look."""
    attributes: Mapping[str, object] = _MODULE_DICT.__get__(module)
    name, version = attributes.get("__name__"), attributes.get("__version__")
    said = f"module {name}" if type(name) is str else "module"
    return f"{said} {version}" if type(version) is str else said


def _function(function: types.FunctionType) -> str:
    """Return name, parameters, place and first line of documentation."""
    code = function.__code__
    lines = [
        f"function {function.__qualname__}({_parameters(function)})",
        f"defined in {code.co_filename}, line {code.co_firstlineno}",
        *_first_doc_line(function.__doc__),
    ]
    return "\n".join(lines)


def _parameters(function: types.FunctionType) -> str:
    """Return the parameters; annotations are left out, as writing them runs their code."""
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    defaults: dict[str, object] = {}
    if function.__defaults__:
        given = list(tuple.__iter__(function.__defaults__))
        defaults.update(zip(positional[-len(given) :], given, strict=True))
    defaults.update(function.__kwdefaults__ or {})
    parts = [_parameter(name, defaults) for name in positional]
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    end = code.co_argcount + code.co_kwonlyargcount
    rest = list(code.co_varnames[end:])
    if code.co_flags & 0x04:  # *args
        parts.append(f"*{rest.pop(0)}")
    elif code.co_kwonlyargcount:
        parts.append("*")
    parts.extend(_parameter(name, defaults) for name in code.co_varnames[code.co_argcount : end])
    if code.co_flags & 0x08:  # **kwargs
        parts.append(f"**{rest.pop(0)}")
    return ", ".join(parts)


def _parameter(name: str, defaults: Mapping[str, object]) -> str:
    return f"{name}={describe(defaults[name], depth=0)}" if name in defaults else name


def _class(cls: Any) -> str:
    bases = ", ".join(type_name(base) for base in mro_of(cls)[1:-1][:5])
    own = dict_of(cls)
    methods = [name for name, one in own.items() if type(one) is types.FunctionType]
    public = [name for name in methods if not name.startswith("_")]
    lines = [f"class {type_name(cls)}({bases})", *_first_doc_line(own.get("__doc__"))]
    if public:
        lines.append(f"methods: {_some(public)}")
    return "\n".join(lines)


def _object(value: object) -> str:
    """Return the type, its bases, and the names and types of the instance's own attributes."""
    cls = type(value)
    bases = [type_name(base) for base in mro_of(cls)[1:-1][:3]]
    lines = [type_name(cls) + (f" (a {', '.join(bases)})" if bases else "")]
    lines.extend(_first_doc_line(dict_of(cls).get("__doc__")))
    attributes = attributes_of(value)
    if attributes:
        said = [f"{name}: {type_name(type(one))}" for name, one in attributes.items()]
        lines.append(f"attributes: {_some(said)}")
    lines.append("Its content was not looked into; use run_code for that.")
    return "\n".join(lines)


def _first_doc_line(doc: object) -> list[str]:
    if type(doc) is not str:
        return []
    line = next((line.strip() for line in doc[:2_000].split("\n") if line.strip()), "")
    return [line[:200]] if line else []


def _some(names: Sequence[str]) -> str:
    more = f", … {len(names) - MEMBERS} more" if len(names) > MEMBERS else ""
    return ", ".join(names[:MEMBERS]) + more
