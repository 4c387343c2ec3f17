"""Case W14: a request's limit of 32 MB is met by old images that leave, never by less text."""

import base64
import io

import pytest

from jupyter_ctx.core import due
from jupyter_ctx.core.blocks import Image
from jupyter_ctx.core.due import LARGEST_IMAGE_BYTES
from jupyter_ctx.core.events import CompactionFinished, NoteAdded
from jupyter_ctx.core.offload import MOST_BYTES
from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.testing import FakeTools
from tests.fake_anthropic import FakeAnthropic, call, reply, too_large
from tests.fake_anthropic.checks import assert_append_only, assert_healthy
from tests.talk import run
from tests.wire import (
    answering,
    blocks,
    head_of,
    is_summary,
    of,
    plain_talk,
    summaries,
    text_of_messages,
)

SCALE = 60
"""Limit and pictures are this much smaller than the real ones, so that the tests are quick."""
WORDS = "A finding that should be kept word for word. " * 40


def noise(megabytes):
    """Return a picture whose base64 has so many megabytes by the scale, not compressed."""
    from PIL import Image as Pillow

    edge = int((megabytes * 1_000_000 / SCALE * 3 / 4 / 3) ** 0.5)
    pixels = bytes(range(251)) * (edge * edge * 3 // 251 + 1)
    data = io.BytesIO()
    made = Pillow.frombytes("RGB", (edge, edge), pixels[: edge * edge * 3])
    made.save(data, "PNG", compress_level=0)
    return Image("image/png", base64.b64encode(data.getvalue()).decode(), edge, edge)


def plotting(picture):
    data = {"image/png": picture.data, "text/plain": "<Figure>"}
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    return FakeTools(plot=lambda: ToolOutput("figure", (picture,), (output,), ("image/png",)))


def plots(count):
    return [
        part
        for n in range(count)
        for part in (reply(f"Plot {n}. {WORDS}", tools=[call("plot")]), f"Seen {n}.")
    ]


@pytest.mark.parametrize(("megabytes", "most_cuts"), [(10, 8), (8, 4), (4, 2)])
def test_w14_a_running_count_keeps_requests_under_the_limit(megabytes, most_cuts, monkeypatch):
    """W14: nine pictures of up to 10 MB: no request reaches 32 MB, and every picture is seen.

    Old ones leave in one batch by a compaction; between two of them requests only grow.
    """
    monkeypatch.setattr(due, "LARGEST_IMAGE_BYTES", LARGEST_IMAGE_BYTES // SCALE)
    with FakeAnthropic(answering(plots(9))) as server:
        with plain_talk(server, tools=plotting(noise(megabytes))) as session:
            session._engine.most_bytes = MOST_BYTES // SCALE
            for n in range(9):
                assert run(session, f"Plot {n}")[-1].outcome == "done"
        seen = {
            block["tool_use_id"]
            for record in server.messages
            for block in blocks(record, "tool_result")
            if any(inner["type"] == "image" for inner in block["content"])
        }
        assert MOST_BYTES < 32_000_000
        assert max(len(record.body) for record in server.messages) < 32_000_000 / SCALE
        assert len(seen) == 9
        assert 1 <= len(summaries(server.messages)) <= most_cuts
        assert_append_only(server.messages, is_side=is_summary)
        assert_healthy(server)


def test_w14_a_forced_413_sends_images_out_and_no_more_text():
    """W14: on a 413 old images go by a compaction, and the same step is sent again, smaller.

    What is summarised is what that boundary takes; what was not sent yet stays word for word.
    """
    script = [*plots(2), too_large(), "So."]
    with FakeAnthropic(answering(script)) as server:
        with plain_talk(server, tools=plotting(noise(8))) as session:
            run(session, "Plot 0")
            run(session, "Plot 1")
            events = run(session, "And both together?")
        assert events[-1].outcome == "done"
        assert len(of(events, CompactionFinished)) == 1
        assert [is_summary(record) for record in server.messages[-3:]] == [False, True, False]
        refused, summary, last = server.messages[-3:]
        assert refused.status == 413
        assert len(summary.body) < len(refused.body) / 10
        assert len(last.body) < len(refused.body) / 2
        assert WORDS in text_of_messages(summary)
        assert "And both together?" in last.last_text
        assert "Plot 0" in head_of(last)
        kept = [text for text in text_of_messages(last).splitlines() if WORDS.strip() in text]
        assert kept  # the newest step fits the tail: its text is not summed up
        assert not server.refused


def test_w14_a_413_that_stays_is_told_without_a_loop():
    """W14: refused again after the images left: one sentence, no third try; text is not dropped."""
    script = [*plots(1), too_large(), too_large(), "Later."]
    with FakeAnthropic(answering(script)) as server:
        with plain_talk(server, tools=plotting(noise(8))) as session:
            run(session, "Plot 0")
            events = run(session, "And now?")
            assert events[-1].outcome == "failed"
            assert "bytes" in events[-1].error
            assert len(summaries(server.messages)) <= 1
            assert sum(record.status == 413 for record in server.messages) == 2
            assert run(session, "Still there?")[-1].outcome == "done"
        assert not [note for note in of(events, NoteAdded) if note.level == "error"]
