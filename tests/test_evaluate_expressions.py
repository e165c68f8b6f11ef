"""Vectorised evaluation against a row-by-row evaluator in plain Python, value for value and error for error."""

import math
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGER_BITS,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    VOID,
    decimal,
    physical_type,
)
from viewkeeper.compiler import expressions as ir
from viewkeeper.maintenance.error_codes import (
    ARITHMETIC_OVERFLOW,
    NUMERIC_VALUE_OUT_OF_RANGE,
    format_error,
    pack_error,
    unpack_error,
)
from viewkeeper.maintenance.evaluate import evaluate, predicate

INTEGERS = [TINYINT, SMALLINT, INT, BIGINT]
DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
DECIMALS = [decimal(p, s) for p, s in [(1, 0), (3, 2), (9, 4), (15, 2), (18, 0), (18, 18), (19, 3), (25, 10), (38, 0),
                                       (38, 6), (38, 20), (38, 38)]]  # fmt: skip
SCHEMA = [BOOLEAN, *INTEGERS, FLOAT, DOUBLE, *DECIMALS, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ]
WIDE = Context(prec=100)
DAY_US = 86_400_000_000


class Raised(Exception):
    """The error that a row raises, packed."""


def values_of(type_):
    """Physical Python values of a type, extremes among them."""
    if type_ == BOOLEAN:
        return st.booleans()
    if type_.is_integer:
        most = 2 ** (INTEGER_BITS[type_.name] - 1)
        return st.one_of(st.sampled_from([0, 1, -1, 2, most - 1, -most, -most + 1]), st.integers(-most, most - 1))
    if type_.is_decimal:
        most = 10**type_.precision - 1
        return st.one_of(st.sampled_from([0, 1, -1, 5, most, -most, most // 2]), st.integers(-most, most))
    if type_.is_float:
        width = 32 if type_ == FLOAT else 64
        return st.one_of(st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf, -math.inf]), st.floats(width=width))
    if type_ == DATE:
        return st.integers(-700_000, 2_900_000)
    if type_.name.startswith("TIMESTAMP"):
        return st.integers(-(10**16), 10**17)
    text = st.sampled_from(["", "a", "ab", "b", "é", "\U0001f600", "\uffff"])
    return text if type_ == STRING else text.map(str.encode)


def literal_value(value, type_):
    """The logical Python value that a Literal holds."""
    if value is None or not type_.is_decimal:
        return value
    return Decimal(value).scaleb(-type_.scale, WIDE)


def array_of(values, type_):
    if type_.is_decimal and type_.precision > 18:
        values = [literal_value(value, type_) for value in values]
    elif type_ == BOOLEAN:
        values = [None if value is None else int(value) for value in values]
    return pa.array(values, physical_type(type_))


def unphysical(value, type_):
    """What `array_of` was given, from what the array gives."""
    if value is None:
        return None
    if type_.is_decimal and type_.precision > 18:
        return int(value.scaleb(type_.scale, WIDE))
    return bool(value) if type_ == BOOLEAN else value


# --- the oracle -------------------------------------------------------------------------------------------------------


def oracle(node, row, parameters):
    """The value of `node` for one row; raises Raised."""
    return ORACLE[type(node)](node, lambda child: oracle(child, row, parameters), row, parameters)


def order_key(value, type_):
    if type_.is_float:
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if type_ == STRING else value


def compare_values(operator, a, b, type_):
    if operator == "<=>" and (a is None or b is None):
        return a is None and b is None
    if a is None or b is None:
        return None
    a, b = order_key(a, type_), order_key(b, type_)
    return {"=": a == b, "<=>": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]


def run_compare(node, run, row, parameters):
    a, b = run(node.left), run(node.right)
    return compare_values(node.operator, a, b, node.left.type)


def run_and(node, run, row, parameters):
    result = True
    for argument in node.arguments:
        value = run(argument)
        if value is False:
            return False
        result = None if value is None else result
    return result


def run_or(node, run, row, parameters):
    result = False
    for argument in node.arguments:
        value = run(argument)
        if value is True:
            return True
        result = None if value is None else result
    return result


def run_in(node, run, row, parameters):
    value = run(node.argument)
    found = [compare_values("=", value, run(option), node.argument.type) for option in node.options]
    return True if True in found else None if None in found else False


def run_case(node, run, row, parameters):
    for condition, value in node.branches:
        if run(condition) is True:
            return run(value)
    return run(node.otherwise)


def run_coalesce(node, run, row, parameters):
    for argument in node.arguments:
        value = run(argument)
        if value is not None:
            return value
    return None


def fit(value, node, code):
    """`value` (int; unscaled for decimals) if it is one of the node's type."""
    type_ = node.type
    most = 10**type_.precision - 1 if type_.is_decimal else 2 ** (INTEGER_BITS[type_.name] - 1) - 1
    least = -most if type_.is_decimal else -most - 1
    if not least <= value <= most:
        raise Raised(pack_error(code, node.place))
    return value


def half_up(value):
    whole, rest = divmod(abs(value), 1)
    return int(whole + (rest >= Fraction(1, 2))) * (1 if value >= 0 else -1)


def run_negate(node, run, row, parameters):
    value = run(node.argument)
    if value is None:
        return None
    return fit(-value, node, ARITHMETIC_OVERFLOW) if node.type.is_integer else -value


def run_arithmetic(node, run, row, parameters):
    a, b = run(node.left), run(node.right)
    if a is None or b is None:
        return None
    apply = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y}[node.operator]
    if node.type.is_integer:
        return fit(apply(a, b), node, ARITHMETIC_OVERFLOW)
    if node.type.is_float:
        with np.errstate(all="ignore"):
            return float((np.float32 if node.type == FLOAT else np.float64)(apply(a, b)))
    exact = apply(Fraction(a, 10**node.left.type.scale), Fraction(b, 10**node.right.type.scale))
    return fit(half_up(exact * 10**node.type.scale), node, NUMERIC_VALUE_OUT_OF_RANGE)


def run_cast(node, run, row, parameters):
    value, source, target = run(node.argument), node.argument.type, node.type
    if value is None or source == target:
        return value
    if source == DATE:
        return value * DAY_US
    exact = Fraction(value, 10**source.scale) if source.is_decimal else value
    if target.is_decimal:
        return fit(half_up(Fraction(exact) * 10**target.scale), node, NUMERIC_VALUE_OUT_OF_RANGE)
    if target == FLOAT:
        return float(np.float32(value))
    return float(exact) if target == DOUBLE else exact  # float(Fraction) rounds once, ties to even


ORACLE = {
    ir.ColumnRef: lambda node, run, row, parameters: row[node.index],
    ir.Literal: lambda node, run, row, parameters: (
        int(node.value.scaleb(node.type.scale, WIDE)) if isinstance(node.value, Decimal) else node.value
    ),
    ir.Parameter: lambda node, run, row, parameters: parameters[node.index],
    ir.Compare: run_compare,
    ir.IsNull: lambda node, run, row, parameters: run(node.argument) is None,
    ir.Not: lambda node, run, row, parameters: {True: False, False: True, None: None}[run(node.argument)],
    ir.And: run_and,
    ir.Or: run_or,
    ir.In: run_in,
    ir.Case: run_case,
    ir.Coalesce: run_coalesce,
    ir.Negate: run_negate,
    ir.Arithmetic: run_arithmetic,
    ir.Cast: run_cast,
}


# --- random typed expressions -----------------------------------------------------------------------------------------

places = st.tuples(st.integers(1, 300), st.integers(1, 2000))
in_literals = [t for t in SCHEMA if t not in (DATE, TIMESTAMP, TIMESTAMP_NTZ)]  # those have Python classes: see below


@st.composite
def leaves(draw, type_):
    kind = draw(st.integers(0, 4))
    if kind == 0 and type_ in in_literals:
        value = draw(st.none() | values_of(type_))
        return ir.Literal(type_, value is None, None, literal_value(value, type_))
    if kind == 1 and type_ in SCHEMA:
        return ir.Parameter(type_, True, None, SCHEMA.index(type_))
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
        return ir.Arithmetic(type_, True, place, draw(st.sampled_from("+-*")), left, right)
    if type_.is_decimal:
        sources = [t for t in INTEGERS if DIGITS[t.name] <= type_.precision - type_.scale] + DECIMALS
    elif type_.is_float:
        sources = [*INTEGERS, FLOAT, *DECIMALS] if type_ == DOUBLE else INTEGERS
    else:
        sources = INTEGERS[: INTEGERS.index(type_) + 1]
    return ir.Cast(type_, True, place, draw(trees(draw(st.sampled_from(sources)), depth - 1)))


rows_of_values = st.lists(st.tuples(*(st.none() | values_of(type_) for type_ in SCHEMA)), max_size=6)
parameter_values = st.tuples(*(st.none() | values_of(type_) for type_ in SCHEMA))


def same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", b)
    return a == b and type(a) is type(b)


def check(expression, rows, parameters):
    columns = [array_of([row[i] for row in rows], type_) for i, type_ in enumerate(SCHEMA)]
    scalars = [array_of([value], type_)[0] for value, type_ in zip(parameters, SCHEMA, strict=True)]
    if rows:  # a parameter may also be one value a row
        scalars[::2] = [pa.repeat(scalar, len(rows)) for scalar in scalars[::2]]
    expected = []
    for row in rows:
        try:
            expected.append((oracle(expression, row, parameters), 0))
        except Raised as raised:
            expected.append((None, raised.args[0]))
    array, errors = evaluate(expression, columns, len(rows), scalars)
    assert array.type == physical_type(expression.type) and len(array) == len(rows)
    array.validate(full=True)
    assert errors is None or (errors.dtype == np.int64 and len(errors) == len(rows) and errors.any())
    raised = [0] * len(rows) if errors is None else errors.tolist()
    got = [(unphysical(v, expression.type), e) for v, e in zip(array.to_pylist(), raised, strict=True)]
    assert len(got) == len(expected)
    for mine, right in zip(got, expected, strict=True):
        assert same(mine[0], right[0]) and mine[1] == right[1], (mine, right)
    if expression.type == BOOLEAN:
        keep, raised_again = predicate(expression, columns, len(rows), scalars)
        assert keep.dtype == np.bool_ and keep.tolist() == [value is True for value, _ in expected]
        assert ([0] * len(rows) if raised_again is None else raised_again.tolist()) == raised


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(SCHEMA).flatmap(lambda type_: trees(type_, 3)), rows_of_values, parameter_values)
def test_every_expression_gives_the_oracles_values_and_errors(expression, rows, parameters):
    """Any typed expression over any rows gives each row the oracle's value, or the oracle's error and NULL."""
    check(expression, rows, parameters)


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_decimals_of_every_precision_are_exact(data):
    """+ - * of any two DECIMAL types into any third is exact, HALF_UP, or out of range."""
    kinds = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: decimal(p, s)))
    left, right, result = data.draw(kinds), data.draw(kinds), data.draw(kinds)
    pairs = data.draw(st.lists(st.tuples(values_of(left), values_of(right)), min_size=1, max_size=8))
    a, b = ir.ColumnRef(left, True, None, 0, "a"), ir.ColumnRef(right, True, None, 1, "b")
    node = ir.Arithmetic(result, True, (1, 1), data.draw(st.sampled_from("+-*")), a, b)
    array, errors = evaluate(
        node, [array_of([p[i] for p in pairs], t) for i, t in enumerate((left, right))], len(pairs)
    )
    raised = np.zeros(len(pairs), np.int64) if errors is None else errors
    for i, pair in enumerate(pairs):
        try:
            expected = (oracle(node, pair, ()), 0)
        except Raised as error:
            expected = (None, error.args[0])
        assert (unphysical(array[i].as_py(), result), raised[i]) == expected


# --- single claims ----------------------------------------------------------------------------------------------------


def column(type_, index=0):
    return ir.ColumnRef(type_, True, None, index, f"c{index}")


OVERFLOW = pack_error(ARITHMETIC_OVERFLOW, (1, 8))
TOO_MUCH = ir.comparison(
    ">", ir.Arithmetic(BIGINT, True, (1, 8), "+", column(BIGINT), column(BIGINT)), ir.Literal(BIGINT, False, None, 0)
)
FALSE, NULL = ir.Literal(BOOLEAN, False, None, False), ir.Literal(BOOLEAN, True, None, None)


@pytest.mark.parametrize(
    ("arguments", "value", "error"),
    [
        ((FALSE, TOO_MUCH), 0, None),
        ((TOO_MUCH, FALSE), None, OVERFLOW),
        ((NULL, TOO_MUCH), None, OVERFLOW),
        ((NULL, FALSE, TOO_MUCH), 0, None),
        ((NULL, TOO_MUCH, FALSE), None, OVERFLOW),
    ],
)
def test_and_stops_at_the_first_false_and_nowhere_else(arguments, value, error):
    """An error behind FALSE does not exist; one before it, or behind NULL, does."""
    array, errors = evaluate(ir.And(BOOLEAN, True, None, arguments), [pa.array([2**62])], 1)
    assert array.to_pylist() == [value]
    assert (None if errors is None else errors.tolist()) == (None if error is None else [error])


def test_an_error_row_is_not_kept_and_is_named():
    """`predicate` keeps TRUE rows only, and gives the packed error of the others that raise."""
    keep, errors = predicate(TOO_MUCH, [pa.array([1, 2**62, None, -5])], 4)
    assert keep.tolist() == [True, False, False, False]
    assert errors.tolist() == [0, OVERFLOW, 0, 0]
    assert unpack_error(OVERFLOW) == (ARITHMETIC_OVERFLOW, (1, 8))
    assert format_error(OVERFLOW) == "ARITHMETIC_OVERFLOW (line 1, column 8)"
    assert unpack_error(pack_error(NUMERIC_VALUE_OUT_OF_RANGE, None)) == (NUMERIC_VALUE_OUT_OF_RANGE, None)


def test_a_sliced_column_is_read_at_its_offset():
    """Values and NULLs of an array that is a slice of another are its own."""
    numbers, flags, texts = [1, None, 3, None, 5], [True, None, False, None, True], ["a", None, "c", None, "e"]
    for type_, values in [(BIGINT, numbers), (decimal(20, 0), numbers), (BOOLEAN, flags), (STRING, texts)]:
        piece = array_of(values * 4, type_).slice(7, 9)
        expected = [value is not None for value in (values * 4)[7:16]]
        node = ir.Not(BOOLEAN, False, None, ir.IsNull(BOOLEAN, False, None, column(type_)))
        assert predicate(node, [piece], 9)[0].tolist() == expected
        equal = ir.comparison("<=>", column(type_), column(type_, 1))
        assert predicate(equal, [piece, array_of((values * 4)[7:16], type_)], 9)[0].all()


def microseconds(*moments):
    return [None if m is None else (m - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) for m in moments]


def test_a_date_becomes_the_first_moment_of_the_day_in_the_databases_zone():
    """DATE to TIMESTAMP: midnight there, or what comes first where midnight is skipped."""
    days = [date(1970, 1, 1), None, date(2016, 10, 16), date(2016, 7, 18)]  # Sao Paulo, 2016-10-16, began at 01:00
    numbers = pa.array([None if day is None else (day - date(1970, 1, 1)).days for day in days], pa.int32())
    zone = ZoneInfo("America/Sao_Paulo")
    array, errors = evaluate(ir.Cast(TIMESTAMP, True, None, column(DATE)), [numbers], 4, zone=zone.key)
    starts = [datetime(1970, 1, 1, tzinfo=zone), None, datetime(2016, 10, 16, 1, tzinfo=zone),
              datetime(2016, 7, 18, tzinfo=zone)]  # fmt: skip
    assert errors is None and array.to_pylist() == microseconds(*starts)


def test_a_timestamp_as_written_is_read_in_the_databases_zone():
    """TIMESTAMP_NTZ to TIMESTAMP: a skipped hour, and one shown twice, are read with the clock before the change."""
    zone = ZoneInfo("Europe/Berlin")
    written = [datetime(2024, 3, 31, 2, 30, 0, 1), datetime(2024, 10, 27, 2, 30), None, datetime(2024, 7, 1, 12)]
    numbers = pa.array(microseconds(*(w and w.replace(tzinfo=UTC) for w in written)), pa.int64())
    array, _ = evaluate(ir.Cast(TIMESTAMP, True, None, column(TIMESTAMP_NTZ)), [numbers], 4, zone=zone.key)
    utc = [datetime(2024, 3, 31, 1, 30, 0, 1, tzinfo=UTC), datetime(2024, 10, 27, 0, 30, tzinfo=UTC), None,
           datetime(2024, 7, 1, 10, tzinfo=UTC)]  # fmt: skip
    assert array.to_pylist() == microseconds(*utc)


def test_a_string_becomes_its_bytes():
    """STRING to BINARY is UTF-8, for columns and constants alike."""
    for node in (column(STRING), ir.Literal(STRING, False, None, "\u00e9")):
        array, _ = evaluate(ir.Cast(BINARY, True, None, node), [pa.array(["\u00e9"], pa.large_string())], 1)
        assert array == pa.array(["\u00e9".encode()], pa.large_binary())


@pytest.mark.parametrize("values", [[0.0, -0.0], [math.nan, struct.unpack("d", b"\x01" * 6 + b"\xf8\xff")[0]]])
def test_case_43_zeros_are_one_value_and_so_are_nans(values):
    """0.0 and -0.0 are equal, and NaN equals NaN with other bits, in =, <=>, <= and IN."""
    left, right = pa.array(values), pa.array(values[::-1])
    for operator in ("=", "<=>", "<=", ">="):
        assert predicate(ir.comparison(operator, column(DOUBLE), column(DOUBLE, 1)), [left, right], 2)[0].all()
    options = tuple(ir.Literal(DOUBLE, False, None, value) for value in (values[0], 7.0))
    assert predicate(ir.In(BOOLEAN, False, None, column(DOUBLE), options), [right], 2)[0].all()


def test_case_45_a_decimal_is_equal_at_another_scale():
    """0.1 as DECIMAL(2,1) equals 0.10 as DECIMAL(20,2) once both have their common type."""
    wide_type = decimal(20, 2)
    cast = ir.Cast(wide_type, True, None, column(decimal(2, 1)))
    tenths, hundredths = array_of([1], decimal(2, 1)), array_of([10], wide_type)
    assert predicate(ir.comparison("=", cast, column(wide_type, 1)), [tenths, hundredths], 1)[0].all()


def test_a_literal_date_or_timestamp_is_its_physical_number():
    """Python's date and datetime literals compare as the days and microseconds that columns hold."""
    cases = [(DATE, date(2020, 1, 1), 18262), (TIMESTAMP, datetime(1969, 12, 31, 23, tzinfo=UTC), -3_600_000_000),
             (TIMESTAMP_NTZ, datetime(1970, 1, 1, 0, 0, 0, 7), 7)]  # fmt: skip
    for type_, value, number in cases:
        array, _ = evaluate(ir.Literal(type_, False, None, value), [], 2)
        assert array == pa.array([number] * 2, physical_type(type_))


def test_a_cast_that_is_not_implicit_is_refused():
    """There is no closure for STRING to INT: the compiler must not ask for it."""
    with pytest.raises(TypeError, match="STRING to INT"):
        evaluate(ir.Cast(INT, True, None, column(STRING)), [pa.array(["1"], pa.large_string())], 1)
