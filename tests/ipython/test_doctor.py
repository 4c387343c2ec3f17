"""Laws of what `/doctor` says of the environment."""

from __future__ import annotations

import pytest

from jupyter_ctx.config import SETTING_NAMES, env_name, unknown_env
from jupyter_ctx.ipython.doctor import (
    find_addition_faults,
    find_environment_faults,
    find_front_end,
)
from jupyter_ctx.surroundings import Offer
from jupyter_ctx.tools.mcp import ServerReport


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


@pytest.mark.parametrize(
    ("has_kernel", "pages", "namespace", "environ", "modules", "level", "said"),
    [
        (False, 0, {}, {}, {}, "ok", "a terminal"),
        (True, 1, {}, {"JPY_SESSION_NAME": "a.ipynb"}, {}, "ok", "a page with the gauge answers"),
        (True, 0, {"__vsc_ipynb_file__": "/a.ipynb"}, {}, {}, "ok", "VS Code, which has no gauge"),
        (True, 0, {}, {}, {"google.colab": None}, "ok", "Colab, which has no gauge"),
        (True, 0, {}, {"JPY_SESSION_NAME": "a.ipynb"}, {}, "warning", "of a Jupyter server; no"),
        (True, 0, {}, {}, {}, "warning", "not known; no page with the gauge has answered"),
    ],
)
def test_the_front_end_is_what_is_known_of_it(
    has_kernel: bool,
    pages: int,
    namespace: dict[str, object],
    environ: dict[str, str],
    modules: dict[str, object],
    level: str,
    said: str,
) -> None:
    """A page that answered, what VS Code and Colab leave behind, else that nobody has said."""
    found = find_front_end(has_kernel, pages, namespace, environ, modules)

    assert found.level == level
    assert found.what.startswith("Front end: ")
    assert said in found.what


def test_what_servers_and_the_folder_lack_is_told() -> None:
    """A server that is not connected and a file that cannot be used are named with the reason."""
    good = ServerReport("good", "a", "x", "connected", "", ("a",), (), ())
    gone = ServerReport("gone", "a", "x", "failed", "the command `x`\nwas not found", (), (), ())
    usable = Offer("skill", "s", "s/SKILL.md", "/s/SKILL.md")
    wrong = Offer("settings", "", "settings.json", "/settings.json", fault="it is no valid JSON")

    server, file = find_addition_faults([good, gone], [usable, wrong])

    assert server.what == "MCP server gone is not connected: the command `x` was not found"
    assert server.advice.endswith("/mcp restart gone")
    assert file.what == "settings.json cannot be used: it is no valid JSON"
    assert {server.level, file.level} == {"warning"}
