"""What a repository says of itself: its branch, what is changed, its last commits.

In a folder that is not trusted git never runs: the branch is read from `.git/HEAD`. In a trusted
one it runs so that nothing the repository's configuration or attributes name is run by it: whatever
could name a command is switched off by name, nothing is fetched, nothing is written.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .child import LateError, run
from .offers import Offer
from .reading import OUTSIDE, read_text

LIMIT_S = 2.0
"""All calls of git together take at most this long (DESIGN.md 4)."""
MOST_OUTPUT = 64 * 1024
"""So much of git's output is read, in bytes."""
STATUS_LINES = 40
LINE_CHARS = 200
COMMITS = 3

FIXED = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.alternateRefsCommand=",
    "core.quotePath=true",
    "credential.helper=",
    "diff.external=",
    "gpg.program=false",
    "gpg.openpgp.program=false",
    "gpg.x509.program=false",
    "gpg.ssh.program=false",
    "gpg.ssh.defaultKeyCommand=",
    "log.showSignature=false",
    "status.submoduleSummary=false",
    "status.relativePaths=true",
    "color.ui=false",
    "color.status=false",
    "submodule.recurse=false",
    "maintenance.auto=false",
    "gc.auto=0",
)
"""What is set in every call, whatever the repository says."""

COMMAND_KEYS: Mapping[str, str] = {
    "clean": "",
    "smudge": "",
    "process": "",
    "required": "false",
    "textconv": "",
    "command": "",
    "driver": "",
    "program": "false",
    "helper": "",
    "external": "",
    "uploadpack": "false",
    "receivepack": "false",
    "promisor": "false",
    "vcs": "",
    "proxy": "",
}
"""Keys below a section and a name of its own (`filter.<name>.clean`): what each is set to."""
OWN_SECTIONS = ("filter", "diff", "merge", "gpg", "remote", "credential", "pager")

_HARD = re.compile(r"[=\n]")
"""What makes a name one that `git -c` cannot name."""
_HEAD = re.compile(r"ref: refs/heads/(.+)\s*")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?\s*")
_DAILY_SECTION = re.compile(r'\[branch "[^"\\\n]+"\]')
_DAILY_LINE = re.compile(r"[ \t]+(remote|merge|rebase) = [A-Za-z0-9._/@+-]+")


@dataclass(frozen=True, slots=True)
class Repository:
    """What is known of a repository. `branch` "": none is known; `commits` are short lines.

    `status` has the lines of `git status --short`, at most STATUS_LINES; `more` counts the others.
    `fault` says why git told nothing, "" if it did, or was not asked.
    """

    branch: str = ""
    status: tuple[str, ...] = ()
    more: int = 0
    commits: tuple[str, ...] = ()
    is_asked: bool = False
    is_late: bool = False
    fault: str = ""


class UnsafeRepositoryError(Exception):
    """The configuration names what cannot be switched off; git does not run then."""


# Untrusted ----------------------------------------------------------------------------------------


def find_offers(root: str) -> Iterator[Offer]:
    """Yield the repository in `root` as an offer: trusting it lets git run there.

    Its digest is that of the configuration without the lines in which git itself keeps what a
    branch follows. Of a linked worktree or a submodule it is that of the file that names the place.
    """
    git = os.path.join(root, ".git")
    if not os.path.lexists(git):
        return
    if os.path.isdir(git) and os.path.realpath(git) != git:
        yield Offer("git", ".git", ".git", git, fault=OUTSIDE)
        return
    source = ".git/config" if os.path.isdir(git) else ".git"
    found = read_text(root, source)
    if found is None:
        yield Offer("git", source, source, git, fault="it has no configuration")
        return
    kept = without_daily(found.text)
    digest = hashlib.sha256(kept.encode("utf-8", "surrogatepass")).hexdigest()
    yield Offer("git", source, source, found.path, digest, found.text, found.fault)


def without_daily(text: str) -> str:
    """Return a configuration without what git writes when a branch is made: no command is there.

    Only lines of exactly that form are left out.
    """
    kept: list[str] = []
    is_daily = False
    for line in text.split("\n"):
        if _DAILY_SECTION.fullmatch(line):
            is_daily = True
        elif not (is_daily and _DAILY_LINE.fullmatch(line)):
            is_daily = False
            kept.append(line)
    return "\n".join(kept)


def read_branch(root: str) -> str:
    """Return the branch as `.git/HEAD` in `root` has it, "" if it has none or cannot be read."""
    found = read_text(root, ".git/HEAD", 4_096)
    if found is None or found.fault:
        return ""
    if match := _HEAD.fullmatch(found.text):
        return match[1].strip()
    return f"detached at {found.text[:12]}" if _COMMIT.fullmatch(found.text) else ""


# Trusted ------------------------------------------------------------------------------------------


def ask(root: str, environ: Mapping[str, str], limit_s: float = LIMIT_S) -> Repository:
    """Return what git says of the repository in `root`; takes at most `limit_s` seconds.

    Raises nothing: what is in the way is the fault. Blocks; not for the main thread.
    """
    branch = read_branch(root)
    executable = find_git(root, environ)
    if executable is None:
        return Repository(branch, fault="git is not installed")
    asked = _Asked(executable, root, make_environment(root, environ), time.monotonic() + limit_s)
    try:
        return asked.look(branch)
    except LateError:
        return Repository(branch, is_late=True, fault=f"git took longer than {limit_s:g} s")
    except UnsafeRepositoryError as error:
        return Repository(branch, fault=str(error))
    except OSError as error:
        return Repository(branch, fault=f"git could not run: {error.strerror}")


def find_git(root: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of git; one that lies in the project's folder is none."""
    found = shutil.which("git", path=environ.get("PATH") or os.defpath)
    if found is None or not os.path.isabs(found):
        return None
    real = os.path.realpath(found)
    return None if real.startswith(root.rstrip(os.sep) + os.sep) else found


def make_environment(root: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of git: where programs and the user's own settings are, no more.

    No key goes there, and nothing named `GIT_…` that the user's kernel has.
    """
    kept = {name: environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME") if name in environ}
    return {
        **kept,
        "LC_ALL": "C.UTF-8",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_WORK_TREE": root,
        "GIT_CEILING_DIRECTORIES": os.path.dirname(root),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "false",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "GIT_SSH_COMMAND": "false",
    }


class _Asked:
    """Git in one folder, until a deadline (in monotonic seconds)."""

    def __init__(
        self, executable: str, root: str, environment: Mapping[str, str], deadline: float
    ) -> None:
        self._executable = executable
        self._root = root
        self._environment = environment
        self._deadline = deadline
        self._settings: tuple[str, ...] = FIXED

    def look(self, branch: str) -> Repository:
        """Return what it says. Raises LateError, OSError and UnsafeRepositoryError."""
        code, said = self._run("config", "--includes", "--null", "--name-only", "--list")
        if code:
            return Repository(branch, fault="git cannot read the repository")
        if len(said) >= MOST_OUTPUT:  # what stands behind could name a command
            raise UnsafeRepositoryError("git did not run, because its configuration is too long")
        self._settings = (*FIXED, *overrides(said.decode("utf-8", "surrogateescape").split("\0")))
        code, said = self._run("symbolic-ref", "--quiet", "--short", "HEAD")
        branch = _text(said).strip() if not code else branch
        code, said = self._run(
            "status", "--short", "--no-branch", "--no-renames", "--no-column",
            "--untracked-files=normal", "--ignore-submodules=all",
        )  # fmt: skip
        if code:
            return Repository(branch, fault="git cannot read the working folder")
        lines = _text(said).splitlines()
        _, said = self._run(
            "log", f"-{COMMITS}", "--format=%h %s", "--no-show-signature", "--no-ext-diff",
            "--no-textconv", "--no-notes", "--no-mailmap", "--no-patch", "--no-color",
        )  # fmt: skip
        status = tuple(line[:LINE_CHARS] for line in lines[:STATUS_LINES])
        commits = tuple(line[:LINE_CHARS] for line in _text(said).splitlines()[:COMMITS])
        return Repository(branch, status, len(lines) - len(status), commits, is_asked=True)

    def _run(self, *arguments: str) -> tuple[int, bytes]:
        settings = [part for one in self._settings for part in ("-c", one)]
        command = [self._executable, "--no-pager", "--literal-pathspecs", *settings, *arguments]
        return run(command, self._root, self._environment, self._deadline, MOST_OUTPUT)


def overrides(names: Sequence[str]) -> list[str]:
    """Return settings that switch off whatever command the named keys could name.

    Raises UnsafeRepositoryError for a key that cannot be named on a command line.
    """
    made: dict[str, str] = {}
    for name in names:
        section, _, rest = name.partition(".")
        own, _, key = rest.rpartition(".")
        if section.lower() not in OWN_SECTIONS:
            continue
        value = COMMAND_KEYS.get(key.lower())
        if value is None and section.lower() == "pager":
            value = "false"
        if value is None:
            continue
        if _HARD.search(name):
            raise UnsafeRepositoryError(
                "git did not run, because its configuration has a key with an unusual name"
            )
        made[name] = value
        if section.lower() == "filter" and own:
            made[f"{section}.{own}.required"] = "false"
    return [f"{name}={value}" for name, value in made.items()]


def _text(said: bytes) -> str:
    """Return git's words as text on valid lines: control characters are visible."""
    text = said.decode("utf-8", "replace")
    return "".join(
        one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode()
        for one in text
    )
