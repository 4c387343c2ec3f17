"""The OpenAI adapter: `core.ports.Model` over the official SDK's Chat Completions.

For OpenAI and every server that speaks its protocol. The SDK is imported inside the first awaited
call, in a worker thread. One call is one attempt: the SDK's retries are off. What is sent is built
from the request alone (`openai_wire`), what comes is read as raw chunks (`openai_stream`), what
goes wrong is translated (`openai_errors`), what a server knows of its model is asked in its own
words (`server_facts`).
"""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ..config import Settings
from ..core.blocks import Json, Message, images_of
from ..core.ports import Delta, ModelFacts, Request
from ..errors import (
    AuthError,
    ModelError,
    PromptTooLongError,
    StreamBrokenError,
)
from .addresses import (
    PLACEHOLDER_KEY,
    TextRedactor,
    check_address,
    find_key,
    is_loopback,
    shown_url,
)
from .facts import sees_images, table_facts
from .openai_errors import translate
from .openai_stream import ReplyReader, SseLines
from .openai_wire import Dialect, build_message, build_params, own_names
from .refusals import BLIND_WORDS, Where, classify, read_refusal
from .server_facts import ask_address, ask_server, is_official
from .wires import Wires
from .wiretext import mend, parse_event

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")

PREFIXES: Final = ("openai:", "ollama:")
DEFAULT_URL: Final = "https://api.openai.com/v1"
OLLAMA_URL: Final = "http://127.0.0.1:11434/v1"
CONNECT_TIMEOUT_S: Final = 10.0

MOST_LEARNT: Final = 4
"""How often one call is sent again for what a server does not take: once for each such thing."""

# What a server says of a field or an image that it does not take; then it is asked once more.
_WANTS_NEW_LIMIT: Final = re.compile(r"max_tokens.{0,80}(not supported|unsupported)", re.I | re.S)
_WANTS_OLD_LIMIT: Final = re.compile(
    r"max_completion_tokens.{0,80}(unknown|unrecognized|unsupported|not supported|not permitted)"
    r"|(unknown|unrecognized|extra|unsupported).{0,80}max_completion_tokens",
    re.I | re.S,
)
_MOST_OUTPUT: Final = re.compile(
    r"(?:at most|less than or equal to|\[1, ?|maximum (?:value|output)[^\d]{0,40})[^\d]{0,3}"
    r"(\d{3,7})",
    re.I,
)
_NO_USAGE: Final = re.compile(r"stream_options|include_usage", re.I)


class OpenAIModel:
    """A model behind Chat Completions: `openai:NAME` or `ollama:NAME`.

    `environ` gives OPENAI_API_KEY and OPENAI_BASE_URL; the setting `base_url` comes before the
    latter, and for `ollama:` before this machine's own Ollama. A base URL on this machine needs no
    key; Ollama gets OLLAMA_API_KEY or none. Raises ConfigError if the base URL is none. All calls
    of one model run on one event loop.
    """

    def __init__(
        self, name: str, settings: Settings, environ: Mapping[str, str], redactor: TextRedactor
    ) -> None:
        self._name = name
        self._is_ollama = name.startswith("ollama:")
        self._model = name.partition(":")[2]
        self._settings = settings
        self._environ = environ
        self._base_url = find_base_url(settings, environ, is_ollama=self._is_ollama)
        self._where = Where(
            url=shown_url(self._base_url),
            model=self._model,
            key_name="OLLAMA_API_KEY" if self._is_ollama else "OPENAI_API_KEY",
            timeout_s=settings.timeout_s,
            redact=redactor.text,
            api="Chat Completions API",
            address_name="OPENAI_BASE_URL",
        )
        field = "max_completion_tokens" if is_official(self._base_url) else "max_tokens"
        self._dialect = Dialect(field, sees_images=sees_images(name) is not False)
        self._wires = Wires(self._build_message)
        self._client: AsyncOpenAI | None = None
        self._facts: ModelFacts | None = None

    @property
    def name(self) -> str:
        """The model's name with its prefix, as requests carry it."""
        return self._name

    @property
    def base_url(self) -> str:
        """Where requests go, without user and password."""
        return self._where.url

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the reply as it arrives; the last item is a ReplyDone.

        One attempt. Raises a ModelError; StreamBrokenError if the stream ends without a ReplyDone.
        Closing the iterator, or cancelling its task, closes the connection.
        """
        async with AsyncExitStack() as stack:
            response = await self._open(request, stack)
            reader = self._make_reader(request)
            async for chunk in self._chunks(response, reader):
                if chunk.get("error"):
                    raise classify(read_refusal(None, chunk), self._where)
                for delta in reader.feed(chunk):
                    yield delta
        for delta in reader.finish():
            yield delta

    async def load_facts(self) -> ModelFacts:
        """Return what is known of the model: the server's own figures over the bundled table's.

        Asks once. A server that does not say leaves the table's figures; one that cannot answer
        now (it loads the model, say) is asked again next time. Raises AuthError, UnreachableError,
        RateLimitedError and StreamBrokenError.
        """
        if self._facts is not None:
            return self._facts
        facts = table_facts(self._name, self._settings, self._base_url)
        told = await ask_server(self._ask, self._base_url, self._model, is_ollama=self._is_ollama)
        if told.sees_images is not None:
            self._use(replace(self._dialect, sees_images=told.sees_images))
        self._facts = told.over(facts)
        return self._facts

    async def count_tokens(self, request: Request) -> int | None:
        """Return None: the protocol has no count."""
        return None

    async def aclose(self) -> None:
        """Close connections. The model may be used again: the next call opens its own."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    # Calls -------------------------------------------------------------------------------------

    async def _connect(self) -> AsyncOpenAI:
        """Return the client. Raises AuthError without a key, before the SDK is imported."""
        if self._client is None:
            key = find_credentials(self._base_url, self._environ, is_ollama=self._is_ollama)
            sdk = await asyncio.to_thread(importlib.import_module, "openai")
            if self._client is None:  # two calls may come at once: a step and a summary
                self._client = self._make_client(sdk, key)
        return self._client

    def _make_client(self, sdk: Any, key: str) -> AsyncOpenAI:
        timeout = sdk.Timeout(self._settings.timeout_s or None, connect=CONNECT_TIMEOUT_S)
        try:
            client = sdk.AsyncOpenAI(
                api_key=key, base_url=self._base_url, max_retries=0, timeout=timeout
            )
        except Exception as error:
            raise self._ours(error) from None
        return cast("AsyncOpenAI", client)

    async def _open(self, request: Request, stack: AsyncExitStack) -> Any:
        """Send the request; once more for each thing that the server says it does not take."""
        for left in range(MOST_LEARNT, -1, -1):
            try:
                return await self._send_mended(self._params(request), stack)
            except PromptTooLongError:
                raise
            except ModelError as error:
                other = find_dialect(self._dialect, str(error), request)
                if other is None or not left:
                    raise
                self._use(other)
        raise AssertionError("unreachable: the last try returns or raises")

    async def _send_mended(self, params: dict[str, Any], stack: AsyncExitStack) -> Any:
        try:
            return await self._send(params, stack)
        except UnicodeEncodeError:
            pass  # half a surrogate pair somewhere: so seldom that texts are mended only then
        return await self._send(mend(params), stack)

    def _params(self, request: Request) -> dict[str, Any]:
        return build_params(request, self._model, self._dialect, self._wires)

    def _make_reader(self, request: Request) -> ReplyReader:
        limit = min(request.max_tokens, self._dialect.most_output or request.max_tokens)
        window = self._facts.window_tokens if self._facts else None
        names = own_names(request.tools)
        return ReplyReader(self._where.url, self._model, limit, window, names)

    def _use(self, dialect: Dialect) -> None:
        if dialect != self._dialect:
            self._dialect, self._wires = dialect, Wires(self._build_message)

    def _build_message(self, message: Message) -> list[dict[str, object]]:
        return build_message(message, self._model, self._dialect)

    async def _send(self, params: dict[str, Any], stack: AsyncExitStack) -> Any:
        client = await self._connect()
        opening = client.chat.completions.with_streaming_response.create(
            model=params["model"], messages=[], stream=True, extra_body=params
        )
        return await self._translated(stack.enter_async_context(opening))

    async def _chunks(self, response: Any, reader: ReplyReader) -> AsyncIterator[Json]:
        """Yield the chunks up to `[DONE]` or the end; nothing that fails behind a whole reply."""
        lines = SseLines()
        pieces = response.iter_bytes()
        while True:
            try:
                piece = await anext(pieces, None)
                datas = list(lines.finish() if piece is None else lines.feed(piece))
            except Exception as error:
                if reader.is_ended:
                    return
                raise self._ours(error, is_started=True) from None
            for data in datas:
                if data.startswith("[DONE]"):
                    return
                yield self._parse(data)
            if piece is None:
                return

    def _parse(self, data: str) -> Json:
        try:
            return parse_event(data)
        except ValueError as error:
            text = f"The answer from {self._where.url} is no event stream ({error})"
            raise StreamBrokenError(f"{text}; send the prompt again.") from None

    async def _ask(self, url: str, body: Json | None) -> Json:
        """Ask a question that a turn can do without; {} where there is no usable answer."""
        client, most_s = await self._connect(), self._settings.timeout_s
        return await ask_address(client, self._translated, url, body, most_s)

    async def _translated(self, call: Awaitable[T]) -> T:
        """Await a call of the SDK; its errors come out as ours, without its own in their trace."""
        try:
            return await call
        except UnicodeEncodeError:
            raise
        except Exception as error:
            raise self._ours(error) from None

    def _ours(self, error: Exception, *, is_started: bool = False) -> Exception:
        return translate(error, self._where, is_started=is_started) or error


# Finding out -----------------------------------------------------------------------------------


def find_base_url(settings: Settings, environ: Mapping[str, str], *, is_ollama: bool) -> str:
    """Return where requests go: the setting, else OPENAI_BASE_URL, else OpenAI's own address.

    For Ollama the setting, else this machine's. Raises ConfigError if it is no http(s) address.
    """
    if is_ollama:
        url = settings.base_url.strip() or OLLAMA_URL
    else:
        url = (settings.base_url or environ.get("OPENAI_BASE_URL", "")).strip() or DEFAULT_URL
    return check_address(url, "OPENAI_BASE_URL").rstrip("/")


def find_credentials(base_url: str, environ: Mapping[str, str], *, is_ollama: bool) -> str:
    """Return the key that calls to `base_url` are signed with.

    OPENAI_API_KEY, and for a server on this machine a placeholder; for Ollama OLLAMA_API_KEY or a
    placeholder, never OpenAI's. Raises AuthError if there is none, or one that can be no key.
    """
    name = "OLLAMA_API_KEY" if is_ollama else "OPENAI_API_KEY"
    key = find_key(environ, name)
    if key is not None:
        return key
    if is_ollama or is_loopback(base_url):
        return PLACEHOLDER_KEY
    raise AuthError(
        f"No key for {shown_url(base_url)}: set OPENAI_API_KEY before the kernel starts, "
        "or use %agent /model demo."
    )


def find_dialect(dialect: Dialect, said: str, request: Request) -> Dialect | None:
    """Return how to ask again a server that `said` what it does not take; None: not for that."""
    messages, sent = request.messages, request.max_tokens
    is_new = dialect.output_field == "max_completion_tokens"
    if not is_new and _WANTS_NEW_LIMIT.search(said):
        return replace(dialect, output_field="max_completion_tokens")
    if is_new and _WANTS_OLD_LIMIT.search(said):
        return replace(dialect, output_field="max_tokens")
    if re.search(r"max_(completion_)?tokens", said) and (found := _MOST_OUTPUT.search(said)):
        most = int(found[1])
        return replace(dialect, most_output=most) if most < (dialect.most_output or sent) else None
    if dialect.tells_usage and _NO_USAGE.search(said):
        return replace(dialect, tells_usage=False)
    if dialect.sees_images and any(map(images_of, messages)) and BLIND_WORDS.search(said):
        return replace(dialect, sees_images=False)
    return None
