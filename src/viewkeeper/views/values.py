"""From physical values to the Python values that users get.

They are the ones that PySpark gives, but for TIMESTAMP: it is an aware `datetime` in the database's time zone, where
PySpark gives a naive one in the machine's, so that a value means the same everywhere.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any
from zoneinfo import ZoneInfo

from viewkeeper.catalog.types import Type

Decoder = Callable[[Any], Any]

_EXACT = Context(prec=38)  # the caller's own context may round to fewer digits
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_EPOCH_NAIVE = datetime.datetime(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def decoder(type_: Type, zone: str) -> Decoder | None:
    """What turns a physical value (not None) of `type_` into the user's; None where they are the same."""
    if type_.is_decimal and type_.precision <= 18:
        return _unscale(type_.scale)
    if type_.name == "TIMESTAMP":
        return _timestamp(ZoneInfo(zone))
    return {"BOOLEAN": bool, "DATE": _date, "TIMESTAMP_NTZ": _naive_timestamp}.get(type_.name)


def _unscale(scale: int) -> Decoder:
    def decode(value: int) -> Decimal:
        return _EXACT.scaleb(value, -scale)

    return decode


def _timestamp(zone: ZoneInfo) -> Decoder:
    def decode(value: int) -> datetime.datetime:
        return (_EPOCH + datetime.timedelta(microseconds=value)).astimezone(zone)

    return decode


def _naive_timestamp(value: int) -> datetime.datetime:
    return _EPOCH_NAIVE + datetime.timedelta(microseconds=value)


def _date(value: int) -> datetime.date:
    return datetime.date.fromordinal(value + _EPOCH_DAY)
