"""Pre-aggregated rows: made from the rows of a slice, put together, taken from one another.

No two rows of a block have the same group (and value).  They stand sorted by the hash of what tells them apart: that of
the group, or where values are kept that of group and value together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.evaluation import exact, exact_product
from viewkeeper.evaluation.exact_float import combine_windows
from viewkeeper.plans.window import COUNT, GREATEST, LEAST, ROWS, SQUARES, SUM, Layout, Slot
from viewkeeper.streams import extremes
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.windows.group_union import union
from viewkeeper.trace.grouping import Groups, group_sorted
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import numbers, plain, valid


def lift(
    layout: Layout, hashes: np.ndarray, keys: list[pa.Array], values: list[pa.Array], measures: Sequence[pa.Array]
) -> Block:  # fmt: skip
    """The pre-aggregates of rows: `keys` and `values` canonical (perhaps `numbered`), `measures` the arguments."""
    groups = _grouped(hashes, keys, values)
    firsts = pa.array(groups.firsts)
    columns = [plain(key.take(firsts)) for key in (*keys, *values)]
    order, starts = groups.order, groups.starts
    taken: dict[int, pa.Array] = {}
    for slot in layout.slots:
        if slot.kind == ROWS:
            columns.append(pa.array(groups.lengths))
            continue
        if slot.measure not in taken:
            taken[slot.measure] = _in_order(measures[slot.measure], order)
        columns += _lifted(slot, taken[slot.measure], groups.lengths, starts)
    return Block(columns, hashes[groups.firsts])


def _lifted(slot: Slot, values: pa.Array, lengths: np.ndarray, starts: np.ndarray) -> list[pa.Array]:
    if slot.kind == COUNT:
        present = valid(values)
        return [pa.array(lengths if present is None else _added(present, starts))]
    if slot.kind == SUM:
        return exact.lift_reduce(values, np.ones(len(values), np.int64), starts, slot.type)
    if slot.kind == SQUARES:
        return [exact_product.lift_reduce(values, values, np.ones(len(values), np.int64), starts)]
    return [extremes.of_segments(values, starts, slot.kind == LEAST)]


def reduce(layout: Layout, block: Block) -> Block:
    """One row for each group (and value) of pre-aggregated rows among which groups may stand several times."""
    keys, values = block.columns[: len(layout.keys)], block.columns[len(layout.keys) : layout.key]
    groups = _grouped(block.hashes, keys, values)
    firsts = pa.array(groups.firsts)
    columns = [key.take(firsts) for key in (*keys, *values)]
    at = layout.key
    for slot in layout.slots:
        width = len(slot.types)
        mine = [_in_order(column, groups.order) for column in block.columns[at : at + width]]
        columns += _reduced(slot, mine, groups.starts)
        at += width
    return Block(columns, block.hashes[groups.firsts])


def _reduced(slot: Slot, columns: list[pa.Array], starts: np.ndarray) -> list[pa.Array]:
    if slot.kind in (ROWS, COUNT):
        return [pa.array(_added(numbers(columns[0]), starts))]
    if slot.kind == SUM:
        return exact.reduce(columns, starts, slot.type)
    if slot.kind == SQUARES:
        return [exact_product.reduce(columns[0], starts)]
    return [extremes.of_segments(columns[0], starts, slot.kind == LEAST)]


def combine(layout: Layout, blocks: Sequence[Block], signs: Sequence[int] | None = None) -> Block:
    """Blocks (at least one) put together; with `signs` (1 or -1) some are taken away, and groups without rows go."""
    chosen = [(block, sign) for block, sign in zip(blocks, signs or [1] * len(blocks), strict=True) if len(block)]
    if len(chosen) <= 1 and (not chosen or chosen[0][1] == 1):
        return chosen[0][0] if chosen else blocks[0]
    some, sign = [block for block, _ in chosen], [sign for _, sign in chosen]
    joint = union([_words(layout, block) for block in some], [block.columns[: layout.key] for block in some])
    ordered = [block if order is None else block.take(order) for block, order in zip(some, joint.orders, strict=True)]
    length = len(joint.hashes)
    columns, at = list(joint.keys), layout.key
    for slot in layout.slots:
        width = len(slot.types)
        states = [block.columns[at : at + width] for block in ordered]
        columns += _combined(slot, states, joint.positions, sign, length)
        at += width
    hashes = joint.hashes
    if layout.values:
        hashes = np.empty(length, np.uint64)
        for block, position in zip(ordered, joint.positions, strict=True):
            hashes[position] = block.hashes
    result = Block(columns, hashes)
    return result if signs is None else result.filter(_rows(layout, result) > 0)


def _combined(
    slot: Slot, states: list[list[pa.Array]], positions: list[np.ndarray], signs: list[int], length: int
) -> list[pa.Array]:
    if slot.kind in (ROWS, COUNT):
        total = np.zeros(length, np.int64)
        for state, position, sign in zip(states, positions, signs, strict=True):
            values = numbers(state[0])
            if len(position) == length:
                total += values if sign == 1 else -values
            else:
                total[position] += values if sign == 1 else -values
        return [pa.array(total)]
    if slot.kind == SUM:
        return exact.combine(states, positions, signs, length, slot.type)
    if slot.kind == SQUARES:
        return [combine_windows([state[0] for state in states], positions, signs, length)]
    assert slot.kind in (LEAST, GREATEST)
    return [extremes.combine([state[0] for state in states], positions, length, slot.kind == LEAST)]


def align(key: int, block: Block, like: Block) -> Block:
    """The rows of `block` in the order of `like`, whose first `key` columns are the same groups."""
    if np.array_equal(block.hashes, like.hashes) and (block.hashes[1:] > block.hashes[:-1]).all():
        return block
    joint = union([like.hashes, block.hashes], [like.columns[:key], block.columns[:key]])
    if len(joint.hashes) != len(like) or len(block) != len(like):
        raise AssertionError("two helpers of one window do not hold the same groups")
    row = np.empty(len(like), np.int64)
    row[joint.positions[1]] = np.arange(len(block)) if joint.orders[1] is None else joint.orders[1]
    mine = joint.positions[0]
    wanted = np.empty(len(like), np.int64)
    wanted[np.arange(len(like)) if joint.orders[0] is None else joint.orders[0]] = row[mine]
    return block.take(wanted)


def _words(layout: Layout, block: Block) -> np.ndarray:
    if not layout.values:
        return block.hashes
    return hash_columns(block.columns[: layout.key], len(block))


def _rows(layout: Layout, block: Block) -> np.ndarray:
    assert layout.slots[0].kind == ROWS, "what is taken away needs to know when nothing is left"
    return numbers(block.columns[layout.key])


def _grouped(hashes: np.ndarray, keys: list[pa.Array], values: list[pa.Array]) -> Groups:
    """Rows by group (and value), in any order within one."""
    every = [*keys, *values]
    words = hash_columns(every, len(hashes)) if values else hashes
    falls = bool((words[1:] < words[:-1]).any())
    # The order within a group does not matter: NumPy's quick sort is several times quicker than a stable one.
    order = np.argsort(words) if falls else np.arange(len(words))
    return group_sorted(words, every, order)


def _in_order(column: pa.Array, order: np.ndarray) -> pa.Array:
    return column.take(pa.array(order))


def _added(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return np.add.reduceat(values, starts, dtype=np.int64) if len(starts) else np.zeros(0, np.int64)
