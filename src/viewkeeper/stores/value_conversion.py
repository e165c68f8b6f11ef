"""Single Python values to physical ones and back; only conversions that lose nothing (and floats rounded to FLOAT).

A converter raises `ValueRefused` with the reason alone; its callers know table, row and column.
"""

from __future__ import annotations

import datetime
import math
import numbers
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from viewkeeper.catalog.text_lengths import fitted_one
from viewkeeper.catalog.time_zones import limits
from viewkeeper.catalog.types import (
    DECLARED_TEXTS,
    INTEGER_BITS,
    INTERVALS,
    Type,
    as_held,
    of_parts,
    physical_type,
    to_logical,
)  # fmt: skip
from viewkeeper.changes.layout import scaled, unscaled
from viewkeeper.errors import Error
from viewkeeper.files import Number
from viewkeeper.stores.nested_conversion import array_from, map_from, struct_from

Converter = Callable[[Any], Any]

_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_DATE_TEXT = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP_TEXT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?")
_INTERVAL_TEXTS = {False: re.compile(r"([+-])?(\d{1,9}) ([01]?\d|2[0-3]):([0-5]?\d):([0-5]?\d)(?:\.(\d{1,6}))?"),
                   True: re.compile(r"([+-])?(\d{1,9})-(\d|0\d|1[01])")}  # fmt: skip


class ValueRefused(Exception):
    """A value that its column cannot hold; the message is the reason."""


def to_physical(type_: Type, zone: str) -> Converter:
    """What makes a physical value of `type_`, which may be a declared one, of a Python value that is not None; naive
    times are in `zone`."""
    if type_.is_integer:
        return _integer(INTEGER_BITS[type_.name])
    if type_.is_decimal:
        return _decimal(type_)
    if type_.name == "TIMESTAMP":
        return _timestamp(zone)
    if type_.is_interval:
        return _interval(type_)
    if type_.is_nested:
        convert = to_parts(type_, zone)
        return lambda value: of_parts([convert(value)], as_held(type_))[0].as_py()
    if type_.name in DECLARED_TEXTS:
        return _text_of(type_)
    return _CONVERTERS[type_.name]


def to_parts(type_: Type, zone: str) -> Converter:
    """`to_physical`, but of an array, struct or map what `of_parts` takes."""
    if not type_.is_nested:
        return to_physical(type_, zone)
    parts = [to_parts(part, zone) for _, part in type_.parts]
    if type_.name == "ARRAY":
        return array_from(parts[0], _refuse, ValueRefused)
    if type_.name == "MAP":
        return map_from(parts[0], parts[1], _refuse, ValueRefused)
    return struct_from([name for name, _ in type_.parts], parts, _refuse, ValueRefused)


def to_python(type_: Type, zone: str) -> Converter | None:
    """What makes the user's value of a physical value that is not None; None where they are the same."""
    if type_.is_decimal:
        return (lambda value: scaled(value, type_.scale)) if type_.precision <= 18 else None
    if type_.name == "TIMESTAMP":
        return aware(zone)
    if type_.is_time_interval:
        return lambda value: value * _MICROSECOND
    if type_.is_nested:
        return lambda value: to_logical(pa.array([value], physical_type(type_)), type_, zone)[0].as_py()
    return _TO_PYTHON.get(type_.name)


def aware(name: str) -> Converter:
    """What makes a datetime of microseconds since 1970, as clocks in the zone `name` show it; raises Error where they
    show no year from 1 to 9999."""
    zone = ZoneInfo(name)

    def convert(value: int) -> datetime.datetime:
        try:
            return (_EPOCH_UTC + value * _MICROSECOND).astimezone(zone)
        except OverflowError:
            # The first and last hours that clocks show lie outside these years in UTC, and do not change the clocks.
            offset = zone.utcoffset(datetime.datetime.min if value < 0 else datetime.datetime.max)
            assert offset is not None, "zones know their offsets"
            return _beyond(lambda: (_EPOCH + (value * _MICROSECOND + offset)).replace(tzinfo=zone))

    return convert


def _beyond(convert: Callable[[], Any]) -> Any:
    """A date or time that a view has computed."""
    try:
        return convert()
    except (OverflowError, ValueError):
        raise Error("a value is outside the years 1 to 9999, which are all that Python's dates and times have; "
                    "to_arrow() gives it") from None  # fmt: skip


def plain(value: Any) -> Any:
    """A NumPy scalar as the Python value it stands for; anything else as it is."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def _refuse(value: Any, expected: str) -> ValueRefused:
    text = repr(value)
    return ValueRefused(f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__}) is not {expected}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _boolean(value: Any) -> int:
    value = plain(value)
    if not isinstance(value, bool):
        raise _refuse(value, "True or False")
    return int(value)


def _integer(bits: int) -> Converter:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1

    def convert(value: Any) -> int:
        value = plain(value)
        if not _is_integer(value):
            raise _refuse(value, "an int")
        if not least <= value <= most:
            raise ValueRefused(f"{value} is outside {least} to {most}")
        return int(value)

    return convert


def _double(value: Any) -> float:
    value = plain(value)
    if isinstance(value, Number):
        value = float(value.text)
        if math.isinf(value):
            raise ValueRefused("the number is too great for a DOUBLE")
    if isinstance(value, float):
        return float(value)
    if not _is_integer(value):
        raise _refuse(value, "a float")
    try:
        converted = float(value)
    except OverflowError:
        raise ValueRefused(f"{value} is too great for a DOUBLE") from None
    if int(converted) != value:
        raise ValueRefused(f"{value} has no exact DOUBLE; give a float if rounding is meant")
    return converted


def _float(value: Any) -> float:
    value = plain(value)
    if _is_integer(value):
        rounded = _to_float32(_double(value))
        if rounded != value:
            raise ValueRefused(f"{value} has no exact FLOAT; give a float if rounding is meant")
        return rounded
    if not isinstance(value, (float, Number)):
        raise _refuse(value, "a float")
    return _to_float32(_double(value))


def _to_float32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        raise ValueRefused(f"{value} is too great for a FLOAT") from None


def _decimal(type_: Type) -> Converter:
    def convert(value: Any) -> Any:
        value = plain(value)
        if isinstance(value, Number):
            value = value.text
        if isinstance(value, str):
            try:
                number = Decimal(value)
            except InvalidOperation:
                raise _refuse(value, "a number") from None
        elif isinstance(value, Decimal) or _is_integer(value):
            number = Decimal(value)
        else:
            raise _refuse(value, "a Decimal, int or str")
        if not number.is_finite():
            raise ValueRefused(f"{value!r} is not finite")
        if number and number.adjusted() >= type_.precision - type_.scale:
            raise ValueRefused(f"{value} has more digits before the point than {type_}")
        if number and _last_digit(number) < -type_.scale:
            raise ValueRefused(f"{value} has more digits behind the point than {type_}")
        whole = unscaled(number, type_.scale) if number else 0
        return whole if type_.precision <= 18 else scaled(whole, type_.scale)

    return convert


def _last_digit(number: Decimal) -> int:
    """The exponent of the last digit that is not 0."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "finite numbers have an exponent"
    text = "".join(map(str, digits))
    return exponent + len(text) - len(text.rstrip("0"))


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _refuse(value, "a str")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueRefused(f"{value!r} holds what UTF-8 cannot") from None
    return str(value)


def _text_of(declared: Type) -> Converter:
    """A text for a VARCHAR or CHAR."""

    def converted(value: Any) -> str:
        text = _string(value)
        kept = fitted_one(text, declared)
        if kept is None:
            raise ValueRefused(f"{text!r} has {len(text)} characters, more than {declared}")
        return kept

    return converted


def _binary(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise _refuse(value, "bytes")
    return bytes(value)


def _date(value: Any) -> int:
    if isinstance(value, str):
        try:
            value = datetime.date.fromisoformat(value) if _DATE_TEXT.fullmatch(value) else value
        except ValueError as error:
            raise ValueRefused(f"{value!r}: {error}") from None
    if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
        raise _refuse(value, "a date (or YYYY-MM-DD)")
    return value.toordinal() - _EPOCH_DAY


def _datetime(value: Any) -> datetime.datetime:
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value) if _TIMESTAMP_TEXT.fullmatch(value) else value
        except ValueError as error:
            raise ValueRefused(f"{value!r}: {error}") from None
    if not isinstance(value, datetime.datetime) or value != value:  # NaT is a datetime that differs from itself.
        raise _refuse(value, "a datetime (or YYYY-MM-DD hh:mm:ss.ffffff)")
    if isinstance(nanosecond := getattr(value, "nanosecond", 0), numbers.Integral) and nanosecond:
        raise ValueRefused(f"{value} has nanoseconds")
    if type(value) is not datetime.datetime:  # pandas' own reckons in nanoseconds, which end in 2262
        value = datetime.datetime.combine(value.date(), value.time(), value.tzinfo).replace(fold=value.fold)
    return value


def _timestamp(name: str) -> Converter:
    zone, (least, greatest) = ZoneInfo(name), limits(name)

    def convert(value: Any) -> int:
        moment = _datetime(value)
        # A tzinfo that knows no offset leaves a datetime naive.
        aware = moment.replace(tzinfo=zone) if moment.utcoffset() is None else moment
        physical = (aware - _EPOCH_UTC) // _MICROSECOND
        if not least <= physical <= greatest:
            raise ValueRefused(
                f"{value} is outside the years 1 to 9999 in UTC" + (f" or {name}" if name != "UTC" else "")
            )
        return physical

    return convert


def _timestamp_ntz(value: Any) -> int:
    moment = _datetime(value)
    if moment.tzinfo:
        raise ValueRefused(f"{value} has a time zone, and the column has none")
    return (moment - _EPOCH) // _MICROSECOND


def _interval_length(fields: Sequence[str], of_months: bool) -> int:
    """Months, or microseconds, of the numbers of an interval's text."""
    if of_months:
        return 12 * int(fields[0]) + int(fields[1])
    days, hours, minutes, seconds, fraction = fields
    return (
        ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60_000_000
        + int(seconds) * 1_000_000
        + int(fraction.ljust(6, "0"))
    )


def interval_text(length: datetime.timedelta) -> str:
    """What `put` takes for it."""
    seconds, fraction = divmod(abs(length) // _MICROSECOND, 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{'-' * (length < datetime.timedelta())}{days} {clock}{f'.{fraction:06}' * bool(fraction)}"


def _interval(type_: Type) -> Converter:
    step, bound = INTERVALS[type_.name], 1 << (31 if type_.is_month_interval else 63)

    def convert(value: Any) -> int:
        written = isinstance(value, str) and _INTERVAL_TEXTS[type_.is_month_interval].fullmatch(value)
        if written:
            sign, *numbers_of = written.groups("0")
            length = _interval_length(numbers_of, type_.is_month_interval) * (-1 if sign == "-" else 1)
        elif type_.is_month_interval:
            length = plain(value)
            if not _is_integer(length):
                raise _refuse(value, "an int of months (or Y-M)")
        elif not isinstance(value, datetime.timedelta) or value != value:  # NaT is one that differs from itself
            raise _refuse(value, "a timedelta (or D hh:mm:ss.ffffff)")
        elif isinstance(nanoseconds := getattr(value, "nanoseconds", 0), numbers.Integral) and nanoseconds:
            raise ValueRefused(f"{value} has nanoseconds")
        else:
            length = value // _MICROSECOND
        if length % step or not -bound <= length < bound:
            raise ValueRefused(f"{value} is no {type_}")
        return int(length)

    return convert


_CONVERTERS: dict[str, Converter] = {
    "BOOLEAN": _boolean, "FLOAT": _float, "DOUBLE": _double, "STRING": _string, "BINARY": _binary, "DATE": _date,
    "TIMESTAMP_NTZ": _timestamp_ntz,
}  # fmt: skip
_TO_PYTHON: dict[str, Converter] = {
    "BOOLEAN": bool,
    "DATE": lambda value: _beyond(lambda: datetime.date.fromordinal(value + _EPOCH_DAY)),
    "TIMESTAMP_NTZ": lambda value: _beyond(lambda: _EPOCH + value * _MICROSECOND),
}
