"""What `db.status()` says, for a person: sentences first, then a table of each kind."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

_HEADINGS = {
    "lag_operations": "lag (operations)", "lag_seconds": "lag (seconds)", "shares_state": "shared", "filled": "since",
    "lag_parts": "lag (parts)", "sealed": "sealed up to", "open_rows": "not sealed", "late_rows": "late",
    "waiting_entries": "waiting", "next": "NEXT", "waits_for": "waits for",
}  # fmt: skip
_TITLES = {"part_views": "views over streams", "logs": "logs in other stores"}
_SHOWN = {
    "streams": (
        "name",
        "sealed",
        "watermark",
        "rows",
        "open_rows",
        "late_rows",
        "waiting_entries",
        "rejected",
        "state",
    ),
    "part_views": ("name", "next", "lag_parts", "lag_seconds", "rows", "waits_for", "state"),
}
"""What of these is shown to a person: all of it would be too wide to be read."""


def status_lines(state: Mapping[str, Any]) -> Iterator[str | Table]:
    """What to print, in order."""
    holder, pipeline, files = state["maintainer"], state["pipeline"], state["files"]
    yield f"version {state['version']:,}, epoch {state['epoch']:,}, manifest {state['manifest']:,}"
    if holder is None:
        yield "nobody maintains the views: viewkeeper maintain, or catch-up"
    else:
        what = "maintained" if holder["purpose"] == "pipeline" else f"held ({holder['purpose']})"
        yield f"{what} by process {holder['pid']} on {holder['host']}, since {_moment(holder['since'])}"
    if pipeline is not None:
        yield f"it has brought in {pipeline['operations']:,} operations, and merged {pipeline['merges']:,} times"
    kept = f"{files['manifests']:,} manifests kept, {files['leased']:,} leased"
    yield f"{files['files']:,} state files, {files['bytes']:,} bytes; {kept}"
    if state["rejected_elsewhere"]:
        yield f"{state['rejected_elsewhere']:,} operations of no table were rejected"
    for reason in state["replaced"]:
        yield f"the store's log is not the one that the views have read: {reason}; viewkeeper rebase"
    if state["last_error"]:
        yield f"last error: {state['last_error']}"
    for name in ("nodes", "logs", "tables", "views", "indexes", "streams", "part_views"):
        if state[name]:
            shown = _SHOWN.get(name, tuple(state[name][0]))
            rows = [{column: row[column] for column in shown} for row in state[name]]
            yield _table(_TITLES.get(name, name), rows)


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")


def _table(name: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=name, title_justify="left")
    for column in rows[0]:
        found = [row[column] for row in rows if row[column] is not None]
        right = bool(found) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in found)
        table.add_column(_HEADINGS.get(column, column), justify="right" if right else "left")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if value is None else str(value)
