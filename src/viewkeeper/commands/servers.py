"""Servers of stores, for who wants to try them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from viewkeeper.commands.output import debug_option, json_option, print_json
from viewkeeper.servers import KINDS, Cassandra
from viewkeeper.servers.lifeline import FOREVER
from viewkeeper.servers.server import Server


def _usual_folder(name: str) -> Path:
    around = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(around, "viewkeeper", "servers", name)


@click.command()
@click.argument("name", type=click.Choice(list(KINDS)))
@click.argument("what", type=click.Choice(["up", "down", "status"]))
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path),
              help="Where its data are; they stay when it ends.  [~/.local/share/viewkeeper/servers/NAME]")  # fmt: skip
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Where it is asked.  [that of last time, else its usual one]"
)
@click.option("--nodes", type=click.IntRange(1, 3), help="How many, of cassandra's, when it first goes up.  [1]")
@json_option
@debug_option
def servers(name: str, what: str, folder: Path | None, port: int | None, nodes: int | None, as_json: bool) -> None:
    """Fetch, start and stop a server of a store on this machine, to try viewkeeper with it.

    up: it runs until `down`, whatever becomes of the terminal.  What it needs is fetched once.  status: exits with 0 if
    it runs.

    \b
    viewkeeper servers kafka up
    viewkeeper servers redis up --folder /tmp/redis --port 6390
    viewkeeper servers kafka down
    viewkeeper servers cassandra up --nodes 3
    """
    if nodes and name != Cassandra.name:
        raise click.UsageError(f"{name} has no nodes; --nodes is for cassandra")
    kind: Callable[..., Server] = partial(Cassandra, nodes=nodes) if nodes else KINDS[name]
    server = kind(folder or _usual_folder(name), port, lifeline=FOREVER)
    if what == "up":
        if port is None and not server.has_run:
            server = kind(server.folder, server.usual_port, lifeline=FOREVER)
        server.start()
    elif what == "down":
        server.stop()
    _tell(server, as_json)
    if what == "status" and not server.running:
        raise SystemExit(1)


def _tell(server: Server, as_json: bool) -> None:
    running = server.running
    processes = [process.pid for process in server.processes]
    if as_json:
        print_json({"server": server.name, "running": running, "address": server.address if running else None,
                    "processes": processes if running else [], "folder": str(server.folder)})  # fmt: skip
    elif running:
        numbers = ", ".join(map(str, processes))
        click.echo(f"{server.name} answers on {server.address} (process {numbers}); its data are in {server.folder}")
    else:
        kept = f"; its data are in {server.folder}" if server.has_run else ""
        click.echo(f"{server.name} does not run{kept}")
