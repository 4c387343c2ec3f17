"""Language models, each behind `core.ports.Model`; the adapters are imported when one is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..config import DEFAULT_MODEL, DEMO_MODEL, Settings
from ..errors import ConfigError

if TYPE_CHECKING:
    from ..core.ports import Model
    from .addresses import TextRedactor

NAME = re.compile(r"[^\W_][\w.:/@+-]{0,199}")
OPENAI_PREFIXES = ("openai:", "ollama:")
CLOUD_PREFIXES = ("bedrock:", "vertex:")


def choose_model(settings: Settings, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the model to use and, in a few words, why.

    A model that is set is never replaced. Else `claude-sonnet-5-5` if there is a key or a base URL,
    and the demo if there is neither.
    """
    if settings.model:
        return settings.model, "it is set"
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        if environ.get(name, "").strip():
            return DEFAULT_MODEL, f"{name} is set and no model is"
    if settings.base_url:
        return DEFAULT_MODEL, "base_url is set and no model is"
    return DEMO_MODEL, "no model, no ANTHROPIC_API_KEY and no ANTHROPIC_BASE_URL is set"


def make_model(
    name: str, settings: Settings, environ: Mapping[str, str], redactor: TextRedactor
) -> Model:
    """Return the model called `name`.

    `demo`; `openai:NAME` and `ollama:NAME` behind Chat Completions; `bedrock:NAME` and
    `vertex:NAME` on Amazon Bedrock and Vertex AI; any other name behind the Messages API. Nothing
    is asked of the provider yet; a missing key shows at the first call. Raises ConfigError on an
    empty name, a base URL that is none, and where the adapter's SDK is not installed.
    """
    if not name.strip():
        raise ConfigError("The model has no name: set JUPYTER_CTX_MODEL.", name="model")
    if not NAME.fullmatch(name):
        raise ConfigError(f"{name[:40]!r} is no name of a model.", name="model")
    if name == DEMO_MODEL:
        from .demo import DemoModel
        from .facts import find_prices

        return DemoModel(find_prices(name, settings.prices))
    if name.startswith(OPENAI_PREFIXES):
        return _make_openai(name, settings, environ, redactor)
    if name.startswith(CLOUD_PREFIXES):
        return _make_cloud(name, settings, environ, redactor)
    from .anthropic import AnthropicModel

    return AnthropicModel(name, settings, environ, redactor)


def find_url(name: str, settings: Settings, environ: Mapping[str, str]) -> str:
    """Return where requests for model `name` go; "" is the provider's own address, or none.

    Raises ConfigError if what is set is no address.
    """
    from .addresses import check_address, name_address

    family = name.partition(":")[0]
    variable = {
        "openai": "OPENAI_BASE_URL",
        "ollama": "",
        "demo": "",
        "bedrock": "ANTHROPIC_BEDROCK_BASE_URL",
        "vertex": "ANTHROPIC_VERTEX_BASE_URL",
    }.get(family, "ANTHROPIC_BASE_URL")
    url = (settings.base_url or environ.get(variable, "")).strip()
    return check_address(url, name_address(name, settings, variable)) if url else ""


def _make_cloud(
    name: str, settings: Settings, environ: Mapping[str, str], redactor: TextRedactor
) -> Model:
    if name in CLOUD_PREFIXES:
        raise ConfigError(f"{name!r} names no model: write {name}NAME.", name="model")
    from .anthropic_clouds import BedrockModel, VertexModel

    kind = BedrockModel if name.startswith("bedrock:") else VertexModel
    return kind(name, settings, environ, redactor)


def _make_openai(
    name: str, settings: Settings, environ: Mapping[str, str], redactor: TextRedactor
) -> Model:
    if name in OPENAI_PREFIXES:
        raise ConfigError(f"{name!r} names no model: write {name}NAME.", name="model")
    if find_spec("openai") is None:
        raise ConfigError(
            f"Model {name!r} needs OpenAI's SDK: run `pip install openai` and restart the kernel.",
            name="model",
        )
    from .openai import OpenAIModel

    return OpenAIModel(name, settings, environ, redactor)
