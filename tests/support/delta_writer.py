"""A Delta table as its writers see it: rows by their id, written with `deltalake`, and a model of them in Python."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

FEED = {"delta.enableChangeDataFeed": "true"}
SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.int32()), ("a", pa.int64()), ("note", pa.string())])
Row = dict[str, Any]


class DeltaWriter:
    """`rows` is the model: what the table holds."""

    def __init__(self, path: Path, partitioned_by: list[str] | None = None, configuration: Row | None = None) -> None:
        self.path, self.partitioned_by = path, partitioned_by
        self.configuration = FEED if configuration is None else configuration
        self.rows: dict[int, Row] = {}
        self.make()

    def make(self) -> None:
        DeltaTable.create(str(self.path), SCHEMA, partition_by=self.partitioned_by, configuration=self.configuration)

    def make_anew(self) -> None:
        shutil.rmtree(self.path)
        self.rows.clear()
        self.make()

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.path))

    def append(self, rows: list[Row]) -> None:
        """Rows whose keys are not there yet."""
        write_deltalake(str(self.path), _arrow(rows), mode="append")
        self.rows |= {row["id"]: row for row in rows}

    def merge(self, rows: list[Row], deleted: Iterable[int] = ()) -> None:
        """In one commit: puts `rows`, and deletes what is `deleted`."""
        gone = set(deleted) - {row["id"] for row in rows}
        source = _arrow([*rows, *({"id": id_, "g": None, "a": None, "note": None} for id_ in gone)])
        source = source.append_column("gone", pa.array([row in gone for row in source["id"].to_pylist()]))
        values = {name: f"s.{name}" for name in SCHEMA.names}
        (
            self.table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
            .when_matched_delete("s.gone")
            .when_matched_update(values, "not s.gone")
            .when_not_matched_insert(values, "not s.gone")
            .execute()
        )
        self.rows |= {row["id"]: row for row in rows}
        for id_ in gone:
            self.rows.pop(id_, None)

    def delete(self, id_: int) -> None:
        self.table.delete(f"id = {id_}")
        self.rows.pop(id_, None)

    def add_to(self, id_: int, number: int) -> None:
        self.table.update({"a": f"a + {number}"}, predicate=f"id = {id_}")
        if id_ in self.rows and (a := self.rows[id_]["a"]) is not None:
            self.rows[id_] = {**self.rows[id_], "a": a + number}

    def move(self, id_: int, to: int) -> None:
        """Gives a row another key, which no row has."""
        self.table.update({"id": f"cast({to} as bigint)"}, predicate=f"id = {id_}")
        if (row := self.rows.pop(id_, None)) is not None:
            self.rows[to] = {**row, "id": to}

    def overwrite(self, rows: list[Row]) -> None:
        """Puts `rows` in the place of all."""
        write_deltalake(str(self.path), _arrow(rows), mode="overwrite")
        self.rows = {row["id"]: row for row in rows}

    def change(self, chance: random.Random, steps: int, keys: int = 12) -> None:
        """Commits of all kinds."""
        for _ in range(steps):
            kind, id_ = chance.random(), chance.randrange(keys)
            if kind < 0.4:
                put = [self._drawn(chance, i) for i in chance.sample(range(keys), chance.randrange(1, 5))]
                self.merge(put, chance.sample(range(keys), 2))
            elif kind < 0.55:
                self.delete(id_)
            elif kind < 0.7:
                new = [i for i in range(keys) if i not in self.rows][:3]
                self.append([self._drawn(chance, i) for i in new] or [self._drawn(chance, max(self.rows) + 1)])
            elif kind < 0.8:
                self.add_to(id_, 5)
            elif kind < 0.86:
                self.move(id_, max([*self.rows, keys]) + 1)
            elif kind < 0.92:
                self.overwrite([self._drawn(chance, i) for i in chance.sample(range(keys), keys // 2)])
            else:
                self.table.optimize.compact()

    def _drawn(self, chance: random.Random, id_: int) -> Row:
        # In a partition's column an empty text is NULL, as Delta's protocol has it, and its writers do not agree.
        notes = ["x", "y z%/", None] if "note" in (self.partitioned_by or ()) else ["x", "y z%/", "", None]
        return {"id": id_, "g": chance.choice([None, 1, 2]), "a": chance.choice([None, 1, 2, 9]),
                "note": chance.choice(notes)}  # fmt: skip


def _arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)
