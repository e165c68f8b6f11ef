"""INTERVAL constants: whole numbers of one unit."""

from __future__ import annotations

import re

from sqlglot import exp

_MONTHS = {"MONTH": 1, "YEAR": 12}
_DAYS = {"DAY": 1, "WEEK": 7}
_MICROSECONDS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}


class WrittenInterval:
    """What `node`, an INTERVAL, means: `months`, `days` and `microseconds`; raises ValueError where it is not of whole
    numbers of one unit.  `name`: as Spark writes it in the name of an output."""

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
        self.name = f"INTERVAL '{digits}' {'DAY' if unit in _DAYS else unit}"


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
