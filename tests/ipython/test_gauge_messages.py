"""The messages to the page, as the kernel makes them and as the front end's fixtures have them."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from jupyter_ctx.core.blocks import PARTS
from jupyter_ctx.core.usage import Costs
from jupyter_ctx.ipython.gauge import PROTOCOL, _context
from jupyter_ctx.testing import ScriptedModel, make_session, reply

WIRE = Path(__file__).parents[1] / "fixtures" / "wire"
MESSAGES = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(WIRE.glob("*.json"))}
CONTEXTS = {name: m for name, m in MESSAGES.items() if m.get("context")}


def keys_of(value):
    """Return the keys of an object, and of the objects in it."""
    if not isinstance(value, dict):
        return None
    return {key: keys_of(inner) for key, inner in value.items()}


def made():
    """Return a context message as the kernel sends it after a turn."""
    session = make_session(ScriptedModel(reply("Hi.")))
    session.ask("hello")
    costs = asdict(Costs(0.1, 0.2, 0.3, 0.4))
    return json.loads(json.dumps(_context(session.state, session.context(), costs)))


def test_fixtures_are_there():
    """There is a fixture of each kind that the front end is tested with."""
    assert {m["type"] for m in MESSAGES.values()} == {"hello", "context"}
    assert len(CONTEXTS) >= 5


@pytest.mark.parametrize("name", sorted(CONTEXTS))
def test_a_fixture_has_the_kernels_form(name):
    """A fixture has exactly the keys of a message the kernel makes, and its version and phase."""
    fixture = CONTEXTS[name]

    costs = keys_of(fixture["costs"])
    assert {**keys_of(fixture), "costs": costs} == {**keys_of(made()), "costs": costs}
    assert costs == keys_of(made())["costs"] or fixture["context"]["cost_usd"] is None
    assert fixture["version"] == PROTOCOL
    assert fixture["phase"] in ("idle", "running", "compacting", "paused")


@pytest.mark.parametrize("name", sorted(CONTEXTS))
def test_a_fixtures_figures_add_up(name):
    """Parts add up to what is used, and so do measured and estimated."""
    context = CONTEXTS[name]["context"]

    assert list(context["parts"]) == list(PARTS)
    assert sum(context["parts"].values()) == context["used_tokens"]
    if (costs := CONTEXTS[name]["costs"]) is not None:
        assert sum(costs.values()) == pytest.approx(context["cost_usd"])
    assert context["measured_tokens"] + context["estimated_tokens"] == context["used_tokens"]
