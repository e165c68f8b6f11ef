"""Exact sums against exact fractions: any order, any batches, rows that come and go; equal sums have equal bits."""

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drawn import examples
from viewkeeper.catalog.types import BIGINT, DOUBLE, FLOAT, INT, SMALLINT, TINYINT, decimal, physical_type
from viewkeeper.evaluation import exact
from viewkeeper.plans.sums import sum_columns

LARGEST = 1.7976931348623157e308
TYPES = [TINYINT, SMALLINT, INT, BIGINT, decimal(7, 2), decimal(18, 4), decimal(19, 0), decimal(38, 10), FLOAT, DOUBLE]
WIDE = Context(prec=100)


def values_of(type_):
    """Physical values: ints (unscaled for decimals) or floats, extremes among them."""
    if type_ == FLOAT:
        return st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 2.0**-149]) | st.floats(width=32)
    if type_ == DOUBLE:
        special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, LARGEST,
                   -LARGEST, 1.0, 0.1, 2.0**53, 2.0**970, 1e31, -1e31]  # fmt: skip
        return st.sampled_from(special) | st.floats()
    most = 10**type_.precision - 1 if type_.is_decimal else np.iinfo(physical_type(type_).to_pandas_dtype()).max
    return st.sampled_from([0, 1, -1, most, -most]) | st.integers(-most - (not type_.is_decimal), most)


def array_of(values, type_):
    if type_.is_decimal and type_.precision > 18:
        values = [None if value is None else Decimal(value).scaleb(-type_.scale, WIDE) for value in values]
    return pa.array(values, physical_type(type_))


def unscaled(array, type_):
    """The physical Python values, decimals as unscaled ints."""
    values = array.to_pylist()
    if type_.is_decimal and type_.precision > 18:
        return [None if value is None else int(value.scaleb(type_.scale, WIDE)) for value in values]
    return values


def ints(*values):
    return np.array(values, np.int64)


def state_of(values, type_, weights=None):
    """The state of one group of rows."""
    weights = ints(*([1] * len(values) if weights is None else weights))
    return exact.lift_reduce(array_of(values, type_), weights, ints(0), type_)


def total_of(state, type_, result=DOUBLE):
    array, overflow = exact.total(state, type_, result)
    return unscaled(array, result)[0], overflow is not None and bool(overflow[0])


def bits(state):
    return [column.to_pylist() for column in state]


def nearest_double(value):
    try:
        return float(value)  # a Fraction becomes the nearest double, ties to even
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def ieee_sum(values):
    """The correctly rounded sum of doubles; NaN and infinities as IEEE has them; never -0.0."""
    infinite = {value for value in values if math.isinf(value)}
    if any(map(math.isnan, values)) or len(infinite) == 2:
        return math.nan
    return infinite.pop() if infinite else nearest_double(sum(map(Fraction, values), Fraction(0)))


def same(a, b):
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@st.composite
def histories(draw):
    """A type and a list of batches; a batch is a list of (group, value or None, weight): deletes follow their rows."""
    type_ = draw(st.sampled_from(TYPES))
    batches, alive = [], []
    for _ in range(draw(st.integers(1, 4))):
        batch = []
        for _ in range(draw(st.integers(0, 6))):
            if alive and draw(st.booleans()):
                group, value, weight = alive.pop(draw(st.integers(0, len(alive) - 1)))
                batch.append((group, value, -weight))
            else:
                row = (
                    draw(st.integers(0, 2)),
                    draw(st.none() | values_of(type_)),
                    draw(st.sampled_from([1, 1, 2, 2**30])),
                )
                alive.append(row)
                batch.append(row)
        batches.append(batch)
    return type_, batches, alive, draw(st.randoms(use_true_random=False))


def reduced(rows, type_, fused):
    """The states of a batch: (groups, state columns)."""
    rows = sorted(rows, key=lambda row: row[0])
    groups = [row[0] for row in rows]
    starts = ints(*(i for i, group in enumerate(groups) if i == 0 or group != groups[i - 1]))
    values, weights = array_of([row[1] for row in rows], type_), ints(*(row[2] for row in rows))
    if fused:
        state = exact.lift_reduce(values, weights, starts, type_)
    else:
        state = exact.reduce(exact.lift(values, weights, type_), starts, type_)
    return [groups[i] for i in starts], state


def placed(groups, state):
    """A batch's states as three rows, NULL for groups that it does not have."""
    index = pa.array([groups.index(group) if group in groups else None for group in range(3)], pa.int64())
    return [column.take(index) for column in state]


@settings(max_examples=examples(300), deadline=None)
@given(histories())
def test_a_state_depends_on_the_rows_alone(history):
    """However rows come, go, are ordered and cut into batches, the state's bits are those of the rows that are left."""
    type_, batches, alive, shuffle = history
    types = [physical_type(column) for column in sum_columns(type_)]
    running = [pa.nulls(3, kind) for kind in types]
    for number, batch in enumerate(batches):
        groups, state = reduced(batch, type_, fused=number % 2 == 0)
        assert [column.type for column in state] == types
        running = exact.add(running, placed(groups, state), type_)
    every = [row for batch in batches for row in batch]
    shuffle.shuffle(every)
    nothing = [pa.nulls(3, kind) for kind in types]
    for rows in (alive, every):
        for fused in (True, False):
            assert bits(exact.add(nothing, placed(*reduced(rows, type_, fused)), type_)) == bits(running)


@settings(max_examples=examples(300), deadline=None)
@given(histories())
def test_a_sum_is_exact_and_rounded_once(history):
    """SUM of integers and decimals is exact or overflows; of floats it is the exact sum's nearest double."""
    type_, _, alive, _ = history
    groups, state = reduced(alive, type_, fused=True)
    result = DOUBLE if type_.is_float else decimal(min(type_.precision + 10, 38), type_.scale)
    result = BIGINT if type_.is_integer else result
    array, overflow = exact.total(state, type_, result)
    assert array.type == physical_type(result)
    for i, group in enumerate(groups):
        rows = [(value, weight) for other, value, weight in alive if other == group and value is not None]
        got = unscaled(array, result)[i]
        if type_.is_float:
            finite = sum((Fraction(value) * weight for value, weight in rows if math.isfinite(value)), Fraction(0))
            special = [value for value, _ in rows if not math.isfinite(value)]
            assert same(got, ieee_sum(special) if special else nearest_double(finite))
            continue
        right = sum(value * weight for value, weight in rows)
        fits = abs(right) < 10**result.precision if type_.is_decimal else -(2**63) <= right < 2**63
        assert got == (right if fits else None)
        assert (overflow is not None and bool(overflow[i])) == (not fits)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(values_of(DOUBLE), min_size=1, max_size=12))
@example([1.0, 2.0**-53])  # a tie, to even
@example([1.0, 2.0**-53, 5e-324])  # just above it
@example([-1.0, -(2.0**-53), -5e-324])
@example([1.0 + 2.0**-52, 2.0**-53])  # a tie, to even, upwards
@example([LARGEST, 2.0**969])  # below half a unit above the largest
@example([LARGEST, 2.0**970])  # the tie, which rounds to infinity
@example([LARGEST, 2.0**970, -5e-324])
@example([5e-324] * 3)
@example([2.2250738585072014e-308, -5e-324])  # the largest subnormal
@example([LARGEST] * 5 + [-LARGEST] * 4)
def test_a_sum_of_doubles_is_correctly_rounded(values):
    """Ties go to even, subnormals are exact, what rounds beyond the largest double is infinite."""
    assert same(total_of(state_of(values, DOUBLE), DOUBLE)[0], ieee_sum(values))


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=12), st.integers(1, 9))
def test_an_average_of_floats_divides_the_rounded_sum(values, count):
    """AVG over FLOAT and DOUBLE is the exact sum, rounded to double, divided by the count as double."""
    array, overflow = exact.average(state_of(values, FLOAT), ints(count), FLOAT, DOUBLE)
    assert overflow is None and same(array[0].as_py(), ieee_sum(values) / count)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(values_of(BIGINT), min_size=1, max_size=12))
@example([2**53, 1] + [2**62] * 4)
@example([2**63 - 1] * 3)
def test_an_average_of_integers_divides_the_rounded_exact_sum(values):
    """AVG over integers does not overflow where SUM does: the exact sum, rounded to double, divided by the count."""
    array, overflow = exact.average(state_of(values, BIGINT), ints(len(values)), BIGINT, DOUBLE)
    assert overflow is None and array.to_pylist() == [float(sum(values)) / len(values)]


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_an_average_of_decimals_is_rounded_as_spark_rounds(data):
    """The sum must fit in DECIMAL(p + 10, s), the quotient in the result; it is rounded once, HALF_UP."""
    precision = data.draw(st.integers(1, 38))
    scale = data.draw(st.integers(0, precision))
    type_ = decimal(precision, scale)
    result = decimal(min(precision + 4, 38), min(scale + 4, 38))
    values = data.draw(st.lists(values_of(type_), min_size=1, max_size=6))
    count = data.draw(st.sampled_from([1, 2, 3, 7, 11, 1000, 2**31 - 1]))
    array, overflow = exact.average(state_of(values, type_), ints(count), type_, result)
    right = half_up(Fraction(sum(values), 10**scale) / count * 10**result.scale)
    fits = abs(right) < 10**result.precision and abs(sum(values)) < 10 ** min(precision + 10, 38)
    assert unscaled(array, result) == [right if fits else None]
    assert (overflow is not None and bool(overflow[0])) == (not fits)


def half_up(value):
    whole, rest = divmod(abs(value), 1)
    return int(whole + (rest >= Fraction(1, 2))) * (1 if value >= 0 else -1)


def test_an_average_of_nothing_is_null():
    """Where the count is 0 there is no average, and no overflow either."""
    for type_, result in [
        (INT, DOUBLE),
        (DOUBLE, DOUBLE),
        (decimal(9, 2), decimal(13, 6)),
        (decimal(30, 2), decimal(34, 6)),
    ]:
        states = exact.reduce(exact.lift(array_of([None, 4], type_), ints(1, 1), type_), ints(0, 1), type_)
        array, overflow = exact.average(states, ints(0, 1), type_, result)
        assert overflow is None and array.is_valid().to_pylist() == [False, True]


def test_no_rows_and_no_groups():
    """An empty batch gives empty states of the right types."""
    for type_ in TYPES:
        empty = pa.array([], physical_type(type_))
        lifted = exact.lift(empty, ints(), type_)
        for state in (exact.lift_reduce(empty, ints(), ints(), type_), lifted, exact.add(lifted, lifted, type_)):
            assert [column.type for column in state] == [physical_type(column) for column in sum_columns(type_)]
            assert all(len(column) == 0 for column in state)


def test_weights_that_could_not_be_exact_are_refused():
    """A weight of 2**31 is an error and never a wrong sum."""
    for type_, value in [(BIGINT, 2**62), (DOUBLE, 1.0), (decimal(38, 0), 1)]:
        with pytest.raises(ValueError, match="weights"):
            state_of([value], type_, [2**31])


def test_many_groups_are_summed_in_pieces(monkeypatch):
    """The dense table of limbs is bounded: groups that do not fit in one are summed in the next."""
    from viewkeeper.evaluation import exact_float

    values = pa.array([1e-300, 1e300, -1e300, 0.5] * 10)
    whole = exact.lift_reduce(values, np.ones(40, np.int64), np.arange(0, 40, 2), DOUBLE)
    monkeypatch.setattr(exact_float, "_CELLS", 200)
    assert bits(exact.lift_reduce(values, np.ones(40, np.int64), np.arange(0, 40, 2), DOUBLE)) == bits(whole)
    assert exact.total(whole, DOUBLE, DOUBLE)[0].to_pylist() == [1e300, -1e300] * 10


# --- cases that made other systems wrong ------------------------------------------------------------------------------


def test_case_35_two_huge_opposite_floats_cancel():
    """1.1e31 and -1.1e31 sum to 0.0, and their state is that of nothing."""
    state = state_of([1.1e31, -1.1e31], DOUBLE)
    assert same(total_of(state, DOUBLE)[0], 0.0)
    assert bits(state) == bits(state_of([-0.0], DOUBLE))


def test_case_37_the_largest_double_twice_is_infinite_until_one_goes():
    """The sum is Infinity, and 1.797e308 again when one row has gone."""
    both = state_of([LARGEST, LARGEST], DOUBLE)
    assert total_of(both, DOUBLE)[0] == math.inf
    assert total_of(exact.add(both, state_of([LARGEST], DOUBLE, [-1]), DOUBLE), DOUBLE)[0] == LARGEST


def test_case_39_nan_goes_when_its_row_goes():
    """NaN, 1, 2, 3 without the NaN is 6."""
    state = state_of([math.nan, 1.0, 2.0, 3.0], DOUBLE)
    assert math.isnan(total_of(state, DOUBLE)[0])
    assert total_of(exact.add(state, state_of([math.nan], DOUBLE, [-1]), DOUBLE), DOUBLE)[0] == 6.0


def test_infinities_count_as_in_ieee_and_go_when_their_rows_go():
    """+Infinity and -Infinity together are NaN; either alone is itself."""
    state = state_of([math.inf, -math.inf, 1.5], DOUBLE)
    assert math.isnan(total_of(state, DOUBLE)[0])
    state = exact.add(state, state_of([math.inf], DOUBLE, [-1]), DOUBLE)
    assert total_of(state, DOUBLE)[0] == -math.inf
    assert total_of(exact.add(state, state_of([-math.inf], DOUBLE, [-1]), DOUBLE), DOUBLE)[0] == 1.5


def test_case_41_a_sum_of_floats_is_a_double():
    """2, 2.5 and 100.25 as FLOAT sum to 104.75."""
    assert total_of(state_of([2.0, 2.5, 100.25], FLOAT), FLOAT)[0] == 104.75


def test_case_47_a_decimal_sum_that_does_not_fit_overflows():
    """Twelve times 10000000000000000000 as DECIMAL(38,18) overflows; without three of them it is a number."""
    type_ = decimal(38, 18)
    value = 10**19 * 10**18
    state = state_of([value] * 12, type_)
    assert total_of(state, type_, type_) == (None, True)
    state = exact.add(state, state_of([value] * 3, type_, [-1] * 3), type_)
    assert total_of(state, type_, type_) == (9 * value, False)


def test_a_bigint_sum_overflows_only_if_the_exact_sum_does():
    """What leaves BIGINT on the way and comes back is no overflow."""
    state = state_of([2**63 - 1, 2**63 - 1], BIGINT)
    assert total_of(state, BIGINT, BIGINT) == (None, True)
    assert total_of(exact.add(state, state_of([-(2**63)], BIGINT), BIGINT), BIGINT, BIGINT) == (2**63 - 2, False)
