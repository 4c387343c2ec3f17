"""The Anthropic adapter: `core.ports.Model` over the official SDK.

What is sent is built from the request alone (`anthropic_wire`), what comes back is read as raw
events (`anthropic_stream`), what goes wrong is translated (`anthropic_errors`). The client and how
it is called are those of every SDK (`sdk_model`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from ..config import Settings
from ..core.blocks import Json, images_of
from ..core.ports import Delta, ModelFacts, Request
from ..errors import (
    AuthError,
    ModelError,
    PromptTooLongError,
    RateLimitedError,
    StreamBrokenError,
)
from .addresses import (
    PLACEHOLDER_KEY,
    TextRedactor,
    check_address,
    find_key,
    is_loopback,
    name_address,
    shown_url,
    without_version,
)
from .anthropic_errors import translate
from .anthropic_lacks import Lacks, find_lacks
from .anthropic_stream import ReplyReader
from .anthropic_wire import MessageWires, build_params, build_prompt
from .facts import find_prices, max_images, table_facts
from .refusals import BLIND_WORDS, Where, classify, read_refusal
from .sdk_model import SdkModel
from .server_facts import FACTS_TIMEOUT_S, ask_server
from .wiretext import parse_event, some_tokens

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import ModelInfo, RawMessageStreamEvent

DEFAULT_URL: Final = "https://api.anthropic.com"
DRAIN_TIMEOUT_S: Final = 1.0
"""How long the end of a finished stream is waited for, so that its connection can be used again."""

_NO_SUCH_ENDPOINT: Final = frozenset({404, 405, 501})


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a call is signed with; neither given: what the SDK finds in its own profiles."""

    api_key: str | None = None
    auth_token: str | None = None
    name: str = "ANTHROPIC_API_KEY"


class AnthropicModel(SdkModel["AsyncAnthropic"]):
    """A model behind the Messages API, Anthropic's or a compatible server's.

    `environ` gives ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN and ANTHROPIC_BASE_URL, as the SDK reads
    them; the setting `base_url` comes before the last. A base URL on this machine needs no key.
    Raises ConfigError if the base URL is none.
    """

    sdk_name = "anthropic"

    def __init__(
        self, name: str, settings: Settings, environ: Mapping[str, str], redactor: TextRedactor
    ) -> None:
        base_url = self._find_base_url(settings, environ)
        where = Where(
            url=shown_url(base_url),
            model=name,
            key_name="ANTHROPIC_API_KEY",
            timeout_s=settings.timeout_s,
            redact=redactor.text,
        )
        super().__init__(name, settings, environ, base_url, where)
        self._wires = MessageWires()
        self._lacks = Lacks()
        self._counts = True
        self._diagnoses = asks_why_missed(settings, base_url)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the reply as it arrives; the last item is a ReplyDone.

        One attempt. Raises a ModelError; StreamBrokenError if the stream ends without a ReplyDone.
        Closing the iterator, or cancelling its task, closes the connection.
        """
        reader = ReplyReader(self._where.url)
        opened = await self._open(request)
        events = self._events(opened)
        try:
            while not reader.is_done:
                event = await self._next(events)
                if event is None:
                    break
                for delta in reader.feed(event):
                    yield delta
            reader.finish()
            await self._drain(events)
        finally:
            await opened.close()

    async def load_facts(self) -> ModelFacts:
        """Return what is known of the model: the provider's figures over the bundled table's.

        Asks once; a compatible server in its own words too. A provider that does not say (no such
        endpoint, silent, busy, an answer of another form) leaves the table's figures. Raises
        AuthError and UnreachableError.
        """
        if self._facts is not None:
            return self._facts
        facts = table_facts(self._name, self._settings, self._base_url)
        try:
            client = await self._connect()
            info = await self._translated(
                client.models.retrieve(self._name, timeout=self._short_timeout())
            )
        except (RateLimitedError, StreamBrokenError):
            return facts  # for now: asked again next time
        except ModelError as error:
            if isinstance(error, AuthError) or error.status is None:
                raise
        else:
            facts = merge_facts(facts, info)
            if getattr(info, "type", None) == "model":  # as Anthropic tells of a model: it is that
                facts = replace(facts, prices=find_prices(self._name, self._settings.prices))
        if facts.window_tokens is None or is_loopback(self._base_url):
            try:
                facts = await self._ask_server(facts)
            except (RateLimitedError, StreamBrokenError):
                return facts
        self._facts = facts
        return facts

    async def _ask_server(self, facts: ModelFacts) -> ModelFacts:
        """Ask a compatible server in its own words: window, output limit, sight."""
        if facts.window_source == "api" or is_own_address(self._base_url):
            return facts
        told = await ask_server(self._ask, f"{self._base_url}/v1", self._model, is_ollama=False)
        if told.serves:  # not the model of that name, whose window the table has
            facts = replace(facts, window_tokens=None, window_source="unknown")
        if told.sees_images is not None and told.sees_images != self._wires.sees_images:
            self._wires = MessageWires(sees_images=told.sees_images)
        return told.over(facts)

    async def count_tokens(self, request: Request) -> int | None:
        """Return the provider's own count of the request's input, None if it has none.

        Raises a ModelError if the provider has one but refused or failed.
        """
        if not self._counts:
            return None
        params = self._lacks.take_out(build_prompt(self._lacks.fit(request), self._wires))
        client = await self._connect()
        try:
            counted = await self._translated(
                client.messages.count_tokens(
                    model=self._model, **params, timeout=self._short_timeout()
                )
            )
        except ModelError as error:
            if error.status in _NO_SUCH_ENDPOINT:
                self._counts = False  # it is not asked again
                return None
            raise
        found = getattr(counted, "input_tokens", None)
        return found if isinstance(found, int) else None

    # Calls -------------------------------------------------------------------------------------

    def _sign(self) -> Mapping[str, str | None]:
        credentials = find_credentials(self._base_url, self._environ)
        self._where = replace(self._where, key_name=credentials.name)
        return {"api_key": credentials.api_key, "auth_token": credentials.auth_token}

    def _new_client(self, sdk: Any, **options: Any) -> AsyncAnthropic:
        return cast("AsyncAnthropic", sdk.AsyncAnthropic(**options))

    def _translate(self, error: Exception, *, is_started: bool) -> Exception | None:
        return translate(error, self._where, is_started=is_started)

    def _find_base_url(self, settings: Settings, environ: Mapping[str, str]) -> str:
        return find_base_url(settings, environ)

    def _events(self, opened: AsyncStream[RawMessageStreamEvent]) -> AsyncIterator[Any]:
        """Return the events as they came: the SDK's types drop key order and unknown events."""
        return type(opened).raw_events(opened.response)

    async def _open(self, request: Request) -> AsyncStream[RawMessageStreamEvent]:
        """Send the request; once more where the server names a part of it that it does not take."""
        params = self._params(request)
        try:
            return await self._mended(self._send, params)
        except PromptTooLongError:
            raise
        except ModelError as error:
            is_blind = self._wires.sees_images and BLIND_WORDS.search(str(error))
            if is_blind and any(map(images_of, request.messages)):
                self._wires = MessageWires(sees_images=False)
            elif (lacks := find_lacks(self._lacks, error, params)) is not None:
                self._lacks = lacks
            else:
                raise
            return await self._open(request)

    def _params(self, request: Request) -> dict[str, Any]:
        fitting = self._lacks.fit(request)
        params = build_params(fitting, self._wires, diagnoses=self._diagnoses)
        return {**self._lacks.take_out(params), "model": self._model}

    async def _send(self, params: dict[str, Any]) -> AsyncStream[RawMessageStreamEvent]:
        client = await self._connect()
        opened = await self._translated(client.messages.create(**params, stream=True))
        return cast("AsyncStream[RawMessageStreamEvent]", opened)

    async def _next(self, events: AsyncIterator[Any]) -> Json | None:
        """Return the stream's next event, None at its end; an error event is raised."""
        try:
            raw = await anext(events, None)
            while raw is not None and not raw.data:
                raw = await anext(events, None)
        except Exception as error:
            raise self._ours(error, is_started=True) from None
        if raw is None:
            return None
        try:
            event = parse_event(raw.data)
        except ValueError as error:
            if raw.event != "error":
                raise self._no_event(error) from None
            event = {"error": {"message": raw.data}}
        if raw.event == "error" or event.get("type") == "error":
            raise classify(read_refusal(None, event), self._where)
        return event

    async def _drain(self, events: AsyncIterator[Any]) -> None:
        """Read what follows a finished reply; nothing of it, nor its failure, matters any more."""
        import httpx2

        try:
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                async for _ in events:
                    pass
        except (TimeoutError, httpx2.HTTPError, UnicodeDecodeError):
            return

    def _short_timeout(self) -> float:
        return min(FACTS_TIMEOUT_S, self._settings.timeout_s or FACTS_TIMEOUT_S)


# Finding out -----------------------------------------------------------------------------------


def find_base_url(settings: Settings, environ: Mapping[str, str]) -> str:
    """Return where requests go: the setting, else ANTHROPIC_BASE_URL, else Anthropic's own address.

    Without a `/v1` at its end, which the address of Chat Completions has.
    Raises ConfigError if it is no http(s) address.
    """
    url = (settings.base_url or environ.get("ANTHROPIC_BASE_URL", "")).strip() or DEFAULT_URL
    return without_version(check_address(url, name_address("", settings, "ANTHROPIC_BASE_URL")))


def find_credentials(base_url: str, environ: Mapping[str, str]) -> Credentials:
    """Return what calls to `base_url` are signed with, in the SDK's order.

    ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, the SDK's profiles and workload identity, and for a
    server on this machine a placeholder. Raises AuthError if there is nothing, or no usable key.
    """
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        value = find_key(environ, name)
        if value is None:
            continue
        if name == "ANTHROPIC_API_KEY":
            return Credentials(api_key=value, name=name)
        return Credentials(auth_token=value, name=name)
    if _has_profile(environ):
        return Credentials()
    if is_loopback(base_url):
        return Credentials(api_key=PLACEHOLDER_KEY)
    raise AuthError(
        f"No key for {shown_url(base_url)}: set ANTHROPIC_API_KEY before the kernel starts, "
        "or use %agent /model demo."
    )


def asks_why_missed(settings: Settings, base_url: str) -> bool:
    """Say whether requests to `base_url` ask why the prompt cache was missed.

    By itself only where the address is Anthropic's own: a gateway or a compatible server may refuse
    a field it does not know.
    """
    if settings.cache_diagnostics != "auto":
        return settings.cache_diagnostics == "on"
    return is_own_address(base_url)


def is_own_address(base_url: str) -> bool:
    """Say whether `base_url` is Anthropic's own."""
    host = (urlsplit(base_url).hostname or "").rstrip(".").lower()
    return host == "anthropic.com" or host.endswith(".anthropic.com")


def merge_facts(facts: ModelFacts, info: ModelInfo) -> ModelFacts:
    """Return `facts` with what the Models API said in place of the table's; total on any answer."""
    window = some_tokens(getattr(info, "max_input_tokens", None))
    output = some_tokens(getattr(info, "max_tokens", None))
    adaptive: object = info
    for step in ("capabilities", "thinking", "types", "adaptive", "supported"):
        adaptive = getattr(adaptive, step, None)
    label = getattr(info, "display_name", None)
    return replace(
        facts,
        window_tokens=window or facts.window_tokens,
        window_source="api" if window else facts.window_source,
        max_output_tokens=output or facts.max_output_tokens,
        adaptive_thinking=adaptive if isinstance(adaptive, bool) else facts.adaptive_thinking,
        max_images=max_images(window or facts.window_tokens),
        label=label if isinstance(label, str) and label else facts.label,
    )


def _has_profile(environ: Mapping[str, str]) -> bool:
    """Say whether the SDK may find credentials of its own kind: a profile or workload identity."""
    if environ.get("ANTHROPIC_PROFILE") or environ.get("ANTHROPIC_FEDERATION_RULE_ID"):
        return True
    folder = environ.get("ANTHROPIC_CONFIG_DIR")
    try:
        home = Path(folder) if folder else Path.home() / ".config" / "anthropic"
        return (home / "configs").is_dir()
    except (OSError, RuntimeError):  # no home folder: no profile in it
        return False
