"""The bundled table of models, and the prices."""

from __future__ import annotations

import re
import typing

import pytest

from jupyter_ctx.config import Settings, make_settings
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.errors import ConfigError
from jupyter_ctx.models.facts import TABLE, find_prices, table_facts, thinking_param

PRICED = sorted(name for name, row in TABLE.items() if row.prices is not None)


def test_every_model_of_the_sdk_has_a_row() -> None:
    """Each model the SDK names, its date apart, is in the table, a preview excepted."""
    from anthropic.types.model_param import ModelParam

    named = typing.get_args(typing.get_args(ModelParam)[0])
    plain = {re.sub(r"-20\d{6}$", "", name) for name in named}

    assert plain - set(TABLE) == {"claude-mythos-preview"}


@pytest.mark.parametrize("name", PRICED)
def test_every_price_has_a_source_and_a_date(name: str) -> None:
    """A price says where it stands and when it was seen; writes follow from the input price."""
    prices = find_prices(name, {})

    assert prices is not None
    assert re.search(r"seen 20\d\d-\d\d-\d\d$", prices.source)
    assert prices.cache_write_5m == prices.input * 1.25
    assert prices.cache_write_1h == prices.input * 2
    assert 0 < prices.cache_read < prices.input < prices.output


def test_prices_are_per_model() -> None:
    """Cache reads are priced model by model, not by one factor."""
    reads = {}
    for name in ("claude-sonnet-5-5", "claude-opus-5-5", "claude-fable-5-1", "claude-opus-4-6"):
        prices = find_prices(name, {})
        assert prices is not None
        reads[name] = prices.cache_read / prices.input

    assert reads == {
        "claude-sonnet-5-5": 0.05,
        "claude-opus-5-5": 0.05,
        "claude-fable-5-1": 0.025,
        "claude-opus-4-6": 0.1,
    }


def test_unknown_stays_unknown() -> None:
    """A model nobody published figures of has no price and no window, never a guess."""
    facts = table_facts("llama-9000", Settings())

    assert facts.prices is None
    assert facts.window_tokens is None
    assert facts.window_source == "unknown"
    assert facts.max_output_tokens is None
    assert not facts.adaptive_thinking
    assert not facts.binds_thinking


def test_a_claude_newer_than_the_table_is_treated_with_care() -> None:
    """Of an unknown Claude model nothing is claimed but that its thinking may be bound."""
    facts = table_facts("claude-opus-7", Settings())

    assert facts.window_tokens is None
    assert facts.prices is None
    assert facts.binds_thinking


def test_dated_names_are_the_model() -> None:
    """A name with a date has the row of the name without."""
    assert find_prices("claude-haiku-4-5-20251001", {}) == find_prices("claude-haiku-4-5", {})


def test_thinking_is_bound_where_the_documentation_says_so() -> None:
    """The 5.5 models, Fable and Mythos 5.1 and 5.2 bind thinking; older ones do not."""
    binding = {name for name, row in TABLE.items() if row.binds}

    assert binding == {
        *(f"claude-{line}-5-5" for line in ("opus", "sonnet", "haiku")),
        *(f"claude-{line}-5-{n}" for line in ("fable", "mythos") for n in (1, 2)),
    }


def test_prior_factor_changes_with_the_tokenizer() -> None:
    """Models from Opus 4.7 on begin at 1.35 tokens for each of cl100k, those before at 1.10."""
    before = {name for name in TABLE if table_facts(name, Settings()).factor_prior == 1.10}

    assert before == {
        "claude-opus-4-6",
        "claude-sonnet-4-6",
        "claude-opus-4-5",
        "claude-sonnet-4-5",
        "claude-haiku-4-5",
    }
    assert table_facts("claude-opus-4-7", Settings()).factor_prior == 1.35


def test_the_users_prices_come_first() -> None:
    """A price the user sets replaces the table's, the others of that model stay."""
    settings = make_settings({"prices": {"claude-opus-5-5": {"cache_read": 0.5}}})
    prices = table_facts("claude-opus-5-5", settings).prices

    assert prices is not None
    assert (prices.input, prices.cache_read, prices.source) == (4, 0.5, "settings")


def test_an_unknown_model_can_be_priced() -> None:
    """Input and output price a model the table does not know; cache prices follow the usual."""
    prices = find_prices("mine", {"mine": {"input": 2, "output": 8}})

    assert prices is not None
    assert (prices.input, prices.output) == (2, 8)
    assert (prices.cache_read, prices.cache_write_5m, prices.cache_write_1h) == (0.2, 2.5, 4)


@pytest.mark.parametrize(
    "given",
    [
        {"input": 2},
        {"inputs": 2, "output": 3},
        {"input": -1, "output": 3},
        {"input": "2", "output": 3},
        {"input": True, "output": 3},
        {"input": float("nan"), "output": 3},
        "cheap",
    ],
)
def test_unusable_prices_are_named(given: object) -> None:
    """A price that cannot be used is a ConfigError that names setting and model."""
    overrides: typing.Any = {"mine": given}

    with pytest.raises(ConfigError, match="mine") as caught:
        find_prices("mine", overrides)
    assert caught.value.name == "prices"


def test_cost_counts_every_kind_at_its_own_price() -> None:
    """Uncached, read, written for 5 minutes, written for an hour and output add up."""
    prices = find_prices("claude-sonnet-5-5", {})
    usage = Usage(1_000_000, 1_000_000, 3_000_000, 1_000_000, cache_write_1h=1_000_000)

    assert prices is not None
    assert prices.cost_usd(usage) == pytest.approx(2 + 0.10 + 2 * 2.5 + 4 + 10)
    assert prices.cost_usd(Usage()) == 0


def test_a_long_prompt_costs_more_where_it_does() -> None:
    """Haiku 5.5 charges its higher prices for a whole call whose input is over 100,000 tokens."""
    prices = find_prices("claude-haiku-5-5", {})

    assert prices is not None
    assert prices.cost_usd(Usage(40_000, 60_000, 0, 1000)) == pytest.approx(
        (40_000 * 0.10 + 60_000 * 0.01 + 1000 * 0.50) / 1e6
    )
    assert prices.cost_usd(Usage(40_000, 60_001, 0, 1000)) == pytest.approx(
        (40_000 * 0.50 + 60_001 * 0.05 + 1000 * 2.50) / 1e6
    )


def test_thinking_is_asked_for_as_a_summary() -> None:
    """Adaptive thinking is shown as a summary; off is said only to models that think unasked."""
    assert thinking_param("claude-opus-5-5", "adaptive") == {
        "type": "adaptive",
        "display": "summarized",
    }
    assert thinking_param("claude-opus-5-5", "off") is None
    assert thinking_param("claude-sonnet-5", "off") == {"type": "disabled"}
    assert thinking_param("claude-sonnet-5-5", "off") == {"type": "between_tools"}
    assert thinking_param("llama", "off") is None


def test_a_wrong_name_of_a_price_is_told_when_settings_are_read() -> None:
    """It is not left until that model is looked at, nor does it spoil the list of the others."""
    with pytest.raises(ConfigError, match="prices of claude-opus-5 has no 'in'; use input"):
        make_settings({"prices": {"claude-opus-5": {"in": 1}}})


def test_one_price_that_is_given_leaves_the_others_as_they_are() -> None:
    """Without an input price, writes and the prices of long calls stay the table's."""
    given = {"openai:gpt-5": {"output": 11.0}, "claude-haiku-5-5": {"cache_read": 0.02}}
    plain, long = find_prices("openai:gpt-5", given), find_prices("claude-haiku-5-5", given)

    assert plain is not None
    assert (plain.output, plain.cache_write_5m, plain.source) == (11.0, plain.input, "settings")
    assert long is not None
    assert long.at(200_000).input == 0.5
    assert long.at(200_000).cache_read == long.cache_read == 0.02


@pytest.mark.parametrize("name", ["claude-sonnet-5-5", "claude-mythos-5-2", "openai:gpt-5"])
def test_a_server_on_this_machine_has_no_price_by_name(name: str) -> None:
    """Any model may have that name there; what the user sets is its price."""
    given = {name: {"input": 1.0, "output": 2.0}}

    assert find_prices(name, {}, "http://127.0.0.1:8080") is None
    assert find_prices(name, given, "http://127.0.0.1:8080") is not None


def test_a_gateway_has_the_models_of_our_table() -> None:
    """Every row of the table has the same window and price at a gateway as at Anthropic's."""
    settings = make_settings({})
    for name in TABLE:
        own, there = (table_facts(name, settings, url) for url in ("", "https://gate.example.org"))
        assert own == there
