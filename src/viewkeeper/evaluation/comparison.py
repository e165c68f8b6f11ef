"""Comparisons and IN on vectors of one type: NaN equals NaN and is the greatest, 0.0 equals -0.0, strings by bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import Type
from viewkeeper.evaluation.vectors import Vector, both_valid, first_error, in_arrow

CompareFunction = Callable[[Any, Any], np.ndarray]


def _float_equal(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (left == right) | ((left != left) & (right != right))


def _float_less(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (left < right) | ((right != right) & (left == left))


_FLOATS: dict[str, CompareFunction] = {
    "=": _float_equal,
    "<>": lambda left, right: ~_float_equal(left, right),
    "<": _float_less,
    "<=": lambda left, right: ~_float_less(right, left),
    ">": lambda left, right: _float_less(right, left),
    ">=": lambda left, right: ~_float_less(left, right),
}
_NUMBERS: dict[str, CompareFunction] = {
    "=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_ARROW = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip


def comparison(operator: str, type_: Type) -> CompareFunction:
    """The function of two vectors' data for one of = <> < <= > >=; its result means nothing where either is NULL."""
    if in_arrow(type_):
        compute = _ARROW[operator]
        return lambda left, right: _booleans(compute(left, right))
    return (_FLOATS if type_.is_float else _NUMBERS)[operator]


def compare(test: CompareFunction, left: Vector, right: Vector) -> Vector:
    """NULL where either side is NULL."""
    valid = both_valid(left.valid, right.valid)
    return Vector(test(left.data, right.data), valid, first_error(left.errors, right.errors))


def same(equal: CompareFunction, left: Vector, right: Vector) -> Vector:
    """`<=>`: as `=`, but NULL <=> NULL is TRUE and NULL <=> anything else FALSE."""
    data = equal(left.data, right.data)
    errors = first_error(left.errors, right.errors)
    if left.valid is not None or right.valid is not None:
        here = np.True_ if left.valid is None else left.valid
        there = np.True_ if right.valid is None else right.valid
        data = (data & here & there) | ~(here | there)
    return Vector(data, None if errors is None else errors == 0, errors)


def member(options: Sequence[Vector], type_: Type) -> Callable[[Vector], Vector]:
    """`argument IN (options)` for constant options: NULL if not found and the argument or an option is NULL."""
    known = [option.data for option in options if option.valid is None]
    some_null = len(known) < len(options)
    contains = _contains_arrow(known, type_) if in_arrow(type_) else _contains_number(known, type_)

    def test(argument: Vector) -> Vector:
        data = contains(argument.data)
        valid = both_valid(argument.valid, data) if some_null else argument.valid
        return Vector(data, valid, argument.errors)

    return test


def _contains_number(options: list[np.ndarray], type_: Type) -> Callable[[Any], np.ndarray]:
    if not options:
        return lambda data: np.zeros(len(data), np.bool_)
    values = np.unique(np.concatenate(options))  # sorted; one NaN, at the end
    if len(values) == 1:
        equal = comparison("=", type_)
        return lambda data: equal(data, values)
    nan = type_.is_float and np.isnan(values[-1])

    def contains(data: np.ndarray) -> np.ndarray:
        found = np.isin(data, values)
        return found | np.isnan(data) if nan else found

    return contains


def _contains_arrow(options: list[pa.Scalar], type_: Type) -> Callable[[Any], np.ndarray]:
    if not options:
        return lambda data: np.zeros(1, np.bool_)
    values = pa.array([option.as_py() for option in options], options[0].type)
    return lambda data: _booleans(pc.is_in(data, value_set=values))


def _booleans(result: pa.Array | pa.Scalar) -> np.ndarray:
    """Arrow booleans as NumPy's; NULL as False."""
    if isinstance(result, pa.Scalar):
        return np.array([bool(result.as_py())])
    return (result.fill_null(False) if result.null_count else result).to_numpy(zero_copy_only=False)
