"""Rows whose cells have timestamps, as operations of one timestamp each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.operation_kinds import PUT, UPDATE
from viewkeeper.catalog.outside_store import NEVER
from viewkeeper.changes.operations import Operations, TableForm


def stamped(
    form: TableForm, key: Sequence[pa.Array], values: Sequence[pa.Array], stamps: np.ndarray, made: np.ndarray | None
) -> Iterator[tuple[Operations, np.ndarray]]:
    """Operations that write n rows, and their timestamps (int64).

    `key` are physical columns in the order of the primary key, `values` those in the order of `form.values`; `stamps`
    (int64[n, len(values)]) are those of their cells, NEVER where there is none.  `made` (int64[n]) says when a row was
    inserted, NEVER where it was not; without it none was.  A row whose cells have one timestamp is one operation.
    """
    for operations, times, _ in stamped_places(form, key, values, stamps, made):
        yield operations, times


def stamped_places(
    form: TableForm, key: Sequence[pa.Array], values: Sequence[pa.Array], stamps: np.ndarray, made: np.ndarray | None
) -> Iterator[tuple[Operations, np.ndarray, np.ndarray]]:
    """`stamped`, and of each operation which of the n rows it writes (int64)."""
    assert not form.keyless and tuple(stamps.shape) == (len(key[0]), len(form.values))
    inserted = np.full(len(key[0]), NEVER) if made is None else made.astype(np.int64)
    columns: list[pa.Array] = [None] * len(form.types)
    for i, column in [*zip(form.key, key, strict=True), *zip(form.values, values, strict=True)]:
        columns[i] = column
    waiting = np.column_stack([inserted, stamps])
    while (left := np.flatnonzero((waiting > NEVER).any(axis=1))).size:
        times = waiting[left].max(axis=1)
        now = waiting[left] == times[:, None]
        waiting[left] = np.where(now, NEVER, waiting[left])
        for kind, which in ((PUT, now[:, 0]), (UPDATE, ~now[:, 0])):
            if which.any():
                yield _written(form, kind, columns, left[which], now[which, 1:]), times[which], left[which]


def _written(
    form: TableForm, kind: int, columns: Sequence[pa.Array], rows: np.ndarray, cells: np.ndarray
) -> Operations:
    named = np.zeros((len(rows), form.set_bytes * 8), np.uint8)
    named[:, list(form.key)] = 1
    named[:, list(form.values)] = cells
    index = pa.array(rows)
    return Operations(kind, [column.take(index) for column in columns], np.packbits(named, axis=1, bitorder="little"))
