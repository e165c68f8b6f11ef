"""What a DELTA of cells with timestamps keeps (docs/decisions/096-cells-with-timestamps.md)."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.model import StateSpec


@stored
@dataclass(frozen=True)
class CellStates:
    """What a DELTA keeps beside the rows where the store keeps a timestamp with each cell, of rows that are gone, too.

    `stamps` holds for each key when the row was deleted and when it was made, and of each column behind the key, in the
    order of the rows' state, when it was written (BIGINT each, NEVER where it was not).  `ranges` holds deletions of
    ranges of keys, where a partition has several keys (`operators.key_ranges`).  `ties` says what decides between two
    values of one time (`catalog.outside_store.TIMESTAMPED`).
    """

    ties: str
    stamps: StateSpec
    ranges: StateSpec | None
