"""The rows of groups in the order in which a pattern takes them: by its terms, then by all columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.trace.grouping import stable_argsort
from viewkeeper.trace.keys import order_code, valid

SortTerm = tuple[pa.Array, bool, bool]
"""A column to sort by: its values, whether ascending, whether NULL comes first."""


def every(columns: Sequence[pa.Array]) -> Iterator[SortTerm]:
    """All columns from left to right, so that rows which tie in that too are the same."""
    for column in columns:
        yield column, True, True
    for column in columns:  # 0.0 and -0.0 are equal, but not the same
        if pa.types.is_floating(column.type):
            yield column.view(pa.int64() if column.type == pa.float64() else pa.int32()), True, True


def in_order(order: np.ndarray, lengths: np.ndarray, terms: Iterable[SortTerm]) -> np.ndarray:
    """`order`, the rows of one group after another (`lengths` of each), with each group's rows sorted by `terms`; a
    term is looked at only where those before it tie."""
    tied = np.repeat(np.arange(len(lengths)), lengths)  # for each place the number of its run of ties
    places = np.flatnonzero(np.repeat(lengths > 1, lengths))
    order = order.copy() if len(places) else order
    for column, ascending, nulls_first in terms:
        if not len(places):
            break
        run = tied[places]
        codes = _codes(column.take(pa.array(order[places])), ascending, nulls_first)
        if not _is_sorted(run, codes):
            within = _sorted(run, codes)
            order[places] = order[places][within]
            codes = [code[within] for code in codes]
        new = np.zeros(len(places), np.bool_)
        for code in (run, *codes):
            new[1:] |= code[1:] != code[:-1]
        new[0] = True
        tied[places] = np.cumsum(new)
        places = places[~(new & np.append(new[1:], True))]
    return order


def _codes(column: pa.Array, ascending: bool, nulls_first: bool) -> list[np.ndarray]:
    """Columns of numbers whose order is that of the term."""
    code = order_code(column).astype(np.uint64, copy=False)
    if not ascending:
        code = ~code
    present = valid(column)
    if present is None:
        return [code]
    nulls = present if nulls_first else ~present
    return [nulls.astype(np.uint64), np.where(present, code, np.uint64(0))]


def _is_sorted(run: np.ndarray, codes: Sequence[np.ndarray]) -> bool:
    """Whether the rows of each run stand in the order of their codes: streams often come by time."""
    same = run[1:] == run[:-1]
    for code in codes:
        if (same & (code[1:] < code[:-1])).any():
            return False
        same &= code[1:] == code[:-1]
    return True


def _sorted(run: np.ndarray, codes: Sequence[np.ndarray]) -> np.ndarray:
    """The stable order of rows by their runs, which ascend, and then by their codes."""
    key, size = run.astype(np.uint64), int(run[-1]) + 1
    for code in codes:
        low = code.min()
        span = int(code.max()) - int(low) + 1
        size *= span
        if size >= 1 << 64:
            break
        key = key * np.uint64(span) + (code - low)
    else:
        return stable_argsort(key)  # one sort of one number, as for times within a part
    within = stable_argsort(codes[-1])
    for code in [*codes[-2::-1], run]:
        within = within[stable_argsort(code[within])]
    return within
