"""What an interrupt does not reach by itself: jobs that run elsewhere for code that was stopped.

Dask cancels on its own what only the interrupted wait needed. PySpark does so by a signal handler
of its own, which is not in force while the agent's code runs, so its work is done here. Ray has no
way to tell which tasks the wait was for: `ray.cancel(ref)` is the user's.
"""

from __future__ import annotations

import logging
from typing import Any

from ..tools.naming import dict_of, library_class
from ..tools.patience import within

CANCEL_S = 2.0
"""So long Spark's driver may take to hear of it, in seconds; then it is left to end by itself."""

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # without one, Python writes into the user's cell


def cancel_jobs() -> None:
    """Cancel the jobs of a Spark session that runs here, as PySpark itself does on Ctrl-C.

    Nothing is imported or asked where there is none. What Spark raises is logged: the code has been
    stopped all the same.
    """
    cls = library_class("pyspark", "SparkContext")
    context: Any = None if cls is None else dict_of(cls).get("_active_spark_context")
    if context is None:
        return

    def cancel() -> str:
        context.cancelAllJobs()
        return ""

    try:
        within(cancel, CANCEL_S)
    except Exception:
        _log.warning("Spark's jobs could not be cancelled.", exc_info=True)
