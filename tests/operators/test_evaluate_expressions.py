"""Vectorised evaluation against a row-by-row evaluator in plain Python, value for value and error for error."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from evaluate_oracle import (
    DECIMALS,
    DIGITS,
    INTEGERS,
    SCHEMA,
    Raised,
    array_of,
    literal_value,
    oracle,
    unphysical,
    values_of,
)
from viewkeeper.catalog.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    decimal,
    physical_type,
)
from viewkeeper.evaluation.evaluate import evaluate, predicate
from viewkeeper.plans import expressions as ir

places = st.tuples(st.integers(1, 300), st.integers(1, 2000))
in_literals = [t for t in SCHEMA if t not in (DATE, TIMESTAMP, TIMESTAMP_NTZ)]  # those have Python classes: see below


@st.composite
def leaves(draw, type_):
    kind = draw(st.integers(0, 4))
    if kind < 2 and type_ in in_literals:
        value = draw(st.none() | values_of(type_))
        return ir.Literal(type_, value is None, None, literal_value(value, type_))
    if type_ in SCHEMA:
        return ir.ColumnRef(type_, True, None, SCHEMA.index(type_), str(type_))
    return ir.Cast(type_, True, draw(places), ir.Literal(VOID, True, None, None))


@st.composite
def trees(draw, type_, depth):
    if depth == 0 or draw(st.integers(0, 7)) == 0:
        return draw(leaves(type_))
    below = [trees(type_, depth - 1)]
    place = draw(places)
    kind = draw(st.sampled_from(["case", "coalesce", "own", "own", "own"]))
    if kind == "case":
        branches = draw(st.lists(st.tuples(trees(BOOLEAN, depth - 1), below[0]), min_size=1, max_size=2))
        otherwise = draw(below[0] | st.just(ir.Literal(VOID, True, None, None)))
        return ir.Case(type_, True, place, tuple(branches), otherwise)
    if kind == "coalesce":
        return ir.Coalesce(type_, True, place, tuple(draw(st.lists(below[0], min_size=1, max_size=3))))
    if type_ == BOOLEAN:
        return draw(conditions(depth, place))
    if type_.is_number:
        return draw(numbers(type_, depth, place))
    if type_.name.startswith("TIMESTAMP"):
        return ir.Cast(type_, True, place, draw(trees(DATE, depth - 1)))
    return draw(leaves(type_))


@st.composite
def conditions(draw, depth, place):
    kind = draw(st.sampled_from(["compare", "compare", "null", "not", "and", "or", "in"]))
    if kind in ("and", "or"):
        arguments = tuple(draw(st.lists(trees(BOOLEAN, depth - 1), min_size=1, max_size=3)))
        return (ir.And if kind == "and" else ir.Or)(BOOLEAN, True, place, arguments)
    if kind == "not":
        return ir.Not(BOOLEAN, True, place, draw(trees(BOOLEAN, depth - 1)))
    type_ = draw(st.sampled_from(in_literals if kind == "in" else SCHEMA))
    argument = draw(trees(type_, depth - 1))
    if kind == "null":
        return ir.IsNull(BOOLEAN, False, place, argument)
    if kind == "in":
        options = draw(st.lists(st.none() | values_of(type_), min_size=1, max_size=4))
        literals = tuple(ir.Literal(type_, v is None, None, literal_value(v, type_)) for v in options)
        return ir.In(BOOLEAN, True, place, argument, literals)
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]))
    return ir.comparison(operator, argument, draw(trees(type_, depth - 1)), place)


@st.composite
def numbers(draw, type_, depth, place):
    kind = draw(st.sampled_from(["negate", "arithmetic", "arithmetic", "cast"]))
    if kind == "negate":
        return ir.Negate(type_, True, place, draw(trees(type_, depth - 1)))
    if kind == "arithmetic":
        sides = [type_, type_]
        if type_.is_decimal:
            sides = draw(st.lists(st.sampled_from(DECIMALS), min_size=2, max_size=2))
        left, right = (draw(trees(side, depth - 1)) for side in sides)
        operators = "+-*/%" if type_.is_decimal or type_ == DOUBLE else "+-*%"
        return ir.Arithmetic(type_, True, place, draw(st.sampled_from(operators)), left, right)
    if type_.is_decimal:
        sources = [t for t in INTEGERS if DIGITS[t.name] <= type_.precision - type_.scale] + DECIMALS
    elif type_.is_float:
        sources = [*INTEGERS, FLOAT, *DECIMALS] if type_ == DOUBLE else INTEGERS
    else:
        sources = INTEGERS[: INTEGERS.index(type_) + 1]
    return ir.Cast(type_, True, place, draw(trees(draw(st.sampled_from(sources)), depth - 1)))


rows_of_values = st.lists(st.tuples(*(st.none() | values_of(type_) for type_ in SCHEMA)), max_size=6)


def same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", b)
    return a == b and type(a) is type(b)


def check(expression, rows):
    columns = [array_of([row[i] for row in rows], type_) for i, type_ in enumerate(SCHEMA)]
    expected = []
    for row in rows:
        try:
            expected.append((oracle(expression, row), 0))
        except Raised as raised:
            expected.append((None, raised.args[0]))
    array, errors = evaluate(expression, columns, len(rows))
    assert array.type == physical_type(expression.type) and len(array) == len(rows)
    array.validate(full=True)
    assert errors is None or (errors.dtype == np.int64 and len(errors) == len(rows) and errors.any())
    raised = [0] * len(rows) if errors is None else errors.tolist()
    got = [(unphysical(v, expression.type), e) for v, e in zip(array.to_pylist(), raised, strict=True)]
    assert len(got) == len(expected)
    for mine, right in zip(got, expected, strict=True):
        assert same(mine[0], right[0]) and mine[1] == right[1], (mine, right)
    if expression.type == BOOLEAN:
        keep, raised_again = predicate(expression, columns, len(rows))
        assert keep.dtype == np.bool_ and keep.tolist() == [value is True for value, _ in expected]
        assert ([0] * len(rows) if raised_again is None else raised_again.tolist()) == raised


@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(SCHEMA).flatmap(lambda type_: trees(type_, 3)), rows_of_values)
def test_every_expression_gives_the_oracles_values_and_errors(expression, rows):
    """Any typed expression over any rows gives each row the oracle's value, or the oracle's error and NULL."""
    check(expression, rows)


@pytest.mark.parametrize("value", [None, 7])
@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%"])
def test_a_constant_and_no_rows_give_no_rows(operator, value):
    """DECIMALs of many digits are divided in limbs, of which one constant has as many as one row."""
    kinds = decimal(1, 0), decimal(38, 20)
    node = ir.Arithmetic(kinds[1], True, (1, 1), operator, ir.Literal(kinds[0], True, None, value),
                         ir.ColumnRef(kinds[0], True, None, 0, "d"))  # fmt: skip
    array, errors = evaluate(node, [array_of([], kinds[0])], 0)
    assert (len(array), array.type, errors) == (0, physical_type(kinds[1]), None)


@settings(max_examples=examples(250), deadline=None)
@given(st.data())
def test_decimals_of_every_precision_are_exact(data):
    """+ - * / % of any two DECIMAL types into any third is exact, HALF_UP, or out of range."""
    kinds = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: decimal(p, s)))
    left, right, result = data.draw(kinds), data.draw(kinds), data.draw(kinds)
    pairs = data.draw(st.lists(st.tuples(values_of(left), values_of(right)), min_size=1, max_size=8))
    a, b = ir.ColumnRef(left, True, None, 0, "a"), ir.ColumnRef(right, True, None, 1, "b")
    node = ir.Arithmetic(result, True, (1, 1), data.draw(st.sampled_from("+-*/%")), a, b)
    array, errors = evaluate(
        node, [array_of([p[i] for p in pairs], t) for i, t in enumerate((left, right))], len(pairs)
    )
    raised = np.zeros(len(pairs), np.int64) if errors is None else errors
    for i, pair in enumerate(pairs):
        try:
            expected = (oracle(node, pair), 0)
        except Raised as error:
            expected = (None, error.args[0])
        assert (unphysical(array[i].as_py(), result), raised[i]) == expected
