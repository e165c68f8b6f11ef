"""sqrt and isnan of DOUBLE.

exp, ln, log and power are not here: Java's differ in the last bit from those of the processor's library.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import BOOLEAN, DOUBLE, FLOAT, Type
from viewkeeper.functions.function import Computed, Function, Signature, implicit, made, numbers, taking, valid_in


def _root(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    with np.errstate(invalid="ignore"):
        return made(np.sqrt(numbers(arguments[0])), arguments[0]), None


def _float(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    type_ = types[0] if types[0] == FLOAT else DOUBLE
    return (BOOLEAN, (type_,)) if implicit(types[0], type_) else None


def _is_nan(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    found, valid = np.isnan(numbers(arguments[0])), valid_in(arguments[0])
    return pa.array((found if valid is None else found & valid).view(np.int8)), None


def _never(nullable: Iterable[bool]) -> bool:
    return False


SQRT = Function("sqrt", "a number", taking(DOUBLE, DOUBLE), _root,
                shown=lambda name, arguments: f"{name.upper()}({arguments[0]})")  # fmt: skip
ISNAN = Function("isnan", "a DOUBLE or FLOAT", _float, _is_nan, nulls=_never)
