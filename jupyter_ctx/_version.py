"""The package's version, in one place: pyproject.toml reads it, package.json repeats it."""

__version__ = "0.1.0"
