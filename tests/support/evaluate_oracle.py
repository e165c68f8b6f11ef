"""A row-by-row evaluator of expressions in plain Python, and the values on which it is compared."""

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
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
    decimal,
    physical_type,
)
from viewkeeper.evaluation.error_codes import (
    ARITHMETIC_OVERFLOW,
    DIVIDE_BY_ZERO,
    NUMERIC_VALUE_OUT_OF_RANGE,
    REMAINDER_BY_ZERO,
    pack_error,
)
from viewkeeper.plans import expressions as ir

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


def oracle(node, row):
    """The value of `node` for one row; raises Raised."""
    return ORACLE[type(node)](node, lambda child: oracle(child, row), row)


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


def run_compare(node, run, row):
    a, b = run(node.left), run(node.right)
    return compare_values(node.operator, a, b, node.left.type)


def run_and(node, run, row):
    result = True
    for argument in node.arguments:
        value = run(argument)
        if value is False:
            return False
        result = None if value is None else result
    return result


def run_or(node, run, row):
    result = False
    for argument in node.arguments:
        value = run(argument)
        if value is True:
            return True
        result = None if value is None else result
    return result


def run_in(node, run, row):
    value = run(node.argument)
    found = [compare_values("=", value, run(option), node.argument.type) for option in node.options]
    return True if True in found else None if None in found else False


def run_case(node, run, row):
    for condition, value in node.branches:
        if run(condition) is True:
            return run(value)
    return run(node.otherwise)


def run_coalesce(node, run, row):
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


def run_negate(node, run, row):
    value = run(node.argument)
    if value is None:
        return None
    if node.type.is_decimal:  # rounded to 34 digits, ties to even
        unit = 10 ** max(len(str(abs(value))) - 34, 0)
        return fit(-round(Fraction(value, unit)) * unit, node, NUMERIC_VALUE_OUT_OF_RANGE)
    return fit(-value, node, ARITHMETIC_OVERFLOW) if node.type.is_integer else -value


def quotient(a, b):
    if isinstance(a, float):
        with np.errstate(all="ignore"):
            return np.float64(a) / np.float64(b)
    return a / b


def remainder(a, b):
    if isinstance(a, float):
        return math.nan if math.isinf(a) else math.fmod(a, b)
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def run_arithmetic(node, run, row):
    a, b = run(node.left), run(node.right)
    if a is None or b is None:
        return None
    if node.operator in "/%" and b == 0:
        raise Raised(pack_error(DIVIDE_BY_ZERO if node.operator == "/" else REMAINDER_BY_ZERO, node.place))
    apply = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": quotient,
             "%": remainder}[node.operator]  # fmt: skip
    if node.type.is_integer:
        return fit(apply(a, b), node, ARITHMETIC_OVERFLOW)
    if node.type.is_float:
        with np.errstate(all="ignore"):
            return float((np.float32 if node.type == FLOAT else np.float64)(apply(a, b)))
    if node.operator == "%":
        whole = str(abs(int(Fraction(a, 10**node.left.type.scale) / Fraction(b, 10**node.right.type.scale))))
        if int(whole[39:] or "0"):
            raise Raised(pack_error(NUMERIC_VALUE_OUT_OF_RANGE, node.place))
    exact = apply(Fraction(a, 10**node.left.type.scale), Fraction(b, 10**node.right.type.scale))
    return fit(half_up(exact * 10**node.type.scale), node, NUMERIC_VALUE_OUT_OF_RANGE)


def run_cast(node, run, row):
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
    ir.ColumnRef: lambda node, run, row: row[node.index],
    ir.Literal: lambda node, run, row: (
        int(node.value.scaleb(node.type.scale, WIDE)) if isinstance(node.value, Decimal) else node.value
    ),
    ir.Compare: run_compare,
    ir.IsNull: lambda node, run, row: run(node.argument) is None,
    ir.Not: lambda node, run, row: {True: False, False: True, None: None}[run(node.argument)],
    ir.And: run_and,
    ir.Or: run_or,
    ir.In: run_in,
    ir.Case: run_case,
    ir.Coalesce: run_coalesce,
    ir.Negate: run_negate,
    ir.Arithmetic: run_arithmetic,
    ir.Cast: run_cast,
}
