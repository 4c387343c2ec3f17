"""Prices and windows from bundled data: what is known of whom, and what reading it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jupyter_ctx.config import make_settings
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.models.facts import table_facts
from jupyter_ctx.models.price_data import Known, look_up

QUIET = """
import socket, sys, threading
def refuse(*a, **k): raise AssertionError("network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from jupyter_ctx.config import make_settings
from jupyter_ctx.models.facts import table_facts
for name in ("claude-sonnet-5-5", "openai:gpt-5", "ollama:any", "demo"):
    table_facts(name, make_settings({}))
table_facts("mine", make_settings({}), "http://localhost:8080")
assert "genai_prices" not in sys.modules
before = threading.enumerate()
assert table_facts("openai:gpt-3.5-turbo", make_settings({})).prices is not None
assert "genai_prices" in sys.modules
assert threading.enumerate() == before
"""


def test_the_data_is_read_only_where_it_is_needed_and_quietly() -> None:
    """Models of our own tables, local ones and the demo import nothing; no thread, no network."""
    subprocess.run([sys.executable, "-c", QUIET], check=True, timeout=60)


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("openai:deepseek-chat", "https://api.deepseek.com"),
        ("deepseek-chat", "https://api.deepseek.com/anthropic"),
        ("openai:anthropic/claude-sonnet-4.6", "https://openrouter.ai/api/v1"),
        ("openai:gemini-2.5-pro", "https://generativelanguage.googleapis.com/v1beta/openai"),
        ("openai:grok-4", "https://api.x.ai/v1"),
        ("bedrock:us.anthropic.claude-sonnet-5-5", ""),
        ("vertex:claude-sonnet-5-5", ""),
    ],
)
def test_every_kind_of_provider_has_prices(name: str, url: str) -> None:
    """The address says whose price a name has; a cache read never costs more than a token."""
    prices = table_facts(name, make_settings({}), url).prices

    assert prices is not None
    assert 0 < prices.cache_read <= prices.input <= prices.output
    assert prices.source.startswith("the data of genai-prices ")


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("openai:gpt-3.5-turbo", "http://localhost:8000/v1"),
        ("openai:gpt-3.5-turbo", "https://models.example.org/v1"),
        ("claude-3-haiku", "http://127.0.0.1:11434"),
        ("ollama:gpt-4", ""),
        ("claude-opus-9", ""),
        ("claude-opus-5-9", ""),
        ("qwen3:8b", ""),
        ("openai:no-such-model", ""),
        ("bedrock:no-such-model", ""),
        ("openai:gpt-4o", "http://api.openai.com.example.org/v1"),
    ],
)
def test_a_name_at_a_strange_address_says_nothing(name: str, url: str) -> None:
    """A server of one's own, an unknown host and an unknown name have neither price nor window."""
    assert look_up(name, url) == Known()


def test_a_price_that_rises_with_the_length_is_two() -> None:
    """A call over the step is charged by the higher price as a whole."""
    prices = look_up("vertex:claude-sonnet-4-5").prices
    assert prices is not None
    assert prices.long_over_tokens == 200_000
    short, long = (prices.cost_usd(Usage(uncached=n, output=0)) for n in (200_000, 200_001))

    assert long > 1.9 * short


def test_the_users_figures_come_before_the_data() -> None:
    """Settings override price and window of a model that only the data knows."""
    name = "openai:gpt-3.5-turbo"
    settings = make_settings({"prices": {name: {"input": 7.0, "output": 9.0}}})
    prices = table_facts(name, settings).prices

    assert prices is not None
    assert (prices.input, prices.output, prices.source) == (7.0, 9.0, "settings")
