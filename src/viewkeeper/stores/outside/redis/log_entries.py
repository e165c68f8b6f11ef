"""Entries of the log as operations, and hashes as rows.

An entry of `rows.lua` is `put|delete|delete_columns KEY at MICROSECONDS null NAMES NAME VALUE ...`: NAMES is a JSON
array of the columns that become NULL, or empty; columns that are not named stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.operation_kinds import DELETE, DELETE_COLUMNS, PUT
from viewkeeper.changes.operations import Operations, TableForm
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
        groups = {kind: _Group() for kind in (None, *_KINDS)}
        for (kind, nulls, *names), rows in shapes.items():
            nulled = self._names(nulls) if kind in _KINDS and names[:2] == [b"at", b"null"] else None
            places = {
                self._places[name]: _HEAD + 1 + 2 * at for at, name in enumerate(names[2:]) if name in self._places
            }
            groups[kind if nulled is not None else None].add(
                [entries[row][1] for row in rows], sequences[rows], places, nulled or ()
            )
        groups.pop(None).refuse_all(_FOREIGN, found)
        for name, group in groups.items():
            if group.fields:
                self._group(_KINDS[name], group, found)

    def _group(self, kind: int, group: _Group, found: ReadPart) -> None:
        """Entries of one kind."""
        form, reasons = self._form, group.read_stamps()
        keys, refused = self.keys.columns(group.cells(1))
        for row, reason in [*refused.items(), *group.refused_nulls(form).items()]:
            reasons.setdefault(row, reason)
        if kind == DELETE:
            operations = Operations(DELETE, keys)
        elif kind == DELETE_COLUMNS:
            operations = Operations(DELETE_COLUMNS, keys, group.masks(form, named=False))
        else:
            masks = group.masks(form, named=True)
            operations = self._puts(keys, {i: group.texts(i) for i in self.values}, reasons)
            operations.named = None if (masks == form.everything).all() else masks
        group.deliver(operations, reasons, found)

    def _puts(
        self, keys: Sequence[pa.Array], given: Mapping[int, FieldTexts], reasons: dict[int, str]
    ) -> Operations:  # fmt: skip
        columns = dict(zip(self._form.key, keys, strict=True))
        for i, texts in given.items():
            columns[i], refused = column_of(self._intake.intakes[i], texts)
            for row, reason in refused.items():
                reasons.setdefault(row, f"column {self._form.table.columns[i].name}: {reason}")
        return Operations(PUT, [columns[i] for i in range(len(columns))])

    def _names(self, text: bytes | None) -> list[int] | None:
        """The columns that an entry makes NULL; None where it does not say."""
        if text is None:
            return None
        try:
            names = json.loads(text) if text else []
            encoded = [name.encode() for name in names]
        except (ValueError, AttributeError, TypeError):
            return None
        return [i for name, i in self._places.items() if name in encoded]

    def rows(self, keys: Sequence[bytes], values: Sequence[FieldTexts]) -> tuple[Operations, dict[int, str]]:
        """Whole rows, given by the texts of their keys and of each of the columns `values`; and why some are none."""
        found, reasons = self.keys.columns(keys)
        puts = self._puts(found, dict(zip(self.values, values, strict=True)), reasons)
        refused = nulls_refused(puts.columns, self._form, range(len(puts.columns)))
        return puts, {**refused, **reasons}


class _Group:
    """Entries that are decoded together: their fields, sequences and stamps, and which columns they name where.

    Those that name the same stand together, in a run: from where to where, the place of each column's text, and the
    columns that become NULL, which are stronger.
    """

    def __init__(self) -> None:
        self.fields: list[Sequence[bytes]] = []
        self.stamps = np.zeros(0, np.int64)
        self._sequences: list[np.ndarray] = []
        self._runs: list[tuple[slice, Mapping[int, int], Sequence[int]]] = []

    def add(
        self, fields: list[Sequence[bytes]], sequences: np.ndarray, places: Mapping[int, int], nulls: Sequence[int]
    ) -> None:  # fmt: skip
        """A run of entries."""
        start = len(self.fields)
        self.fields += fields
        self._sequences.append(sequences)
        self._runs.append((slice(start, len(self.fields)), places, nulls))

    def cells(self, at: int) -> list[bytes]:
        """What stands at one place of all of them."""
        return [fields[at] for fields in self.fields]

    def texts(self, i: int) -> FieldTexts:
        """The texts of column `i`, None where it is not named or becomes NULL."""
        found: list[bytes | None] = []
        for run, places, nulls in self._runs:
            at = places.get(i) if i not in nulls else None
            length = run.stop - run.start
            found += [None] * length if at is None else [fields[at] for fields in self.fields[run]]
        return found

    def masks(self, form: TableForm, named: bool) -> np.ndarray:
        """Which columns each names, and the key's, or makes NULL: uint8[n, set_bytes]."""
        masks = np.zeros((len(self.fields), form.set_bytes), np.uint8)
        for run, places, nulls in self._runs:
            masks[run] = form.mask([*form.key, *places, *nulls] if named else nulls)
        return masks

    def refused_nulls(self, form: TableForm) -> dict[int, str]:
        """By row, why what becomes NULL cannot."""
        reasons: dict[int, str] = {}
        for run, _, nulls in self._runs:
            for column in (form.table.columns[i] for i in nulls if not form.table.columns[i].nullable):
                reasons |= dict.fromkeys(range(run.start, run.stop), f"NULL in column {column.name}, which is NOT NULL")
        return reasons

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

    @property
    def sequences(self) -> np.ndarray:
        return np.concatenate(self._sequences) if self._sequences else np.zeros(0, np.int64)

    def refuse_all(self, reason: str, found: ReadPart) -> None:
        """None of them is an operation."""
        self.stamps = np.zeros(len(self.fields), np.int64)
        self.refuse(dict.fromkeys(range(len(self.fields)), reason), found)

    def refuse(self, reasons: Mapping[int, str], found: ReadPart) -> None:
        """These are no operations."""
        sequences = self.sequences
        found.bad += [NoOperation(int(sequences[row]), int(self.stamps[row]), reason, b"\0".join(self.fields[row]))
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
