"""Anthropic's models on Bedrock and Vertex AI, through the SDK's own clients over HTTP.

Address and credentials are of this machine; what Amazon's and Google's servers do beside the
Messages API (roles, quotas, regions, the check of a signature) is not tested.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_ctx.config import make_settings
from jupyter_ctx.core.blocks import Text, user
from jupyter_ctx.core.ports import Request
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.errors import (
    AuthError,
    ConfigError,
    ModelError,
    PromptTooLongError,
    RateLimitedError,
    StreamBrokenError,
    UnknownModelError,
)
from jupyter_ctx.models import anthropic_clouds, make_model
from jupyter_ctx.models.anthropic_clouds import CloudModel
from jupyter_ctx.models.facts import table_facts
from jupyter_ctx.models.refusals import read_refusal
from tests.fake_anthropic import DEFAULT_MODELS, corrupt, error_event, reply, status, truncate
from tests.fake_anthropic.checks import assert_append_only
from tests.fake_anthropic.clouds import FakeBedrock, FakeCloud, FakeVertex
from tests.fake_anthropic.script import Given
from tests.models.raw_server import JSON, Answer, RawServer
from tests.talk import run
from tests.wire import plain_talk, printing

SONNET = DEFAULT_MODELS["claude-sonnet-5-5"]
NAMES = {FakeBedrock: "us.anthropic.claude-sonnet-5-5", FakeVertex: "claude-sonnet-5-5@20260901"}
PREFIXES = {FakeBedrock: "bedrock:", FakeVertex: "vertex:"}
clouds = pytest.mark.parametrize("kind", [FakeBedrock, FakeVertex], ids=["bedrock", "vertex"])


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Set false credentials for both, where each cloud's library looks for them."""
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    pytest.importorskip("boto3")
    pytest.importorskip("google.auth")
    from cryptography.hazmat.primitives import serialization as forms

    key = rsa.generate_private_key(65537, 2048).private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
    )
    token = {"access_token": "google-token", "expires_in": 3600, "token_type": "Bearer"}
    with RawServer(Answer(headers=dict(JSON), pieces=[json.dumps(token).encode()])) as google:
        account = {
            "type": "service_account",
            "project_id": "test-project",
            "private_key": key.decode(),
            "client_email": "a@test-project.iam.gserviceaccount.com",
            "token_uri": f"{google.url}/token",
        }
        file = tmp_path / "google.json"
        file.write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATESTTESTTEST")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-test")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
            monkeypatch.delenv(name, raising=False)
        yield


def environ(server: FakeCloud | None, **more: str) -> dict[str, str]:
    """Return the variables a person would set, the addresses those of `server`."""
    url = "" if server is None else server.url
    return {
        "ANTHROPIC_BEDROCK_BASE_URL": url,
        "AWS_REGION": "eu-west-1",
        "ANTHROPIC_VERTEX_BASE_URL": url,
        "CLOUD_ML_REGION": "europe-west1",
        "ANTHROPIC_VERTEX_PROJECT_ID": "test-project",
        **more,
    }


def serve(kind: type[FakeCloud], *script: Given) -> FakeCloud:
    """Return a fake that has one model under the cloud's own name."""
    return kind(list(script), models={NAMES[kind]: SONNET})


@contextmanager
def fails(kind: type[FakeCloud], *script: Given) -> Iterator[list[ModelError]]:
    """Give the error that one call ends with."""
    found: list[ModelError] = []
    with serve(kind, *script) as server:
        model = make_model(
            PREFIXES[kind] + NAMES[kind], make_settings({}), environ(server), NO_KEYS
        )
        request = Request(model.name, "", (), (user(Text("hi")),), 50)

        async def ask() -> None:
            try:
                async for _ in model.stream(request):
                    pass
            except ModelError as error:
                found.append(error)
            finally:
                await model.aclose()

        asyncio.run(ask())
        yield found


NO_KEYS = Redactor([])


@clouds
def test_a_session_with_tools_and_thinking(kind):
    """Turns with tools and thinking append only, read the cache, and are told in right figures."""
    script = [printing("print(6 * 7)", thinking="hm"), reply("It is 42."), reply("Again.")]
    with serve(kind, *script) as server:
        name = PREFIXES[kind] + NAMES[kind]
        with plain_talk(server, model=name, environ=environ(server)) as session:
            assert run(session, "What is it? " * 200)[-1].outcome == "done"
            assert run(session, "And now?")[-1].outcome == "done"
            usage = session.total_usage
        assert server.refused == []
        assert [record.json["model"] for record in server.messages] == [NAMES[kind]] * 3
        assert all(record.json["stream"] for record in server.messages)
        assert_append_only(server.messages)
        assert server.messages[-1].usage["cache_read_input_tokens"] > 500
    assert usage.output == sum(record.usage["output_tokens"] for record in server.messages)
    assert usage.cache_read == sum(r.usage["cache_read_input_tokens"] for r in server.messages)


@clouds
def test_calls_are_signed_by_the_clouds_library(kind: type[FakeCloud]) -> None:
    """Amazon's are signed for the region, Google's carry the token; neither any key of ours."""
    with serve(kind, "Hi.") as server:
        name = PREFIXES[kind] + NAMES[kind]
        given = environ(server, ANTHROPIC_API_KEY="sk-ant-of-anthropic")
        with plain_talk(server, model=name, environ=given) as session:
            run(session)
        (sent,) = server.messages
    signed = sent.headers["authorization"]
    if kind is FakeBedrock:
        assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKIATESTTESTTEST/")
        assert "/eu-west-1/bedrock/" in signed
    else:
        assert signed == "Bearer google-token"
    assert "sk-ant-of-anthropic" not in str(sent.headers)


def test_a_key_of_bedrock_comes_before_signing() -> None:
    """AWS_BEARER_TOKEN_BEDROCK is sent as it is."""
    with serve(FakeBedrock, "Hi.") as server:
        given = environ(server, AWS_BEARER_TOKEN_BEDROCK="bedrock-key")
        name = PREFIXES[FakeBedrock] + NAMES[FakeBedrock]
        with plain_talk(server, model=name, environ=given) as session:
            run(session)
        assert server.messages[0].headers["authorization"] == "Bearer bedrock-key"


@clouds
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (status(429, message="Too many requests"), RateLimitedError),
        (status(403, message="You don't have access to the model"), AuthError),
        (status(400, message="Input is too long for requested model."), PromptTooLongError),
        (status(404, message="The model was not found"), UnknownModelError),
        (truncate(), StreamBrokenError),
        (corrupt(), StreamBrokenError),
    ],
)
def test_faults_are_our_errors(
    kind: type[FakeCloud], fault: Given, error: type[ModelError]
) -> None:
    """What goes wrong on the way is the same error as on Anthropic's own address."""
    with fails(kind, fault) as found:
        assert [type(each) for each in found] == [error], found


def test_an_exception_in_amazons_stream_is_what_it_says() -> None:
    """A frame that is an exception is the error of its type."""
    with fails(FakeBedrock, error_event("throttlingException")) as found:
        assert [type(each) for each in found] == [RateLimitedError], found
        assert "Too many requests" in str(found[0])


@pytest.mark.parametrize(
    ("name", "drop", "cure"),
    [
        ("bedrock:x", "AWS_REGION", "AWS_REGION"),
        ("vertex:x", "CLOUD_ML_REGION", "CLOUD_ML_REGION"),
        ("vertex:x", "ANTHROPIC_VERTEX_PROJECT_ID", "ANTHROPIC_VERTEX_PROJECT_ID"),
    ],
)
async def test_what_is_missing_is_named(name: str, drop: str, cure: str) -> None:
    """Without region or project nothing is sent, and the sentence says what to set."""
    given = environ(None)
    del given[drop]
    model = make_model(name, make_settings({}), given, NO_KEYS)
    with pytest.raises(AuthError, match=cure):
        await model.load_facts()
    await model.aclose()


@clouds
def test_missing_credentials_are_named(kind, monkeypatch, tmp_path):
    """Without credentials nothing is sent, and the sentence says how to come by some."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none"))
    from anthropic.lib.aws._auth import _get_session

    _get_session.cache_clear()
    with fails(kind, "never") as found:
        assert [type(each) for each in found] == [AuthError]
        cure = "AWS credentials" if kind is FakeBedrock else "gcloud auth"
        assert cure in str(found[0])


@pytest.mark.parametrize("prefix", ["bedrock", "vertex"])
def test_without_the_library_the_cure_is_named(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the cloud's library is not installed, the sentence says what to install."""
    monkeypatch.setattr(anthropic_clouds, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=rf"`pip install 'anthropic\[{prefix}\]'`"):
        make_model(f"{prefix}:x", make_settings({}), {}, NO_KEYS)


@pytest.mark.parametrize("prefix", ["bedrock:", "vertex:"])
def test_a_prefix_names_no_model(prefix: str) -> None:
    """A prefix alone is a ConfigError."""
    with pytest.raises(ConfigError, match="names no model"):
        make_model(prefix, make_settings({}), {}, NO_KEYS)


async def test_facts_and_counts() -> None:
    """Windows are Claude's; Vertex AI counts tokens, the client of Bedrock cannot."""
    for kind, name in NAMES.items():
        with serve(kind) as server:
            full = PREFIXES[kind] + name
            model = make_model(full, make_settings({}), environ(server), NO_KEYS)
            assert isinstance(model, CloudModel)
            facts = await model.load_facts()
            counted = await model.count_tokens(Request(full, "", (), (user(Text("hi " * 50)),), 50))
            await model.aclose()
        assert facts.window_tokens == 1_000_000
        assert facts.binds_thinking
        assert (counted is None) == (kind is FakeBedrock)
        assert server.refused == []


@pytest.mark.parametrize(
    "name",
    [
        "bedrock:us.anthropic.claude-opus-4-8-v1:0",
        "bedrock:arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-opus-4-8-v1:0",
        "vertex:claude-opus-4-8@20260401",
        "vertex:claude-opus-4-8",
    ],
)
def test_names_of_the_clouds_mean_the_model(name: str) -> None:
    """However a cloud writes a model's name, what is known of the model counts."""
    facts = table_facts(name, make_settings({}))
    own = table_facts("claude-opus-4-8", make_settings({}))
    assert facts.max_output_tokens == own.max_output_tokens
    assert facts.adaptive_thinking == own.adaptive_thinking
    assert facts.prices is not None
    assert "genai-prices" in facts.prices.source


def test_googles_own_form_of_an_error_is_read() -> None:
    """An error that stands in a list is read as if it stood alone."""
    body = [{"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}}]

    assert read_refusal(429, body).words == "Quota exceeded"
