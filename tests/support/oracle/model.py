"""Base tables as plain dictionaries, fed with the same operations as the store (02: "Rows" and "Keys")."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.text_lengths import fitted_one
from viewkeeper.checker.tables import table_of


@dataclass(frozen=True)
class TableSchema:
    """A base table; `key` holds column positions, empty where the table has no primary key."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(self.columns[i].name for i in self.key)

    @property
    def sql(self) -> str:
        """Its CREATE TABLE statement."""
        parts = [f"{c.name} {c.declared or c.type}{'' if c.nullable or i in self.key else ' NOT NULL'}"
                 for i, c in enumerate(self.columns)]  # fmt: skip
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(self.key_names)})")
        return f"CREATE TABLE {self.name} ({', '.join(parts)})"


@dataclass(frozen=True)
class Operation:
    """One call of a client.

    | kind             | `rows`                                                   | `columns`                       |
    |------------------|----------------------------------------------------------|---------------------------------|
    | "put"            | one row: the named columns alone are set                 |                                 |
    | "put_many"       | rows, set in this order                                  |                                 |
    | "delete"         | one row: the key, or all columns where there is no key   |                                 |
    | "delete_columns" | one row: the key                                         | become NULL                     |
    """

    kind: str
    table: str
    rows: tuple[dict[str, Any], ...]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A whole test: CREATE TABLE texts, CREATE VIEW texts, and batches of operations; views are compared after each."""

    schemas: tuple[TableSchema, ...]
    views: tuple[str, ...]
    batches: tuple[tuple[Operation, ...], ...]

    @property
    def tables(self) -> list[str]:
        return [schema.sql for schema in self.schemas]


class Refused(Exception):
    """An operation that the store must refuse: nothing of it is applied."""


class Base:
    """All base tables.  `rows` gives what a table holds, columns in declared order."""

    def __init__(self, schemas: Sequence[TableSchema]) -> None:
        self.schemas = {schema.name: schema for schema in schemas}
        self._rows: dict[str, dict[Any, dict[str, Any]]] = {schema.name: {} for schema in schemas}
        self._next_row = 0

    def apply(self, operation: Operation) -> None:
        """Does what the client asked, whole or, raising `Refused`, not at all."""
        rows = dict(self._rows[operation.table])
        schema = self.schemas[operation.table]
        for row in operation.rows:
            match operation.kind:
                case "put" | "put_many":
                    self._put(schema, rows, row)
                case "delete":
                    _delete(schema, rows, row)
                case "delete_columns":
                    _delete_columns(schema, rows, row, operation.columns)
                case _:
                    raise ValueError(operation.kind)
        self._rows[operation.table] = rows

    def taken(self, batch: Sequence[Operation]) -> list[Operation]:
        """Applies the operations of `batch` that a store takes, and says which these are, as they come out of its log:
        texts of CHARs filled up."""
        taken = []
        for operation in batch:
            try:
                self.apply(operation)
            except Refused:
                continue
            schema = self.schemas[operation.table]
            taken.append(replace(operation, rows=tuple(_fitted(schema, row) for row in operation.rows)))
        return taken

    def _put(self, schema: TableSchema, rows: dict[Any, dict[str, Any]], row: dict[str, Any]) -> None:
        row = _fitted(schema, row)
        key = self._new_row() if not schema.key else _key_of(schema, row)
        old = rows.get(key, dict.fromkeys(schema.names))
        new = {**old, **row}
        if any(new[column.name] is None for column in schema.columns if not column.nullable):
            raise Refused(f"{schema.name}: NOT NULL")
        rows[key] = new

    def _new_row(self) -> int:
        self._next_row += 1
        return self._next_row

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self._rows[table].values()]

    def arrow(self, table: str, zone: str = "UTC") -> pa.Table:
        """The same as an Arrow table of logical types, nullability as declared."""
        schema = self.schemas[table]
        return table_of(schema.columns, self.rows(table), zone)

    def get(self, table: str, *key: Any) -> dict[str, Any] | None:
        schema = self.schemas[table]
        return self._rows[table].get(_key_of(schema, dict(zip(schema.key_names, key, strict=True))))


def canonical(value: Any) -> Any:
    """A key value in its one form: NaN is one object, -0.0 is 0.0."""
    if not isinstance(value, float):
        return value
    return math.nan if math.isnan(value) else value + 0.0


def _fitted(schema: TableSchema, row: dict[str, Any]) -> dict[str, Any]:
    """`row` as it is stored: texts of CHARs are filled up."""
    declared = {column.name: column.declared for column in schema.columns}
    return {name: value if value is None or (of := declared[name]) is None else fitted_one(value, of)
            for name, value in row.items()}  # fmt: skip


def _key_of(schema: TableSchema, row: dict[str, Any]) -> tuple[Any, ...]:
    row = _fitted(schema, {name: row.get(name) for name in schema.key_names})
    key = tuple(canonical(row[name]) for name in schema.key_names)
    if None in key:
        raise Refused(f"{schema.name}: NULL in the key")
    return key


def _delete(schema: TableSchema, rows: dict[Any, dict[str, Any]], row: dict[str, Any]) -> None:
    if schema.key:
        rows.pop(_key_of(schema, row), None)
        return
    row = _fitted(schema, row)
    wanted = [canonical(row[name]) for name in schema.names]
    same = (key for key, held in rows.items() if [canonical(value) for value in held.values()] == wanted)
    rows.pop(next(same, None), None)


def _delete_columns(
    schema: TableSchema, rows: dict[Any, dict[str, Any]], row: dict[str, Any], columns: Sequence[str]
) -> None:
    fixed = {c.name for c in schema.columns if not c.nullable} | set(schema.key_names)
    if fixed & set(columns):
        raise Refused(f"{schema.name}: column delete of a NOT NULL or key column")
    key = _key_of(schema, row)
    if key in rows:
        rows[key] = {**rows[key], **dict.fromkeys(columns)}
