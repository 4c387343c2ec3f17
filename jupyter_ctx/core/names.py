"""Names in a summary that no longer stand for anything in the kernel.

A summary names variables in backticks and cells as `cell:ID`. After a restart or a `del` some of
them are gone, and the model would go on as if they were there. A name counts as gone only if it was
a kernel name once: code of the session bound it, or an earlier inventory listed it. So a column, a
file or a word in backticks is never marked.

Pure but for `find_missing`, which asks the kernel and the notebook.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Container, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from .blocks import tool_uses
from .entries import MessageEntry
from .transcript import Transcript

if TYPE_CHECKING:
    from .ports import Kernel, Notebook

MOST_NAMES = 20
"""So many names are told to the model; more would be noise."""

MOST_CODES = 40
"""Of a long session so many calls are looked at for the names of an earlier kernel: parsing 40 of
20 lines takes some 50 ms."""

MOST_CODE_CHARS = 100_000
"""Longer code is not parsed: nobody writes it by hand, and parsing takes 100 bytes a character."""

_SPAN = re.compile(r"(?<!`)`([^`\n]{1,200})`(?!`)")
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1", re.MULTILINE | re.DOTALL)
_FIRST = re.compile(r"\s*([^\W\d]\w*)\s*(?=$|[.\[(=:])")
_LIST = re.compile(r"\s*[^\W\d]\w*(?:\s*,\s*[^\W\d]\w*)+\s*")
_FILE = re.compile(
    r"\.(?:csv|tsv|txt|json|jsonl|md|py|ipynb|parquet|feather|h5|npy|npz|pkl|db|sqlite|sql|ya?ml|"
    r"toml|xlsx?|xml|html?|pdf|png|jpe?g|svg|gif|zip|gz|log|cfg|ini|sh)$",
    re.IGNORECASE,
)
_CELL = re.compile(r"(?<![\w-])cell:([A-Za-z0-9_-]{1,64})")
_PYTHON_CELL_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")

# The parser warns of an unknown escape, into the cell that runs; no name depends on one.
_ESCAPE = re.compile(r"\\([^\n\r'\"\\N])|\\.", re.DOTALL)
_ASSIGNED_MAGIC = re.compile(r"^(\s*[^\W\d][\w\s,.]*=\s*)[!%].*$")
_TIMED = re.compile(r"^(\s*)%time\s+(?=\S)")
_MAGIC = re.compile(r"^(\s*)(?:[%!?].*|.*\?)$")


@dataclass(frozen=True, slots=True)
class Mentions:
    """What a summary names: identifiers and ids of cells, each once, in order."""

    names: tuple[str, ...]
    cells: tuple[str, ...]


def find_mentions(summary: str) -> Mentions:
    """Return the identifiers in backticks and the cells named as `cell:ID`.

    Of `df.head()`, `df["x"]` and `f(x)` it is the first part. Fenced code and file names count as
    nothing, nor do keywords and builtins.
    """
    text = _FENCE.sub("", summary)
    names: dict[str, None] = {}
    for span in _SPAN.finditer(text):
        names.update(dict.fromkeys(_names_in(span[1])))
    cells = dict.fromkeys(_CELL.findall(text))
    return Mentions(tuple(names), tuple(cells))


def _names_in(span: str) -> list[str]:
    if _FILE.search(span.strip()) or _CELL.match(span.strip()):
        return []
    found = span.split(",") if _LIST.fullmatch(span) else _FIRST.match(span)
    names = [found[1]] if isinstance(found, re.Match) else [name.strip() for name in found or ()]
    return [name for name in names if not keyword.iskeyword(name) and not hasattr(builtins, name)]


# What code binds --------------------------------------------------------------------------------


def find_bound(code: str) -> frozenset[str]:
    """Return the names that `code` binds in the namespace it runs in: no locals, no attributes.

    Lines of IPython (`%magic`, `!command`, `name?`) are left out where it is no Python with them.
    Code that cannot be parsed, or is longer than `MOST_CODE_CHARS`, binds nothing.
    """
    if len(code) > MOST_CODE_CHARS:
        return frozenset()
    for source in (code, _without_magics(code)):
        try:
            tree = ast.parse(_ESCAPE.sub(lambda m: "__" if m[1] else m[0], source))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # IPython syntax, or no Python at all
        return frozenset(_bindings(tree))
    return frozenset()


def _without_magics(code: str) -> str:
    lines = code.splitlines()
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("%%"):
        if first.split()[0] not in _PYTHON_CELL_MAGICS:
            return ""
        lines = lines[lines.index(first) + 1 :]
    return "\n".join(map(_without_magic, lines))


def _without_magic(line: str) -> str:
    timed = _TIMED.sub(r"\1", line)
    assigned = _ASSIGNED_MAGIC.sub(r"\1None", timed)
    return _MAGIC.sub(r"\1pass", assigned)


def _bindings(tree: ast.AST) -> Iterator[str]:
    """Yield the names bound at the top of `tree`, however deep, without recursion."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
                yield from _declared_global(node)
                continue
            case ast.ClassDef(name=name):
                yield name
                yield from _declared_global(node)
                continue
            case ast.Lambda():
                continue
            case ast.comprehension(iter=iter_, ifs=ifs):
                left += [iter_, *ifs]  # its target is its own
                continue
            case ast.alias(name=name, asname=asname) if name != "*":
                yield asname or name.partition(".")[0]
            case ast.ExceptHandler(body=body):
                left += body  # its name is gone at its end
                continue
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(rest)):
                yield rest
            case _:
                pass
        left += ast.iter_child_nodes(node)


def _declared_global(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Global):
            yield from inner.names


# What was there once ----------------------------------------------------------------------------


def find_once_bound(
    wanted: Set[str], transcript: Transcript, cell_sources: Iterable[str]
) -> frozenset[str]:
    """Return those of `wanted` that were kernel names once.

    Code is parsed only if it holds one of the words, the newest first, until all are found.
    """
    left = set(wanted - _listed(transcript))
    for code in (*cell_sources, *_codes_run(transcript)):
        if not left:
            break
        if any(name in code for name in left):
            left -= find_bound(code)
    return frozenset(wanted - left)


def _listed(transcript: Transcript) -> frozenset[str]:
    """Return the names that earlier inventories listed."""
    return frozenset(
        item.id
        for entry in transcript.compactions
        for item in entry.reinjected
        if item.kind == "variable"
    )


def _codes_run(transcript: Transcript) -> Iterator[str]:
    """Yield the code that the agent ran, the newest first."""
    for entry in reversed(transcript.entries):
        if isinstance(entry, MessageEntry) and entry.kind == "reply":
            for use in tool_uses(entry.message):
                code = use.input.get("code")
                if use.name == "run_code" and isinstance(code, str):
                    yield code


def find_lost(transcript: Transcript, namespace: Container[str]) -> tuple[str, ...]:
    """Return the names that an earlier kernel had and `namespace` has not, the newest first.

    Of code the newest `MOST_CODES` calls count, then what inventories listed. Names that begin with
    an underscore are left out.
    """
    found: dict[str, None] = {}
    for code in islice(_codes_run(transcript), MOST_CODES):
        found.update(dict.fromkeys(sorted(find_bound(code))))
    found.update(dict.fromkeys(sorted(_listed(transcript))))
    return tuple(name for name in found if not name.startswith("_") and name not in namespace)


def lost_line(lost: Sequence[str]) -> str:
    """Return the sentence that names what is lost, "" if nothing is."""
    if not lost:
        return ""
    more = len(lost) - MOST_NAMES
    return (
        "Gone are: " + ", ".join(lost[:MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
    ) + "."


async def find_missing(
    summary: str, transcript: Transcript, kernel: Kernel, notebook: Notebook
) -> tuple[str, ...]:
    """Return what `summary` names and is there no more: names, then cells as `cell:ID`.

    In the order of the summary. A cell that neither ran in the kernel nor stands in the notebook is
    missing, whether it was one once or not.
    """
    mentions = find_mentions(summary)
    if not mentions.names and not mentions.cells:
        return ()
    wanted = frozenset(mentions.names)
    alive = await kernel.on_main(lambda names: frozenset(n for n in wanted if n in names))
    cells = await kernel.load_cells()
    sources = [cell.source for cell in reversed(cells) if not cell.is_agent]
    gone = find_once_bound(wanted - alive, transcript, sources)
    known = {cell.id for cell in cells}
    if not known.issuperset(mentions.cells):
        known |= {cell.id for cell in (await notebook.load()).cells}
    return (
        *(name for name in mentions.names if name in gone),
        *(f"cell:{id_}" for id_ in mentions.cells if id_ not in known),
    )


def missing_line(missing: Sequence[str]) -> str:
    """Return the line that tells the model of missing names, "" if there are none."""
    if not missing:
        return ""
    shown = ", ".join(f"`{name}`" for name in missing[:MOST_NAMES])
    more = len(missing) - MOST_NAMES
    return (
        f"Named in the summary, but not in the kernel any more: {shown}"
        + (f" and {more:,} more" if more > 0 else "")
        + "."
    )
