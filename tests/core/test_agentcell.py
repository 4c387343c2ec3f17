"""Laws of which cells ask the agent."""

import pytest

from jupyter_ctx.core.agentcell import is_agent_source


@pytest.mark.parametrize("source", ["%agent go", "%%agent\ngo", "\n  %agent", "%agent?", "%%agent"])
def test_a_cell_that_begins_with_the_magic_asks(source):
    """Line and cell magic ask, also indented, below blank lines, or as a call for help."""
    assert is_agent_source(source)


@pytest.mark.parametrize(
    "source", ["", "x = 1\n%agent go", "# %agent", "%agents", "%agent.x", "agent"]
)
def test_no_other_cell_does(source):
    """Another name, a comment, or a magic further down is the user's own code."""
    assert not is_agent_source(source)
