"""The snapshots of an Iceberg table that lie between two positions of its log.

A position is the sequence number of a snapshot; 0 is before the first one.
"""

from __future__ import annotations

from typing import NamedTuple

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

_CHANGED = ("added-records", "deleted-records", "added-position-deletes")
_REMOVED = _CHANGED[1:]


class Expired(Exception):
    """The snapshot at a position is not known (any more)."""


class SnapshotStep(NamedTuple):
    """From one snapshot of the table to a later one; `before` is None where there was none."""

    before: Snapshot | None
    snapshot: Snapshot

    @property
    def changes_nothing(self) -> bool:
        """Whether the rows were put into other files only."""
        return self._follows and self.snapshot.summary is not None and (
            self.snapshot.summary.operation == Operation.REPLACE)  # fmt: skip

    @property
    def rows(self) -> int:
        """About how many rows it touches, as its writer has counted them."""
        return 0 if self.changes_nothing else self._counted(_CHANGED)

    @property
    def has_deleted(self) -> bool:
        """Whether its writer says so; what came before the first that is known does not count."""
        return self._follows and not self.changes_nothing and self._counted(_REMOVED) > 0

    @property
    def _follows(self) -> bool:
        return self.before is not None and self.before.snapshot_id == self.snapshot.parent_snapshot_id

    def _counted(self, names: tuple[str, ...]) -> int:
        said = {} if self.snapshot.summary is None else self.snapshot.summary.additional_properties
        return sum(int(said.get(name, 0)) for name in names)


def position_of(metadata: TableMetadata) -> int:
    """Of the newest snapshot."""
    snapshot = metadata.current_snapshot()
    return 0 if snapshot is None else snapshot.sequence_number or 0


def snapshot_at(metadata: TableMetadata, position: int) -> Snapshot | None:
    """None for the position before the first; raises Expired."""
    if not position:
        return None
    for snapshot in metadata.snapshots:
        if snapshot.sequence_number == position:
            return snapshot
    raise Expired(f"the snapshot with the sequence number {position}")


def steps(metadata: TableMetadata, after: int, upto: int) -> list[SnapshotStep]:
    """How the table came from the snapshot at `after` to that at `upto`; raises Expired where one of these is gone.

    They go along the ancestors of the last one.  Where these do not lead to the first one, since the table was rolled
    back, or some have expired, one step leads from it to the oldest that is known, and is behind it.
    """
    first, last = snapshot_at(metadata, after), snapshot_at(metadata, upto)
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    line: list[Snapshot] = []
    while last is not None and (last.sequence_number or 0) > after:
        line.append(last)
        last = by_id.get(last.parent_snapshot_id) if last.parent_snapshot_id is not None else None
    line.reverse()
    return [SnapshotStep(before, snapshot) for before, snapshot in zip([first, *line], line, strict=False)]
