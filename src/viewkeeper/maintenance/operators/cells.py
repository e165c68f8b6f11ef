"""DELTA of tables whose cells have timestamps: the last write wins, of each cell by itself (paper 002's replicas).

A store that keeps a timestamp with each cell (Cassandra, HBase) takes writes in any order, any number of times, and
always ends at the same rows: of a cell the value with the greatest timestamp; none, where a deletion of the cell, the
row or a range of keys has the same timestamp or a greater one.  So does this: what it has seen is kept beside the rows,
of rows that are gone, too, or a write that comes late (a hint, a repair, another node's log) would revive them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.operation_kinds import DELETE, DELETE_COLUMNS, PUT
from viewkeeper.catalog.outside_store import LAST, NEVER
from viewkeeper.catalog.types import Type, physical_type
from viewkeeper.maintenance.operators.folded import Folded, KeyOperations, is_null, state_order
from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.keys import equal_rows, order_code
from viewkeeper.trace.rows import Rows


@dataclass
class _Cell:
    """Of each key one column: what it holds, and since when; NEVER where it holds nothing that counts."""

    stamps: np.ndarray
    values: pa.Array


def fold(
    operator: plan.Delta, operations: KeyOperations, keys: list[pa.Array], old: list[pa.Array], task: Task
) -> Folded:
    """The rows after the batch; what was seen of cells is written to the state beside them.

    `keys` are those of `operations.groups`, `old` the columns of their rows behind the key, in state order.
    """
    cells = operator.cells
    assert cells is not None
    hashes = operations.hashes[operations.groups.firsts]
    width, count = len(keys), len(hashes)
    seen, had = task.context.trace(cells.stamps).lookup(
        hashes, keys, columns=range(width, len(cells.stamps.columns))
    )  # fmt: skip
    before = [np.where(seen, column.fill_null(NEVER).to_numpy(), NEVER) for column in had]
    kind, stamps = operations.kind, operations.column(4).to_numpy()[operations.groups.order]
    deleted = np.maximum(before[0], _newest(operations, stamps, kind == DELETE))
    live = np.maximum(before[1], _newest(operations, stamps, kind == PUT))
    live[live <= deleted] = NEVER
    there, after, columns = live > NEVER, [deleted, live], []
    for i, was, value in zip(state_order(operator), before[2:], old, strict=True):
        cell = _merged(operator, i, operations, stamps, _Cell(was, value))
        dead = cell.stamps <= deleted
        cell.stamps[dead] = NEVER
        after.append(cell.stamps)
        columns.append(_without(cell.values, dead))
        there |= ~is_null(columns[-1])
    changed = ~seen | np.any([then != now for then, now in zip(before, after, strict=True)], axis=0)
    rows = Rows([*keys, *map(pa.array, after)], np.ones(count, np.int64)).take(index := np.flatnonzero(changed))
    task.write(cells.stamps, Rows(rows.columns, rows.weights, hashes[index]))
    return Folded(there, [_without(column, ~there) for column in columns])


def _newest(operations: KeyOperations, stamps: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Of each key the greatest of `stamps`, in the order of the groups, where `which` says so; else NEVER."""
    return np.maximum.reduceat(np.where(which, stamps, NEVER), operations.groups.starts)


def _merged(operator: plan.Delta, i: int, operations: KeyOperations, stamps: np.ndarray, was: _Cell) -> _Cell:
    """Column `i` after the batch, deletions of rows left out of account."""
    assert operator.cells is not None
    groups, type_ = operations.groups, physical_type(operator.columns[i].type)
    values = operations.values(i, type_)
    names = operations.named(i) & (operations.kind != DELETE)
    newest = _newest(operations, stamps, names)
    at = names & (stamps == np.repeat(newest, groups.lengths))
    empty = (operations.kind == DELETE_COLUMNS) | is_null(values)[groups.order]
    # A deletion wins over a value of the same time.
    deletes = np.logical_or.reduceat(at & empty, groups.starts)
    chosen = operations.last(at)
    if operator.cells.ties != LAST:
        chosen = _greatest(operations, values, operator.columns[i].type, at & ~empty, chosen)
    has = chosen >= 0
    rows = groups.order[chosen]  # of keys whose column nobody names: any
    same = has & (newest == was.stamps)
    keeps = ~has | (newest < was.stamps) | (same & ~deletes & is_null(was.values))
    if operator.cells.ties != LAST:
        tied = np.flatnonzero(same & ~deletes & ~keeps)
        new, kept = values.take(pa.array(rows[tied])), was.values.take(pa.array(tied))
        equal = equal_rows([new], [kept])
        as_bytes = _as_stored(operator.columns[i].type)
        for each in np.flatnonzero(~equal).tolist():
            keeps[tied[each]] = as_bytes(new[each].as_py()) < as_bytes(kept[each].as_py())
    places = np.where(keeps, len(values) + np.arange(len(keeps)), rows)
    column = pa.concat_arrays([values, was.values]).take(pa.array(places))
    return _Cell(np.where(keeps, was.stamps, newest), _without(column, ~keeps & deletes))


def _greatest(
    operations: KeyOperations, values: pa.Array, type_: Type, at: np.ndarray, chosen: np.ndarray
) -> np.ndarray:  # fmt: skip
    """`chosen`, but of keys where several operations `at` have different values of one time the one that has the
    greatest."""
    groups = operations.groups
    if not (np.add.reduceat(at.astype(np.int64), groups.starts) > 1).any():
        return chosen
    codes = order_code(values)[groups.order].astype(np.uint64)
    most = np.maximum.reduceat(np.where(at, codes, 0), groups.starts)
    least = np.minimum.reduceat(np.where(at, codes, np.uint64(2**64 - 1)), groups.starts)
    chosen, as_bytes = chosen.copy(), _as_stored(type_)
    # Replicas' copies are equal; what is left are writers that met in one microsecond.
    for key in np.flatnonzero((most != least) & (chosen >= 0) & at[chosen]).tolist():
        places = groups.starts[key] + np.flatnonzero(at[groups.starts[key] :][: groups.lengths[key]])
        chosen[key] = max(places.tolist(), key=lambda place: as_bytes(values[groups.order[place]].as_py()))
    return chosen


def _as_stored(type_: Type) -> Callable[[Any], bytes]:
    """How the store holds a physical value of `type_`: the greater of two is the one whose bytes are."""
    if type_.name in _FORMATS:
        return struct.Struct(_FORMATS[type_.name]).pack
    if type_.name == "DATE":
        return lambda days: struct.pack(">I", days + 2**31)
    if type_.is_decimal:
        return lambda value: _least_bytes(int(value if isinstance(value, int) else value.scaleb(type_.scale)))
    return lambda value: value.encode() if isinstance(value, str) else value


_FORMATS = {"BOOLEAN": ">b", "TINYINT": ">b", "SMALLINT": ">h", "INT": ">i", "BIGINT": ">q", "TIMESTAMP": ">q",
            "TIMESTAMP_NTZ": ">q", "FLOAT": ">f", "DOUBLE": ">d"}  # fmt: skip


def _least_bytes(value: int) -> bytes:
    """As few bytes as hold `value` in two's complement, the first one the greatest."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


def _without(column: pa.Array, gone: np.ndarray) -> pa.Array:
    """`column` with NULL where `gone`."""
    if not gone.any():
        return column
    return column.take(pa.array(np.arange(len(column)), mask=gone))
