"""Programs that show and measure viewkeeper."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from viewkeeper.commands.output import debug_option, json_option

_folder_option = click.option("--db", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
                              help="Keep the databases in this folder; without it they go at the end.")  # fmt: skip


@click.command()
@_folder_option
@click.option("--scale", default=0.1, show_default=True, help="TPC-H scale factor.")
@click.option("--seconds", default=60, show_default=True, help="How long orders change.")
@json_option
@debug_option
def demo(db: Path | None, scale: float, seconds: int, as_json: bool) -> None:
    """Load TPC-H, maintain views while orders change, check them.

    \b
    viewkeeper demo
    viewkeeper demo --scale 0.01 --seconds 20
    """
    if not importlib.import_module("viewkeeper.demo").run(folder=db, scale=scale, seconds=seconds, as_json=as_json):
        raise SystemExit(1)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@_folder_option
@json_option
@debug_option
def bench(name: str | None, arguments: tuple[str, ...], db: Path | None, as_json: bool) -> None:
    """Measure; without NAME, list what can be measured.

    \b
    viewkeeper bench
    viewkeeper bench w3
    """
    importlib.import_module("viewkeeper.bench").run(name, arguments, folder=db, as_json=as_json)
