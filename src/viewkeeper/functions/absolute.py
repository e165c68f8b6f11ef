"""abs(number), sign(number) and positive(number)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import DOUBLE, STRING, VOID, Type
from viewkeeper.functions.function import Computed, Function, Signature, made, numbers, taking

_DIGITS = 34
"""Of a number of more digits Spark's own abs is not the number without its sign: it rounds to so many."""


def _number(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    type_ = DOUBLE if types[0] in (STRING, VOID) else types[0]
    return (type_, (type_,)) if type_.is_number else None


def _short_number(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    return _number(types, values) if types[0].precision <= _DIGITS else None


def _absolute(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    (values,), (type_,) = arguments, types
    if not type_.is_integer:
        return pc.abs(values), None  # unscaled decimals too: their least is no power of two
    least = np.iinfo(values.type.to_pandas_dtype()).min
    wrong = pc.fill_null(pc.equal(values, pa.scalar(least, values.type)), False)
    return pc.abs(values), wrong.to_numpy(zero_copy_only=False)


def _sign(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    values = numbers(arguments[0])
    with np.errstate(invalid="ignore"):
        return made(np.where(values == 0, values, np.sign(values)), arguments[0]), None  # -0.0 keeps its sign


def _same(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return arguments[0], None


ABS = Function("abs", "a number of at most 34 digits", _short_number, _absolute,
               raises="ARITHMETIC_OVERFLOW", may_raise=lambda type_: type_.is_integer)  # fmt: skip
SIGN = Function("sign", "a number", taking(DOUBLE, DOUBLE), _sign, aliases=("signum",),
                shown=lambda name, a: f"{'SIGNUM' if name == 'signum' else name}({a[0]})")  # fmt: skip
POSITIVE = Function("positive", "a number", _number, _same, shown=lambda name, arguments: f"(+ {arguments[0]})")
