"""Commands that maintain views, and look at how they are."""

from __future__ import annotations

import json
import math
import signal
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from viewkeeper.commands.output import cell, console, database_option, json_option, print_json, print_rows, progress_bar
from viewkeeper.commands.status_text import status_lines
from viewkeeper.database import Database, connect
from viewkeeper.database import init as make
from viewkeeper.jobs.ring import INTERVALS

_REFRESH_SECONDS = 0.5


@click.command()
@click.option("--nodes", type=click.IntRange(1, 256), help="How many nodes the store has (2 if not said).")
@click.option("--zone", help="The time zone of TIMESTAMPs (UTC if not said).")
@database_option
def init(db: Path, nodes: int | None, zone: str | None) -> None:
    """Make a database, as a first CREATE does; it is for its owner alone until chmod -R g+rwX FOLDER lets a group in.

    \b
    viewkeeper init --db shop --zone Europe/Berlin
    """
    make(db, nodes=nodes, zone=zone)
    console().print(f"{db} is a database")


@click.command()
@click.option("--servers", type=click.IntRange(1, INTERVALS), help="How many view servers share the work.")
@click.option("--seconds", type=float, help="Stop after so long; without it, at Ctrl-C.")
@database_option
def maintain(db: Path, servers: int | None, seconds: float | None) -> None:
    """Keep all views up to date until Ctrl-C, or SIGTERM.

    \b
    viewkeeper maintain --db shop
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    end = math.inf if seconds is None else time.monotonic() + seconds
    try:
        with connect(db) as database:
            database.lag()  # where there is no database none is made: the folder's name may be mistyped
            _maintain(database, servers, end)
    except KeyboardInterrupt:
        pass  # while it began
    console().print("stopped; what was committed stays")


def _maintain(database: Database, servers: int | None, end: float) -> None:
    with database.maintain(servers=servers) as maintenance, _live() as live:
        try:
            while (left := end - time.monotonic()) > 0:
                live.update(_lag(database.lag()))
                maintenance.wait(min(_REFRESH_SECONDS, left))
        except KeyboardInterrupt:
            live.update("stopping after this batch")


def _live() -> Live:
    screen = Console(stderr=True)
    return Live(console=screen, refresh_per_second=4, transient=True, auto_refresh=screen.is_terminal)


def _lag(state: dict[str, Any]) -> Group:
    table = Table("node", "position", "lag (operations)", "lag (seconds)", "log", title=f"version {state['version']}")
    for node in state["nodes"]:
        table.add_row(*(_shown(node[name]) for name in ("node", "position", "lag_operations", "lag_seconds", "state")))
    logs = Table("table", "part", "position", "lag (operations)", "log", title="other stores")
    for log in state["logs"]:
        logs.add_row(*(_shown(log[name]) for name in ("table", "part", "position", "lag_operations", "state")))
    streams, views = Table("stream", "sealed up to", "watermark"), Table("view", "NEXT", "lag (seconds)", "state")
    for stream in state["streams"]:
        streams.add_row(*(_shown(stream[name]) for name in ("name", "sealed", "watermark")))
    for view in state["part_views"]:
        views.add_row(*(_shown(view[name]) for name in ("name", "next", "lag_seconds", "state")))
    return Group(table, *(each for each in (logs, streams, views) if each.row_count))


def _shown(value: Any) -> str:
    return "-" if value is None else cell(value)


@click.command("catch-up")
@click.option("--timeout", type=float, help="Give up after so many seconds.")
@json_option
@database_option
def catch_up(db: Path, timeout: float | None, as_json: bool) -> None:
    """Maintain until all that is now in the logs is in the views; prints the version.

    \b
    viewkeeper catch-up --db shop
    """
    with connect(db) as database, progress_bar() as progress:
        task = progress.add_task("catching up", total=None)

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        version = database.catch_up(timeout=timeout, progress=show)
    if as_json:
        print_json({"version": version})
    else:
        console().print(f"version {version}")


@click.command()
@json_option
@database_option
def rebase(db: Path, as_json: bool) -> None:
    """Make the views equal to the store, where an older copy of either was put back.

    The rows in which they differ become one batch; afterwards the logs are read on from where they end now.  Where the
    logs are those that the views have read, nothing is done.

    \b
    viewkeeper rebase --db shop
    """
    with connect(db) as database, progress_bar() as progress:
        task = progress.add_task("comparing", total=None)

        def show(table: str, rows: int) -> None:
            progress.update(task, description=f"comparing {table}, {rows:,} rows")

        done = database.rebase(progress=show)
    if as_json:
        print_json({"version": done.version, "done": done.done, "changed": done.changed})
    elif not done.done:
        console().print("nothing to do: the logs are those that the views have read")
    else:
        changed = ", ".join(f"{count:,} rows of {table}" for table, count in done.changed.items())
        console().print(f"version {done.version}: {changed or 'no rows'} changed; the views are equal to the store")


@click.command()
@json_option
@database_option
def status(db: Path, as_json: bool) -> None:
    """Show positions, lag, views, sizes, errors, and who maintains.

    \b
    viewkeeper status --db shop
    """
    with connect(db) as database:
        state = database.status()
    if as_json:
        print_json(state)
        return
    for line in status_lines(state):
        console().print(line)


@click.command()
@click.argument("view")
@click.option("--mermaid", is_flag=True, help="Print a flowchart, for Mermaid.")
@json_option
@database_option
def explain(db: Path, view: str, as_json: bool, mermaid: bool) -> None:
    """Show how VIEW is kept: zones, states, what is shared, the class of each operator.

    \b
    viewkeeper explain --db shop spend
    """
    if as_json and mermaid:
        raise click.UsageError("--json and --mermaid are two formats; choose one")
    format_ = "json" if as_json else "mermaid" if mermaid else "text"
    with connect(db) as database:
        text = database.explain(view, format=format_)
    if format_ == "text":
        console().print(text)
    else:
        click.echo(text)


@click.command()
@click.argument("views", nargs=-1)
@click.option("--repair", is_flag=True, help="Mend what was changed by hand in stores that views are written to.")
@json_option
@database_option
def check(db: Path, views: tuple[str, ...], repair: bool, as_json: bool) -> None:
    """Recompute VIEWS (all, and all streams, where none is named) with Spark, and compare.  Fails if one is wrong.

    What is in outside stores that views are written to is compared, too.

    \b
    viewkeeper check --db shop spend
    viewkeeper check --db shop --repair spend
    """
    with connect(db) as database, progress_bar() as progress:
        task = progress.add_task("checking", total=None)

        def show(name: str, part: int, last: int) -> None:
            progress.update(task, description=f"checking {name}, parts up to {part} of {last}")

        reports = database.check_all(views or None, progress=show, repair=repair)
    for report in reports:
        if as_json:
            print_json(json.loads(report.to_json()))
        else:
            console().print(str(report))
    if not all(report.ok for report in reports):
        raise SystemExit(1)


@click.command()
@click.argument("table", required=False)
@click.option("--put-again", is_flag=True, help="Put them again; those that are refused again stay.")
@json_option
@database_option
def rejected(db: Path, table: str | None, put_again: bool, as_json: bool) -> None:
    """List operations on tables that could not be applied, and rows that streams could not take.

    \b
    viewkeeper rejected --db shop orders
    viewkeeper rejected --db shop --put-again
    """
    with connect(db) as database:
        if put_again:
            count = database.put_rejected_again(table)
            print_json({"put": count}) if as_json else console().print(f"{count:,} put again")
            return
        rows: list[dict[str, Any]] = database.rejected(table)
    print_rows(["table", "node", "sequence", "stamp", "reason", "operation"], rows, as_json)
