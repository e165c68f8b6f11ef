"""Values at the edges of every type, for tests that compare what is computed of them with Spark."""

from __future__ import annotations

import datetime
import decimal as python_decimal
import math
from decimal import Decimal
from typing import Any

import numpy as np

from oracle.strategies import domain
from viewkeeper.catalog.types import INTEGER_BITS, STRING, Type, decimal

DECIMALS = (decimal(5, 2), decimal(9, 9), decimal(15, 2), decimal(18, 0), decimal(18, 6), decimal(25, 4),
            decimal(38, 0), decimal(38, 10), decimal(38, 38))  # fmt: skip

TEXTS = [
    "", "a", "straße", "ﬁn", "ǆ", "ŉ", "ΐ", "日本語", "𝄞x", "é", "ae\u0301", "A b\tc", "i\u0307", " x ", "  ", "%",
    "a%b_c\\d", "line\nbreak", "ΑΣ ΣΑΣ", "aXbXc", "İstanbul ǅ", None,
]  # fmt: skip

MOMENTS = [
    datetime.datetime(1, 3, 2),
    datetime.datetime(1582, 10, 4, 23),
    datetime.datetime(1582, 10, 15),
    datetime.datetime(1900, 1, 1, 0, 0, 0, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime.datetime(1970, 1, 1),
    datetime.datetime(2023, 12, 31, 23, 0, 1),
    datetime.datetime(2024, 2, 29, 12),
    datetime.datetime(2024, 3, 31, 0, 30, 1, 500000),
    datetime.datetime(2024, 3, 31, 2, 30),
    datetime.datetime(2024, 10, 26, 23, 30),
    datetime.datetime(2024, 10, 27, 0, 15, 7, 123456),
    datetime.datetime(2024, 10, 27, 0, 30),
    datetime.datetime(2024, 10, 27, 1, 30, 0, 120),
    datetime.datetime(2038, 1, 19, 3, 14, 8),
    datetime.datetime(2050, 6, 30, 23),
    datetime.datetime(9999, 12, 30, 23, 59, 59, 999999),
]
"""Around the change of the calendar, of the epoch, and of Berlin's clocks."""

_NUMBERS = [
    "0", "1", "-1", "1.5", "2.5", "-2.5", "127", "128", "-128", "-129", "127.9", "-128.9", "32767.5", "32768", "0.1",
    "2147483647", "2147483648", "-2147483649", "2147483647.9999999999999", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "99999.99", "0.005", "0.0049999", "1e20", "1e37",
]  # fmt: skip

WRITTEN = [
    "", "  ", " 5 ", "+5", "-5", "5.0", "5.", "x", ".5", "127", "128", "-129", "32768", "2147483648", "12 3", "1_0",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "１２", "--1",
    "00000000000000000000005", "1.5", "1e3", "1E-3", "1.5e400", "-1.5e400", "1e-400", "NaN", "nan", "-NaN", "+NaN",
    "Infinity", "-infinity", "inf", "+inf", "- inf", "1d", "1.5F", "1L", "0x1p3", "0x1.8p1d", "0x", "true", " T ",
    "yes", "no", "0", "1", "TRUE", "on", "f", "2020", "2020-1", "2020-01-05", "2020-1-5 ", "2020-01-05 10:11",
    "2020-01-05 10", "2020-01-05T10:11:12.5", "2020-01-05 10:11:12.123456789", "2020-01-05 10:11:12.", "2020-02-30",
    "2020-13-01", "2020-00-01", "2020-01-05 24:00:00", "2020-01-05 23:60:00", "20200105", "2020-01-05 10:00:00+01:00",
    "2020-01-05 10:00:00 +1:00", "2020-01-05 10:00:00-7", "2020-01-05 10:00:00+0730", "2020-01-05 10:00:00+19:00",
    "2020-01-05 10:00:00+18:00", "2020-01-05 10:00:00 UTC", "2020-01-05 10:00:00Z", "2020-01-05 10:00:00 UTC+8",
    "2020-01-05 10:00:00 GMT-03:30", "2020-01-05 10:00:00 America/New_York", "2020-01-05 10:00:00 PST",
    "2020-01-05 10:00:00 EST", "2020-01-05 10:00:00 Foo/Bar", "2020-01-05 10:00:00 europe/berlin", "2020-01-05x",
    "2020-01-05 x", "2020-01-05Tzzz", "0001-03-01", "0001-03-01 00:00:00", "9999-12-31", "9999-12-31 12:00:00.999999",
    "+2020-01-05", "+2020-01-05 10:11:12", "999-01-01", "02020-01-05", "1582-10-10", "1582-10-04 12:00:00",
    "2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-10-27 02:30:00.5", "1969-12-31 23:59:59", "2038-01-19 03:14:08",
    "\t12\n", "\x7f7\x7f", "1.23456789012345678901234567890", "99999999999999999999999999999999999999",
    "100000000000000000000000000000000000000", "0.000000000000000000000000000000000000005", "1.005", "1.004999999",
    "-1.005", "999.995", "999.994", "16777217", "1.17549435E-38", "3.4028236e38", "0.1", "123456789.123", "4.9e-324",
    "2.4703282292062328e-324", "1e23", "9007199254740993", "2020-01-05 10:11:12.5 Europe/Paris",
    "2020-01-05 10:11:12.5+01:00", "2020-01-05 1:2:3", "2020-01-05  10:11:12", "2020-01-05 10:11:12 .5", "1e10", "1E+5",
    "+.5e1", "1 ", "1\u00a0", None,
]  # fmt: skip
"""Texts of which some are numbers, dates or times, or nearly."""

BEYOND = ["0000-01-01", "-0001-01-01", "10000-01-01", "12345678-01-01"]
"""Dates that Spark has, and we have not; and one that nobody has."""


def edge_values(type_: Type) -> list[Any]:
    """The edges of `type_`, and NULL; texts are those of `WRITTEN`."""
    if type_ == STRING:
        return WRITTEN
    if type_.name == "DATE":
        ends = [datetime.date(2024, 1, 31), datetime.date(2020, 12, 31), datetime.date(2021, 1, 3)]
        return [moment.date() for moment in MOMENTS] + ends + [datetime.date(9999, 12, 31), None]
    if type_.name.startswith("TIMESTAMP"):
        zone = datetime.UTC if type_.name == "TIMESTAMP" else None
        return [moment.replace(tzinfo=zone) for moment in MOMENTS] + [None]
    if type_.is_decimal:
        return _decimals(type_)
    if type_.is_float:
        special = [math.nan, math.inf, -math.inf, -0.0, 9.223372036854775e18, 1.7976931348623157e308, 5e-324, 1e-45,
                   3.4028235677973366e38, 1.9999999]  # fmt: skip
        values = [float(number) for number in _NUMBERS] + special
        with np.errstate(over="ignore"):
            return [float(np.float32(value)) if type_.name == "FLOAT" else value for value in values] + [None]
    if type_.is_integer:
        bound = 1 << (INTEGER_BITS[type_.name] - 1)
        near = [0, 1, -1, 5, 127, 128, -128, -129, 32767, 32768, -32769, 2**31 - 1, 2**31, -(2**31) - 1, bound - 1,
                -bound, 99999, 10**9 + 5]  # fmt: skip
        return [*sorted({number for number in near if -bound <= number < bound}), None]
    return [*domain(type_, extremes=True), None]


def _decimals(type_: Type) -> list[Decimal | None]:
    unit = Decimal(1).scaleb(-type_.scale)
    with python_decimal.localcontext(prec=100):
        cut = [Decimal(number).quantize(unit, rounding="ROUND_DOWN") for number in _NUMBERS]
    fitting = [number for number in cut if not number or number.adjusted() < type_.precision - type_.scale]
    ends = [Decimal((sign, (9,) * type_.precision, -type_.scale)) for sign in (0, 1)]
    return [*fitting, *ends, None]
