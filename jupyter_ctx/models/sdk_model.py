"""What the adapters over both SDKs have in common: the client, and its errors as ours.

An SDK takes seconds to import, so that happens inside the first awaited call, in a worker thread,
where a stopped turn does not wait for it. One call is one attempt: the SDK's retries are off, the
loop has its own.
"""

from __future__ import annotations

import asyncio
import importlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Generic, TypeVar

from ..config import Settings
from ..core.blocks import Json
from ..core.ports import ModelFacts
from ..errors import ConfigError
from .addresses import name_address
from .refusals import Where, broken, said
from .server_facts import ask_address
from .wiretext import mend

Client = TypeVar("Client")
T = TypeVar("T")

CONNECT_TIMEOUT_S: Final = 10.0


class SdkModel(ABC, Generic[Client]):
    """A model behind an SDK's client, which is made by the first call and again after `aclose`.

    `environ` is where keys are read; `base_url` is where requests go; `where` tells error texts of
    it, and the model's name at the server. All calls of one model run on one event loop.
    """

    sdk_name: ClassVar[str]
    """The SDK's module."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        environ: Mapping[str, str],
        base_url: str,
        where: Where,
    ) -> None:
        self._name = name
        self._settings = settings
        self._environ = environ
        self._base_url = base_url
        variable = name_address(name, settings, where.address_name)
        self._where = replace(where, address_name=variable)
        self._client: Client | None = None
        self._facts: ModelFacts | None = None

    @property
    def name(self) -> str:
        """The model's name, as requests carry it."""
        return self._name

    @property
    def base_url(self) -> str:
        """Where requests go, without user and password."""
        return self._where.url

    def check_key(self) -> None:
        """Look whether calls can be signed, as far as that is known without asking anybody.

        Raises AuthError if they cannot.
        """
        self._sign()

    async def aclose(self) -> None:
        """Close connections. The model may be used again: the next call opens its own."""
        client: Any = self._client
        self._client = None
        if client is not None:
            await client.close()

    # For the adapters --------------------------------------------------------------------------

    @property
    def _model(self) -> str:
        """The model's name at the server."""
        return self._where.model

    async def _connect(self) -> Client:
        """Return the client. Raises AuthError without credentials, before the SDK is imported."""
        if self._client is None:
            signed = self._sign()
            sdk = await asyncio.to_thread(importlib.import_module, self.sdk_name)
            if self._client is None:  # two calls may come at once: a step and a summary
                self._client = self._make_client(sdk, signed)
        return self._client

    @abstractmethod
    def _sign(self) -> Mapping[str, str | None]:
        """Return the client's arguments that sign calls. Raises AuthError if there are none."""

    @abstractmethod
    def _new_client(self, sdk: Any, **options: Any) -> Client:
        """Return a client of `sdk`, whatever it raises."""

    @abstractmethod
    def _translate(self, error: Exception, *, is_started: bool) -> Exception | None:
        """Return the error of ours that `error` is, None if it is none of the SDK's."""

    def _make_client(self, sdk: Any, signed: Mapping[str, str | None]) -> Client:
        """Return a client for `base_url`, "" for the address that it knows itself."""
        timeout = sdk.Timeout(self._settings.timeout_s or None, connect=CONNECT_TIMEOUT_S)
        options = {"base_url": self._base_url or None, "max_retries": 0, "timeout": timeout}
        http = self._make_transport(sdk)
        try:
            return self._new_client(sdk, **signed, **options, http_client=http)
        except Exception as error:
            raise self._ours(error) from None

    def _make_transport(self, sdk: Any) -> Any:
        """Return what sends requests: where they are addressed, and nowhere that an answer names.

        Raises ConfigError where the environment names a proxy that cannot be one.
        """
        try:
            return sdk.DefaultAsyncHttpxClient(follow_redirects=False)
        except Exception as error:
            raise ConfigError(
                f"No connection to {self._where.url or 'the provider'} can be made: check "
                "HTTP_PROXY, HTTPS_PROXY and ALL_PROXY."
                + said(self._where, str(error), "The system"),
                name="base_url",
            ) from None

    async def _mended(
        self, send: Callable[[dict[str, Any]], Awaitable[T]], params: dict[str, Any]
    ) -> T:
        """Send `params`; with texts mended if there is half a surrogate pair, as seldom happens."""
        try:
            return await send(params)
        except UnicodeEncodeError:
            pass
        return await send(mend(params))

    async def _ask(self, url: str, body: Json | None) -> Json:
        """Ask a question that a turn can do without; {} where there is no usable answer."""
        client, most_s = await self._connect(), self._settings.timeout_s
        return await ask_address(client, self._translated, url, body, most_s)

    async def _translated(self, call: Awaitable[T]) -> T:
        """Await a call of the SDK; its errors come out as ours, without its own in their trace."""
        try:
            return await call
        except UnicodeEncodeError:
            raise  # `_mended` sends once more
        except Exception as error:
            raise self._ours(error) from None

    def _ours(self, error: Exception, *, is_started: bool = False) -> Exception:
        return self._translate(error, is_started=is_started) or error

    def _no_event(self, why: object, words: str = "") -> Exception:
        """Return the error of an answer that is no event stream, but `words`."""
        return broken(self._where, f"is no event stream ({why})", words)
