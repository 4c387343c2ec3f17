"""How servers differ: error bodies, usage figures, where the window is told, what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..fake_anthropic.errors import ApiError

Name = Literal["openai", "vllm", "llama.cpp", "ollama", "lmstudio", "gemini"]


@dataclass(frozen=True)
class Kind:
    """One server's ways.

    `caches`: it tells cached tokens. `truncates`: a prompt over the window is cut without a word.
    `reasoning` is the field it streams thinking in and takes back, "" if it hides it. `signs`: the
    first call of a step carries a signature that must come back. `limit_field` is the only name of
    the output limit it takes, "" for any. `same_index`: every whole call has index 0.
    """

    name: Name
    caches: bool = False
    truncates: bool = False
    reasoning: str = ""
    signs: bool = False
    limit_field: str = ""
    same_index: bool = False


KINDS: Mapping[Name, Kind] = {
    "openai": Kind("openai", caches=True, limit_field="max_completion_tokens"),
    "vllm": Kind("vllm", reasoning="reasoning_content"),
    "llama.cpp": Kind("llama.cpp", caches=True, reasoning="reasoning_content"),
    "ollama": Kind("ollama", truncates=True, reasoning="reasoning"),
    "lmstudio": Kind("lmstudio", reasoning="reasoning_content"),
    "gemini": Kind("gemini", signs=True, same_index=True),
}


class ServerError(ApiError):
    """An error with the body that one kind of server gives."""

    def __init__(self, kind: Kind, status: int, message: str, **more: Any) -> None:
        self.code = more.pop("code", None)
        self.fields = more.pop("fields", {})
        super().__init__(status, message, **more)
        self.kind = kind

    def body(self, request_id: str) -> Any:
        """Return the JSON body."""
        given = self.type if self.status == 200 else None
        match self.kind.name:
            case "vllm":
                kind = (given or "BadRequestError") if self.status == 400 else "Error"
                inner = {"message": self.message, "type": kind, "param": None, "code": self.status}
                return {"error": inner}
            case "llama.cpp":
                kind = self.fields.get("type", given or "invalid_request_error")
                inner = {"code": self.status, "message": self.message, "type": kind}
                return {"error": {**inner, **self.fields}}
            case "ollama":
                inner = {"message": self.message, "type": "api_error", "param": None, "code": None}
                return {"error": inner}
            case "lmstudio":
                return {"error": self.message}
            case "gemini":
                status = {400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED"}.get(self.status)
                code = self.status if self.status != 200 else 503
                inner = {"code": code, "message": self.message, "status": status or "UNAVAILABLE"}
                return [{"error": inner}]
            case _:
                kind = given or ("server_error" if self.status >= 500 else "invalid_request_error")
                inner = {"message": self.message, "type": kind, "param": None, "code": self.code}
                return {"error": inner}


def overflow(kind: Kind, tokens: int, window: int) -> ServerError:
    """Return what a server says of a prompt over its window."""
    match kind.name:
        case "vllm":
            text = (
                f"This model's maximum context length is {window} tokens. However, your request "
                f"has {tokens} input tokens. Please reduce the length of the input messages."
            )
            return ServerError(kind, 400, text)
        case "llama.cpp":
            text = (
                f"request ({tokens} tokens) exceeds the available context size ({window} tokens), "
                "try increasing it"
            )
            fields = {
                "type": "exceed_context_size_error",
                "n_prompt_tokens": tokens,
                "n_ctx": window,
            }
            return ServerError(kind, 400, text, fields=fields)
        case "lmstudio":
            text = (
                f"Trying to keep the first {tokens} tokens when context the overflows. However, "
                f"the model is loaded with context length of only {window} tokens, which is not "
                "enough. Try to load the model with a larger context length."
            )
            return ServerError(kind, 400, text)
        case "gemini":
            text = (
                f"The input token count ({tokens}) exceeds the maximum number of tokens allowed "
                f"({window})."
            )
            return ServerError(kind, 400, text)
        case _:
            text = (
                f"This model's maximum context length is {window} tokens. However, your messages "
                f"resulted in {tokens} tokens. Please reduce the length of the messages."
            )
            return ServerError(kind, 400, text, code="context_length_exceeded")
