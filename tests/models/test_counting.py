"""Counting tokens offline."""

from __future__ import annotations

import base64
import hashlib
import socket

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.models import counting
from jupyter_ctx.models.counting import TiktokenCounter, load_ranks

COUNTER = TiktokenCounter()
CL100K_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
PROSE = "The quick brown fox jumps over the lazy dog, 1234567 times; naïve café 漢字 🙂.\n"
CODE = "    for row in frame.itertuples():\n        total += row.price * row.qty  # sum\n"


@pytest.fixture(scope="module")
def counter() -> TiktokenCounter:
    """A counter that has loaded its ranks."""
    COUNTER.count("")
    return COUNTER


class Spy:
    """Stands in for the encoding: counts one token a character, and how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def encode_ordinary(self, text: str) -> list[int]:
        self.asked.append(len(text))
        return [0] * len(text)


def spied() -> tuple[TiktokenCounter, Spy]:
    """Return a counter over a spy."""
    counter, spy = TiktokenCounter(), Spy()
    counter._encoding = spy  # type: ignore[assignment]  # the one method it calls
    return counter, spy


def test_shipped_ranks_are_those_of_cl100k_base() -> None:
    """The package data, written out as a .tiktoken file, has the published hash."""
    ranks = load_ranks()
    lines = (f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items())

    assert len(ranks) == 100_256
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == CL100K_SHA256


def test_counting_uses_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first count of a process opens no socket."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)

    assert TiktokenCounter().count("hello world") == 2


def test_counts_what_tiktoken_counts(counter: TiktokenCounter) -> None:
    """A short text counts as the encoding built from the same ranks counts it."""
    reference = tiktoken.Encoding(
        "reference",
        pat_str=counting._PATTERN,
        mergeable_ranks=load_ranks(),
        special_tokens={"<|endoftext|>": 100257},
    )

    for text in (PROSE * 50, CODE * 50, "", "  \n\n\t", "don't I'LL", "a1234567b"):
        assert counter.count(text) == len(reference.encode_ordinary(text))
    assert counter.count("<|endoftext|>") > 1, "a special token is text like any other"


def test_known_counts(counter: TiktokenCounter) -> None:
    """Counts published for cl100k_base hold."""
    assert counter.count("tiktoken is great!") == 6
    assert counter.count("antidisestablishmentarianism") == 6
    assert counter.count("2 + 2 = 4") == 7


@settings(deadline=None)
@given(st.text())
def test_any_text_can_be_counted(text: str) -> None:
    """Every text has a count, at most one token for each of its bytes, and 0 only if empty."""
    counted = COUNTER.count(text)

    assert 0 <= counted <= len(text.encode())
    assert (counted == 0) == (text == "")


def test_lone_surrogates_can_be_counted(counter: TiktokenCounter) -> None:
    """Half a surrogate pair is no error."""
    assert counter.count("ab \ud800 cd") > 2


@pytest.mark.parametrize("char", [" ", "\n", "a", "é", "漢", "\x00", "^", "🙂"])
def test_runs_of_one_character(counter: TiktokenCounter, char: str) -> None:
    """A megabyte of one character is counted, in pieces, near the sum over the pieces."""
    text = char * (counting.EXACT_CHARS // 4)
    pieces = [text[at : at + 65536] for at in range(0, len(text), 65536)]

    assert counter.count(text) == sum(counter.count(piece) for piece in pieces)


def test_exact_up_to_a_million_characters() -> None:
    """A text of exactly a million characters is read whole, in pieces of at most 64 Ki."""
    counter, spy = spied()

    assert counter.count("x" * counting.EXACT_CHARS) == counting.EXACT_CHARS
    assert sum(spy.asked) == counting.EXACT_CHARS
    assert max(spy.asked) <= counting.PIECE_CHARS


@pytest.mark.parametrize("times", [2, 20, 200])
def test_longer_texts_cost_the_same(times: int) -> None:
    """Above a million characters the work does not grow: 32 windows of 4 KiB, first to last."""
    counter, spy = spied()
    length = counting.EXACT_CHARS * times

    assert counter.count("x" * length) == length
    assert spy.asked == [counting.SAMPLE_CHARS] * counting.SAMPLE_WINDOWS


def test_samples_come_close_to_the_truth(counter: TiktokenCounter) -> None:
    """On a mix of prose and code the sampled count is within 1 % of the exact one."""
    text = "".join((PROSE if n % 3 else CODE) * (1 + n % 7) for n in range(4000))
    assert len(text) > counting.EXACT_CHARS
    exact = counter._count_whole(text)

    assert abs(counter.count(text) - exact) / exact < 0.01


def test_repeated_texts_are_counted_once() -> None:
    """The count of a text is remembered, for the last 4,096 texts."""
    counter, spy = spied()
    for _ in range(3):
        counter.count("the same")
    assert len(spy.asked) == 1

    for n in range(counting.MEMO_TEXTS):
        counter.count(f"another {n}")
    counter.count("the same")

    assert spy.asked.count(len("the same")) == 2
    assert len(counter._memo) == counting.MEMO_TEXTS


class Panic(BaseException):
    """What the splitter raises on a text it cannot take: no Exception."""


def test_a_panic_of_the_splitter_is_survived() -> None:
    """A piece the splitter panics on is halved until it is taken; nothing is lost."""
    counter, spy = spied()
    real = spy.encode_ordinary

    def panic(text: str) -> list[int]:
        if len(text) > 100:
            raise Panic
        return real(text)

    spy.encode_ordinary = panic  # type: ignore[method-assign]

    assert counter.count(" " * 1000) == 1000
    assert max(spy.asked) <= 100


def test_an_interrupt_is_no_panic() -> None:
    """Ctrl-C while counting goes through."""
    counter, spy = spied()

    def interrupt(text: str) -> list[int]:
        raise KeyboardInterrupt

    spy.encode_ordinary = interrupt  # type: ignore[method-assign]

    with pytest.raises(KeyboardInterrupt):
        counter.count("text")
