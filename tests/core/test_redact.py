"""Laws of the redactor."""

import itertools
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.redact import Redactor, secrets_from

KEY = "sk-ant-api03-AbCdEfGh_1234"
OTHER = "sk-ant-api03-AbCdEfGh_1234-longer"
SHORT_ALPHABET = st.sampled_from('ab"\\/é')


def chunks(text: str, cuts: list[int]) -> list[str]:
    """Cut `text` at the given places."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in itertools.pairwise(places)]


def feed_all(redactor: Redactor, pieces: list[str]) -> str:
    """Return what a stream gives for the pieces."""
    stream = redactor.stream()
    return "".join([stream.feed(piece) for piece in pieces]) + stream.flush()


def test_a_key_is_replaced_by_its_name() -> None:
    """Every occurrence gives way to the name of the variable that holds it."""
    redactor = Redactor({"ANTHROPIC_AUTH_TOKEN": KEY})

    assert redactor.text(f"a {KEY}{KEY} b") == (
        "a [redacted: ANTHROPIC_AUTH_TOKEN][redacted: ANTHROPIC_AUTH_TOKEN] b"
    )


def test_a_plain_iterable_of_secrets_goes_by_the_default_name() -> None:
    """Secrets may come without names."""
    assert Redactor([KEY]).text(KEY) == "[redacted: ANTHROPIC_API_KEY]"


def test_the_longest_key_wins() -> None:
    """Of two keys that begin at one place the longer is replaced whole, under its own name."""
    redactor = Redactor({"A": KEY, "B": OTHER})

    assert redactor.text(f"{OTHER} {KEY}") == "[redacted: B] [redacted: A]"


def test_overlapping_keys_leave_nothing() -> None:
    """Where two occurrences overlap, the characters of both go."""
    redactor = Redactor({"A": "abcdefgh", "B": "efghijkl"})

    assert redactor.text("<abcdefghijkl>") == "<[redacted: A]>"


@pytest.mark.parametrize("value", ["", "1234567"])
def test_short_values_are_no_secrets(value: str) -> None:
    """A value under eight characters is left alone, the empty one included."""
    assert Redactor({"A": value}).text("x 1234567 y") == "x 1234567 y"


def test_escaped_forms_are_found() -> None:
    """A key inside a JSON string is found however JSON escapes it."""
    key = 'pass"wörd/\\1234'
    redactor = Redactor([key])

    for text in (json.dumps(key), json.dumps(key, ensure_ascii=False)):
        assert redactor.text(text) == '"[redacted: ANTHROPIC_API_KEY]"'
        assert redactor.text(text.replace("/", "\\/")) == '"[redacted: ANTHROPIC_API_KEY]"'


def test_json_is_redacted_at_any_depth() -> None:
    """Strings and keys are redacted below any nesting; the argument is not changed."""
    deep: object = KEY
    for _ in range(sys.getrecursionlimit() * 2):
        deep = [deep]
    value: dict[str, Any] = {"a": [1, None, KEY], KEY: {"b": deep}}

    redacted = Redactor([KEY]).json(value)

    name = "[redacted: ANTHROPIC_API_KEY]"
    assert redacted["a"] == [1, None, name]
    inner = redacted[name]["b"]
    while isinstance(inner, list):
        inner = inner[0]
    assert inner == name
    assert value["a"] == [1, None, KEY]
    assert Redactor([KEY]).json(KEY) == name


def test_json_without_a_secret_is_the_very_same_object() -> None:
    """What holds no secret is not copied, so its bytes cannot change."""
    value = {"a": ({"b": 1.0}, "text")}

    assert Redactor([KEY]).json(value) is value


def test_a_tuple_of_outputs_stays_a_tuple() -> None:
    """The outputs of a tool keep their type."""
    outputs = ({"text": KEY}, {"text": "b"})

    assert Redactor([KEY]).json(outputs) == (
        {"text": "[redacted: ANTHROPIC_API_KEY]"},
        {"text": "b"},
    )


def test_own_keys_of_the_environment() -> None:
    """The program's keys are taken, other programs' and values too short are not."""
    environ = {
        "ANTHROPIC_API_KEY": f" {KEY}\n",
        "OPENAI_API_KEY": "short",
        "JUPYTER_CTX_X_AUTH_TOKEN": "token-12345",
        "WEATHER_API_KEY": "weather-12345",
        "ANTHROPIC_BASE_URL": "http://localhost:1234",
    }

    assert secrets_from(environ) == {
        "ANTHROPIC_API_KEY": KEY,
        "JUPYTER_CTX_X_AUTH_TOKEN": "token-12345",
    }


@given(
    st.lists(st.text(SHORT_ALPHABET, min_size=8, max_size=12), max_size=3),
    st.text(SHORT_ALPHABET, max_size=60),
    st.lists(st.integers(0, 60), max_size=60),
)
def test_any_chunking_equals_one_shot(secrets: list[str], text: str, cuts: list[int]) -> None:
    """A stream gives what the whole text gives, wherever it is cut, overlaps included."""
    redactor = Redactor({f"N{i}": secret for i, secret in enumerate(secrets)})
    for secret in secrets:
        text = f"{text}{secret}{secret[: len(secret) // 2]}{text}"

    assert feed_all(redactor, chunks(text, cuts)) == redactor.text(text)
    assert feed_all(redactor, list(text)) == redactor.text(text)


@given(st.text("ab", min_size=8, max_size=10), st.text("ab", max_size=40))
def test_no_character_of_an_occurrence_stays(secret: str, text: str) -> None:
    """What is left outside the replacements is exactly what no occurrence covers."""
    text = text + secret + text
    covered = {
        at + i for at in range(len(text)) if text.startswith(secret, at) for i in range(len(secret))
    }

    left = Redactor({"#": secret}).text(text).replace("[redacted: #]", "")

    assert left == "".join(c for i, c in enumerate(text) if i not in covered)


@given(st.lists(st.text(SHORT_ALPHABET, max_size=20), max_size=8))
def test_a_stream_holds_back_less_than_a_key(pieces: list[str]) -> None:
    """What is held back is always shorter than the longest spelling of a secret."""
    secret = 'ab"\\/éab'
    stream = Redactor([secret]).stream()
    longest = len(json.dumps(secret).replace("/", "\\/")) - 2
    given_chars = shown = 0
    for piece in pieces:
        given_chars += len(piece)
        shown += len(stream.feed(piece))

        assert given_chars - shown < longest or secret in "".join(pieces)
