"""What a compatible or local server tells of its model: window, output limit, sight.

Neither protocol has a word for any of it, so each server is asked in its own: the fields that
vLLM, LM Studio, OpenRouter and others put into `GET /v1/models`, llama.cpp's `/props`, LM Studio's
`/api/v0/models/NAME`, Ollama's `/api/show` and `/api/ps`. What none of them says stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlsplit

from ..core.blocks import Json
from ..core.ports import ModelFacts
from ..core.preview import clean_text, name_line
from ..errors import AuthError, ModelError, RateLimitedError, StreamBrokenError, UnreachableError
from . import NAME
from .addresses import is_loopback
from .wiretext import as_object, as_text, some_tokens

Ask: TypeAlias = Callable[[str, Json | None], Awaitable[Json]]
"""Asks one address: GET, or POST of a body; {} where the server has no such thing."""

OLLAMA_PORT: Final = 11_434
OFFICIAL_HOST: Final = "api.openai.com"
WINDOW_FIELDS: Final = (
    "max_model_len",  # vLLM, SGLang
    "loaded_context_length",  # LM Studio
    "context_length",  # OpenRouter, Together
    "context_window",  # Groq
    "max_context_length",  # Mistral
)
MOST_LISTED: Final = 12
MOST_NAME: Final = 100
"""So many characters of the name that a server gives to its only model are shown."""
OUTPUT_FIELDS: Final = ("max_completion_tokens", "max_output_tokens", "max_output_length")

FACTS_TIMEOUT_S: Final = 10.0
"""For questions a turn can do without: facts of the model and a count."""
LOAD_TIMEOUT_S: Final = 120.0
"""How long Ollama may take to load the model, which the first turn would wait for anyway."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a server said of a model; None: nothing.

    `serves` is the only model it lists where that has another name, "" else. `listed` are the names
    of all that it lists, none of a catalogue of more than `MOST_LISTED`.
    """

    window_tokens: int | None = None
    max_output_tokens: int | None = None
    sees_images: bool | None = None
    serves: str = ""
    listed: tuple[str, ...] = ()

    def over(self, facts: ModelFacts, prefix: str = "") -> ModelFacts:
        """Return `facts` with what was told in place of the table's.

        `prefix` is what stands before the names that the server lists where they are ours.
        """
        window, output = self.window_tokens, self.max_output_tokens
        return replace(
            facts,
            window_tokens=window or facts.window_tokens,
            window_source="server" if window else facts.window_source,
            max_output_tokens=output or facts.max_output_tokens,
            label=f"{facts.name}, for which the server has {self.serves}"
            if self.serves
            else facts.label,
            listed=tuple(f"{prefix}{name}" for name in self.listed),
        )

    def or_else(self, other: Told) -> Told:
        """Return this, and what `other` says where it says nothing."""
        sees = other.sees_images if self.sees_images is None else self.sees_images
        return Told(
            self.window_tokens or other.window_tokens,
            self.max_output_tokens or other.max_output_tokens,
            sees,
            self.serves or other.serves,
            self.listed or other.listed,
        )


async def ask_address(
    client: Any,
    translated: Callable[[Awaitable[object]], Awaitable[object]],
    url: str,
    body: Json | None,
    most_s: float,
) -> Json:
    """Ask one address by an SDK's client, and take no usable answer for {}.

    `translated` awaits a call of the SDK and raises its errors as ours; the SDKs' `get` and `post`
    are the same. `most_s` is the longest it may take in seconds, 0: as long as its kind may. Raises
    ModelErrors that any other call would meet too: of the key, the network, the rate.
    """
    seconds = LOAD_TIMEOUT_S if url.endswith("/api/generate") else FACTS_TIMEOUT_S
    options = {"timeout": min(seconds, most_s or seconds)}
    if body is None:
        call = client.get(url, cast_to=object, options=options)
    else:
        call = client.post(url, cast_to=object, body=body, options=options)
    try:
        answer = await translated(call)
    except (AuthError, UnreachableError, RateLimitedError, StreamBrokenError):
        raise
    except ModelError:
        return {}
    return answer if isinstance(answer, Mapping) else {}


async def ask_server(ask: Ask, base_url: str, model: str, *, is_ollama: bool) -> Told:
    """Return what the server at `base_url` tells of `model`; raises what `ask` raises."""
    if is_official(base_url):
        await ask(f"{base_url}/models/{quote(model, safe='')}", None)  # is there such a key?
        return Told()
    root = find_root(base_url)
    if is_ollama or urlsplit(base_url).port == OLLAMA_PORT:
        return await _ask_ollama(ask, root, model)
    told = read_models(await ask(f"{base_url}/models", None), model)
    if told.window_tokens is None:
        told = told.or_else(read_props(await ask(f"{root}/props", None)))
    if told.window_tokens is None:
        found = await ask(f"{root}/api/v0/models/{quote(model, safe='')}", None)
        told = told.or_else(read_entry(found))
    if told.window_tokens is None and is_loopback(base_url):
        told = told.or_else(await _ask_ollama(ask, root, model))  # at another port than its own
    return told


async def _ask_ollama(ask: Ask, root: str, model: str) -> Told:
    """Ask Ollama, which loads the model if need be: only then its window is settled."""
    shown = await ask(f"{root}/api/show", {"model": model})
    if not shown:
        return Told()
    told = read_show(shown)
    loaded = read_ps(await ask(f"{root}/api/ps", None), model)
    if loaded is None:
        await ask(f"{root}/api/generate", {"model": model})
        loaded = read_ps(await ask(f"{root}/api/ps", None), model)
    return replace(told, window_tokens=loaded or told.window_tokens)


def is_official(base_url: str) -> bool:
    """Say whether `base_url` is OpenAI's own address."""
    return (urlsplit(base_url).hostname or "").rstrip(".").lower() == OFFICIAL_HOST


def find_root(base_url: str) -> str:
    """Return the server's own address: the base URL without `/v1` at its end."""
    return re.sub(r"/v\d+[a-z]*$", "", base_url.rstrip("/"))


# Answers ---------------------------------------------------------------------------------------


def read_models(answer: Json, model: str) -> Told:
    """Return what a list of models says of `model`: of its entry, or of the only one; total."""
    listed = answer.get("data")
    if not isinstance(listed, list):
        return Told()
    entries = [entry for entry in listed if isinstance(entry, Mapping)]
    names = [as_text(entry.get("id")) or "" for entry in entries[: MOST_LISTED + 1]]
    named = [entry for entry in entries if entry.get("id") == model]
    chosen = named or (entries if len(entries) == 1 else [])
    told = read_entry(chosen[0]) if chosen else Told()
    return replace(
        told,
        serves=_shown_name(chosen[0]) if chosen and not named else "",
        listed=tuple(filter(NAME.fullmatch, names)) if len(names) <= MOST_LISTED else (),
    )


def read_entry(entry: Json) -> Told:
    """Return what an entry of a list of models says; total on any JSON."""
    top = as_object(entry.get("top_provider"))
    window = _first((top, entry), ("context_length",)) or _first((entry,), WINDOW_FIELDS)
    output = _first((top, entry), OUTPUT_FIELDS)
    return Told(window, output, _sight(entry))


def _shown_name(entry: Json) -> str:
    """Return the name a server gives to what it serves, as one line; of a file's path, the file."""
    name = (as_text(entry.get("id")) or "").strip()
    return name_line(clean_text(name.replace("\\", "/").rpartition("/")[2]))[:MOST_NAME]


def read_props(answer: Json) -> Told:
    """Return what llama.cpp's `/props` says; its window is that of one slot."""
    settings = as_object(answer.get("default_generation_settings"))
    vision = as_object(answer.get("modalities")).get("vision")
    sees = vision if isinstance(vision, bool) else None
    return Told(some_tokens(settings.get("n_ctx")) or some_tokens(answer.get("n_ctx")), None, sees)


def read_show(answer: Json) -> Told:
    """Return what Ollama's `/api/show` says: the window that the model's file sets, and sight.

    The length the model was trained for is not the window it is loaded with.
    """
    set_ = re.search(r"^num_ctx\s+(\d{1,9})\b", str(answer.get("parameters", "")), re.M)
    able = answer.get("capabilities")
    sees = "vision" in able if isinstance(able, list) else None
    return Told(some_tokens(int(set_[1])) if set_ else None, None, sees)


def read_ps(answer: Json, model: str) -> int | None:
    """Return the window that Ollama has loaded `model` with, None if it is not loaded."""
    loaded = answer.get("models")
    names = {model, f"{model}:latest"}
    for entry in loaded if isinstance(loaded, list) else ():
        entry = as_object(entry)
        if entry.get("name") in names or entry.get("model") in names:
            return some_tokens(entry.get("context_length"))
    return None


def _sight(entry: Json) -> bool | None:
    """Return whether a model sees images, as OpenRouter, LM Studio or others say it."""
    inputs = as_object(entry.get("architecture")).get("input_modalities")
    if isinstance(inputs, list):
        return "image" in inputs
    kind = entry.get("type")
    if kind in ("vlm", "llm"):
        return kind == "vlm"
    vision = as_object(entry.get("capabilities")).get("vision")
    return vision if isinstance(vision, bool) else None


def _first(places: tuple[Json, ...], names: tuple[str, ...]) -> int | None:
    return next((n for at in places for name in names if (n := some_tokens(at.get(name)))), None)
