"""An outside store in a folder: a log of JSON lines in two parts, and rows that are what the log says.

It has what real ones have, and does what they do at bad moments, when it is told to: `between` is called between two
pieces of a scan, a file `away` makes it not answer, and one `cut` says up to where its logs were cut off.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from viewkeeper.catalog.model import Table
from viewkeeper.catalog.operation_kinds import DELETE, DELETE_COLUMNS
from viewkeeper.changes.operations import Operations
from viewkeeper.errors import Error, LogLost, StoreAway
from viewkeeper.stores.outside.contract import (
    LogEnds,
    NoOperation,
    OutsideTable,
    OutsideTraits,
    PartRange,
    ReadPart,
    identity_of,
)
from viewkeeper.stores.outside.options import filled_in, require_known
from viewkeeper.stores.outside.said import said_of

PARTS = ("0", "1")
ROWS_AT_ONCE = 3
Row = dict[str, Any]


class FileStore:
    """The store as its writers see it: rows by their id, an INT."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "identity").write_text("first")
        for part in PARTS:
            (folder / part).touch()

    def put(self, row: Row) -> None:
        """Sets the named columns."""
        self._append(row["id"], {"op": "put", **row})

    def delete(self, id_: int) -> None:
        self._append(id_, {"op": "delete", "id": id_})

    def delete_columns(self, id_: int, *columns: str) -> None:
        self._append(id_, {"op": "delete_columns", "id": id_, "columns": columns})

    def junk(self) -> None:
        with (self.folder / "0").open("a") as file:
            file.write("junk\n")

    def _append(self, id_: int, entry: Row) -> None:
        with (self.folder / str(id_ % len(PARTS))).open("a") as file:
            file.write(json.dumps(entry) + "\n")

    @property
    def rows(self) -> dict[int, Row]:
        """What the log says."""
        found: dict[int, Row] = {}
        for part in PARTS:
            for line in (self.folder / part).read_text().splitlines():
                if line == "junk":
                    continue
                entry = json.loads(line)
                op, id_ = entry.pop("op"), entry["id"]
                if op == "delete":
                    found.pop(id_, None)
                elif op == "put":
                    found[id_] = {**found.get(id_, {}), **entry}
                elif id_ in found:
                    found[id_] = {**found[id_], **dict.fromkeys(entry["columns"])}
        return found


class FileTable(OutsideTable):
    """A table of it."""

    traits: ClassVar[OutsideTraits] = OutsideTraits("key", rows=True, writable=True, partial=True, keyless=False)
    between: ClassVar[Callable[[], None] | None] = None

    def __init__(self, table: Table, zone: str) -> None:
        super().__init__(table, zone)
        assert table.outside is not None
        self.folder = Path(filled_in(dict(table.outside.options))["folder"])

    @classmethod
    def check(cls, options: Mapping[str, str], keyless: bool) -> None:
        require_known("file", options, ("folder",), ("password",))

    def require_there(self) -> None:
        self._require_here()
        if (self.folder / "refused").exists():
            raise Error(said_of(self.table.id, self.table.name, "nobody may read it"))

    def _require_here(self) -> None:
        if (self.folder / "away").exists():
            raise StoreAway(said_of(self.table.id, self.table.name, "the folder does not answer"))

    def _lines(self, part: str) -> list[str]:
        self._require_here()
        return (self.folder / part).read_text().splitlines()

    def start(self) -> LogEnds:
        return self.ends()

    def ends(self) -> LogEnds:
        identity = identity_of((self.folder / "identity").read_text())
        return LogEnds({part: len(self._lines(part)) for part in PARTS}, dict.fromkeys(PARTS, identity))

    def read(self, range_: PartRange) -> ReadPart:
        cut = self.folder / "cut"
        if cut.exists() and range_.after < int(cut.read_text()):
            raise LogLost(said_of(self.table.id, self.table.name, "its log was cut off"))
        found = ReadPart()
        for sequence, line in enumerate(self._lines(range_.part)[range_.after : range_.upto], range_.after + 1):
            if line == "junk":
                found.bad.append(NoOperation(sequence, sequence, "it is junk", b"junk"))
                continue
            found.operations.append((self._operation(json.loads(line)), np.array([sequence]), np.array([sequence])))
        return found

    def _operation(self, entry: Row) -> Operations:
        op = entry.pop("op")
        if op == "put":
            return self.intake.rows([entry])
        if op == "delete":
            return self.intake.deletes([entry["id"]])
        return self.intake.column_deletes(entry["id"], entry["columns"])

    def rows(self, since: Mapping[str, int]) -> Iterator[Operations]:
        store = FileStore.__new__(FileStore)
        store.folder = self.folder
        ids = list(store.rows)
        for at in range(0, len(ids), ROWS_AT_ONCE):
            now = store.rows
            there = [now[id_] for id_ in ids[at : at + ROWS_AT_ONCE] if id_ in now]
            if there:
                yield self.intake.rows([{name: row.get(name) for name in self.names} for row in there])
            if FileTable.between is not None:
                FileTable.between()

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.table.columns]

    def write(self, operations: Operations) -> Mapping[str, int]:
        store = FileStore.__new__(FileStore)
        store.folder = self.folder
        rows = zip(*(column.to_pylist() for column in operations.columns), strict=True)
        for row in rows:
            if operations.kind == DELETE:
                store.delete(row[0])
            elif operations.kind != DELETE_COLUMNS:
                store.put(dict(zip(self.names, row, strict=True)))
        return self.ends().positions

    def forget(self, positions: Mapping[str, int]) -> None:
        (self.folder / "forgotten").write_text(json.dumps(dict(positions)))

    def close(self) -> None:
        """Nothing is held."""
