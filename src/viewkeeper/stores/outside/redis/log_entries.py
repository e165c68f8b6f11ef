"""Entries of the log as operations, and hashes as rows.

An entry of `rows.lua` is `put|delete|delete_columns KEY at MICROSECONDS null NAMES NAME VALUE ...`: NAMES is a JSON
array of the columns that become NULL, or empty; columns that are not named stay as they are.  Entries that name the
same are decoded together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import physical_type
from viewkeeper.changes.operations import DELETE, DELETE_COLUMNS, PUT, Operations
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.outside.contract import NoOperation, ReadPart
from viewkeeper.stores.outside.redis.texts import FieldTexts, KeyTexts, column_of, nulls_refused

LogEntry = tuple[bytes, Sequence[bytes]]
"""An id, and names and values one behind the other."""

_KINDS: dict[bytes | None, int] = {b"put": PUT, b"delete": DELETE, b"delete_columns": DELETE_COLUMNS}
_HEAD = 6
"""So many names and values come before the columns."""

_FOREIGN = "it is no entry of the script by which rows are written (viewkeeper script redis)"


class EntryDecoder:
    """Reads entries and rows for one table."""

    def __init__(self, intake: TableIntake) -> None:
        self._intake, self._form = intake, intake.form
        self.keys = KeyTexts(intake)
        self._places: dict[bytes | None, int] = {intake.table.columns[i].name.encode(): i for i in intake.form.values}
        self.values = intake.form.values
        """The columns that fields hold."""

    def read(self, entries: Sequence[LogEntry], found: ReadPart) -> None:
        """Adds to `found` what `entries` are."""
        ids = pa.array([id_ for id_, _ in entries], pa.binary()).cast(pa.string())
        sequences = pc.cast(pc.replace_substring_regex(ids, "-.*", ""), pa.int64()).to_numpy()
        shapes: dict[tuple[bytes | None, ...], list[int]] = {}
        for row, (_, fields) in enumerate(entries):
            shape = (fields[0], fields[5] if len(fields) >= _HEAD else None, *fields[2::2])
            shapes.setdefault(shape, []).append(row)
        for (kind, nulls, *names), rows in shapes.items():
            group = _Group([entries[row][1] for row in rows], sequences[rows])
            if kind in _KINDS and nulls is not None and names[:2] == [b"at", b"null"]:
                self._group(_KINDS[kind], nulls, names[2:], group, found)
            else:
                group.refuse(dict.fromkeys(range(len(rows)), _FOREIGN), found)

    def _group(
        self, kind: int, nulled: bytes, named: Sequence[bytes | None], group: _Group, found: ReadPart
    ) -> None:  # fmt: skip
        """Entries of one kind that name the same columns, and make the same NULL."""
        reasons = group.read_stamps()
        nulls = self._names(nulled)
        if nulls is None:
            group.refuse(dict.fromkeys(range(len(group.fields)), _FOREIGN), found)
            return
        keys, refused = self.keys.columns(group.cells(1))
        reasons = {**refused, **reasons}
        for i in nulls:
            if not self._form.table.columns[i].nullable:
                name = self._form.table.columns[i].name
                reasons = {
                    **dict.fromkeys(range(len(group.fields)), f"NULL in column {name}, which is NOT NULL"),
                    **reasons,
                }
        if kind == PUT:
            places = {self._places[name]: at for at, name in enumerate(named) if name in self._places}
            given = {i: group.cells(_HEAD + 1 + 2 * at) for i, at in places.items() if i not in nulls}
            operations = self._puts(keys, given, nulls, reasons)
        elif kind == DELETE:
            operations = Operations(DELETE, keys)
        else:
            operations = Operations(DELETE_COLUMNS, keys, np.tile(self._form.mask(nulls), (len(group.fields), 1)))
        group.deliver(operations, reasons, found)

    def _puts(
        self, keys: Sequence[pa.Array], given: Mapping[int, FieldTexts], nulls: Sequence[int], reasons: dict[int, str]
    ) -> Operations:  # fmt: skip
        length, form = len(keys[0]), self._form
        columns = dict(zip(form.key, keys, strict=True))
        for i, texts in given.items():
            columns[i], refused = column_of(self._intake.intakes[i], texts)
            for row, reason in refused.items():
                reasons.setdefault(row, f"column {form.table.columns[i].name}: {reason}")
        named = [*columns, *nulls]
        whole = [columns[i] if i in columns else pa.nulls(length, physical_type(type_))
                 for i, type_ in enumerate(form.types)]  # fmt: skip
        mask = None if len(named) == len(whole) else np.tile(form.mask(named), (length, 1))
        return Operations(PUT, whole, mask)

    def _names(self, text: bytes) -> list[int] | None:
        """The columns that an entry makes NULL; None where it does not say."""
        try:
            names = json.loads(text) if text else []
            encoded = [name.encode() for name in names]
        except (ValueError, AttributeError, TypeError):
            return None
        return [i for name, i in self._places.items() if name in encoded]

    def rows(self, keys: Sequence[bytes], values: Sequence[FieldTexts]) -> tuple[Operations, dict[int, str]]:
        """Whole rows, given by the texts of their keys and of each of the columns `values`; and why some are none."""
        found, reasons = self.keys.columns(keys)
        puts = self._puts(found, dict(zip(self.values, values, strict=True)), (), reasons)
        refused = nulls_refused(puts.columns, self._form, range(len(puts.columns)))
        return puts, {**refused, **reasons}


class _Group:
    """Entries that are decoded together: their fields, sequences, and stamps."""

    def __init__(self, fields: list[Sequence[bytes]], sequences: np.ndarray) -> None:
        self.fields, self.sequences = fields, sequences
        self.stamps = np.zeros(len(fields), np.int64)

    def cells(self, at: int) -> list[bytes]:
        """What stands at one place of all of them."""
        return [fields[at] for fields in self.fields]

    def read_stamps(self) -> dict[int, str]:
        """Reads the entries' times; by row, why some have none."""
        texts = self.cells(3)
        try:
            self.stamps = pa.array(texts, pa.binary()).cast(pa.string()).cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            right = np.array([text.isdigit() and len(text) < 19 for text in texts], bool)
            self.stamps = np.array(
                [int(text) if good else 0 for text, good in zip(texts, right, strict=True)], np.int64
            )
            return dict.fromkeys(np.flatnonzero(~right).tolist(), _FOREIGN)
        return {}

    def refuse(self, reasons: Mapping[int, str], found: ReadPart) -> None:
        """These are no operations."""
        found.bad += [NoOperation(int(self.sequences[row]), int(self.stamps[row]), reason, b"\0".join(self.fields[row]))
                      for row, reason in reasons.items()]  # fmt: skip

    def deliver(self, operations: Operations, reasons: Mapping[int, str], found: ReadPart) -> None:
        """These are operations, but for those that have `reasons` to be none."""
        self.refuse(reasons, found)
        good = np.setdiff1d(np.arange(len(self.fields)), list(reasons))
        if len(good):
            taken = operations.take(good) if reasons else operations
            found.operations.append((taken, self.sequences[good], self.stamps[good]))


def arguments(operations: Operations, intake: TableIntake, keys: KeyTexts, texts: Any) -> list[list[Any]]:
    """What `rows.lua` is given for each of `operations`; `texts(i, column)` are those of a column."""
    form = intake.form
    carried = form.carried(operations.kind)
    at = dict(zip(carried, operations.columns, strict=True))
    written = keys.texts([at[i] for i in form.key]).to_pylist()
    if operations.kind == DELETE:
        return [["delete", key] for key in written]
    names = [column.name for column in form.table.columns]
    masks = [None] * len(written) if operations.named is None else [row.tobytes() for row in operations.named]
    named = {mask: _named(mask, form.values) for mask in set(masks)}
    if operations.kind == DELETE_COLUMNS:
        return [["delete_columns", key, len(named[mask]), *(names[i] for i in named[mask])]
                for key, mask in zip(written, masks, strict=True)]  # fmt: skip
    columns = {i: texts(i, at[i]).to_pylist() for i in form.values}
    made = []
    for row, (key, mask) in enumerate(zip(written, masks, strict=True)):
        values = [(names[i], columns[i][row]) for i in named[mask]]
        fields = [part for pair in values if pair[1] is not None for part in pair]
        nulls = [name for name, value in values if value is None]
        made.append(["put", key, len(fields) // 2, *fields, len(nulls), *nulls])
    return made


def _named(mask: bytes | None, values: Sequence[int]) -> list[int]:
    """The columns beside the key that a mask names; None names all."""
    return [i for i in values if mask is None or mask[i >> 3] >> (i & 7) & 1]
