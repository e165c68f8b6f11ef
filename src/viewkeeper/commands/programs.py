"""Programs that show and measure viewkeeper."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from viewkeeper.commands.output import debug_option, json_option
from viewkeeper.errors import NotFound

_folder_option = click.option("--db", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
                              help="Keep the databases in this folder; without it they go at the end.")  # fmt: skip


_DEMOS = {"tpch": ("viewkeeper.demo", 0.1, 60), "streams": ("viewkeeper.demo.streams", 1.0, 30),
          "stores": ("viewkeeper.demo.stores", 1.0, 30)}  # fmt: skip
"""Where each demo is, how large and how long (in seconds) it is if nothing is said."""

_SOURCE_TREE = Path(__file__).parents[3]
"""Where `benchmarks/` is, if this is a clone; what pip installs from elsewhere has none."""


@click.command()
@click.argument("name", type=click.Choice(list(_DEMOS)), default="tpch")
@_folder_option
@click.option(
    "--scale",
    type=click.FloatRange(min=0, min_open=True),
    help="How large: TPC-H's scale factor (0.1 if not said); times 2,000 pairs of streams, 50,000 orders of stores.",
)
@click.option(
    "--seconds", type=click.IntRange(min=1), help="How long data change or come (60 if not said; streams, stores 30)."
)
@json_option
@debug_option
def demo(name: str, db: Path | None, scale: float | None, seconds: int | None, as_json: bool) -> None:
    """Show what viewkeeper does, then check all views.

    tpch (if NAME is not said): load TPC-H, maintain views while orders change.  streams: measurements of a network
    come minute by minute, some of them late; views over them are built and repaired part by part.  stores: orders in
    Cassandra, products from Kafka, one view of both, written to Redis; the servers are fetched and started.

    \b
    viewkeeper demo
    viewkeeper demo --scale 0.01 --seconds 20
    viewkeeper demo streams
    viewkeeper demo stores
    """
    module, usual_scale, usual_seconds = _DEMOS[name]
    done = importlib.import_module(module).run(
        folder=db, scale=usual_scale if scale is None else scale, as_json=as_json,
        seconds=usual_seconds if seconds is None else seconds,
    )  # fmt: skip
    if not done:
        raise SystemExit(1)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@_folder_option
@json_option
@debug_option
def bench(name: str | None, arguments: tuple[str, ...], db: Path | None, as_json: bool) -> None:
    """Measure; without NAME, list what can be measured.  Works in a clone: the benchmarks are not in the package.

    \b
    viewkeeper bench
    viewkeeper bench w3
    """
    if not (_SOURCE_TREE / "benchmarks" / "__init__.py").exists():
        raise NotFound("the benchmarks come with viewkeeper's source tree: clone it, then run './run bench' there")
    # At the front, so that this `benchmarks` is found and no other; the processes that they spawn get the path too.
    sys.path.insert(0, str(_SOURCE_TREE))
    importlib.import_module("benchmarks").run(name, arguments, folder=db, as_json=as_json)
