"""Single claims about expressions: where evaluation stops, what is equal, how days and zones are read."""

import math
import struct
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from evaluate_oracle import array_of
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    decimal,
    physical_type,
)
from viewkeeper.evaluation.error_codes import (
    ARITHMETIC_OVERFLOW,
    NUMERIC_VALUE_OUT_OF_RANGE,
    format_error,
    pack_error,
    unpack_error,
)
from viewkeeper.evaluation.evaluate import evaluate, predicate
from viewkeeper.plans import expressions as ir


def column(type_, index=0):
    return ir.ColumnRef(type_, True, None, index, f"c{index}")


OVERFLOW = pack_error(ARITHMETIC_OVERFLOW, (1, 8))
TOO_MUCH = ir.comparison(
    ">", ir.Arithmetic(BIGINT, True, (1, 8), "+", column(BIGINT), column(BIGINT)), ir.Literal(BIGINT, False, None, 0)
)
FALSE, NULL = ir.Literal(BOOLEAN, False, None, False), ir.Literal(BOOLEAN, True, None, None)


@pytest.mark.parametrize(
    ("arguments", "value", "error"),
    [
        ((FALSE, TOO_MUCH), 0, None),
        ((TOO_MUCH, FALSE), None, OVERFLOW),
        ((NULL, TOO_MUCH), None, OVERFLOW),
        ((NULL, FALSE, TOO_MUCH), 0, None),
        ((NULL, TOO_MUCH, FALSE), None, OVERFLOW),
    ],
)
def test_and_stops_at_the_first_false_and_nowhere_else(arguments, value, error):
    """An error behind FALSE does not exist; one before it, or behind NULL, does."""
    array, errors = evaluate(ir.And(BOOLEAN, True, None, arguments), [pa.array([2**62])], 1)
    assert array.to_pylist() == [value]
    assert (None if errors is None else errors.tolist()) == (None if error is None else [error])


def test_an_error_row_is_not_kept_and_is_named():
    """`predicate` keeps TRUE rows only, and gives the packed error of the others that raise."""
    keep, errors = predicate(TOO_MUCH, [pa.array([1, 2**62, None, -5])], 4)
    assert keep.tolist() == [True, False, False, False]
    assert errors.tolist() == [0, OVERFLOW, 0, 0]
    assert unpack_error(OVERFLOW) == (ARITHMETIC_OVERFLOW, (1, 8))
    assert format_error(OVERFLOW) == "ARITHMETIC_OVERFLOW (line 1, column 8)"
    assert unpack_error(pack_error(NUMERIC_VALUE_OUT_OF_RANGE, None)) == (NUMERIC_VALUE_OUT_OF_RANGE, None)


def test_a_sliced_column_is_read_at_its_offset():
    """Values and NULLs of an array that is a slice of another are its own."""
    numbers, flags, texts = [1, None, 3, None, 5], [True, None, False, None, True], ["a", None, "c", None, "e"]
    for type_, values in [(BIGINT, numbers), (decimal(20, 0), numbers), (BOOLEAN, flags), (STRING, texts)]:
        piece = array_of(values * 4, type_).slice(7, 9)
        expected = [value is not None for value in (values * 4)[7:16]]
        node = ir.Not(BOOLEAN, False, None, ir.IsNull(BOOLEAN, False, None, column(type_)))
        assert predicate(node, [piece], 9)[0].tolist() == expected
        equal = ir.comparison("<=>", column(type_), column(type_, 1))
        assert predicate(equal, [piece, array_of((values * 4)[7:16], type_)], 9)[0].all()


def microseconds(*moments):
    return [None if m is None else (m - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) for m in moments]


def test_a_date_becomes_the_first_moment_of_the_day_in_the_databases_zone():
    """DATE to TIMESTAMP: midnight there, or what comes first where midnight is skipped."""
    days = [date(1970, 1, 1), None, date(2016, 10, 16), date(2016, 7, 18)]  # Sao Paulo, 2016-10-16, began at 01:00
    numbers = pa.array([None if day is None else (day - date(1970, 1, 1)).days for day in days], pa.int32())
    zone = ZoneInfo("America/Sao_Paulo")
    array, errors = evaluate(ir.Cast(TIMESTAMP, True, None, column(DATE)), [numbers], 4, zone=zone.key)
    starts = [datetime(1970, 1, 1, tzinfo=zone), None, datetime(2016, 10, 16, 1, tzinfo=zone),
              datetime(2016, 7, 18, tzinfo=zone)]  # fmt: skip
    assert errors is None and array.to_pylist() == microseconds(*starts)


def test_a_timestamp_as_written_is_read_in_the_databases_zone():
    """TIMESTAMP_NTZ to TIMESTAMP: a skipped hour, and one shown twice, are read with the clock before the change."""
    zone = ZoneInfo("Europe/Berlin")
    written = [datetime(2024, 3, 31, 2, 30, 0, 1), datetime(2024, 10, 27, 2, 30), None, datetime(2024, 7, 1, 12)]
    numbers = pa.array(microseconds(*(w and w.replace(tzinfo=UTC) for w in written)), pa.int64())
    array, _ = evaluate(ir.Cast(TIMESTAMP, True, None, column(TIMESTAMP_NTZ)), [numbers], 4, zone=zone.key)
    utc = [datetime(2024, 3, 31, 1, 30, 0, 1, tzinfo=UTC), datetime(2024, 10, 27, 0, 30, tzinfo=UTC), None,
           datetime(2024, 7, 1, 10, tzinfo=UTC)]  # fmt: skip
    assert array.to_pylist() == microseconds(*utc)


def test_a_string_becomes_its_bytes():
    """STRING to BINARY is UTF-8, for columns and constants alike."""
    for node in (column(STRING), ir.Literal(STRING, False, None, "\u00e9")):
        array, _ = evaluate(ir.Cast(BINARY, True, None, node), [pa.array(["\u00e9"], pa.large_string())], 1)
        assert array == pa.array(["\u00e9".encode()], pa.large_binary())


@pytest.mark.parametrize("values", [[0.0, -0.0], [math.nan, struct.unpack("d", b"\x01" * 6 + b"\xf8\xff")[0]]])
def test_case_43_zeros_are_one_value_and_so_are_nans(values):
    """0.0 and -0.0 are equal, and NaN equals NaN with other bits, in =, <=>, <= and IN."""
    left, right = pa.array(values), pa.array(values[::-1])
    for operator in ("=", "<=>", "<=", ">="):
        assert predicate(ir.comparison(operator, column(DOUBLE), column(DOUBLE, 1)), [left, right], 2)[0].all()
    options = tuple(ir.Literal(DOUBLE, False, None, value) for value in (values[0], 7.0))
    assert predicate(ir.In(BOOLEAN, False, None, column(DOUBLE), options), [right], 2)[0].all()


def test_case_45_a_decimal_is_equal_at_another_scale():
    """0.1 as DECIMAL(2,1) equals 0.10 as DECIMAL(20,2) once both have their common type."""
    wide_type = decimal(20, 2)
    cast = ir.Cast(wide_type, True, None, column(decimal(2, 1)))
    tenths, hundredths = array_of([1], decimal(2, 1)), array_of([10], wide_type)
    assert predicate(ir.comparison("=", cast, column(wide_type, 1)), [tenths, hundredths], 1)[0].all()


def test_a_literal_date_or_timestamp_is_its_physical_number():
    """Python's date and datetime literals compare as the days and microseconds that columns hold."""
    cases = [(DATE, date(2020, 1, 1), 18262), (TIMESTAMP, datetime(1969, 12, 31, 23, tzinfo=UTC), -3_600_000_000),
             (TIMESTAMP_NTZ, datetime(1970, 1, 1, 0, 0, 0, 7), 7)]  # fmt: skip
    for type_, value, number in cases:
        array, _ = evaluate(ir.Literal(type_, False, None, value), [], 2)
        assert array == pa.array([number] * 2, physical_type(type_))


def test_a_cast_that_does_not_exist_is_refused():
    """There is no closure for DATE to INT: the compiler must not ask for it."""
    with pytest.raises(TypeError, match="DATE to INT"):
        evaluate(ir.Cast(INT, True, None, column(DATE)), [pa.array([1], pa.int32())], 1)
