"""Scalar functions of one row's values, in plain Python: nothing of them is shared with what maintains the views."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

from viewkeeper.catalog.types import INTEGER_BITS
from viewkeeper.checker.value_rules import Raised
from viewkeeper.functions.upper import UPPER_SINCE_14
from viewkeeper.plans.expressions import FunctionCall


def called(values: tuple[Any, ...], node: FunctionCall, zone: str) -> Any:
    """The function of `node` of values none of which is NULL; raises `Raised` where Spark does."""
    return _FUNCTIONS[node.function](values, node, zone)


def _abs(values: tuple[Any, ...], node: FunctionCall, zone: str) -> Any:
    bits = INTEGER_BITS.get(node.type.name)
    if bits is not None and values[0] == -(1 << (bits - 1)):
        raise Raised("ARITHMETIC_OVERFLOW", node.place)
    return values[0].copy_abs() if node.type.is_decimal else abs(values[0])


def _substring(values: tuple[Any, ...], node: FunctionCall, zone: str) -> Any:
    text, position, length = values
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = max(-(2**31), min(start + length, 2**31 - 1))
    return text[max(start, 0) : max(end, 0)]


def _year(values: tuple[Any, ...], node: FunctionCall, zone: str) -> int:
    moment = values[0]
    if isinstance(moment, datetime.datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(ZoneInfo(zone))
    return int(moment.year)


_FUNCTIONS: dict[str, Callable[[tuple[Any, ...], FunctionCall, str], Any]] = {
    "abs": _abs,
    "length": lambda values, node, zone: len(values[0]),
    "substring": _substring,
    "upper": lambda values, node, zone: values[0].translate(UPPER_SINCE_14).upper(),
    "year": _year,
}
