"""Fixtures every folder may use; and in every test the law that no prompt changes unmeant."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from jupyter_ctx.core import prefix

from .kernels import RealKernel, running_kernel

# The same examples at each run, however slow the machine; JUPYTER_CTX_NEW_EXAMPLES=1 draws others.
settings.register_profile(
    "repeatable",
    derandomize=not os.environ.get("JUPYTER_CTX_NEW_EXAMPLES"),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


class PrefixBroke(AssertionError):
    """A prompt did not begin as the one before, and nobody meant that: an internal error."""


class _Guard(logging.Handler):
    """Raises at a warning of the prefix check, and keeps it: who catches it hides nothing."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, "prefix_break"):
            self.found.append(record.getMessage())
            raise PrefixBroke(record.getMessage())


@pytest.fixture(autouse=True)
def prefix_guard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Fail the test at the first prompt that breaks unmeant, every old message looked at again.

    Gives the warnings so far; a test that provokes one clears them.
    """
    monkeypatch.setattr(prefix, "RECHECKED_MESSAGES", 1_000_000)
    guard = _Guard()
    log = logging.getLogger("jupyter_ctx")
    log.addHandler(guard)
    yield guard.found
    log.removeHandler(guard)
    assert not guard.found, guard.found


@pytest.fixture
def real_kernel(tmp_path: Path) -> Iterator[RealKernel]:
    """Give a real ipykernel process whose home, settings and work folder lie in `tmp_path`."""
    with running_kernel(tmp_path) as kernel:
        yield kernel
