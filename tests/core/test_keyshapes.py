"""Laws of the known shapes of keys: what goes, what stays, whole or in pieces."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.keyshapes import Shape, known_shapes
from jupyter_ctx.core.redact import Redactor
from tests.core.test_redact import chunks, feed_all

# All of them are made up here: the form is the issuer's, the rest is noise.
_ALNUM = "Zx8Kq2Lw9Rt4Yp7Vb3Nm6Hj1Gf5Dc0SaQeUiOoPlKjMnBvCxZ8Kq2Lw9Rt4Yp7Vb3Nm6Hj1Gf5Dc0Sa"
_LINES = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7" + _ALNUM[:12]] * 12)
PEM = f"-----BEGIN PRIVATE KEY-----\n{_LINES}\n-----END PRIVATE KEY-----"
LOCKED_PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0A1B2C\n\n"
    f"{_LINES}\n-----END RSA PRIVATE KEY-----"
)
PGP = (
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n"
    f"{_LINES}\n=aB3d\n-----END PGP PRIVATE KEY BLOCK-----"
)


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


TOKEN = f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part({'sub': '1234567890'})}.{_ALNUM[:43]}"

KEYS = {
    "Anthropic": ("Anthropic key", f"sk-ant-api03-{_ALNUM}-_{_ALNUM[:12]}AA"),
    "OpenAI project": ("OpenAI key", f"sk-proj-{_ALNUM}_{_ALNUM}-{_ALNUM[:4]}"),
    "OpenAI service": ("OpenAI key", f"sk-svcacct-{_ALNUM}"),
    "OpenAI old": ("OpenAI key", f"sk-{_ALNUM[:20]}T3BlbkFJ{_ALNUM[:20]}"),
    "OpenRouter": ("OpenRouter key", f"sk-or-v1-{hashlib.sha256(b'a').hexdigest()}"),
    "GitHub": ("GitHub token", f"ghp_{_ALNUM[:36]}"),
    "GitHub server": ("GitHub token", f"ghs_{_ALNUM[:36]}"),
    "GitHub fine": ("GitHub token", f"github_pat_{_ALNUM[:22]}_{_ALNUM[:59]}"),
    "AWS id": ("AWS key id", "AKIAIOSFODNN7EXAMPLE"),
    "AWS session id": ("AWS key id", "ASIAIOSFODNN7EXAMPLE"),
    "AWS secret": ("AWS secret key", f"aws_secret_access_key = {_ALNUM[:20]}/{_ALNUM[:19]}"),
    "AWS secret JSON": ("AWS secret key", f'SecretAccessKey": "{_ALNUM[:20]}+{_ALNUM[:19]}'),
    "Google": ("Google key", f"AIza{_ALNUM[:30]}-_{_ALNUM[:3]}"),
    "Google secret": ("Google secret", f"GOCSPX-{_ALNUM[:28]}"),
    "Google token": ("Google token", f"ya29.a0{_ALNUM}-{_ALNUM}"),
    "Slack": ("Slack token", f"xoxb-123456789012-1234567890123-{_ALNUM[:24]}"),
    "Slack app": ("Slack token", f"xapp-1-A0123456789-1234567890123-{_ALNUM[:40]}"),
    "Slack hook": ("Slack webhook", f"hooks.slack.com/services/T00000000/B00000000/{_ALNUM[:24]}"),
    "Hugging Face": ("Hugging Face token", f"hf_{_ALNUM[:34]}"),
    "JWT": ("web token", TOKEN),
    "PEM": ("private key", PEM),
    "PEM with a password": ("private key", LOCKED_PEM),
    "PEM in JSON": ("private key", json.dumps(PEM)[1:-1]),
    "PEM cut off": ("private key", PEM[:300].rstrip()),
    "PGP": ("private key", PGP),
}

_IMAGE = base64.b64encode(random.Random(7).randbytes(60_000)).decode()

KEPT = {
    "a uuid": str(uuid.UUID(int=0xABCDEF0123456789ABCDEF0123456789)),
    "a sha1": hashlib.sha1(b"a").hexdigest(),
    "a sha256": f"sha256:{hashlib.sha256(b'a').hexdigest()}",
    "an image": f"data:image/png;base64,{_IMAGE}",
    "JSON in base64": base64.b64encode(json.dumps({"a": list(range(99))}).encode()).decode(),
    "words that end so": f"task-force, risk-{_ALNUM[:40]}, disk-usage, shelf_{_ALNUM[:34]}",
    "short placeholders": "sk-..., sk-ant-..., ghp_xxx, hf_token, AKIA..., xoxb-…, AIza…",
    "a name": "aws_secret_access_key = os.environ['AWS_SECRET_ACCESS_KEY']",
    "a public key": PEM.replace("PRIVATE", "PUBLIC"),
    "a certificate": PEM.replace("PRIVATE KEY", "CERTIFICATE"),
    "an SSH public key": f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{_ALNUM[:43]} me@host",
    "a tool call's id": "toolu_01A09q90qw90lq917835lq9",
    "ids of AWS": "AROAIOSFODNN7EXAMPLE arn:aws:iam::123456789012:role/AKIA",
    "a longer upper-case word": "AKIAIOSFODNN7EXAMPLEANDMORE",
    "a version": "eyJ.1.2 and eyJhbGciOiJIUzI1NiJ9 alone",
    "a Git object": "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
}
_ESCAPES = {"newline": "\\n", "percent": "key%3D", "ANSI": "\x1b[32m", "quote": "'", "line": "\n"}


@pytest.mark.parametrize(("name", "key"), KEYS.values(), ids=KEYS)
def test_a_key_of_a_known_shape_goes(name: str, key: str) -> None:
    """A key of that shape is replaced by what it is, and what stands around it stays."""
    assert Redactor(known_keys=True).text(f"a: {key}!\n") == f"a: [redacted: {name}]!\n"


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_only_looks_random_stays(text: str) -> None:
    """Ids, hashes, pictures, public keys and words that end as a key begins are left alone."""
    assert Redactor(known_keys=True).text(f"a {text} b") == f"a {text} b"


@pytest.mark.parametrize("before", _ESCAPES.values(), ids=_ESCAPES)
@pytest.mark.parametrize(("name", "key"), KEYS.values(), ids=KEYS)
def test_an_escape_before_a_key_does_not_hide_it(name: str, key: str, before: str) -> None:
    """Behind an escape that ends in a letter or a digit a key is found all the same."""
    assert Redactor(known_keys=True).text(f"{before}{key}!") == f"{before}[redacted: {name}]!"


def test_without_the_setting_nothing_but_own_keys_goes() -> None:
    """Known shapes stay unless they are asked for."""
    text = "\n".join(key for _, key in KEYS.values())

    assert Redactor().text(text) == text
    assert Redactor(["sk-own-key-1234"]).text(f"{text} sk-own-key-1234").startswith(text)


def test_an_own_key_keeps_its_name() -> None:
    """The program's own key goes by the name of its variable, also where its shape is known."""
    _, key = KEYS["Anthropic"]
    redactor = Redactor({"ANTHROPIC_API_KEY": key}, known_keys=True)

    assert redactor.text(f"<{key}>") == "<[redacted: ANTHROPIC_API_KEY]>"


def test_every_string_of_a_value_is_looked_at() -> None:
    """Keys and values of JSON lose their keys at any depth; without one it stays as it is."""
    redactor = Redactor(known_keys=True)
    clean = {"a": [KEPT["an image"]]}

    assert redactor.json({"data": {"text/plain": [TOKEN], TOKEN: 1}}) == {
        "data": {"text/plain": ["[redacted: web token]"], "[redacted: web token]": 1}
    }
    assert redactor.json(clean) is clean


def test_what_was_redacted_is_redacted() -> None:
    """A second pass changes nothing."""
    redactor = Redactor(known_keys=True)
    once = redactor.text(" ".join(key for _, key in KEYS.values()))

    assert redactor.text(once) == once


_PIECES = st.one_of(
    st.sampled_from([key for _, key in KEYS.values()]),
    st.sampled_from([key[: len(key) // 2] for _, key in KEYS.values()]),
    st.sampled_from(["", " ", "\n", "\\n", "a", "_", "-", ".", "sk-", "eyJ", "-----", "AKIA"]),
    st.sampled_from([shape.literal for shape in known_shapes()]),
)


@given(st.lists(_PIECES, max_size=6), st.lists(st.integers(0, 9_999), max_size=12))
def test_chunks_change_nothing(pieces: list[str], cuts: list[int]) -> None:
    """A text that arrives in pieces, a key split over them, is redacted as the whole text is."""
    redactor, text = Redactor(["sk-own-key-1234"], known_keys=True), "".join(pieces)

    assert feed_all(redactor, chunks(text, cuts)) == redactor.text(text)


@pytest.mark.parametrize(("name", "key"), KEYS.values(), ids=KEYS)
def test_letter_by_letter_no_part_of_a_key_comes_out(name: str, key: str) -> None:
    """However small the pieces, nothing of a key is released before it is known to be one."""
    stream = Redactor(known_keys=True).stream()
    released = [stream.feed(char) for char in f"a: {key}! b."]

    assert "".join([*released, stream.flush()]) == f"a: [redacted: {name}]! b."


@pytest.mark.parametrize("shape", known_shapes(), ids=lambda shape: shape.literal)
def test_a_stream_holds_back_no_more_than_one_key(shape: Shape) -> None:
    """A text of nothing but beginnings of keys is held back by one key's length at most."""
    stream, piece = Redactor(known_keys=True).stream(), shape.literal * 2_000
    for _ in range(8):
        stream.feed(piece)

    assert len(stream._held) <= 15_000 < 8 * len(piece)
