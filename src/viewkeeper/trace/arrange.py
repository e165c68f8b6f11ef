"""In which order the rows of a run stand, and which rows survive when several runs become one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import StateSpec
from viewkeeper.trace import hashing
from viewkeeper.trace.grouping import Groups, group_rows, group_sorted, settled, stable_argsort
from viewkeeper.trace.keys import canonical, order_code
from viewkeeper.trace.ordering import OrderTerm, order_keys
from viewkeeper.trace.rows import Rows

PREFIX = np.uint64(0xFFFFFFFF00000000)
"""The part of a word that comes from the key, in a weighted state whose key is not all of its columns; in a keyed state
whose rows stand together, from what they agree in."""


def has_prefix(spec: StateSpec) -> bool:
    """Whether words of this state are (key's hash, row's hash), 32 bits each."""
    return spec.kind == "weighted" and spec.key < len(spec.columns) and not spec.order


def words_of(spec: StateSpec, columns: Sequence[pa.Array], length: int) -> np.ndarray:
    """uint64[length]: the sort words of rows with these (canonical) columns."""
    if spec.kind == "ordered":
        return hashing.hash_columns(columns[:-1], length)
    if spec.kind == "keyed":
        return key_words(columns[: spec.key], length, spec.together)
    words = hashing.hash_columns(columns[: spec.key], length)
    if has_prefix(spec):
        words = (words & PREFIX) | (hashing.hash_columns(columns, length) >> np.uint64(32))
    return words


def key_words(key: Sequence[pa.Array], length: int, together: int) -> np.ndarray:
    """uint64[length]: the words of rows of a keyed state with these (canonical) key columns."""
    words = hashing.hash_columns(key, length)
    if together:
        words = (hashing.hash_columns(key[:together], length) & PREFIX) | (words >> np.uint64(32))
    return words


def survivors(
    spec: StateSpec, words: np.ndarray, columns: Sequence[pa.Array], weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows stay, in the order of a run: (row numbers int64[m], their weights int64[m]).

    Keyed: the last row of each key (tombstones too).  Weighted and ordered: one of each set of equal rows, with the
    sum of their weights where that is not 0.  `columns` may lack those behind the key of a keyed state.
    """
    if spec.kind == "keyed":
        rows = group_rows(words, columns[: spec.key]).lasts
        return rows, weights[rows]
    if spec.kind == "weighted":
        groups = _in_order(spec, words, columns) if spec.order else group_rows(words, columns)
        order, starts = groups.order, groups.starts
    else:
        order, starts = _by_value(words, columns)
    sums = np.add.reduceat(weights[order], starts) if len(starts) else weights[order]
    kept = sums != 0
    return order[starts[kept]], sums[kept]


def _by_value(words: np.ndarray, columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """Ordered states: rows by word, group and value; and where a new (group, value) begins."""
    codes = order_code(columns[-1])
    order = stable_argsort(codes)
    groups = group_sorted(words, columns[:-1], order[stable_argsort(words[order])])
    ranked = codes[groups.order]
    new = np.ones(len(ranked), dtype=bool)
    np.not_equal(ranked[1:], ranked[:-1], out=new[1:])
    new[groups.starts] = True
    return groups.order, np.flatnonzero(new)


def _in_order(spec: StateSpec, words: np.ndarray, columns: Sequence[pa.Array]) -> Groups:
    """States with an order: rows by word, key, order and then all columns; and where other rows begin."""
    keys = order_keys([OrderTerm(columns[i], *how) for i, *how in spec.order])
    order = np.lexsort(keys[::-1])
    groups = group_sorted(words, columns[: spec.key], order[stable_argsort(words[order])])
    new = np.zeros(len(words), dtype=bool)
    new[groups.starts] = True
    for key in keys:
        ranked = key[groups.order]
        new[1:] |= ranked[1:] != ranked[:-1]
    return settled(groups.order, new, columns)


def arrange(spec: StateSpec, rows: Rows) -> tuple[np.ndarray, Rows]:
    """`rows` (keys in any form, any order) as a run holds them: (sort words, rows)."""
    if rows.words is not None:
        return rows.words, rows
    key = len(rows.columns) if spec.kind == "ordered" else spec.key
    columns = [canonical(column) if i < key else column for i, column in enumerate(rows.columns)]
    words = words_of(spec, columns, len(rows))
    index, weights = survivors(spec, words, columns, rows.weights)
    words = words[index]
    return words, Rows(take_all(columns, index), weights, words)


def take_all(columns: Sequence[pa.Array], index: np.ndarray) -> list[pa.Array]:
    """Each column's values at `index`; no copy where that is all of them in order."""
    if columns and len(index) == len(columns[0]) and (index == np.arange(len(index))).all():
        return list(columns)
    rows = pa.array(index)
    return [column.take(rows) for column in columns]
