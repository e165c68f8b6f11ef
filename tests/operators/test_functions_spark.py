"""Scalar functions are Spark's: names, types, values and errors, over edge values of every type that they take."""

from __future__ import annotations

import datetime
import itertools
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from compiler_catalog import catalog_of, query_of
from oracle.strategies import CORE_TYPES, domain
from viewkeeper.catalog.types import STRING, Type, logical_type, to_logical, to_physical
from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.errors import NotSupported
from viewkeeper.functions.registry import FUNCTIONS
from viewkeeper.maintenance.evaluate import evaluate as computed
from viewkeeper.plans.relations import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ZONE = "Europe/Berlin"
TEXTS = ["", "a", "straße", "ﬁn", "ǆ", "ŉ", "ΐ", "日本語", "𝄞x", "é", "ae\u0301", "A b\tc", "i\u0307", None]
MOMENTS = [
    datetime.datetime(1, 1, 2),
    datetime.datetime(1582, 10, 4, 23),
    datetime.datetime(1969, 12, 31, 23, 30),
    datetime.datetime(2038, 12, 31, 23, 30),
    datetime.datetime(2050, 6, 30, 23),
    datetime.datetime(9999, 12, 31),
]
WHOLE = [0, 1, 2, 3, -1, -2, -5, 7, 2**31 - 1, -(2**31), None]


def values_of(type_: Type) -> list[Any]:
    """Edge values: those of the oracle, and of texts and times more."""
    if type_ == STRING:
        return TEXTS
    if type_.name == "DATE":
        return [moment.date() for moment in MOMENTS] + [None]
    if type_.name.startswith("TIMESTAMP"):
        zone = datetime.UTC if type_.name == "TIMESTAMP" else None
        return [moment.replace(tzinfo=zone) for moment in MOMENTS] + [None]
    return [*domain(type_, extremes=True), None]


def compare(spark: SparkSession, sql: str, types: Sequence[Type], rows: Sequence[tuple[Any, ...]]) -> int:
    """Computes `sql` over columns a, b, c; each value must be Spark's, and the checker's, or an error in all three.

    The number of rows that raise.
    """
    names = "abc"[: len(types)]
    declared = ", ".join(f"{name} {type_}" for name, type_ in zip(names, types, strict=True))
    catalog = catalog_of(f"CREATE TABLE pairs ({declared})")
    relation = query_of(catalog, f"SELECT {sql} FROM pairs").relation
    assert isinstance(relation, Project)
    logical = [pa.array([row[i] for row in rows], logical_type(type_)) for i, type_ in enumerate(types)]
    physical = [to_physical(array, type_) for array, type_ in zip(logical, types, strict=True)]
    output = relation.outputs[0]
    array, errors = computed(output, physical, len(rows), zone=ZONE)
    wrong = set() if errors is None else set(np.flatnonzero(errors).tolist())
    table = pa.table([pa.array(range(len(rows))), *logical], ["n", *names])
    frame = spark.createDataFrame(table)
    frame.createOrReplaceTempView("pairs")
    answer = spark.sql(f"SELECT n, {sql} FROM pairs WHERE n NOT IN ({', '.join(map(str, [-1, *wrong]))})")
    field = answer.schema[1]
    assert field.name == relation.names[0] and field.dataType.simpleString() == str(output.type).lower()
    found = to_logical(array, output.type).to_pylist()
    for n, value in answer.collect():
        assert repr(found[n]) == repr(bytes(value) if isinstance(value, bytearray) else value), (sql, rows[n])
    for n in wrong:
        with pytest.raises(Exception, match="OVERFLOW|OUT_OF_RANGE|PRECISION"):
            spark.sql(f"SELECT {sql} FROM pairs WHERE n = {n}").collect()
    (scan,) = [table_.id for table_ in catalog.tables]
    judged = [evaluate(relation, {scan: Answer([row])}, ZONE) for row in rows]
    assert {n for n, one in enumerate(judged) if one.errors} == wrong
    assert all(repr(one.rows[0][0]) == repr(found[n]) for n, one in enumerate(judged) if n not in wrong)
    return len(wrong)


@pytest.fixture(scope="module", autouse=True)
def zone(spark: SparkSession) -> Any:
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "substring"])
def test_functions_of_one_value_are_sparks(spark: SparkSession, name: str) -> None:
    """Over every type: Spark's name, type, value and error, or refused."""
    raised, admitted = 0, 0
    for type_ in CORE_TYPES:
        try:
            query_of(catalog_of(f"CREATE TABLE pairs (a {type_})"), f"SELECT {name}(a) FROM pairs")
        except NotSupported as refused:
            assert str(refused).startswith(f"{name} takes ")
            continue
        raised += compare(spark, f"{name}(a)", [type_], [(value,) for value in values_of(type_)])
        admitted += 1
    assert admitted and bool(raised) == (FUNCTIONS[name].raises is not None)


@pytest.mark.parametrize(("precision", "scale"), [(18, 3), (34, 3), (35, 0), (37, 2), (38, 0), (38, 30)])
def test_unary_minus_of_decimals_is_sparks(spark: SparkSession, precision: int, scale: int) -> None:
    """Beyond 34 digits Spark rounds to even, and raises what then has a digit too many."""
    unscaled = [0, 1, 10**17, 10**33 + 5, 10**34 - 1, 10**34, 10**34 + 5, 10**34 + 15, 10**35 + 50, 10**35 + 150,
                10**36 + 501, 12345678901234567890123456789012345678, 10**precision - 1]  # fmt: skip
    values = [Decimal(f"{n}E-{scale}") for n in unscaled if n < 10**precision]
    rows = [(value,) for one in values for value in (one, one.copy_negate())]
    raised = compare(spark, "(- a)", [Type("DECIMAL", precision, scale)], [*rows, (None,)])
    assert raised == (2 if precision > 34 else 0)


def test_substring_is_sparks(spark: SparkSession) -> None:
    """Positions from both ends, none, and beyond; all lengths; of texts and bytes; of columns and constants."""
    texts = [text for text in TEXTS if text is None or len(text) < 4]
    rows = list(itertools.product(texts, WHOLE, WHOLE))
    types = [Type("STRING"), Type("INT"), Type("INT")]
    compare(spark, "substring(a, b, c)", types, rows)
    compare(spark, "substring(a, b)", types, rows)
    compare(spark, "substring(a, -2, 1)", types, rows)
    compare(spark, "substring('straße', b, c)", types, rows)
    compare(spark, "substring(substring(a, 2), 1, length(a))", types, rows)
    some = [(None if text is None else text.encode(), b, c) for text, b, c in rows]
    compare(spark, "substring(a, b, c)", [Type("BINARY"), *types[1:]], some)


def test_upper_is_sparks_for_every_character(spark: SparkSession) -> None:
    """Every code point."""
    points = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point <= 0xDFFF]
    compare_all = [("".join(points[start : start + 64]),) for start in range(0, len(points), 64)]
    compare(spark, "upper(a)", [STRING], compare_all)


def test_decimals_of_every_width_have_absolute_values() -> None:
    """Unscaled numbers and decimal128 alike, their ends too."""
    for type_ in (t for t in CORE_TYPES if t.is_decimal):
        values = [value for value in values_of(type_) if value is not None]
        physical = to_physical(pa.array(values, logical_type(type_)), type_)
        array, _ = FUNCTIONS["abs"].kernel([physical], [type_], "UTC")
        assert to_logical(array, type_).to_pylist() == [Decimal(value).copy_abs() for value in values]
