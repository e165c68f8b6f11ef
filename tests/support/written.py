"""A database whose view tables are written by hand, for tests of reading."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Catalog, Column, Index, StateSpec, Stored, View
from viewkeeper.catalog.types import INT, logical_type, to_physical
from viewkeeper.trace.file import ZoneFile
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.snapshot import Change


def physical(columns: Sequence[Column], rows: Sequence[tuple[Any, ...]], weights: Sequence[int]) -> Rows:
    """Rows of Python values (as users see them) in physical form."""
    arrays = [
        to_physical(pa.array([row[i] for row in rows], logical_type(column.type)), column.type)
        for i, column in enumerate(columns)
    ]
    return Rows(arrays, np.array(weights, dtype=np.int64))


def stored_as(kind: str, id_: int, columns: Sequence[Column], key: Sequence[int], member: int | None = None) -> Stored:
    """A state for rows of `columns`: the key's columns first, the others in reverse, so that no order is the same."""
    order = [*key, *reversed([i for i in range(len(columns)) if i not in key])]
    lead = () if member is None else (Column("member", INT, False),)
    held = lead + tuple(columns[i] for i in order)
    spec = StateSpec(id_, kind, held, len(lead) + len(key), member is not None)
    return Stored(spec, tuple(order.index(i) + len(lead) for i in range(len(columns))), member)


class Written:
    """Views without tables: `write` commits a version with some rows of one state."""

    def __init__(self, root: Path) -> None:
        self.storage = local_storage(root)
        self.snapshot = self.storage.initialise(Catalog())
        self.snapshot = self.storage.new_epoch(self.snapshot)
        self._catalog = Catalog()

    def declare(self, *items: View | Index) -> None:
        self._catalog = self._catalog.adding(*items)
        self._commit("catalog", catalog=self._catalog)

    def drop(self) -> None:
        """The next `declare` begins with an empty catalog."""
        self._catalog = Catalog()

    def write(self, *parts: tuple[StateSpec, Rows], positions: dict[int, int] | None = None) -> None:
        writer = ZoneFile.writer(self.storage.disk, f"{self.snapshot.version:08d}-{secrets.token_hex(4)}.zone")
        for spec, rows in parts:
            writer.add(spec, rows)
        receipt = writer.finish()
        version = self.snapshot.version + 1
        self._commit("batch", added=(receipt.at(version, version),), positions=positions)

    def rows_of(self, stored: Stored, columns: Sequence[Column], rows: Sequence[tuple[Any, ...]],
                weights: Sequence[int] | None = None) -> tuple[StateSpec, Rows]:  # fmt: skip
        """Rows in the view's own column order, as rows of its state."""
        lead = 0 if stored.member is None else 1
        whole = physical(columns, rows, [1] * len(rows) if weights is None else weights)
        held: list[pa.Array] = [pa.nulls(len(rows), pa.int32())] * len(stored.state.columns)
        for position, column in zip(stored.order, whole.columns, strict=True):
            held[position] = column
        if lead:
            held[0] = pa.array([stored.member] * len(rows), pa.int32())
        return stored.state, Rows(held, whole.weights)

    def _commit(self, kind: Any, **changes: Any) -> None:
        self.snapshot = self.storage.next(self.snapshot, Change(kind, self.snapshot.version + 1, **changes))
