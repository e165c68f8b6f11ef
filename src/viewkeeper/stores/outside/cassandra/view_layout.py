"""A view's rows as a table of Cassandra has them.

The view key is the PRIMARY KEY, all of it the partition key, where its columns are integers, BOOLEAN or DATE and never
NULL.  Else that is `viewkeeper:key`, the key's text (`key_texts`), beside all columns of the view: a NULL cannot be in
a key, nor an empty text be one, and 1.0 and 1.00 would be two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.types import BIGINT
from viewkeeper.stores.outside.cassandra.view_cells import cells_of, cql_of, is_key_type, value_in
from viewkeeper.stores.outside.key_texts import json_key, key_texts
from viewkeeper.stores.outside.targets import RESERVED, RowForm
from viewkeeper.stores.outside.values import texts_of
from viewkeeper.trace.rows import Rows

KEY, TIMES, VERSION = f"{RESERVED}key", f"{RESERVED}times", f"{RESERVED}version"

KEY_BYTES_MAX = 1_000
"""Of a longer text of a key its hash is the key: Cassandra's keys have 65,535 bytes at most."""

TableKey = tuple[bytes, ...]
Cell = bytes | None


class ViewLayout:
    """The columns of the table of a view, and the cells of rows: those of the key, then the others."""

    def __init__(self, form: RowForm) -> None:
        self.form = form
        columns = form.columns
        key = [columns[i] for i in form.key]
        self._is_plain = form.unique and bool(key) and all(
            is_key_type(column.type) and not column.nullable for column in key
        )  # fmt: skip
        self._order = [*form.key, *(i for i in range(len(columns)) if i not in form.key)] if self._is_plain \
            else list(range(len(columns)))  # fmt: skip
        named = [(columns[i].name, cql_of(columns[i].type)) for i in self._order]
        lead = [] if self._is_plain else [(KEY, "text")]
        self.columns = [*lead, *named, *([] if form.unique else [(TIMES, "bigint")])]
        self.width = len(form.key) if self._is_plain else 1
        """How many of them are the key."""

    def is_of(self, form: RowForm) -> bool:
        """Whether it lays rows out as `form` does."""
        mine = self.form
        return (mine.columns, mine.key, mine.unique, mine.zone) == (form.columns, form.key, form.unique, form.zone)

    @cached_property
    def names(self) -> list[str]:
        """The columns' names in CQL."""
        return [quoted(name) for name, _ in self.columns]

    @property
    def key_names(self) -> list[str]:
        return self.names[: self.width]

    def create(self, place: str, id_: object) -> str:
        """The statement that makes the table with that id."""
        columns = [f"{quoted(name)} {cql}" for name, cql in (*self.columns, (VERSION, "bigint"))]
        return (f"CREATE TABLE {place} ({', '.join(columns)}, PRIMARY KEY (({', '.join(self.key_names)}))) "
                f"WITH ID = {id_}")  # fmt: skip

    def fits(self, there: Mapping[str, tuple[str, str]]) -> bool:
        """Whether a table with these columns, each a kind and a type, can have the rows; more that are in no key may be
        there."""
        wanted = {name: ("partition_key" if i < self.width else "regular", cql)
                  for i, (name, cql) in enumerate((*self.columns, (VERSION, "bigint")))}  # fmt: skip
        keys = {name for name, (kind, _) in there.items() if kind in ("partition_key", "clustering")}
        return wanted.items() <= there.items() and len(keys) == self.width

    def cells(self, rows: Rows) -> list[pa.Array]:
        """The cells of rows, a column after another (large_binary)."""
        columns = self.form.columns
        found = [cells_of(columns[i].type, rows.columns[i]) for i in self._order]
        if not self.form.unique:
            found.append(cells_of(BIGINT, pa.array(rows.weights)))
        return found if self._is_plain else [pa.array(self._texts(self.form.keys(rows)), pa.large_binary()), *found]

    def keys(self, key: Rows) -> list[TableKey]:
        """The cells of keys, which have the columns of the view's key."""
        if not self._is_plain:
            return [(text,) for text in self._texts(key)]
        types = [self.form.columns[i].type for i in self.form.key]
        cells = [cells_of(type_, column) for type_, column in zip(types, key.columns, strict=True)]
        return list(zip(*(each.to_pylist() for each in cells), strict=True))

    def _texts(self, key: Rows) -> list[bytes]:
        types = [self.form.columns[i].type for i in self.form.key]
        if len(types) == 1 and types[0].name == "BINARY":  # which may be no text
            texts = [json_key(types, [each]) for each in texts_of(types[0], key.columns[0]).to_pylist()]
        else:
            texts = [text or (b'[""]' if types else b"[]") for text in key_texts(types, key)]
        return [text if len(text) <= KEY_BYTES_MAX else _hashed(text) for text in texts]

    def row(self, cells: Sequence[Cell]) -> dict[str, Any]:
        """A row as users see it; raises ValueError where a cell has no value of its column."""
        columns = self.form.columns
        named = zip(self._order, cells[0 if self._is_plain else 1 :], strict=False)
        found = {i: value_in(columns[i].type, cell, self.form.zone) for i, cell in named}
        return {column.name: found[i] for i, column in enumerate(columns)}

    def times(self, cells: Sequence[Cell]) -> int:
        """How often a row is there."""
        return 1 if self.form.unique else value_in(BIGINT, cells[-1], self.form.zone) or 0

    def shown(self, cells: Sequence[Cell]) -> dict[str, Any]:
        """A row for people, whatever its cells hold."""
        try:
            row = self.row(cells)
            if not self.form.unique:
                row[TIMES] = self.times(cells)
        except ValueError:
            return {name: cell for (name, _), cell in zip(self.columns, cells, strict=True) if cell is not None}
        return row

    def key_text(self, key: TableKey) -> str:
        """A key for people."""
        if not self._is_plain:
            return key[0].decode(errors="backslashreplace")
        types = [self.form.columns[i].type for i in self.form.key]
        return ", ".join(str(value_in(type_, cell, self.form.zone)) for type_, cell in zip(types, key, strict=True))


def _hashed(text: bytes) -> bytes:
    """What no other key has."""
    return f"[#{hashlib.blake2b(text, digest_size=32).hexdigest()}".encode()


def quoted(name: str) -> str:
    """A name as CQL has it, in any case of letters."""
    return '"' + name.replace('"', '""') + '"'
