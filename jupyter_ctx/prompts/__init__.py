"""Texts for the model, as files that a person can review."""

from __future__ import annotations

from importlib import resources


def load_prompt(name: str) -> str:
    """Return the text of `name`.md. Raises FileNotFoundError if there is none."""
    return resources.files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8")
