"""How far a changed row reaches in the order of its key, for functions of all rows of a key that are quicker so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from viewkeeper.catalog.model import StateSpec
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.key_functions import FirstRows, KeyFunction, WindowRows
from viewkeeper.plans.relations import OF_FRAMES, Order, OverCall, tells_equals_apart

_PASSED = ("count_star", "count", "sum", "avg", "min", "max")
_OF_FRAME = (*OF_FRAMES, "first_value", "last_value", "nth_value")


@dataclass(frozen=True)
class ReachInOrder:
    """Which rows of a key decide what a function says of those that a change moves.

    They stand in `order`, of which the first `terms` are the query's own.  `around` rows on each side of a changed row
    are enough, with `peers` those as well that the query's order finds equal to them.  With `first` it is the first so
    many rows of the key that are handed on, whatever changed, and `around` are wanted behind them.  With `onwards` all
    rows behind the first changed one are reached, and of those before the number, the sums and the extremes are enough.

    With `values`, each the columns (low, high) that say between which values of the order the frame of a row lies (low
    None: it begins with the key), the rows are reached in whose frames a changed one stands, and decided by all rows in
    these frames.
    """

    order: tuple[Order, ...]
    terms: int
    around: int
    peers: bool
    first: int | None = None
    onwards: bool = False
    values: tuple[tuple[int | None, int], ...] = ()

    def text(self, name: str) -> str:
        """What a change of one row reads of the state of `name`, for people."""
        equals = ", and those that the order finds equal to them," if self.peers else ""
        if self.first is not None:
            return f"the first {self.first + self.around:,} rows{equals} of its key in {name}"
        if self.onwards:
            before = f" and {self.around:,} before it" if self.around else ""
            before += " and the frames of those in whose frames it stands" if self.values else ""
            return f"the rows from its place on{equals}{before} in {name}"
        if self.values:
            more = f", and {self.around:,} on each side" if self.around else ""
            return f"the rows in whose frames it stands, and theirs{more}, in {name}"
        return f"the {self.around:,} rows on each side{equals} of its place in {name}"


def reach_in(function: KeyFunction, state: StateSpec) -> ReachInOrder | None:
    """As `reach_of`, where `state` keeps the rows of a key in the order in which it is measured."""
    reach = reach_of(function)
    if reach is None:
        return None
    order = tuple((term.index, term.ascending, term.nulls_first) for term in reach.order)
    return reach if order == state.order else None


def reach_by_key(operator: plan.ByKey, operators: Mapping[int, plan.Operator]) -> ReachInOrder | None:
    """The reach of a change in what `operator`, one of `operators`, computes; None: all rows of the key."""
    states = [reverse.state for i in operator.inputs if isinstance(reverse := operators[i], plan.ReverseJoin)]
    return reach_in(operator.function, states[0])


def reach_of(function: KeyFunction) -> ReachInOrder | None:
    """The reach of a change in `function`; None: all rows of the key."""
    if isinstance(function, WindowRows):
        return reach_of_calls(function.calls, function.first)
    if isinstance(function, FirstRows) and function.limit is not None:
        order = tuple(Order(term.position, term.ascending, term.nulls_first) for term in function.terms)
        return ReachInOrder(order, len(order), 0, peers=False, first=function.offset + function.limit)
    return None


def reach_of_calls(calls: Sequence[OverCall], first: tuple[int, int] | None) -> ReachInOrder | None:
    """As `reach_of`, of window functions; columns may be numbered in any way."""
    order = calls[0].order
    apart = [call for call in calls if tells_equals_apart(call.function, call.frame)]
    ties = apart[0].ties if apart else ()
    if any(call.order != order for call in calls) or any(call.ties != ties for call in apart) or not (order or ties):
        return None
    behind = [_behind(call) for call in calls]
    ahead = [_ahead(call) for call in calls]
    peers = any(map(_of_peers, calls))
    most_ahead = _most(ahead)
    if most_ahead is None:
        return None
    values = tuple(dict.fromkeys(_values(call) for call in calls if call.bounds != (None, None)))
    reach = ReachInOrder((*order, *ties), len(order), 0, peers, values=values)
    if first is not None and not values and calls[first[0]].function in ("row_number", "rank"):
        return replace(reach, first=max(first[1], 0), around=most_ahead)
    most_behind = _most(behind)
    if most_behind is None:
        return None
    return replace(reach, around=most_behind + most_ahead, onwards=any(map(runs_on, calls)))


def runs_on(call: OverCall) -> bool:
    """Whether all rows before a row count in what is said of it, but only by their number, how many differ in the
    order, their sums and extremes."""
    if call.function in ("row_number", "rank", "dense_rank"):
        return True
    return call.function in _PASSED and call.frame.start is None and call.bounds[0] is None


def sums_up(call: OverCall) -> bool:
    """Whether what is said of a row is the exact sum of a call's argument, or the mean by it."""
    return call.function in ("sum", "avg")


def _values(call: OverCall) -> tuple[int | None, int]:
    """The columns that say where in the values of the order the frame of a row begins and ends."""
    here = call.order[0].index
    low, high = call.bounds
    start = low if low is not None else None if call.frame.start is None else here
    return start, here if high is None else high


def _most(distances: Sequence[int | None]) -> int | None:
    known = [distance for distance in distances if distance is not None]
    return max(known, default=0) if len(known) == len(distances) else None


def _behind(call: OverCall) -> int | None:
    """How many rows before a row decide what is said of it, its equals apart; None: all."""
    start = call.frame.start
    if call.function in ("lag", "lead"):
        assert start is not None
        return max(-start, 0) if start >= 0 or not call.ignore_nulls else None
    if call.function not in _OF_FRAME and not runs_on(call):
        return None
    if call.bounds[0] is not None:
        return 0
    if start is None and not runs_on(call):
        return None
    end = call.frame.end
    return max(-start if start is not None else -end if end is not None else 0, 0)


def _ahead(call: OverCall) -> int | None:
    """How many rows behind a row decide what is said of it, its equals apart; None: all."""
    start, end = call.frame.start, call.frame.end
    if call.function in ("lag", "lead"):
        assert start is not None
        return max(start, 0) if start <= 0 or not call.ignore_nulls else None
    if call.function in ("row_number", "rank", "dense_rank"):
        return 0
    if call.function not in _OF_FRAME or end is None:
        return None
    return max(end, 0)


def _of_peers(call: OverCall) -> bool:
    """Whether what is said of a row depends on the rows that its order finds equal to it."""
    ranks = call.function in ("rank", "dense_rank")
    return ranks or (call.function in _OF_FRAME and call.frame.unit == "RANGE")
