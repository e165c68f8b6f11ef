"""Exact running sums: SUM and AVG whatever the order, the batches, and the rows that have gone again.

A sum's state is a few columns (`sum_columns`), canonical: equal sums have equal bits.  Integers and decimals are kept
wider than their type (exact_integer.py), floats as the exact sum of all finite values beside counts of the others
(exact_float.py).  A batch's rows are lifted to states and reduced by group (`lift_reduce` does both at once), then
added to the stored ones; `total` and `average` read SUM and AVG off a state.  Weights are below 2**31 in size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import Type
from viewkeeper.evaluation import exact_float, exact_integer

Overflow = np.ndarray | None  # where the value does not fit its type (and is NULL); None: nowhere


def lift(values: pa.Array, weights: np.ndarray, type_: Type) -> list[pa.Array]:
    """The state of `weight * value` for each row; NULL gives that of zero."""
    return (exact_float if type_.is_float else exact_integer).lift(values, weights, type_)


def reduce(columns: list[pa.Array], starts: np.ndarray, type_: Type) -> list[pa.Array]:
    """The sums of states that lie sorted by group; group i begins at `starts[i]` and is not empty."""
    return (exact_float if type_.is_float else exact_integer).reduce(columns, starts)


def lift_reduce(values: pa.Array, weights: np.ndarray, starts: np.ndarray, type_: Type) -> list[pa.Array]:
    """`reduce(lift(values, weights))`, several times quicker."""
    return (exact_float if type_.is_float else exact_integer).lift_reduce(values, weights, starts, type_)


def over_frames(values: pa.Array, low: np.ndarray, high: np.ndarray, type_: Type) -> list[pa.Array]:
    """The states of the sums of values[low[i]:high[i]], each frame being low[i] <= high[i]; NULL counts as zero.

    They are differences of running sums, which loses nothing, since these are exact, and count what is no number.
    """
    return (exact_float if type_.is_float else exact_integer).over_frames(values, low, high, type_)


def add(a: list[pa.Array], b: list[pa.Array], type_: Type) -> list[pa.Array]:
    """Row by row the sum of two states; NULL (a group that was not there) counts as zero."""
    return (exact_float if type_.is_float else exact_integer).add(a, b)


def combine(
    states: Sequence[list[pa.Array]], positions: Sequence[np.ndarray], signs: Sequence[int], length: int, type_: Type
) -> list[pa.Array]:
    """`length` sums of whole columns of states: row i of `states[k]` counts `signs[k]` times (1 or -1) in the sum at
    `positions[k][i]`.  Positions ascend, each at most once in one k."""
    return (exact_float if type_.is_float else exact_integer).combine(states, positions, signs, length)


def total(columns: list[pa.Array], type_: Type, result: Type) -> tuple[pa.Array, Overflow]:
    """SUM as `result` (DOUBLE for floats), physical; for floats the correctly rounded sum, never -0.0."""
    if type_.is_float:
        return pa.array(exact_float.total(columns)), None
    return exact_integer.total(columns, result)


def average(columns: list[pa.Array], counts: np.ndarray, type_: Type, result: Type) -> tuple[pa.Array, Overflow]:
    """AVG as `result` (DOUBLE for integers), physical, of `counts` values (NULLs apart); NULL where there are none."""
    if type_.is_float:
        return exact_float.average(columns, counts), None
    if type_.is_interval:
        return exact_integer.average_interval(columns, counts, result)
    if type_.is_decimal:
        return exact_integer.average_decimal(columns, counts, type_, result)
    return exact_integer.average_double(columns, counts), None
