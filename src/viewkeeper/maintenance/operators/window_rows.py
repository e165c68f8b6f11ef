"""Window functions, as functions of all rows of a key, the partition (see `by_key`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import DOUBLE, Type, physical_type
from viewkeeper.evaluation import exact, exact_product
from viewkeeper.maintenance.frames import Before, Placed, counts, extremes, nth, outermost, placed, places_of
from viewkeeper.maintenance.operators.group_values import value_of_groups
from viewkeeper.maintenance.operators.keyed_rows import KeyAnswer, KeyedRows
from viewkeeper.maintenance.operators.passed import Passed
from viewkeeper.maintenance.regressions import Moments, moment
from viewkeeper.maintenance.totals import sum_or_average
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.key_functions import ValueCall, WindowRows
from viewkeeper.plans.product_sums import VARIANCES
from viewkeeper.plans.reach import runs_on, sums_up
from viewkeeper.plans.relations import Order, OverCall, tells_equals_apart
from viewkeeper.trace.keys import canonical
from viewkeeper.trace.ordering import OrderTerm
from viewkeeper.trace.rows import Rows

Valued = tuple[pa.Array, np.ndarray | None]
"""A value a place, and the packed errors (None: there are none)."""


def compute(function: WindowRows, sides: list[KeyedRows], operator: plan.ByKey, zone: str) -> KeyAnswer:
    """Each row with its values, one by one: equal rows are several, each in a place of its own."""
    (side,) = sides
    nothing = Rows.empty([physical_type(column.type) for column in operator.columns])
    if not len(side):
        return KeyAnswer(nothing, nothing, None)
    each = np.repeat(np.arange(len(side)), side.rows.weights)
    rows, key = side.rows.take(each), side.key[each]
    orders: dict[tuple[Hashable, ...], Placed] = {}
    columns = list(rows.select(function.outputs).columns)
    errors = np.zeros(len(rows), dtype=np.int64)
    for call in function.calls:
        by = call.order, call.ties, tells_equals_apart(call.function, call.frame), call.bounds
        if by not in orders:
            terms, ties = _terms(call.order, rows), _terms(call.ties, rows)
            ordered = placed(key, terms, ties, rows.columns if by[2] else ())
            orders[by] = _reaching(call, ordered, rows, key)
        of = orders[by]
        if side.passed is not None and runs_on(call):
            of = replace(of, passed=_passed(side.passed, key[of.order], call))
        arguments = [rows.columns[i].take(pa.array(of.order)) for i in call.arguments]
        values, wrong = _FUNCTIONS.get(call.function, _of_partition)(call, of, arguments)
        columns.append(values.take(pa.array(of.back)))
        if wrong is not None:
            errors = np.where(errors == 0, wrong[of.back], errors)
    made = Rows(columns, np.ones(len(rows), dtype=np.int64))
    kept = np.ones(len(rows), dtype=bool)
    if function.first is not None:
        number, most = function.first
        kept = columns[len(function.outputs) + number].to_numpy() <= most
    if not errors.any():
        return KeyAnswer(made.filter(kept), nothing, None)
    raised = np.flatnonzero(errors)
    return KeyAnswer(made.filter(kept & (errors == 0)), made.take(raised), errors[raised])


def _reaching(call: OverCall, of: Placed, rows: Rows, key: np.ndarray) -> Placed:
    """`of` with the frames of a call that reach so far in values."""
    low, high = (
        None if bound is None else places_of(rows.columns[bound], of, key, *_terms(call.order, rows), behind=behind)
        for bound, behind in zip(call.bounds, (False, True), strict=True)
    )
    return of if low is None and high is None else replace(of, low=low, high=high)


def _passed(passed: Passed, key: np.ndarray, call: OverCall) -> Before:
    """What lies before the keys (int64: their numbers) of a call's rows."""
    rows = passed.rows[key]
    if not call.arguments:
        return Before(rows, rows, None, kinds=None if passed.kinds is None else passed.kinds[key])
    (column,) = call.arguments
    index = pa.array(key)
    if call.function in ("min", "max"):
        return Before(rows, rows, None, passed.extremes[column, call.function == "max"].take(index))
    sums = [each.take(index) for each in passed.sums[column]] if sums_up(call) else None
    return Before(rows, passed.counts[column][key], sums)


def _terms(order: Sequence[Order], rows: Rows) -> list[OrderTerm]:
    return [OrderTerm(rows.columns[term.index], term.ascending, term.nulls_first) for term in order]


def _row_number(call: OverCall, of: Placed, arguments: list[pa.Array]) -> Valued:
    return _whole(of.at - of.first + 1 + _rows_before(of), call.type), None


def _rank(call: OverCall, of: Placed, arguments: list[pa.Array]) -> Valued:
    return _whole(of.peer - of.first + 1 + _rows_before(of), call.type), None


def _rows_before(of: Placed) -> np.ndarray | int:
    return 0 if of.passed is None else of.passed.rows


def _dense_rank(call: OverCall, of: Placed, arguments: list[pa.Array]) -> Valued:
    kinds = np.cumsum(of.peer == of.at)
    before = 0 if of.passed is None or of.passed.kinds is None else of.passed.kinds
    return _whole(kinds - kinds[of.first] + 1 + before, call.type), None


def _percent_rank(call: OverCall, of: Placed, arguments: list[pa.Array]) -> Valued:
    others = of.stop - of.first - 1
    return pa.array((of.peer - of.first) / np.maximum(others, 1)), None


def _cume_dist(call: OverCall, of: Placed, arguments: list[pa.Array]) -> Valued:
    return pa.array((of.behind - of.first) / (of.stop - of.first)), None


def _ntile(call: OverCall, of: Placed, arguments: list[pa.Array]) -> Valued:
    """The first buckets have one row more, as many as the rows that are left over."""
    assert call.number is not None
    size, left = np.divmod(of.stop - of.first, call.number)
    place = of.at - of.first
    larger = left * (size + 1)
    smaller = left + (place - larger) // np.maximum(size, 1)
    return _whole(np.where(place < larger, place // (size + 1), smaller) + 1, call.type), None


def _shifted(call: OverCall, of: Placed, arguments: list[pa.Array]) -> Valued:
    """LAG and LEAD: another row of the partition, so far away; where there is none, the default of the row itself."""
    shift, value = call.frame.start, arguments[0]
    assert shift is not None
    if call.ignore_nulls:
        low, high = (of.first, of.at) if shift < 0 else (of.at + 1, of.stop)
        place = nth(_present(value), low, high, shift)
    else:
        place = of.at + shift
        place = np.where((place >= of.first) & (place < of.stop), place, -1)
    found = _at(value, place)
    if len(arguments) > 1:
        found = pc.if_else(pa.array(place < 0), arguments[1], found)
    return found, None


def _nth_value(call: OverCall, of: Placed, arguments: list[pa.Array]) -> Valued:
    number = {"first_value": 1, "last_value": -1}.get(call.function) or call.number
    assert number is not None
    (value,) = arguments
    return _at(value, nth(_present(value) if call.ignore_nulls else None, *of.frames(call.frame), number)), None


def _count(call: OverCall, of: Placed, arguments: list[pa.Array]) -> Valued:
    low, high = of.frames(call.frame)
    found = counts(_present(arguments[0]), low, high) if arguments else high - low
    return pa.array(found if of.passed is None else found + of.passed.present), None


def _extreme(call: OverCall, of: Placed, arguments: list[pa.Array]) -> Valued:
    greatest = call.function == "max"
    found = extremes(arguments[0], *of.frames(call.frame), greatest=greatest)
    if of.passed is not None:
        assert of.passed.extreme is not None
        found = outermost(found, of.passed.extreme, greatest=greatest)
    return found, None


def _total(call: OverCall, of: Placed, arguments: list[pa.Array]) -> Valued:
    (value,) = arguments
    low, high = of.frames(call.frame)
    assert call.of is not None
    sums, number = exact.over_frames(value, low, high, call.of), counts(_present(value), low, high)
    if of.passed is not None:
        assert of.passed.sums is not None
        sums, number = exact.add(sums, of.passed.sums, call.of), number + of.passed.present
    return sum_or_average(call.function, sums, number, call.of, call.type, call.place)


def _variance(call: OverCall, of: Placed, arguments: list[pa.Array]) -> Valued:
    (value,) = arguments
    low, high = of.frames(call.frame)
    sums, squares = exact.over_frames(value, low, high, DOUBLE), exact_product.over_frames(value, value, low, high)
    known = Moments(counts(_present(value), low, high), [sums], {(0, 0): squares})
    return moment(call.function, known), None


def _of_partition(call: OverCall, of: Placed, arguments: list[pa.Array]) -> Valued:
    """An aggregate of all values of the partition."""
    assert call.of is not None
    partition = np.cumsum(of.first == of.at) - 1
    one = np.ones(len(of), dtype=np.int64)
    function = ValueCall(call.function, call.arguments[0], call.of)
    found = value_of_groups(function, canonical(arguments[0]), partition, one, int(partition[-1]) + 1)
    return found.take(pa.array(partition)), None


_FUNCTIONS: dict[str, Callable[[OverCall, Placed, list[pa.Array]], Valued]] = {
    "row_number": _row_number, "rank": _rank, "dense_rank": _dense_rank, "percent_rank": _percent_rank,
    "cume_dist": _cume_dist, "ntile": _ntile, "lag": _shifted, "lead": _shifted, "first_value": _nth_value,
    "last_value": _nth_value, "nth_value": _nth_value, "count_star": _count, "count": _count, "min": _extreme,
    "max": _extreme, "sum": _total, "avg": _total, **dict.fromkeys(VARIANCES, _variance),
}  # fmt: skip


def _present(values: pa.Array) -> np.ndarray:
    present: np.ndarray = values.is_valid().to_numpy(zero_copy_only=False)
    return present


def _at(values: pa.Array, places: np.ndarray) -> pa.Array:
    """The values at places, NULL where a place is below 0."""
    none = places < 0
    return values.take(pa.array(np.where(none, 0, places), mask=none))


def _whole(numbers: np.ndarray, type_: Type) -> pa.Array:
    return pa.array(numbers).cast(physical_type(type_))
