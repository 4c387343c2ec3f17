"""A session without hooks, memory, workspace, notebook or project: nothing comes, nothing goes."""

import pytest

from jupyter_ctx.core import absent
from jupyter_ctx.core.ports import DeleteCell, HookOutcome
from jupyter_ctx.errors import ToolError


async def test_what_is_absent_gives_nothing():
    """Each stand-in answers as if there were nothing: no outcome, no fact, no plan, no cell."""
    workspace = absent.NoWorkspace()

    assert await absent.NoHooks().run("PreCompact", {}) == HookOutcome()
    assert not absent.NoMemory().is_on
    assert await absent.NoMemory().add(["The user likes tea."]) == ()
    assert await absent.NoMemory().remove(["The user likes tea."]) == ()
    assert [*await workspace.load_plan(), *await workspace.load_skills()] == []
    assert await workspace.load_files() == ()
    assert (await absent.NoNotebook().load()).cells == ()


async def test_what_is_absent_cannot_be_changed():
    """A change to what is not there is an error for the model, in words."""
    with pytest.raises(ToolError, match="there is no notebook here"):
        await absent.NoNotebook().apply(DeleteCell("a", "x = 1"))
    with pytest.raises(ToolError, match="there is no project folder here"):
        await absent.NoFiles().put("a.py", None, None)
    assert absent.NoFiles().name("a.py") == "a.py"
