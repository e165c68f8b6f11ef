"""What a text means as a date or time, of whatever shape Spark takes for one (`SparkDateTimeUtils`)."""

from __future__ import annotations

import datetime
import re
from functools import lru_cache
from zoneinfo import available_timezones

_BLANKS = "".join(map(chr, [*range(33), 127]))
_DATE = r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})"
_DATE_TEXT = re.compile(rf"{_DATE}(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_MOMENT_TEXT = re.compile(
    rf"{_DATE}(?:[ T](\d{{1,2}})(?::(\d{{1,2}})(?::(\d{{1,2}})(?:\.(\d*))?(\D.*)?)?)?)?)?)?", re.ASCII | re.DOTALL
)
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_EPOCH = datetime.date(1970, 1, 1)


def read_date(text: str) -> int | None:
    """Days since 1970; None for what is no date."""
    found = _DATE_TEXT.fullmatch(text.strip(_BLANKS))
    return None if found is None else _day(*found.groups())


def _day(sign: str, year: str, month: str | None, day: str | None) -> int | None:
    """Of any year, beyond 1 to 9999 too."""
    wanted = -int(year) if sign == "-" else int(year)
    cycles, within = divmod(wanted - 2000, _CYCLE_YEARS)
    try:
        date = datetime.date(2000 + within, int(month or 1), int(day or 1))
    except ValueError:
        return None
    return (date - _EPOCH).days + cycles * _CYCLE_DAYS


def read_moment(text: str) -> tuple[int, str | int | None] | None:
    """What clocks show, in microseconds since 1970, and the zone that is named (or its seconds from UTC), None for
    none; None for what is no time.  A time without a date is none: Spark takes today's."""
    found = _MOMENT_TEXT.fullmatch(text.strip(_BLANKS))
    if found is None or len(found[2]) > 6:
        return None
    days = _day(found[1], found[2], found[3], found[4])
    hour, minute, second = (int(found[i] or 0) for i in (5, 6, 7))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    zone = None
    if found[9] is not None:
        zone = _zone(found[9].strip(_BLANKS[:33]))
        if zone is None:
            return None
    fraction = int(((found[8] or "") + "000000")[:6])
    return ((days * 24 + hour) * 60 + minute) * 60_000_000 + second * 1_000_000 + fraction, zone


_SHORT_IDS = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""java.time.ZoneId.SHORT_IDS."""

_ONE_DIGIT_HOUR = re.compile(r"([+-])(\d):", re.ASCII)
_ONE_DIGIT_MINUTE = re.compile(r"([+-])(\d\d):(\d)$", re.ASCII)
_OFFSET = re.compile(
    r"([+-])(\d{1,2})|([+-])(\d\d):?(\d\d)|([+-])(\d\d):(\d\d):(\d\d)|([+-])(\d\d)(\d\d)(\d\d)", re.ASCII
)
_NO_REGIONS = {"Factory", "localtime", "posixrules"}


@lru_cache(maxsize=1)
def _regions() -> frozenset[str]:
    return frozenset(available_timezones() - _NO_REGIONS)


def _zone(written: str) -> str | int | None:
    """`ZoneId.of` with the older forms that Spark takes: a region, or seconds from UTC; None for what is no zone."""
    name = _ONE_DIGIT_MINUTE.sub(r"\1\2:0\3", _ONE_DIGIT_HOUR.sub(r"\g<1>0\2:", written, count=1), count=1)
    name = _SHORT_IDS.get(name, name)
    if name == "Z":
        return 0
    for prefix in ("UTC", "GMT", "UT"):
        if name == prefix:
            return 0
        if name.startswith((f"{prefix}+", f"{prefix}-")):
            return _offset(name[len(prefix) :])
    return _offset(name) if name[:1] in ("+", "-") else name if name in _regions() else None


def _offset(written: str) -> int | None:
    found = _OFFSET.fullmatch(written)
    if found is None:
        return None
    sign, *parts = [part for part in found.groups() if part is not None]
    hours, minutes, seconds = ([int(part) for part in parts] + [0, 0])[:3]
    total = (hours * 60 + minutes) * 60 + seconds
    if minutes > 59 or seconds > 59 or total > 18 * 3600:
        return None
    return -total if sign == "-" else total
