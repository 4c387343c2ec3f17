"""What `/trust` shows of a folder."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from jupyter_ctx.ipython.commands import Host
from jupyter_ctx.ipython.trusting import trust
from jupyter_ctx.store.trust import TrustFile
from jupyter_ctx.surroundings import Folder


def test_what_is_passed_over_is_told_outside_of_the_file_s_text(tmp_path: Path) -> None:
    """A setting that no project may set is named in a sentence of ours, below the shown JSON."""
    folder = tmp_path / ".jupyter_ctx"
    folder.mkdir()
    values = {"effort": "low", "permissions": "auto"}
    (folder / "settings.json").write_text(json.dumps(values))
    host = SimpleNamespace(folder=Folder(str(tmp_path), str(tmp_path), None, TrustFile(None, str)))

    shown = trust(cast("Host", host), "")

    _, block, after = shown.markdown.split("```")
    assert json.loads(block.removeprefix("json")) == {"effort": "low"}
    assert after.lstrip().startswith("Passed over, since no project may set it: permissions.")
    assert "Passed over, since no project may set it: permissions." in shown.text
