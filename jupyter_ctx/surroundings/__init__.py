"""What a project's folder and the program's home add: settings, context files, skills, commands.

Everything of a project is found and shown, and inert until the user trusts exactly what was shown.
"""

from .folder import Folder
from .offers import Extension, Offer

__all__ = ["Extension", "Folder", "Offer"]
