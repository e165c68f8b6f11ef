"""A base table that follows a Spark streaming DataFrame: each micro-batch is one atomic step, done once.

Within a micro-batch only what becomes of each key counts: it is deleted, if any of its rows deletes it, and put, if the
last one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.model import Table
from viewkeeper.catalog.operation_kinds import DELETE
from viewkeeper.changes.operations import Operations, TableForm
from viewkeeper.changes.positions import Token
from viewkeeper.errors import InputError, NotFound, NotSupported, RowError
from viewkeeper.pipeline.dropped import FOLLOWS
from viewkeeper.stores.contract import Numbered, Store
from viewkeeper.stores.intake import TableIntake
from viewkeeper.streams.spark.follow import FollowTarget
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.views.layout_of_now import with_layout_of_now
from viewkeeper.views.version_sources import Newest

PUTS, DELETES = ("put", "c", "u", "r"), ("delete", "d")
"""What the operation column may hold: our words, or Debezium's letters."""


@dataclass(frozen=True)
class TakenBatch:
    """What a micro-batch did: how many rows it put and keys it deleted.  A `duplicate` had been done before, and did
    nothing again.  `token` is for `get(..., after=token)`."""

    puts: int
    deletes: int
    duplicate: bool
    token: Token


class TableFollow(FollowTarget):
    """The base table `table` of the database in `root`; `op` is the DataFrame's column that says what each row does,
    None: all are put."""

    done = "put_many it"

    def __init__(self, root: Path, newest: Newest, store: Store, table: Table, op: str | None) -> None:
        super().__init__(root / FOLLOWS / str(table.id))
        self.what = f"table {table.name}"
        self._newest, self._store, self._id, self._name, self._op = newest, store, table.id, table.name, op
        if table.outside is not None:
            raise NotSupported(f"{table.name} is in an outside store: let what streams write there")

    def require_columns(self, names: Sequence[str]) -> None:
        table = self._table()
        others = [name for name in names if self._op is None or name.lower() != self._op.lower()]
        if self._op is not None:
            if len(others) == len(names):
                raise InputError(f"{table.name}: op={self._op!r}: the DataFrame has no such column; it has "
                                 f"{', '.join(names)}")  # fmt: skip
            if not table.key:
                raise InputError(f"{table.name} has no primary key: rows are only added, without op=")
        self._intake(table).named(others)

    def require_there(self) -> None:
        self._table()

    def take(self, frame: Any, step: Numbered) -> TakenBatch:
        rows = frame.toArrow()
        return with_layout_of_now(lambda: self._taken(rows, step))

    def _taken(self, rows: pa.Table, step: Numbered) -> TakenBatch:
        table = self._table()
        intake = self._intake(table)
        op = next((name for name in rows.column_names if self._op and name.lower() == self._op.lower()), None)
        if op is None:
            operations, puts, deletes = [intake.rows(rows)], np.arange(rows.num_rows), 0
        else:
            is_put = self._is_put(rows[op].combine_chunks())
            operations, puts = _last(intake, rows.drop_columns([op]), is_put)
            deletes = len(operations[0])
        try:
            token = self._store.do_step(table, operations, step)
        except RowError as error:
            raise error.at(f"row {puts[error.row]} of the micro-batch") from None
        return TakenBatch(0, 0, True, Token()) if token is None else TakenBatch(len(puts), deletes, False, token)

    def _is_put(self, ops: pa.Array) -> np.ndarray:
        """bool[n]: whether each row is put, else deleted."""
        if not pa.types.is_string(ops.type) and not pa.types.is_large_string(ops.type):
            raise InputError(f"{self._name}: {self._op} is of type {ops.type}; it is a text")
        is_put, is_delete = (
            pc.is_in(ops, pa.array(words, ops.type)).to_numpy(zero_copy_only=False) for words in (PUTS, DELETES)
        )
        wrong = np.flatnonzero(~is_put & ~is_delete)
        if len(wrong):
            found, known = ops[int(wrong[0])].as_py(), ", ".join((*PUTS, *DELETES))
            raise InputError(f"{self._name}: row {wrong[0]} of the micro-batch: {self._op} is {found!r}; expected one "
                             f"of {known}")  # fmt: skip
        return is_put

    def _table(self) -> Table:
        found = self._newest.version().catalog.by_id(self._id)
        if not isinstance(found, Table):
            raise NotFound(f"the table {self._name!r} does not exist any more")
        return found

    def _intake(self, table: Table) -> TableIntake:
        zone = self._newest.version().catalog.zone
        return TableIntake(TableForm(table, zone), zone)


def _last(intake: TableIntake, rows: pa.Table, is_put: np.ndarray) -> tuple[list[Operations], np.ndarray]:
    """Deletes and puts that do what `rows` do one after another, and which of `rows` are put."""
    if not rows.num_rows:
        return [intake.rows(rows)], np.arange(0)
    keys = intake.keys(rows)
    groups = group_rows(hash_columns(keys, rows.num_rows), keys)
    deleted = np.minimum.reduceat(is_put[groups.order], groups.starts) == 0
    puts = np.sort(groups.lasts[is_put[groups.lasts]])
    gone = pa.array(groups.firsts[deleted])
    try:
        put = intake.rows(rows.take(pa.array(puts)))
    except RowError as error:
        raise error.at(f"row {puts[error.row]} of the micro-batch") from None
    return [Operations(DELETE, [key.take(gone) for key in keys]), put], puts
