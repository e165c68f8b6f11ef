"""Hashing, comparing, ordering and grouping of keys agree with each other and with plain Python."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from key_values import VALUES, collide, plain
from viewkeeper.catalog.types import Type, physical_type
from viewkeeper.trace import hashing, keys
from viewkeeper.trace.grouping import group_rows, stable_argsort
from viewkeeper.trace.keys import canonical, equal_rows, order_code

COLUMNS = st.sampled_from(list(VALUES)).flatmap(
    lambda type_: st.tuples(st.just(type_), st.lists(st.none() | VALUES[type_], min_size=12, max_size=12))
)


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(COLUMNS, max_size=3))
def test_the_scalar_hash_of_a_row_is_the_columnar_one(columns: list[tuple[Type, list]]) -> None:
    arrays = [pa.array(values, physical_type(type_)) for type_, values in columns]
    whole = hashing.hash_columns(arrays, 12)
    types = [type_ for type_, _ in columns]
    assert [hashing.hash_values([array[i].as_py() for array in arrays], types) for i in range(12)] == whole.tolist()
    part = hashing.hash_columns([array.slice(5, 4) for array in arrays], 4)
    assert part.tolist() == whole[5:9].tolist()


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.none() | st.sampled_from(["", "a", "exactly8", "more than eight"]), min_size=6, max_size=30))
def test_columns_of_few_values_are_hashed_and_grouped_as_others_are(values: list[str | None]) -> None:
    """Numbering the values of a column is quicker, and changes nothing."""
    column = pa.array(values, pa.large_string())
    whole, groups = (
        hashing.hash_columns([column], len(column)),
        group_rows(hashing.hash_columns([], len(column)), [column]),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "SAMPLE_ROWS", 3)
        numbers = keys.numbered(column)
        for each in (column, numbers):
            assert hashing.hash_columns([each], len(column)).tolist() == whole.tolist()
            # One hash for all: only the exact keys tell them apart.
            again = group_rows(hashing.hash_columns([], len(column)), [each])
            assert (again.order.tolist(), again.starts.tolist()) == (groups.order.tolist(), groups.starts.tolist())
        assert keys.plain(numbers).equals(column)


def test_the_hash_never_changes() -> None:
    """Files depend on these numbers."""
    arrays = [
        pa.array([0, 1, -1, None], pa.int64()),
        pa.array([0.0, 1.5, math.nan, None], pa.float64()),
        pa.array([0.0, 1.5, math.nan, None], pa.float32()),
        pa.array([Decimal(0), Decimal(10) ** 30, Decimal(-1), None], pa.decimal128(38, 2)),
        pa.array(["", "abc", "exactly8", None], pa.large_string()),
        pa.array([b"seventeen bytes!!", b"\0", b"\0\0", None], pa.large_binary()),
    ]
    assert [[f"{h:016x}" for h in hashing.hash_columns([array], 4).tolist()] for array in arrays] == GOLDEN
    assert f"{hashing.hash_columns(arrays, 4)[1]:016x}" == GOLDEN_ROW
    assert f"{hashing.hash_columns([], 1)[0]:016x}" == GOLDEN_NOTHING


GOLDEN = [
    ["30a9f3df5816aa2b", "ae692c9c6843a60b", "335adde071f7e4a9", "8dd8f3392876e852"],
    ["30a9f3df5816aa2b", "29154bc9228f8fa8", "a0db8acf6c5c7bd2", "8dd8f3392876e852"],
    ["30a9f3df5816aa2b", "ea5899b80f795b9e", "1a385c9b5c66744b", "8dd8f3392876e852"],
    ["30a9f3df5816aa2b", "78085a8528f192f4", "3c92a42dc5ce6140", "8dd8f3392876e852"],
    ["30a9f3df5816aa2b", "567191f75be2a26f", "baacbb7d735418c0", "8dd8f3392876e852"],
    ["a71bd69756e6daaa", "0f881e9fdf152d73", "a239557d87035f08", "8dd8f3392876e852"],
]
GOLDEN_ROW = "a34ef6e2fbcfbdac"
GOLDEN_NOTHING = "e9e0033e3badaf36"


def test_integers_of_every_width_hash_by_their_value() -> None:
    values = [0, 1, -1, 127, -128, None]
    hashes = [hashing.hash_columns([pa.array(values, t)], 6).tolist() for t in (pa.int8(), pa.int16(), pa.int32())]
    assert hashes[0] == hashes[1] == hashes[2] == hashing.hash_columns([pa.array(values, pa.int64())], 6).tolist()


def test_hashes_of_dense_and_structured_keys_do_not_collide() -> None:
    numbers = pa.array(np.arange(300_000) % 1000), pa.array(np.arange(300_000) // 1000)
    texts = pa.array([f"{i % 600:08d}{i // 600:08d}" for i in range(300_000)], pa.large_string())
    for columns in (numbers, [texts]):
        hashes = hashing.hash_columns(columns, 300_000)
        assert len(np.unique(hashes)) == 300_000
        top = np.bincount((hashes >> np.uint64(56)).astype(np.int64), minlength=256)
        assert top.min() > 900 and top.max() < 1450, "every interval of the hash ring gets its share"


@settings(max_examples=examples(100), deadline=None)
@given(COLUMNS)
def test_order_codes_sort_as_the_values_do(column: tuple[Type, list]) -> None:
    values = [value for value in column[1] if value is not None]
    array = pa.array(values, physical_type(column[0]))
    codes = order_code(array).tolist()
    exact = [plain(value) for value in array.to_pylist()]
    for i in range(len(values)):
        for j in range(len(values)):
            assert (codes[i] < codes[j]) == (exact[i] < exact[j])


@settings(max_examples=examples(100), deadline=None)
@given(COLUMNS, st.permutations(range(12)))
def test_rows_are_equal_where_their_canonical_values_are(column: tuple[Type, list], shuffle: list[int]) -> None:
    left = canonical(pa.array(column[1], physical_type(column[0])))
    right = left.take(pa.array(shuffle))
    expected = [plain(a) == plain(b) for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)]
    assert equal_rows([left], [right]).tolist() == expected
    assert equal_rows([left, left], [right, left]).tolist() == expected


@pytest.mark.parametrize("few", [False, True], ids=["whole hash", "four hashes"])
def test_grouping_is_exact_and_stable(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if few:
        collide(monkeypatch)

    @settings(max_examples=examples(100), deadline=None)
    @given(st.lists(COLUMNS, min_size=1, max_size=2), st.lists(st.integers(0, 11), max_size=60))
    def check(columns: list[tuple[Type, list]], rows: list[int]) -> None:
        index = pa.array(rows, pa.int64())
        keys = [canonical(pa.array(values, physical_type(t))).take(index) for t, values in columns]
        hashes = hashing.hash_columns(keys, len(rows))
        groups = group_rows(hashes, keys)
        exact = list(zip(*([plain(v) for v in key.to_pylist()] for key in keys), strict=True))
        bounds = [*groups.starts.tolist(), len(rows)]
        found = [groups.order[a:b].tolist() for a, b in zip(bounds, bounds[1:], strict=False)]
        assert sorted(i for group in found for i in group) == list(range(len(rows)))
        assert all(group == sorted(group) for group in found), "rows of one key stay in the order they came in"
        assert all(len({exact[i] for i in group}) == 1 for group in found)
        assert len(found) == len(set(exact)), "a key is one group"
        assert (np.diff(hashes[groups.order].astype(object)) >= 0).all()

    check()


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.integers(0, 20) | st.integers(0, 2**64 - 1), max_size=200))
def test_the_quick_sort_is_stable(values: list[int]) -> None:
    array = np.array(values, dtype=np.uint64)
    assert stable_argsort(array).tolist() == np.argsort(array, kind="stable").tolist()
