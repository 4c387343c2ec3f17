"""A notebook that is renamed or copied, in real kernels: its file says which session is its own."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.agent_kernel import agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic
from tests.wire import text_of_messages

MODEL = "claude-sonnet-5-5"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("is_copied", [False, True])
def test_the_conversation_goes_with_the_notebook(tmp_path: Path, is_copied: bool) -> None:
    """Renamed, it goes on in the same session; copied, in a copy, and the original is untouched."""
    work = tmp_path / "work"
    work.mkdir()
    old, new = work / "a.ipynb", work / "b.ipynb"
    with FakeAnthropic(["First.", "Second."]) as server:
        with agent_kernel(tmp_path, server, MODEL, JPY_SESSION_NAME=str(old)) as kernel:
            ask(kernel, "Remember seven.")
            told = run(kernel, "import jupyter_ctx; print(jupyter_ctx.current_session().id)").text
            session_id = told.strip()
        metadata = {"jupyter_ctx": {"session_id": session_id}}  # as the page writes it
        notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": []}
        old.write_text(json.dumps(notebook), "utf-8")
        if is_copied:
            shutil.copy(old, new)
        else:
            old.rename(new)
        transcript = tmp_path / "ctx" / "sessions" / session_id / "transcript.jsonl"
        before = transcript.read_bytes()
        with agent_kernel(tmp_path, server, MODEL, JPY_SESSION_NAME=str(new)) as kernel:
            shown = str(ask(kernel, "Which number?").outputs)
            told = run(kernel, "import jupyter_ctx; print(jupyter_ctx.current_session().id)").text
            listed = str(run(kernel, "%agent /sessions").outputs)

        assert "Remember seven." in text_of_messages(server.messages[-1])
        assert (told.strip() == session_id) is not is_copied
        assert bool(re.search("is a copy of", shown)) is is_copied
        assert (transcript.read_bytes() == before) is is_copied
        assert ("a.ipynb" in listed) is is_copied
        assert "b.ipynb" in listed
        assert server.refused == []
