"""Settings as traits of one Configurable, `JupyterCtx`: for `%config` and the command line.

The traits are made from the fields of `config.Settings`, and a value is judged by it.
"""

from __future__ import annotations

import dataclasses
import typing
from textwrap import fill, indent
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets import Bunch, HasTraits, TraitError, TraitType
from traitlets.config import Configurable

from ..config import (
    SETTING_NAMES,
    Settings,
    describe_meaning,
    env_name,
    make_settings,
    read_env,
)
from ..errors import ConfigError

_HINTS = typing.get_type_hints(Settings)
_KINDS: dict[object, str] = {
    str: "text",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    dict: "a dict",
}


class SettingTrait(TraitType[Any, Any]):
    """One setting: takes what `Settings` takes, and says why not in its words."""

    def __init__(self, spec: dataclasses.Field[Any]) -> None:
        self._setting = spec.name
        factory = spec.default_factory
        default = spec.default if factory is dataclasses.MISSING else factory()
        self._kind = _HINTS[spec.name]
        meaning = describe_meaning(spec.metadata, self._kind)
        super().__init__(default_value=default, help=meaning)
        self.tag(config=True)

    def info(self) -> str:
        """Return what values it takes: "text", "a whole number", "one of ask, edits"."""
        if typing.get_origin(self._kind) is typing.Literal:
            return f"one of {', '.join(map(repr, typing.get_args(self._kind)))}"
        return _KINDS.get(typing.get_origin(self._kind) or self._kind, "a value")

    def validate(self, obj: Any, value: Any) -> Any:
        """Return the value. Raises TraitError with the sentence of ConfigError."""
        try:
            return getattr(make_settings({self._setting: value}), self._setting)
        except ConfigError as error:
            raise TraitError(str(error)) from None

    def from_string(self, s: str) -> Any:
        """Return what a command line or environment means by `s`."""
        try:
            return read_env({env_name(self._setting): s}).get(self._setting, s)
        except ConfigError as error:
            raise TraitError(str(error)) from None


class _Base(Configurable):
    """Settings of jupyter_ctx. Each is also an environment variable: JUPYTER_CTX_MODEL, …"""

    def __init__(self, shell: InteractiveShell) -> None:
        self._set: set[str] = set()
        self._before: dict[str, tuple[object, bool]] = {}
        super().__init__(parent=shell, config=shell.config)
        self.observe(self._note)

    def _note(self, change: Bunch) -> None:
        if change.name in SETTING_NAMES:
            self._set.add(change.name)

    @classmethod
    def class_get_help(cls, inst: HasTraits | None = None) -> str:
        """Return what `%config JupyterCtx` prints: every setting, in the README's order."""
        traits = cls.class_traits(config=True)
        told = [cls.class_get_trait_help(traits[name], inst) for name in SETTING_NAMES]
        return "\n".join([str(cls.__doc__), *told])

    @classmethod
    def class_get_trait_help(
        cls, trait: TraitType[Any, Any], inst: HasTraits | None = None, helptext: str | None = None
    ) -> str:
        """Return a setting's name, the values it takes, what it does, its value and default."""
        default = trait.default_value_repr()
        value = default if inst is None else repr(getattr(inst, str(trait.name)))
        now = f"Default: {default}" if value == default else f"Now: {value} (default: {default})"
        about = fill(helptext or str(trait.help), 76)
        name = f"{cls.__name__}.{trait.name}: {trait.info()}"
        return "\n".join([name, indent(f"{about}\n{now}", "    ")])

    def explicit(self) -> dict[str, object]:
        """Return the settings that were set here, those equal to the default included."""
        configured = self.config.get("JupyterCtx", {})
        names = [name for name in SETTING_NAMES if name in self._set or name in configured]
        return {name: getattr(self, name) for name in names}

    def put(self, name: str, value: object) -> None:
        """Set one setting, as `%config` would; None: as it was before the first `put` of it.

        Raises ConfigError.
        """
        if value is None:
            self._take_back(name)
            return
        was_set = name in self._set
        try:
            before = getattr(self, name) if name in SETTING_NAMES else None
            setattr(self, name, value)
        except TraitError as error:
            raise ConfigError(str(error), name=name) from None
        self._before.setdefault(name, (before, was_set))
        self._set.add(name)

    def _take_back(self, name: str) -> None:
        if name in self._before:
            value, was_set = self._before.pop(name)
            setattr(self, name, value)
            if not was_set:
                self._set.discard(name)


JupyterCtx: type[_Base] = type(
    "JupyterCtx",
    (_Base,),
    {
        "__doc__": _Base.__doc__,
        "__module__": __name__,
        **{spec.name: SettingTrait(spec) for spec in dataclasses.fields(Settings)},
    },
)
