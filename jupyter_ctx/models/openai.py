"""The OpenAI adapter: `core.ports.Model` over the official SDK's Chat Completions.

For OpenAI and every server that speaks its protocol. What is sent is built from the request alone
(`openai_wire`), what comes is read as raw chunks (`openai_stream`), what goes wrong is translated
(`openai_errors`), what a server knows of its model is asked in its own words (`server_facts`). The
client and how it is called are those of every SDK (`sdk_model`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from ..config import Settings
from ..core.blocks import Json, Message, Thinking, images_of
from ..core.ports import Delta, ModelFacts, Request
from ..errors import (
    AuthError,
    ModelError,
    PromptTooLongError,
    RateLimitedError,
    UnreachableError,
)
from .addresses import (
    PLACEHOLDER_KEY,
    TextRedactor,
    check_address,
    find_key,
    is_loopback,
    name_address,
    shown_url,
    split_query,
)
from .facts import sees_images, table_facts
from .openai_errors import translate
from .openai_stream import ReplyReader, SseLines, find_error
from .openai_wire import Dialect, build_message, build_params, own_names
from .refusals import BLIND_WORDS, Where, classify, find_room, read_refusal
from .sdk_model import SdkModel
from .server_facts import ask_server, is_official
from .wires import Wires
from .wiretext import parse_event

if TYPE_CHECKING:
    from openai import AsyncOpenAI

DEFAULT_URL: Final = "https://api.openai.com/v1"
OLLAMA_URL: Final = "http://127.0.0.1:11434/v1"

MOST_LEARNT: Final = 4
"""How often one call is sent again for what a server does not take: once for each such thing."""

AFTERWORD_S: Final = 5.0
"""How long usage may be waited for behind a whole reply, in seconds."""

LEAST_ROOM: Final = 1_024
"""Tokens of an answer for which a prompt that fits is not compacted."""

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
_NO_SYSTEM: Final = re.compile(
    r"system (role|message|prompt|instruction)s?.{0,20}not (be )?(supported|enabled|allowed)"
    r"|does not support .?(system|developer)\b|developer instruction is not enabled",
    re.I,
)
_NO_EFFORT: Final = re.compile(r"reasoning[_.]effort|think value", re.I)
_NO_REASONING: Final = re.compile(
    r"(unknown|unrecognized|unsupported|extra|property).{0,80}\breasoning(_content|_details)?\b"
    r"|\breasoning(_content|_details)?\b.{0,80}"
    r"(unknown|unsupported|not (supported|permitted|allowed)|must not)",
    re.I | re.S,
)
_LONGEST_ID: Final = re.compile(
    r"(?:tool_calls\W+\d+\W+id|tool_call_id)\b.{0,60}maximum length (?P<long>\d+)"
    r"|tool call id was .{0,100}length of (?P<exact>\d+)",
    re.I | re.S,
)
_LONGEST_DESCRIPTION: Final = re.compile(r"description.{0,60}maximum length (\d+)", re.I | re.S)


class OpenAIModel(SdkModel["AsyncOpenAI"]):
    """A model behind Chat Completions: `openai:NAME` or `ollama:NAME`.

    `environ` gives OPENAI_API_KEY and OPENAI_BASE_URL; the setting `base_url` comes before the
    latter, and for `ollama:` before this machine's own Ollama. A base URL on this machine needs no
    key; Ollama gets OLLAMA_API_KEY or none. Raises ConfigError if the base URL is none.
    """

    sdk_name = "openai"

    def __init__(
        self, name: str, settings: Settings, environ: Mapping[str, str], redactor: TextRedactor
    ) -> None:
        self._is_ollama = name.startswith("ollama:")
        address = find_base_url(settings, environ, is_ollama=self._is_ollama)
        base_url, self._query = split_query(address)
        where = Where(
            url=shown_url(base_url),
            model=name.partition(":")[2],
            key_name="OLLAMA_API_KEY" if self._is_ollama else "OPENAI_API_KEY",
            timeout_s=settings.timeout_s,
            redact=redactor.text,
            api="Chat Completions API",
            address_name="OPENAI_BASE_URL",
        )
        super().__init__(name, settings, environ, base_url, where)
        field = "max_completion_tokens" if is_official(base_url) else "max_tokens"
        self._dialect = Dialect(field, sees_images=sees_images(name) is not False)
        self._wires = Wires(self._build_message)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the reply as it arrives; the last item is a ReplyDone.

        One attempt. Raises a ModelError; StreamBrokenError if the stream ends without a ReplyDone.
        Closing the iterator, or cancelling its task, closes the connection.
        """
        async with AsyncExitStack() as stack:
            response = await self._open(request, stack)
            reader = self._make_reader(request)
            async for chunk in self._chunks(response, reader):
                if (error := find_error(chunk)) is not None and not reader.is_ended:
                    raise classify(read_refusal(None, error), self._where)
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
        prefix = self._name.removesuffix(self._model)
        self._facts = told.over(facts, prefix)
        return self._facts

    async def count_tokens(self, request: Request) -> int | None:
        """Return None: the protocol has no count."""
        return None

    # Calls -------------------------------------------------------------------------------------

    def _sign(self) -> Mapping[str, str | None]:
        key = find_credentials(self._base_url, self._environ, is_ollama=self._is_ollama)
        return {"api_key": key}

    def _new_client(self, sdk: Any, **options: Any) -> AsyncOpenAI:
        return cast("AsyncOpenAI", sdk.AsyncOpenAI(**options, default_query=self._query))

    def _translate(self, error: Exception, *, is_started: bool) -> Exception | None:
        return translate(error, self._where, is_started=is_started)

    async def _open(self, request: Request, stack: AsyncExitStack) -> Any:
        """Send the request; once more for each thing that the server says it does not take."""
        for left in range(MOST_LEARNT, -1, -1):
            try:
                return await self._mended(partial(self._send, stack), self._params(request))
            except ModelError as error:
                other = find_dialect(self._dialect, error, request)
                if other is None or not left:
                    raise
                self._use(other)
        raise AssertionError("unreachable: the last try returns or raises")

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

    async def _send(self, stack: AsyncExitStack, params: dict[str, Any]) -> Any:
        client = await self._connect()
        opening = client.chat.completions.with_streaming_response.create(
            model=params["model"], messages=[], stream=True, extra_body=params
        )
        return await self._translated(stack.enter_async_context(opening))

    async def _chunks(self, response: Any, reader: ReplyReader) -> AsyncIterator[Json]:
        """Yield the chunks up to `[DONE]` or the end; nothing that fails behind a whole reply.

        Some servers then leave the connection open and say nothing more.
        """
        lines = SseLines()
        pieces = response.iter_bytes()
        while True:
            try:
                wait_s = AFTERWORD_S if reader.is_ended else None
                piece = await asyncio.wait_for(_next(pieces), wait_s)
                datas = list(lines.finish() if piece is None else lines.feed(piece))
            except Exception as error:
                if reader.is_ended:
                    return
                raise self._ours(error, is_started=True) from None
            for data in datas:
                if data.startswith("[DONE]"):
                    return
                try:
                    chunk = parse_event(data)
                except ValueError as error:
                    if reader.is_ended:
                        return
                    raise self._no_event(error, data) from None
                yield chunk
            if piece is None:
                return


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)


# Finding out -----------------------------------------------------------------------------------


def find_base_url(settings: Settings, environ: Mapping[str, str], *, is_ollama: bool) -> str:
    """Return where requests go: the setting, else OPENAI_BASE_URL, else OpenAI's own address.

    For Ollama the setting, else this machine's. Raises ConfigError if it is no http(s) address.
    """
    if is_ollama:
        url = settings.base_url.strip() or OLLAMA_URL
    else:
        url = (settings.base_url or environ.get("OPENAI_BASE_URL", "")).strip() or DEFAULT_URL
    return check_address(url, name_address("", settings, "OPENAI_BASE_URL")).rstrip("/")


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


def find_dialect(dialect: Dialect, error: ModelError, request: Request) -> Dialect | None:
    """Return how to ask again a server that said in `error` what it does not take.

    None: it is not for that.
    """
    said, messages = str(error), request.messages
    sent = min(request.max_tokens, dialect.most_output or request.max_tokens)
    if isinstance(error, PromptTooLongError):
        room = find_room(said)  # half of it: the next prompt will be longer
        is_room = room is not None and LEAST_ROOM <= room // 2 < sent
        return replace(dialect, most_output=room // 2) if room and is_room else None
    if isinstance(error, (AuthError, UnreachableError)) or type(error) is RateLimitedError:
        return None
    is_new = dialect.output_field == "max_completion_tokens"
    if not is_new and _WANTS_NEW_LIMIT.search(said):
        return replace(dialect, output_field="max_completion_tokens")
    if is_new and _WANTS_OLD_LIMIT.search(said):
        return replace(dialect, output_field="max_tokens")
    if re.search(r"max_(completion_)?tokens", said) and (found := _MOST_OUTPUT.search(said)):
        most = int(found[1])
        return replace(dialect, most_output=most) if most < sent else None
    if dialect.tells_usage and _NO_USAGE.search(said):
        return replace(dialect, tells_usage=False)
    if dialect.sees_images and any(map(images_of, messages)) and BLIND_WORDS.search(said):
        return replace(dialect, sees_images=False)
    if request.effort and dialect.takes_effort and _NO_EFFORT.search(said):
        return replace(dialect, takes_effort=False)
    if request.system and dialect.takes_system and _NO_SYSTEM.search(said):
        return replace(dialect, takes_system=False)
    if dialect.most_description is None and (found := _LONGEST_DESCRIPTION.search(said)):
        return replace(dialect, most_description=max(2, int(found[1])))
    if dialect.most_id is None and (found := _LONGEST_ID.search(said)):
        return replace(dialect, most_id=max(8, int(found["long"] or found["exact"])))
    if dialect.takes_reasoning and _thinks(messages) and _NO_REASONING.search(said):
        return replace(dialect, takes_reasoning=False)
    return None


def _thinks(messages: Sequence[Message]) -> bool:
    return any(isinstance(block, Thinking) for message in messages for block in message.content)
