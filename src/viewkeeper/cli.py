"""The command line: `viewkeeper COMMAND`, or `./run viewkeeper COMMAND`."""

from __future__ import annotations

import signal
import sys
from types import TracebackType

import click

from viewkeeper.commands.cassandra_log import cassandra_log
from viewkeeper.commands.output import show_progress
from viewkeeper.commands.programs import bench, demo
from viewkeeper.commands.row_commands import get, load, put, sql
from viewkeeper.commands.scripts import script
from viewkeeper.commands.servers import servers
from viewkeeper.commands.upkeep import catch_up, check, explain, init, maintain, rebase, rejected, status


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="viewkeeper")
def cli() -> None:
    """SQL materialized views over key-value stores, kept incrementally up to date.

    \b
    viewkeeper sql --db shop "CREATE TABLE orders (id BIGINT, customer BIGINT, PRIMARY KEY (id))"
    viewkeeper sql --db shop "CREATE VIEW n AS SELECT customer, count(*) AS n FROM orders GROUP BY customer"
    viewkeeper put --db shop orders '{"id": 1, "customer": 7}'
    viewkeeper catch-up --db shop
    viewkeeper get --db shop n 7
    """
    show_progress()


for _command in (
    demo, init, sql, load, put, get, maintain, catch_up, status, explain, check, rejected, rebase, script, servers,
    bench, cassandra_log
):  # fmt: skip
    cli.add_command(_command)


def main() -> None:
    """Runs the command line; exits with 0 only on success.  An error is one line on standard error."""
    sys.excepthook = _one_line
    cli()


def _one_line(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.exit(128 + signal.SIGINT)
    named = kind.__module__.startswith("viewkeeper.") or issubclass(kind, OSError)
    # What others raise may go on for pages (Spark's does, with the Java stack): its first line says what is wrong.
    lines = [" ".join(str(error).split())] if named else str(error).strip().splitlines()
    text = lines[0] if lines and lines[0] else kind.__name__
    click.echo(f"viewkeeper: {text if named else f'{kind.__name__}: {text}'}", err=True)
