"""How the pipeline is doing while orders change: samples of positions and lag."""

from __future__ import annotations

import time
from typing import NamedTuple

from viewkeeper.database import Database

RATE_SECONDS = 5.0
"""A rate is measured over so long."""


class Sample(NamedTuple):
    """One look: operations in the logs, those in the views, how old the oldest missing one is, the version."""

    at: float
    written: int
    kept: int
    lag_seconds: float
    version: int


class Watch:
    """All samples since it was made."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.samples = [self._look()]

    def look(self) -> Sample:
        """One more sample, which is returned."""
        self.samples.append(self._look())
        return self.samples[-1]

    @property
    def seconds(self) -> float:
        """From the first sample to the last."""
        return self.samples[-1].at - self.samples[0].at

    @property
    def operations(self) -> int:
        """Brought into the views, from the first sample to the last."""
        return self.samples[-1].kept - self.samples[0].kept

    @property
    def versions(self) -> int:
        """Committed from the first sample to the last."""
        return self.samples[-1].version - self.samples[0].version

    def rate(self) -> float:
        """Operations a second that came into the views lately."""
        last = self.samples[-1]
        first = next(sample for sample in self.samples if last.at - sample.at <= RATE_SECONDS)
        return (last.kept - first.kept) / (last.at - first.at) if last.at > first.at else 0.0

    def _look(self) -> Sample:
        told = self._db.lag()
        nodes = told["nodes"]
        return Sample(
            time.monotonic(), sum(node["end"] for node in nodes), sum(node["position"] for node in nodes),
            max(node["lag_seconds"] or 0.0 for node in nodes), told["version"],
        )  # fmt: skip
