"""What came of a part, as the Helper's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.streams.blocks import Block
from viewkeeper.streams.patterns.block_shapes import BEST, LIVE, HelperShape
from viewkeeper.streams.patterns.matches import BEGIN, GROUP, PARENT, Choice, Matches
from viewkeeper.streams.patterns.measures import Spans, measured
from viewkeeper.streams.patterns.sequences import Sequences
from viewkeeper.streams.patterns.simulation import LiveMatches
from viewkeeper.trace.grouping import spread


@dataclass(frozen=True)
class _Rows:
    """Matches to be written: `end` is the last row of each."""

    table: Matches
    state: np.ndarray
    role: np.ndarray
    end: np.ndarray

    def take(self, places: np.ndarray) -> _Rows:
        return _Rows(self.table[:, places], self.state[places], self.role[places], self.end[places])


def helper_block(
    choice: Choice, shape: HelperShape, rows: Sequences, old: Block, found: LiveMatches, zone: str
) -> Block:  # fmt: skip
    """The Helper's part, sorted by group; rows of no use in it are those of groups without any match."""
    plan = choice.machine.plan
    written = _with_answers(choice, rows, found, _live(choice, rows, found))
    if plan.previous:
        written = _with_all_groups(choice, rows, written)
    written = _sorted(written)
    group = written.table[GROUP]
    index = pa.array(group)
    columns = [key.take(index) for key in rows.keys]
    columns += [pa.array(written.role), pa.array(written.state), pa.array(_ages(written, BEGIN))]
    for v, _ in enumerate(shape.ages, 2):
        columns.append(pa.array(np.where(written.state >= v, _ages(written, BEGIN + v - 1), 0)))
    columns += [_slot(choice, k, written) for k in range(len(plan.slots))]
    last = pa.array(rows.first[group] + rows.length[group] - 1) if plan.previous else None
    columns += [rows.column(i).take(last) for i in plan.previous]
    for measure, places in zip(plan.measures, shape.measures, strict=True):
        spans = _spans(rows, old, shape, measure.variable, choice.machine.last, written)
        columns += measured(measure, rows, [old.columns[i] for i in places], spans, zone)
    return Block(columns, rows.hashes[group])


def _live(choice: Choice, rows: Sequences, found: LiveMatches) -> _Rows:
    """The partial matches, by group."""
    tables = [table for _, table in found.live] or [np.zeros((choice.height, 0), np.int64)]
    table = tables[0] if len(tables) == 1 else np.concatenate(tables, axis=1)
    state = np.concatenate([np.full(t.shape[1], s, np.int32) for s, t in found.live] or [np.zeros(0, np.int32)])
    group = table[GROUP]
    live = _Rows(table, state, np.full(len(state), LIVE, np.int8), rows.first[group] + rows.length[group] - 1)
    return live.take(np.argsort(group, kind="stable")) if (group[1:] < group[:-1]).any() else live


def _with_answers(choice: Choice, rows: Sequences, found: LiveMatches, live: _Rows) -> _Rows:
    """Marks the partial matches that are their group's answer, and adds the other answers."""
    groups = np.flatnonzero(found.best_end >= 0)
    if not len(groups):
        return live
    table, end = found.best[:, groups], found.best_end[groups]
    counts = np.bincount(live.table[GROUP], minlength=rows.groups)
    low = (np.cumsum(counts) - counts)[groups]
    counts = np.where(end == rows.first[groups] + rows.length[groups] - 1, counts[groups], 0)
    answer, match = np.repeat(np.arange(len(groups)), counts), spread(low, counts)
    same = live.state[match] == choice.machine.last
    for i in range(choice.height):
        same &= table[i, answer] == live.table[i, match]
    live.role[match[same]] |= BEST
    lone = np.ones(len(groups), np.bool_)
    lone[answer[same]] = False
    if not lone.any():
        return live
    count = int(np.count_nonzero(lone))
    state = np.concatenate([live.state, np.full(count, choice.machine.last, np.int32)])
    role = np.concatenate([live.role, np.full(count, BEST, np.int8)])
    return _Rows(np.concatenate([live.table, table[:, lone]], axis=1), state, role,
                 np.concatenate([live.end, end[lone]]))  # fmt: skip


def _with_all_groups(choice: Choice, rows: Sequences, written: _Rows) -> _Rows:
    """With a row for each group that has none: the next part asks for its values by PREV."""
    missing = np.setdiff1d(np.arange(rows.groups), written.table[GROUP])
    table = np.zeros((choice.height, len(missing)), np.int64)
    end = rows.first[missing] + rows.length[missing] - 1
    table[GROUP], table[PARENT], table[BEGIN] = missing, -1, end + 1
    return _Rows(
        np.concatenate([written.table, table], axis=1),
        np.concatenate([written.state, np.zeros(len(missing), np.int32)]),
        np.concatenate([written.role, np.zeros(len(missing), np.int8)]), np.concatenate([written.end, end]),
    )  # fmt: skip


def _sorted(written: _Rows) -> _Rows:
    group = written.table[GROUP]
    if (group[1:] > group[:-1]).all():
        return written
    order = np.lexsort([written.table[BEGIN], written.state, written.role, group])
    return written.take(order)


def _ages(written: _Rows, row: int) -> np.ndarray:
    return written.end + 1 - written.table[row]


def _slot(choice: Choice, k: int, written: _Rows) -> pa.Array:
    """What is remembered where it may still be asked for."""
    live = [k in slots for slots in choice.live]
    wanted = (written.role & LIVE != 0) & np.array(live)[written.state]
    places = np.flatnonzero(wanted)
    values = choice.crossing.slots(k, written.table[choice.remembered :, places])
    where = np.full(len(wanted), -1)
    where[places] = np.arange(len(places))
    return values.take(pa.array(where, mask=where < 0))


def _spans(
    rows: Sequences, old: Block, shape: HelperShape, variable: int, last: int, written: _Rows
) -> Spans:  # fmt: skip
    """The rows of this part of a variable (0: all) in each match, and the row of `old` with those before."""
    table, state = written.table, written.state
    first = rows.first[table[GROUP]]
    if variable == 0:
        return Spans(np.maximum(table[BEGIN], first), written.end + 1, table[PARENT])
    low = np.maximum(table[BEGIN + variable - 1], first)
    high = written.end + 1
    if variable < last:
        high = np.where(state > variable, np.maximum(table[BEGIN + variable], first), high)
    began = state >= variable
    parent = table[PARENT]
    if len(old):
        before = old.columns[shape.state].to_numpy()[np.maximum(parent, 0)] >= variable
        parent = np.where((parent >= 0) & before, parent, -1)
    return Spans(np.where(began, low, 0), np.where(began, high, 0), parent)


__all__: Sequence[str] = ["helper_block"]
