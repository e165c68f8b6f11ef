"""What compaction may have taken from a topic before it was read.

A tombstone stays for delete.retention.ms once its topic has been cleaned, and then goes, too.  Who had read the row
that it deletes, and reads on only then, never hears of the delete.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Cleaning:
    """How old messages of a topic go: `policy` is its cleanup.policy, `kept_seconds` its delete.retention.ms."""

    policy: str
    kept_seconds: float

    @property
    def compacts(self) -> bool:
        """Whether messages go that have newer ones of their key."""
        return "compact" in self.policy.split(",")


def first_missing(offsets: np.ndarray, after: int, upto: int) -> int | None:
    """The first offset from `after` on, before `upto`, that is not among `offsets` (int64, ascending); None: there is
    none."""
    if len(offsets) >= upto - after:
        return None
    gaps = np.flatnonzero(offsets != np.arange(after, after + len(offsets)))
    return after + int(gaps[0] if len(gaps) else len(offsets))
