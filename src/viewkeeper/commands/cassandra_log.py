"""The program beside each node of Cassandra that serves its log."""

from __future__ import annotations

import os
from pathlib import Path

import click

from viewkeeper.commands.output import debug_option, json_option, print_json
from viewkeeper.errors import Error
from viewkeeper.servers.cassandra_log import CassandraLog, log_command
from viewkeeper.stores.outside.cassandra.node_log import LogRefused, NodeLog

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("cassandra-log")
@click.option("--config", type=click.Path(dir_okay=False, exists=True, path_type=Path),
              help="The node's cassandra.yaml.")  # fmt: skip
@click.option("--folder", type=_FOLDER, help="Where it keeps who has read how far; it must stay.")
@click.option("--listen", default=f"127.0.0.1:{CassandraLog.usual_port}", show_default=True, metavar="HOST:PORT",
              help="Where it answers.  It asks nobody for a password: let nobody else reach it.")  # fmt: skip
@click.option("--cdc", type=_FOLDER, help="The node's folder cdc_raw, if not where cassandra.yaml says.")
@click.option("--jars", type=_FOLDER, help="Cassandra's folder lib.  [its jars are fetched by Maven, once]")
@click.option("--followers", is_flag=True, help="Print who follows the log at --listen, and how far they are.")
@click.option("--drop", metavar="FOLLOWER", help="One that will not come back: the log is not kept for it any more.")
@json_option
@debug_option
def cassandra_log(
    config: Path | None, folder: Path | None, listen: str, cdc: Path | None, jars: Path | None, followers: bool,
    drop: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Serve the change log of a Cassandra node: run it beside each node, as a user who may read and delete in cdc_raw.

    It needs Java 17.  Segments that all followers have read are deleted.

    \b
    viewkeeper cassandra-log --config /etc/cassandra/cassandra.yaml --folder /var/lib/cassandra-log
    viewkeeper cassandra-log --followers
    viewkeeper cassandra-log --drop viewkeeper/shop.orders/7
    """
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal():
        raise click.UsageError(f"--listen {listen}: expected HOST:PORT")
    if followers or drop is not None:
        _tell(listen, drop, as_json)
        return
    if config is None or folder is None:
        raise click.UsageError("--config and --folder are needed")
    command = log_command(config, folder, host, int(port), cdc, jars)
    os.execv(command[0], command)


def _tell(address: str, drop: str | None, as_json: bool) -> None:
    node = NodeLog(address)
    try:
        if drop is not None and not node.asked({"do": "drop", "follower": drop})["dropped"]:
            raise Error(f"nobody called {drop} follows the log at {address}")
        told = node.asked({"do": "followers"})
    except OSError as error:
        raise Error(f"nobody answers at {address}: {error.strerror or error}") from error
    except LogRefused as refused:
        raise Error(f"the log at {address}: {refused}") from refused
    finally:
        node.close()
    if as_json:
        print_json(told)
        return
    used, limit = told["used"] >> 20, told["limit"] >> 20
    click.echo(f"cdc_raw holds {used:,} of {limit:,} MiB; the log ends at {told['end']}")
    for name, place in told["followers"].items():
        click.echo(f"{name} has read up to {place}")
