"""abs(number)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from viewkeeper.catalog.types import Type
from viewkeeper.functions.function import Computed, Function

_DIGITS = 34
"""Of a number of more digits Spark's own abs is not the number without its sign: it rounds to so many."""


def _result(types: Sequence[Type]) -> tuple[Type, tuple[Type, ...]] | None:
    (type_,) = types
    return (type_, (type_,)) if type_.is_number and type_.precision <= _DIGITS else None


def _kernel(arguments: Sequence[pa.Array], types: Sequence[Type], zone: str) -> Computed:
    (values,), (type_,) = arguments, types
    if not type_.is_integer:
        return pc.abs(values), None  # unscaled decimals too: their least is no power of two
    least = np.iinfo(values.type.to_pandas_dtype()).min
    wrong = pc.fill_null(pc.equal(values, pa.scalar(least, values.type)), False)
    return pc.abs(values), wrong.to_numpy(zero_copy_only=False)


ABS = Function("abs", exp.Abs, ("this",), "a number of at most 34 digits", _result, _kernel,
               raises="ARITHMETIC_OVERFLOW", may_raise=lambda type_: type_.is_integer)  # fmt: skip
