"""Anthropic's models on Amazon Bedrock and Google Vertex AI, through the SDK's own clients.

What is sent and read is the Messages API's; only client, address and credentials differ. The
credentials are those of the cloud's own library (variables, profiles, files, the machine's role),
which looks for them at the first call and renews them.
"""

from __future__ import annotations

import asyncio
import importlib
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ..config import Settings
from ..core.ports import ModelFacts, Request
from ..errors import AuthError, ConfigError
from .addresses import TextRedactor, check_address, name_address, shown_url
from .anthropic import AnthropicModel
from .facts import table_facts
from .refusals import broken, said

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import RawMessageStreamEvent


class CloudModel(AnthropicModel):
    """What both have in common. Raises ConfigError where the cloud's library is not installed."""

    prefix: ClassVar[str]
    needs: ClassVar[str]
    """The module that the cloud's credentials come from."""
    title: ClassVar[str]
    base_url_name: ClassVar[str]
    cure: ClassVar[str]
    """What to set where credentials, region or project are missing."""

    def __init__(
        self, name: str, settings: Settings, environ: Mapping[str, str], redactor: TextRedactor
    ) -> None:
        if not _is_installed(self.needs):
            raise ConfigError(
                f"Model {name!r} needs {self.title}'s library: run "
                f"`pip install 'anthropic[{self.prefix}]'` and restart the kernel.",
                name="model",
            )
        super().__init__(name, settings, environ, redactor)
        self._diagnoses = settings.cache_diagnostics == "on"
        self._where = replace(
            self._where,
            model=name.partition(":")[2],
            key_name=f"the credentials for {self.title}",
            address_name=name_address(name, settings, self.base_url_name),
        )

    def check_key(self) -> None:
        """Find nothing wrong: where credentials are is for the cloud's library to know."""

    async def load_facts(self) -> ModelFacts:
        """Return the table's facts: neither cloud tells any. Raises AuthError without a region."""
        await self._connect()
        return table_facts(self._name, self._settings, self._base_url)

    async def _connect(self) -> AsyncAnthropic:
        """Return the client, made in a worker thread: the cloud's library is slow to import."""
        if self._client is None:
            client = await asyncio.to_thread(self._make_signed_client)
            if self._client is None:  # two calls may come at once: a step and a summary
                self._client = client
                self._base_url = str(client.base_url).rstrip("/")
                self._where = replace(self._where, url=shown_url(self._base_url))
        return self._client

    def _make_signed_client(self) -> AsyncAnthropic:
        return self._make_client(importlib.import_module(self.sdk_name), signed={})

    @abstractmethod
    def _new_client(self, sdk: Any, **options: Any) -> AsyncAnthropic:
        """Return the cloud's own client of `sdk`, which finds the credentials."""

    def _find_base_url(self, settings: Settings, environ: Mapping[str, str]) -> str:
        """Return the address that is set, "": the client makes it of the region."""
        url = settings.base_url or environ.get(self.base_url_name, "")
        variable = name_address("", settings, self.base_url_name)
        return check_address(url.strip(), variable).rstrip("/") if url.strip() else ""

    def _translate(self, error: Exception, *, is_started: bool) -> Exception | None:
        """Also what the cloud's library raises of region, project and credentials."""
        found = super()._translate(error, is_started=is_started)
        if found is not None or isinstance(error, UnicodeEncodeError):
            return found
        if is_started:
            return broken(self._where, "is no event stream", str(error), "The SDK")
        library = type(error).__module__.partition(".")[0]
        is_ours = library in ("boto3", "botocore", "google")
        if is_ours or isinstance(error, (RuntimeError, ValueError)):
            text = f"{self.title} cannot be asked: {self.cure}."
            return AuthError(text + said(self._where, str(error), "The library"))
        return None


class BedrockModel(CloudModel):
    """`bedrock:NAME`, NAME as Bedrock has it: `us.anthropic.claude-…`, or an ARN.

    The region is AWS_REGION, AWS_DEFAULT_REGION or the profile's; the address is
    ANTHROPIC_BEDROCK_BASE_URL or the region's. The key is AWS_BEARER_TOKEN_BEDROCK, else whatever
    boto3 finds.
    """

    prefix = "bedrock"
    needs = "boto3"
    title = "Amazon Bedrock"
    base_url_name = "ANTHROPIC_BEDROCK_BASE_URL"
    cure = (
        "set AWS_REGION, and AWS_BEARER_TOKEN_BEDROCK or the usual AWS credentials, before the "
        "kernel starts"
    )

    def _new_client(self, sdk: Any, **options: Any) -> AsyncAnthropic:
        region = self._environ.get("AWS_REGION") or self._environ.get("AWS_DEFAULT_REGION")
        key = self._environ.get("AWS_BEARER_TOKEN_BEDROCK") or None
        made = sdk.AsyncAnthropicBedrock(aws_region=region or None, api_key=key, **options)
        return cast("AsyncAnthropic", made)

    def _events(self, opened: AsyncStream[RawMessageStreamEvent]) -> AsyncIterator[Any]:
        """Return the events out of Amazon's own framing, which the stream's decoder knows."""
        return cast(Any, opened)._iter_events()  # type: ignore[no-any-return]

    async def count_tokens(self, request: Request) -> int | None:
        """Return None: the SDK's client has no count for Bedrock."""
        return None


class VertexModel(CloudModel):
    """`vertex:NAME`, NAME as Vertex AI has it: `claude-…@20260101`.

    The region is CLOUD_ML_REGION, the project ANTHROPIC_VERTEX_PROJECT_ID; the address is
    ANTHROPIC_VERTEX_BASE_URL or the region's. The credentials are Google's application default.
    """

    prefix = "vertex"
    needs = "google.auth"
    title = "Vertex AI"
    base_url_name = "ANTHROPIC_VERTEX_BASE_URL"
    cure = (
        "set CLOUD_ML_REGION and ANTHROPIC_VERTEX_PROJECT_ID before the kernel starts, and log in "
        "with `gcloud auth application-default login` or set GOOGLE_APPLICATION_CREDENTIALS"
    )

    def _new_client(self, sdk: Any, **options: Any) -> AsyncAnthropic:
        given = {
            "region": self._environ.get("CLOUD_ML_REGION"),
            "project_id": self._environ.get("ANTHROPIC_VERTEX_PROJECT_ID"),
        }
        missing = [name for name, value in given.items() if not value]
        if missing:
            raise ValueError(f"no {' and no '.join(missing)}")
        return cast("AsyncAnthropic", sdk.AsyncAnthropicVertex(**given, **options))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False
