"""A view's rows as a Delta table has them: its columns, in Delta's own types, and, where rows are a bag, how often each
row is there.  Of intervals, which Delta has not, the microseconds or months."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import BIGINT, INT, Type, logical_type, physical_type, to_logical, to_physical
from viewkeeper.errors import NotSupported
from viewkeeper.stores.outside.delta.schema import Metadata
from viewkeeper.stores.outside.targets import RESERVED, RowForm
from viewkeeper.stores.value_conversion import to_python
from viewkeeper.trace.keys import canonical
from viewkeeper.trace.rows import Rows

TIMES = f"{RESERVED}times"


class ViewForm:
    """How rows of a view are laid out in a table.  Times are in UTC."""

    def __init__(self, form: RowForm) -> None:
        self._form, self._key = form, form.key
        self.types = [_stored(column.type) for column in form.columns]
        self.names = [column.name for column in form.columns]
        self.all_names = [*self.names, *([] if form.unique else [TIMES])]
        types = [*self.types, *([] if form.unique else [BIGINT])]
        self._columns = list(zip(self.all_names, types, strict=True))
        self.schema = pa.schema([(name, logical_type(type_)) for name, type_ in self._columns])

    def is_of(self, form: RowForm) -> bool:
        """Whether it lays rows out as `form` does."""
        mine = self._form
        return (mine.columns, mine.key, mine.unique, mine.zone) == (form.columns, form.key, form.unique, form.zone)

    @property
    def has_local_times(self) -> bool:
        """Whether a TIMESTAMP_NTZ is in it, for which a table needs a feature of Delta's."""
        return any(map(_has_local_times, self.types))

    @property
    def key_names(self) -> list[str]:
        return [self.names[i] for i in self._key]

    def misfit(self, metadata: Metadata) -> dict[str, str] | None:
        """The columns of a table, and their types, where they are not those of the view."""
        try:
            found = [(column.name, column.type) for column in metadata.as_columns()]
        except NotSupported as refused:
            return {"": str(refused)}
        return None if found == self._columns else {name: str(type_) for name, type_ in found}

    def shown_columns(self) -> dict[str, str]:
        """The columns and their types, for people."""
        return {name: str(type_) for name, type_ in self._columns}

    def table(self, rows: Rows) -> pa.Table:
        """Rows of the view as ones of the table."""
        columns = [to_logical(column, type_) for column, type_ in zip(rows.columns, self.types, strict=True)]
        if not self._form.unique:
            columns.append(pa.array(rows.weights))
        return pa.Table.from_arrays(columns, schema=self.schema)

    def cast(self, table: pa.Table, names: Sequence[str]) -> pa.Table:
        """What was read of a file, its columns `names` as `schema` has them; those that it lacks are NULL."""
        schema = pa.schema([self.schema.field(name) for name in names])
        there = set(table.column_names)
        return pa.Table.from_arrays([
            _cast(table[each.name], each.type) if each.name in there else pa.nulls(len(table), each.type)
            for each in schema
        ], schema=schema)  # fmt: skip

    def rows(self, table: pa.Table) -> Rows:
        """The inverse of `table`.  NULL, which only others write, for how often a row is there is no time."""
        columns = self._physical(table, range(len(self.names)))
        if self._form.unique:
            return Rows(columns, np.ones(len(table), np.int64))
        return Rows(columns, _one(table[TIMES]).fill_null(0).to_numpy())

    def keys(self, table: pa.Table) -> list[pa.Array]:
        """The canonical key columns of rows of the table."""
        return [canonical(column) for column in self._physical(table, self._key)]

    def keys_of(self, rows: Rows) -> list[pa.Array]:
        """The canonical key columns of rows of the view."""
        return [canonical(rows.columns[i]) for i in self._key]

    def whole(self, rows: Rows) -> list[pa.Array]:
        """All of each row, in canonical form: rows are the same where these are."""
        return [*(canonical(column) for column in rows.columns), pa.array(rows.weights)]

    def shown(self, rows: Rows) -> list[dict[str, Any]]:
        """Rows as users see them, and how often they are there where they are a bag."""
        found = self.values(rows)
        if not self._form.unique:
            for row, times in zip(found, rows.weights.tolist(), strict=True):
                row[TIMES] = times
        return found

    def values(self, rows: Rows) -> list[dict[str, Any]]:
        """Rows as users see them, each once, in the database's time zone."""
        columns = []
        for column, values in zip(self._form.columns, rows.columns, strict=True):
            decode = to_python(column.type, self._form.zone)
            shown = values.to_pylist()
            columns.append(shown if decode is None else [None if each is None else decode(each) for each in shown])
        return [dict(zip(self.names, values, strict=True)) for values in zip(*columns, strict=True)]

    def key_text(self, row: dict[str, Any]) -> str:
        """The key of a row that is shown, for people."""
        return ", ".join(f"{name}={row[name]!r}" for name in self.key_names)

    def no_rows(self) -> Rows:
        return Rows.empty([physical_type(column.type) for column in self._form.columns])

    def _physical(self, table: pa.Table, which: Sequence[int]) -> list[pa.Array]:
        return [to_physical(_one(table[self.names[i]]), self.types[i]) for i in which]


def _stored(type_: Type) -> Type:
    """The type in Delta, which is held as `type_` is."""
    if type_.is_interval:
        return INT if type_.is_month_interval else BIGINT
    return replace(type_, parts=tuple((name, _stored(part)) for name, part in type_.parts))


def _has_local_times(type_: Type) -> bool:
    return type_.name == "TIMESTAMP_NTZ" or any(_has_local_times(part) for _, part in type_.parts)


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _cast(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    one = _one(column)
    return one if one.type == type_ else one.cast(type_)
