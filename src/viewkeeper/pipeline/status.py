"""How a database is doing: who maintains it, how far it is, what its tables and views hold and cost."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np

from viewkeeper.catalog.model import ERRORS, REJECTED, Index, StateSpec, Table, View
from viewkeeper.changes.positions import by_part, in_order, operations_between
from viewkeeper.errors import Error
from viewkeeper.pipeline.note import read_note
from viewkeeper.pipeline.part_status import part_lag, part_status
from viewkeeper.pipeline.term import driver_of
from viewkeeper.stores.contract import Store
from viewkeeper.stores.logs import Logs, followed
from viewkeeper.stores.outside.said import untagged
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.receipt import RunRef
from viewkeeper.trace.snapshot import Snapshot

COUNTED_MAX = 5_000_000
"""States of more stored rows than this are not counted: their `rows` is how many are stored, dead ones included."""

COUNTS_KEPT = 256

AHEAD_SECONDS = 1.0
"""Stamps that are further ahead than this come of a clock that was; how long ago such a write was, nothing says."""


def status(storage: Storage, logs: Logs) -> dict[str, Any]:
    """Plain data, fit for JSON: version, who maintains, nodes, tables, views, indexes, streams and the views over them,
    files, last error."""
    snapshot, note = storage.newest(), read_note(storage.disk)
    holder = driver_of(storage)
    rejected, broken = _by_first_column(snapshot, REJECTED), _by_first_column(snapshot, ERRORS)
    known = {table.id for table in snapshot.catalog.tables} | {stream.id for stream in snapshot.catalog.streams}
    alive = note if holder is not None else None
    return {
        "version": snapshot.version,
        "manifest": snapshot.number,
        "epoch": snapshot.epoch,
        "maintainer": None if holder is None else asdict(holder),
        "nodes": _nodes(snapshot, logs.store),
        "logs": _outside_logs(snapshot, logs, now=True),
        "tables": [
            {"name": table.name, **_state(snapshot, table), **_outside(table, alive), "rejected": rejected[table.id]}
            for table in snapshot.catalog.tables
        ],
        "views": [
            {
                "name": view.name,
                **_state(snapshot, view),
                **_filling(view, alive),
                **_written(snapshot, view, alive),
                "errors": broken[view.id],
            }
            for view in snapshot.catalog.views
        ],
        "indexes": [
            {"name": index.name, **_state(snapshot, index), **_filling(index, alive)}
            for index in snapshot.catalog.indexes
        ],
        **part_status(snapshot, rejected, {} if alive is None else alive["outside"]),
        "rejected_elsewhere": sum(count for id_, count in rejected.items() if id_ not in known),
        "replaced": list(logs.store.replaced(snapshot.positions, snapshot.hashes).values()),
        "files": storage.summary(),
        "pipeline": alive,
        "last_error": None if alive is None else alive["last_error"],
    }


def lag(snapshot: Snapshot, logs: Logs) -> dict[str, Any]:
    """The part of `status` that tells how far the views are behind the logs; costs microseconds, so may be polled.

    `lag_seconds` is the age of the oldest write that is not in; None where the clock was ahead when it was written, so
    that nobody knows.  Where the log is not the one that the views have read, neither lag is known, and `state` says
    "replaced" (else "ok").
    """
    return {"version": snapshot.version, "nodes": _nodes(snapshot, logs.store),
            "logs": _outside_logs(snapshot, logs, now=False), **part_lag(snapshot)}  # fmt: skip


def progress(root_note: dict[str, Any] | None, id_: int) -> str:
    """How far the filling of a view or index is, in words."""
    fill = root_note["fill"] if root_note is not None else None
    if fill is None or id_ not in fill["ids"]:
        error = None if root_note is None else root_note["unfilled"].get(str(id_))
        return "waits to be filled" + (f", and is tried again: {error}" if error else "")
    seconds = time.time() - fill["started"]
    if not fill["read"]:
        return f"is being filled: reading {fill['rows']:,} rows, for {seconds:.1f} s so far"
    return f"is being filled: {fill['rows']:,} rows are in, catching up with the logs, for {seconds:.1f} s so far"


def _nodes(snapshot: Snapshot, store: Store) -> list[dict[str, Any]]:
    ends, replaced = store.ends(), store.replaced(snapshot.positions, snapshot.hashes)
    nodes: list[dict[str, Any]] = []
    for node in in_order(ends):
        end = ends[node]
        position, seconds = snapshot.positions.get(node, 0), 0.0
        if node in replaced:
            nodes.append({"node": node, "position": position, "end": end, "lag_operations": None, "lag_seconds": None,
                          "state": "replaced"})  # fmt: skip
            continue
        if end > position and (oldest := store.stamp_after(int(node), position)) is not None:
            seconds = time.time() - oldest / 1e6
        known = seconds > -AHEAD_SECONDS
        behind = operations_between({node: position}, {node: end})
        nodes.append({"node": node, "position": position, "end": end, "lag_operations": behind,
                      "lag_seconds": round(max(0.0, seconds), 3) if known else None, "state": "ok"})  # fmt: skip
    return nodes


def _outside_logs(snapshot: Snapshot, logs: Logs, now: bool) -> list[dict[str, Any]]:
    """How far the logs of tables in outside stores are read; their ends as they are `now`, or as they were last seen,
    and None where the store does not answer, or nobody has looked yet."""
    found: list[dict[str, Any]] = []
    for table in followed(snapshot.catalog):
        reason, ends = None, dict[str, int]()
        try:
            ends = logs.ends_of(table, snapshot.positions, snapshot.hashes, now)
        except Error as error:
            reason = untagged(str(error))
        at = by_part(table.id, snapshot.positions)
        for part in sorted({*at, *ends}, key=lambda part: (len(part), part)):
            position, end = at.get(part, 0), ends.get(part)
            opened = logs.outside.of(table)
            behind = None if end is None else opened.estimate(position, end)
            found.append({"table": table.name, "part": part, "position": position, "end": end,
                          "lag_operations": behind, "state": reason or opened.state_of(part)})  # fmt: skip
    return found


def _state(snapshot: Snapshot, item: Table | View | Index) -> dict[str, Any]:
    spec = item.stored.state
    runs = snapshot.states.get(spec.id, ())
    shared = item.stored.member is not None
    counts = _live_rows(snapshot, spec, runs)
    return {
        "rows": counts.get(-1 if item.stored.member is None else item.stored.member, 0),
        "bytes": sum(run.bytes for run in runs),
        "runs": len(runs),
        "shares_state": shared,
    }


def _outside(table: Table, note: dict[str, Any] | None) -> dict[str, Any]:
    """In which store a table is, and how it is read."""
    if table.outside is None:
        return {"store": "embedded", "state": "read"}
    why = None if note is None else note["outside"].get(str(table.id))
    state = "read" if table.outside.adopted is not None else adoption(table)
    return {"store": table.outside.kind, "state": state if why is None else f"{state}: {why}"}


def _written(snapshot: Snapshot, view: View, note: dict[str, Any] | None) -> dict[str, Any]:
    """How far a view is that is written to an outside store, too.  `published` is the version that is there, None where
    nobody knows."""
    if view.target is None:
        return {}
    said = next((each for each in note["targets"] if each["view"] == view.id), None) if note is not None else None
    version = None if said is None else said["version"]
    lag = None if version is None else snapshot.version - version
    return {"target": view.target.kind, "published": version, "lag_versions": lag,
            "target_error": None if said is None else said["error"] or said["held"]}  # fmt: skip


def adoption(table: Table) -> str:
    """How far the adoption of a table in an outside store is, in words."""
    assert table.outside is not None
    if table.outside.scanned is not None:
        return "is being adopted: its rows are in, and its log is read up to where they were"
    return "is being adopted: its rows are read" if table.outside.followed is not None else "waits to be adopted"


def _filling(item: View | Index, note: dict[str, Any] | None) -> dict[str, Any]:
    if item.stopped is not None:
        return {"filled": item.filled, "state": f"stopped: {item.stopped}"}
    return {"filled": item.filled, "state": "filled" if item.filled is not None else progress(note, item.id)}


_counted: dict[tuple[RunRef, ...], dict[int, int]] = {}


def _live_rows(snapshot: Snapshot, spec: StateSpec, runs: tuple[RunRef, ...]) -> dict[int, int]:
    """Live rows by member (-1 where the state belongs to one view).  Runs never change, so they are counted once."""
    if runs not in _counted:
        _counted[runs] = _count(snapshot, spec)
        if len(_counted) > COUNTS_KEPT:
            del _counted[next(iter(_counted))]
    return _counted[runs]


def _count(snapshot: Snapshot, spec: StateSpec) -> dict[int, int]:
    trace = snapshot.trace(spec)
    if trace.rows > COUNTED_MAX:
        return {-1: trace.rows}
    rows = trace.scan(columns=[0] if spec.member else [])
    if not spec.member:
        return {-1: int(rows.weights.sum())}
    members = rows.columns[0].to_numpy()
    values, place = np.unique(members, return_inverse=True)
    return dict(zip(values.tolist(), np.bincount(place, weights=rows.weights).astype(int).tolist(), strict=True))


def _by_first_column(snapshot: Snapshot, spec: StateSpec) -> Counter[int]:
    rows = snapshot.trace(spec).scan(columns=[0])
    found: Counter[int] = Counter()
    for id_, weight in zip(rows.columns[0].to_pylist(), rows.weights.tolist(), strict=True):
        found[id_] += weight
    return found
