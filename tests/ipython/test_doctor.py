"""Laws of what `/doctor` says of the environment."""

from __future__ import annotations

import pytest

from jupyter_ctx.config import SETTING_NAMES, env_name, unknown_env
from jupyter_ctx.ipython.doctor import find_environment_faults


def test_every_variable_that_means_something_is_known() -> None:
    """No setting's variable is reported, nor the switch of the cache, nor what is not ours."""
    names = [*map(env_name, SETTING_NAMES), "JUPYTER_CTX_DISABLE_PROMPT_CACHE", "JUPYTER_PATH"]

    assert unknown_env(dict.fromkeys(names, "1")) == {}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("JUPYTER_CTX_MODLE", "JUPYTER_CTX_MODEL"),
        ("JUPYTER_CTX_PERMISSION", "JUPYTER_CTX_PERMISSIONS"),
        ("jupyter_ctx_home", "JUPYTER_CTX_HOME"),
        ("JUPYTER_CTX_NO_PROMPT_CACHE", "JUPYTER_CTX_PROMPT_CACHE"),
    ],
)
def test_a_mistyped_variable_is_named_with_the_nearest(name: str, nearest: str) -> None:
    """A name that only looks like one of ours is told, its value never."""
    (found,) = find_environment_faults({name: "a-secret"})

    assert found.level == "warning"
    assert name in found.what
    assert found.advice.startswith(f"Nearest: {nearest}")
    assert "a-secret" not in found.what + found.advice
