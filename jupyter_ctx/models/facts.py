"""What is known of models before any of them was asked: bundled, dated tables.

The Models API comes first for windows and output limits; this table answers where it does not, and
for prices, which no API gives. A figure nobody published here is None: unknown, never a guess.

Sources, as of 2026-11-30 (`_SEEN`):
* prices: Anthropic's pricing page; the cut of Sonnet 5.5's cache reads is of 2026-10-07; the cache
  reads and writes of Fable 5.2, released 2026-11-09, as reported by readers of that page;
* windows and output limits: each model's overview page in Anthropic's documentation (Opus 4.7:
  Google Cloud's model card);
* thinking: its pages on thinking and on preserved thinking, and the 5.5 migration guides.
Cache writes cost 1.25 × the input price for 5 minutes and 2 × for one hour, on every Anthropic
model. OpenAI's (`openai:NAME`): prices and lengths as the data of pydantic/genai-prices 0.2.3 has
them; of a length the part that a prompt may take, 128,000 tokens being the answer's from GPT-5 on.
There, cache writes cost 1.25 × the input price from GPT-5.6 on, and nothing extra before it.
Models in no table here: prices and windows as `price_data` finds them, which also has the prices of
Bedrock and Vertex.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from ..config import PRICE_NAMES, Settings
from ..core.ports import ModelFacts, ThinkingMode
from ..core.usage import Prices
from ..errors import ConfigError
from .addresses import is_loopback
from .price_data import look_up

CLOUDS: Final = ("bedrock", "vertex")
"""The prefixes of Anthropic's models at other providers, without their colon."""
ThinkingOff: TypeAlias = Literal["", "disabled", "between_tools"]

_SEEN: Final = "2026-11-30"
_PAGE: Final = f"Anthropic's pricing page, seen {_SEEN}"
_NEW_TOKENIZER: Final = 1.35
"""True tokens for each cl100k token before anything was learnt, from Opus 4.7 on."""
_OLD_TOKENIZER: Final = 1.10
"""… and on the models before it."""
WRITE_5M: Final = 1.25
WRITE_1H: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Row:
    """One model. `thinking_off` is the `thinking.type` that turns it off.

    "" where leaving it out does, and where it cannot be turned off.
    """

    window_tokens: int | None
    max_output_tokens: int | None
    prices: Prices | None
    adaptive: bool = True
    binds: bool = False
    thinking_off: ThinkingOff = ""
    factor_prior: float = _NEW_TOKENIZER
    sees: bool | None = None


def _prices(input_: float, output: float, cache_read: float, source: str = _PAGE) -> Prices:
    """Return prices in USD per million tokens, the cache writes derived from the input price."""
    return Prices(input_, output, cache_read, input_ * WRITE_5M, input_ * WRITE_1H, source)


_OPUS_4_5_TO_5: Final = _prices(5, 25, 0.50)
_FABLE_5: Final = _prices(10, 50, 1.00)
_FABLE_5_1: Final = _prices(10, 50, 0.25)
_FABLE_5_2: Final = _prices(
    8, 40, 0.20, f"Anthropic's model overview, cache prices as reported of its page, seen {_SEEN}"
)
_SONNET_4: Final = _prices(3, 15, 0.30)
_HAIKU_5_5: Final = replace(
    _prices(0.10, 0.50, 0.01), long_over_tokens=100_000, long=_prices(0.50, 2.50, 0.05)
)

_1M: Final = 1_000_000
_128K: Final = 128_000

TABLE: Final[Mapping[str, _Row]] = {
    "claude-fable-5-2": _Row(_1M, _128K, _FABLE_5_2, binds=True),
    "claude-mythos-5-2": _Row(None, None, None, binds=True),
    "claude-haiku-5-5": _Row(_1M, _128K, _HAIKU_5_5, binds=True, thinking_off="disabled"),
    "claude-sonnet-5-5": _Row(
        _1M, _128K, _prices(2, 10, 0.10), binds=True, thinking_off="between_tools"
    ),
    "claude-opus-5-5": _Row(_1M, _128K, _prices(4, 20, 0.20), binds=True),
    "claude-fable-5-1": _Row(_1M, _128K, _FABLE_5_1, binds=True),
    "claude-mythos-5-1": _Row(None, None, _FABLE_5_1, binds=True),
    "claude-sonnet-5": _Row(_1M, _128K, _prices(2, 10, 0.20), thinking_off="disabled"),
    "claude-fable-5": _Row(_1M, _128K, _FABLE_5),
    "claude-mythos-5": _Row(_1M, _128K, _FABLE_5),
    "claude-opus-5": _Row(_1M, _128K, _OPUS_4_5_TO_5, thinking_off="disabled"),
    "claude-opus-4-8": _Row(_1M, _128K, _OPUS_4_5_TO_5),
    "claude-opus-4-7": _Row(_1M, _128K, _OPUS_4_5_TO_5),
    "claude-opus-4-6": _Row(_1M, _128K, _OPUS_4_5_TO_5, factor_prior=_OLD_TOKENIZER),
    "claude-sonnet-4-6": _Row(_1M, _128K, _SONNET_4, factor_prior=_OLD_TOKENIZER),
    "claude-haiku-4-5": _Row(
        200_000, 64_000, _prices(1, 5, 0.10), adaptive=False, factor_prior=_OLD_TOKENIZER
    ),
    "claude-opus-4-5": _Row(
        200_000, 64_000, _OPUS_4_5_TO_5, adaptive=False, factor_prior=_OLD_TOKENIZER
    ),
    "claude-sonnet-4-5": _Row(
        200_000, 64_000, _SONNET_4, adaptive=False, factor_prior=_OLD_TOKENIZER
    ),
}

_STRANGER: Final = _Row(None, None, None, adaptive=False)
_NEW_CLAUDE: Final = replace(_STRANGER, binds=True)
"""A Claude model newer than the table: to treat it as one that binds thinking is always safe."""


_OPENAI_DATA: Final = f"genai-prices 0.2.3, seen {_SEEN}"
_O200K: Final = 1.05
"""True tokens for each cl100k token on OpenAI's models: their vocabulary is a little larger."""
_LOCAL: Final = 1.15
"""… and on models of other makers, whose tokenizers differ."""
_272K: Final = 272_000
_922K: Final = 922_000


def _openai(
    window: int,
    input_: float,
    read: float,
    output: float,
    *,
    most: int = _128K,
    write: float = 1.0,
    has_long: bool = False,
    sees: bool = True,
) -> _Row:
    """Return a row of OpenAI's table; `write` × the input price is what a cache write costs.

    `has_long`: over 272,000 tokens of input, input and cache cost twice as much, output 1.5 ×.
    """

    def prices(times: float) -> Prices:
        paid, written = input_ * times, input_ * times * write
        answer = output * (1.5 if times > 1 else 1.0)
        return Prices(paid, answer, read * times, written, written, _OPENAI_DATA)

    short = prices(1.0)
    if has_long:
        short = replace(short, long_over_tokens=_272K, long=prices(2.0))
    return _Row(window, most, short, adaptive=False, factor_prior=_O200K, sees=sees)


OPENAI_TABLE: Final[Mapping[str, _Row]] = {
    "gpt-6.1-sol": _openai(_922K, 2, 0.10, 10, write=1.25, has_long=True),
    "gpt-6.1-terra": _openai(_922K, 1, 0.05, 5, write=1.25, has_long=True),
    "gpt-6-astra": _openai(_922K, 10, 1.00, 50, write=1.25, has_long=True),
    "gpt-6-sol": _openai(_922K, 2, 0.20, 10, write=1.25, has_long=True),
    "gpt-6-luna": _openai(_922K, 0.10, 0.01, 0.50, write=1.25, has_long=True),
    "gpt-5.6-sol": _openai(_922K, 4, 0.40, 20, write=1.25, has_long=True),
    "gpt-5.6-terra": _openai(_922K, 2, 0.20, 12, write=1.25, has_long=True),
    "gpt-5.6-luna": _openai(_922K, 0.20, 0.02, 1.20, write=1.25, has_long=True),
    "gpt-5.5": _openai(_922K, 5, 0.50, 30, has_long=True),
    "gpt-5.4": _openai(_922K, 2.50, 0.25, 15, has_long=True),
    "gpt-5.4-mini": _openai(_272K, 0.75, 0.075, 4.50),
    "gpt-5.4-nano": _openai(_272K, 0.20, 0.02, 1.25),
    "gpt-5.2": _openai(_272K, 1.75, 0.175, 14),
    "gpt-5.1": _openai(_272K, 1.25, 0.125, 10),
    "gpt-5": _openai(_272K, 1.25, 0.125, 10),
    "gpt-5-mini": _openai(_272K, 0.25, 0.025, 2),
    "gpt-5-nano": _openai(_272K, 0.05, 0.005, 0.40),
    "gpt-4.1": _openai(1_000_000, 2, 0.50, 8, most=32_768),
    "gpt-4.1-mini": _openai(1_000_000, 0.40, 0.10, 1.60, most=32_768),
    "gpt-4.1-nano": _openai(1_000_000, 0.10, 0.025, 0.40, most=32_768),
    "gpt-4o": _openai(128_000, 2.50, 1.25, 10, most=16_384),
    "gpt-4o-mini": _openai(128_000, 0.15, 0.075, 0.60, most=16_384),
    "o3": _openai(200_000, 2, 0.50, 8, most=100_000),
    "o3-mini": _openai(200_000, 1.10, 0.55, 4.40, most=100_000, sees=False),
    "o4-mini": _openai(200_000, 1.10, 0.275, 4.40, most=100_000),
}
_COMPATIBLE: Final = replace(_STRANGER, factor_prior=_LOCAL)
"""A model behind Chat Completions of which nothing is known."""


_CLOUD_NAME: Final = re.compile(r"\b(claude-[a-z0-9-]+?)(?:[-@]20\d{6})?(?:-v\d+(?::\d+)?)?$")
"""`us.anthropic.claude-opus-4-8-v1:0` on Bedrock, `claude-opus-4-8@20260101` on Vertex AI."""


def sees_images(name: str) -> bool | None:
    """Return whether the model sees images, None if the tables do not say."""
    return find_row(name).sees


def find_row(name: str) -> _Row:
    """Return the table's row for a model name, with or without its date; total."""
    family, _, bare = name.partition(":")
    if family == "openai":
        return OPENAI_TABLE.get(re.sub(r"-20\d\d-\d\d-\d\d$", "", bare), _COMPATIBLE)
    if family == "ollama":
        return _COMPATIBLE
    if family in CLOUDS:
        found = _CLOUD_NAME.search(bare)
        name = found[1] if found else "claude-unknown"
    row = TABLE.get(re.sub(r"-20\d{6}$", "", name))
    if row is not None:
        return row
    return _NEW_CLAUDE if name.startswith("claude-") else _STRANGER


def table_facts(name: str, settings: Settings, url: str = "") -> ModelFacts:
    """Return what is known without asking: the table's figures and the user's prices.

    `url` is where requests go, "" for the provider's own address; it says whose data counts for a
    model that our tables do not have. Raises ConfigError if the setting `prices` cannot be used for
    this model.
    """
    row = find_row(name)
    window = row.window_tokens
    if window is None:
        window = look_up(name, _whose(name, url)).window_tokens
    return ModelFacts(
        name=name,
        window_tokens=window,
        window_source="unknown" if window is None else "table",
        max_output_tokens=row.max_output_tokens,
        prices=find_prices(name, settings.prices, url),
        adaptive_thinking=row.adaptive,
        binds_thinking=row.binds,
        factor_prior=row.factor_prior,
        max_images=max_images(window),
        label=name,
    )


def _whose(name: str, url: str) -> str:
    """Return whose data counts: a model of our table is Anthropic's at a gateway too."""
    return url if is_loopback(url) or name not in TABLE else ""


def max_images(window_tokens: int | None) -> int:
    """Return the most images of a request: 600; 100 where the window is 200k or unknown."""
    return 600 if window_tokens is not None and window_tokens > 200_000 else 100


def find_prices(
    name: str, overrides: Mapping[str, Mapping[str, float]], url: str = ""
) -> Prices | None:
    """Return the model's prices: the user's over the table's; None if nobody knows them.

    `url` as for `table_facts`. What Bedrock and Vertex charge is in no table of ours, and a server
    on this machine charges nothing that a name tells.

    A user who gives `input` and `output` alone gets the usual cache prices: reads at 0.1 × input,
    writes at 1.25 × and 2 ×. Where a table has a second price for long calls, one of them that is
    given holds for both, and with an input price there is no second. Raises ConfigError on an
    unknown name, a figure that is no number or negative, and on an unknown model without both.
    """
    given = overrides.get(name)
    has_own = name.partition(":")[0] not in CLOUDS and not (url and is_loopback(url))
    table = find_row(name).prices if has_own else None
    if table is None:
        table = look_up(name, _whose(name, url)).prices
    if given is None:
        return table
    figures: dict[str, Any] = _check_prices(name, given)
    input_ = figures.get("input", table.input if table else None)
    output = figures.get("output", table.output if table else None)
    if input_ is None or output is None:
        raise ConfigError(
            f"Setting prices gives {name} no input and output price; give both.", name="prices"
        )
    if table is not None and "input" not in figures:
        long = table.long and replace(table.long, **figures)
        return replace(table, **figures, source="settings", long=long)
    usual = Prices(
        input_, output, input_ * 0.1, input_ * WRITE_5M, input_ * WRITE_1H, source="settings"
    )
    return replace(usual, **figures)


def _check_prices(name: str, given: object) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"Setting prices of {name} must be an object.", name="prices")
    for key, value in given.items():
        if key not in PRICE_NAMES:
            wanted = ", ".join(PRICE_NAMES)
            raise ConfigError(
                f"Setting prices of {name} has no {key!r}; use {wanted}.", name="prices"
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            raise ConfigError(
                f"Setting prices of {name}: {key} is {value!r}; it must be USD per million tokens.",
                name="prices",
            )
    return {key: float(value) for key, value in given.items()}


def thinking_param(name: str, mode: ThinkingMode) -> dict[str, str] | None:
    """Return the request's `thinking`, None to leave it out.

    Adaptive thinking is asked for as a summary, which newer models leave out unless asked. Off is
    said aloud only to the models that think unless told otherwise; Opus 5.5, Fable and Mythos
    always think.
    """
    if mode == "adaptive":
        return {"type": "adaptive", "display": "summarized"}
    off = find_row(name).thinking_off
    return {"type": off} if off else None
