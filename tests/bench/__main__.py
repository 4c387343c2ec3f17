"""Runs every bench in a process of its own, one after the other, and prints one table.

`python -m tests.bench NAME…` runs only those; `--option=value` behind them goes to each.
No figure is judged: the reach stands beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module

from .table import Row, render

BENCHES = (
    "load_ext",
    "cell_cost",
    "count_tokens",
    "big_output",
    "assemble",
    "resume",
    "search",
    "economy",
    "replay",
    "replay_openai",
    "panel",
    "panel_long",
)


def run_bench(name: str, options: Sequence[str] = ()) -> list[Row]:
    """Return the rows of a bench, run in another process. Raises CalledProcessError."""
    command = [sys.executable, "-m", "tests.bench", "--rows", name, *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]


def main(arguments: list[str]) -> None:
    """Run the benches named, all by default."""
    if arguments[:1] == ["--rows"]:
        rows: list[Row] = import_module(f"tests.bench.{arguments[1]}").measure(*arguments[2:])
        print(json.dumps([asdict(row) for row in rows]))
        return
    options = [argument for argument in arguments if argument.startswith("--")]
    names = [argument for argument in arguments if argument not in options]
    if unknown := set(names) - set(BENCHES):
        raise SystemExit(f"No such bench: {', '.join(sorted(unknown))}. There are {BENCHES}.")
    table: list[Row] = []
    for name in names or BENCHES:
        print(f"{name} …", file=sys.stderr, flush=True)
        table += run_bench(name, options)
    print(render(table))


if __name__ == "__main__":
    main(sys.argv[1:])
