"""+ - * and unary minus on vectors: integers with overflow found, floats as IEEE has them.

Decimals are in decimals.py, / and % in division.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from viewkeeper.catalog.types import Type
from viewkeeper.evaluation import decimals
from viewkeeper.evaluation.division import division
from viewkeeper.evaluation.error_codes import ARITHMETIC_OVERFLOW, pack_error
from viewkeeper.evaluation.exact_integer import greatest_magnitude
from viewkeeper.evaluation.vectors import Binary, Vector, both_valid, dtype, first_error, raise_where
from viewkeeper.plans.expressions import TextPlace

_UFUNCS = {"+": np.add, "-": np.subtract, "*": np.multiply}


def arithmetic(operator: str, left: Type, right: Type, result: Type, place: TextPlace | None) -> Binary:
    """The function for `left operator right` of type `result`, raising at `place`."""
    if operator in ("/", "%"):
        return division(operator, left, right, result, place)
    if result.is_decimal:
        return decimals.decimal_arithmetic(operator, left, right, result, place)
    return _floats(operator) if result.is_float else _integers(operator, result, place)


def _floats(operator: str) -> Binary:
    compute = _UFUNCS[operator]

    def run(left: Vector, right: Vector) -> Vector:
        with np.errstate(all="ignore"):
            data = compute(left.data, right.data)
        return Vector(data, both_valid(left.valid, right.valid), first_error(left.errors, right.errors))

    return run


def _integers(operator: str, type_: Type, place: TextPlace | None) -> Binary:
    compute, error = _UFUNCS[operator], pack_error(ARITHMETIC_OVERFLOW, place)
    overflows = {"+": _add_overflows, "-": _subtract_overflows, "*": _multiply_overflows}[operator]

    def run(left: Vector, right: Vector) -> Vector:
        data = compute(left.data, right.data)  # modulo 2**bits
        result = Vector(data, both_valid(left.valid, right.valid), first_error(left.errors, right.errors))
        return raise_where(result, overflows(left.data, right.data, data), error)

    return run


def _add_overflows(left: np.ndarray, right: np.ndarray, data: np.ndarray) -> np.ndarray:
    return ((left ^ data) & (right ^ data)) < 0  # the sign differs from both sides'


def _subtract_overflows(left: np.ndarray, right: np.ndarray, data: np.ndarray) -> np.ndarray:
    return ((left ^ right) & (left ^ data)) < 0


def _multiply_overflows(left: np.ndarray, right: np.ndarray, data: np.ndarray) -> np.ndarray:
    if data.dtype != np.int64:
        return left.astype(np.int64) * right != data
    if greatest_magnitude(left) * greatest_magnitude(right) < 1 << 63:
        return np.zeros(1, np.bool_)
    with np.errstate(all="ignore"):  # the smallest integer divided by -1, which the last clause judges
        lost = data // np.where(right == 0, 1, right) != left
    smallest = np.iinfo(np.int64).min
    return (lost & (right != 0)) | ((right == -1) & (left == smallest))


def negation(type_: Type, place: TextPlace | None) -> Callable[[Vector], Vector]:
    """The function for unary minus of `type_`, raising at `place`."""
    if type_.is_decimal:
        return decimals.negation(type_, place)
    if not type_.is_integer:
        return lambda argument: argument._replace(data=-argument.data)
    smallest, error = np.iinfo(dtype(type_)).min, pack_error(ARITHMETIC_OVERFLOW, place)
    return lambda argument: raise_where(argument._replace(data=-argument.data), argument.data == smallest, error)
