"""Writes of `cell_model` as operations of a table."""

from __future__ import annotations

import pyarrow as pa

from cell_model import Key, Write
from viewkeeper.catalog.operation_kinds import (
    BEFORE,
    BEHIND,
    DELETE,
    DELETE_COLUMNS,
    FROM,
    PUT,
    TO,
    UPDATE,
)
from viewkeeper.catalog.types import physical_type
from viewkeeper.changes.operations import Operations, TableForm


def operations_of(form: TableForm, write: Write) -> list[Operations]:
    """The operations, one or the two ends of a range, that a write is."""
    if write.kind == "range":
        ends = ((write.low, FROM, BEHIND), (write.high, TO, BEFORE))
        return [_range_end(form, write, end, closed if is_in else open_) for (end, is_in), closed, open_ in ends]
    key = [pa.array([value], physical_type(form.types[i])) for value, i in zip(write.key, form.key, strict=True)]
    if write.kind == "delete":
        return [Operations(DELETE, key)]
    named = [i for i, column in enumerate(form.table.columns) if column.name in write.cells]
    if write.kind == "unset":
        return [Operations(DELETE_COLUMNS, key, form.mask(named)[None, :])]
    columns = dict(zip(form.key, key, strict=True))
    values = [columns.get(i, pa.array([write.cells.get(c.name)], physical_type(c.type)))
              for i, c in enumerate(form.table.columns)]  # fmt: skip
    mask = form.mask([*form.key, *named])[None, :]
    return [Operations(PUT if write.kind == "insert" else UPDATE, values, mask)]


def _range_end(form: TableForm, write: Write, end: Key, kind: int) -> Operations:
    types = [form.types[i] for i in form.key]
    given = [*write.key, *end]
    anything = ["" if type_.name == "STRING" else 0 for type_ in types]
    key = [pa.array([value], physical_type(type_))
           for value, type_ in zip([*given, *anything[len(given) :]], types, strict=True)]  # fmt: skip
    return Operations(kind, key, form.mask([form.key[i] for i in range(len(write.key), len(given))])[None, :])
