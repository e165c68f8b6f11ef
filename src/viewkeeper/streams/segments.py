"""Aggregates over the rows of matches, all matches at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import Type
from viewkeeper.evaluation import exact
from viewkeeper.streams import extremes
from viewkeeper.trace.keys import valid


def present_between(values: pa.Array, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How many of `values[low[i]:high[i]]` are not NULL."""
    there = valid(values)
    if there is None:
        return high - low
    before = np.append(0, np.cumsum(there))
    return before[high] - before[low]


@dataclass(frozen=True)
class Segments:
    """Rows that lie one match after another, `counts` of each.

    `sums` and `extreme` of `values`, those of the rows, are of the matches that have rows (`filled`).
    """

    counts: np.ndarray

    @cached_property
    def starts(self) -> np.ndarray:
        """Where each begins."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def filled(self) -> np.ndarray:
        """Those that have rows."""
        return np.flatnonzero(self.counts)

    def everywhere(self, column: pa.Array) -> pa.Array:
        """A column of those with rows as one of all: NULL for the others."""
        if len(column) == len(self.counts):
            return column
        places = np.full(len(self.counts), -1)
        places[self.filled] = np.arange(len(self.filled))
        return column.take(pa.array(places, mask=places < 0))

    def present(self, values: pa.Array) -> np.ndarray:
        """How many of each are not NULL."""
        return present_between(values, self.starts, self.starts + self.counts)

    def sums(self, values: pa.Array, type_: Type) -> list[pa.Array]:
        """The exact sums (`maintenance.exact`)."""
        return exact.lift_reduce(values, np.ones(len(values), np.int64), self.starts[self.filled], type_)

    def extreme(self, values: pa.Array, least: bool) -> pa.Array:
        """The smallest, or the greatest; NULL where all are."""
        return extremes.of_segments(values, self.starts[self.filled], least)
