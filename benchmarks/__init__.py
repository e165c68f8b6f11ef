"""Measurements of what viewkeeper promises: `viewkeeper bench` in the source tree, one file an experiment.

Everything is measured through what a user holds (`connect`, `sql`, `put_many`, `maintain`, real Spark), except where an
experiment says otherwise.  `--small` makes any of them a matter of seconds, to see that it works.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.support.report import BenchReport
from viewkeeper.commands.output import console, print_json
from viewkeeper.errors import InputError

EXPERIMENTS = ("w3", "latency", "many", "get", "scale", "memory", "fill", "viewdf", "tpch")


def run(name: str | None, arguments: Sequence[str], *, folder: Path | None, as_json: bool) -> None:
    """Runs the experiment `name` and prints its report; without a name, lists what there is."""
    if name is None:
        _list(as_json)
        return
    if name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}")
    read = getattr(import_module(f"benchmarks.{name}"), "options", None)
    options = read(arguments) if read is not None else _options(name, arguments)
    measure(name, folder=folder, **options).print(as_json)


def measure(name: str, *, small: bool = False, folder: Path | None, **options: Any) -> BenchReport:
    """Runs an experiment with its databases in `folder`, or, without it, in one that goes at the end; `options` are
    those that it has of its own."""
    experiment = import_module(f"benchmarks.{name}")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        return experiment.run(folder, small, **options)
    with tempfile.TemporaryDirectory(prefix="viewkeeper-bench-") as made:
        return experiment.run(Path(made), small, **options)


def _options(name: str, arguments: Sequence[str]) -> dict[str, Any]:
    wrong = [argument for argument in arguments if argument != "--small"]
    if wrong:
        raise InputError(f"bench {name} does not know {wrong[0]!r}; it takes --small")
    return {"small": bool(arguments)}


def _list(as_json: bool) -> None:
    for name in EXPERIMENTS:
        about = str(import_module(f"benchmarks.{name}").__doc__).partition("\n")[0]
        if as_json:
            print_json({"name": name, "about": about})
        else:
            console().print(f"{name:8} {about}")
