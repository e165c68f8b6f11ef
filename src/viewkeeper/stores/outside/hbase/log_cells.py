"""Cells of write-ahead logs as operations on a table.

The cells of one row that one entry sets at one timestamp are one operation; what is deleted is one a cell.  Which cell
an operation is, of which entry, is its sequence: the entry's in its region, and the cell's place in the entry
(`PLACE_BITS`).  A region's sequences grow, wherever it is served, and its parts and what it is merged into go on above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.operation_kinds import DELETE, DELETE_COLUMNS, UPDATE
from viewkeeper.changes.operations import Operations
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.outside.contract import NoOperation, ReadPart
from viewkeeper.stores.outside.hbase.byte_spans import ByteSpans
from viewkeeper.stores.outside.hbase.encodings import scattered
from viewkeeper.stores.outside.hbase.mapping import CellMapping
from viewkeeper.stores.outside.hbase.wal import Entries, LogUnreadable

PLACE_BITS = 20
_PUT, _VERSION, _FAMILY_VERSION, _COLUMN, _FAMILY = 4, 8, 10, 12, 14
"""Types of cells: a value; deletes of one version of a column or of a family's columns, of all up to a timestamp."""

_FIRST_OPENED = 3
"""The sequence at which a region says that it is there for the first time; what comes from others begins above."""

_MARKERS = b"METAFAMILY"
_EXPIRES = 8
"""The kind of tag that lets a cell expire."""


class NoFollowing(Exception):
    """Something in a log after which a table cannot be followed; the message says what."""


@dataclass(frozen=True)
class _Cells:
    """Cells of one table, column by column: `types`, `stamps` and `sequences` of each, `entries` which entry it is of,
    and `times` when that was written (milliseconds since 1970); `tagged` are those that have tags."""

    rows: ByteSpans
    families: ByteSpans
    names: ByteSpans
    """Family and qualifier, one behind the other."""
    values: ByteSpans
    tags: ByteSpans
    types: np.ndarray
    stamps: np.ndarray
    entries: np.ndarray
    sequences: np.ndarray
    times: np.ndarray

    def take(self, which: np.ndarray) -> _Cells:
        return _Cells(
            self.rows.take(which), self.families.take(which), self.names.take(which), self.values.take(which),
            self.tags.take(which), self.types[which], self.stamps[which], self.entries[which], self.sequences[which],
            self.times[which],
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.types)

    def column(self, at: int) -> bytes:
        """The name of a cell's column as HBase shows it."""
        family = self.families[at]
        return family + b":" + self.names[at][len(family) :]


class CellDecoder:
    """Reads the logs of one table; `versions(family)` is how many versions of a cell a family keeps."""

    def __init__(self, intake: TableIntake, mapping: CellMapping, versions: Callable[[bytes], int]) -> None:
        self._intake, self._form, self._mapping, self._versions = intake, intake.form, mapping, versions
        self._of_family = {family: [place.column for place in mapping.places if place.family == family]
                           for family in mapping.families}  # fmt: skip
        self._whole = {family for family, columns in self._of_family.items() if len(columns) == len(mapping.places)}

    def read(self, data: bytes, entries: Entries, found: ReadPart) -> None:
        """Adds to `found` what `entries`, whose bytes are `data`, are; raises NoFollowing, and LogUnreadable."""
        cells = _cells(np.frombuffer(data, np.uint8), entries)
        markers = cells.families.are(_MARKERS)
        if markers.any():
            _require_followed(cells.take(markers))
            cells = cells.take(~markers)
        places = np.full(len(cells), -1, np.int64)
        for number, place in enumerate(self._mapping.places):
            here = cells.names.are(place.family + place.qualifier) & (cells.families.lengths == len(place.family))
            places[here] = number
        expiring = self._expiring(cells, places, found)
        puts = (cells.types == _PUT) & (places >= 0) & ~expiring
        if puts.any():
            self._puts(cells.take(puts), places[puts], found)
        if (deletes := cells.types != _PUT).any():
            self._deletes(cells.take(deletes), places[deletes], found)

    def _expiring(self, cells: _Cells, places: np.ndarray, found: ReadPart) -> np.ndarray:
        """bool[n]: which are values that expire, and of no use therefore."""
        expiring = np.zeros(len(cells), bool)
        for at in np.flatnonzero((cells.tags.lengths > 0) & (cells.types == _PUT) & (places >= 0)).tolist():
            expiring[at] = _EXPIRES in _tags(cells.tags[at])
        why = "it expires (a TTL of its own), which no log tells"
        _refuse(cells, dict.fromkeys(np.flatnonzero(expiring).tolist(), why), found)
        return expiring

    def _puts(self, cells: _Cells, places: np.ndarray, found: ReadPart) -> None:
        """Cells with values: those which stand together, of one row and with one timestamp, are one operation."""
        form = self._form
        first = cells.rows.change()
        first[1:] |= (cells.entries[1:] != cells.entries[:-1]) | (cells.stamps[1:] != cells.stamps[:-1])
        heads, group = np.flatnonzero(first), np.cumsum(first) - 1
        columns: dict[int, pa.Array] = {}
        bits = np.zeros((len(heads), form.set_bytes * 8), np.uint8)
        for number, place in enumerate(self._mapping.places):
            here = np.flatnonzero(places == number)
            column, reasons = place.encoding.cells(cells.values.take(here), self._intake.intakes[place.column])
            if reasons:
                name = form.table.columns[place.column].name
                _refuse(cells, {int(here[at]): f"column {name}: {why}" for at, why in reasons.items()}, found)
                values = np.setdiff1d(np.arange(len(here)), list(reasons))
                here, column = here[values], column.take(pa.array(values))
            columns[place.column] = scattered(column, group[here], len(heads))
            bits[group[here], place.column] = 1
        keys, reasons = self._mapping.keys.decode(cells.rows.take(heads))
        _refuse(cells, {int(heads[at]): why for at, why in reasons.items()}, found)
        good = np.any(bits, axis=1)
        good[list(reasons)] = False
        if not good.any():
            return
        bits[:, list(form.key)] = 1
        columns |= dict(zip(form.key, keys, strict=True))
        named = np.packbits(bits, axis=1, bitorder="little")
        whole = (named == form.everything).all()
        operations = Operations(UPDATE, [columns[i] for i in range(len(columns))], None if whole else named)
        taken = operations if good.all() else operations.take(np.flatnonzero(good))
        found.operations.append((taken, cells.sequences[heads][good], cells.stamps[heads][good]))

    def _deletes(self, cells: _Cells, places: np.ndarray, found: ReadPart) -> None:
        masks = np.zeros((len(cells), self._form.set_bytes), np.uint8)
        whole = np.zeros(len(cells), bool)
        reasons: dict[int, str] = {}
        families = np.full(len(cells), -1, np.int64)
        for number, (family, columns) in enumerate(self._of_family.items()):
            here = cells.families.are(family)
            families[here] = number
            here &= cells.types == _FAMILY
            masks[here] = self._form.mask(columns)
            whole |= here & (family in self._whole)
        for number, place in enumerate(self._mapping.places):
            here = places == number
            masks[here & (cells.types == _COLUMN)] = self._form.mask([place.column])
            single = here & (cells.types == _VERSION)
            if single.any():
                if (versions := self._versions(place.family)) == 1:
                    masks[single] = self._form.mask([place.column])
                else:
                    why = (f"it deletes one version of a cell of which {versions} are kept: which one is seen now is "
                           "in no log")  # fmt: skip
                    reasons |= dict.fromkeys(np.flatnonzero(single).tolist(), why)
        for at in np.flatnonzero((families >= 0) & (cells.types == _FAMILY_VERSION)).tolist():
            reasons[at] = "it deletes one version of a whole family: which ones are seen now is in no log"
        known = np.isin(cells.types, (_VERSION, _FAMILY_VERSION, _COLUMN, _FAMILY))
        reasons |= {at: f"a cell of the unknown type {int(cells.types[at])}" for at in np.flatnonzero(~known).tolist()}
        _refuse(cells, reasons, found)
        kept = np.any(masks, axis=1)
        cells, masks, whole = cells.take(kept), masks[kept], whole[kept]
        keys, refused = self._mapping.keys.decode(cells.rows)
        _refuse(cells, refused, found)
        good = np.ones(len(cells), bool)
        good[list(refused)] = False
        for kind, here in ((DELETE, good & whole), (DELETE_COLUMNS, good & ~whole)):
            if here.any():
                index = pa.array(np.flatnonzero(here))
                named = masks[here] if kind == DELETE_COLUMNS else None
                operations = Operations(kind, [key.take(index) for key in keys], named)
                found.operations.append((operations, cells.sequences[here], cells.stamps[here]))


def _cells(data: np.ndarray, entries: Entries) -> _Cells:
    """The cells of entries; raises LogUnreadable where one's lengths do not fit together."""
    begins = np.array(entries.cells, np.int64)
    counts = np.array(entries.counts, np.int64)
    entry = np.repeat(np.arange(len(counts)), counts)
    places = np.arange(len(begins)) - np.repeat(np.cumsum(counts) - counts, counts)
    if entries.sequences and not 0 <= max(entries.sequences) < 1 << 63 - PLACE_BITS:
        raise LogUnreadable(f"an entry has the sequence {max(entries.sequences)}")
    sequences = np.array(entries.sequences, np.int64)[entry] << PLACE_BITS
    sequences |= np.minimum(places, (1 << PLACE_BITS) - 1)

    def number(at: np.ndarray, width: int) -> np.ndarray:
        pieces = data[at[:, None] + np.arange(width)] if len(at) else np.zeros((0, width), np.uint8)
        return pieces.view(f">i{width}")[:, 0].astype(np.int64)

    whole, keys, values = number(begins, 4), number(begins + 4, 4), number(begins + 8, 4)
    rows = number(begins + 12, 2)
    key, tail = begins + 12, begins + 12 + keys - 9
    family = key + 2 + rows
    right = (keys >= 12) & (values >= 0) & (rows > 0) & (8 + keys + values <= whole) & (family < tail)
    if right.all():
        families = data[family].astype(np.int64)
        right = family + 1 + families <= tail
    if not right.all():
        raise LogUnreadable(f"the cell at {int(begins[~right][0])} of what was read has lengths that do not fit")
    value = tail + 9
    return _Cells(
        ByteSpans(data, key + 2, rows), ByteSpans(data, family + 1, families),
        ByteSpans(data, family + 1, tail - family - 1), ByteSpans(data, value, values),
        ByteSpans(data, value + values, whole - 8 - keys - values), data[tail + 8],
        number(tail, 8), entry, sequences, np.array(entries.times, np.int64)[entry],
    )  # fmt: skip


def _tags(given: bytes) -> set[int]:
    """The kinds of a cell's tags: each has its length before it (2), that of its kind and its text."""
    kinds, at = set(), 2  # behind the length of all
    while at + 3 <= len(given):
        kinds.add(given[at + 2])
        at += 2 + int.from_bytes(given[at : at + 2], "big")
    return kinds


def _refuse(cells: _Cells, reasons: Mapping[int, str], found: ReadPart) -> None:
    """These cells are no operations."""
    for at, reason in reasons.items():
        data = b" ".join([cells.rows[at], cells.column(at), cells.values[at]])
        found.bad.append(NoOperation(int(cells.sequences[at]), int(cells.times[at]) * 1000, reason, data))


def _require_followed(markers: _Cells) -> None:
    """Raises NoFollowing at what changes rows, and is in no cell of the log."""
    for at in range(len(markers)):
        name = markers.column(at).partition(b":")[2]
        if name.endswith(b"BULK_LOAD"):
            raise NoFollowing("files were loaded into it (bulk load), whose rows are in no log")
        if name.endswith(b"REGION_OPEN") and int(markers.sequences[at]) >> PLACE_BITS <= _FIRST_OPENED:
            raise NoFollowing("a region of it has begun anew, as when a table is emptied (truncate), or dropped "
                              "and created again")  # fmt: skip
