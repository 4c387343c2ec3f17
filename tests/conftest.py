"""Fixtures every folder may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .kernels import RealKernel, running_kernel


@pytest.fixture
def real_kernel(tmp_path: Path) -> Iterator[RealKernel]:
    """Give a real ipykernel process whose home, settings and work folder lie in `tmp_path`."""
    with running_kernel(tmp_path) as kernel:
        yield kernel
