"""Models in a real kernel: what a switch would cost, and the demo's faults, without a key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kernels import RealKernel, running_kernel


@pytest.fixture
def kernel(tmp_path: Path):
    with running_kernel(tmp_path, {"JUPYTER_CTX_PERMISSIONS": "auto"}) as started:
        started.execute("%load_ext jupyter_ctx")
        yield started


def said(kernel: RealKernel, text: str) -> str:
    """Run a cell and return all that it shows, its error included."""
    ran = kernel.execute(f"%agent {text}")
    return "\n".join(str(each.get("text") or each.get("data") or each) for each in ran.outputs)


def test_a_switch_is_priced_before_it_is_made(kernel):
    """The list and one name tell window, price and cost; the model in use stays the demo."""
    said(kernel, "Run `1 + 1`.")
    listed, one = (
        said(kernel, "/model"),
        said(kernel, "/model bedrock:us.anthropic.claude-opus-5-5?"),
    )

    assert "claude-sonnet-5-5" in listed
    assert "in use" in listed
    assert "1,000,000 tokens" in one
    assert "genai-prices" in one
    assert "tokens, $" in one
    assert "Nothing is switched" in one
    assert "is no name of a model" in said(kernel, "/model <x>?")
    assert "Demo model" in said(kernel, "/model")


@pytest.mark.parametrize("set_", ["openai:", "../x", "  "])
def test_a_model_that_cannot_be_is_left_by_the_command(tmp_path, set_):
    """Where settings name no usable model, prompts say so, and `/model demo` is the way out."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.json").write_text(json.dumps({"model": set_, "permissions": "auto"}))
    with running_kernel(tmp_path, {"JUPYTER_CTX_HOME": str(home)}) as kernel:
        kernel.execute("%load_ext jupyter_ctx")

        assert "UsageError" in said(kernel, "Run `1 + 1`.")
        assert "UsageError" in said(kernel, "/model")
        assert "Demo model" in said(kernel, "/model demo")
        assert "It returned" in said(kernel, "Run `1 + 1`.")


def test_what_is_missing_for_a_cloud_is_said_in_the_cell(kernel):
    """Without a region nothing is sent; the cell says what to set, and the demo still answers."""
    said(kernel, "/model bedrock:us.anthropic.claude-opus-5-5")

    assert "set AWS_REGION" in said(kernel, "hello")
    said(kernel, "/model demo")
    assert "It returned" in said(kernel, "Run `1 + 1`.")


def test_the_demo_thinks_and_fails_on_command(kernel):
    """A retry, a compaction after an overflow and a refused key are seen with no provider."""
    assert "Tried again" in said(kernel, "demo: overloaded, run `1 + 1`")
    for _ in range(4):
        said(kernel, "Run `print('a line of some length ' * 20)`.")
    assert "Compacted" in said(kernel, "demo: overflow, run `1 + 1`")
    assert "refuses the key" in said(kernel, "demo: key")
    assert "It returned" in said(kernel, "demo: think, then run `1 + 1`")
