"""The stream that paper 003, section 7 measures with: every minute a part of packet losses between pairs of hosts.

A part is made from its subscript alone, so none need be kept; `expected` is what NumPy finds for a view's part, and
judges every system.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FIRST = 23_667_840
"""The subscript of the first part: the minute that begins at 2015-01-01 00:00 UTC."""

PERIOD = 100
"""A pair is lossy for the first `share` of so many parts, then quiet for the rest; pairs begin at different parts."""

HIGH = 10
"""Losses above this are high."""

QuestionKind = Literal["pattern", "sum", "max"]


@dataclass(frozen=True)
class Question:
    """A view: the paper's View1, or a sliding SUM or MAX over `window` parts.  Of a pattern `window` is the scope: how
    many parts a naive recomputation looks at (0: all)."""

    kind: QuestionKind
    window: int = 0

    def __str__(self) -> str:
        if self.kind == "pattern":
            return f"View1, scope {self.window}" if self.window else "View1"
        return f"{self.kind.upper()}, window {self.window}"

    @property
    def sql(self) -> str:
        """The query, as viewkeeper takes it."""
        if self.kind == "pattern":
            return ("SELECT src, dest, count(*) AS ct, sum(loss) AS sum_loss FROM m PATTERN [a, b, c, d+] "
                    "WHERE a.loss > 10 AND b.loss > 10 AND c.loss > 10 AND d.loss > 10 GROUP BY src, dest")  # fmt: skip
        return f"SELECT src, dest, {self.kind}(loss) AS x FROM m [WINDOW {self.window} MINUTES] GROUP BY src, dest"


@dataclass(frozen=True)
class Minutes:
    """`rows` a part, `each` of every pair, of which a `share` has high losses."""

    rows: int
    share: float = 0.1
    each: int = 1

    @property
    def pairs(self) -> int:
        """Pairs of hosts, all of which are in every part."""
        return self.rows // self.each

    @cached_property
    def _side(self) -> int:
        return int(np.ceil(np.sqrt(self.pairs)))

    @cached_property
    def _hosts(self) -> pa.Array:
        return pa.array([f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}" for i in range(self._side)])

    def part(self, part: int) -> pa.Table:
        """The rows of a part, in no order."""
        pair, loss, within = self._drawn(part)
        time = pa.array(part * 60_000_000 + within, pa.timestamp("us", tz="UTC"))
        columns = [time, *self._names(pair), pa.array(loss.astype(np.int32))]
        return pa.Table.from_arrays(columns, names=["ts", "src", "dest", "loss"])

    def lossy_pairs(self, part: int) -> np.ndarray:
        """The pairs whose high losses begin in `part`."""
        return np.flatnonzero((part + self._phase(np.arange(self.pairs))) % PERIOD == 0)

    def late_row(self, pair: int, part: int) -> pa.Table:
        """One more row of a pair, with a loss greater than any other."""
        time = dt.datetime.fromtimestamp(60 * part + 30, dt.UTC)
        src, dest = (column[0].as_py() for column in self._names(np.array([pair])))
        return pa.table({"ts": pa.array([time], pa.timestamp("us", tz="UTC")), "src": [src], "dest": [dest],
                         "loss": pa.array([PERIOD], pa.int32())})  # fmt: skip

    def aggregated(self, part: int, kind: QuestionKind) -> np.ndarray:
        """int64[pairs]: the sum, or the maximum, of each pair's losses in a part."""
        pair, loss, _ = self._drawn(part)
        if kind == "sum":
            return np.bincount(pair, loss, self.pairs).astype(np.int64)
        return loss[np.argsort(pair, kind="stable")].reshape(self.pairs, self.each).max(axis=1)

    def expected(self, question: Question, last: int, first: int = FIRST) -> np.ndarray:
        """int64[rows, 2 or 3]: the rows of part `last` of a view whose stream began with part `first`: pair, then what
        was counted or aggregated."""
        if question.window:
            first = max(first, last - question.window + 1)
        if question.kind == "pattern":
            return self._matches(first, last)
        whole = self.aggregated(last, question.kind)
        for part in range(first, last):
            one = self.aggregated(part, question.kind)
            whole = whole + one if question.kind == "sum" else np.maximum(whole, one)
        return np.column_stack([np.arange(self.pairs), whole])

    def comparable(self, table: pa.Table) -> np.ndarray:
        """Rows of a system's view as `expected` has them."""
        src, dest, *values = (column.combine_chunks() for column in table.columns)
        places = [pc.index_in(name.cast(pa.string()), self._hosts).to_numpy(zero_copy_only=False).astype(np.int64)
                  for name in (src, dest)]  # fmt: skip
        pair = places[0] * self._side + places[1]
        order = np.argsort(pair, kind="stable")
        return np.column_stack([pair, *(value.cast(pa.int64()).to_numpy() for value in values)])[order]

    def groups(self, pairs: Sequence[np.ndarray]) -> pa.Table:
        """src, dest and columns `x0`, `x1`, ... with a value for every pair."""
        names = ["src", "dest", *(f"x{i}" for i in range(len(pairs)))]
        return pa.Table.from_arrays([*self._names(np.arange(self.pairs)), *map(pa.array, pairs)], names=names)

    def _matches(self, first: int, last: int) -> np.ndarray:
        count, total = np.zeros(self.pairs, np.int64), np.zeros(self.pairs, np.int64)
        for part in range(first, last + 1):
            pair, drawn, _ = self._drawn(part)
            loss = np.empty(self.pairs, np.int64)
            loss[pair] = drawn
            high = loss > HIGH
            count, total = np.where(high, count + 1, 0), np.where(high, total + loss, 0)
        found = np.flatnonzero(count >= 4)
        return np.column_stack([found, count[found], total[found]])

    def _drawn(self, part: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pair, loss and microseconds since the part's start, of each row."""
        chance = np.random.default_rng([3, self.rows, part])
        pair = chance.permutation(self.rows) // self.each
        lossy = (part + self._phase(pair)) % PERIOD < PERIOD * self.share
        loss = np.where(lossy, chance.integers(HIGH + 1, PERIOD, self.rows), chance.integers(0, HIGH + 1, self.rows))
        return pair, loss, chance.integers(0, 60_000_000, self.rows)

    @staticmethod
    def _phase(pair: np.ndarray) -> np.ndarray:
        return pair * 2_654_435_761 >> 7

    def _names(self, pair: np.ndarray) -> list[pa.Array]:
        return [self._hosts.take(pa.array(place)) for place in divmod(pair, self._side)]


class StoredParts:
    """Parts as Parquet files, for those who read them again and again: a part that is not wanted any more is deleted,
    and made again if it is."""

    def __init__(self, folder: Path, minutes: Minutes) -> None:
        self.folder, self.minutes = folder, minutes

    def paths(self, first: int, last: int) -> list[str]:
        """The folders of parts `first` to `last`, which are made if need be; all others are deleted."""
        wanted = {self.folder / str(part): part for part in range(first, last + 1)}
        for path in self.folder.glob("*"):
            if path not in wanted:
                shutil.rmtree(path)
        for path, part in wanted.items():
            if not path.exists():
                write_files(self.minutes.part(part), path)
        return list(map(str, wanted))

    def delete(self) -> None:
        """Deletes all."""
        shutil.rmtree(self.folder, ignore_errors=True)


def write_files(table: pa.Table, folder: Path, files: int = 2) -> None:
    """A table as so many Parquet files, so that several cores have something to read."""
    folder.mkdir(parents=True)
    share = -(-table.num_rows // files)
    for i in range(files):
        pq.write_table(table.slice(i * share, share), folder / f"{i}.parquet", row_group_size=1 << 20)
