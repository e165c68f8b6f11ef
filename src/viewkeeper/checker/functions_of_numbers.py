"""Scalar functions of one row's numbers, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any

from viewkeeper.catalog.types import INTEGER_BITS
from viewkeeper.checker.value_rules import NAN, Raised, fit_integer
from viewkeeper.plans.expressions import FunctionCall

_Values = tuple[Any, ...]
_WIDE = Context(prec=200)


def _abs(values: _Values, node: FunctionCall, zone: str) -> Any:
    bits = INTEGER_BITS.get(node.type.name)
    if bits is not None and values[0] == -(1 << (bits - 1)):
        raise Raised("ARITHMETIC_OVERFLOW", node.place)
    return values[0].copy_abs() if node.type.is_decimal else abs(values[0])


def _sign(values: _Values, node: FunctionCall, zone: str) -> float:
    return values[0] if values[0] == 0 or values[0] != values[0] else math.copysign(1.0, values[0])


def _to_whole(of_float: Callable[[float], int], mode: str) -> Callable[[_Values, FunctionCall, str], Any]:
    def compute(values: _Values, node: FunctionCall, zone: str) -> Any:
        (value,) = values
        if isinstance(value, Decimal):
            return value.to_integral_value(mode)
        if isinstance(value, int):
            return value
        if not -(2.0**63) <= value < 2.0**63:
            raise Raised("ARITHMETIC_OVERFLOW", node.place)
        return of_float(value)

    return compute


def _rounding(mode: str) -> Callable[[_Values, FunctionCall, str], Any]:
    def compute(values: _Values, node: FunctionCall, zone: str) -> Any:
        value, digits = values
        exact = Decimal(value)
        exponent = exact.as_tuple().exponent
        assert isinstance(exponent, int)
        rounded = exact if exponent >= -digits else exact.quantize(Decimal((0, (1,), -digits)), mode, _WIDE)
        if isinstance(value, int):
            return fit_integer(int(rounded), node.type, node.place)
        shown = rounded.quantize(Decimal((0, (1,), -node.type.scale)), context=_WIDE)
        if shown and shown.adjusted() >= node.type.precision - node.type.scale:
            raise Raised("NUMERIC_VALUE_OUT_OF_RANGE", node.place)
        return shown

    return compute


def _bits(operate: Callable[[int, int], int]) -> Callable[[_Values, FunctionCall, str], int]:
    return lambda values, node, zone: operate(values[0], values[1])


def _wrapped(value: int, bits: int) -> int:
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def _shift(kind: str) -> Callable[[_Values, FunctionCall, str], int]:
    def compute(values: _Values, node: FunctionCall, zone: str) -> int:
        bits = INTEGER_BITS[node.type.name]
        count = values[1] % bits
        if kind == "left":
            return _wrapped(values[0] << count, bits)
        return _wrapped((values[0] if kind == "right" else values[0] % (1 << bits)) >> count, bits)

    return compute


def _div(values: _Values, node: FunctionCall, zone: str) -> int:
    left, right = values
    if right == 0:
        raise Raised("DIVIDE_BY_ZERO", node.place)
    whole = abs(left) // abs(right) * (-1 if (left < 0) != (right < 0) else 1)
    return fit_integer(whole, node.type, node.place)


def _pmod(values: _Values, node: FunctionCall, zone: str) -> int:
    left, right = values
    if right == 0:
        raise Raised("REMAINDER_BY_ZERO", node.place)
    rest = (abs(left) % abs(right)) * (-1 if left < 0 else 1)
    if rest < 0:
        moved = _wrapped(rest + right, max(INTEGER_BITS[node.type.name], 32))
        rest = (abs(moved) % abs(right)) * (-1 if moved < 0 else 1)
    return rest


def _bit_count(values: _Values, node: FunctionCall, zone: str) -> int:
    return int(values[0] % (1 << 64)).bit_count()


def _root(values: _Values, node: FunctionCall, zone: str) -> float:
    return math.sqrt(values[0]) if values[0] >= 0 else NAN


OF_NUMBERS: dict[str, Callable[[_Values, FunctionCall, str], Any]] = {
    "abs": _abs, "sign": _sign, "positive": lambda values, node, zone: values[0],
    "ceil": _to_whole(math.ceil, ROUND_CEILING),
    "floor": _to_whole(math.floor, ROUND_FLOOR), "round": _rounding(ROUND_HALF_UP),
    "bround": _rounding(ROUND_HALF_EVEN),
    "&": _bits(lambda a, b: a & b), "|": _bits(lambda a, b: a | b), "^": _bits(lambda a, b: a ^ b),
    "~": lambda values, node, zone: ~values[0], "shiftleft": _shift("left"), "shiftright": _shift("right"),
    "shiftrightunsigned": _shift("unsigned"), "bit_count": _bit_count, "div": _div, "pmod": _pmod, "sqrt": _root,
}  # fmt: skip
"""By name; of values none of which is NULL."""
