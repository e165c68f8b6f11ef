"""Scalar functions are Spark's: names, types, values and errors, over edge values of the types that they take."""

from __future__ import annotations

import datetime
import itertools
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from edge_values import DECIMALS, MOMENTS, TEXTS, edge_values
from oracle.strategies import CORE_TYPES, domain
from spark_differences import ZONE, compare_with_spark, ours
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    logical_type,
    to_logical,
    to_physical,
)  # fmt: skip
from viewkeeper.errors import DeclarationError
from viewkeeper.functions.registry import BY_NAME, FUNCTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WHOLE = [0, 1, 2, 3, -1, -2, -5, 7, 2**31 - 1, -(2**31), None]

OF_TEXTS = [
    "upper(a)", "ucase(a)", "lower(a)", "lcase(a)", "trim(a)", "ltrim(a)", "rtrim(a)", "btrim(a)", "btrim(a, 'ac')",
    "trim('a', a)", "ltrim('ac', a)", "rtrim('c', a)",
    "trim(BOTH 'a ' FROM a)", "trim(LEADING 'x' FROM a)", "trim(TRAILING 'x語' FROM a)", "trim('a' FROM a)",
    "concat(a)", "concat(a, 'x', a)", "a || 'x'", "a || 'x' || a", "concat_ws(',', a, 'x', a)", "concat_ws(',', a)",
    "concat_ws(a, 'x', 'y')", "concat_ws(',', a, a)", "concat(a, 1)", "concat(a, TRUE)", "concat('a', NULL)",
    "concat(a, DATE '2020-01-01')", "replace(a, 'a', 'bb')", "replace(a, 'a')", "replace(a, '', 'z')",
    "left(a, 2)", "left(a, -1)", "right(a, 2)", "right(a, 0)", "right(a, 100)", "left('abc', 2)",
    "lpad(a, 4, 'xy')", "rpad(a, 4, 'xy')", "lpad(a, 3)", "rpad(a, 0, 'x')", "lpad(a, 5, '')", "lpad(a, -1, 'x')",
    "repeat(a, 2)", "repeat(a, 0)", "repeat(a, -3)", "reverse(a)", "space(2)", "chr(65)", "ascii(a)",
    "initcap(a)", "translate(a, 'aXé', 'xY')", "translate(a, 'aab', '123')", "translate(a, '', 'z')",
    "instr(a, 'b')", "instr(a, '語')", "instr(a, '')", "locate('b', a)", "locate('x', a, 2)", "locate('a', a, 0)",
    "locate('', a, 3)", "position('x' IN a)", "position('a', a)", "contains(a, 'b')", "contains(a, '')",
    "startswith(a, 'a')", "endswith(a, 'c')", "substring_index(a, 'X', 1)", "substring_index(a, 'X', 2)",
    "substring_index(a, 'X', -1)", "substring_index(a, 'X', -2)", "substring_index(a, 'X', 9)",
    "substring_index(a, 'X', 0)", "substring_index(a, '', 1)", "substring_index(a, 'X', -9)", "split_part(a, 'X', 1)",
    "split_part(a, 'X', 2)", "split_part(a, 'X', -1)", "split_part(a, 'X', 7)", "split_part(a, '', 1)",
    "split_part(a, '', 2)", "char_length(a)", "character_length(a)", "len(a)", "length(a)", "octet_length(a)",
    "bit_length(a)", "substring(a, 2)", "substr(a, 2, 1)", "substring(a FROM 2)", "substring(a FROM 2 FOR 1)",
    "md5(a)", "sha1(a)", "sha(a)", "sha2(a, 256)", "sha2(a, 0)", "sha2(a, 224)", "sha2(a, 512)", "crc32(a)",
    "upper(NULL)", "length(NULL)", "upper(CAST(a AS BINARY) IS NULL)", "lower(replace(trim(a), 'X', 'É'))",
]  # fmt: skip

PATTERNS = [
    "a LIKE 'a%'", "a LIKE '%a%'", "a LIKE '%c'", "a LIKE 'a'", "a LIKE '_'", "a LIKE '__'", "a LIKE '%'", "a LIKE ''",
    "a LIKE 'a%c'", "a LIKE 'a\\\\%%'", "a LIKE '%b%X%'", "a LIKE '%%'", "a LIKE '_%'", "a LIKE '%.%'",
    "a NOT LIKE 'a%'", "a LIKE 'a!%%' ESCAPE '!'", "NOT a LIKE '_日%'", "like(a, 'a%')", "a ILIKE 'A%'",
    "a ILIKE '%Σ%'", "a NOT ILIKE '%X%'", "a RLIKE '^a'", "a RLIKE 'b'", "a RLIKE 'a.b'", "a REGEXP '[a-c]+x?'",
    "a RLIKE '(ab|X)b'", "a NOT RLIKE 'a'", "regexp_like(a, 'b')", "rlike(a, 'b')", "a RLIKE '^line.break'",
    "a RLIKE '\\\\w\\\\d*[^a-z]{2,}'", "a RLIKE ''", "a IN ('a', 'é')", "a BETWEEN 'a' AND 'b'", "a <=> 'a'",
]  # fmt: skip

CONDITIONS = [
    "nvl(a, 'x')", "ifnull(a, 'x')", "nvl2(a, 'x', 'y')", "nullif(a, 'a')", "if(a = 'a', 1, 2)", "coalesce(a, 'z')",
    "isnull(a)", "isnotnull(a)", "a IS NULL", "a IS NOT NULL", "greatest(a, 'b')", "least(a, 'b', 'c')",
    "greatest(a, NULL)", "CASE WHEN a LIKE 'a%' THEN 'x' ELSE upper(a) END", "if(a LIKE 'a%', a, NULL)",
    "nvl2(nullif(a, ''), length(a), 0)",
]  # fmt: skip

OF_MOMENTS = [
    *(f"{part}(a)" for part in ("year", "quarter", "month", "day", "dayofmonth", "dayofyear", "dayofweek", "weekday",
                                "weekofyear", "hour", "minute", "second")),
    *(f"extract({part} FROM a)" for part in ("year", "QUARTER", "month", "week", "day", "dow", "doy", "hour", "minute",
                                             "second")),
    "date_part('month', a)", "datepart('SECONDS', a)",
    *(f"date_trunc('{unit}', a)" for unit in ("year", "YYYY", "yy", "quarter", "month", "mm", "MON", "week", "day",
                                              "dd", "hour", "minute", "second", "millisecond", "microsecond")),
    *(f"trunc(a, '{unit}')" for unit in ("year", "YYYY", "yy", "quarter", "month", "mm", "MON", "week")),
    "date_format(a, 'yyyy-MM-dd HH:mm:ss')", "date_format(a, 'yyyy/M/d')", "date_format(a, \"yyyyMMdd'T'HHmmss.SSS\")",
    "date_format(a, 'H:m:s.SSSSSS D')", "date_format(a, 'yyyy-MM')", "unix_timestamp(a)", "to_unix_timestamp(a)",
    "last_day(a)", "next_day(a, 'Mon')", "next_day(a, 'TH')", "next_day(a, 'sunday')",
    "date_add(a, 3)", "date_sub(a, 3)", "dateadd(a, 40000)", "add_months(a, 1)", "add_months(a, -13)",
    "datediff(a, DATE '2020-01-01')", "date_diff(DATE '2020-01-01', a)", "unix_date(to_date(a))",
    "a + INTERVAL 1 DAY", "a - INTERVAL 1 DAY", "a + INTERVAL '1' MONTH", "a + INTERVAL 1 YEAR",
    "a - INTERVAL 3 MONTHS",
    "a + INTERVAL 2 HOURS", "a + INTERVAL 90 MINUTE", "a - INTERVAL '10' SECOND", "a + INTERVAL 1 WEEK",
    "a + INTERVAL '1 day'", "a + INTERVAL 1 DAY + INTERVAL 1 MONTH", "CAST(a AS DATE) + INTERVAL 1 MONTH",
    "a BETWEEN DATE '2020-01-01' AND DATE '2020-01-01' + INTERVAL 1 YEAR", "greatest(a, a)", "least(a, NULL)",
    "year(a + INTERVAL 1 MONTH)", "to_date(a) + 1", "to_date(a) - 2", "1 + to_date(a)", "date(a) + INTERVAL 30 DAYS",
    "a >= to_date('1995-01-01') AND a < DATE '1995-01-01' + INTERVAL '3' MONTH",
]  # fmt: skip

OF_NUMBERS = [
    "abs(a)", "sign(a)", "signum(a)", "positive(a)", "negative(a)", "ceil(a)", "ceiling(a)", "floor(a)", "round(a)",
    "round(a, 1)", "round(a, -1)", "round(a, -3)", "round(a, 5)", "round(a, -19)", "round(a, -20)", "round(a, 38)",
    "bround(a)", "bround(a, 1)", "bround(a, -1)", "bround(a, -19)", "bround(a, -38)", "sqrt(a)", "isnan(a)", "~a",
    "bit_count(a)", "mod(a, 7)", "pmod(a, 7)", "pmod(a, -7)", "a DIV 7", "a DIV -1", "mod(a, -1)", "a & 5", "a | 5",
    "a ^ 5", "a << 3", "a >> 3", "shiftleft(a, 3)", "shiftright(a, 33)", "shiftrightunsigned(a, 2)", "greatest(a, 1)",
    "least(a, NULL, 2)", "nanvl(a, 1)", "nvl(a, 0)", "nullif(a, 1)", "if(a > 1, a, 0)", "coalesce(a, 1.5)",
    "a IN (1, 2.5)", "a % 2 = 0", "- a", "a + 0.5 > 1", "CAST(a AS STRING) || 'x'", "ceil(a) + 1", "pmod(a, 0)",
    "a DIV 0",
]  # fmt: skip

OF_PAIRS = ["a DIV b", "pmod(a, b)", "mod(a, b)", "a & b", "a | b", "a ^ b", "greatest(a, b)", "least(a, b)",
            "nullif(a, b)", "nvl2(a, b, 0)", "a <=> b", "if(a = b, a, b)"]  # fmt: skip


@pytest.fixture(autouse=True)
def zone(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def admitted(types: list[Type], expressions: list[str]) -> list[str]:
    """Those that are not refused for arguments of these types."""
    found = []
    for expression in expressions:
        try:
            ours(types, [], [expression])
        except DeclarationError:
            continue
        found.append(expression)
    return found


@pytest.mark.parametrize("expressions", [OF_TEXTS, PATTERNS, CONDITIONS], ids=["texts", "patterns", "conditions"])
def test_functions_of_texts_are_sparks(spark: SparkSession, expressions: list[str]) -> None:
    """Empty texts, characters of one to four bytes, those that become several, and NULL; none of it raises."""
    assert not compare_with_spark(spark, [STRING], [(text,) for text in TEXTS], expressions)


def test_substring_is_sparks(spark: SparkSession) -> None:
    """Positions from both ends, none, and beyond; all lengths; of texts and bytes; of columns and constants."""
    texts = [text for text in TEXTS if text is None or len(text) < 4]
    rows = list(itertools.product(texts, WHOLE, WHOLE))
    compare_with_spark(spark, [STRING, INT, INT], rows, [
        "substring(a, b, c)", "substring(a, b)", "substring(a, -2, 1)", "substring('straße', b, c)", "left(a, b)",
        "substring(substring(a, 2), 1, length(a))", "right(a, c)", "repeat(a, b % 5)", "space(b % 5)", "chr(b)",
        "char(c)",
    ])  # fmt: skip
    some = [(None if text is None else text.encode(), b, c) for text, b, c in rows]
    compare_with_spark(spark, [BINARY, INT, INT], some, [
        "substring(a, b, c)", "left(a, b)", "length(a)", "octet_length(a)", "md5(a)", "concat(a, a)",
    ])  # fmt: skip


def test_letters_are_sparks_for_every_character(spark: SparkSession) -> None:
    """Every code point."""
    points = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point <= 0xDFFF]
    rows = [("".join(points[start : start + 64]),) for start in range(0, len(points), 64)]
    compare_with_spark(
        spark, [STRING], rows, ["upper(a)", "lower(a)", "initcap(a)", "reverse(a)", "ascii(substring(a, 7))"]
    )


@pytest.mark.parametrize("type_", [DATE, TIMESTAMP, TIMESTAMP_NTZ], ids=str)
def test_functions_of_dates_and_times_are_sparks(spark: SparkSession, type_: Type) -> None:
    """Before 1582 and 1970, in the year 9999, where Berlin's clocks change, and NULL."""
    expressions = [*OF_MOMENTS, *(f"unix_{unit}(a)" for unit in ("seconds", "millis", "micros") if type_ == TIMESTAMP)]
    errors = compare_with_spark(spark, [type_], [(value,) for value in edge_values(type_)], expressions)
    assert all(codes == {"DATETIME_OVERFLOW"} for codes in errors.values()) and errors


def test_functions_of_texts_that_are_dates_are_sparks(spark: SparkSession) -> None:
    """Spark converts them first."""
    texts = ["2020-01-31", "2020-02-29 10:11:12.5", None, "x"]
    expressions = [each for each in OF_MOMENTS if "INTERVAL" not in each and "unix_timestamp" not in each]
    errors = compare_with_spark(spark, [STRING], [(text,) for text in texts], admitted([STRING], expressions), False)
    assert set.union(*errors.values()) == {"CAST_INVALID_INPUT"}


def test_dates_are_counted_on_as_in_spark(spark: SparkSession) -> None:
    """By every number of days and months; what is no date raises."""
    counts = [0, 1, -1, 12, 31, 13, 2000, 9999, 10000, 2**31 - 1, -(2**31), 60, None]
    rows = list(itertools.product(edge_values(DATE), counts))
    errors = compare_with_spark(
        spark, [DATE, INT], rows, ["date_add(a, b)", "date_sub(a, b)", "add_months(a, b)", "a + b"]
    )
    assert set.union(*errors.values()) == {"DATETIME_OVERFLOW"}
    parts = itertools.product(
        (0, 1, 1582, 1970, 2024, 9999, -1, None), (0, 1, 2, 12, 13, None), (0, 1, 28, 29, 30, 31, 32, None)
    )
    rows = [row for row in parts if row[0] != 0 or row[1] not in (1, 2, 12)]  # Spark has a year 0
    rows = [row for row in rows if row[0] != -1]
    made = compare_with_spark(spark, [INT, INT, INT], rows, ["make_date(a, b, c)"])
    assert made == {"make_date(a, b, c)": {"DATETIME_FIELD_OUT_OF_BOUNDS"}}


def test_numbers_since_1970_are_times_as_in_spark(spark: SparkSession) -> None:
    """Seconds, milliseconds, microseconds and days."""
    numbers = [(number,) for number in (0, 1, -1, 1700000000, 2932896, -719000, None)]
    expressions = ["timestamp_seconds(a)", "timestamp_millis(a)", "timestamp_micros(a)"]
    assert not compare_with_spark(spark, [BIGINT], numbers, expressions)
    some = [row for row in numbers if row[0] != 1700000000]
    assert not compare_with_spark(spark, [INT], some, [*expressions, "date_from_unix_date(a)"])
    (beyond,) = ours([INT], [(2932897,), (-719163,)], ["date_from_unix_date(a)"])
    assert set(beyond.codes.values()) == {"DATETIME_OVERFLOW"}


@pytest.mark.parametrize("type_", [TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, *DECIMALS], ids=str)
def test_functions_of_numbers_are_sparks(spark: SparkSession, type_: Type) -> None:
    """Of every type, its ends, fractions that are halves, NaN, infinities and zeros of both signs."""
    expressions = admitted([type_], OF_NUMBERS)
    assert len(expressions) >= 20
    compare_with_spark(
        spark, [type_], [(value,) for value in edge_values(type_)], expressions, type_ in (BIGINT, DOUBLE)
    )


@pytest.mark.parametrize("type_", [TINYINT, SMALLINT, INT, BIGINT, DOUBLE, DECIMALS[2]], ids=str)
def test_functions_of_two_numbers_are_sparks(spark: SparkSession, type_: Type) -> None:
    """Each edge with each other."""
    values = [*domain(type_, extremes=True), None]
    rows = list(itertools.product(values, values))
    compare_with_spark(spark, [type_, type_], rows, admitted([type_, type_], OF_PAIRS), type_ == BIGINT)


def test_tests_of_truth_are_sparks(spark: SparkSession) -> None:
    """IS TRUE and its kin, IF, NVL."""
    compare_with_spark(spark, [BOOLEAN], [(True,), (False,), (None,)], [
        "a IS TRUE", "a IS NOT TRUE", "a IS FALSE", "a IS NOT FALSE", "a IS UNKNOWN", "a IS NOT UNKNOWN",
        "NOT a IS TRUE",
        "(a IS TRUE) = a", "if(a, 1, 2)", "if(NULL, 1, 2)", "nvl(a, TRUE)", "bit_count(a)", "a <=> TRUE",
        "greatest(a, FALSE)",
    ])  # fmt: skip


@pytest.mark.parametrize(("precision", "scale"), [(18, 3), (34, 3), (35, 0), (37, 2), (38, 0), (38, 30)])
def test_unary_minus_of_decimals_is_sparks(spark: SparkSession, precision: int, scale: int) -> None:
    """Beyond 34 digits Spark rounds to even, and raises what then has a digit too many."""
    unscaled = [0, 1, 10**17, 10**33 + 5, 10**34 - 1, 10**34, 10**34 + 5, 10**34 + 15, 10**35 + 50, 10**35 + 150,
                10**36 + 501, 12345678901234567890123456789012345678, 10**precision - 1]  # fmt: skip
    values = [Decimal(f"{n}E-{scale}") for n in unscaled if n < 10**precision]
    rows = [(value,) for one in values for value in (one, one.copy_negate())]
    raised = compare_with_spark(spark, [Type("DECIMAL", precision, scale)], [*rows, (None,)], ["(- a)"])
    assert raised == ({"(- a)": {"NUMERIC_VALUE_OUT_OF_RANGE"}} if precision > 34 else {})


def test_every_function_stands_in_a_test() -> None:
    """Every name by which one can be called is written in this file, or in that of nested values."""
    here = Path(__file__)
    text = (here.read_text() + here.with_name("test_nested_functions_spark.py").read_text()).lower()
    written = {name for name in BY_NAME if name.isidentifier()} - {"unix_seconds", "unix_millis", "unix_micros"}
    ways = ("{}(", " {} '", '"{}"', " {} ")
    assert not {name for name in written if not any(way.format(name) in text for way in ways)}


def test_decimals_of_every_width_have_absolute_values() -> None:
    """Unscaled numbers and decimal128 alike, their ends too."""
    for type_ in (t for t in CORE_TYPES if t.is_decimal):
        values = [value for value in domain(type_, extremes=True) if value is not None]
        physical = to_physical(pa.array(values, logical_type(type_)), type_)
        array, _ = FUNCTIONS["abs"].kernel([physical], [type_], "UTC")
        assert to_logical(array, type_).to_pylist() == [Decimal(value).copy_abs() for value in values]


def test_dates_before_the_calendar_changed_are_gregorian() -> None:
    """As java.time has them."""
    assert MOMENTS[1].date() == datetime.date(1582, 10, 4)
    (one,) = ours([DATE], [(datetime.date(1582, 10, 4),)], ["date_add(a, 1)"])
    assert one.values == [datetime.date(1582, 10, 5)]
