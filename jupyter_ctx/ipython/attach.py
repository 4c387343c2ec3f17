"""What a prompt's mentions name, looked up and told as the agent's own tools would tell it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..core.attachments import Attachment
from ..core.blocks import Text, ToolUse
from ..core.ports import Kernel, Notebook, SpooledText, ToolOutput, ToolRunner
from ..errors import PromptError, ToolError
from ..tools.base import NEAR_NAMES, find_near, is_like, quote_names
from ..tools.notebook import load_outputs, load_views
from ..tools.outline import CellView
from ..tools.outputs import Rendered, render_outputs
from ..tools.project import Place, Project
from ..tools.terminal import resolve
from .mentions import Mention
from .nearby import near_files
from .place import find_folder

MOST_MENTIONS = 30
"""So many mentions in one prompt; a name that stands in it twice counts once."""

MOST_CHARS = 50_000
"""Longest attachment, in characters, before it is fitted to the window."""

LITERAL_HINT = "For a literal @ write @@, or put code between backticks."


@dataclass(frozen=True, slots=True)
class Attacher:
    """Looks up mentions: values and cells by the session's `tools`, which also note what was seen.

    Without a project there are no files.
    """

    kernel: Kernel
    notebook: Notebook
    tools: ToolRunner
    project: Project | None = None

    async def load(
        self, mentions: Sequence[Mention], window_tokens: int | None = None
    ) -> tuple[Attachment, ...]:
        """Return what the mentions name, in their order, each as it is now.

        Nothing is computed for it: lazy values are told by their schema. `window_tokens` bounds
        each attachment to a quarter of a character for each token, at least 500 characters. Raises
        PromptError that names near ones for every mention that names nothing.
        """
        if len(mentions) > MOST_MENTIONS:
            raise PromptError(
                f"The prompt has {len(mentions):,} mentions; {MOST_MENTIONS} are the most. "
                f"{LITERAL_HINT}"
            )
        look = _Look(self, _cap_of(window_tokens))
        await look.prepare(mentions)
        attached: list[Attachment] = []
        faults: list[str] = []
        for mention in mentions:
            try:
                attached += await look.find(mention)
            except (PromptError, ToolError) as error:
                faults.append(str(error))
        if faults:
            raise PromptError(f"{' '.join(faults)} {LITERAL_HINT} Nothing was sent.")
        return tuple(attached)


def _cap_of(window_tokens: int | None) -> int:
    if window_tokens is None:
        return MOST_CHARS
    return max(500, min(MOST_CHARS, window_tokens // 4))


class _Look:
    """One prompt's look at the kernel and the notebook; both are looked at once."""

    def __init__(self, attacher: Attacher, cap_chars: int) -> None:
        self._attacher = attacher
        self._cap = cap_chars
        self._views: Sequence[CellView] = ()
        self._bound: frozenset[str] = frozenset()

    async def prepare(self, mentions: Sequence[Mention]) -> None:
        """Look at what is there for the kinds of these mentions."""
        kinds = {mention.kind for mention in mentions}
        if kinds & {"cell", "out", "error"}:
            _, self._views = await load_views(self._attacher.kernel, self._attacher.notebook)
        if "name" in kinds:
            wanted = {mention.word.split(".")[0] for mention in mentions}
            self._bound = await self._attacher.kernel.on_main(_binds(wanted))

    async def find(self, mention: Mention) -> list[Attachment]:
        """Return what one mention names. Raises PromptError or ToolError if it names nothing."""
        match mention.kind:
            case "error":
                return self._error()
            case "cell":
                return await self._cell(mention)
            case "out":
                return await self._output(mention)
            case "name":
                return await self._name(mention)
            case "file":
                return await self._file(mention)

    # Values and files ---------------------------------------------------------------------------

    async def _name(self, mention: Mention) -> list[Attachment]:
        """Return a variable; where a file has that very name and no variable has, the file."""
        name = mention.word.split(".")[0]
        is_dotted = name != mention.word
        if (is_dotted or name not in self._bound) and self._has_file(mention.word):
            return await self._file(mention)
        if name not in self._bound:
            raise PromptError(await self._unknown(mention, name))
        return [_text(f"@{name}, as it is now", await self._tell("inspect", names=[name]))]

    async def _unknown(self, mention: Mention, name: str) -> str:
        if mention.word in ("cell", "out"):
            return f"`{mention}` wants a number or id: `@{mention.word}:3`."
        known = [variable.name for variable in await self._attacher.kernel.load_variables()]
        files = await self._near_files(mention)
        parts = [one for one in known if name.lower() in one.lower().split("_")][-NEAR_NAMES:]
        near_names = dict.fromkeys([*parts, *find_near(name, known)])
        is_any = not files and not parts
        found = [f"@{one}" for one in near_names if is_any or one in parts or is_like(name, one)]
        near = quote_names([*files, *found] if name != mention.word else [*found, *files])
        what = f"`{mention}` names no variable and no file"
        return f"{what}. Nearest: {near}." if near else f"{what}; there is no variable yet."

    async def _near_files(self, mention: Mention) -> list[str]:
        project = self._attacher.project
        if project is None:
            return []
        return await asyncio.to_thread(near_files, project, mention.word)

    def _has_file(self, path: str) -> bool:
        project = self._attacher.project
        if project is None:
            return False
        try:
            return os.path.isfile(_find_file(project, path).path)
        except ToolError:
            return False

    async def _file(self, mention: Mention) -> list[Attachment]:
        project = self._attacher.project
        if project is None:
            raise PromptError(f"`{mention}` is a path, and there is no project folder here.")
        place = _find_file(project, mention.word)
        if not os.path.lexists(place.path):
            known = project.missing(place)
            near = quote_names(await self._near_files(mention))
            raise PromptError(f"`{mention}`: {known}" + (f" Did you mean {near}?" if near else ""))
        output = await self._run("read_file", path=place.path)
        return [_text(f"@{place.name}", self._words(output)), *output.images]

    async def _tell(self, tool: str, **given: object) -> str:
        """Return what a tool of the session tells, at most as long as an attachment may be."""
        return self._words(await self._run(tool, **given))

    async def _run(self, tool: str, **given: object) -> ToolOutput:
        return await self._attacher.tools.run(ToolUse("mention", tool, given), self._cap)

    def _words(self, output: ToolOutput) -> str:
        text = output.text.head if isinstance(output.text, SpooledText) else output.text
        return _cut(text, self._cap, "the tool tells the rest")

    # Cells --------------------------------------------------------------------------------------

    async def _cell(self, mention: Mention) -> list[Attachment]:
        view = self._view(mention)
        return [
            _text(f"{mention}, as it stands now", await self._tell("read_cell", cell_id=view.id))
        ]

    async def _output(self, mention: Mention) -> list[Attachment]:
        kernel, notebook = self._attacher.kernel, self._attacher.notebook
        (view,) = await load_outputs(kernel, notebook, [self._view(mention)])
        outputs = view.run.outputs if view.run is not None else view.outputs
        title = f"{mention}, the output of cell {view.id}"
        return _rendered(title, render_outputs(outputs, widgets=view.widgets), self._cap, view.id)

    def _view(self, mention: Mention) -> CellView:
        """Return the cell of that number, as this kernel ran it if it did; else of that id."""
        wanted = mention.rest
        code = [view for view in self._views if view.type == "code"]
        if wanted.isdecimal():
            count = int(wanted[:12])
            here = [v for v in code if v.run is not None and v.run.count == count]
            found = here or [v for v in code if v.run is None and v.count == count]
            if len(found) == 1:
                return found[0]
            if found:
                ids = quote_names(f"@{mention.kind}:{view.id}" for view in found)
                raise PromptError(f"`{mention}` could be {len(found)} cells: name one of {ids}.")
        for view in self._views if mention.kind == "cell" else code:
            if view.id == wanted:
                if mention.kind == "out" and view.run is None and not view.outputs:
                    raise PromptError(f"`{mention}`: cell {view.id[:80]} was not run.")
                return view
        raise PromptError(self._no_cell(mention, code))

    def _no_cell(self, mention: Mention, code: Sequence[CellView]) -> str:
        counts = sorted({view.count for view in code if view.count is not None})
        wanted = mention.rest
        if wanted.isdecimal():
            nearest = sorted(counts, key=lambda count: abs(count - int(wanted[:12])))[:5]
            near = quote_names(f"@{mention.kind}:{count}" for count in sorted(nearest))
            what = f"`{mention}` names no cell that was run"
        else:
            ids = [view.id for view in self._views]
            near = quote_names(f"@{mention.kind}:{one}" for one in find_near(wanted, ids))
            what = f"`{mention}` names no cell"
        return f"{what}. Nearest: {near}." if near else f"{what}; there is none yet."

    def _error(self) -> list[Attachment]:
        """Return the newest traceback with its cell; of this kernel, else of the notebook."""
        own = [view for view in self._views if not view.is_agent]
        ran = [v for v in own if v.run is not None and v.run.failed and not v.run.is_agent]
        failed = sorted(ran, key=lambda v: v.run.order if v.run else 0)
        failed = failed or [view for view in own if view.failed and view.run is None]
        if not failed:
            raise PromptError("`@error`: no cell has failed that has not run well since.")
        view = failed[-1]
        source, outputs = view.source, view.outputs
        if view.run is not None:
            source, outputs = view.run.source, view.run.outputs
        errors = [one for one in outputs if one.get("output_type") in ("error", "pyerr")]
        traceback = render_outputs(errors).text
        code = _cut(resolve(source), self._cap, f'read_cell("{view.id}") reads on')
        return [_text(f"@error, in cell {view.id}, {view.place}", f"{code}\n\n{traceback}")]


def _find_file(project: Project, path: str) -> Place:
    """Return where a path leads from the project's folder, or, if nothing is there, from the
    kernel's working folder: what `open(path)` in a cell opens.

    Raises ToolError as `Project.find` does.
    """
    place = project.find(path)
    if not os.path.lexists(place.path) and (folder := find_folder()):
        try:
            here = project.find(os.path.join(folder, os.path.expanduser(path)))
        except ToolError:
            return place  # the working folder lies outside the project
        return here if os.path.lexists(here.path) else place
    return place


def _binds(names: Iterable[str]) -> Callable[[Mapping[str, object]], frozenset[str]]:
    """Return what tells which of `names` are bound in a namespace."""
    return lambda namespace: frozenset(name for name in names if name in namespace)


def _rendered(title: str, found: Rendered, cap_chars: int, cell_id: str) -> list[Attachment]:
    told = found.text or "(no output)"
    rest = f'read_cell("{cell_id}", outputs=true) reads on'
    return [_text(title, _cut(told, cap_chars, rest)), *found.images]


def _text(title: str, text: str) -> Text:
    return Text(f"[{title}]\n{text}", "notebook")


def _cut(text: str, most: int, rest: str) -> str:
    """Return the first lines of a text that is too long, and what to do for the others."""
    if len(text) <= most:
        return text
    head = text[:most]
    at = head.rfind("\n")
    head = head[:at] if 2 * at > most else head
    return f"{head}\n[{len(head):,} of {len(text):,} characters; {rest}]"
