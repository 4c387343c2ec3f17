"""Names types, and says which are what they claim to be, without running code of theirs.

The one place where a type gets its name: for `inspect` and for the list of live names. Libraries
are recognised by what is loaded already; nothing is imported.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any

_MODULE_DICT: Any = vars(types.ModuleType)["__dict__"]
_SAFE_SLOTS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def mro_of(cls: type) -> tuple[type, ...]:
    """Return the class's bases in order, past a metaclass that would say something else."""
    found: tuple[type, ...] = type.__dict__["__mro__"].__get__(cls)
    return found


def dict_of(cls: type) -> Mapping[str, object]:
    """Return the class's own attributes."""
    found: Mapping[str, object] = type.__dict__["__dict__"].__get__(cls)
    return found


def module_of(cls: type) -> str:
    """Return the name of the module the class says it is from, "" if it says nothing."""
    module = type.__dict__["__module__"].__get__(cls)
    return module if type(module) is str else ""


def type_name(cls: type) -> str:
    """Return the type as one would import it: `pandas.DataFrame`, `sklearn.svm.SVC`, `Point`.

    That is the shortest loaded package that has the class under its name, else the module it says
    it is from; nothing for built-ins and for classes of a cell. Imports nothing.
    """
    name = str(type.__dict__["__qualname__"].__get__(cls))[:200]
    module = module_of(cls)
    if module in ("", "builtins", "__main__"):
        return name
    parts = module.split(".")
    for end in range(1, min(len(parts), 8)):
        package = ".".join(parts[:end])
        if library_value(package, name) is cls:
            return f"{package}.{name}"
    return f"{module}.{name}"[:200]


def library_of(cls: type) -> str:
    """Return the package that defines the class, "" if no loaded module has it where it says.

    A class of a cell or of the user's own module may say that it is numpy's.
    """
    module = module_of(cls)
    name = type.__dict__["__qualname__"].__get__(cls)
    return module.partition(".")[0] if library_value(module, str(name)) is cls else ""


def attributes_of(value: object) -> dict[str, Any]:
    """Return the instance's own attributes, read without its `__getattribute__` or properties."""
    for base in mro_of(type(value)):
        slot: Any = dict_of(base).get("__dict__")
        if slot is not None:
            if not any(type(slot) is safe for safe in _SAFE_SLOTS):
                return {}  # a property of the class's own
            found = slot.__get__(value)
            return {name: one for name, one in list(dict.items(found)) if type(name) is str}
    return {}


def extends(value: object, base: type) -> bool:
    """Say whether the value's type is `base` or a subclass of it, whatever its `__class__` says."""
    return any(one is base for one in mro_of(type(value)))


def library_class(library: str, name: str) -> Any:
    """Return a class of a library that is loaded already, None if it is not; imports nothing."""
    found = library_value(library, name)
    return found if extends(found, type) else None


def library_value(library: str, name: str) -> object:
    """Return what a loaded library calls `name`, None if there is no such thing."""
    module = sys.modules.get(library)
    if not extends(module, types.ModuleType):
        return None
    found: Mapping[str, object] = _MODULE_DICT.__get__(module)  # past one that loads itself
    return found.get(name)


def is_a(value: object, module: str, name: str) -> bool:
    """Say whether the value is of a loaded library's class or of a subclass; imports nothing."""
    cls = library_class(module, name)
    return cls is not None and extends(value, cls)
