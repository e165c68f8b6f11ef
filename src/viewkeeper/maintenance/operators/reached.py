"""The rows that decide what changes by key, where a changed row reaches its neighbours only, or the first rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from viewkeeper.maintenance.operators.extremes_before import extremes_before
from viewkeeper.maintenance.operators.keyed_rows import KeyedRows, TouchedKeys
from viewkeeper.maintenance.operators.passed import passed
from viewkeeper.plans.key_functions import KeyFunction, WindowRows
from viewkeeper.plans.reach import ReachInOrder, runs_on, sums_up
from viewkeeper.trace.kinds import kinds_before
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.stretches import KeysInOrder, Stretches, joined
from viewkeeper.trace.trace import Trace

WHOLE_ROWS = 1000
"""A key of no more rows is read whole."""

_WHOLE_SHARE = 8  # so is one of whose rows a batch brings more than one in so many


def reached(
    reach: ReachInOrder, function: KeyFunction, trace: Trace, arranged: Rows, keys: TouchedKeys, zone: str
) -> tuple[KeyedRows, KeyedRows]:  # fmt: skip
    """The rows of `keys` that the changes `arranged` reach in `function`, in `trace` and with them; `zone` is the
    database's time zone.

    They come in stretches, which are told apart as keys are.  At the ends of a stretch the function lacks rows, before
    and after alike: nothing has changed so near to them that this would not cancel out.
    """
    now = trace.with_rows(arranged)
    if len(now.runs) == len(trace.runs):
        nothing = KeyedRows(np.zeros(0, dtype=np.int64), Rows.empty([c.type for c in arranged.columns]))
        return nothing, nothing
    ordered = KeysInOrder(now, keys.hashes, keys.columns)
    came = ordered.last[-1] - ordered.first[-1]
    stored = ordered.stored()
    whole = (stored <= WHOLE_ROWS) | (stored <= _WHOLE_SHARE * came)
    stretches = ordered.whole(np.flatnonzero(whole & (came > 0)))
    part = np.flatnonzero(~whole & (came > 0))
    if len(part):
        found = _first(reach, ordered, part) if reach.first is not None else _around(reach, ordered, part, zone)
        stretches = stretches.and_of(found)
    behind = None
    if len(part) and reach.onwards and isinstance(function, WindowRows):
        calls = [call for call in function.calls if runs_on(call) and call.arguments]
        extremes = {(call.arguments[0], call.function == "max") for call in calls if call.function in ("min", "max")}
        summed = {call.arguments[0]: call.of for call in calls if call.of is not None and sums_up(call)}
        counted = {call.arguments[0] for call in calls if call.function not in ("min", "max")}
        behind = passed(ordered, stretches, counted, summed)
        ranked = any(call.function == "dense_rank" for call in function.calls)
        behind = replace(
            behind, extremes={each: extremes_before(ordered, stretches, *each) for each in extremes},
            kinds=kinds_before(ordered, stretches, reach.terms) if ranked else None,
        )  # fmt: skip
    before, after = (ordered.rows(stretches, len(ordered.runs) - less) for less in (1, 0))
    return KeyedRows.of(*before, behind), KeyedRows.of(*after, behind)


def _around(reach: ReachInOrder, ordered: KeysInOrder, keys: np.ndarray, zone: str) -> Stretches:
    """The neighbours of each changed row, or those in whose frames it stands."""
    found = own = ordered.of_last_run(keys, one=reach.onwards)
    for low, high in reach.values:
        found = found.with_all(ordered.reaching(own, low, high, zone))
    if reach.peers:
        found = ordered.around(found, reach.terms)
    found = _with_neighbours(reach, ordered, found)
    if reach.values:
        # What is said of all of these may change, by one call or another: each call needs its rows of each of them.
        moved = found
        for low, high in reach.values:
            found = found.with_all(ordered.framed(moved, low, high, zone))
        found = _with_neighbours(reach, ordered, found)
    return joined(found, max(map(len, ordered.runs)))


def _with_neighbours(reach: ReachInOrder, ordered: KeysInOrder, found: Stretches) -> Stretches:
    """Stretches with as many rows on each side as `reach` says, and their equals."""
    before = ordered.outwards(found.key, found.low, reach.around, back=True)
    if reach.onwards:
        behind = ordered.whole(found.key).high
    else:
        behind = ordered.outwards(found.key, found.high, reach.around, back=False)
    found = Stretches(found.key, before, behind)
    return ordered.around(found, reach.terms) if reach.peers and reach.around else found


def _first(reach: ReachInOrder, ordered: KeysInOrder, keys: np.ndarray) -> Stretches:
    """The first rows of each key."""
    assert reach.first is not None
    first = ordered.whole(keys).low
    found = Stretches(keys, first, ordered.outwards(keys, first, max(reach.first, 1), back=False))
    if reach.peers:
        found = ordered.around(found, reach.terms)
    if reach.around:
        found = Stretches(keys, first, ordered.outwards(keys, found.high, reach.around, back=False))
        found = ordered.around(found, reach.terms) if reach.peers else found
    return found
