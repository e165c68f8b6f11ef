"""Arrays, structs and maps are made and taken apart as in Spark: names, types, values and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_differences import compare_with_spark
from viewkeeper.catalog.types import BIGINT, DOUBLE, INT, STRING, array_of, map_of, struct_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAIR = struct_of([("k", STRING), ("v", array_of(INT))])
NAN = float("nan")


def test_parts_of_arrays_and_maps_are_sparks(spark: SparkSession) -> None:
    """At every index from both ends and beyond, of NULLs, empty arrays and elements that are NULL."""
    held = [None, [], [1.5], [None, -2.0, NAN], [0.0, None]]
    keys = [None, [], [("a", 1)], [("", None), ("b", 2), ("é", -3)], [("a", None)]]
    indexes = [None, 0, 1, 2, 3, -1, -3, -4, 2**31 - 1, -(2**31)]
    rows = [(a, m, i, k, float(i or 0), b) for a, m in zip(held, keys, strict=True)
            for i, k, b in zip(indexes, ["a", "", "b", "é", None] * 2, [None, 0, 1, -1, 2**32] * 2,
                               strict=True)]  # fmt: skip
    errors = compare_with_spark(
        spark, [array_of(DOUBLE), map_of(STRING, INT), INT, STRING, DOUBLE, BIGINT], rows,
        [
            "a[c]", "a[0]", "a[f]", "get(a, c)", "get(a, 1)", "element_at(a, c)", "element_at(a, -1)",
            "try_element_at(a, c)", "element_at(b, d)", "try_element_at(b, 'a')", "b[d]", "b['é']", "b.a", "size(a)",
            "size(b)", "cardinality(b)", "array_size(a)", "array_contains(a, e)",
            "array_contains(a, CAST('NaN' AS DOUBLE))",
            "map_contains_key(b, d)", "map_contains_key(b, '')", "a[c] + 1", "coalesce(get(a, c), -1)", "a[NULL]",
            "CASE WHEN size(a) > 1 THEN a[1] END", "a[0] = e", "element_at(array(a, array(e)), 2)",
            "if(c IN (0, 1), get(a, c), e)",
        ],
    )  # fmt: skip
    assert set.union(*errors.values()) == {
        "INVALID_ARRAY_INDEX", "INVALID_ARRAY_INDEX_IN_ELEMENT_AT", "INVALID_INDEX_OF_ZERO"
    }  # fmt: skip


def test_fields_of_structs_are_sparks(spark: SparkSession) -> None:
    """Of structs within structs and arrays, by their names alone and behind their table's."""
    one, two = {"k": "x", "v": [1, None]}, {"k": None, "v": None}
    rows = [(a, b, n) for n, (a, b) in enumerate([(None, None), (one, []), (two, [one, None, two]), (one, [two])])]
    compare_with_spark(spark, [PAIR, array_of(PAIR), INT], rows, [
        "a.k", "edges.a.k", "A.K", "upper(a.k)", "a.v", "a.v[0]", "b.k", "b.v", "b[0].k", "get(b, 1).v", "(a).k",
        "length(edges.a.k) + c", "CAST(a.k AS STRING)", "array_contains(b, a)", "array_contains(b.k, 'x')",
        "struct(a, c).a.k", "a.k IS NULL", "coalesce(a.k, 'none')", "a = b[0]",
    ])  # fmt: skip


def test_what_is_made_of_values_is_sparks(spark: SparkSession) -> None:
    """Of several types that become one, NULLs, and keys of maps that are NULL or there twice."""
    rows = [(a, b, s, x) for a, b, s in [(1, 2, "a"), (None, None, None), (1, 1, ""), (2, None, "b")]
            for x in (0.0, -1.5, NAN, None)]  # fmt: skip
    errors = compare_with_spark(spark, [INT, BIGINT, STRING, DOUBLE], rows, [
        "array(a)", "array(a, b)", "array(a, NULL, 3)", "array(d, a, 1.5)", "array(array(a), array(b))",
        "array(c, 'x')",
        "named_struct('x', a, 'y', c)", "struct(a, b AS n, 1, c)", "struct(upper(c), struct(a).a)", "struct(edges.a)",
        "map(a, c)", "map('a', a, c, b)", "map(d, a, 0.0D, b)", "map(b, struct(a, c))",
        "element_at(map(array(a), array(c)), array(1))",
        "size(array(a, b))", "array(a, b) = array(b, a)", "array(struct(c, a), struct('z' AS C, 1 AS a))",
        "element_at(map('k', a), 'k')", "named_struct('x', array(a)).x[0]", "map('a', 1, 'b', a)", "array(1, 2)",
        "map(1, 'x')", "size(map())", "named_struct('a', 1, 'b', array('c'))",
    ])  # fmt: skip
    assert set.union(*errors.values()) == {"NULL_MAP_KEY", "DUPLICATED_MAP_KEY"}


def test_arrays_are_sorted_joined_and_cut_as_in_spark(spark: SparkSession) -> None:
    """Numbers, texts and structs, NULL and NaN among them; texts are split where they are."""
    structs = array_of(struct_of([("x", DOUBLE), ("y", STRING)]))
    some = {"x": 1.0, "y": "b"}
    rows = [
        ([2.0, NAN, None, -1.5, 0.0, NAN], ["b", "", None, "é", "a"], [some, None, {"x": None, "y": "a"}, some],
         "a,b,,c"),
        ([], [], [], ""), (None, None, None, None), ([None], [None], [{"x": 1.0, "y": None}, some], ",é"),
    ]  # fmt: skip
    assert not compare_with_spark(spark, [array_of(DOUBLE), array_of(STRING), structs, STRING], rows, [
        "sort_array(a)", "sort_array(a, TRUE)", "sort_array(a, false)", "sort_array(b)", "sort_array(b, false)",
        "sort_array(c)", "sort_array(c, false)", "array_sort(c)", "slice(a, 2, 2)", "slice(b, -2, 5)", "slice(a, 9, 1)",
        "slice(c, -9, 3)", "slice(a, 1, 0)", "array_join(b, ', ')", "array_join(sort_array(b), '')", "split(d, ',')",
        "element_at(split(d, ','), 1)", "split(d, 'é')", "size(split(d, ',b'))", "array_join(split(d, ','), '-')",
    ])  # fmt: skip


def test_casts_of_nested_values_are_sparks(spark: SparkSession) -> None:
    """Each value within as it would be alone: the first that cannot be one raises, or is NULL where it is tried."""
    structs = struct_of([("x", INT), ("m", map_of(STRING, BIGINT))])
    rows = [
        ([1, None], ["1", "x"], {"x": 1, "m": [("a", 2)]}), (None, None, None), ([], [], {"x": None, "m": None}),
        ([2**40], ["2", None], {"x": -1, "m": [("b", 2**40), ("a", None)]}), ([3], [" 7 "], {"x": 2, "m": []}),
    ]  # fmt: skip
    errors = compare_with_spark(spark, [array_of(BIGINT), array_of(STRING), structs], rows, [
        "CAST(a AS ARRAY<DOUBLE>)", "CAST(a AS ARRAY<INT>)", "CAST(b AS ARRAY<INT>)", "TRY_CAST(b AS ARRAY<INT>)",
        "CAST(c AS STRUCT<x: STRING, m: MAP<STRING, STRING>>)", "CAST(c AS STRUCT<y: BIGINT, m: MAP<STRING, INT>>)",
        "array(c, CAST(c AS STRUCT<x: INT, m: MAP<STRING, INT>>))", "coalesce(a, array(1))", "a = array(3)",
        "CASE WHEN size(a) = 1 THEN a ELSE array(0) END", "CAST(map(1, a) AS MAP<BIGINT, ARRAY<STRING>>)",
    ])  # fmt: skip
    assert set.union(*errors.values()) == {"CAST_OVERFLOW", "CAST_INVALID_INPUT"}
