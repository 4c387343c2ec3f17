"""Which model is used, and what making it needs."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from jupyter_ctx.config import make_settings
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.errors import AuthError, ConfigError, UnreachableError
from jupyter_ctx.models import choose_model, find_url, make_model
from jupyter_ctx.models.addresses import PLACEHOLDER_KEY, is_loopback
from jupyter_ctx.models.anthropic import AnthropicModel, find_base_url, find_credentials
from jupyter_ctx.models.sdk_model import SdkModel

NOTHING = Redactor([])


@pytest.mark.parametrize(
    ("model", "environ", "chosen"),
    [
        ("", {}, "demo"),
        ("", {"ANTHROPIC_API_KEY": "  "}, "demo"),
        ("", {"ANTHROPIC_API_KEY": "sk-1"}, "claude-sonnet-5-5"),
        ("", {"ANTHROPIC_AUTH_TOKEN": "tok-1"}, "claude-sonnet-5-5"),
        ("", {"ANTHROPIC_BASE_URL": "http://localhost:1"}, "claude-sonnet-5-5"),
        ("claude-opus-5-5", {}, "claude-opus-5-5"),
        ("demo", {"ANTHROPIC_API_KEY": "sk-1"}, "demo"),
    ],
)
def test_choice_of_model(model: str, environ: dict[str, str], chosen: str) -> None:
    """A set model stays; else Claude with a key or base URL; else the demo; with a reason."""
    name, reason = choose_model(make_settings({"model": model}), environ)

    assert name == chosen
    assert reason
    assert not any(value.strip() and value in reason for value in environ.values())


def test_a_base_url_setting_counts() -> None:
    """A base URL in the settings chooses Claude as the variable does."""
    settings = make_settings({"base_url": "http://localhost:1"})

    assert choose_model(settings, {})[0] == "claude-sonnet-5-5"


def test_the_demo_needs_nothing() -> None:
    """The demo model is made without key or address."""
    assert make_model("demo", make_settings({}), {}, NOTHING).name == "demo"


@pytest.mark.parametrize("name", ["openai:", "ollama:", "", " ", "-x"])
def test_what_names_no_model_is_refused(name: str) -> None:
    """A prefix alone, or no name, is a ConfigError of one sentence."""
    with pytest.raises(ConfigError) as caught:
        make_model(name, make_settings({}), {}, NOTHING)
    assert caught.value.name == "model"


@pytest.mark.parametrize("name", ["claude-sonnet-5-5", "qwen3:8b", "anything"])
def test_any_other_name_is_behind_the_messages_api(name: str) -> None:
    """Every name without one of our prefixes goes to the Messages API as it is."""
    model = make_model(name, make_settings({}), {}, NOTHING)

    assert isinstance(model, AnthropicModel)
    assert model.name == name


@pytest.mark.parametrize(
    "url", ["localhost:8080", "ftp://host", "http://", "http://host:notaport", "nonsense"]
)
def test_a_base_url_that_is_none_is_named(url: str) -> None:
    """An unusable base URL is found when the model is made, and named."""
    with pytest.raises(ConfigError, match="ANTHROPIC_BASE_URL") as caught:
        make_model("claude-sonnet-5-5", make_settings({}), {"ANTHROPIC_BASE_URL": url}, NOTHING)
    assert caught.value.name == "base_url"


def test_the_setting_comes_before_the_variable() -> None:
    """The base URL is the setting's, else the variable's, else Anthropic's."""
    environ = {"ANTHROPIC_BASE_URL": "http://from.env"}

    assert find_base_url(make_settings({"base_url": "http://set"}), environ) == "http://set"
    assert find_base_url(make_settings({}), environ) == "http://from.env"
    assert find_base_url(make_settings({}), {}) == "https://api.anthropic.com"


@pytest.mark.parametrize(
    ("url", "is_local"),
    [
        ("http://localhost:8080", True),
        ("http://LOCALHOST.", True),
        ("http://a.localhost", True),
        ("http://127.0.0.1:1", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:80", True),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://192.168.0.1", False),
        ("https://api.anthropic.com", False),
    ],
)
def test_loopback(url: str, is_local: bool) -> None:
    """Only this machine's own addresses are loopback."""
    assert is_loopback(url) is is_local


def test_no_key_is_an_error_that_names_it(tmp_path: object) -> None:
    """Without a key, a remote provider is an AuthError that names ANTHROPIC_API_KEY."""
    environ = {"ANTHROPIC_CONFIG_DIR": str(tmp_path)}

    with pytest.raises(AuthError, match="ANTHROPIC_API_KEY"):
        find_credentials("https://api.anthropic.com", environ)
    found = find_credentials("http://localhost:1", environ)
    assert found.api_key == PLACEHOLDER_KEY


def test_the_key_comes_before_the_token() -> None:
    """With both set the key is used, as the SDK does; blanks around it are no part of it."""
    both = {"ANTHROPIC_API_KEY": " sk-key\n", "ANTHROPIC_AUTH_TOKEN": "token"}

    assert find_credentials("http://localhost", both).api_key == "sk-key"
    assert find_credentials("http://localhost", both).auth_token is None
    only = {"ANTHROPIC_AUTH_TOKEN": "token"}
    assert find_credentials("http://localhost", only).auth_token == "token"


@pytest.mark.parametrize("key", ["sk-ä", "sk one", "sk\x00one"])
def test_a_key_that_can_be_none_is_not_shown(key: str) -> None:
    """A key with impossible characters is refused by name, its value not quoted."""
    with pytest.raises(AuthError, match="ANTHROPIC_API_KEY") as caught:
        find_credentials("http://localhost", {"ANTHROPIC_API_KEY": key})
    assert key not in str(caught.value)


def test_importing_and_making_a_model_imports_no_sdk() -> None:
    """Neither the SDK nor its transport nor tiktoken is imported before a turn needs them."""
    code = (
        "import sys\n"
        "import jupyter_ctx.models.anthropic, jupyter_ctx.models.counting\n"
        "from jupyter_ctx.models import make_model\n"
        "from jupyter_ctx.config import make_settings\n"
        "from jupyter_ctx.core.redact import Redactor\n"
        "make_model('claude-sonnet-5-5', make_settings({}), {}, Redactor([]))\n"
        "jupyter_ctx.models.counting.TiktokenCounter()\n"
        "heavy = {'anthropic', 'httpx', 'httpx2', 'pydantic', 'tiktoken'} & set(sys.modules)\n"
        "print(sorted(heavy))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["claude-sonnet-5-5", "openai:gpt-5", "ollama:a", "bedrock:a"])
def test_a_fault_of_the_address_names_where_it_was_set(name: str) -> None:
    """The setting `base_url` comes before the variables, so what it holds is its own fault."""
    with pytest.raises(ConfigError, match="check the setting base_url"):
        find_url(name, make_settings({"base_url": "ftp://x"}), {})
    with pytest.raises(ConfigError, match="check the setting base_url"):
        make_model(name, make_settings({"base_url": "ftp://x"}), {}, NOTHING)


async def test_a_closed_port_is_told_with_what_is_to_be_checked() -> None:
    """Nobody is sent to a variable that is not read: Ollama has none, a setting comes before it."""
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{free.getsockname()[1]}"
    free.close()
    for name in ("claude-sonnet-5-5", "openai:a", "ollama:a"):
        model = make_model(name, make_settings({"base_url": url}), {}, NOTHING)
        with pytest.raises(UnreachableError, match="check the network and the setting base_url"):
            await model.load_facts()
        await model.aclose()
    ollama = make_model("ollama:a", make_settings({}), {}, NOTHING)
    assert isinstance(ollama, SdkModel)
    assert ollama._where.address_name == "that Ollama runs there"
    assert ollama._where.url == "http://127.0.0.1:11434/v1"
    await ollama.aclose()


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
def test_a_version_at_the_end_of_anthropics_address_is_left_out(end: str) -> None:
    """The SDK adds `/v1` itself, so an address with one means the same as without."""
    environ = {"ANTHROPIC_BASE_URL": f"http://localhost:8080{end}"}

    assert find_base_url(make_settings({}), environ).rstrip("/") == "http://localhost:8080"


def test_a_missing_key_is_known_before_a_call(tmp_path: object) -> None:
    """Without a key a model says so when it is looked at; a server on this machine needs none."""
    environ = {"ANTHROPIC_CONFIG_DIR": str(tmp_path)}
    local = {**environ, "ANTHROPIC_BASE_URL": "http://localhost:1"}
    for name, variable in (
        ("claude-sonnet-5-5", "ANTHROPIC_API_KEY"),
        ("openai:gpt-5", "OPENAI_API_KEY"),
    ):
        model = make_model(name, make_settings({}), environ, NOTHING)
        assert isinstance(model, SdkModel)
        with pytest.raises(AuthError, match=variable):
            model.check_key()
    found = make_model("claude-sonnet-5-5", make_settings({}), local, NOTHING)
    assert isinstance(found, SdkModel)
    found.check_key()
