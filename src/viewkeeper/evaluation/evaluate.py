"""Evaluates expressions (plans/expressions.py) on physical columns, a whole batch at once, as Spark 4 in ANSI mode.

An expression is compiled once to a closure over vectors (vectors.py).  Everything is computed for every row; what AND,
OR, CASE and COALESCE would not have reached is dropped afterwards with its errors, so laziness is exact.  Elsewhere all
arguments are evaluated, from left to right, and the first error wins.  Errors are data: see error_codes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import BOOLEAN, Type
from viewkeeper.evaluation.arithmetic import arithmetic, negation
from viewkeeper.evaluation.casts import cast
from viewkeeper.evaluation.comparison import compare, comparison, member, same
from viewkeeper.evaluation.error_codes import CODES, ERROR_CODES, SCALAR_SUBQUERY_TOO_MANY_ROWS, error_at, pack_error
from viewkeeper.evaluation.vectors import (
    Vector,
    both_valid,
    choose,
    common_length,
    constant,
    dtype,
    first_error,
    in_arrow,
    null,
    raise_exactly_where,
    raise_where,
    read,
    spread,
    true_where,
    write,
    write_errors,
)
from viewkeeper.functions.registry import FUNCTIONS
from viewkeeper.plans import expressions as ir
from viewkeeper.plans.outside import Bits, Kept

__all__ = ["ERROR_CODES", "compile_expression", "evaluate", "predicate"]

Errors = np.ndarray | None


class Inputs(NamedTuple):
    """What an expression is evaluated on."""

    columns: Sequence[pa.Array]
    zone: str


Compiled = Callable[[Inputs], Vector]
_NO_INPUTS = Inputs((), "UTC")


def evaluate(
    expression: ir.Expression,
    columns: Sequence[pa.Array],
    length: int,
    *,
    zone: str = "UTC",
) -> tuple[pa.Array, Errors]:
    """The physical array of `length` values, and the errors (int64 a row, 0: none) or None; NULL where an error stands.

    `columns` are physical arrays of `length`, `zone` is the database's.
    """
    if type(expression) is ir.ColumnRef:
        return columns[expression.index], None
    return write(compile_expression(expression)(Inputs(columns, zone)), expression.type, length)


def predicate(
    expression: ir.Expression,
    columns: Sequence[pa.Array],
    length: int,
    *,
    zone: str = "UTC",
) -> tuple[np.ndarray, Errors]:
    """Where the BOOLEAN `expression` is TRUE (bool, `length`), and the errors as `evaluate` gives them."""
    vector = compile_expression(expression)(Inputs(columns, zone))
    return spread(true_where(vector), length), write_errors(vector.errors, length)


_MOST_COMPILED = 10_000
_compiled: dict[int, tuple[ir.Expression, Compiled]] = {}


def compile_expression(expression: ir.Expression) -> Compiled:
    """The closure that computes `expression`; compiled once an object (which is quicker than to hash a tree)."""
    known = _compiled.get(id(expression))
    if known is not None and known[0] is expression:
        return known[1]
    if len(_compiled) >= _MOST_COMPILED:
        _compiled.clear()
    compiled = _COMPILERS[type(expression)](expression)
    _compiled[id(expression)] = expression, compiled
    return compiled


def _compile_as(expression: ir.Expression, type_: Type) -> Compiled:
    """`expression`, or NULL of the type that is wanted where it is a bare NULL."""
    if expression.type.name == "VOID":
        nothing = null(type_)
        return lambda inputs: nothing
    return compile_expression(expression)


def _column(node: ir.ColumnRef) -> Compiled:
    index, type_ = node.index, node.type
    return lambda inputs: read(inputs.columns[index], type_)


def _literal(node: ir.Literal) -> Compiled:
    value = constant(node.value, node.type)
    return lambda inputs: value


def _compare(node: ir.Compare) -> Compiled:
    type_ = node.right.type if node.left.type.name == "VOID" else node.left.type
    left, right = _compile_as(node.left, type_), _compile_as(node.right, type_)
    combine: Callable[..., Vector] = same if node.operator == "<=>" else compare
    test = comparison("=" if node.operator == "<=>" else node.operator, type_)
    return lambda inputs: combine(test, left(inputs), right(inputs))


def _is_null(node: ir.IsNull) -> Compiled:
    argument = compile_expression(node.argument)

    def run(inputs: Inputs) -> Vector:
        _, valid, errors = argument(inputs)
        data = np.zeros(1, np.bool_) if valid is None else ~valid
        return Vector(data, None if errors is None else errors == 0, errors)

    return run


def _not(node: ir.Not) -> Compiled:
    argument = _compile_as(node.argument, node.type)

    def run(inputs: Inputs) -> Vector:
        data, valid, errors = argument(inputs)
        return Vector(~data, valid, errors)

    return run


def _and(node: ir.And) -> Compiled:
    arguments = [_compile_as(argument, node.type) for argument in node.arguments]

    def run(inputs: Inputs) -> Vector:
        result = arguments[0](inputs)
        for argument in arguments[1:]:
            result = _both(result, argument(inputs))
        return result

    return run


def _or(node: ir.Or) -> Compiled:
    arguments = [_compile_as(argument, node.type) for argument in node.arguments]

    def run(inputs: Inputs) -> Vector:  # NOT (NOT a AND NOT b): the same order, the same stop
        result = _opposite(arguments[0](inputs))
        for argument in arguments[1:]:
            result = _both(result, _opposite(argument(inputs)))
        return _opposite(result)

    return run


def _opposite(vector: Vector) -> Vector:
    return Vector(~vector.data, vector.valid, vector.errors)


def _both(left: Vector, right: Vector) -> Vector:
    """`left AND right`, where an error on the right counts only if the left is not FALSE."""
    if left.valid is None and right.valid is None:
        return Vector(left.data & right.data, None, None)
    here = np.True_ if left.valid is None else left.valid
    there = np.True_ if right.valid is None else right.valid
    left_false, right_false = here & ~left.data, there & ~right.data
    valid = left_false | right_false | (here & there)
    data = ~(left_false | right_false)
    if left.errors is None and right.errors is None:
        return Vector(data, valid, None)
    reached = None if right.errors is None else np.where(left_false, 0, right.errors)
    errors = first_error(left.errors, reached)
    return Vector(data, valid & (errors == 0), errors)


def _in(node: ir.In) -> Compiled:
    argument, type_ = compile_expression(node.argument), node.argument.type
    test = member([compile_expression(option)(_NO_INPUTS) for option in node.options], type_)
    return lambda inputs: test(argument(inputs))


def _case(node: ir.Case) -> Compiled:
    branches = [(_compile_as(condition, BOOLEAN), _compile_as(value, node.type))
                for condition, value in reversed(node.branches)]  # fmt: skip
    otherwise = _compile_as(node.otherwise, node.type)

    def run(inputs: Inputs) -> Vector:
        result = otherwise(inputs)
        for condition, value in branches:
            decision = condition(inputs)
            result = _either(true_where(decision), value(inputs), result, decision.errors)
        return result

    return run


def _coalesce(node: ir.Coalesce) -> Compiled:
    arguments = [_compile_as(argument, node.type) for argument in reversed(node.arguments)]

    def run(inputs: Inputs) -> Vector:
        result = arguments[0](inputs)
        for argument in arguments[1:]:
            first = argument(inputs)
            result = first if first.valid is None else _either(first.valid, first, result, first.errors)
        return result

    return run


def _either(condition: np.ndarray, left: Vector, right: Vector, errors: Errors) -> Vector:
    """`left` where `condition` holds, else `right`; `errors` of the condition come before theirs."""
    if len(condition) == 1:
        data, valid, raised = left if condition[0] else right
    else:
        data = choose(condition, left.data, right.data)
        valid = _chosen(condition, left.valid, right.valid, np.True_)
        raised = _chosen(condition, left.errors, right.errors, np.int64(0))
    errors = first_error(errors, raised)
    if errors is not None:
        valid = (errors == 0) if valid is None else valid & (errors == 0)
    return Vector(data, valid, errors)


def _chosen(condition: np.ndarray, left: Errors, right: Errors, absent: np.generic) -> Errors:
    if left is None and right is None:
        return None
    return np.where(condition, absent if left is None else left, absent if right is None else right)


def _negate(node: ir.Negate) -> Compiled:
    argument, run = compile_expression(node.argument), negation(node.type, node.place)
    return lambda inputs: run(argument(inputs))


def _arithmetic(node: ir.Arithmetic) -> Compiled:
    left, right = compile_expression(node.left), compile_expression(node.right)
    run = arithmetic(node.operator, node.left.type, node.right.type, node.type, node.place)
    return lambda inputs: run(left(inputs), right(inputs))


def _function(node: ir.FunctionCall) -> Compiled:
    function, types = FUNCTIONS[node.function], [argument.type for argument in node.arguments]
    if function.strict and any(isinstance(a, ir.Literal) and a.value is None for a in node.arguments):
        return _nothing(node)
    fixed = {i: a.value for i, a in enumerate(node.arguments) if i in function.constants and isinstance(a, ir.Literal)}
    arguments = [(i, compile_expression(a)) for i, a in enumerate(node.arguments) if i not in fixed]
    code, raised_where = function.raises, raise_exactly_where if function.nested else raise_where

    def run(inputs: Inputs) -> Vector:
        vectors = [argument(inputs) for _, argument in arguments]
        length, constant = common_length(vectors)
        given = dict(fixed)
        for (i, _), vector in zip(arguments, vectors, strict=True):
            given[i] = write(vector, types[i], length)[0]
        values, wrong = function.kernel([given[i] for i in range(len(types))], types, inputs.zone)
        result = read(values[0] if constant and in_arrow(node.type) else values, node.type)
        errors = reduce(first_error, (vector.errors for vector in vectors), None)
        valid = result.valid if errors is None else both_valid(result.valid, errors == 0)
        result = Vector(result.data, valid, errors)
        if wrong is not None and code is not None:
            for raised, rows in (wrong if isinstance(wrong, dict) else {code: wrong}).items():
                result = raised_where(result, rows, pack_error(CODES[raised], node.place))
        return result

    return run


def _nothing(node: ir.FunctionCall) -> Compiled:
    """NULL, unless an argument raises."""
    arguments, nothing = [compile_expression(argument) for argument in node.arguments], null(node.type)

    def run(inputs: Inputs) -> Vector:
        errors = reduce(first_error, (argument(inputs).errors for argument in arguments), None)
        return Vector(nothing.data, nothing.valid, errors)

    return run


def _cast(node: ir.Cast) -> Compiled:
    argument, run = compile_expression(node.argument), cast(node.argument.type, node.type, node.place, node.tried)
    return lambda inputs: run(argument(inputs), inputs.zone)


def _only_row(node: ir.OnlyRow) -> Compiled:
    rows, argument = compile_expression(node.rows), compile_expression(node.argument)
    raised = pack_error(SCALAR_SUBQUERY_TOO_MANY_ROWS, node.place)

    def run(inputs: Inputs) -> Vector:
        number, (data, valid, errors) = rows(inputs), argument(inputs)
        several = true_where(Vector(number.data > 1, number.valid, None))
        if several.any():  # the one value may well be NULL
            valid = ~several if valid is None else valid & ~several
            errors = first_error(errors, np.where(several, np.int64(raised), np.int64(0)))
        return Vector(data, valid, errors)

    return run


def _kept(node: Kept) -> Compiled:
    argument, error, placed = compile_expression(node.argument), compile_expression(node.error), error_at(node.place)

    def run(inputs: Inputs) -> Vector:
        data, valid, _ = argument(inputs)
        errors = error(inputs).data
        if not errors.any():
            return Vector(data, valid, None)
        whole = errors == 0
        return Vector(data, whole if valid is None else valid & whole, placed(errors))

    return run


def _bits(node: Bits) -> Compiled:
    argument = compile_expression(node.argument)

    def run(inputs: Inputs) -> Vector:
        data, valid, errors = argument(inputs)
        return Vector(data.view(dtype(node.type)), valid, errors)

    return run


_COMPILERS: dict[type, Callable[[Any], Compiled]] = {
    ir.ColumnRef: _column,
    ir.Literal: _literal,
    ir.Compare: _compare,
    ir.IsNull: _is_null,
    ir.Not: _not,
    ir.And: _and,
    ir.Or: _or,
    ir.In: _in,
    ir.Case: _case,
    ir.Coalesce: _coalesce,
    ir.Negate: _negate,
    ir.Arithmetic: _arithmetic,
    ir.Cast: _cast,
    ir.FunctionCall: _function,
    ir.OnlyRow: _only_row,
    Kept: _kept,
    Bits: _bits,
}
