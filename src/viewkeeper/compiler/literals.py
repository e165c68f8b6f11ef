"""Constants: what a written literal means, and what a text means as a number, date or moment (Spark's rules)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from viewkeeper.catalog.time_zones import limits, start_of_day
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME,
    DOUBLE,
    FLOAT,
    INT,
    INTEGER_BITS,
    MAX_PRECISION,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    VOID,
    Type,
    decimal,
)  # fmt: skip
from viewkeeper.evaluation.text_numbers import rescale

SUFFIXES = {"L": BIGINT, "S": SMALLINT, "Y": TINYINT, "D": DOUBLE, "F": FLOAT}

_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)

_SPACE = r"[\x00-\x20]*"
_INTEGER = re.compile(rf"{_SPACE}[+-]?\d+{_SPACE}", re.ASCII)
_REAL = re.compile(rf"{_SPACE}[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?{_SPACE}", re.ASCII)
_DATE = r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
_DATE_TEXT = re.compile(rf"{_SPACE}{_DATE}(?:[ T].*)?)?)?{_SPACE}", re.ASCII | re.DOTALL)
_MOMENT_TEXT = re.compile(
    rf"{_SPACE}{_DATE}(?:[ T](\d{{1,2}}):(\d{{1,2}})(?::(\d{{1,2}})(?:\.(\d{{1,9}}))?)?"
    rf"\s*(Z|UTC|[+-]\d\d:\d\d|\w+/\w+)?)?)?)?{_SPACE}",
    re.ASCII,
)
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\"""", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[01][0-7]{2}|.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_GAP = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)


def number(text: str, suffix: str = "") -> tuple[Type, Any]:
    """Type and value of a number as written, its sign in front, without `suffix` (L, S, Y, D, F, BD or nothing).

    Raises ValueError with the reason where there is no such number.
    """
    if suffix in ("D", "F") or (not suffix and re.search("[eE]", text)):
        value = float(np.float32(text)) if suffix == "F" else float(text)
        if math.isinf(value):
            raise ValueError(f"{text} is too large for a {SUFFIXES.get(suffix, DOUBLE)}")
        return SUFFIXES.get(suffix, DOUBLE), value
    if suffix == "BD" or (not suffix and "." in text):
        return _decimal(text)
    integer = int(text)
    if suffix:
        if not _fits(integer, SUFFIXES[suffix]):
            raise ValueError(f"{text} is too large for a {SUFFIXES[suffix]}")
        return SUFFIXES[suffix], integer
    for type_ in (INT, BIGINT):
        if _fits(integer, type_):
            return type_, integer
    return _decimal(text)


def given(value: object, zone: str) -> tuple[Type, Any]:
    """Type and value of what a user gives for a parameter, as PySpark types it; naive times are those of `zone`.

    Raises ValueError with the reason where there is no such constant.
    """
    if isinstance(value, np.bool_ | np.integer | np.floating):
        value = value.item()
    if value is None or isinstance(value, bool):
        return VOID if value is None else BOOLEAN, value
    if isinstance(value, int):
        return number(str(value))
    if isinstance(value, float):
        return DOUBLE, value
    if isinstance(value, Decimal) and value.is_finite():
        return _decimal(f"{value:f}")
    if isinstance(value, str):
        if _SURROGATE.search(value):
            raise ValueError("it holds what is no character")
        return STRING, value
    if isinstance(value, bytes):
        return BINARY, value
    if isinstance(value, datetime):
        written = ZoneInfo(zone) if value.tzinfo is None else value.tzinfo
        return TIMESTAMP, to_utc(value.replace(tzinfo=None), written, zone)
    if isinstance(value, date):
        return DATE, value
    if isinstance(value, timedelta) and abs(value) < timedelta(microseconds=1 << 63):
        return DAY_TIME, value
    raise ValueError(f"{value!r} is no constant of SQL; there are None, bool, int, float, Decimal, str, bytes, date, "
                     "datetime and timedelta")  # fmt: skip


def written(type_: Type, value: Any) -> str:
    """A constant of `given`'s as words that mean the same to our own reading and to Spark's."""
    if value is None:
        return "NULL"
    if type_ == STRING:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if type_ == BINARY:
        return f"X'{value.hex()}'"
    if type_ == DATE:
        return f"DATE '{value.isoformat()}'"
    if type_ == TIMESTAMP:
        return f"TIMESTAMP_LTZ '{value.astimezone(UTC).isoformat(sep=' ')}'"
    if type_.name == "TIMESTAMP_NTZ":
        return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
    if type_ == DAY_TIME:
        return f"INTERVAL '{_day_time(value)}' DAY TO SECOND"
    if type_.is_float:
        return f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
    return f"{value:f}BD" if type_.is_decimal else str(value).upper()


def _day_time(value: timedelta) -> str:
    seconds, microseconds = divmod(abs(value) // _MICROSECOND, 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    sign = "-" if value < timedelta() else ""
    return f"{sign}{days} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{microseconds:06}"


def _decimal(text: str) -> tuple[Type, Decimal]:
    value = Decimal(text)
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if exponent > 0:
        digits, exponent = digits + (0,) * exponent, 0
    precision = max(len(digits), -exponent)
    if precision > MAX_PRECISION:
        raise ValueError(f"{text} has {precision} digits, and a DECIMAL at most {MAX_PRECISION}")
    return decimal(precision, -exponent), rescale(value, -exponent)


def _fits(value: int, type_: Type) -> bool:
    limit = 1 << (INTEGER_BITS[type_.name] - 1)
    return -limit <= value < limit


def smallest_decimal(value: int) -> Type:
    """The DECIMAL that Spark gives an integer constant beside a DECIMAL (`DecimalType.fromDecimal`)."""
    return decimal(len(str(abs(value))), 0)


def strings(text: str, offset: int) -> tuple[str, int]:
    """The value of the string literals that stand side by side from `offset` on, and how many they are."""
    parts = []
    match = _QUOTED.match(text, offset)
    while match:
        quote = match[0][0]
        parts.append(_ESCAPE.sub(_unescape, match[0][1:-1].replace(quote * 2, quote)))
        gap = _GAP.match(text, match.end())
        match = _QUOTED.match(text, gap.end() if gap else match.end())
    return _well_formed("".join(parts)), len(parts)


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "uU" and len(code) > 1:
        number = int(code[1:], 16)
        if number < 0x10000:
            return chr(number)
        # As Java splits it, which does so beyond Unicode's end, too.
        return chr(((number >> 10) + 0xD7C0) & 0xFFFF) + chr((number & 0x3FF) + 0xDC00)
    return chr(int(code, 8)) if len(code) == 3 else _ESCAPED.get(code, code)


def _well_formed(text: str) -> str:
    """Pairs of surrogates as the characters that they mean, and `?` for each that stands alone."""
    if not _SURROGATE.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub("?", joined)


def is_plain(source: Type, target: Type) -> bool:
    """Whether `convert` knows the way: all implicit conversions but those to STRING, and that of a BOOLEAN."""
    if source.name == "STRING":
        return target.name in _READERS
    if source.is_number:
        return target.is_float or target.is_decimal or (source.is_integer and target.name == "BIGINT")
    return source.name != "BOOLEAN" and target.name in ("TIMESTAMP", "TIMESTAMP_NTZ")


def convert(value: Any, source: Type, target: Type, zone: str) -> Any:
    """The constant `value` of type `source` as one of `target`; `zone` is the database's time zone.

    Raises ValueError with the reason where Spark's conversion would fail.
    """
    if value is None or source == target:
        return value
    if source.name == "STRING":
        reader = _READERS.get(target.name)
        if reader is None:
            raise ValueError(f"a text is not converted to {target}")
        return reader(value, zone)
    if target.is_decimal:
        rescaled = rescale(Decimal(value), target.scale)
        if abs(rescaled) >= Decimal(10) ** (target.precision - target.scale):
            raise ValueError(f"{value} does not fit in {target}")
        return rescaled
    if target.is_float:
        return float(value)
    if target.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return _moment_of(value, source, target, zone)
    return value


def _moment_of(value: Any, source: Type, target: Type, zone: str) -> datetime:
    local = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    if target.name == "TIMESTAMP_NTZ":
        return local
    if source.name == "DATE":
        midnight = np.array([(local - _EPOCH) // _MICROSECOND])
        return _moment(int(start_of_day(midnight, zone)[0]), local, zone)
    return to_utc(local, ZoneInfo(zone), zone)


def to_utc(local: datetime, written: tzinfo, zone: str) -> datetime:
    """The moment when clocks in the zone `written` showed `local`; ValueError where those in the database's `zone` show
    no year from 1 to 9999."""
    return _moment((local.replace(tzinfo=written) - _EPOCH.replace(tzinfo=UTC)) // _MICROSECOND, local, zone)


def _moment(microseconds: int, written: datetime, zone: str) -> datetime:
    least, greatest = limits(zone)
    if not least <= microseconds <= greatest:
        raise ValueError(f"{written} is outside the years 1 to 9999 in UTC" + (f" or {zone}" if zone != "UTC" else ""))
    return _EPOCH.replace(tzinfo=UTC) + microseconds * _MICROSECOND


def text_as_integer(text: str, zone: str) -> int:
    if not _INTEGER.fullmatch(text) or not _fits(int(text), BIGINT):
        raise ValueError(f"'{text}' is not a BIGINT")
    return int(text)


def text_as_double(text: str, zone: str) -> float:
    if not _REAL.fullmatch(text):
        raise ValueError(f"'{text}' is not a DOUBLE")
    return float(text)


def text_as_boolean(text: str, zone: str) -> bool:
    word = text.strip().lower()
    if word in ("t", "true", "y", "yes", "1"):
        return True
    if word in ("f", "false", "n", "no", "0"):
        return False
    raise ValueError(f"'{text}' is not a BOOLEAN")


def text_as_date(text: str, zone: str) -> date:
    match = _DATE_TEXT.fullmatch(text)
    try:
        if match:
            return date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    except ValueError:
        pass
    raise ValueError(f"'{text}' is not a DATE; write it as yyyy-mm-dd")


def _text_as_moment(text: str) -> tuple[datetime, str | None]:
    match = _MOMENT_TEXT.fullmatch(text)
    try:
        if match:
            parts = [int(part or least) for part, least in zip(match.groups()[:6], (1, 1, 1, 0, 0, 0), strict=True)]
            microsecond = int(((match[7] or "") + "000000")[:6])
            return datetime(parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], microsecond), match[8]
    except ValueError:
        pass
    raise ValueError(f"'{text}' is not a TIMESTAMP; write it as yyyy-mm-dd hh:mm:ss")


def text_as_timestamp(text: str, zone: str) -> datetime:
    """An aware datetime in UTC."""
    local, written = _text_as_moment(text)
    if written and written[0] in "+-":
        hours, minutes = int(written[1:3]), int(written[4:6])
        if hours * 60 + minutes > 18 * 60:
            raise ValueError(f"{written} is not a time zone")
        offset = timedelta(hours=hours, minutes=minutes)
        return to_utc(local, timezone(-offset if written[0] == "-" else offset), zone)
    try:
        return to_utc(local, UTC if written in ("Z", "UTC") else ZoneInfo(written or zone), zone)
    except ZoneInfoNotFoundError:
        raise ValueError(f"{written} is not a time zone") from None


def text_as_local_time(text: str, zone: str) -> datetime:
    """A datetime without zone."""
    local, written = _text_as_moment(text)
    if written:
        raise ValueError(f"'{text}' names a time zone, which a TIMESTAMP_NTZ does not have")
    return local


_READERS: dict[str, Callable[[str, str], Any]] = {
    "BIGINT": text_as_integer, "DOUBLE": text_as_double, "BOOLEAN": text_as_boolean, "DATE": text_as_date,
    "TIMESTAMP": text_as_timestamp, "TIMESTAMP_NTZ": text_as_local_time, "BINARY": lambda text, zone: text.encode(),
}  # fmt: skip


def shown(value: Any, type_: Type, zone: str) -> str:
    """A constant as it stands in the name that Spark gives to an output without alias."""
    if value is None:
        return "NULL"
    if type_.is_float:
        return _java_double(np.float32(value) if type_.name == "FLOAT" else value)
    if type_.name == "BINARY":
        return f"X'{value.hex().upper()}'"
    if type_.name == "DATE":
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, datetime):
        local = value.astimezone(ZoneInfo(zone)) if value.tzinfo else value
        fraction = f".{local.microsecond:06}".rstrip("0") if local.microsecond else ""
        clock = local.replace(microsecond=0, tzinfo=None).isoformat(" ")
        return f"{type_} '{clock}{fraction}'"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _java_double(value: Any) -> str:
    """`Double.toString` (or Float's): plain between 0.001 and 10,000,000, else d.dddE±n."""
    if not np.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    digits, exponent = np.format_float_scientific(value, unique=True, trim="0").split("e")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, unique=True, trim="0")
    return f"{digits}E{int(exponent)}"
