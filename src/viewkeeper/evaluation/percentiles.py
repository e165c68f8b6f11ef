"""Percentiles of sorted values with their numbers, as Spark has them.

Among n values in order the one at (n - 1) * fraction; between two of them the lower one and that fraction of their
difference, which may be infinite.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import DOUBLE, Type
from viewkeeper.evaluation.casts import cast
from viewkeeper.evaluation.vectors import numbers, read, write


def percentile(
    values: pa.Array, type_: Type, counts: np.ndarray, starts: np.ndarray, fraction: float, *, discrete: bool = False
) -> pa.Array:  # fmt: skip
    """That of each group: its values, none of them NULL, are those from `starts[i]` to `starts[i + 1]`, in order, each
    `counts` times.  NULL of no values.  `discrete`: the first value that is not below that fraction of all."""
    ends = np.cumsum(counts)
    bounds = np.concatenate([[0], ends])[starts]
    total = np.diff(bounds)
    none = total == 0
    position = np.maximum(np.ceil(total * fraction) - 1, 0) if discrete else np.maximum(total - 1, 0) * fraction
    low, high = np.floor(position), np.ceil(position)
    if none.all():
        return pa.array(np.zeros(len(none)), mask=none)
    doubles = _doubles(values, type_)
    last = len(ends) - 1
    first = np.minimum(np.searchsorted(ends, bounds[:-1] + low.astype(np.int64) + 1), last)
    second = np.minimum(np.searchsorted(ends, bounds[:-1] + high.astype(np.int64) + 1), last)
    lower, upper = doubles[first], doubles[second]
    with np.errstate(invalid="ignore", over="ignore"):
        between = lower + (upper - lower) * (position - low)
    same = (first == second) | (lower == upper)  # two infinities have no difference
    return pa.array(np.where(same, lower, between), mask=none if none.any() else None)


def _doubles(column: pa.Array, type_: Type) -> np.ndarray:
    if type_ == DOUBLE:
        return numbers(column, DOUBLE)
    array, _ = write(cast(type_, DOUBLE, None)(read(column, type_), "UTC"), DOUBLE, len(column))
    return numbers(array, DOUBLE)
