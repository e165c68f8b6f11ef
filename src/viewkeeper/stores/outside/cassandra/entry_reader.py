"""Entries of nodes' logs as operations with the cells' timestamps.

What has a time to live, or a value that its column cannot have, is no operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.operation_kinds import BEFORE, BEHIND, DELETE, FROM, TO
from viewkeeper.catalog.outside_store import NEVER
from viewkeeper.changes.operations import Operations
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.outside.cassandra.node_log import LogFrame, RangeDeletion
from viewkeeper.stores.outside.cassandra.raw_columns import RawColumn, physical
from viewkeeper.stores.outside.cells import stamped_places
from viewkeeper.stores.outside.contract import NoOperation, ReadPart
from viewkeeper.trace.hashing import canonical

_EXPIRES = "it has a time to live (USING TTL), at whose end no log says anything: it is not kept"
_MIXED = "it deletes a range of rows that is none in the order of the key, of which some columns fall and some grow"


@dataclass(frozen=True)
class StoredKind:
    """How a table's columns are stored: `types` are their CQL types, by their places here, `partition` how many
    columns of the key are the partition key, and `falling` which of the others fall (CLUSTERING ORDER ... DESC)."""

    types: tuple[str, ...]
    partition: int
    falling: tuple[bool, ...]


class EntryReader:
    """Reads entries of one table."""

    def __init__(self, intake: TableIntake, stored: StoredKind) -> None:
        self._intake, self._form, self._stored = intake, intake.form, stored

    def read(self, frame: LogFrame, found: ReadPart) -> None:
        """Adds to `found` what a frame holds."""
        found.bad += [NoOperation(sequence, 0, why, b"") for sequence, why in frame.unreadable]
        if frame.ranges:
            self._ranges(frame.ranges, found)
        if not len(frame):
            return
        keys, values, reasons = self.columns(frame.keys, frame.values)
        for row in np.flatnonzero(frame.expires).tolist():
            reasons[row] = _EXPIRES
        newest = np.maximum(np.maximum(frame.live, frame.deleted), frame.stamps.max(axis=1, initial=NEVER))
        for row, reason in reasons.items():
            data = b"\0".join(column.value(row) for column in (*frame.keys, *frame.values))
            found.bad.append(NoOperation(int(frame.sequences[row]), int(newest[row]), reason, data))
        good = np.ones(len(frame), bool)
        good[list(reasons)] = False
        deleted = np.flatnonzero(good & (frame.deleted != NEVER))
        if len(deleted):
            operations = Operations(DELETE, [each.take(pa.array(deleted)) for each in keys])
            found.operations.append((operations, frame.sequences[deleted], frame.deleted[deleted]))
        rows = np.flatnonzero(good)
        index = pa.array(rows)
        for operations, stamps, places in stamped_places(
            self._form, [each.take(index) for each in keys], [each.take(index) for each in values],
            frame.stamps[rows], frame.live[rows],
        ):  # fmt: skip
            found.operations.append((operations, frame.sequences[rows[places]], stamps))

    def columns(
        self, keys: Sequence[RawColumn], values: Sequence[RawColumn]
    ) -> tuple[list[pa.Array], list[pa.Array], dict[int, str]]:
        """Physical columns of the key, and the others; by row, why some cannot be."""
        reasons: dict[int, str] = {}
        return (
            [canonical(self._column(i, raw, reasons)) for i, raw in zip(self._form.key, keys, strict=True)],
            [self._column(i, raw, reasons) for i, raw in zip(self._form.values, values, strict=True)],
            reasons,
        )

    def _column(self, i: int, raw: RawColumn, reasons: dict[int, str]) -> pa.Array:
        array, refused = physical(self._stored.types[i], raw, self._intake.intakes[i])
        for row, reason in refused.items():
            reasons.setdefault(row, f"column {self._form.table.columns[i].name}: {reason}")
        return array

    def _ranges(self, ranges: Sequence[RangeDeletion], found: ReadPart) -> None:
        """Both ends of each range, as operations of the kinds that there are."""
        ends: list[tuple[int, RangeDeletion, list[bytes]]] = []
        for each in ranges:
            turned = self._turned(each)
            if turned is None:
                found.bad.append(NoOperation(each.sequence, each.stamp, _MIXED, _bytes_of(each)))
            else:
                ends.append((FROM if turned.lower_included else BEHIND, turned, turned.lower))
                ends.append((TO if turned.upper_included else BEFORE, turned, turned.upper))
        columns, refused = self._end_columns(ends)
        for at in {row // 2 for row in refused}:
            reason = next(reason for row, reason in refused.items() if row // 2 == at)
            range_ = ends[2 * at][1]
            found.bad.append(NoOperation(range_.sequence, range_.stamp, reason, _bytes_of(range_)))
        kinds = np.array([kind for kind, _, _ in ends], np.int64)
        kinds[[2 * (row // 2) + side for row in refused for side in (0, 1)]] = -1
        behind = self._form.key[self._stored.partition :]
        sequences = np.array([range_.sequence for _, range_, _ in ends], np.int64)
        stamps = np.array([range_.stamp for _, range_, _ in ends], np.int64)
        named = [self._form.mask(behind[: len(values)]) for _, _, values in ends]
        for kind in (FROM, BEHIND, TO, BEFORE):
            rows = np.flatnonzero(kinds == kind)
            if len(rows):
                index = pa.array(rows)
                operations = Operations(kind, [each.take(index) for each in columns], np.array(named)[rows])
                found.operations.append((operations, sequences[rows], stamps[rows]))

    def _end_columns(
        self, ends: Sequence[tuple[int, RangeDeletion, list[bytes]]]
    ) -> tuple[list[pa.Array], dict[int, str]]:
        """The key's columns, which hold anything where an end does not speak of one."""
        columns, reasons = list[pa.Array](), dict[int, str]()
        for at, i in enumerate(self._form.key):
            given = [[*range_.partition, *values] for _, range_, values in ends]
            array = self._column(i, _raw([each[at] if at < len(each) else None for each in given]), reasons)
            anything = pa.scalar(0).cast(array.type) if not _is_bytes(array.type) else pa.scalar("", array.type)
            columns.append(canonical(array.fill_null(anything)))
        return columns, reasons

    def _turned(self, range_: RangeDeletion) -> RangeDeletion | None:
        """The range in growing order of the key's columns; None where it is none."""
        lower, upper, falling = range_.lower, range_.upper, self._stored.falling
        speaks = max(len(lower), len(upper))
        same = 0
        while same < min(len(lower), len(upper)) and lower[same] == upper[same]:
            same += 1
        directions = set(falling[same:speaks])
        if len(directions) > 1:
            return None
        if True not in directions:
            return range_
        return RangeDeletion(range_.sequence, range_.stamp, range_.partition, upper, range_.upper_included, lower,
                             range_.lower_included)  # fmt: skip


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(type_) or pa.types.is_large_binary(type_))


def _raw(values: Sequence[bytes | None]) -> RawColumn:
    lengths = np.array([-1 if value is None else len(value) for value in values], np.int64)
    begins = np.concatenate([[0], np.cumsum(np.maximum(lengths, 0))[:-1]]).astype(np.int64)
    return RawColumn(np.frombuffer(b"".join(value or b"" for value in values), np.uint8), begins, lengths)


def _bytes_of(range_: RangeDeletion) -> bytes:
    return b"\0".join([*range_.partition, *range_.lower, b"..", *range_.upper])
