"""What all commands share: their options, and how they print."""

from __future__ import annotations

import base64
import datetime
import json
import logging
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from viewkeeper.stores.value_conversion import interval_text

MAX_SHOWN = 1_000
"""Rows that are shown to a person; `--json` prints all."""

_WIDE = 10_000


def debug_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --debug, which `main` looks for when a command fails."""

    def remember(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            sys.excepthook = sys.__excepthook__

    return click.option("--debug", is_flag=True, expose_value=False, is_eager=True, callback=remember,
                        help="Show a traceback if it fails.")(command)  # fmt: skip


def database_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --db and --debug."""
    folder = click.Path(file_okay=False, path_type=Path)
    return click.option("--db", required=True, envvar="VIEWKEEPER_DB", type=folder, metavar="FOLDER",
                        help="The database [or the variable VIEWKEEPER_DB].")(debug_option(command))  # fmt: skip


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one value a line.")


def print_json(value: Any) -> None:
    """One value on one line: DECIMAL, dates, times, intervals, NaN and infinities as text, BINARY in base64."""
    click.echo(json.dumps(_plain(value), ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return interval_text(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def print_rows(columns: list[str], rows: Iterable[Mapping[str, Any]], as_json: bool, title: str | None = None) -> None:
    """Rows as a table for a person, or as JSON."""
    if as_json:
        for row in rows:
            print_json(row)
        return
    table = Table(*columns, title=title, title_justify="left")
    left_out = 0
    for number, row in enumerate(rows):
        if number < MAX_SHOWN:
            table.add_row(*(cell(row[column]) for column in columns))
        else:
            left_out += 1
    console().print(table)
    if left_out:
        console().print(f"... and {left_out:,} rows more (--json prints all)")


def cell(value: Any) -> str:
    """A value for a person's eyes."""
    if isinstance(value, bytes):
        return value.hex()
    return "NULL" if value is None else str(value)


def console() -> Console:
    """Standard output, where data goes; markup in data is not interpreted, and nothing is cut but for a terminal."""
    is_terminal = sys.stdout.isatty()
    return Console(markup=False, highlight=False, soft_wrap=not is_terminal, width=None if is_terminal else _WIDE)


class _Shown(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"viewkeeper: {self.format(record)}", err=True)


def show_progress() -> None:
    """What takes long and has no bar is said on standard error, where that is a terminal."""
    log = logging.getLogger("viewkeeper.progress")
    if sys.stderr.isatty() and not log.handlers:
        log.addHandler(_Shown())
        log.setLevel(logging.INFO)


def progress_bar() -> Progress:
    """A bar on standard error; silent where that is not a terminal."""
    errors = Console(stderr=True)
    return Progress(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                    TimeElapsedColumn(), console=errors, transient=True, disable=not errors.is_terminal)  # fmt: skip
