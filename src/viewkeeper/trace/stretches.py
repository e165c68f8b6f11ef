"""Stretches of the rows of keys, in a state that keeps each key's rows in an order.

A stretch is [low, high) in each run: all runs are sorted alike, so a place in the order is a place in each of them.
Rows are searched by halving, and read around a place outwards, as many as are needed: what a stretch costs does not
depend on how many rows its key has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.trace.grouping import spread
from viewkeeper.trace.keys import exact_codes
from viewkeeper.trace.ordered import key_ranges
from viewkeeper.trace.ordering import OrderTerm, order_keys
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.run import Run
from viewkeeper.trace.trace import Trace

Places = list[np.ndarray]
"""For each run the rows (int64[n]) at which n places of the order lie."""

_UNSTEADY = 2 * 86_400_000_000
"""Microseconds by which a TIMESTAMP counted on by days may stand before that of an earlier one, where clocks are put
forward: a day and more where a zone crosses the date line."""

_LEAST = 4  # rows of each run that are read at first; each further round reads four times as many


@dataclass(frozen=True)
class Stretches:
    """`key` (int64[n]) numbers the key that each is of."""

    key: np.ndarray
    low: Places
    high: Places

    def __len__(self) -> int:
        return len(self.key)

    def of(self, index: np.ndarray) -> Stretches:
        """Those at `index`."""
        return Stretches(self.key[index], taken(self.low, index), taken(self.high, index))

    def with_all(self, other: Stretches) -> Stretches:
        """Each with all that lies in the one of `other` at its place."""
        low = [np.minimum(*pair) for pair in zip(self.low, other.low, strict=True)]
        return Stretches(self.key, low, [np.maximum(*pair) for pair in zip(self.high, other.high, strict=True)])

    def and_of(self, other: Stretches) -> Stretches:
        """These, and others behind them."""

        def both(one: Places, more: Places) -> Places:
            return [np.concatenate(pair) for pair in zip(one, more, strict=True)]

        return Stretches(np.concatenate([self.key, other.key]), both(self.low, other.low), both(self.high, other.high))


def taken(places: Places, index: np.ndarray) -> Places:
    return [each[index] for each in places]


class KeysInOrder:
    """The rows that `trace` holds of some keys; its last run is what a batch adds to the others."""

    def __init__(self, trace: Trace, hashes: np.ndarray, keys: Sequence[pa.Array]) -> None:
        self.runs, self.spec = trace.runs, trace.spec
        self._types = [column.type for column in self.runs[-1].columns]
        ranges = [key_ranges(run, hashes, keys) for run in self.runs]
        self.first = [first for first, _ in ranges]
        self.last = [last for _, last in ranges]

    def whole(self, key: np.ndarray) -> Stretches:
        """All rows of each of the keys."""
        return Stretches(key, taken(self.first, key), taken(self.last, key))

    def stored(self) -> np.ndarray:
        """How many rows are stored of each key."""
        total: np.ndarray = np.sum([b - a for a, b in zip(self.first, self.last, strict=True)], axis=0)
        return total

    def rows(self, stretches: Stretches, runs: int) -> tuple[np.ndarray, Rows]:
        """The rows of the first `runs` runs, not consolidated, and the number of the stretch of each."""
        numbers, parts = [], []
        for run, low, high in list(zip(self.runs, stretches.low, stretches.high, strict=True))[:runs]:
            lengths = np.maximum(high - low, 0)
            places = spread(low, lengths)
            if len(places):
                numbers.append(np.repeat(np.arange(len(low)), lengths))
                index = pa.array(places)
                parts.append(Rows([column.take(index) for column in run.columns], run.weights(places)))
        if not parts:
            return np.zeros(0, dtype=np.int64), Rows.empty(self._types)
        return np.concatenate(numbers), Rows.concat(parts)

    def around(self, stretches: Stretches, terms: int) -> Stretches:
        """Stretches with all rows that the first `terms` of the order find equal to their outermost ones.

        Each has rows in at least one run.
        """
        there = [low < high for low, high in zip(stretches.low, stretches.high, strict=True)]
        first = self._outermost(stretches.low, there, greatest=False)
        last = self._outermost([high - 1 for high in stretches.high], there, greatest=True)
        limits = self.whole(stretches.key)
        low = self.search(first, limits.low, limits.high, terms, right=False)
        return Stretches(stretches.key, low, self.search(last, limits.low, limits.high, terms, right=True))

    def of_last_run(self, key: np.ndarray, *, one: bool) -> Stretches:
        """For each row that the last run has of the keys, or the first `one` of each, a stretch: its own place, in each
        run."""
        lengths = (self.last[-1] - self.first[-1])[key]
        lengths = np.minimum(lengths, 1) if one else lengths
        rows = spread(self.first[-1][key], lengths)
        key = np.repeat(key, lengths)
        anchors = [column.take(pa.array(rows)) for column in self.runs[-1].columns]
        limits = self.whole(key)
        low = self.search(anchors, limits.low, limits.high, None, right=False)
        return Stretches(key, low, self.search(anchors, limits.low, limits.high, None, right=True))

    def reaching(self, stretches: Stretches, low: int | None, high: int, zone: str) -> Stretches:
        """Stretches that each begin with a row of the last run, with all rows in whose frames that one stands.

        The columns `low` (None: the frame begins with the key) and `high` say between which values of the order's one
        term a row's frame lies, and grow along it.
        """
        limits, margin = self.whole(stretches.key), self._margin(zone)
        value = self.runs[-1].columns[self.spec.order[0][0]].take(pa.array(stretches.low[-1]))
        begin = self._search_values(high, value, limits, -margin, right=False)
        end = limits.high if low is None else self._search_values(low, value, limits, margin, right=True)
        return stretches.with_all(Stretches(stretches.key, begin, end))

    def framed(self, stretches: Stretches, low: int | None, high: int, zone: str) -> Stretches:
        """Stretches with all rows in the frames of their outermost ones, those that begin with the key (`low` is None)
        up to the first.  Each has rows in at least one run."""
        limits, margin = self.whole(stretches.key), self._margin(zone)
        there = [begin < end for begin, end in zip(stretches.low, stretches.high, strict=True)]
        last = self._outermost([each - 1 for each in stretches.high], there, greatest=True)[high]
        begin, end = stretches.low, self._search_values(self.spec.order[0][0], last, limits, margin, right=True)
        if low is not None:
            first = self._outermost(stretches.low, there, greatest=False)[low]
            begin = self._search_values(self.spec.order[0][0], first, limits, -margin, right=False)
        return stretches.with_all(Stretches(stretches.key, begin, end))

    def _margin(self, zone: str) -> int:
        """By how much what counts values on may not grow along the order."""
        return _UNSTEADY if zone != "UTC" and self.spec.columns[self.spec.order[0][0]].type.name == "TIMESTAMP" else 0

    def outwards(self, key: np.ndarray, start: Places, count: int, *, back: bool) -> Places:
        """Places before (`back`) or behind `start` with at least `count` rows between, with the last run and without
        it, unless the key ends there."""
        found = [each.copy() for each in start]
        active = np.arange(len(key)) if count else np.zeros(0, dtype=np.int64)
        chunk = max(_LEAST, 2 * count)
        while len(active):
            keys, begin = key[active], taken(start, active)
            ends = taken(self.first if back else self.last, keys)
            if back:
                far = [np.maximum(end, at - chunk) for end, at in zip(ends, begin, strict=True)]
            else:
                far = [np.minimum(end, at + chunk) for end, at in zip(ends, begin, strict=True)]
            more = [end != at for end, at in zip(ends, far, strict=True)]
            places = [each.copy() for each in far]
            open_ = np.flatnonzero(np.any(more, axis=0))
            if len(open_):
                # Nothing is decided beyond the nearest of the outermost rows of runs that have more.
                inner, outer = taken(begin, open_), taken(far, open_)
                rows = outer if back else [at - 1 for at in outer]
                nearest = self._outermost(rows, taken(more, open_), greatest=back)
                low, high = (outer, inner) if back else (inner, outer)
                settled = self.search(nearest, low, high, None, right=not back)
                for place, here in zip(places, settled, strict=True):
                    place[open_] = here
            for place, here in zip(found, places, strict=True):
                place[active] = here
            low, high = (places, begin) if back else (begin, places)
            done = self.counted(low, high, len(self.runs)) >= count
            done &= self.counted(low, high, len(self.runs) - 1) >= count
            done |= ~np.any(more, axis=0)
            active, chunk = active[~done], chunk * 4
        return found

    def counted(self, low: Places, high: Places, runs: int) -> np.ndarray:
        """How many rows stand between places of the first `runs` runs."""
        total = np.zeros(len(low[0]), dtype=np.int64)
        for run, begin, end in list(zip(self.runs, low, high, strict=True))[:runs]:
            if run.stored_weights is None:
                total += end - begin
            else:
                rows = spread(begin, end - begin)
                sums = np.append(0, np.cumsum(run.weights(rows)))
                ends = np.cumsum(end - begin)
                total += sums[ends] - sums[ends - (end - begin)]
        return total

    def _outermost(self, rows: Places, there: Sequence[np.ndarray], *, greatest: bool) -> list[pa.Array]:
        """Of each place the smallest, or the greatest, of the `rows` that runs have there (bool); one has at least."""
        owners, parts = [], []
        for run, at, here in zip(self.runs, rows, there, strict=True):
            mine = np.flatnonzero(here)
            owners.append(mine)
            parts.append([column.take(pa.array(at[mine])) for column in run.columns])
        owner = np.concatenate(owners)
        columns = [pa.concat_arrays(list(each)) for each in zip(*parts, strict=True)]
        order = np.lexsort([owner, *self._codes(columns.__getitem__, None)][::-1])
        ranked = owner[order]
        ends = np.append(ranked[1:] != ranked[:-1], True) if greatest else np.append(True, ranked[1:] != ranked[:-1])
        index = pa.array(order[ends])
        return [column.take(index) for column in columns]

    def search(
        self, anchors: Sequence[pa.Array], low: Places, high: Places, terms: int | None, *, right: bool
    ) -> Places:
        """In each run, within [low, high): the first row not before its anchor; with `right` the first behind it."""

        def signs(run: Run, tried: pa.Array, wanted: pa.Array) -> np.ndarray:
            return self._compared(run.columns, tried, anchors, wanted, terms)

        return self._halved(low, high, signs, right=right)

    def _search_values(
        self, column: int, values: pa.Array, limits: Stretches, further: int, *, right: bool
    ) -> Places:  # fmt: skip
        """In each run, within `limits`: the first row whose `column` does not stand before its value in the order's
        one term, each value moved `further` on (microseconds); with `right` the first behind it."""
        order, *how = self.spec.order[0]
        # A bound may be of another type than the order; then this is taken for one of that.
        type_ = values.type if column == order else self.runs[-1].columns[column].type
        values = values.cast(type_)
        if further:
            moved = pc.add(values.cast(pa.int64()), pa.scalar(further if how[0] else -further, pa.int64()))
            values = moved.cast(values.type)

        def signs(run: Run, tried: pa.Array, wanted: pa.Array) -> np.ndarray:
            both = pa.concat_arrays([run.columns[column].take(tried).cast(type_), values.take(wanted)])
            return _signs(order_keys([OrderTerm(both, *how)]), len(tried))

        return self._halved(limits.low, limits.high, signs, right=right)

    def _halved(
        self, low: Places, high: Places, signs: Callable[[Run, pa.Array, pa.Array], np.ndarray], *, right: bool
    ) -> Places:
        """In each run, within [low, high): the first row that is not before what is looked for, with `right` the first
        behind it, by the `signs` of rows of a run and what they are compared with."""
        found = []
        for run, begin, end in zip(self.runs, low, high, strict=True):
            at, stop = begin.copy(), np.maximum(begin, end)
            while len(active := np.flatnonzero(at < stop)):
                middle = (at[active] + stop[active]) >> 1
                sign = signs(run, pa.array(middle), pa.array(active))
                beyond = sign <= 0 if right else sign < 0
                at[active[beyond]] = middle[beyond] + 1
                stop[active[~beyond]] = middle[~beyond]
            found.append(at)
        return found

    def _compared(
        self, columns: Sequence[pa.Array], rows: pa.Array, others: Sequence[pa.Array], places: pa.Array,
        terms: int | None,
    ) -> np.ndarray:  # fmt: skip
        """For each row of `columns` at `rows` -1, 0 or 1: before the one of `others` at `places`, or behind it."""

        def both(i: int) -> pa.Array:
            # Codes mean something within one array only, so both sides are one.
            return pa.concat_arrays([columns[i].take(rows), others[i].take(places)])

        return _signs(self._codes(both, terms), len(rows))

    def _codes(self, column: Callable[[int], pa.Array], terms: int | None) -> Iterator[np.ndarray]:
        """Numbers whose order is that of the rows of a run, the most significant first."""
        for i, *how in self.spec.order[:terms]:
            yield from order_keys([OrderTerm(column(i), *how)])
        if terms is None:
            for i in range(len(self.spec.columns)):
                yield from exact_codes(column(i))


def _signs(codes: Iterable[np.ndarray], length: int) -> np.ndarray:
    """For each of the first `length` rows that have `codes` -1, 0 or 1: before the one so far on, or behind it."""
    sign = np.zeros(length, dtype=np.int8)
    for code in codes:
        one, other = code[:length], code[length:]
        sign = np.where(sign == 0, (one > other).astype(np.int8) - (one < other), sign)
        if sign.all():
            break
    return sign


def joined(stretches: Stretches, greatest: int) -> Stretches:
    """Those of one key that overlap as one; they come by key, each with a place of its own in the last run, ascending.

    No run has more than `greatest` rows.
    """
    # Places of different keys must not be mixed: a key's number stands before the place.
    shift = stretches.key * (greatest + 1)
    low = [np.minimum.accumulate((each + shift)[::-1])[::-1] for each in stretches.low]
    high = [np.maximum.accumulate(each + shift) for each in stretches.high]
    apart = stretches.key[1:] != stretches.key[:-1]
    apart |= np.all([after[1:] >= before[:-1] for after, before in zip(low, high, strict=True)], axis=0)
    starts = np.flatnonzero(np.append(True, apart))
    ends = np.append(starts[1:], len(stretches)) - 1
    return Stretches(
        stretches.key[starts],
        [each[starts] - shift[starts] for each in low], [each[ends] - shift[ends] for each in high],
    )  # fmt: skip
