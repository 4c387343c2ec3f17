"""The project's folder: which it is, what a name in it means, and files in it opened and replaced.

Rule: nothing outside the folder is read or written. A name becomes a real path first; then every
folder on it is opened from the one before, and no link is followed, so that what is swapped for a
link in between is refused and not followed out of the project.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from ..errors import ToolError
from .base import find_near, quote_names

PATH_CHARS = 4_096
"""Longest path that is looked at, in characters."""

NAMES_LISTED = 5_000
"""So many names of a folder are compared with one that is not there."""

GUARDED_NAMES = frozenset({"agents.md", "claude.md", "crush.md", ".mcp.json"})
"""Files that tell agents what to do: no mode lets a model write them unasked (DESIGN.md 9)."""

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "permission is denied",
    errno.EPERM: "permission is denied",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "a symbolic link stands in its place",
    errno.ENXIO: "it is no regular file",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A file of the project, there or not: its real path, and its name as the model is told it.

    `name` counts from the project's folder, with `/`.
    """

    path: str
    name: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The folders that lead to it, then its own name."""
        return PurePosixPath(self.name).parts


def find_root(notebook: str | None, folder: str) -> str:
    """Return the project's folder, a real path: the repository root that holds the notebook.

    Without a repository it is the notebook's folder; without a notebook the same is found from
    `folder`, the kernel's working folder.
    """
    start = os.path.realpath(os.path.dirname(notebook) if notebook else folder or os.sep)
    above = start
    while True:
        if os.path.exists(os.path.join(above, ".git")):
            return above
        parent = os.path.dirname(above)
        if parent == above:
            return start
        above = parent


def always_asks(name: str) -> bool:
    """Whether writing the file `name` is asked about in every mode (DESIGN.md 9).

    `name` counts from the project's folder and holds no link any more. So it is for `.git/`,
    `.jupyter_ctx/`, everything else whose name begins with a dot, and the files that tell agents
    what to do; in any spelling that some file system takes for the same.
    """
    parts = [_folded(part) for part in PurePosixPath(name).parts]
    return any(part.startswith((".", "git~")) or part in GUARDED_NAMES for part in parts)


def _folded(part: str) -> str:
    """Return a name in the form in which file systems that see no difference compare it."""
    spelled = unicodedata.normalize("NFKC", part)
    kept = "".join(one for one in spelled if unicodedata.category(one) not in ("Cf", "Cc", "Mn"))
    return kept.split(":")[0].strip(" ").rstrip(". ").casefold() or part


class Project:
    """One project: `root` is its folder, a real path.

    `guarded` are further folders in which every write asks: the program's own home.
    """

    def __init__(self, root: str, guarded: Sequence[str] = ()) -> None:
        self.root = os.path.realpath(root)
        self._guarded = tuple(map(os.path.realpath, guarded))

    def find(self, path: str) -> Place:
        """Return where `path`, absolute or from the project's folder, really leads.

        Nothing need be there. Raises ToolError: it leads out of the project, or is no name.
        """
        self._check(path)
        try:
            real = os.path.realpath(os.path.join(self.root, os.path.expanduser(path)))
        except (OSError, ValueError) as error:
            raise ToolError(f"`{path[:200]}` cannot be looked up: {reason_of(error)}.") from error
        if real == self.root:
            raise ToolError(f"`{path[:200]}` is the project's folder itself; name a file in it.")
        if not _is_within(real, self.root):
            raise ToolError(
                f"`{path[:200]}` lies outside the project, where these tools may not go; "
                f"the project is `{self.root}`."
            )
        return Place(real, os.path.relpath(real, self.root).replace(os.sep, "/"))

    def _check(self, path: str) -> None:
        if not path.strip():
            raise ToolError("`path` is empty; name a file, from the project's folder.")
        if len(path) > PATH_CHARS:
            raise ToolError(f"`path` has {len(path):,} characters; no file has so long a path.")
        odd = [one for one in path if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp")]
        if odd:
            raise ToolError(
                f"`path` holds the control character U+{ord(odd[0]):04X}, which these tools do not "
                "take in a name."
            )
        if ".." in path.replace("\\", "/").split("/"):
            raise ToolError(f"`path` must not hold `..`; name it from the project, `{self.root}`.")

    def must_ask(self, path: str) -> bool:
        """Whether writing the file that `path` really leads to is asked about in every mode.

        A path that is refused anyway is not.
        """
        try:
            place = self.find(path)
        except ToolError:
            return False
        own = any(_is_within(place.path, folder) for folder in self._guarded)
        return own or always_asks(place.name)

    # Reading ------------------------------------------------------------------------------------

    @contextmanager
    def _folder(self, parts: Sequence[str], *, make: bool = False) -> Iterator[tuple[int, int]]:
        """Open the folder below the root; give its descriptor and how many folders were made.

        `make`: what is missing is made. Raises OSError; then nothing was made.
        """
        made = reached = 0
        fd = os.open(self.root, _FOLDER_FLAGS)
        try:
            for part in parts:
                try:
                    below = os.open(part, _FOLDER_FLAGS, dir_fd=fd)
                except FileNotFoundError:
                    if not make:
                        raise
                    os.mkdir(part, dir_fd=fd)
                    made, reached = made + 1, reached + 1
                    below = os.open(part, _FOLDER_FLAGS, dir_fd=fd)
                else:
                    reached += 1
                above, fd = fd, below
                os.close(above)
        except OSError:
            os.close(fd)
            self._remove_folders(parts[:reached], made)
            raise
        try:
            yield fd, made
        finally:
            os.close(fd)

    def open(self, place: Place) -> int:
        """Return a descriptor of the regular file at `place`, to be closed.

        Raises FileNotFoundError, IsADirectoryError, or another OSError.
        """
        *folders, name = place.parts
        with self._folder(folders) as (folder, _):
            fd = os.open(name, _FILE_FLAGS, dir_fd=folder)
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            return fd
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place.name)
        raise OSError(errno.ENXIO, "no regular file", place.name)

    def missing(self, place: Place) -> ToolError:
        """Return the error for a file that is not there; it names near ones."""
        *folders, name = place.parts
        try:
            with self._folder(folders) as (folder, _), os.scandir(folder) as entries:
                names = [entry.name for _, entry in zip(range(NAMES_LISTED), entries, strict=False)]
        except OSError:
            where = "/".join(folders)
            return ToolError(f"There is no folder `{where[:200]}` in the project `{self.root}`.")
        near = quote_names(shown_name(one) for one in find_near(name, sorted(names)))
        hint = f" Nearest: {near}." if near else " Its folder is empty."
        return ToolError(f"There is no file `{place.name[:200]}` in the project.{hint}")

    # Writing ------------------------------------------------------------------------------------

    def replace(self, place: Place, data: bytes, before: os.stat_result | None) -> int:
        """Put `data` in place of the file, whole or not at all; return how many folders were made.

        `before` is the file's state when it was read, None: it was not there. Its mode is kept.
        Raises FileChangedError if it has changed since, or OSError; everything is then as it was.
        """
        *folders, name = place.parts
        with self._folder(folders, make=before is None) as (folder, made):
            try:
                self._replace(folder, name, data, before)
            except BaseException:
                self._remove_folders(folders, made)
                raise
        return made

    def _replace(self, folder: int, name: str, data: bytes, before: os.stat_result | None) -> None:
        temporary = f".jupyter_ctx-{secrets.token_hex(8)}.tmp"
        mode = 0o666 if before is None else 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, mode, dir_fd=folder)
        try:
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(fd, view) :]
                if before is not None:
                    if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                        with suppress(PermissionError):  # then it belongs to who writes it
                            os.fchown(fd, before.st_uid, before.st_gid)
                    os.fchmod(fd, stat.S_IMODE(before.st_mode))
            finally:
                os.close(fd)
            self._check_unchanged(folder, name, before)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise

    def _check_unchanged(self, folder: int, name: str, before: os.stat_result | None) -> None:
        try:
            now = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            now = None
        if _version(now) != _version(before):
            raise FileChangedError(errno.EBUSY, "it was changed in this moment", name)

    def remove(self, place: Place, before: os.stat_result, folders_made: int = 0) -> None:
        """Remove the file, and of the folders above it the last `folders_made` if they are empty.

        Raises FileChangedError if it is not `before` any more, or OSError.
        """
        *folders, name = place.parts
        with self._folder(folders) as (folder, _):
            self._check_unchanged(folder, name, before)
            os.unlink(name, dir_fd=folder)
        self._remove_folders(folders, folders_made)

    def _remove_folders(self, folders: Sequence[str], count: int) -> None:
        left = list(folders)
        for _ in range(min(count, len(left))):
            name = left.pop()
            try:
                with self._folder(left) as (above, _):
                    os.rmdir(name, dir_fd=above)
            except OSError:
                return  # something else is in it by now: it stays


class FileChangedError(OSError):
    """The file is another one than was read a moment before."""


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _version(state: os.stat_result | None) -> tuple[int, ...] | None:
    return None if state is None else (state.st_ino, state.st_size, state.st_mtime_ns)


def reason_of(error: OSError | ValueError) -> str:
    """Return in words why a file cannot be read or written."""
    if isinstance(error, OSError):
        return _REASONS.get(error.errno or 0) or error.strerror or type(error).__name__
    return str(error)


def shown_name(name: str) -> str:
    """Return a name of a file system as valid text on one line."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in name
    )
