"""Settings as traits of one Configurable, `JupyterCtx`: for `%config` and the command line.

The traits are made from the fields of `config.Settings`, and a value is judged by it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets import Bunch, TraitError, TraitType
from traitlets.config import Configurable

from ..config import SETTING_NAMES, Settings, env_name, make_settings, read_env
from ..errors import ConfigError


class SettingTrait(TraitType[Any, Any]):
    """One setting: takes what `Settings` takes, and says why not in its words."""

    def __init__(self, spec: dataclasses.Field[Any]) -> None:
        self._setting = spec.name
        factory = spec.default_factory
        default = spec.default if factory is dataclasses.MISSING else factory()
        super().__init__(default_value=default, help=str(spec.metadata["doc"]))
        self.tag(config=True)

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
        super().__init__(parent=shell, config=shell.config)
        self.observe(self._note)

    def _note(self, change: Bunch) -> None:
        if change.name in SETTING_NAMES:
            self._set.add(change.name)

    def explicit(self) -> dict[str, object]:
        """Return the settings that were set here, those equal to the default included."""
        configured = self.config.get("JupyterCtx", {})
        names = [name for name in SETTING_NAMES if name in self._set or name in configured]
        return {name: getattr(self, name) for name in names}

    def put(self, name: str, value: object) -> None:
        """Set one setting, as `%config` would. Raises ConfigError."""
        try:
            setattr(self, name, value)
        except TraitError as error:
            raise ConfigError(str(error), name=name) from None
        self._set.add(name)


JupyterCtx: type[_Base] = type(
    "JupyterCtx",
    (_Base,),
    {
        "__doc__": _Base.__doc__,
        "__module__": __name__,
        **{spec.name: SettingTrait(spec) for spec in dataclasses.fields(Settings)},
    },
)
