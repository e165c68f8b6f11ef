"""Hypothesis strategy for calls of scalar functions: every one of the registry, over columns of types that it takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cache

from hypothesis import strategies as st

from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    YEAR_MONTH,
    Type,
    decimal,
)
from viewkeeper.functions.ends_of_years import HELD
from viewkeeper.functions.function import Function
from viewkeeper.functions.registry import FUNCTIONS

Columns = Sequence[tuple[str, Type]]

python_calls: Sequence[tuple[Type, str]] = ()
"""Functions of Python's, of one argument and of its type, that are drawn besides: where a test sets them."""

_TYPES = (STRING, INT, BIGINT, DATE, TIMESTAMP, TIMESTAMP_NTZ, DOUBLE, BINARY, BOOLEAN, decimal(15, 2), SMALLINT,
          TINYINT, FLOAT, decimal(5, 2), Type("INTERVAL DAY"), DAY_TIME, YEAR_MONTH)  # fmt: skip

_CONSTANTS: dict[str, Sequence[tuple[object, ...]]] = {
    "bround": [(0,), (1,), (-1,)],
    "btrim": [("a",), (" b",)],
    "contains": [("a",), ("",)],
    "date_format": [("yyyy-MM-dd",), ("HH:mm:ss.SSS",), ("yyyyMMdd HH",)],
    "date_trunc": [("MONTH",), ("day",), ("hour",), ("quarter",), ("week",), ("YEAR",)],
    "endswith": [("a",), ("b",)],
    "ilike": [("A%",), ("_",), ("%B",)],
    "instr": [("a",), ("b",)],
    "like": [("a%",), ("_",), ("%b",), ("a b",)],
    "locate": [("a", 1), ("b", 2)],
    "lpad": [(3, "x"), (1, "yz")],
    "ltrim": [("a",)],
    "next_day": [("MON",), ("sunday",)],
    "replace": [("a", "bb"), ("b", "")],
    "rlike": [("^a",), ("[ab]+$",)],
    "round": [(0,), (1,), (-1,)],
    "rpad": [(3, "x"), (1, "yz")],
    "rtrim": [("b",)],
    "sha2": [(256,), (224,)],
    "split_part": [(" ", 1), (" ", -1)],
    "startswith": [("a",), ("",)],
    "substring_index": [(" ", 1), (" ", -1)],
    "translate": [("ab", "x"), ("a", "")],
    "trim": [("a",)],
    "trunc": [("MONTH",), ("year",), ("week",)],
}
"""What may stand at a function's constant positions, together."""

_WRITTEN = {
    "&": "({0} & {1})", "|": "({0} | {1})", "^": "({0} ^ {1})", "~": "(~{0})", "div": "({0} div {1})",
    "like": "({0} LIKE {1})", "ilike": "({0} ILIKE {1})", "rlike": "({0} RLIKE {1})",
    "plus days": "({0} + INTERVAL '2' DAY)", "plus months": "({0} + INTERVAL '1' MONTH)",
    "plus microseconds": "({0} + INTERVAL '90' MINUTE)", "seconds with fraction": "extract(SECOND FROM {0})",
    "plus interval": "({0} + {1})", "time between": "({0} - {1})",
    "sum of intervals": "({0} + {1})", "difference of intervals": "({0} - {1})",
    "interval times number": "({0} * {1})", "interval by number": "({0} / {1})", "opposite interval": "(-{0})",
    "chr": "chr({0} + 65)", "repeat": "repeat({0}, abs({1} % 4))", "space": "space(abs({0} % 4))",
}  # fmt: skip
"""How calls are written that are not `name(argument, ...)`, or would make too much of any argument."""

_LITERALS = {"STRING": ["'a'", "'b a'", "''"], "INT": ["1", "2", "-1"], "BIGINT": ["3L", "1L"],
             "DATE": ["DATE '2024-02-29'"], "INTERVAL DAY": ["INTERVAL '2' DAY"], "BINARY": ["X'61'"]}  # fmt: skip


_BOUNDS = {function.name for function in HELD.values()}
CALLED = sorted(name for name in FUNCTIONS if name not in _BOUNDS)
"""The functions that a query can name: all but those that frames begin and end by."""


@cache
def _signatures(name: str) -> list[tuple[tuple[Type, ...], tuple[object, ...], Type]]:
    """Types of arguments that a function takes as they are, the constants among them, and the result's type."""
    function = FUNCTIONS[name]
    if name in ("plus days", "plus months", "plus microseconds"):  # what is added stands in the text
        return [((type_,), (), type_) for type_ in (TIMESTAMP, TIMESTAMP_NTZ)]
    return list(itertools.islice(_found(function), 200))


def _found(function: Function) -> Iterator[tuple[tuple[Type, ...], tuple[object, ...], Type]]:
    for number in range(max(function.least, 1), min(function.most, function.least + 1) + 1):
        fixed = [i for i in function.constants if i < number]
        for constants in _CONSTANTS.get(function.name, [()]) if fixed else [()]:
            free = number - len(fixed)
            for types in itertools.product(_TYPES, repeat=free):
                waiting, given = iter(types), dict(zip(fixed, constants, strict=False))
                if len(given) < len(fixed):
                    continue
                of = [_type_of(given[i]) if i in given else next(waiting) for i in range(number)]
                left = (
                    function.defaults[len(function.defaults) - (function.most - number) :] if function.defaults else ()
                )
                signature = function.result([*of, *map(_type_of, left)],
                                            [*(given.get(i) for i in range(number)), *left])  # fmt: skip
                if signature and list(signature[1][:number]) == of:
                    yield tuple(types), tuple(constants), signature[0]


def _type_of(value: object) -> Type:
    return STRING if isinstance(value, str) else INT


@st.composite
def scalar_calls(draw: st.DrawFn, columns: Columns) -> tuple[str, Type] | None:
    """A call over some of `columns`, with its type; None where the drawn function takes none of them."""
    if python_calls:
        name, type_ = draw(st.sampled_from(columns))
        calls = [call for of, call in python_calls if of == type_]
        return (f"{draw(st.sampled_from(calls))}({name})", type_) if calls else None
    function = FUNCTIONS[draw(st.sampled_from(CALLED))]
    there = {type_ for _, type_ in columns}
    fitting = [each for each in _signatures(function.name) if there.issuperset(each[0][:1])]
    if not fitting:
        return None
    types, constants, result = draw(st.sampled_from(fitting))
    arguments = [_argument(draw, columns, type_, first=i == 0) for i, type_ in enumerate(types)]
    if None in arguments:
        return None
    fixed = iter(map(_literal, constants))
    number = len(types) + len(constants)
    rest = iter(arguments)
    written = [next(fixed) if i in function.constants and constants else str(next(rest)) for i in range(number)]
    if function.name in ("trim", "ltrim", "rtrim"):
        written.reverse()
    shape = _WRITTEN.get(function.name, function.name.replace(" ", "_") + f"({', '.join(written)})")
    return shape.format(*written) if function.name in _WRITTEN else shape, result


def _argument(draw: st.DrawFn, columns: Columns, type_: Type, first: bool) -> str | None:
    options = [name for name, other in columns if other == type_]
    if not first:
        options += _LITERALS.get(type_.name, [])
    return draw(st.sampled_from(options)) if options else None


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)
