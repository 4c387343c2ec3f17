"""The server that tests talk to: `FakeOpenAI`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..fake_anthropic.fake import FakeAnthropic
from ..fake_anthropic.models import FakeModel
from ..fake_anthropic.record import Recorded
from ..fake_anthropic.script import Script
from .exchange import CACHE_FLOOR, CACHE_STEP, COMPLETIONS, OpenAIExchange
from .kinds import KINDS, Name

MODEL = "test-model"


class FakeOpenAI(FakeAnthropic):
    """A strict Chat Completions API on a loopback port; use it as a context manager.

    As FakeAnthropic, with the same scripts. `kind` names whose server it is; `sees` False: its
    model takes no images. `model` is the one model it has, with a window of `window` tokens.
    """

    path = COMPLETIONS

    def __init__(
        self,
        script: Script = (),
        *,
        kind: Name = "vllm",
        sees: bool = True,
        model: str = MODEL,
        window: int = 1_000_000,
        max_output: int = 128_000,
        models: Mapping[str, FakeModel] | None = None,
        **more: Any,
    ) -> None:
        known = models or {model: FakeModel(window=window, max_output=max_output)}
        super().__init__(script, models=known, **more)
        self.kind = KINDS[kind]
        self.sees = sees
        self.tells = True
        self.signed: set[str] = set()
        self._cached: set[str] = set()
        self._is_loaded = False

    @property
    def url(self) -> str:
        """The base URL, for `OPENAI_BASE_URL`."""
        return f"{super().url}/v1"

    def _exchange(self, record: Recorded) -> OpenAIExchange:
        return OpenAIExchange(self, record)

    def read_cache(self, hashes: Sequence[str], tokens: Sequence[int]) -> int:
        """Return the tokens read of a prompt's longest known prefix, and keep the whole."""
        with self.lock:
            known = [
                sum_ for digest, sum_ in zip(hashes, tokens, strict=True) if digest in self._cached
            ]
            self._cached.update(hashes)
        longest = max(known, default=0)
        return 0 if longest < CACHE_FLOOR else longest // CACHE_STEP * CACHE_STEP

    def tell(self, path: str) -> Mapping[str, Any] | None:
        """Return what this kind of server says of its model at `path`, None: no such place."""
        name, model = next(iter(self.models.items()))
        if not self.tells:
            return None
        entry: dict[str, Any] = {"id": name, "object": "model", "owned_by": self.kind.name}
        listed = {"object": "list", "data": [entry]}
        match self.kind.name, path:
            case "openai", _ if path == f"/v1/models/{name}":
                return entry
            case "vllm", "/v1/models":
                entry["max_model_len"] = model.window
                return listed
            case (("llama.cpp" | "lmstudio" | "gemini"), "/v1/models"):
                return listed
            case "llama.cpp", "/props":
                settings = {"n_ctx": model.window}
                return {
                    "default_generation_settings": settings,
                    "modalities": {"vision": self.sees},
                }
            case "lmstudio", _ if path == f"/api/v0/models/{name}":
                kind = "vlm" if self.sees else "llm"
                return {"id": name, "type": kind, "loaded_context_length": model.window}
            case "ollama", "/api/show":
                able = ["completion", "tools", *(["vision"] if self.sees else [])]
                return {"capabilities": able, "parameters": 'stop "<|end|>"'}
            case "ollama", "/api/generate":
                self._is_loaded = True
                return {"done": True}
            case "ollama", "/api/ps":
                loaded = {"name": name, "context_length": model.window}
                return {"models": [loaded] if self._is_loaded else []}
            case _:
                return None
