"""Laws of `%config JupyterCtx`."""

from __future__ import annotations

import dataclasses

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_ctx.config import SETTING_NAMES, Settings
from jupyter_ctx.ipython.traits import JupyterCtx


def entries(text: str) -> dict[str, str]:
    """Return what the help says of each setting, by name."""
    parts = text.split("\nJupyterCtx.")[1:]
    return {part.partition(":")[0]: part.partition(":")[2].strip() for part in parts}


def test_every_setting_is_told_with_its_default_and_no_inner_name_is() -> None:
    """The help names all settings in the README's order, each with its default."""
    text = JupyterCtx.class_get_help()
    told = entries(text)

    assert tuple(told) == SETTING_NAMES
    for spec in dataclasses.fields(Settings):
        default = getattr(Settings(), spec.name)
        assert told[spec.name].endswith(f"Default: {default!r}")
    assert "_Base" not in text
    assert "SettingTrait" not in text


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("model", "text"),
        ("permissions", "one of 'ask', 'edits', 'auto', 'plan'"),
        ("alpha", "a number"),
        ("tail_tokens", "a whole number"),
        ("prompt_cache", "True or False"),
        ("prices", "a dict"),
    ],
)
def test_the_values_a_setting_takes_are_told(setting: str, kind: str) -> None:
    """Each kind of setting says in words what it takes."""
    assert entries(JupyterCtx.class_get_help())[setting].splitlines()[0] == kind


def test_a_value_that_was_set_is_told_beside_the_default() -> None:
    """What is in force stands before the default once they differ."""
    settings = JupyterCtx(InteractiveShell.instance())
    settings.put("permissions", "plan")
    told = entries(JupyterCtx.class_get_help(settings))

    assert told["permissions"].endswith("Now: 'plan' (default: 'ask')")
    assert told["model"].endswith("Default: ''")
