"""DELTA: operations on base rows to old rows (-1) and new rows (+1) (paper 000, section 5).

A log holds only puts and deletes; the old row is read from the state.  Within a key the operations are folded in the
order of their sequence, for all keys at once: what decides is always the last operation of some kind in the key's run,
so that maxima over positions replace a loop.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.operation_kinds import DELETE, DELETE_COLUMNS, PUT
from viewkeeper.catalog.types import physical_type
from viewkeeper.maintenance.operators import cells, key_ranges
from viewkeeper.maintenance.operators.folded import Folded, KeyOperations, is_null, state_order
from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.keys import canonical, equal_rows
from viewkeeper.trace.rows import Rows


def run(operator: plan.Delta, task: Task) -> None:
    """Folds the operations of the batch, writes the rows that changed, and yields old and new rows."""
    given = task.inbox.get(f"delta:{operator.table}")
    if given:
        task.streams[operator.id] = Rows.concat([s.rows for s in given])
        return
    sent = task.inbox.get(f"ops:{operator.table}")
    if not sent:
        return
    table = task.program.table(operator.table)
    rows = Rows.concat([s.rows for s in sent])
    hashes = np.concatenate([s.hashes for s in sent])
    task.context.count("operations", len(rows))
    if operator.cells is not None and operator.cells.ranges is not None:
        rows, hashes = key_ranges.with_deletions(operator, rows, hashes, task)
    if not len(rows):
        return
    operations = _in_order(operator, rows, hashes, table.given, by_time=table.outside is not None)
    groups = operations.groups
    firsts = groups.firsts
    index = pa.array(firsts)
    types = [physical_type(column.type) for column in operator.columns]
    keys = [canonical(operations.values(i, types[i])).take(index) for i in operator.key]
    behind = range(len(keys), len(operator.state.columns))
    found, old = task.context.trace(operator.state).lookup(operations.hashes[firsts], keys, columns=list(behind))
    if operator.cells is not None:
        outcome = cells.fold(operator, operations, keys, old, task)
    else:
        outcome = _fold(operator, operations, found, old, task)
    same = equal_rows(outcome.columns, old) if old else np.ones(len(found), dtype=bool)
    changed = (found != outcome.live) | (found & outcome.live & ~same)
    _write(operator, keys, operations.hashes[firsts], outcome, changed, task)
    task.streams[operator.id] = _signed(operator, keys, old, outcome, changed & found, changed & outcome.live)


def _in_order(
    operator: plan.Delta, rows: Rows, hashes: np.ndarray, given: tuple[int | None, ...], by_time: bool
) -> KeyOperations:  # fmt: skip
    """`by_time`: a key may live in several parts of a log, of a topic that has got more partitions, say.  Then their
    stamps, which do not fall along a part, say what came first; within a part it is the sequence."""
    nodes, sequences, stamps = (column.to_numpy() for column in rows.columns[-3:])
    if by_time:
        order = np.lexsort((sequences, nodes, stamps))
        rows, hashes = rows.take(order), hashes[order]
    elif (np.diff(sequences) < 0).any():
        # A key lives on one node, so the order among nodes does not matter.
        order = np.argsort(sequences, kind="stable")
        rows, hashes = rows.take(order), hashes[order]
    keys = [canonical(rows.columns[at]) for i in operator.key if (at := given[i]) is not None]
    return KeyOperations(rows, hashes, group_rows(hashes, keys), given)


def _fold(
    operator: plan.Delta, operations: KeyOperations, found: np.ndarray, old: list[pa.Array], task: Task
) -> Folded:
    order, starts = operations.groups.order, operations.groups.starts
    others = state_order(operator)
    types = {i: physical_type(operator.columns[i].type) for i in others}
    kind = operations.kind
    named = {i: operations.named(i) for i in others}
    whole = np.ones(len(kind), dtype=bool)
    for i, mask in named.items():
        if operations.given[i] is not None:
            whole &= mask
    if ((kind == DELETE) | ((kind == PUT) & whole)).all():
        live = kind[starts + operations.groups.lengths - 1] == PUT
        index = pa.array(operations.groups.lasts, mask=~live)
        return Folded(live, [operations.values(i, types[i]).take(index) for i in others])
    put = (kind == PUT) & ~_rejected(operator, operations, found, task)
    last_delete = operations.last(kind == DELETE)
    live = (operations.last(put) > last_delete) | ((last_delete < 0) & found)
    # The put that makes the row where it is a new one: before it, what deletes columns does nothing.
    is_new = (last_delete >= 0) | ~found
    making = np.where(is_new & live, operations.next(put, last_delete), -1)
    columns = []
    for i, before in zip(others, old, strict=True):
        touched = operations.last((put | (kind == DELETE_COLUMNS)) & named[i])
        # Position in (operations, old rows): the last operation that names the column, else what the put that makes the
        # row has for it, else the old value.
        rest = np.where(is_new, order[making], len(order) + np.arange(len(starts)))
        place = np.where(touched >= np.maximum(making, 0), order[touched], rest)
        both = pa.concat_arrays([operations.values(i, types[i]), before])
        columns.append(both.take(pa.array(place, mask=~live)))
    return Folded(live, columns)


def _rejected(operator: plan.Delta, operations: KeyOperations, found: np.ndarray, task: Task) -> np.ndarray:
    """Puts that would leave a NOT NULL column unset: of a row that is not there at that moment."""
    kind, groups = operations.kind, operations.groups
    complete = np.ones(len(kind), dtype=bool)
    unset = {i: is_null(operations.values(i, physical_type(operator.columns[i].type)))[groups.order]
             for i in operator.required}  # fmt: skip
    for missing in unset.values():
        complete &= ~missing
    complete &= kind == PUT
    decides = complete | (kind == DELETE)
    group = np.repeat(np.arange(len(groups.starts)), groups.lengths)
    # The last deciding operation strictly before each one; those of earlier keys do not count.
    latest = np.maximum.accumulate(np.where(decides, np.arange(len(kind)), -1))
    before = np.concatenate([[-1], latest[:-1]])
    before = np.where(before >= groups.starts[group], before, -1)
    exists = np.where(before >= 0, kind[before] == PUT, found[group])
    rejected = (kind == PUT) & ~complete & ~exists
    if rejected.any():
        wrong = np.flatnonzero(rejected)
        names = [[operator.columns[i].name for i in operator.required if unset[i][w]] for w in wrong]
        reasons = [
            f"put of a row that does not exist leaves {', '.join(each)} unset, which is NOT NULL" for each in names
        ]
        task.context.reject(
            task.program.table(operator.table), operations.rows.take(groups.order[wrong]), reasons
        )  # fmt: skip
    return rejected


def _write(
    operator: plan.Delta, keys: list[pa.Array], hashes: np.ndarray, outcome: Folded, changed: np.ndarray, task: Task
) -> None:
    index = np.flatnonzero(changed)
    rows = Rows([*keys, *outcome.columns], outcome.live.astype(np.int64)).take(index)
    task.write(operator.state, Rows(rows.columns, rows.weights, hashes[index]))


def _signed(
    operator: plan.Delta, keys: list[pa.Array], old: list[pa.Array], new: Folded, gone: np.ndarray, came: np.ndarray
) -> Rows:
    """Old rows with -1, then new rows with +1, in declared column order."""
    gone_index, came_index = pa.array(np.flatnonzero(gone)), pa.array(np.flatnonzero(came))
    columns: list[pa.Array] = [None] * len(operator.columns)
    for i, key in zip(operator.key, keys, strict=True):
        columns[i] = pa.concat_arrays([key.take(gone_index), key.take(came_index)])
    for i, before, after in zip(state_order(operator), old, new.columns, strict=True):
        columns[i] = pa.concat_arrays([before.take(gone_index), after.take(came_index)])
    weights = np.ones(len(gone_index) + len(came_index), dtype=np.int64)
    weights[: len(gone_index)] = -1
    return Rows(columns, weights)
