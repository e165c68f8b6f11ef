"""A made-up network: each minute one measurement of every pair of hosts, in order, but for what comes late."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

FIRST_PART = 23_668_440
"""The minute of 2015-01-01 10:00 UTC: its subscript, if parts are a minute long."""

HISTORY_MINUTES = 30
"""Minutes that are there before the demo begins."""

SEED = 3
TROUBLE_BEGINS = 0.005
"""How likely it is that a pair gets into trouble, each minute."""
TROUBLE_MINUTES = 7.0
"""How long that lasts, in the mean."""

SILENT_EVERY, SILENT_FROM, SILENT_MINUTES, SENT_AFTER = 10, 3, 3, 8
"""Every ten minutes, in the minutes 3 to 5, one host sends nothing; in minute 8 it sends what it had measured."""

SITES = ("north", "east", "south", "west")


class Minute(NamedTuple):
    """What comes in one minute, as Arrow tables: the measurements of the minute itself, and late ones."""

    part: int
    rows: pa.Table
    late: pa.Table


class Network:
    """About `pairs` pairs of hosts; the same measurements whenever it is made."""

    def __init__(self, pairs: int) -> None:
        sources = max(2, int(np.sqrt(1.25 * pairs)))
        targets = max(1, pairs // sources)
        self.pairs = sources * targets
        self.hosts = [{"name": f"host-{i:03}", "site": SITES[i % len(SITES)]} for i in range(sources)]
        self._source = np.repeat(np.arange(sources), targets)
        self._src = pa.array([host["name"] for host in self.hosts]).take(pa.array(self._source))
        self._dest = pa.array([f"target-{i:03}" for i in range(targets)]).take(
            pa.array(np.tile(np.arange(targets), sources))
        )
        self._random = np.random.default_rng(SEED)
        self._second = self._random.integers(0, 60, self.pairs)
        self._trouble = np.zeros(self.pairs, dtype=np.int64)
        self._silent = -1
        self._held: list[pa.Table] = []
        self._number = 0

    def history(self) -> pa.Table:
        """What came before the demo begins: all of it, in any order."""
        minutes = [self.next() for _ in range(HISTORY_MINUTES)]
        return pa.concat_tables([table for minute in minutes for table in (minute.rows, minute.late)])

    def next(self) -> Minute:
        """One more minute."""
        part, at = FIRST_PART + self._number, self._number % SILENT_EVERY
        self._number += 1
        everything = self._measured(part)
        if at == SILENT_FROM:
            self._silent = int(self._random.integers(0, len(self.hosts)))
        if not SILENT_FROM <= at < SILENT_FROM + SILENT_MINUTES:
            held = self._held if at == SENT_AFTER else []
            late = pa.concat_tables([everything.slice(0, 0), *held])
            self._held = [] if at == SENT_AFTER else self._held
            return Minute(part, everything, late)
        is_silent = self._source == self._silent
        self._held.append(everything.filter(pa.array(is_silent)))
        return Minute(part, everything.filter(pa.array(~is_silent)), everything.slice(0, 0))

    def _measured(self, part: int) -> pa.Table:
        """The measurements of all pairs."""
        begins = self._random.random(self.pairs) < TROUBLE_BEGINS
        lasts = self._random.geometric(1 / TROUBLE_MINUTES, self.pairs)
        self._trouble = np.maximum(self._trouble - 1, np.where(begins, lasts, 0))
        loss = np.where(self._trouble > 0, self._random.integers(11, 60, self.pairs),
                        self._random.integers(0, 11, self.pairs))  # fmt: skip
        moments = (part * 60 + self._second) * 1_000_000
        return pa.table({
            "ts": pa.array(moments, pa.timestamp("us", "UTC")), "src": self._src, "dest": self._dest,
            "loss": pa.array(loss.astype(np.int32)),
        })  # fmt: skip
