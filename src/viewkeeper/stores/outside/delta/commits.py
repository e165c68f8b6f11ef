"""Commits of a Delta table: the files in its `_delta_log`, and what they say has changed.

A commit is `_delta_log/<version, 20 digits>.json`: an action a line.  What it did to rows stands in change files
(action `cdc`) where it has any; else in the data files that it adds (inserted rows) and removes (deleted ones), as far
as these say that data changed.  (Delta's protocol, "Change Data Files".)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from viewkeeper.stores.columns import plainly_held
from viewkeeper.stores.outside.delta.schema import Metadata

CHANGE = "_change_type"
_BYTES_A_ROW = 64
"""Of a file of which nobody has said how many rows it has."""


class Gone(Exception):
    """A file is not there any more: its name."""


@dataclass(frozen=True)
class ChangedFile:
    """A file of changed rows: `change` is what happened to all of them, None where each row says so; `rows` is about
    how many; `partition` are the values of columns that are not in it, as texts."""

    path: str
    change: str | None
    rows: int
    partition: Mapping[str, str | None]


@dataclass(frozen=True)
class Commit:
    """One commit: `stamp` is when it was done (microseconds since 1970), `metadata` what it says of the table, if it
    does; `has_vectors`: files of it have rows that are deleted by a vector."""

    version: int
    stamp: int
    files: tuple[ChangedFile, ...]
    metadata: Metadata | None
    has_vectors: bool

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


def commit_path(version: int) -> str:
    return f"_delta_log/{version:020}.json"


def read_commit(files: pa.fs.FileSystem, version: int) -> Commit:
    """Raises Gone where it is not there (any more)."""
    try:
        with files.open_input_stream(commit_path(version)) as stream:
            text = stream.readall()
    except FileNotFoundError:
        raise Gone(commit_path(version)) from None
    actions: dict[str, list[Mapping[str, Any]]] = {}
    for line in text.splitlines():
        for name, action in (json.loads(line) if line.strip() else {}).items():
            actions.setdefault(name, []).append(action or {})
    info: Mapping[str, Any] = next(iter(actions.get("commitInfo", [])), {})
    metadata = next(iter(actions.get("metaData", [])), None)
    added, removed = actions.get("add", []), actions.get("remove", [])
    changed = [_file(action, None) for action in actions.get("cdc", ())]
    if not changed:
        changed = [_file(action, change) for given, change in ((removed, "delete"), (added, "insert"))
                   for action in given if action.get("dataChange", True)]  # fmt: skip
    stamp = info.get("inCommitTimestamp") or info.get("timestamp") or _latest(added, removed)
    return Commit(
        version, int(stamp) * 1_000, tuple(changed), None if metadata is None else Metadata.of(metadata),
        any(action.get("deletionVector") for action in (*added, *removed)),
    )  # fmt: skip


def read_transactions(files: pa.fs.FileSystem, version: int) -> dict[str, int]:
    """What a commit says of applications' transactions: the newest version of each, by its name; nothing where it is
    not there (any more)."""
    try:
        with files.open_input_stream(commit_path(version)) as stream:
            lines = stream.readall().splitlines()
    except FileNotFoundError:
        return {}
    said = [json.loads(line)["txn"] for line in lines if line.startswith(b'{"txn"')]
    return {each["appId"]: each["version"] for each in said}


def read_rows(files: pa.fs.FileSystem, file: ChangedFile, names: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """What happened, and the columns `names`, as far as they are in the file, of the rows that it happened to."""
    try:
        with files.open_input_file(file.path) as opened:
            # Spark writes times of an older kind, which have no zone, and are in UTC.
            parquet = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
            there = set(parquet.schema_arrow.names)
            found = parquet.read([name for name in (*names, CHANGE) if name in there])
    except FileNotFoundError:
        raise Gone(file.path) from None
    # Other writers' dictionaries and views are more than Arrow can select from.
    held = {name: without_views(plainly_held(found[name].combine_chunks())) for name in found.column_names}
    columns = pa.table({name: held[name] for name in names if name in there})
    if file.change is not None:
        yield file.change, columns
        return
    changes = held[CHANGE]
    for change in changes.unique().to_pylist():
        yield change, columns.filter(pc.equal(changes, change))


def without_views(column: pa.Array) -> pa.Array:
    """The same values, with texts and bytes within others as Arrow can select them."""
    target = _without_views(column.type)
    return column if target == column.type else column.cast(target)


def _without_views(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_without_views(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_without_views(type_.key_type), _without_views(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(_without_views(type_.value_type))
    views = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return views.get(type_, type_)


def _file(action: Mapping[str, Any], change: str | None) -> ChangedFile:
    stats = json.loads(action.get("stats") or "{}")
    rows = stats.get("numRecords", max(1, int(action.get("size") or 0) // _BYTES_A_ROW))
    return ChangedFile(unquote(action["path"]), change, int(rows), action.get("partitionValues") or {})


def _latest(added: Sequence[Mapping[str, Any]], removed: Sequence[Mapping[str, Any]]) -> int:
    times = [action.get("modificationTime") or action.get("deletionTimestamp") or 0 for action in (*added, *removed)]
    return max(map(int, times), default=0)
