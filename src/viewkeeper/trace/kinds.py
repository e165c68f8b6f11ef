"""How many different values of an order stand before a stretch, for dense ranks.

That is no sum over runs: a value may be in several, and be taken back by a later one.  The largest run remembers what
was found, and for which runs up to which places; of those that have come since, and of the rows between, each value is
looked up as it was then and as it is now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import ReferenceType, ref

import numpy as np
import pyarrow as pa

from viewkeeper.trace.ordering import OrderTerm, order_keys
from viewkeeper.trace.run import Run
from viewkeeper.trace.stretches import KeysInOrder, Stretches


@dataclass(frozen=True)
class _Known:
    """How many there were before these places in runs."""

    number: int
    places: Mapping[ReferenceType[Run], int]


def kinds_before(ordered: KeysInOrder, stretches: Stretches, terms: int) -> np.ndarray:
    """int64: of each stretch how many different values of the first `terms` of the order its key has before it.

    The last run has no rows there.
    """
    found = np.zeros(len(stretches), dtype=np.int64)
    begins = [first[stretches.key] for first in ordered.first]
    some = np.any([low > first for low, first in zip(stretches.low, begins, strict=True)], axis=0)
    for i in np.flatnonzero(some).tolist():
        first, low = ([int(place[i]) for place in places] for places in (begins, stretches.low))
        found[i] = _of_key(ordered, first, low, terms)
    return found


def _of_key(ordered: KeysInOrder, first: Sequence[int], low: Sequence[int], terms: int) -> int:
    runs = ordered.runs
    most = max(range(len(runs)), key=lambda i: low[i] - first[i])
    by = ("kinds", terms), first[most]
    _, known = runs[most].passed.get(by, (0, None))
    here = {ref(run): place for run, place in zip(runs, low, strict=True)}
    if not isinstance(known, _Known) or not known.places.keys() <= here.keys():
        known = _Known(_within(ordered, runs[most], first[most], low[most], terms), {ref(runs[most]): low[most]})
    then = [known.places.get(ref(run), begin) for run, begin in zip(runs, first, strict=True)]
    number = known.number + _since(ordered, first, then, low, terms)
    places = {ref(run): place for run, place in list(zip(runs, low, strict=True))[:-1]}
    runs[most].passed[by] = low[most], _Known(number, places)
    return number


def _within(ordered: KeysInOrder, run: Run, first: int, last: int, terms: int) -> int:
    """How many the run itself has in [first, last)."""
    new = np.zeros(last - first, dtype=bool)
    new[:1] = True
    for i, *how in ordered.spec.order[:terms]:
        for code in order_keys([OrderTerm(run.columns[i].slice(first, last - first), *how)]):
            new[1:] |= code[1:] != code[:-1]
    if run.stored_weights is None:
        return int(new.sum())
    return int((np.add.reduceat(run.weights(slice(first, last)), np.flatnonzero(new)) > 0).sum())


def _since(ordered: KeysInOrder, first: Sequence[int], then: Sequence[int], now: Sequence[int], terms: int) -> int:
    """How many have come since there were the rows up to `then`, less those that have gone."""
    moved = [np.arange(min(a, b), max(a, b)) for a, b in zip(then, now, strict=True)]
    if not any(map(len, moved)):
        return 0
    columns = {i for i, *_ in ordered.spec.order[:terms]}
    rows = [(run, pa.array(at)) for run, at in zip(ordered.runs, moved, strict=True) if len(at)]
    values = {i: pa.concat_arrays([run.columns[i].take(at) for run, at in rows]) for i in columns}
    keys = [code for i, *how in ordered.spec.order[:terms] for code in order_keys([OrderTerm(values[i], *how)])]
    order = np.lexsort(keys[::-1])
    new = np.zeros(len(order), dtype=bool)
    new[:1] = True
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    index = pa.array(order[new])
    anchors = {i: column.take(index) for i, column in values.items()}
    there = [_there(ordered, anchors, len(index), first, places, terms) for places in (now, then)]
    return int(there[0].sum()) - int(there[1].sum())


def _there(
    ordered: KeysInOrder, anchors: Mapping[int, pa.Array], number: int, first: Sequence[int], last: Sequence[int],
    terms: int,
) -> np.ndarray:  # fmt: skip
    """Which values have rows within [first, last) of the runs, taken together."""
    begin, end = ([np.full(number, place) for place in places] for places in (first, last))
    columns = [anchors.get(i, pa.nulls(0)) for i in range(len(ordered.spec.columns))]
    low = ordered.search(columns, begin, end, terms, right=False)
    high = ordered.search(columns, begin, end, terms, right=True)
    present: np.ndarray = ordered.counted(low, high, len(ordered.runs)) > 0
    return present
