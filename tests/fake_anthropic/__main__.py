"""Serve an echo by hand: `python -m tests.fake_anthropic --port 8765`.

It repeats what it is told in Markdown. `run: CODE` calls run_code; `long` streams for a while;
`fail` answers 529 once; `refuse` refuses.
"""

from __future__ import annotations

import argparse
import threading
from dataclasses import replace
from typing import Any

from .fake import FakeAnthropic
from .models import DEFAULT_MODELS
from .record import last_text
from .script import Call, Reply, Status, refuse, reply, status

LONG = "Line {} of a long answer, with *emphasis*, `code` and a [link](https://example.org).\n\n"


def echo(request: dict[str, Any]) -> Reply | Status:
    """Answer the newest message."""
    content = request["messages"][-1]["content"]
    results = [
        block
        for block in (content if isinstance(content, list) else [])
        if block["type"] == "tool_result"
    ]
    if results:
        texts = [inner.get("text", "") for inner in results[0].get("content") or ()]
        return reply(f"The code said:\n\n```\n{''.join(texts)[:500]}\n```\n\nAnything else?")
    text = last_text(request).strip()
    if text.startswith("run:"):
        code = text.removeprefix("run:").strip()
        return reply("Let me run that.", Call("run_code", code=code), thinking="I should run it.")
    if text == "long":
        return reply("".join(LONG.format(number) for number in range(200)))
    if text == "refuse":
        return refuse("I would rather not.")
    if text == "fail":
        return status(529)
    return reply(f"You said:\n\n> {text[:2000]}", thinking="An echo will do.")


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.fake_anthropic", description=__doc__)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--echo", action="store_true", help="the default")
    parser.add_argument("--window", type=int, default=0, help="tokens, for every model")
    parser.add_argument("--pace", type=float, default=0.02, help="seconds between events")
    given = parser.parse_args()
    models = {
        name: replace(model, window=given.window or model.window)
        for name, model in DEFAULT_MODELS.items()
    }
    with FakeAnthropic(echo, models=models, port=given.port, pace_s=given.pace) as server:
        print(f"ANTHROPIC_BASE_URL={server.url}", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print(f"{len(server.messages)} requests, {len(server.refused)} refused")


if __name__ == "__main__":
    main()
