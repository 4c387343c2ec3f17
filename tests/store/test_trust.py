"""`trust.json` keeps what is trusted, privately, also when two kernels write it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_ctx.errors import StoreError
from jupyter_ctx.store.trust import TrustFile

ROW = ("/p/AGENTS.md", "context", "aa")


def trust_file(home: Path) -> TrustFile:
    return TrustFile(home, lambda: "2026-11-30")


def test_what_is_added_is_loaded_by_any_other(tmp_path: Path) -> None:
    """Another kernel sees it, with the day it was trusted; another folder has none of it."""
    trust_file(tmp_path).add("/p", [ROW])

    assert trust_file(tmp_path).load("/p") == {ROW}
    assert trust_file(tmp_path).load("/q") == frozenset()
    (item,) = json.loads((tmp_path / "trust.json").read_text())["folders"]["/p"]
    assert item["at"] == "2026-11-30"


def test_a_new_digest_replaces_the_old_one(tmp_path: Path) -> None:
    """Of one part of one file exactly one form is trusted."""
    store = trust_file(tmp_path)
    store.add("/p", [ROW, ("/p/x", "hooks", "1"), ("/p/x", "settings", "2")])

    store.add("/p", [("/p/x", "hooks", "3")])

    assert store.load("/p") == {ROW, ("/p/x", "hooks", "3"), ("/p/x", "settings", "2")}


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Folder and file cannot be read by others, whatever the umask."""
    trust_file(tmp_path / "home").add("/p", [ROW])

    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "home" / "trust.json").stat().st_mode & 0o777 == 0o600


def test_names_that_are_no_text_are_kept(tmp_path: Path) -> None:
    """A path of bytes that are no UTF-8 comes back as it was."""
    odd = ("/p/\udcff\n/AGENTS.md", "context", "aa")
    trust_file(tmp_path).add("/p/\udcff", [odd])

    assert trust_file(tmp_path).load("/p/\udcff") == {odd}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": 2, "folders": {}}'])
def test_a_file_that_cannot_be_read_is_said_and_kept(tmp_path: Path, text: str) -> None:
    """A damaged or newer file is an error for reading and writing, and stays as it is."""
    path = tmp_path / "trust.json"
    path.write_text(text)
    store = trust_file(tmp_path)

    for act in (
        lambda: store.load("/p"),
        lambda: store.add("/p", [ROW]),
        lambda: store.remove("/p"),
    ):
        with pytest.raises(StoreError, match=r"trust\.json"):
            act()
    assert path.read_text() == text


def test_rows_that_are_not_whole_trust_nothing(tmp_path: Path) -> None:
    """What somebody wrote there by hand counts only if it is whole."""
    rows: list[object] = [None, {"path": "/p/a"}, {"path": 1, "part": "context", "digest": "d"}]
    text = json.dumps({"version": 1, "folders": {"/p": rows, "/q": "all"}})
    (tmp_path / "trust.json").write_text(text)

    assert trust_file(tmp_path).load("/p") == frozenset()
    assert trust_file(tmp_path).load("/q") == frozenset()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """A trust file that is a link to another file trusts nothing."""
    trust_file(tmp_path / "other").add("/p", [ROW])
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "trust.json").symlink_to(tmp_path / "other" / "trust.json")

    with pytest.raises(StoreError):
        trust_file(tmp_path / "home").load("/p")


def test_two_kernels_lose_nothing_of_each_other(tmp_path: Path) -> None:
    """Processes that trust at the same time: everything of each is kept."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom jupyter_ctx.store.trust import TrustFile\n"
        "store = TrustFile(Path(sys.argv[1]), lambda: '')\n"
        "for n in range(10): store.add('/p', [(f'/p/{sys.argv[2]}-{n}', 'context', 'd')])\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(number)])
        for number in range(2)
    ]

    assert [child.wait() for child in children] == [0, 0]
    assert len(trust_file(tmp_path).load("/p")) == 20
