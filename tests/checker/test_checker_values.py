"""Single values follow Spark's rules, and sums are exact."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewkeeper.catalog.types import BIGINT, DATE, DOUBLE, FLOAT, INT, TIMESTAMP, TIMESTAMP_NTZ, TINYINT, decimal
from viewkeeper.checker.value_rules import (
    Raised,
    arithmetic,
    canonical,
    compare,
    convert,
    exact_average,
    exact_float_sum,
    exact_sum,
    negate,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FINITE, max_size=20))
def test_a_float_sum_is_the_exact_sum_rounded_once(values: list[float]) -> None:
    """The sum of fractions, rounded to the nearest double, or infinity beyond the greatest."""
    exact = sum(map(Fraction, values), Fraction(0))
    try:
        wanted = float(exact)
    except OverflowError:
        wanted = math.inf if exact > 0 else -math.inf
    assert exact_float_sum(values) == wanted


@given(st.lists(FINITE, max_size=10), st.randoms())
def test_a_float_sum_does_not_depend_on_order(values: list[float], random: object) -> None:
    """Any order of the rows gives the same bits."""
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert exact_float_sum(shuffled).hex() == exact_float_sum(values).hex()


@pytest.mark.parametrize(
    ("values", "wanted"),
    [([math.inf, 1.0], math.inf), ([math.inf, -math.inf], math.nan), ([math.nan, math.inf], math.nan),
     ([1.7976931348623157e308] * 2, math.inf), ([1.1e31, -1.1e31], 0.0), ([0.1] * 10, 1.0)],
)  # fmt: skip
def test_special_floats_sum_as_in_ieee(values: list[float], wanted: float) -> None:
    """NaN and infinities as IEEE 754 has them; what cancels, cancels."""
    assert canonical(exact_float_sum(values)) is wanted or exact_float_sum(values) == wanted


def test_an_integer_sum_overflows_only_if_the_exact_sum_does() -> None:
    """Intermediate sums may leave BIGINT; the final one may not."""
    top = 2**63 - 1
    assert exact_sum([top, top, -top], BIGINT, BIGINT, None) == top
    with pytest.raises(Raised, match="ARITHMETIC_OVERFLOW"):
        exact_sum([top, 1], BIGINT, BIGINT, None)


def test_a_decimal_sum_overflows_only_if_the_exact_sum_does() -> None:
    """Twelve times 10^19 does not fit DECIMAL(38,18), nine times does (a trap of other systems)."""
    big, type_ = Decimal("1e19"), decimal(38, 18)
    assert exact_sum([big] * 9, type_, type_, None) == 9 * big
    with pytest.raises(Raised, match="ARITHMETIC_OVERFLOW"):
        exact_sum([big] * 12, type_, type_, None)


def test_an_average_of_decimals_is_rounded_half_up_at_four_more_digits() -> None:
    """AVG of DECIMAL(15,2) is DECIMAL(19,6): 0.01 / 3 = 0.003333, 0.05 / 2000000 = 0.000000(025)."""
    assert exact_average([Decimal("0.01"), Decimal(0), Decimal(0)], decimal(15, 2), decimal(19, 6), None) == Decimal(
        "0.003333"
    )
    assert exact_average([Decimal("0.01"), Decimal("0.02")], decimal(3, 2), decimal(7, 2), None) == Decimal("0.02")


def test_an_average_of_integers_is_the_exact_sum_by_the_count() -> None:
    """The sum may leave BIGINT; it is rounded once."""
    assert exact_average([2**63 - 1] * 3, BIGINT, DOUBLE, None) == float(3 * (2**63 - 1)) / 3


@pytest.mark.parametrize(
    ("operator", "left", "right", "type_", "wanted"),
    [
        ("+", 100, 27, TINYINT, 127),
        ("*", Decimal("1.25"), Decimal("0.3"), decimal(6, 3), Decimal("0.375")),
        ("*", Decimal("0.05"), Decimal("0.1"), decimal(38, 2), Decimal("0.01")),
        ("*", Decimal("-0.05"), Decimal("0.1"), decimal(38, 2), Decimal("-0.01")),
        ("+", 16777216.0, 1.0, FLOAT, 16777216.0),
        ("*", 3e38, 10.0, FLOAT, math.inf),
        ("*", 1e308, 10.0, DOUBLE, math.inf),
    ],
)
def test_arithmetic(operator: str, left: object, right: object, type_: object, wanted: object) -> None:
    """Decimals round HALF_UP, floats go to infinity, FLOAT is computed in single precision."""
    assert arithmetic(operator, left, right, type_, None) == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("operator", "left", "right", "type_", "code"),
    [
        ("+", 127, 1, TINYINT, "ARITHMETIC_OVERFLOW"),
        ("-", -(2**31), 1, INT, "ARITHMETIC_OVERFLOW"),
        ("*", 2**62, 2, BIGINT, "ARITHMETIC_OVERFLOW"),
        ("+", Decimal(99), Decimal(1), decimal(2, 0), "NUMERIC_VALUE_OUT_OF_RANGE"),
        ("+", Decimal("9.95"), Decimal("0.04"), decimal(2, 1), "NUMERIC_VALUE_OUT_OF_RANGE"),
    ],
)
def test_overflow_raises_with_its_place(operator: str, left: object, right: object, type_: object, code: str) -> None:
    """What does not fit raises, naming where in the statement; rounding may be what makes it not fit."""
    with pytest.raises(Raised, match=code) as raised:
        arithmetic(operator, left, right, type_, (3, 14))  # type: ignore[arg-type]
    assert raised.value.place == (3, 14)


def test_the_smallest_integer_has_no_opposite() -> None:
    """- (-128) overflows a TINYINT; decimals and floats are symmetric."""
    with pytest.raises(Raised):
        negate(-128, TINYINT, None)
    assert negate(Decimal("-99"), decimal(2, 0), None) == 99


@pytest.mark.parametrize(
    ("operator", "left", "right", "wanted"),
    [
        ("=", math.nan, math.nan, True), ("=", 0.0, -0.0, True), (">", math.nan, math.inf, True),
        ("<", "Z", "a", True), ("<", "￿", "𝄞", True), ("<", b"\x7f", b"\x80", True),
        ("=", None, 1, None), ("<=>", None, None, True), ("<=>", None, 1, False), ("<>", 1, None, None),
    ],
)  # fmt: skip
def test_comparison(operator: str, left: object, right: object, wanted: bool | None) -> None:
    """NaN is greatest and equals itself, zeros are equal, strings go by their UTF-8 bytes, NULL is unknown."""
    assert compare(operator, left, right) is wanted


def test_midnight_is_that_of_the_databases_zone() -> None:
    """A DATE becomes the instant at which its day begins there; a day without midnight begins after the gap."""
    day, paris = datetime.date(2024, 7, 1), "Europe/Paris"
    assert convert(day, DATE, TIMESTAMP, paris, None) == datetime.datetime(2024, 6, 30, 22, tzinfo=datetime.UTC)
    assert convert(day, DATE, TIMESTAMP_NTZ, paris, None) == datetime.datetime(2024, 7, 1)
    gap = convert(datetime.date(2018, 11, 4), DATE, TIMESTAMP, "America/Sao_Paulo", None)
    assert gap == datetime.datetime(2018, 11, 4, 3, tzinfo=datetime.UTC)


def test_a_bigint_is_rounded_once_to_float() -> None:
    """By way of a double it would be rounded twice, and differ from Spark."""
    assert convert(2**60 + 2**36 + 1, BIGINT, FLOAT, "UTC", None) == float(2**60 + 2**37)
