"""A look that may take only so long."""

from __future__ import annotations

import threading
from collections.abc import Callable

LOOK_S = 2.0
"""So long may a look at one value take, in seconds; one at what lies in memory takes far less."""


def within(look: Callable[[], str], limit_s: float | None = None) -> str:
    """Return what `look()` returns, called on a thread of its own so that it can be left behind.

    `limit_s` is LOOK_S if it is not given.

    Raises TimeoutError when it takes longer: its thread then ends by itself or with the process,
    as Python has no way to end it. What `look` raises is raised here, in a RuntimeError if it is
    no Exception (code that raises SystemExit or KeyboardInterrupt ends nothing); an interrupt of
    the caller goes through at once.
    """
    limit_s = LOOK_S if limit_s is None else limit_s
    answer: list[str] = []
    failure: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            answer.append(look())
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="jupyter_ctx look", daemon=True).start()
    if not done.wait(limit_s):
        raise TimeoutError(f"no answer within {limit_s:g} s")
    if not failure:
        return answer[0]
    if isinstance(failure[0], Exception):
        raise failure[0]
    raise RuntimeError(f"it raised {type(failure[0]).__name__}") from failure[0]
