"""What a project's folder would add is found, inert, and in force exactly as it was trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_ctx.config import GUARDED_SETTINGS, SETTING_NAMES
from jupyter_ctx.store.trust import TrustFile
from jupyter_ctx.surroundings import Folder
from jupyter_ctx.surroundings.parts import MOST_SHOWN, TOO_LONG

from .hostile import make_hostile_folder, make_repository, write

SKILL = "---\nname: {0}\ndescription: When {0} is asked for\n---\nDo {0}.\n"


def folder_of(root: Path, home: Path | None, nearest: Path | None = None) -> Folder:
    store = TrustFile(home, lambda: "2026-11-30")
    return Folder(str(root), str(nearest or root), home, store)


def trust_all(folder: Folder) -> None:
    folder.trust(folder.offers())


def test_nothing_is_in_force_before_trust(tmp_path: Path) -> None:
    """A hostile folder's settings, hooks, servers, skills and files: found, and none in force."""
    root = make_hostile_folder(tmp_path / "p", tmp_path / "out", tmp_path / "markers")
    folder = folder_of(root, tmp_path / "home")

    kinds = {one.kind for one in folder.offers()}

    assert kinds == {"settings", "hooks", "mcpServers", "context", "skill", "git"}
    assert not any(one.is_trusted for one in folder.offers())
    assert folder.settings() == {}
    assert folder.extensions() == {"hooks": (), "mcpServers": ()}
    assert (folder.skills(), folder.context_files()) == ((), ())
    assert not (tmp_path / "home").exists()
    assert list((tmp_path / "markers").iterdir()) == []


def test_what_leads_out_is_never_in_force(tmp_path: Path) -> None:
    """Trusting everything of a hostile folder brings nothing from outside of it."""
    root = make_hostile_folder(tmp_path / "p", tmp_path / "out", tmp_path / "markers")
    folder = folder_of(root, tmp_path / "home")

    trust_all(folder)

    assert [one.name for one in folder.context_files()] == ["AGENTS.md"]
    assert [one.name for one in folder.skills()] == ["leak"]
    texts = [one.text for one in folder.offers()]
    assert not any("PRIVATE-TEXT" in text for text in texts)


def test_a_trusted_file_sets_no_guarded_setting(tmp_path: Path) -> None:
    """Permissions, endpoint, home and redaction of a project's file are passed over, and named."""
    root = make_hostile_folder(tmp_path / "p", tmp_path / "out", tmp_path / "markers")
    folder = folder_of(root, tmp_path / "home")
    (offer,) = [one for one in folder.offers() if one.kind == "settings"]

    trust_all(folder)

    assert folder.settings() == {"steps_per_turn": 7}
    assert "Passed over" in offer.note
    assert all(name in offer.note for name in ("permissions", "base_url", "home"))


def test_every_setting_that_leads_elsewhere_is_guarded() -> None:
    """No setting for an address, a key, a home, permissions or redaction can be a project's."""
    words = ("url", "key", "home", "permission", "redact", "trust", "endpoint", "token_env")
    leading = {name for name in SETTING_NAMES if any(word in name for word in words)}

    assert leading <= set(GUARDED_SETTINGS)


def test_a_change_is_out_of_force_until_it_is_trusted_anew(tmp_path: Path) -> None:
    """One more byte in a file takes it out of force; the old bytes put it back."""
    root = make_repository(tmp_path / "p")
    path = write(root / "AGENTS.md", "Use polars.")
    folder = folder_of(root, tmp_path / "home")
    trust_all(folder)
    path.write_text("Use polars. Obey.")

    (offer,) = [one for one in folder.offers() if one.kind == "context"]
    changed = folder.context_files()
    path.write_text("Use polars.")

    assert (offer.is_trusted, offer.is_changed, changed) == (False, True, ())
    assert [one.text for one in folder.context_files()] == ["Use polars."]


def test_what_is_trusted_is_what_was_shown(tmp_path: Path) -> None:
    """A file that changed between showing and allowing is not in force by that."""
    root = make_repository(tmp_path / "p")
    path = write(root / "AGENTS.md", "Use polars.")
    folder = folder_of(root, tmp_path / "home")
    shown = folder.offers()
    path.write_text("Obey.")

    folder.trust(shown)

    assert folder.context_files() == ()


def test_parts_of_a_settings_file_are_trusted_each(tmp_path: Path) -> None:
    """Another setting takes no hooks out of force, nor do order and space; another hook does."""
    root = make_repository(tmp_path / "p")
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "true", "timeout": 5}]}]}
    path = write(root / ".jupyter_ctx/settings.json", json.dumps({"retries": 1, "hooks": hooks}))
    folder = folder_of(root, tmp_path / "home")
    trust_all(folder)

    path.write_text(json.dumps({"hooks": hooks, "retries": 2}, indent=3))
    other_setting = folder.settings(), folder.extensions()["hooks"]
    path.write_text(json.dumps({"retries": 1, "hooks": {**hooks, "PreToolUse": []}}))

    assert other_setting[0] == {}
    assert [one.value for one in other_setting[1]] == [hooks]
    assert (folder.settings(), folder.extensions()["hooks"]) == ({"retries": 1}, ())


def test_another_place_is_not_trusted_by_the_same_words(tmp_path: Path) -> None:
    """Trust is of a folder and a path: the same bytes in another folder are inert."""
    one, two = make_repository(tmp_path / "one"), make_repository(tmp_path / "two")
    for root in (one, two):
        write(root / "AGENTS.md", "Use polars.")
    trust_all(folder_of(one, tmp_path / "home"))

    assert folder_of(one, tmp_path / "home").context_files()
    assert not folder_of(two, tmp_path / "home").context_files()


def test_revoking_takes_everything_out(tmp_path: Path) -> None:
    """After revoke nothing of the folder is in force."""
    root = make_repository(tmp_path / "p")
    write(root / "AGENTS.md", "Use polars.")
    folder = folder_of(root, tmp_path / "home")
    trust_all(folder)

    folder.revoke()

    assert not any(one.is_trusted for one in folder.offers())


def test_context_files_from_the_root_down(tmp_path: Path) -> None:
    """Files of all three names from the root to the notebook's folder, the nearest last."""
    root = make_repository(tmp_path / "p")
    nearest = root / "a" / "b"
    for path in ("CRUSH.md", "AGENTS.md", "a/CLAUDE.md", "a/b/AGENTS.md", "a/b/c/AGENTS.md"):
        write(root / path, path)
    write(tmp_path / "AGENTS.md", "above the root")
    write(root / "z" / "AGENTS.md", "beside")
    folder = folder_of(root, tmp_path / "home", nearest)
    trust_all(folder)

    names = [one.name for one in folder.context_files()]

    assert names == ["AGENTS.md", "CRUSH.md", "a/CLAUDE.md", "a/b/AGENTS.md"]


def test_a_linked_name_counts_once(tmp_path: Path) -> None:
    """CLAUDE.md that links to AGENTS.md is no second file."""
    root = make_repository(tmp_path / "p")
    write(root / "AGENTS.md", "Use polars.")
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    folder = folder_of(root, tmp_path / "home")
    trust_all(folder)

    assert [one.name for one in folder.context_files()] == ["AGENTS.md"]


def test_the_nearest_settings_count(tmp_path: Path) -> None:
    """Of two trusted settings files the one in the notebook's folder stands over the root's."""
    root = make_repository(tmp_path / "p")
    write(root / ".jupyter_ctx/settings.json", '{"retries": 1, "pauses": 1}')
    write(root / "sub/.jupyter_ctx/settings.json", '{"retries": 2}')
    folder = folder_of(root, tmp_path / "home", root / "sub")
    trust_all(folder)

    assert folder.settings() == {"retries": 2, "pauses": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is no valid JSON"),
        ("[1]", "it must hold one JSON object"),
        ("[" * 100_000, "it is no valid JSON"),
        ('{"retries": "many"}', "Setting retries"),
        ('{"no_such": 1}', "no setting"),
        ('{"permissions": "auto"}', "it sets nothing that a project may set"),
        ('{"hooks": []}', "`hooks` must be a JSON object"),
        ('{"mcpServers": "x"}', "`mcpServers` must be a JSON object"),
        (json.dumps({"hooks": {"Stop": "x" * MOST_SHOWN}}), TOO_LONG),
        *(
            (f'{{"{key}": {"[" * depth}{"]" * depth}}}', "nested deeper")
            for key in ("hooks", "mcpServers", "model")
            for depth in (60, *range(900, 935, 5))
        ),
    ],
)
def test_a_faulty_settings_file_is_named_and_inert(tmp_path: Path, text: str, why: str) -> None:
    """Whatever is wrong with it is its fault, and trusting all does not bring it in force."""
    root = make_repository(tmp_path / "p")
    write(root / ".jupyter_ctx/settings.json", text)
    folder = folder_of(root, tmp_path / "home")

    trust_all(folder)

    (offer,) = [one for one in folder.offers() if one.kind != "git"]
    assert why in offer.fault
    assert not offer.is_trusted
    assert folder.settings() == {}
    assert folder.extensions() == {"hooks": (), "mcpServers": ()}


def test_extensions_say_where_they_come_from(tmp_path: Path) -> None:
    """The home's own stand first, the project's say whether they are trusted, values are raw."""
    root, home = make_repository(tmp_path / "p"), tmp_path / "home"
    write(home / "settings.json", '{"mcpServers": {"own": {"command": "a"}}}')
    write(root / ".mcp.json", '{"mcpServers": {"theirs": {"command": "${B}"}}}')
    folder = folder_of(root, home)

    before = folder.extensions()["mcpServers"]
    listed = folder.extensions(untrusted=True)["mcpServers"]
    trust_all(folder)
    after = folder.extensions()["mcpServers"]

    assert [(one.source, one.folder) for one in before] == [
        (str(home / "settings.json"), str(home))
    ]
    assert [one.is_trusted for one in listed] == [True, False]
    assert [one.value for one in after] == [
        {"own": {"command": "a"}},
        {"theirs": {"command": "${B}"}},
    ]
    assert (after[1].source, after[1].folder) == (".mcp.json", str(root))


def test_hooks_of_a_long_file_of_the_user_s_own_count(tmp_path: Path) -> None:
    """A guard of the user's own is in force in a settings file of any usual length."""
    root, home = make_repository(tmp_path / "p"), tmp_path / "home"
    prices = {f"model-{n}": {"input": 1.0} for n in range(10_000)}
    write(home / "settings.json", json.dumps({"prices": prices, "hooks": {"PreToolUse": []}}))

    (found,) = folder_of(root, home).extensions()["hooks"]

    assert found.value == {"PreToolUse": []}


def test_own_skills_need_no_trust_and_stand_first(tmp_path: Path) -> None:
    """A skill of the home is in force at once, also by a link; a project's of that name is not."""
    root, home = make_repository(tmp_path / "p"), tmp_path / "home"
    write(home / "skills/plot/SKILL.md", SKILL.format("plot"))
    write(tmp_path / "elsewhere/SKILL.md", SKILL.format("linked"))
    (home / "skills/linked").symlink_to(tmp_path / "elsewhere")
    write(root / ".jupyter_ctx/skills/plot/SKILL.md", SKILL.format("plot").replace("Do", "Obey"))
    folder = folder_of(root, home)
    own = [one.name for one in folder.skills()]

    trust_all(folder)

    assert own == ["linked", "plot"]
    assert [one.text for one in folder.skills()] == ["Do linked.", "Do plot."]


def test_a_damaged_trust_file_trusts_nothing_and_stays(tmp_path: Path) -> None:
    """Nothing is in force, the folder says why, and what was in the file is not written over."""
    root, home = make_repository(tmp_path / "p"), tmp_path / "home"
    write(root / "AGENTS.md", "Use polars.")
    folder = folder_of(root, home)
    trust_all(folder)
    (home / "trust.json").write_text('{"version": 2, "folders": {}}')

    assert folder.context_files() == ()
    assert "newer version" in folder.fault
    with pytest.raises(Exception, match="newer version"):
        trust_all(folder)
    assert json.loads((home / "trust.json").read_text())["version"] == 2


def test_without_a_home_trust_lasts_for_the_kernel(tmp_path: Path) -> None:
    """Where nothing can be kept, what was allowed is in force until the process ends."""
    root = make_repository(tmp_path / "p")
    write(root / "AGENTS.md", "Use polars.")
    folder = folder_of(root, None)

    trust_all(folder)
    allowed = folder.context_files()
    folder.revoke()

    assert [one.text for one in allowed] == ["Use polars."]
    assert folder.context_files() == ()
