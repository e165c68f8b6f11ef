"""Two tables are compared as bags, both ways, with the equality of the architecture."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bags import bag
from drawn import examples
from oracle.model import canonical
from oracle.strategies import CORE_TYPES, values
from viewkeeper.catalog.model import Column
from viewkeeper.checker.compare import compare, within
from viewkeeper.checker.tables import table_of

Bags = tuple[tuple[Column, ...], list[tuple[Any, ...]], list[tuple[Any, ...]]]


@st.composite
def bags(draw: st.DrawFn) -> Bags:
    types = draw(st.lists(st.sampled_from(CORE_TYPES), min_size=1, max_size=3))
    columns = tuple(Column(f"c{i}", type_) for i, type_ in enumerate(types))
    rows = st.lists(st.tuples(*(values(type_, extremes=True) for type_ in types)), max_size=6)
    left = draw(rows)
    return columns, left, draw(st.one_of(rows, st.permutations(left)))


@settings(max_examples=examples(150), deadline=None)
@given(bags())
def test_rows_that_differ_are_those_that_counting_finds(drawn: Bags) -> None:
    """A row differs exactly if a Counter of canonical rows counts it otherwise on the two sides."""
    columns, left, right = drawn
    a, b = map(bag, (left, right))
    wanted = {(row, a[row], b[row]) for row in a.keys() | b.keys() if a[row] != b[row]}
    found = compare(table_of(columns, left), table_of(columns, right))
    got = {(tuple(canonical(v) for v in d.row.values()), d.expected, d.found) for d in found.differing}
    assert got == wanted and found.equal == (not wanted)


@pytest.mark.parametrize("other", [pa.table({"a": pa.array([1], pa.int32())}), pa.table({"b": [1]}),
                                   pa.table({"a": [1], "b": [1]})])  # fmt: skip
def test_types_and_names_must_agree(other: pa.Table) -> None:
    """A column of another type or name, or one too many, is a difference even if all values agree."""
    result = compare(pa.table({"a": [1]}), other)
    assert not result.equal and result.shape and "expected" in result.shape


def test_decimals_of_one_value_and_two_scales_differ_by_type_alone() -> None:
    """1.0 and 1.00 are one value, but two types."""
    one, two = (pa.table({"a": pa.array([Decimal(1)], pa.decimal128(5, s))}) for s in (1, 2))
    assert compare(one, one).equal and not compare(one, two).equal


def test_a_difference_reads_as_a_sentence() -> None:
    """A person sees the row, and how often it stands on each side."""
    result = compare(pa.table({"a": [1, 1], "b": ["x", "x"]}), pa.table({"a": [1], "b": ["x"]}))
    assert str(result.differing[0]) == "(a=1, b='x'): expected 2 times, found 1"


def test_only_the_first_differences_are_kept_but_all_are_counted() -> None:
    """A view that is wrong throughout gives a short report."""
    result = compare(pa.table({"a": range(1000)}), pa.table({"a": range(1000, 2000)}), show=5)
    assert result.rows == 2000 and len(result.differing) == 5


def test_a_million_rows_take_seconds() -> None:
    """Comparing is vectorised: a million rows with strings in another order, in at most 10 s."""
    n = 1_000_000
    table = pa.table({"k": np.arange(n), "s": pa.array(np.arange(n) % 1000).cast(pa.string()), "x": np.arange(n) / 7})
    begin = time.perf_counter()
    assert compare(table, table.take(pa.array(np.random.default_rng(1).permutation(n)))).equal
    assert time.perf_counter() - begin < 10


SUMS = pa.table({"g": ["a", "b", "c", "d"], "s": pa.array([1.0, math.nan, None, math.inf])})


@pytest.mark.parametrize(
    ("found", "right"),
    [
        ([1.0 + 1e-12, math.nan, None, math.inf], True),
        ([1.0 + 1e-6, math.nan, None, math.inf], False),
        ([1.0, math.nan, 0.0, math.inf], False),
        ([math.inf, math.nan, None, math.inf], True),
    ],
)
def test_slack_is_given_only_where_it_is_asked_for(found: list[float | None], right: bool) -> None:
    """A finite value must be within its row's slack, NULL must be NULL, and what overflowed underway is let pass."""
    table = pa.table({"g": ["d", "c", "b", "a"], "s": pa.array(found[::-1])})
    assert within(SUMS, table, {"s": [1e-9] * 4}).equal is right


def test_slack_does_not_reach_other_columns() -> None:
    """The exact columns of a comparison with slack stay exact."""
    a, b = pa.table({"g": [1, 2], "s": [0.5, 0.5]}), pa.table({"g": [1, 3], "s": [0.5, 0.5]})
    assert not within(a, b, {"s": [1.0, 1.0]}).equal and within(a, a, {"s": [0.0, 0.0]}).equal
