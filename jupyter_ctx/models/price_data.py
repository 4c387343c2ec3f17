"""Prices and windows of other providers' models, from the bundled data of `genai-prices`.

The library ships its data and is asked for nothing else: no price is fetched, no thread started.
It is imported at the first question (0.3 s alone, 0.1 s beside a provider's SDK), and only for a
model that our own tables do not know. What it does not know either stays unknown.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any, Final
from urllib.parse import urlsplit

from ..core.usage import Prices
from .addresses import is_loopback

PACKAGE: Final = "genai-prices"
FAMILIES: Final = {"bedrock": "aws", "vertex": "google", "openai": "openai"}
"""Our prefixes and what the data calls the provider; that of an address comes before them."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the data has of a model; None: nothing. Prices in USD per million tokens."""

    window_tokens: int | None = None
    prices: Prices | None = None


@functools.lru_cache(maxsize=256)
def look_up(name: str, url: str = "") -> Known:
    """Return what the data has of the model called `name` at `url`; total.

    `url` is where requests go, "" for the provider's own address. A server on this machine, and a
    host that the data does not know, have no provider: the same name may be any model there.
    """
    family, bare = split_name(name)
    if name.startswith("ollama:") or (url and is_loopback(url)):
        return Known()
    provider = FAMILIES.get(family, "anthropic")
    own = _is_own(family, url)
    if own and not family and not name.startswith("claude-"):
        return Known()
    if not own and urlsplit(url).scheme != "https":
        return Known()
    try:
        from genai_prices import Usage, calc_price

        usage = Usage(input_tokens=1, output_tokens=1)
        if own:
            found = calc_price(usage, bare, provider_id=provider)
        else:
            found = calc_price(usage, bare, provider_api_url=url)
    except (ImportError, LookupError, ValueError):
        return Known()  # not installed, not in the data, or priced by something else than tokens
    if own and not family and not _is_same(bare, str(found.model.id)):
        return Known()
    return Known(_window(found.model), _read(found.model_price))


def split_name(name: str) -> tuple[str, str]:
    """Return the prefix without its colon, "" if it is none of `FAMILIES`, and the bare name."""
    family, _, bare = name.partition(":")
    return (family, bare) if family in FAMILIES else ("", name)


def _is_own(family: str, url: str) -> bool:
    """Say whether `url` is the own address of our prefix's provider; "" always is."""
    hosts = {
        "": ("anthropic.com",),
        "openai": ("api.openai.com",),
        "bedrock": ("amazonaws.com",),
        "vertex": ("googleapis.com",),
    }[family]
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    return not url or any(host == one or host.endswith(f".{one}") for one in hosts)


def _is_same(name: str, known: str) -> bool:
    """Say whether an Anthropic model is the one known: a newer one's name may begin alike."""
    return re.fullmatch(rf"{re.escape(known)}(-latest|[-@]20\d{{6}})?", name) is not None


def _window(model: Any) -> int | None:
    window = getattr(model, "context_window", None)
    return window if isinstance(window, int) and window > 0 else None


def _read(found: Any) -> Prices | None:
    """Return the prices of one model; a price that rises with the length has two, as ours do.

    Without a cache price the whole price is paid: nothing is known of a discount.
    """
    starts = [tiers[0].start for each in vars(found).values() if (tiers := _tiers(each))]
    short = _prices(found, lambda price: price.base if _tiers(price) else price)
    if short is None or not starts:
        return short
    long = _prices(found, lambda price: tiers[0].price if (tiers := _tiers(price)) else price)
    return replace(short, long_over_tokens=min(starts), long=long)


def _tiers(price: object) -> list[Any]:
    return getattr(price, "tiers", None) or []


def _prices(found: Any, pick: Callable[[Any], Any]) -> Prices | None:
    def price(name: str) -> float | None:
        value = getattr(found, name, None)
        return None if value is None else float(pick(value))

    paid, answer = price("input_mtok"), price("output_mtok")
    if paid is None or answer is None:
        return None
    read, write = price("cache_read_mtok"), price("cache_write_mtok")
    write = paid if write is None else write
    hour = price("cache_write_1h_mtok")
    return Prices(
        input=paid,
        output=answer,
        cache_read=paid if read is None else read,
        cache_write_5m=write,
        cache_write_1h=write if hour is None else hour,
        source=f"the data of {PACKAGE} {metadata.version(PACKAGE)}",
    )
