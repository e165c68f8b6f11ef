"""INTERVAL constants, whole numbers of one unit, and what `+ - * /` mean of dates, times and intervals."""

from __future__ import annotations

import datetime
import re

from sqlglot import exp

from viewkeeper.catalog.types import BIGINT, DATE, INT, TIMESTAMP, Type
from viewkeeper.compiler.coercion import common_type
from viewkeeper.compiler.conversion import Refused, converted
from viewkeeper.compiler.forms import called, later_date, opposite
from viewkeeper.errors import NotSupported
from viewkeeper.functions.moments import DAY_US
from viewkeeper.functions.registry import FUNCTIONS
from viewkeeper.plans.expressions import Expression, Literal, TextPlace

_MONTHS = {"MONTH": 1, "YEAR": 12}
_DAYS = {"DAY": 1, "WEEK": 7}
_MICROSECONDS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}


class WrittenInterval:
    """What `node`, an INTERVAL, means: `months`, `days` and `microseconds`; raises ValueError where it is not of whole
    numbers of one unit.  `length`: its value in a column, months or a timedelta; `name`: Spark's, of an output.
    """

    def __init__(self, node: exp.Expr) -> None:
        number, unit = _parts(node)
        self.months, self.days = number * _MONTHS.get(unit, 0), number * _DAYS.get(unit, 0)
        self.microseconds = number * _MICROSECONDS.get(unit, 0)
        if not (unit in _MONTHS or unit in _DAYS or unit in _MICROSECONDS):
            raise ValueError(f"there are no intervals of {unit}")
        if abs(self.months) > 2**31 - 1 or abs(self.days) > 106_751_991 or abs(self.microseconds) >= 2**63:
            raise ValueError("the interval is too long")
        days = 7 if unit == "WEEK" else 1
        digits = f"{number:02}" if unit in _MICROSECONDS else str(number * days)
        self.unit = "DAY" if unit in _DAYS else unit
        self.name = f"INTERVAL '{digits}' {self.unit}"
        time = datetime.timedelta(days=self.days, microseconds=self.microseconds)
        self.length = self.months if unit in _MONTHS else time


def _parts(node: exp.Expr) -> tuple[int, str]:
    value, unit = node.this, node.args.get("unit")
    sign = 1
    while isinstance(value, (exp.Neg, exp.Paren)):
        sign = -sign if isinstance(value, exp.Neg) else sign
        value = value.this
    text = value.name if isinstance(value, exp.Literal) else ""
    if not isinstance(unit, exp.Var) or not re.fullmatch(r"\s*[+-]?\d+\s*", text):
        raise ValueError("an interval is written as a whole number of one unit here: INTERVAL 3 MONTH")
    return sign * int(text), unit.name.upper().removesuffix("S")


def interval(node: exp.Expr, place: TextPlace | None) -> Literal:
    """The constant that `node`, an INTERVAL, is.  Raises Refused."""
    try:
        written = WrittenInterval(node)
    except ValueError as reason:
        raise Refused(str(reason), NotSupported) from None
    return Literal(Type(f"INTERVAL {written.unit}"), False, place, written.length)


def timed(
    operator: str, left: Expression, right: Expression, place: TextPlace | None, zone: str
) -> Expression | None:  # fmt: skip
    """`left operator right` where a date, time or interval is in it; None where none is."""
    moments, intervals = [[side.type.name.startswith(names) for side in (left, right)]
                          for names in (("DATE", "TIMESTAMP"), "INTERVAL")]  # fmt: skip
    if not any(moments) and not any(intervals):
        return None
    if any(moments) and any(intervals):
        if operator == "+" and moments[1]:
            left, right = right, left
        elif operator == "-" and moments[1]:
            raise _not_for(operator, left, right)
        if operator not in ("+", "-"):
            raise _not_for(operator, left, right)
        if isinstance(right, Literal):
            return _counted_on(left, right, 1 if operator == "+" else -1, place, zone)
        return _counted_on_by_row(left, right if operator == "+" else opposite(right, place, zone), place, zone)
    if all(moments):
        if operator != "-":
            raise _not_for(operator, left, right)
        return called(FUNCTIONS["time between"], "-", [left, right], place, zone)
    if any(moments):
        return later_date(operator, left, right, place, zone) if operator in ("+", "-") else None
    return _of_intervals(operator, left, right, place, zone)


def _not_for(operator: str, left: Expression, right: Expression) -> Refused:
    return Refused(f"{left.type} {operator} {right.type} is not supported yet", NotSupported)


def _of_intervals(
    operator: str, left: Expression, right: Expression, place: TextPlace | None, zone: str
) -> Expression:  # fmt: skip
    if operator == "*" and right.type.is_interval:
        left, right = right, left
    if operator in ("*", "/") and left.type.is_interval and right.type.is_integer:
        name = "interval times number" if operator == "*" else "interval by number"
        return called(FUNCTIONS[name], operator, [left, right], place, zone)
    both = common_type(left.type, right.type) if left.type.is_interval and right.type.is_interval else None
    if both is None or operator not in ("+", "-"):
        raise _not_for(operator, left, right)
    name = "sum of intervals" if operator == "+" else "difference of intervals"
    return called(FUNCTIONS[name], operator, [converted(side, both, zone) for side in (left, right)], place, zone)


def _counted_on_by_row(moment: Expression, interval: Expression, place: TextPlace | None, zone: str) -> Expression:
    """`moment` and an interval that each row has its own of."""
    if moment.type == DATE and interval.type.is_time_interval and interval.type.name != "INTERVAL DAY":
        moment = converted(moment, TIMESTAMP, zone)
    return called(FUNCTIONS["plus interval"], "+", [moment, interval], place, zone)


def _counted_on(
    moment: Expression, interval: Literal, sign: int, place: TextPlace | None, zone: str
) -> Expression:  # fmt: skip
    """`moment` and a constant interval: its months or whole days are counted on the zone's clocks."""
    months, days, microseconds = 0, 0, 0
    if interval.type.is_month_interval:
        months = sign * interval.value
    else:
        length = interval.value // datetime.timedelta(microseconds=1)
        days, microseconds = (sign * (1 if length >= 0 else -1) * part for part in divmod(abs(length), DAY_US))
    if moment.type == DATE and interval.type.name in ("INTERVAL DAY", "INTERVAL MONTH", "INTERVAL YEAR"):
        name, count = ("add_months", months) if months else ("date_add", days)
        return called(FUNCTIONS[name], name, [moment, Literal(INT, False, place, count)], place, zone)
    if moment.type == DATE:
        moment = converted(moment, TIMESTAMP, zone)
    for name, count in (("plus months", months), ("plus days", days), ("plus microseconds", microseconds)):
        if count:
            moment = called(FUNCTIONS[name], name, [moment, Literal(BIGINT, False, place, count)], place, zone)
    return moment
