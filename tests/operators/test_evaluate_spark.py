"""What we compute on physical columns is what Spark computes on logical ones; where we raise, Spark raises."""

import itertools
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from viewkeeper.catalog.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    decimal,
    logical_type,
    physical_type,
    to_logical,
    to_physical,
)
from viewkeeper.compiler.coercion import bounded_decimal, decimal_result
from viewkeeper.evaluation import exact
from viewkeeper.evaluation.evaluate import evaluate
from viewkeeper.plans import expressions as ir

pytestmark = pytest.mark.spark

DECIMALS = [
    decimal(5, 2),
    decimal(15, 2),
    decimal(18, 0),
    decimal(20, 8),
    decimal(38, 0),
    decimal(38, 10),
    decimal(38, 38),
]


def extremes(type_):
    most = 10**type_.precision - 1
    unscaled = [0, 1, -1, 5, -5, most, -most, most // 3, -(most // 7), most // 10**5]
    return [Decimal((int(u < 0), tuple(map(int, str(abs(u)))), -type_.scale)) for u in unscaled] + [None]


def columns_of(pairs, left, right):
    logical = [pa.array([pair[i] for pair in pairs], logical_type(type_)) for i, type_ in enumerate((left, right))]
    return logical, [to_physical(array, type_) for array, type_ in zip(logical, (left, right), strict=True)]


def view_of(spark, logical):
    order = pa.array(range(len(logical[0])))
    spark.createDataFrame(pa.table([order, *logical], ["n", "a", "b"])).createOrReplaceTempView("pairs")


def same(mine, right):
    if isinstance(mine, float) and isinstance(right, float):
        return mine == right or (math.isnan(mine) and math.isnan(right))
    return mine == right


def agrees(spark, computed):
    """Of each (SQL, array, errors): rows without error have Spark's value; the first with one makes Spark raise."""
    wrong = [[] if errors is None else np.flatnonzero(errors).tolist() for _, _, errors in computed]
    cases = [
        f"CASE WHEN n IN ({', '.join(map(str, [-1, *rows]))}) THEN NULL ELSE {sql} END"
        for (sql, _, _), rows in zip(computed, wrong, strict=True)
    ]
    for n, *answer in spark.sql(f"SELECT n, {', '.join(cases)} FROM pairs").collect():
        for (sql, array, _), value in zip(computed, answer, strict=True):
            assert same(array[n].as_py(), value), (sql, n, array[n], value)
    for (sql, _, _), rows in zip(computed, wrong, strict=True):
        if rows:
            with pytest.raises(Exception, match="OUT_OF_RANGE|OVERFLOW|BY_ZERO|Division impossible"):
                spark.sql(f"SELECT {sql} FROM pairs WHERE n = {rows[0]}").collect()


def column(type_, index):
    return ir.ColumnRef(type_, True, None, index, "ab"[index])


@pytest.mark.parametrize(("left", "right"), list(itertools.combinations_with_replacement(DECIMALS, 2)), ids=str)
def test_decimal_arithmetic_is_sparks(spark, left, right):
    """+ - * / % on extreme decimals: Spark's type, Spark's rounding, Spark's overflow."""
    pairs = list(itertools.product(extremes(left), extremes(right)))
    logical, physical = columns_of(pairs, left, right)
    view_of(spark, logical)
    computed = []
    for operator in "+-*/%":
        type_ = decimal_result(operator, left, right)
        node = ir.Arithmetic(type_, True, (1, 1), operator, column(left, 0), column(right, 1))
        array, errors = evaluate(node, physical, len(pairs))
        computed.append((f"a {operator} b", to_logical(array, type_), errors))
    agrees(spark, computed)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (DOUBLE, [0.0, -0.0, 1.5, -7.25, math.nan, math.inf, -math.inf, 5e-324, 1.7e308, None]),
        (FLOAT, [0.0, -0.0, 1.5, -7.25, math.nan, math.inf, 3.4028234663852886e38, None]),
        (INT, [0, 1, -1, 7, -7, 2**31 - 1, -(2**31), None]),
        (BIGINT, [0, 1, -1, 7, -7, 2**63 - 1, -(2**63), None]),
    ],
    ids=str,
)
def test_quotients_and_remainders_are_sparks(spark, type_, values):
    """Of numbers that are no decimals: / is one of doubles, % has the sign of the left side, zero raises."""
    pairs = list(itertools.product(values, values))
    logical, physical = columns_of(pairs, type_, type_)
    view_of(spark, logical)
    a, b = column(type_, 0), column(type_, 1)
    wide = [side if type_ == DOUBLE else ir.Cast(DOUBLE, True, None, side) for side in (a, b)]
    quotient, errors = evaluate(ir.Arithmetic(DOUBLE, True, (1, 1), "/", *wide), physical, len(pairs))
    remainder, raised = evaluate(ir.Arithmetic(type_, True, (1, 1), "%", a, b), physical, len(pairs))
    agrees(spark, [("a / b", quotient, errors), ("a % b", remainder, raised)])


def test_a_quotient_of_decimals_is_rounded_once(spark):
    """A quotient a hair below half a unit of the result, which 39 digits do not tell from the half, is rounded down."""
    type_ = decimal(38, 0)
    pairs = [(Decimal(49999999999999999999999999999999), Decimal("99999999999999999999999999999998000001")),
             (Decimal("80000040000000000000000000000000000001"), Decimal("80000000000000000000000000000000000001")),
        (Decimal(4), Decimal(9)), (Decimal(-5), Decimal(9))]  # fmt: skip
    logical, physical = columns_of(pairs, type_, type_)
    view_of(spark, logical)
    result = decimal_result("/", type_, type_)
    node = ir.Arithmetic(result, True, (1, 1), "/", column(type_, 0), column(type_, 1))
    array, errors = evaluate(node, physical, len(pairs))
    assert to_logical(array, result)[0].as_py() == Decimal("0.000000")
    agrees(spark, [("a / b", to_logical(array, result), errors)])


def test_decimals_become_sparks_doubles(spark):
    """DECIMAL to DOUBLE is rounded once, as BigDecimal.doubleValue does."""
    for type_ in DECIMALS:
        values = [(value, None) for value in extremes(type_)]
        logical, physical = columns_of(values, type_, INT)
        view_of(spark, logical)
        array, errors = evaluate(ir.Cast(DOUBLE, True, None, column(type_, 0)), physical, len(values))
        agrees(spark, [("CAST(a AS DOUBLE)", array, errors)])


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (DOUBLE, [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 5e-324, None]),
        (STRING, ["", "a", "B", "é", "\uffff", "\U0001f600", None]),
        (BIGINT, [0, 1, -1, 2**63 - 1, -(2**63), None]),
    ],
    ids=str,
)
def test_comparisons_are_sparks(spark, type_, values):
    """Every comparison of every pair of extreme values is Spark's."""
    pairs = list(itertools.product(values, values))
    logical, physical = columns_of(pairs, type_, type_)
    view_of(spark, logical)
    computed = []
    for operator in ("=", "<>", "<", "<=", ">", ">=", "<=>"):
        node = ir.comparison(operator, column(type_, 0), column(type_, 1))
        array, errors = evaluate(node, physical, len(pairs))
        computed.append((f"a {operator} b", to_logical(array, BOOLEAN), errors))
    agrees(spark, computed)


def test_averages_of_decimals_are_sparks(spark):
    """AVG is rounded once, also where Spark's 39 digits end just below a tie."""
    cases = [(decimal(38, 33), 5, 11), (decimal(38, 33), 50, 101), (decimal(38, 34), 5, 11), (decimal(38, 37), 5, 11),
             (decimal(15, 2), 10, 3), (decimal(15, 2), -200, 3)]  # fmt: skip
    for type_, unscaled, count in cases:
        result = bounded_decimal(type_.precision + 4, type_.scale + 4)
        values = [Decimal(unscaled).scaleb(-type_.scale)] + [Decimal(0)] * (count - 1)
        logical = pa.array(values, logical_type(type_))
        state = exact.lift_reduce(to_physical(logical, type_), np.ones(count, np.int64), np.zeros(1, np.int64), type_)
        array, overflow = exact.average(state, np.array([count]), type_, result)
        assert overflow is None and array.type == physical_type(result)
        spark.createDataFrame(pa.table([logical], ["x"])).createOrReplaceTempView("amounts")
        assert to_logical(array, result)[0].as_py() == spark.sql("SELECT avg(x) FROM amounts").first()[0]
