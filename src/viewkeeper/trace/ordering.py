"""Spark's order of values, vectorised: for ORDER BY, for scans in key order and their bounds.

Ascending: NULL, then the values, NaN the greatest; strings and binary by their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from viewkeeper.trace.keys import order_code


class OrderTerm(NamedTuple):
    """One column of an order."""

    column: pa.Array
    ascending: bool = True
    nulls_first: bool = True


def sort_indices(terms: Sequence[OrderTerm]) -> np.ndarray:
    """The order (int64) of the rows by `terms`, at least one, the first being the most significant; it is stable."""
    return np.lexsort(order_keys(terms)[::-1])


def order_keys(terms: Sequence[OrderTerm]) -> list[np.ndarray]:
    """Numbers whose order is that of the rows, the most significant first; equal where `terms` find rows equal."""
    keys: list[np.ndarray] = []
    for term in terms:
        present, code = _comparable(term.column)
        if term.column.null_count:
            keys.append(present if term.nulls_first else ~present)
        keys.append(code if term.ascending else ~code)
    return keys


def before(columns: Sequence[pa.Array], bound: Sequence[object]) -> np.ndarray:
    """For each row: is it less than `bound`, physical values for the first len(bound) columns, in ascending order."""
    length = len(columns[0])
    less, equal = np.zeros(length, dtype=bool), np.ones(length, dtype=bool)
    for column, value in zip(columns, bound, strict=False):
        # The codes of strings mean something within one array only, so the bound joins the column.
        present, code = _comparable(pa.concat_arrays([column, pa.array([value], column.type)]))
        for part in (present, code):
            less |= equal & (part[:-1] < part[-1])
            equal &= part[:-1] == part[-1]
    return less


def _comparable(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Is there a value (bool), and its order (uint64; 0 for NULL)."""
    present = column.is_valid().to_numpy(zero_copy_only=False)
    return present, np.where(present, order_code(column), np.uint64(0))
