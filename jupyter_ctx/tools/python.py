"""`run_code`: runs Python in the user's kernel and returns what it brought."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..core.blocks import Json
from ..core.ports import Execution, Kernel, SpooledText, ToolOutput, ToolSpec
from .base import Tool, load_description, make_schema
from .frames import describe_columns
from .outputs import render_outputs
from .terminal import resolve

SHOWN_FRAMES = 3
"""Of so many shown frames the column types are told."""

_SHOWS = frozenset({"display", "print"})
_SAME_COLUMNS = frozenset({"head", "tail", "sample"})


def make_run_code(kernel: Kernel) -> Tool:
    """Return the tool `run_code`, which runs code as scratch in `kernel`."""

    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        _, output = await run_source(kernel, str(arguments["code"]))
        return output

    schema = make_schema(
        {"code": {"type": "string"}},
        ["code"],
    )
    spec = ToolSpec(
        "run_code",
        load_description("run_code"),
        schema,
        reads_only=False,
        permission="run code",
    )
    return Tool(spec, run)


async def run_source(kernel: Kernel, code: str) -> tuple[Execution, ToolOutput]:
    """Run code as scratch and return what it brought, raw and in its form for the model."""
    execution = await kernel.run_code(code)
    notes = await _column_notes(kernel, code) if not execution.failed else ""
    # Decoding pictures takes time; meanwhile the turn's loop must hear a Stop.
    return execution, await asyncio.to_thread(_as_output, execution, notes)


def _as_output(execution: Execution, notes: str) -> ToolOutput:
    rendered = render_outputs(execution.outputs)
    text: str | SpooledText = rendered.text
    if execution.spooled is not None:
        text = _resolve_spooled(execution.spooled, execution.outputs)
    elif notes and rendered.text:
        text = f"{rendered.text.rstrip()}\n\n{notes}"
    return ToolOutput(
        text,
        images=rendered.images,
        outputs=tuple(execution.outputs),
        mime_types=rendered.mime_types,
        is_error=execution.failed or execution.interrupted,
        interrupted=execution.interrupted,
    )


def _resolve_spooled(spooled: SpooledText, outputs: Sequence[Json]) -> SpooledText:
    """Return the spooled text with head and tail as a terminal shows them.

    Its file stays as it was written. The error, if there was one, is made to end the tail.
    """
    tail = resolve(spooled.tail)
    errors = [output for output in outputs if output.get("output_type") == "error"]
    said = render_outputs(errors).text
    if said and said.rstrip().rsplit("\n", 1)[-1] not in tail:
        tail = f"{tail.rstrip()}\n{said}"
    return replace(spooled, head=resolve(spooled.head), tail=tail)


async def _column_notes(kernel: Kernel, code: str) -> str:
    """Return the columns and types of the frames that `code` showed by name, "" if none.

    The plain form of a wide frame leaves columns out and names no types.
    """
    names = list(dict.fromkeys(_shown_names(code)))
    if not names:
        return ""

    def look(namespace: Mapping[str, object]) -> str:
        found = ((name, describe_columns(namespace[name])) for name in names if name in namespace)
        return "\n".join([f"{name}: {said}" for name, said in found if said][:SHOWN_FRAMES])

    return await kernel.on_main(look)


def _shown_names(code: str) -> Iterator[str]:
    """Yield the names whose values `code` shows: by display, by print, or as its last line."""
    for source in (code, code.rstrip().rsplit("\n", 1)[-1]):
        try:
            body = ast.parse(source).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # IPython syntax, or no Python at all: the last line may still be some
        break
    else:
        return
    for statement in body:
        if not isinstance(statement, ast.Expr):
            continue
        value = statement.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            if value.func.id in _SHOWS:
                yield from (name for arg in value.args if (name := _root_name(arg)))
        elif statement is body[-1] and (name := _root_name(value)):
            yield name


def _root_name(node: ast.expr) -> str | None:
    """Return `df` of `df`, and of `df.head()` and other calls that keep its columns."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _root_name(node.func.value) if node.func.attr in _SAME_COLUMNS else None
    return None
