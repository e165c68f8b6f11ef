"""Smallest and greatest values of groups in Spark's order (NaN greatest, NULL passed over), whole columns at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.trace.keys import canonical, number_type, numbers, order_code, valid


def of_segments(values: pa.Array, starts: np.ndarray, least: bool) -> pa.Array:
    """The extreme of each segment of `values`; segment i begins at `starts[i]` and is not empty."""
    if not len(starts):
        return values.slice(0, 0)
    if number_type(values.type) is None:
        group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
        return _by_code(values, group, len(starts), least)
    data, there = _filled(values, least)
    result = _better(data, least).reduceat(data, starts)
    missing = None if there is None else ~np.logical_or.reduceat(there, starts)
    return pa.array(result, values.type, mask=missing)


def combine(columns: Sequence[pa.Array], positions: Sequence[np.ndarray], length: int, least: bool) -> pa.Array:
    """The extreme at each of `length` positions; row i of `columns[k]` counts at `positions[k][i]` (at most one in each
    k)."""
    type_ = columns[0].type
    if number_type(type_) is None:
        return _by_code(pa.concat_arrays(list(columns)), np.concatenate(positions), length, least)
    dtype = number_type(type_)
    assert dtype is not None
    result = np.full(length, _worst(dtype, least), dtype)
    there: np.ndarray | None = np.zeros(length, np.bool_) if any(c.null_count for c in columns) else None
    better = _better(result, least)
    for column, position in zip(columns, positions, strict=True):
        data, present = _filled(column, least)
        if len(position) == length:  # then the positions are 0, 1, 2, ...
            better(result, data, out=result)
        else:
            result[position] = better(result[position], data)
        if there is not None:
            there[position] |= True if present is None else present
    return pa.array(result, type_, mask=None if there is None else ~there)


def _filled(values: pa.Array, least: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """The numbers, with what can never win in place of NULL; and where there is a value (None: everywhere)."""
    values = canonical(values)
    data, present = numbers(values), valid(values)
    if present is not None:
        data = np.where(present, data, _worst(data.dtype, least))
    return data, present


def _worst(dtype: np.dtype, least: bool) -> np.generic:
    if dtype.kind == "f":
        return dtype.type(np.nan if least else -np.inf)
    bounds = np.iinfo(dtype)
    return dtype.type(bounds.max if least else bounds.min)


def _better(data: np.ndarray, least: bool) -> np.ufunc:
    # NaN is the greatest of all: MAX takes it from wherever it is, MIN only where there is nothing else.
    if not least:
        return np.maximum
    return np.fmin if data.dtype.kind == "f" else np.minimum


def _by_code(values: pa.Array, group: np.ndarray, groups: int, least: bool) -> pa.Array:
    """Of each group (ids below `groups`, in any order) the extreme, NULL where there is none, by dense ranks."""
    row = np.full(groups, -1, np.int64)
    some = np.arange(len(values))
    if values.null_count:
        some = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    if len(some):
        codes = order_code(values)[some].astype(np.int64)
        order = np.argsort(-codes if least else codes, kind="stable")
        row[group[some[order]]] = some[order]  # from the worst to the best, so that the best stays
    return values.take(pa.array(row, mask=row < 0 if (row < 0).any() else None))
