"""What patterns of both kinds have in common: the order of a group's rows, and aggregates over the rows of matches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from viewkeeper.catalog.types import BIGINT
from viewkeeper.evaluation import exact
from viewkeeper.streams.ordering import every, in_order
from viewkeeper.streams.segments import Segments

DOUBLES = st.sampled_from([None, -math.inf, -1.5, -0.0, 0.0, 2.0, math.nan])
ROWS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([None, "a", "b"]), DOUBLES), max_size=12)
LENGTHS = st.lists(st.integers(0, 4), max_size=8)


def rank(value: Any, ascending: bool, nulls_first: bool) -> tuple[Any, ...]:
    """A key for Python's sort: NaN greatest, 0.0 equal to -0.0."""
    if value is None:
        return (0 if nulls_first else 2,)
    code = float("inf" if value != value else value) if isinstance(value, float) else value
    if isinstance(value, str):
        code = ord(value)
    nan = isinstance(value, float) and value != value
    return (1, *((nan, code) if ascending else (not nan, -code)))


@settings(deadline=None, max_examples=examples(300))
@given(ROWS, st.lists(st.integers(0, 3), min_size=12, max_size=12), st.booleans(), st.booleans(), st.randoms())
def test_rows_of_a_group_are_in_the_order_of_the_terms_and_then_of_all_columns(
    rows: list[tuple[Any, ...]], groups: list[int], ascending: bool, nulls_first: bool, random: Any
) -> None:
    """Each group's rows are as Python sorts them, and the same however they came."""
    columns = [pa.array([row[0] for row in rows], pa.int64()), pa.array([row[1] for row in rows], pa.large_string()),
               pa.array([row[2] for row in rows], pa.float64())]  # fmt: skip
    places = sorted(range(len(rows)), key=lambda i: groups[i])
    lengths = np.array([groups[: len(rows)].count(g) for g in range(4)])
    shuffled = sorted(places, key=lambda i: (groups[i], random.random()))
    terms = [(columns[1], ascending, nulls_first), *every(columns)]

    def key(i: int) -> tuple[Any, ...]:
        negative = rows[i][2] is not None and math.copysign(1, rows[i][2]) > 0
        return (groups[i], rank(rows[i][1], ascending, nulls_first), rank(rows[i][0], True, True),
                rank(rows[i][1], True, True), rank(rows[i][2], True, True), negative)  # fmt: skip

    found = in_order(np.array(shuffled, np.int64), lengths, terms).tolist()
    assert [repr(rows[i]) for i in found] == [repr(rows[i]) for i in sorted(places, key=key)]


@settings(deadline=None, max_examples=examples(200))
@given(LENGTHS, st.data())
def test_aggregates_of_segments_are_those_of_their_values(lengths: list[int], data: st.DataObject) -> None:
    """Counts, sums, the least and the greatest of each; NULL where there is no value."""
    values = data.draw(st.lists(st.sampled_from([None, -7, 0, 1, 2**62]), min_size=sum(lengths), max_size=sum(lengths)))
    segments, column = Segments(np.array(lengths, np.int64)), pa.array(values, pa.int64())
    ends = np.cumsum([0, *lengths]).tolist()
    each = [[v for v in values[a:b] if v is not None] for a, b in zip(ends, ends[1:], strict=False)]
    assert segments.present(column).tolist() == [len(some) for some in each]
    least, greatest = (segments.everywhere(segments.extreme(column, x)).to_pylist() for x in (True, False))
    assert (least, greatest) == ([min(some, default=None) for some in each], [max(some, default=None) for some in each])
    filled = [some for some, length in zip(each, lengths, strict=True) if length]
    total, overflow = exact.total(segments.sums(column, BIGINT), BIGINT, BIGINT)
    over = np.zeros(len(filled), np.bool_) if overflow is None else overflow
    assert over.tolist() == [sum(some) >= 2**63 for some in filled]
    assert [v for v, wrong in zip(total.to_pylist(), over, strict=True) if not wrong] == [
        sum(some) for some in filled if sum(some) < 2**63
    ]
