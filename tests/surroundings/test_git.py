"""Git tells of a trusted repository, and nothing that the repository names is run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jupyter_ctx.surroundings import git as ours
from jupyter_ctx.surroundings.child import LateError, run

from .hostile import git, make_hostile_repository, make_repository, write

ENVIRONMENT = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "sk-ant-secret"}


def ask(root: Path, **more: str) -> ours.Repository:
    home = root.parent / "git-home"
    home.mkdir(exist_ok=True)
    return ours.ask(str(root), {**ENVIRONMENT, "HOME": str(home), **more}, 60)


def plain_git(root: Path, *arguments: str) -> None:
    """Run git as anybody would, whatever comes of it."""
    environment = {**ENVIRONMENT, "HOME": str(root.parent), "GIT_TERMINAL_PROMPT": "0"}
    subprocess.run(["git", *arguments], cwd=root, env=environment, capture_output=True, check=False)


def test_branch_status_and_commits(tmp_path: Path) -> None:
    """The branch, the lines of `git status --short`, and the last three commits."""
    root = make_repository(tmp_path / "p")
    for n in range(4):
        git(root, "commit", "-q", "--allow-empty", "-m", f"Step {n}")

    told = ask(root)

    assert (told.branch, told.is_asked, told.fault) == ("main", True, "")
    assert told.status == (" M data.csv", "?? new.txt")
    assert [line.partition(" ")[2] for line in told.commits] == ["Step 3", "Step 2", "Step 1"]


def test_nothing_of_a_hostile_repository_runs(tmp_path: Path) -> None:
    """Every key that names a command would leave a marker: git run plainly does, here none does."""
    root = make_hostile_repository(tmp_path / "p", tmp_path / "markers")
    control = make_hostile_repository(tmp_path / "control", tmp_path / "control-markers")
    plain_git(control, "status", "--short")
    plain_git(control, "log", "-p", "-3")
    plain_git(control, "diff")

    told = ask(root)

    assert (told.is_asked, told.fault) == (True, "")
    assert " M data.csv" in told.status
    assert list((tmp_path / "markers").iterdir()) == []
    ran = {path.name for path in (tmp_path / "control-markers").iterdir()}
    assert {"filter.clean", "filter.process", "included.clean", "program"} <= ran


def test_a_missing_object_is_not_fetched(tmp_path: Path) -> None:
    """A repository that has git fetch what it lacks, by a command as its address: none is run."""
    markers = tmp_path / "markers"
    markers.mkdir()
    for name in ("p", "control"):
        root = make_repository(tmp_path / name)
        with (root / ".git" / "config").open("a") as stream:
            stream.write(
                '[remote "origin"]\n\tpromisor = true\n'
                f'\turl = "ext::sh -c env%>{markers}/{name}"\n'.replace("env%>", "touch% ")
                + '[extensions]\n\tpartialClone = origin\n[protocol "ext"]\n\tallow = always\n'
                "[protocol]\n\tallow = always\n"
            )
        commit = (root / ".git/refs/heads/main").read_text().strip()
        (root / ".git/objects" / commit[:2] / commit[2:]).unlink()
    plain_git(tmp_path / "control", "log", "-3")

    told = ask(tmp_path / "p")

    assert told.commits == ()
    assert [path.name for path in markers.iterdir()] == ["control"]


def test_a_signature_is_not_checked(tmp_path: Path) -> None:
    """A signed commit and a program to check it with: the program is not run."""
    for name in ("p", "control"):
        root = make_hostile_repository(tmp_path / name, tmp_path / f"{name}-markers")
        tree = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "rev-parse", "HEAD^{tree}"],
            cwd=root, capture_output=True, check=True, text=True, env=ENVIRONMENT,
        ).stdout.strip()  # fmt: skip
        body = (
            f"tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n"
            "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\nSigned\n"
        )
        made = subprocess.run(
            ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
            cwd=root, input=body, capture_output=True, check=True, text=True, env=ENVIRONMENT,
        ).stdout.strip()  # fmt: skip
        write(root / ".git/refs/heads/main", f"{made}\n")
        for marker in (tmp_path / f"{name}-markers").iterdir():
            marker.unlink()
    plain_git(tmp_path / "control", "-c", "core.fsmonitor=false", "log", "-1")

    told = ask(tmp_path / "p")

    assert [line.partition(" ")[2] for line in told.commits] == ["Signed"]
    assert list((tmp_path / "p-markers").iterdir()) == []
    assert [path.name for path in (tmp_path / "control-markers").iterdir()] == ["program"]


def test_a_filter_that_cannot_be_switched_off_keeps_git_from_running(tmp_path: Path) -> None:
    """A key whose name `git -c` cannot take: nothing of the folder is asked, and it says so."""
    root = make_repository(tmp_path / "p")
    marker = tmp_path / "marker"
    with (root / ".git" / "config").open("a") as stream:
        stream.write(f'[filter "a=b"]\n\tclean = "touch {marker}; cat"\n')
    write(root / ".gitattributes", "*.csv filter=a=b\n")
    os.utime(root / "data.csv", (1, 1))

    told = ask(root)

    assert not told.is_asked
    assert told.fault
    assert not marker.exists()


def test_a_filter_behind_many_keys_keeps_git_from_running(tmp_path: Path) -> None:
    """A configuration whose keys cannot all be looked at may name anything: git tells nothing."""
    root = make_repository(tmp_path / "p")
    marker = tmp_path / "marker"
    with (root / ".git" / "config").open("a") as stream:
        stream.writelines(f'[pad "{"x" * 60}{n}"]\n\ta = b\n' for n in range(1_200))
        stream.write(f'[filter "evil"]\n\tclean = "touch {marker}; cat"\n')
    write(root / ".gitattributes", "*.csv filter=evil\n")
    os.utime(root / "data.csv", (1, 1))

    told = ask(root)

    assert not told.is_asked
    assert "too long" in told.fault
    assert told.branch == "main"
    assert not marker.exists()


def test_the_kernels_variables_do_not_reach_git(tmp_path: Path) -> None:
    """Neither `GIT_…` of the user's environment nor a key: git sees where programs are, no more."""
    root = make_repository(tmp_path / "p")
    marker = tmp_path / "marker"
    hostile = {
        "GIT_DIR": "/nowhere",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": f"touch {marker}",
        "GIT_EXTERNAL_DIFF": f"touch {marker}",
        "GIT_TRACE": str(marker),
        "LD_PRELOAD": "/nowhere.so",
    }

    environment = ours.make_environment(str(root), {**ENVIRONMENT, **hostile})
    told = ask(root, **hostile)

    assert told.is_asked
    assert not marker.exists()
    assert not any("secret" in value for value in environment.values())
    assert not {"GIT_DIR", "GIT_CONFIG_COUNT", "GIT_TRACE", "LD_PRELOAD"} & set(environment)


def test_a_git_of_the_project_is_not_run(tmp_path: Path) -> None:
    """A program called git in the project's folder is none, even where PATH names it first."""
    root = make_repository(tmp_path / "p")
    marker = tmp_path / "marker"
    fake = write(root / "bin" / "git", f"#!/bin/sh\ntouch {marker}\n")
    fake.chmod(0o755)

    for path in (str(root / "bin"), "bin", f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"):
        told = ask(root, PATH=path)
        assert (told.branch, told.fault) == ("main", "git is not installed")
    assert not marker.exists()


def test_a_repository_above_the_folder_is_not_looked_at(tmp_path: Path) -> None:
    """A broken repository in the folder does not make git take the one above it."""
    make_repository(tmp_path / "above")
    root = tmp_path / "above" / "below"
    write(root / ".git" / "config", "")

    told = ask(root)

    assert not told.is_asked
    assert told.commits == ()


def test_another_working_folder_is_not_listed(tmp_path: Path) -> None:
    """`core.worktree` of a repository does not have names of another folder listed."""
    root = make_repository(tmp_path / "p")
    write(tmp_path / "private" / "secret-name.txt", "")
    git(root, "config", "core.worktree", str(tmp_path / "private"))

    told = ask(root)

    assert not any("secret-name" in line for line in told.status)


def test_names_with_control_characters_are_visible_and_on_one_line(tmp_path: Path) -> None:
    """A file name or a subject cannot begin a line of its own, nor act on a terminal."""
    root = make_repository(tmp_path / "p")
    write(root / "a\n- obey\x1b[2J", "")
    git(root, "commit", "-q", "--allow-empty", "-m", "Sub\x1b]0;x\x07ject\u202e")

    told = ask(root)

    assert len(told.status) == 3
    text = "".join((*told.status, *told.commits))
    assert text.isprintable()


def test_many_files_are_counted(tmp_path: Path) -> None:
    """Of a long status the first lines are told, and how many more there are."""
    root = make_repository(tmp_path / "p")
    for n in range(60):
        write(root / f"f{n:03}", "")

    told = ask(root)

    assert len(told.status) == ours.STATUS_LINES
    assert told.more == 62 - ours.STATUS_LINES


def test_what_takes_too_long_is_ended_and_said(tmp_path: Path) -> None:
    """Without time left git tells nothing, and the branch is what HEAD says."""
    root = make_repository(tmp_path / "p")

    told = ours.ask(str(root), ENVIRONMENT, 0)

    assert (told.branch, told.is_late, told.is_asked) == ("main", True, False)
    assert "took longer" in told.fault


def test_a_command_is_ended_with_its_children(tmp_path: Path) -> None:
    """Nothing that a command started lives on: here a child that would hold a pipe for minutes."""
    inner = (
        "import sys, time\n"
        "held = open(sys.argv[1], 'wb', buffering=0)\n"
        "held.write(b'x')\n"
        "print('x' * 10_000, flush=True)\n"
        "time.sleep(600)\n"
    )
    outer = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', sys.argv[2], sys.argv[1]])\n"
        "time.sleep(600)\n"
    )
    held = tmp_path / "held"
    os.mkfifo(held)
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    command = [sys.executable, "-c", outer, str(held), inner]

    run(command, str(tmp_path), ENVIRONMENT, time.monotonic() + 60, 1000)

    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b"x"
    assert os.read(reader, 1) == b""  # once nobody holds the other end
    os.close(reader)


def test_a_command_that_says_nothing_is_ended_in_time(tmp_path: Path) -> None:
    """A silent command ends with its deadline."""
    command = [sys.executable, "-c", "import time; time.sleep(600)"]

    with pytest.raises(LateError):
        run(command, str(tmp_path), ENVIRONMENT, time.monotonic() + 0.1, 1000)


def test_a_flood_is_cut_and_ended(tmp_path: Path) -> None:
    """What says more than is read is ended; the beginning counts."""
    code = "import sys\nwhile True: sys.stdout.write('x' * 1000)\n"

    said = run(
        [sys.executable, "-c", code], str(tmp_path), ENVIRONMENT, time.monotonic() + 60, 5000
    )

    assert said == (0, b"x" * 5000)


@pytest.mark.parametrize(
    ("head", "branch"),
    [
        ("ref: refs/heads/main\n", "main"),
        ("ref: refs/heads/feature/a b\n", "feature/a b"),
        (f"{'a' * 40}\n", f"detached at {'a' * 12}"),
        ("nonsense", ""),
        ("", ""),
    ],
)
def test_the_branch_of_an_untrusted_folder_is_read(tmp_path: Path, head: str, branch: str) -> None:
    """`.git/HEAD` says the branch, or none."""
    write(tmp_path / ".git" / "HEAD", head)

    assert ours.read_branch(str(tmp_path)) == branch


def test_a_head_that_is_a_pipe_or_leads_out_says_nothing(tmp_path: Path) -> None:
    """It is not waited for, and not read outside."""
    write(tmp_path / "other", "ref: refs/heads/secret\n")
    for root, make in ((tmp_path / "a", os.mkfifo), (tmp_path / "b", None)):
        (root / ".git").mkdir(parents=True)
        if make is not None:
            make(root / ".git" / "HEAD")
        else:
            (root / ".git" / "HEAD").symlink_to(tmp_path / "other")
        assert ours.read_branch(str(root)) == ""


def test_a_new_branch_asks_for_no_new_trust_and_a_command_does(tmp_path: Path) -> None:
    """What `git push -u` writes leaves the digest alone; any other line does not."""
    root = make_repository(tmp_path / "p")
    (before,) = ours.find_offers(str(root))
    git(root, "config", "branch.topic.remote", "origin")
    git(root, "config", "branch.topic.merge", "refs/heads/topic")
    (daily,) = ours.find_offers(str(root))
    git(root, "config", "core.fsmonitor", "touch /x")
    (after,) = ours.find_offers(str(root))

    assert before.digest == daily.digest
    assert daily.digest != after.digest


@pytest.mark.parametrize(
    "line",
    [
        '[branch "a"] [core] fsmonitor = x',
        '[branch "a\\"]\\n[core"]',
        '[branch "a"]\n\tremote = origin \\\n\tx',
        '[branch "a"]\n\tremote = "o;x"',
        '[branch "a"]\n\tfsmonitor = x',
        "\tmerge = refs/heads/x",
    ],
)
def test_only_lines_of_the_daily_form_are_left_out(line: str) -> None:
    """Something of every other line stays in what the digest is of."""
    assert ours.without_daily(line).strip()


def test_a_linked_repository_is_an_offer_with_a_fault(tmp_path: Path) -> None:
    """A `.git` that is a link to another folder is not used."""
    make_repository(tmp_path / "other")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / ".git").symlink_to(tmp_path / "other" / ".git")

    (offer,) = ours.find_offers(str(tmp_path / "p"))

    assert offer.fault == "it leads out of the folder"
