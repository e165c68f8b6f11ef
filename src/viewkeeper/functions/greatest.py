"""greatest and least of several values of one type; NULLs are left out, NaN is the greatest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import Type
from viewkeeper.functions.function import Computed, Function, Signature


def _result(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    return (types[0], tuple(types)) if len(set(types)) == 1 else None


def _extreme(name: str, greatest: bool) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        found = arguments[0]
        for other in arguments[1:]:
            better = pc.fill_null(_greater(other, found) if greatest else _greater(found, other), True)
            # Of two of which one is NULL the comparison is NULL, and the other one is taken.
            found = pc.if_else(pc.and_(other.is_valid(), pc.or_(better, found.is_null())), other, found)
        return found, None

    return Function(name, "several values of one type", _result, kernel, 2, 1000, nulls=all)


def _greater(left: pa.Array, right: pa.Array) -> pa.Array:
    if not pa.types.is_floating(left.type):
        return pc.greater(left, right)
    nan = pc.and_not(pc.is_nan(left), pc.is_nan(right))
    return pc.or_(pc.greater(left, right), nan)


GREATEST = _extreme("greatest", True)
LEAST = _extreme("least", False)
