"""A real kernel with the extension loaded, the strict fake server, a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..fake_anthropic import FakeAnthropic
from ..kernels import RealKernel, running_kernel
from ..pages import page_on
from .client import PanelPage, panel_page

KEY = "sk-ant-test-0123456789abcdef"
LOAD = "%load_ext jupyter_ctx"


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """A fake without a script; tests append their answers, and all of them must be used."""
    with FakeAnthropic([]) as running:
        yield running
        assert not running.refused
        assert not running.unused


@pytest.fixture
def kernel(server: FakeAnthropic, tmp_path: Path) -> Iterator[RealKernel]:
    """A kernel of a notebook, with the extension loaded, that asks before anything acts."""
    env = {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": KEY,
        "JPY_SESSION_NAME": str(tmp_path / "work" / "a.ipynb"),
    }
    with running_kernel(tmp_path, env) as running:
        running.execute(LOAD)
        yield running


@pytest.fixture
def free(kernel: RealKernel) -> RealKernel:
    """The same, where nothing is asked."""
    kernel.execute("%config JupyterCtx.permissions = 'auto'")
    return kernel


@pytest.fixture
def page(kernel: RealKernel) -> Iterator[PanelPage]:
    """A page on the kernel, which shows an empty notebook."""
    with page_on(kernel, []), panel_page(kernel) as opened:
        yield opened
