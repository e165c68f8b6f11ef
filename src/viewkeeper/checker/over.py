"""Window functions row by row: each row looks at all rows of its partition anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cmp_to_key
from typing import Any

from viewkeeper.checker.aggregates import of_all_values, variance
from viewkeeper.checker.tables import Row
from viewkeeper.checker.value_rules import Raised, canonical, order_key, plain_aggregate
from viewkeeper.plans.product_sums import VARIANCES
from viewkeeper.plans.relations import Order, OverCall, Windows
from viewkeeper.plans.value_functions import needs_all_values


def in_order(left: Row, right: Row, order: Sequence[Order]) -> int:
    """Less than 0 where `left` comes first, 0 where the two are equal to `order`."""
    for term in order:
        a, b = left[term.index], right[term.index]
        if a is None or b is None:
            if (a is None) != (b is None):
                return -1 if (a is None) == term.nulls_first else 1
        elif order_key(a) != order_key(b):
            return -1 if (order_key(a) < order_key(b)) == term.ascending else 1
    return 0


def with_windows(relation: Windows, rows: Sequence[Row]) -> Iterator[tuple[Row, Row | Raised]]:
    """Each row with the values of the calls, or with what the first of them that raises has to say."""
    partitions: dict[Row, list[Row]] = {}
    for row in rows:
        partitions.setdefault(tuple(canonical(row[i]) for i in relation.partition), []).append(row)
    for members in partitions.values():
        found: list[list[Any]] = [[] for _ in members]
        for call in relation.calls:
            for n, value in _values(call, members):
                found[n].append(value)
        for row, values in zip(members, found, strict=True):
            raised = next((value for value in values if isinstance(value, Raised)), None)
            yield row, raised or tuple(values)


def _values(call: OverCall, members: Sequence[Row]) -> Iterator[tuple[int, Any]]:
    """The number of each row among `members`, and its value."""

    def compared(left: int, right: int) -> int:
        return in_order(members[left], members[right], (*call.order, *call.ties))

    numbers = sorted(range(len(members)), key=cmp_to_key(compared))
    ranked = [members[n] for n in numbers]
    for place, n in enumerate(numbers):
        try:
            yield n, _value(call, ranked, place)
        except Raised as raised:
            yield n, raised


def _value(call: OverCall, ranked: Sequence[Row], place: int) -> Any:
    row, size = ranked[place], len(ranked)
    before = sum(in_order(other, row, call.order) < 0 for other in ranked)
    match call.function:
        case "row_number":
            return place + 1
        case "rank":
            return before + 1
        case "dense_rank":
            steps = zip(ranked, ranked[1 : before + 1], strict=False)
            return 1 + sum(in_order(one, other, call.order) != 0 for one, other in steps)
        case "percent_rank":
            return before / (size - 1) if size > 1 else 0.0
        case "cume_dist":
            return sum(in_order(other, row, call.order) <= 0 for other in ranked) / size
        case "ntile":
            return _bucket(place, size, call.number or 1)
        case "lag" | "lead":
            return _neighbour(call, ranked, place)
    frame = [other for at, other in enumerate(ranked) if _is_in_frame(call, ranked, place, at)]
    if call.function == "count_star":
        return len(frame)
    values = [other[call.arguments[0]] for other in frame]
    there = [value for value in values if value is not None]
    if call.function in ("first_value", "last_value", "nth_value"):
        chosen = there if call.ignore_nulls else values
        at = {"first_value": 0, "last_value": len(chosen) - 1}.get(call.function, (call.number or 1) - 1)
        return chosen[at] if 0 <= at < len(chosen) else None
    return _aggregate(call, there)


def _aggregate(call: OverCall, values: Sequence[Any]) -> Any:
    assert call.of is not None
    if call.function in VARIANCES:
        return variance(call.function, values)
    if needs_all_values(call.function):
        return of_all_values(call.function, values, call.of) if values else None
    return plain_aggregate(call.function, values, call.of, call.type, call.place)


def _bucket(place: int, size: int, buckets: int) -> int:
    """Deals the rows out, one more to each of the first buckets while there are rows left over."""
    bucket = 1
    while place >= (held := size // buckets + (bucket <= size % buckets)):
        place -= held
        bucket += 1
    return bucket


def _neighbour(call: OverCall, ranked: Sequence[Row], place: int) -> Any:
    shift = call.frame.start
    assert shift is not None
    step, left, at = (1 if shift > 0 else -1), abs(shift), place
    while left:
        at += step
        if not 0 <= at < len(ranked):
            return ranked[place][call.arguments[1]] if len(call.arguments) > 1 else None
        left -= not (call.ignore_nulls and ranked[at][call.arguments[0]] is None)
    return ranked[at][call.arguments[0]]


def _is_in_frame(call: OverCall, ranked: Sequence[Row], place: int, at: int) -> bool:
    start, end = call.frame.start, call.frame.end
    if call.frame.unit == "ROWS":
        return (start is None or at >= place + start) and (end is None or at <= place + end)
    begins, ends = (_beside(call, ranked[at], ranked[place], bound) for bound in call.bounds)
    return (start is None or begins >= 0) and (end is None or ends <= 0)


def _beside(call: OverCall, other: Row, row: Row, bound: int | None) -> int:
    """Less than 0 where `other` comes before the value that column `bound` of `row` has, or before `row` itself."""
    if bound is None:
        return in_order(other, row, call.order)
    (term,) = call.order
    at = replace(term, index=0)
    return in_order((other[term.index],), (row[bound],), (at,))
