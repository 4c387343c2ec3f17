"""What the model can do: run code, look at variables and cells, read stored results.

Everything acts through core's ports; `make_tools` puts the tools of a session together.
"""

from .registry import Registry, make_tools
from .results import ResultReader

__all__ = ["Registry", "ResultReader", "make_tools"]
