"""Goes on with a stored session in a process of its own; started by test_cases_wire.py.

Usage: python -m tests.resume_child HOME SESSION_ID URL PROMPT
"""

import sys
from pathlib import Path
from types import SimpleNamespace

from jupyter_ctx.store.sessions import SessionStore
from tests.talk import run, talk


def main() -> None:
    """Load the session, run one turn with the server at URL, and print how it ended."""
    home, session_id, url, prompt = sys.argv[1:]
    opened = SessionStore(Path(home)).load(session_id)
    server = SimpleNamespace(url=url)
    with talk(server, store=opened, entries=opened.entries) as session:  # type: ignore[arg-type]
        run(session, prompt)
        assert session.last_turn is not None
        print(session.last_turn.outcome)
    opened.close()


if __name__ == "__main__":
    main()
