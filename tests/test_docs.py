"""The generated parts of the documents are what the code says today."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_ctx.config import settings_table

from .docs import DOCUMENTS, refresh


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_generated_parts_are_fresh(document: Path) -> None:
    """`make docs` has nothing to write."""
    text = document.read_text(encoding="utf-8")

    assert refresh(text) == text


def test_a_part_is_replaced_whole_and_nothing_else_is() -> None:
    """What stands outside the two marks stays to the letter, and a second time changes nothing."""
    text = "above\n<!-- settings -->\nold\n<!-- /settings -->\nbelow <!-- settings -->\n"
    fresh = refresh(text)

    assert fresh == (
        f"above\n<!-- settings -->\n{settings_table()}<!-- /settings -->\nbelow <!-- settings -->\n"
    )
    assert refresh(fresh) == fresh


def test_an_unknown_part_is_named() -> None:
    """A mark with a name that nothing generates is an error, not an empty part."""
    with pytest.raises(KeyError, match="recipes"):
        refresh("<!-- recipes -->\n<!-- /recipes -->")
