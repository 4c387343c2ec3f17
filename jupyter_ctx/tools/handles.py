"""Handles of what lives elsewhere: databases and clusters, told without asking them anything.

A live client of a cluster is named with its address and its size, as far as it has heard of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .measures import address_of, counted, in_bytes, shape_of, workers_of
from .naming import attributes_of, extends, is_a, library_class, library_of, type_name

NAMED = 60
"""So many columns or tables are named."""

TEXT_CHARS = 1_000
"""Longest SQL text shown, in characters."""


def describe_handle(value: object) -> str | None:
    """Return lines about a database handle or a cluster's client, None if `value` is none."""
    tell = _TELLERS.get(library_of(type(value)))
    return tell(value) if tell is not None else None


def _sqlalchemy(value: Any) -> str | None:
    """Return what a handle is bound to; nothing is connected, executed or fetched."""
    for module, name, tell in _SQLALCHEMY:
        cls = library_class(module, name)
        if cls is not None and extends(value, cls):
            return tell(value)
    return None


def _engine(engine: Any) -> str:
    url = engine.url.render_as_string(hide_password=True)
    return f"{type_name(type(engine))}, {str(url)[:300]}, not asked"


def _connection(connection: Any) -> str:
    state = "closed" if connection.closed else "open"
    if not connection.closed and connection.in_transaction():
        state += ", in a transaction"
    return f"{type_name(type(connection))}, {state}; {_engine(connection.engine)}"


def _orm_session(session: Any) -> str:
    bind = attributes_of(session).get("bind")
    where = f"; {_engine(bind)}" if is_a(bind, "sqlalchemy", "Engine") else ""
    return f"{type_name(type(session))}{where}"


def _sql_table(table: Any) -> str:
    columns = list(table.columns)
    said = [_column(one) for one in columns[:NAMED]]
    more = [f"… {len(columns) - NAMED:,} more"] if len(columns) > NAMED else []
    head = f"{type_name(type(table))} {str(table.fullname)[:100]}, {len(columns):,} columns"
    return f"{head}, not asked\ncolumns: {', '.join([*said, *more])}"


def _column(column: Any) -> str:
    kind = str(column.type)[:60] if library_of(type(column.type)) == "sqlalchemy" else "?"
    key = " (primary key)" if column.primary_key else "" if column.nullable else " (not null)"
    return f"{str(column.name)[:60]} {kind}{key}"


def _metadata(metadata: Any) -> str:
    names = [str(name)[:80] for name in metadata.tables]
    more = [f"… {len(names) - NAMED:,} more"] if len(names) > NAMED else []
    listed = ", ".join([*names[:NAMED], *more]) or "none"
    return f"{type_name(type(metadata))}, {len(names):,} tables: {listed}"


def _statement(statement: Any) -> str:
    return f"{type_name(type(statement))}, not executed\n{str(statement)[:TEXT_CHARS]}"


def _result(result: Any) -> str:
    return f"{type_name(type(result))}: its rows are not fetched, as that would use them up"


_SQLALCHEMY: Sequence[tuple[str, str, Callable[[Any], str]]] = (
    ("sqlalchemy", "Engine", _engine),
    ("sqlalchemy", "Connection", _connection),
    ("sqlalchemy.orm", "Session", _orm_session),
    ("sqlalchemy", "Table", _sql_table),
    ("sqlalchemy", "MetaData", _metadata),
    ("sqlalchemy", "Select", _statement),
    ("sqlalchemy", "Result", _result),
    ("sqlalchemy.orm", "Query", _result),
)


def _distributed(value: Any) -> str | None:
    is_client = is_a(value, "distributed", "Client")
    if not is_client and not is_a(value, "distributed.deploy.cluster", "Cluster"):
        if is_a(value, "distributed", "Future"):
            return f"{type_name(type(value))}, {value.status}: its result is not fetched"
        return None
    workers = workers_of(value)
    threads = sum(_int(one, "nthreads") for one in workers.values())
    memory = sum(_int(one, "memory_limit") for one in workers.values())
    size = f"{counted(len(workers), 'worker')}, {counted(threads, 'thread')}"
    if memory:
        size += f", {in_bytes(memory)}"
    status = getattr(value.status, "name", value.status)
    stop = "Stop ends a wait for it, and what only that wait needed is cancelled by Dask."
    lines = [f"{type_name(type(value))}, {status}, {address_of(value)}: {size}"]
    return "\n".join([*lines, stop] if is_client else lines)


def _int(worker: object, name: str) -> int:
    found = dict.get(worker, name) if isinstance(worker, dict) else None
    return found if type(found) is int else 0


def _pyspark(value: Any) -> str | None:
    if not shape_of(value):
        return None
    held = attributes_of(value)
    context = attributes_of(held["_sc"]) if "_sc" in held else held
    name = context.get("appName")
    said = f'"{name[:80]}"' if type(name) is str else "no name"
    stop = "Stop ends the wait for a job, and calls cancelAllJobs() of its context."
    return f"{type_name(type(value))} {said}, master {shape_of(value)}\n{stop}"


def _ray(value: Any) -> str | None:
    if shape_of(value):
        stop = "Stop ends a wait for it; ray.cancel(ref) ends a task itself."
        return f"{type_name(type(value))}, {shape_of(value)}\n{stop}"
    if type(value) is library_class("ray", "ObjectRef"):
        return "ray.ObjectRef, remote: its value is not fetched"
    return None


def _duckdb(value: Any) -> str | None:
    if not is_a(value, "duckdb", "DuckDBPyConnection"):
        return None
    return "duckdb.DuckDBPyConnection, not asked, as that would end a query that is pending"


def _ibis(value: Any) -> str | None:
    if not is_a(value, "ibis.backends", "BaseBackend"):
        return None
    name = type(value).name
    return f"{type_name(type(value))}, {str(name)[:40]}, not asked"


_TELLERS: dict[str, Callable[[Any], str | None]] = {
    "sqlalchemy": _sqlalchemy,
    "distributed": _distributed,
    "pyspark": _pyspark,
    "ray": _ray,
    "duckdb": _duckdb,
    "_duckdb": _duckdb,
    "ibis": _ibis,
}
