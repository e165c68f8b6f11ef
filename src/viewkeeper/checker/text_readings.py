"""What a text means as a value of another type, character by character as Spark reads it."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from viewkeeper.checker.value_rules import Raised
from viewkeeper.plans.expressions import TextPlace


def _trim_all(text: str) -> str:
    """Without the blanks and control characters of ASCII at both ends."""
    return text.strip("".join(chr(number) for number in range(0x80) if number <= 0x20 or number == 0x7F))


def _trim(text: str) -> str:
    """Java's `String.trim`."""
    return text.strip("".join(map(chr, range(0x21))))


def _invalid(place: TextPlace | None) -> Raised:
    return Raised("CAST_INVALID_INPUT", place)


def as_boolean(text: str, place: TextPlace | None) -> bool:
    """t, true, y, yes, 1 and their opposites."""
    word = "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in _trim_all(text))
    if word not in ("t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"):
        raise _invalid(place)
    return word in ("t", "true", "y", "yes", "1")


def as_integer(text: str, bits: int, place: TextPlace | None) -> int:
    """A whole number without a point."""
    word = _trim_all(text)
    digits = word[1:] if word[:1] in ("+", "-") else word
    if not digits or not all("0" <= digit <= "9" for digit in digits):
        raise _invalid(place)
    value = -int(digits) if word[0] == "-" else int(digits)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise _invalid(place)
    return value


def as_float(text: str, single: bool, place: TextPlace | None) -> float:
    """`Double.parseDouble` or `Float.parseFloat`, and Spark's words for what is not finite."""
    word = _trim(text)
    special = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
    bare = word.lower().lstrip("+-") if word[:1] in ("+", "-") and word[1:2] not in ("+", "-") else word.lower()
    if bare in special and not (bare == "nan" and word[0] in "+-" and word[1:] != "NaN"):
        return -special[bare] if word[0] == "-" else special[bare]
    if word[-1:] in ("d", "D", "f", "F") and not re.search(r"[xX][^pP]*$", word):
        word = word[:-1]
    if re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", word, re.ASCII):
        return _nearest_single(word) if single else float(word)
    if re.fullmatch(r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+", word, re.ASCII):
        try:
            return float(np.float32(float.fromhex(word))) if single else float.fromhex(word)
        except OverflowError:
            return math.copysign(math.inf, -1 if word[0] == "-" else 1)
    raise _invalid(place)


def _nearest_single(word: str) -> float:
    mantissa, _, exponent = word.lower().partition("e")
    if exponent and abs(int(exponent)) > 400 + len(mantissa):
        return float(np.float32(float(word)))  # zero, or infinite
    exact = Fraction(Decimal(word))
    with np.errstate(over="ignore"):
        first = np.float32(float(word))
    if np.isinf(first) and abs(exact) < Fraction(2) ** 128 - Fraction(2) ** 103:
        first = np.float32(np.finfo(np.float32).max) * np.sign(first)
    if np.isinf(first):
        return float(first)
    around = [np.nextafter(first, np.float32(-np.inf)), first, np.nextafter(first, np.float32(np.inf))]
    near = [each for each in around if np.isfinite(each)]
    best = min(near, key=lambda each: (abs(Fraction(float(each)) - exact), int(each.view(np.int32)) & 1))
    return math.copysign(float(best), -1 if word[0] == "-" else 1)


def as_decimal(text: str, place: TextPlace | None) -> Decimal:
    """`BigDecimal`; more than 38 digits in front of the point are out of range."""
    word = _trim(text)
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,10})?", word):
        raise _invalid(place)
    try:
        value = Decimal(word)
    except InvalidOperation:
        raise _invalid(place) from None
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    if len(value.as_tuple().digits) + exponent > 38:
        raise Raised("NUMERIC_OUT_OF_SUPPORTED_RANGE", place)
    return value


def _is_digit(character: str) -> bool:
    return "0" <= character <= "9"


def as_date(text: str, place: TextPlace | None) -> datetime.date:
    """yyyy[-[m]m[-[d]d[ or T, and anything]]]."""
    word = _trim_all(text)
    sign, rest = (word[0], word[1:]) if word[:1] in ("+", "-") else ("", word)
    end = min([at for at in (rest.find(" "), rest.find("T")) if at >= 0], default=len(rest))
    parts = rest[:end].split("-", 2)
    if end < len(rest) and len(parts) < 3:
        raise _invalid(place)
    digits_allowed = all(parts) and all(_is_digit(c) for part in parts for c in part)
    if not digits_allowed or not 4 <= len(parts[0]) <= 7 or any(len(part) > 2 for part in parts[1:]):
        raise _invalid(place)
    year, month, day = ([int(part) for part in parts] + [1, 1])[:3]
    return _date(-year if sign == "-" else year, month, day, place)


def _date(year: int, month: int, day: int, place: TextPlace | None) -> datetime.date:
    like = year if 1 <= year <= 9999 else year % 400 + 2000  # the calendar repeats
    try:
        found = datetime.date(like, month, day)
    except ValueError:
        raise _invalid(place) from None
    if like != year:
        raise Raised("DATETIME_OVERFLOW", place)
    return found


def as_moment(text: str, place: TextPlace | None) -> tuple[datetime.datetime, str | int | None]:
    """What clocks show, and the zone that is written: its name, or its seconds from UTC."""
    word = _trim_all(text)
    sign = word[0] if word[:1] in ("+", "-") else ""
    parts, at = ["", "", "", "", "", "", ""], len(sign)  # year, month, day, hour, minute, second, fraction
    written, which, separators = None, 0, ("-", "-", " T", ":", ":", ".")
    while at < len(word):
        character = word[at]
        if _is_digit(character):
            parts[which] += character
        elif which < 6 and character in separators[which]:
            which += 1
        elif which >= 5:
            written = word[at:]
            break
        else:
            raise _invalid(place)
        at += 1
    lengths = [(4, 6), (1, 2), (1, 2), (1, 2), (1, 2), (1, 2), (0, 10**9)][: which + 1]
    if any(not least <= len(part) <= most for part, (least, most) in zip(parts, lengths, strict=False)):
        raise _invalid(place)
    hour, minute, second = (int(part or 0) for part in parts[3:6])
    if hour > 23 or minute > 59 or second > 59:
        raise _invalid(place)
    zone = None if written is None else _zone(_trim(written), place)
    date = _date(int(sign + parts[0]), int(parts[1] or 1), int(parts[2] or 1), place)
    fraction = int((parts[6] + "0" * 6)[:6])
    return datetime.datetime(date.year, date.month, date.day, hour, minute, second, fraction), zone


_SHORT = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires", "EST": "-05:00",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "HST": "-10:00",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip


def _zone(written: str, place: TextPlace | None) -> str | int:
    name = re.sub(r"([+-])([0-9]):", r"\g<1>0\2:", written, count=1)
    name = re.sub(r"([+-])([0-9][0-9]):([0-9])$", r"\1\2:0\3", name)
    name = _SHORT.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return 0
    offset = re.sub(r"^(UTC|GMT|UT)(?=[+-])", "", name)
    if offset[:1] in ("+", "-"):
        digits = offset[1:].replace(":", "")
        shapes = (r"[+-]\d\d?", r"[+-]\d\d:?\d\d", r"[+-]\d\d:\d\d:\d\d", r"[+-]\d{6}")
        if not any(re.fullmatch(shape, offset, re.ASCII) for shape in shapes):
            raise _invalid(place)
        digits = digits.rjust(2, "0").ljust(6, "0")
        seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:])
        if int(digits[2:4]) > 59 or int(digits[4:]) > 59 or seconds > 18 * 3600:
            raise _invalid(place)
        return -seconds if offset[0] == "-" else seconds
    try:
        if name in ("Factory", "localtime", "posixrules") or not re.fullmatch(r"[A-Za-z][A-Za-z0-9~/._+-]+", name):
            raise _invalid(place)
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise _invalid(place) from None
    return name
