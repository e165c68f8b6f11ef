"""Reading many keys of a trace at once: sorted probes against sorted runs, then one gather a column and run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.trace.arrange import PREFIX, take_all
from viewkeeper.trace.grouping import spread
from viewkeeper.trace.keys import equal_rows, number_type, numbers, valid
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.run import Run


@dataclass(frozen=True)
class Found:
    """Rows found in one run: `rows[i]` of `run` answers probe number `probes[i]`."""

    run: Run
    probes: np.ndarray
    rows: np.ndarray


def newest_rows(runs: Sequence[Run], hashes: np.ndarray, keys: Sequence[pa.Array]) -> list[Found]:
    """Keyed runs, oldest first: the newest live row of each probe.  `hashes` ascend; probes are distinct."""
    found = []
    open_probes = np.arange(len(hashes))
    for run in reversed(runs):
        if not len(open_probes):
            break
        probes, rows = _rows_of(run, hashes, keys, open_probes)
        if not len(probes):
            continue
        answered = np.zeros(len(hashes), dtype=bool)
        answered[probes] = True
        open_probes = open_probes[~answered[open_probes]]
        if run.stored_weights is not None:
            live = run.stored_weights[rows] > 0
            probes, rows = probes[live], rows[live]
        found.append(Found(run, probes, rows))
    return found


def _rows_of(
    run: Run, hashes: np.ndarray, keys: Sequence[pa.Array], probes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(probe numbers, rows): which of `probes` have a row in `run`, whose keys are unique."""
    probes = _within(run, hashes, probes)
    words = hashes[probes]
    rows = run.positions(words)
    hit = run.words[rows] == words
    probes, rows = probes[hit], rows[hit]
    same = same_keys(run, rows, keys, probes)
    if same.all():
        return probes, rows
    # Some key shares its hash with another: look at all rows of that hash.
    others = probes[~same]
    counts = np.searchsorted(run.words, hashes[others], side="right") - rows[~same]
    more_probes, more_rows = np.repeat(others, counts), spread(rows[~same], counts)
    equal = same_keys(run, more_rows, keys, more_probes)
    return np.append(probes[same], more_probes[equal]), np.append(rows[same], more_rows[equal])


def matching_rows(
    runs: Sequence[Run], hashes: np.ndarray, keys: Sequence[pa.Array], prefix: bool, columns: Sequence[int]
) -> list[tuple[np.ndarray, Rows]]:
    """Weighted runs: (probe numbers, rows) of each run with rows of any probe.  `hashes` ascend.

    With `prefix`, only the upper half of a word comes from the key.
    """
    low = hashes & PREFIX if prefix else hashes
    high = hashes | ~PREFIX if prefix else hashes
    parts = []
    for run in runs:
        probes = np.arange(len(hashes))[np.searchsorted(high, run.low) : np.searchsorted(low, run.high, side="right")]
        starts = run.positions(low[probes])
        counts = np.searchsorted(run.words, high[probes], side="right") - starts
        some = counts > 0
        probe, rows = np.repeat(probes[some], counts[some]), spread(starts[some], counts[some])
        same = same_keys(run, rows, keys, probe)
        if not same.all():
            probe, rows = probe[same], rows[same]
        if len(rows):
            chosen = take_all([run.columns[i] for i in columns], rows)
            parts.append((probe, Rows(chosen, run.weights(rows))))
    return parts


def same_keys(run: Run, rows: np.ndarray, keys: Sequence[pa.Array], probes: np.ndarray) -> np.ndarray:
    """bool: where the first columns of `run` at `rows` are `keys` at `probes`."""
    if not keys or not len(rows):
        return np.ones(len(rows), dtype=bool)
    stored = take_all(run.columns[: len(keys)], rows)
    return equal_rows(stored, take_all(keys, probes))


def _within(run: Run, hashes: np.ndarray, probes: np.ndarray) -> np.ndarray:
    words = hashes[probes]
    return probes[np.searchsorted(words, run.low) : np.searchsorted(words, run.high, side="right")]


def gather(found: Sequence[Found], column: int, type_: pa.DataType, length: int) -> pa.Array:
    """Column `column` of the found rows, by probe number; NULL for probes without a row."""
    if not found:
        return pa.nulls(length, type_)
    if len(found) == 1 and len(found[0].rows) == length and (found[0].probes == np.arange(length)).all():
        return found[0].run.columns[column].take(pa.array(found[0].rows))
    dtype = number_type(type_)
    if dtype is not None:
        return _scatter_numbers(found, column, dtype, length)
    taken = [part.run.columns[column].take(pa.array(part.rows)) for part in found]
    place = np.full(length, -1)
    place[np.concatenate([part.probes for part in found])] = np.arange(sum(map(len, taken)))
    return pa.concat_arrays(taken).take(pa.array(place, mask=place < 0))


def _scatter_numbers(found: Sequence[Found], column: int, dtype: np.dtype, length: int) -> pa.Array:
    values, absent = np.zeros(length, dtype=dtype), np.ones(length, dtype=bool)
    for part in found:
        stored = part.run.columns[column]
        present = valid(stored)
        values[part.probes] = numbers(stored)[part.rows]
        absent[part.probes] = False if present is None else ~present[part.rows]
    return pa.array(values, mask=absent if absent.any() else None, from_pandas=False)
