"""Calls of scalar functions: bound to a call, with its arguments converted, or to another expression that they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewkeeper.catalog.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, INT, STRING, VOID
from viewkeeper.compiler.conversion import Refused, arithmetic, compared, converted, to_common
from viewkeeper.errors import NotSupported
from viewkeeper.functions.function import Function
from viewkeeper.functions.registry import BY_NAME, FUNCTIONS
from viewkeeper.plans.expressions import (
    Case,
    Coalesce,
    Expression,
    FunctionCall,
    IsNull,
    Literal,
    Negate,
    Not,
    TextPlace,
)  # fmt: skip

Arguments = Sequence[Expression]


def bound_call(name: str, arguments: Arguments, place: TextPlace | None, zone: str) -> Expression:
    """The call of the function `name` (in small letters), which is one of `calls.SCALARS` and no conversion."""
    form = _FORMS.get(name)
    if form is None:
        return called(BY_NAME[name], name, arguments, place, zone)
    least, most, make = form
    if not least <= len(arguments) <= most:
        count = str(least) if least == most else f"{least} or more"
        raise Refused(f"{name} takes {count} argument{'s' * (least > 1)}, not {len(arguments)}", NotSupported)
    return make(arguments, place, zone)


def called(function: Function, name: str, arguments: Arguments, place: TextPlace | None, zone: str) -> FunctionCall:
    """A call of `function`, by this name of it."""
    if not function.least <= len(arguments) <= function.most:
        count = f"{len(arguments)} argument{'s' * (len(arguments) != 1)}"
        raise Refused(f"{name} takes {function.accepts}, not {count}", NotSupported)
    missing = function.defaults[len(arguments) - (function.most - len(function.defaults)) :]
    default = [Literal(STRING if isinstance(value, str) else INT, False, place, value) for value in missing]
    given = [*arguments, *default]
    types = [each.type for each in given]
    for position in function.constants:
        if position < len(given) and not isinstance(given[position], Literal):
            raise Refused(f"{name} takes {function.accepts}: its argument {position + 1} is a constant", NotSupported)
    signature = function.result(types, [each.value if isinstance(each, Literal) else None for each in given])
    if signature is None:
        raise Refused(f"{name} takes {function.accepts}, not {', '.join(map(str, types))}", NotSupported)
    result, wanted = signature
    taken = tuple(converted(each, type_, zone) for each, type_ in zip(given, wanted, strict=True))
    nullable = function.nullable or function.nulls(each.nullable for each in taken)
    return FunctionCall(result, nullable, place, function.name, taken)


def _if(arguments: Arguments, place: TextPlace | None, zone: str) -> Expression:
    condition, *values = arguments
    if condition.type not in (BOOLEAN, VOID):
        raise Refused(f"IF needs a condition, not a value of type {condition.type}")
    yes, no = to_common(list(values), "IF", zone)
    return Case(no.type, yes.nullable or no.nullable, place, ((converted(condition, BOOLEAN, zone), yes),), no)


def _first_that_is(arguments: Arguments, place: TextPlace | None, zone: str) -> Expression:
    parts = to_common(list(arguments), "NVL", zone)
    return Coalesce(parts[0].type, all(part.nullable for part in parts), place, tuple(parts))


def _by_null(arguments: Arguments, place: TextPlace | None, zone: str) -> Expression:
    tested, *values = arguments
    there, missing = to_common(list(values), "NVL2", zone)
    condition = Not(BOOLEAN, False, place, IsNull(BOOLEAN, False, place, tested))
    return Case(missing.type, there.nullable or missing.nullable, place, ((condition, there),), missing)


def _unless_equal(arguments: Arguments, place: TextPlace | None, zone: str) -> Expression:
    left, right = arguments
    nothing = Literal(left.type, True, place, None)
    return Case(left.type, True, place, ((compared("=", left, right, place, zone), nothing),), left)


def _unless_nan(arguments: Arguments, place: TextPlace | None, zone: str) -> Expression:
    type_ = FLOAT if {each.type for each in arguments} == {FLOAT} else DOUBLE
    left, right = (converted(each, type_, zone) for each in arguments)
    nan = called(FUNCTIONS["isnan"], "isnan", [left], place, zone)
    return Case(type_, left.nullable or right.nullable, place, ((nan, right),), left)


def _is_null(arguments: Arguments, place: TextPlace | None, zone: str) -> Expression:
    return IsNull(BOOLEAN, False, place, arguments[0])


def _is_not_null(arguments: Arguments, place: TextPlace | None, zone: str) -> Expression:
    return Not(BOOLEAN, False, place, _is_null(arguments, place, zone))


def negated(argument: Expression, place: TextPlace | None, zone: str) -> Expression:
    """Unary minus."""
    if argument.type.is_interval:
        return opposite(argument, place, zone)
    if argument.type in (VOID, STRING):
        argument = converted(argument, DOUBLE, zone)
    if not argument.type.is_number:
        raise Refused(f"- needs a number, not {argument.type}")
    return Negate(argument.type, argument.nullable, place, argument)


def opposite(argument: Expression, place: TextPlace | None, zone: str) -> Expression:
    """Unary minus of an interval."""
    return called(FUNCTIONS["opposite interval"], "-", [argument], place, zone)


def _array(arguments: Arguments, place: TextPlace | None, zone: str) -> Expression:
    return called(FUNCTIONS["array"], "array", to_common(list(arguments), "ARRAY", zone), place, zone)


def _map(arguments: Arguments, place: TextPlace | None, zone: str) -> Expression:
    keys, items = (to_common(list(arguments[i::2]), "MAP", zone) for i in (0, 1))
    if len(keys) != len(items):
        raise Refused("map takes keys, each with a value", NotSupported)
    entries = [each for pair in zip(keys, items, strict=True) for each in pair]
    return called(FUNCTIONS["map"], "map", entries, place, zone)


def _extreme(name: str) -> Callable[[Arguments, TextPlace | None, str], Expression]:
    def make(arguments: Arguments, place: TextPlace | None, zone: str) -> Expression:
        return called(FUNCTIONS[name], name, to_common(list(arguments), name, zone), place, zone)

    return make


_FIELDS = {
    "year": "year", "years": "year", "yr": "year", "yrs": "year", "y": "year", "quarter": "quarter", "qtr": "quarter",
    "month": "month", "months": "month", "mon": "month", "mons": "month", "week": "weekofyear", "weeks": "weekofyear",
    "w": "weekofyear", "day": "dayofmonth", "days": "dayofmonth", "d": "dayofmonth", "dayofweek": "dayofweek",
    "dow": "dayofweek", "doy": "dayofyear", "hour": "hour", "hours": "hour", "hr": "hour", "h": "hour",
    "minute": "minute", "minutes": "minute", "min": "minute", "m": "minute", "second": "seconds with fraction",
    "seconds": "seconds with fraction", "sec": "seconds with fraction", "s": "seconds with fraction",
}  # fmt: skip


def _extract(arguments: Arguments, place: TextPlace | None, zone: str) -> Expression:
    field, source = arguments
    known = isinstance(field, Literal) and isinstance(field.value, str) and _FIELDS.get(field.value.lower())
    if not known:
        raise Refused("EXTRACT takes YEAR, QUARTER, MONTH, WEEK, DAY, DOW, DOY, HOUR, MINUTE or SECOND", NotSupported)
    return called(FUNCTIONS[str(known)], "extract", [source], place, zone)


def later_date(operator: str, left: Expression, right: Expression, place: TextPlace | None, zone: str) -> Expression:
    """A DATE and a number of days, added or (the second) taken away."""
    date, days = (left, right) if left.type.name == "DATE" or operator == "-" else (right, left)
    if date.type.name != "DATE" or not days.type.is_integer or days.type == BIGINT:
        given = f"{left.type} and {right.type}"
        raise Refused(f"{operator} is supported for numbers, and for a DATE and an INT, not for {given}", NotSupported)
    name = "date_add" if operator == "+" else "date_sub"
    return called(FUNCTIONS[name], name, [date, days], place, zone)


_FORMS: dict[str, tuple[int, int, Callable[[Arguments, TextPlace | None, str], Expression]]] = {
    "if": (3, 3, _if), "nvl": (2, 2, _first_that_is), "ifnull": (2, 2, _first_that_is), "nvl2": (3, 3, _by_null),
    "nullif": (2, 2, _unless_equal), "nanvl": (2, 2, _unless_nan), "isnull": (1, 1, _is_null),
    "isnotnull": (1, 1, _is_not_null), "negative": (1, 1, lambda a, place, zone: negated(a[0], place, zone)),
    "struct": (2, 2000, lambda a, place, zone: called(FUNCTIONS["named_struct"], "struct", a, place, zone)),
    "mod": (2, 2, lambda a, place, zone: arithmetic("%", a[0], a[1], place, zone)),
    "array": (0, 1000, _array), "map": (0, 1000, _map),
    "greatest": (2, 1000, _extreme("greatest")), "least": (2, 1000, _extreme("least")),
    **dict.fromkeys(("extract", "date_part", "datepart"), (2, 2, _extract)),
}  # fmt: skip
