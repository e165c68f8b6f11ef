"""Aggregates of all values of a group, as functions of all rows of a key (see `by_key`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import Type, array_of, physical_type
from viewkeeper.evaluation.percentiles import percentile
from viewkeeper.functions.nested_columns import listed_in, physical, within
from viewkeeper.functions.nested_order import sort_keys
from viewkeeper.maintenance.operators.keyed_rows import KeyAnswer, KeyedRows
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.key_functions import ValueCall, ValuesOfGroup
from viewkeeper.plans.value_functions import (
    EXTREMES_BY,
    fraction_of,
    is_descending,
    is_discrete,
    is_list,
    lists_once,
    separator_of,
)
from viewkeeper.trace.keys import canonical, numbers, order_code
from viewkeeper.trace.rows import Rows


def compute(function: ValuesOfGroup, sides: list[KeyedRows], operator: plan.ByKey, zone: str) -> KeyAnswer:
    """A row for each group: its keys, then the calls."""
    (side,) = sides
    nothing = Rows.empty([physical_type(column.type) for column in operator.columns])
    if not len(side):
        return KeyAnswer(nothing, nothing, None)
    _, firsts, group = np.unique(side.key, return_index=True, return_inverse=True)
    columns = [canonical(side.rows.columns[i].take(pa.array(firsts))) for i in function.keys]
    for call in function.calls:
        assert call.argument is not None
        values = canonical(side.rows.columns[call.argument])
        columns.append(value_of_groups(call, values, group, side.rows.weights, len(firsts)))
    return KeyAnswer(Rows(columns, np.ones(len(firsts), dtype=np.int64)), nothing, None)


def value_of_groups(call: ValueCall, values: pa.Array, group: np.ndarray, counts: np.ndarray, groups: int) -> pa.Array:
    """What `call` says of each group: `values` with their numbers `counts`, each of group `group`."""
    there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    codes = _codes(values, call.of)[there]
    if is_descending(call.function):
        codes = ~codes
    order = np.lexsort((codes, group[there]))
    rows, codes = there[order], codes[order]
    values, group, counts = values.take(pa.array(rows)), group[rows], counts[rows]
    starts = np.searchsorted(group, np.arange(groups + 1))
    if is_list(call.function):
        return physical(_lists(call, values, codes, group, counts, starts), array_of(call.of))
    separator = separator_of(call.function)
    if separator is not None:
        lists = _lists(call, values, codes, group, counts, starts)
        joined = pc.binary_join(lists, pa.scalar(separator, pa.large_string()))
        return pc.if_else(pa.array(starts[1:] > starts[:-1]), joined, None)
    if call.function in EXTREMES_BY:
        return _first_of_two(call, values, starts)
    fraction = fraction_of(call.function)
    if fraction is not None:
        return percentile(values, call.of, counts, starts, fraction, discrete=is_discrete(call.function))
    if call.function.startswith("mode"):
        return values.take(_most_frequent(codes, group, counts, groups))
    return _bits(call.function, numbers(values), counts, starts).cast(values.type)


def _first_of_two(call: ValueCall, values: pa.Array, starts: np.ndarray) -> pa.Array:
    """The second field of the least or the greatest of the sorted structs of each group; NULL of none."""
    at = starts[:-1] if call.function == "min_by" else starts[1:] - 1
    chosen = within(values.take(pa.array(at, mask=starts[:-1] == starts[1:])), call.of)
    return physical(chosen.flatten()[1], call.of.parts[1][1])


def _codes(values: pa.Array, type_: Type) -> np.ndarray:
    """uint64 in the order of the values."""
    if not type_.is_nested:
        return order_code(values)
    keys = sort_keys(within(values, type_), type_)
    order = np.lexsort(keys[::-1])
    changes = np.zeros(len(order), np.uint64)
    for key in keys:
        changes[1:] |= key[order][1:] != key[order][:-1]
    codes = np.empty(len(order), np.uint64)
    codes[order] = np.cumsum(changes)
    return codes


def _lists(
    call: ValueCall, values: pa.Array, codes: np.ndarray, group: np.ndarray, counts: np.ndarray, starts: np.ndarray
) -> pa.Array:  # fmt: skip
    """Arrow's arrays of the values of each group, each as often as it is there, or once."""
    if lists_once(call.function):
        counts = _first_of_equals(codes, group).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)])[starts]
    places = pa.array(np.repeat(np.arange(len(values)), counts))
    return listed_in(offsets, within(values, call.of).take(places))


def _first_of_equals(codes: np.ndarray, group: np.ndarray) -> np.ndarray:
    new = np.ones(len(codes), dtype=bool)
    new[1:] = (codes[1:] != codes[:-1]) | (group[1:] != group[:-1])
    return new


def _most_frequent(codes: np.ndarray, group: np.ndarray, counts: np.ndarray, groups: int) -> pa.Array:
    """Where the value stands that is there most often, the first of several; NULL for a group without one."""
    first = np.flatnonzero(_first_of_equals(codes, group))
    found = np.full(groups, -1)
    if len(first):
        often = np.add.reduceat(counts, first)
        best = np.lexsort((-first, often, group[first]))  # the last of each group is the one that stays
        found[group[first][best]] = first[best]
    return pa.array(found, mask=found < 0)


def _bits(function: str, values: np.ndarray, counts: np.ndarray, starts: np.ndarray) -> pa.Array:
    """All values of each group put together bit by bit; NULL of none."""
    none = starts[1:] == starts[:-1]
    found = np.zeros(len(none), dtype=np.int64)
    if len(values):
        wide = values.astype(np.int64)
        if function == "bit_xor":
            wide = np.where(counts % 2 == 1, wide, 0)
        found[~none] = _TOGETHER[function].reduceat(wide, starts[:-1][~none])
    return pa.array(found, mask=none)


_TOGETHER = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}
