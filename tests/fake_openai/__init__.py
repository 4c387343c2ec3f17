"""A strict fake of the Chat Completions API and of the servers that speak it, for tests.

It refuses what real servers refuse, caches prefixes as OpenAI does, and answers from the scripts of
`tests.fake_anthropic`: the same tests run on both.

    with FakeOpenAI(["Hi."]) as server:
        ...  # OPENAI_BASE_URL=server.url
        assert not server.refused and not server.unused

`kind` says whose server it is: its error bodies, its figures, what it says of its window.
"""

from .fake import FakeOpenAI
from .kinds import KINDS, Kind

__all__ = ["KINDS", "FakeOpenAI", "Kind"]
