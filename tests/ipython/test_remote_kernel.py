"""Stop, where the agent's code waits for work that runs elsewhere: that work ends too.

Spark is the user's and large (`pip install jupyter-ctx[data]`); without it or Java its test skips
and says so.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from ..fake_anthropic import FakeAnthropic, call, reply
from ..kernels import RealKernel, running_kernel

KEY = "sk-ant-test-0123456789"
START_S = 120.0
"""Longest start of a cluster on a busy machine, in seconds."""

DASK = """
import os, threading, time, dask
from distributed import Client, LocalCluster
cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
client = Client(cluster)
def slow(n):
    import time
    time.sleep(0.2)
    return n
jobs = [dask.delayed(slow)(n, dask_key_name=f"slow-{n}") for n in range(500)]
def tell():
    while not cluster.scheduler.tasks:
        time.sleep(0.05)
    print("at work", flush=True)
"""
DASK_WORK = "threading.Thread(target=tell).start()\ndask.compute(*jobs)"
DASK_LEFT = """
end = time.monotonic() + 60
while cluster.scheduler.tasks and time.monotonic() < end:
    time.sleep(0.05)
left = len(cluster.scheduler.tasks)
client.close(); cluster.close()
"""

SPARK = """
import os, threading, time
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[2]").appName("t")
         .config("spark.ui.enabled", "false").getOrCreate())
tracker = spark.sparkContext.statusTracker()
def tell():
    while not tracker.getActiveJobsIds():
        time.sleep(0.05)
    print("at work", flush=True)
def slow(n):
    import time
    time.sleep(2)
    return n
"""
SPARK_WORK = (
    "threading.Thread(target=tell).start()\n"
    "spark.sparkContext.parallelize(range(500), 500).map(slow).sum()"
)
SPARK_LEFT = """
end = time.monotonic() + 60
while tracker.getActiveJobsIds() and time.monotonic() < end:
    time.sleep(0.05)
left = len(tracker.getActiveJobsIds())
spark.stop()
"""


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []


@pytest.fixture
def kernel(server: FakeAnthropic, tmp_path: Path) -> Iterator[RealKernel]:
    """A kernel with the agent, which may do everything."""
    env = {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": KEY,
        "JUPYTER_CTX_PERMISSIONS": "auto",
    }
    with running_kernel(tmp_path, env) as made:
        assert made.execute("%load_ext jupyter_ctx").ok
        yield made


def stop_within(kernel: RealKernel, server: FakeAnthropic, begin: str, work: str) -> None:
    """Have the agent run `work` behind `begin`, and stop it once it says that it is at work."""
    started = kernel.execute(begin, START_S)
    assert started.ok, started.outputs
    server.append(reply(call("run_code", code=work)))
    turn = kernel.submit("%agent Go on")
    kernel.wait_for_text(turn, "at work", START_S)
    kernel.interrupt()
    assert not kernel.collect(turn, START_S).ok


def test_stop_ends_what_a_dask_cluster_does_for_the_code(
    kernel: RealKernel, server: FakeAnthropic
) -> None:
    """Nobody waits for the tasks any more, and the scheduler has none left."""
    stop_within(kernel, server, DASK, DASK_WORK)

    assert kernel.execute(DASK_LEFT, START_S).ok
    assert kernel.eval("left") == 0


def test_stop_cancels_the_jobs_of_a_spark_session(
    kernel: RealKernel, server: FakeAnthropic
) -> None:
    """The session lives on, without a job."""
    if find_spec("pyspark") is None or shutil.which("java") is None:
        pytest.skip("NO PYSPARK OR JAVA: Stop was not tried on a live Spark session")
    stop_within(kernel, server, SPARK, SPARK_WORK)

    assert kernel.execute(SPARK_LEFT, START_S).ok
    assert kernel.eval("left") == 0
