"""Whole numbers: the bit operations, pmod, div and their kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from viewkeeper.catalog.types import BIGINT, BOOLEAN, INT, INTEGER_BITS, Type
from viewkeeper.functions.function import Computed, Function, Signature, made, numbers, wrong_where


def _common(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    if not all(type_.is_integer for type_ in types):
        return None
    widest = max(types, key=lambda type_: INTEGER_BITS[type_.name])
    return widest, (widest,) * len(types)


def _bits(name: str, sign: str, operate: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        return made(operate(numbers(arguments[0]), numbers(arguments[1])), *arguments), None

    return Function(name, "two whole numbers", _common, kernel, 2, 2, shown=lambda name, a: f"({a[0]} {sign} {a[1]})")


def _not(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return made(~numbers(arguments[0]), arguments[0]), None


def _shifted(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    if not (types[0].is_integer and types[1].is_integer and types[1] != BIGINT):
        return None
    return (BIGINT, (BIGINT, INT)) if types[0] == BIGINT else (INT, (INT, INT))


def _shift(name: str, operate: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        held = numbers(arguments[0])
        count = (numbers(arguments[1]) & (held.dtype.itemsize * 8 - 1)).astype(held.dtype)  # as Java has it
        return made(operate(held, count), *arguments), None

    return Function(name, "an INT or BIGINT, and an INT", _shifted, kernel, 2, 2)


def _unsigned_shift(held: np.ndarray, count: np.ndarray) -> np.ndarray:
    unsigned = np.dtype(f"u{held.dtype.itemsize}")
    return (held.view(unsigned) >> count.astype(unsigned)).view(held.dtype)


def _numbers(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    return (BIGINT, (BIGINT, BIGINT)) if all(type_.is_integer for type_ in types) else None


def _divided(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    left, right = (numbers(argument) for argument in arguments)
    zero, minus = right == 0, right == -1
    whole = left // np.where(zero | minus, 1, right)
    whole += (whole < 0) & (whole * right != left)  # towards zero; // goes down
    least = minus & (left == np.iinfo(np.int64).min)
    wrong = {"DIVIDE_BY_ZERO": zero, "ARITHMETIC_OVERFLOW": least}
    return made(np.where(minus, -left, whole), *arguments), wrong if (zero | least).any() else None


def _positive_rest(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    left, right = (numbers(argument) for argument in arguments)
    if left.dtype.itemsize < 4:
        left, right = left.astype(np.int32), right.astype(np.int32)  # as Java counts
    zero = right == 0
    by = np.where(zero | (right == -1), right.dtype.type(1), right)
    rest = np.fmod(left, by)
    rest = np.where(rest < 0, np.fmod(rest + by, by), rest)
    return made(rest.astype(numbers(arguments[0]).dtype), *arguments), wrong_where(zero)


def _counted(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    held = numbers(arguments[0])
    if types[0] == BOOLEAN:
        return made(held.astype(np.int32), arguments[0]), None
    return made(np.bitwise_count(held.astype(np.int64).view(np.uint64)).astype(np.int32), arguments[0]), None


def _counting(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    return (INT, (types[0],)) if types[0].is_integer or types[0] == BOOLEAN else None


BIT_AND = _bits("&", "&", np.bitwise_and)
BIT_OR = _bits("|", "|", np.bitwise_or)
BIT_XOR = _bits("^", "^", np.bitwise_xor)
BIT_NOT = Function("~", "a whole number", _common, _not, shown=lambda name, arguments: f"~{arguments[0]}")
SHIFTLEFT = _shift("shiftleft", np.left_shift)
SHIFTRIGHT = _shift("shiftright", np.right_shift)
SHIFTRIGHTUNSIGNED = _shift("shiftrightunsigned", _unsigned_shift)
BIT_COUNT = Function("bit_count", "a whole number or BOOLEAN", _counting, _counted)
DIV = Function("div", "two whole numbers", _numbers, _divided, 2, 2, nullable=True, raises="DIVIDE_BY_ZERO",
               shown=lambda name, arguments: f"({arguments[0]} div {arguments[1]})")  # fmt: skip
PMOD = Function("pmod", "two whole numbers", _common, _positive_rest, 2, 2, nullable=True,
                raises="REMAINDER_BY_ZERO")  # fmt: skip

INTEGERS = (BIT_AND, BIT_OR, BIT_XOR, BIT_NOT, SHIFTLEFT, SHIFTRIGHT, SHIFTRIGHTUNSIGNED, BIT_COUNT, DIV, PMOD)
