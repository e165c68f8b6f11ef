"""Rows are sorted and bounded in Spark's order of values."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from viewkeeper.trace.ordering import OrderTerm, before, sort_indices

KINDS = {
    pa.int64(): st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
    pa.int8(): st.integers(-128, 127),
    pa.float64(): st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.5]),
    pa.large_string(): st.text("ab€😀", max_size=2),
    pa.large_binary(): st.binary(max_size=2),
    pa.decimal128(38, 2): st.integers(-9, 9).map(lambda n: Decimal(n) / 4).map(lambda d: d.quantize(Decimal("0.01"))),
}


def compare(left: Any, right: Any, nulls_first: bool = True) -> int:
    """Spark's ascending order, one pair at a time."""
    if left is None or right is None:
        return ((right is None) - (left is None)) * (1 if nulls_first else -1)
    if isinstance(left, float):
        left, right = (left != left, 0.0 if left != left else left), (right != right, 0.0 if right != right else right)
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    return (left > right) - (left < right)


@st.composite
def tables(draw: st.DrawFn) -> list[pa.Array]:
    types = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3))
    length = draw(st.integers(0, 12))
    return [pa.array(draw(st.lists(st.none() | KINDS[t], min_size=length, max_size=length)), t) for t in types]


@settings(max_examples=examples(150), deadline=None)
@given(tables(), st.data())
def test_rows_are_sorted_as_spark_sorts_them(columns: list[pa.Array], data: st.DataObject) -> None:
    flags = [(data.draw(st.booleans()), data.draw(st.booleans())) for _ in columns]
    rows = list(zip(*(column.to_pylist() for column in columns), strict=True))

    def by_terms(i: int, j: int) -> int:
        for k, (ascending, nulls_first) in enumerate(flags):
            left, right = rows[i][k], rows[j][k]
            order = compare(left, right, nulls_first)
            if order:
                return order if ascending or left is None or right is None else -order
        return i - j

    expected = sorted(range(len(rows)), key=cmp_to_key(by_terms))
    terms = [OrderTerm(column, *flag) for column, flag in zip(columns, flags, strict=True)]
    assert sort_indices(terms).tolist() == expected


@settings(max_examples=examples(150), deadline=None)
@given(tables(), st.data())
def test_a_bound_leaves_the_rows_that_are_less_than_it(columns: list[pa.Array], data: st.DataObject) -> None:
    width = data.draw(st.integers(1, len(columns)))
    bound = [data.draw(st.none() | KINDS[column.type]) for column in columns[:width]]

    def less(row: tuple[Any, ...]) -> bool:
        orders = (compare(value, limit) for value, limit in zip(row, bound, strict=False))
        return next((order for order in orders if order), 0) < 0

    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    assert np.array_equal(before(columns, bound), np.array([less(row) for row in rows], dtype=bool))
