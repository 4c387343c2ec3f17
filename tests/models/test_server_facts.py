"""What is known of models behind Chat Completions: the bundled table, and what servers tell."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.config import make_settings
from jupyter_ctx.core.blocks import Json
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.errors import OverloadedError
from jupyter_ctx.models.facts import OPENAI_TABLE, find_prices, sees_images, table_facts
from jupyter_ctx.models.openai import OpenAIModel
from jupyter_ctx.models.server_facts import (
    Told,
    ask_server,
    find_root,
    is_official,
    read_entry,
    read_models,
    read_props,
    read_ps,
    read_show,
)
from tests.models.raw_server import JSON, Answer, RawServer

PLAIN = make_settings({})


@pytest.mark.parametrize("name", OPENAI_TABLE)
def test_every_row_is_sound(name: str) -> None:
    """A row has a window over its answer, and reading the cache costs less than writing the text.

    Where long prompts cost more, all of such a call costs more.
    """
    facts = table_facts(f"openai:{name}", PLAIN)
    assert facts.window_tokens is not None
    assert facts.max_output_tokens is not None
    assert facts.prices is not None
    assert facts.window_tokens > facts.max_output_tokens
    assert facts.window_source == "table"
    assert facts.prices.cache_read < facts.prices.input <= facts.prices.cache_write_5m
    short, long = Usage(272_000, 0, 0, 9), Usage(272_001, 0, 0, 9)
    ratio = facts.prices.cost_usd(long) / facts.prices.cost_usd(short)
    assert ratio == pytest.approx(2.0 if facts.prices.long else 1.0, rel=1e-3)


def test_a_name_with_its_date_is_the_same_model() -> None:
    """A dated name has its model's row; an unknown one has no figures at all."""
    dated = table_facts("openai:gpt-5-mini-2025-08-07", PLAIN)
    unknown = table_facts("openai:gpt-99", PLAIN)

    assert dated.window_tokens == table_facts("openai:gpt-5-mini", PLAIN).window_tokens
    assert (unknown.window_tokens, unknown.prices) == (None, None)
    assert unknown.window_source == "unknown"
    assert table_facts("ollama:gpt-5", PLAIN).prices is None
    assert sees_images("openai:gpt-5") is True
    assert sees_images("openai:o3-mini") is False
    assert sees_images("ollama:anything") is None


def test_the_users_prices_count() -> None:
    """Prices by the whole name, prefix included, stand above the table's."""
    given_ = {"openai:gpt-5": {"input": 9.0}, "openai:mine": {"input": 1.0, "output": 2.0}}
    known, mine = find_prices("openai:gpt-5", given_), find_prices("openai:mine", given_)

    assert known is not None
    assert mine is not None
    assert (known.input, known.output, known.source) == (9.0, 10.0, "settings")
    assert (mine.input, mine.output) == (1.0, 2.0)


ENTRIES: list[tuple[Json, Told]] = [
    ({"id": "m", "max_model_len": 32_768}, Told(32_768)),
    ({"id": "m", "context_window": 131_072, "max_completion_tokens": 8_192}, Told(131_072, 8_192)),
    ({"id": "m", "type": "vlm", "loaded_context_length": 4_096}, Told(4_096, None, True)),
    ({"id": "m", "type": "llm", "max_context_length": 8_192}, Told(8_192, None, False)),
    (
        {
            "id": "m",
            "context_length": 400_000,
            "architecture": {"input_modalities": ["text", "image"]},
            "top_provider": {"context_length": 200_000, "max_completion_tokens": 64_000},
        },
        Told(200_000, 64_000, True),
    ),
    ({"id": "m", "capabilities": {"vision": False}}, Told(None, None, False)),
    ({"id": "m", "max_model_len": 0, "context_length": "long"}, Told()),
]


@pytest.mark.parametrize(("entry", "told"), ENTRIES)
def test_what_a_list_of_models_tells(entry: Json, told: Told) -> None:
    """Each server's own fields are read; the entry is found by its name, or by being the only."""
    other = {"id": "other", "max_model_len": 7}

    both = ("other", "m")
    assert read_models({"data": [other, entry]}, "m") == replace(told, listed=both)
    only = read_models({"data": [entry]}, "another name")
    assert only == replace(told, serves="m", listed=("m",))
    assert read_models({"data": [other, entry]}, "neither") == Told(listed=both)


def test_what_llama_cpp_and_ollama_tell() -> None:
    """The window of a slot, of a model's file, and of the loaded model; never the trained one."""
    props = {"default_generation_settings": {"n_ctx": 4_096}, "modalities": {"vision": True}}
    show = {
        "parameters": 'stop                           "<|x|>"\nnum_ctx                        8192',
        "capabilities": ["completion", "tools"],
        "model_info": {"qwen3.context_length": 40_960},
    }
    loaded = {"models": [{"name": "a:latest", "context_length": 16_384}, {"name": "b"}]}

    assert read_props(props) == Told(4_096, None, True)
    assert read_show(show) == Told(8_192, None, False)
    assert read_show({"model_info": {"qwen3.context_length": 40_960}}) == Told()
    assert read_ps(loaded, "a") == 16_384
    assert read_ps(loaded, "b") is None
    assert read_ps({}, "a") is None


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "data",
                    "id",
                    "models",
                    "top_provider",
                    "architecture",
                    "input_modalities",
                    "capabilities",
                    "parameters",
                    "default_generation_settings",
                    "modalities",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["data", "models", "capabilities"]), ANY))
def test_any_answer_is_read(answer: dict[str, Any]) -> None:
    """Whatever JSON a server answers, reading it raises nothing."""
    for read in (read_entry, read_props, read_show):
        assert isinstance(read(answer), Told)
    assert isinstance(read_models(answer, "m"), Told)
    assert read_ps(answer, "m") is None


async def test_openais_own_address_is_asked_for_the_model_only() -> None:
    """OpenAI tells no window, so nothing but the name is asked there: that proves the key."""
    asked: list[str] = []

    async def ask(url: str, body: Json | None) -> Json:
        asked.append(url)
        return {}

    told = await ask_server(ask, "https://api.openai.com/v1", "gpt-5", is_ollama=False)

    assert told == Told()
    assert asked == ["https://api.openai.com/v1/models/gpt-5"]
    assert is_official("https://API.openai.com./v1")
    assert not is_official("https://api.openai.com.evil.example/v1")


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("http://localhost:8080/v1", "http://localhost:8080"),
        ("http://localhost:8080/v1/", "http://localhost:8080"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("https://host/api/v1", "https://host/api"),
    ],
)
def test_the_servers_own_address(url: str, root: str) -> None:
    """A server's own questions go to its address without the protocol's version."""
    assert find_root(url) == root


async def test_a_server_that_still_loads_is_asked_again() -> None:
    """While it loads its model there are no facts to be had; the next question gets them."""
    busy = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    ready = {"data": [{"id": "m", "max_model_len": 9_000}]}
    answers = [
        Answer(503, dict(JSON), [json.dumps(busy).encode()]),
        Answer(200, dict(JSON), [json.dumps(ready).encode()]),
    ]
    with RawServer(*answers) as server:
        settings = make_settings({"base_url": f"{server.url}/v1"})
        model = OpenAIModel("openai:m", settings, {}, Redactor([]))
        with pytest.raises(OverloadedError, match="Loading model"):
            await model.load_facts()
        facts = await model.load_facts()
        await model.aclose()

    assert (facts.window_tokens, facts.window_source) == (9_000, "server")


def test_a_window_that_cannot_be_is_unknown() -> None:
    """The largest number there is, zero or less, and figures of many digits are no window."""
    for lie in (2**63 - 1, 10**30, 0, -1, True, "4096", 4096.0):
        assert read_entry({"max_model_len": lie}) == Told()
        assert read_props({"n_ctx": lie}).window_tokens is None
        assert read_ps({"models": [{"name": "m", "context_length": lie}]}, "m") is None
    assert read_show({"parameters": f"num_ctx {'9' * 5_000}"}).window_tokens is None
    assert read_show({"parameters": "num_ctx 0"}).window_tokens is None
