"""How the rows of one table, view or index are read: where its columns stand, and what turns them into values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.arrow_tables import logical_table
from viewkeeper.catalog.model import Column, Index, Stored, Table, View
from viewkeeper.catalog.text_lengths import fitted_one
from viewkeeper.catalog.types import STRING
from viewkeeper.errors import InputError
from viewkeeper.stores.intake import canonical_value
from viewkeeper.stores.value_conversion import Converter, ValueRefused, to_physical, to_python
from viewkeeper.trace.rows import Rows


class Shape:
    """`columns` are shown, in their order; `key` are those that a `get` names, in theirs; `unique` says whether a key
    has at most one row.  It depends on the catalog alone, not on the version."""

    def __init__(self, of: Table | View, index: Index | None, zone: str) -> None:
        stored: Stored = (index or of).stored
        self.of, self.stored, self.zone = of, stored, zone
        self.name, self.columns = of.name, of.columns
        self.key_positions = index.columns if index else of.key
        self.key: tuple[Column, ...] = tuple(of.columns[position] for position in self.key_positions)
        self.unique = index is None and (isinstance(of, Table) or of.unique)
        self._row = [(c.name, p, to_python(c.type, zone)) for c, p in zip(of.columns, stored.order, strict=True)]
        self._key_types = [of.declared[position] or of.columns[position].type for position in self.key_positions]
        self._convert = [to_physical(type_, zone) for type_ in self._key_types]
        self._convert_bound = [self._bound_converter(position) for position in self.key_positions]
        self._lead = [] if stored.member is None else [stored.member]
        given = {stored.order[position]: i for i, position in enumerate(self.key_positions)}
        # (A table without a primary key is kept by a hidden row id, which no key names.)
        self._from = [given[p] for p in range(len(self._lead), stored.state.key) if p in given]

    def physical_key(self, key: object) -> list[Any]:
        """The state's key values, for `key` as a user writes it: one value, or a tuple of as many as the key has.

        Texts are fitted as on writing: a CHAR is filled up, and what is longer than a CHAR or VARCHAR is refused.
        """
        physical = self.key_values(key)
        return self._lead + [physical[i] for i in self._from]

    def key_values(self, key: object) -> list[Any]:
        """The physical values of the key's columns, in their order, for `key` as a user writes it."""
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(self.key):
            raise InputError(f"{self.name} is read by {self._key_text()}; this key has {len(values)} value(s): {key!r}")
        return self._physical(values, self._convert)

    def bound(self, bound: object) -> list[Any]:
        """Physical values of `bound`, a value or tuple for the first columns of the key, in the key's order; a
        text is filled up as a CHAR, and may be longer than any of the column."""
        values = bound if isinstance(bound, tuple) else (bound,)
        if not 0 < len(values) <= len(self.key):
            raise InputError(f"{self.name} is ordered by {self._key_text()}; this bound does not fit: {bound!r}")
        return self._physical(values, self._convert_bound)

    def _bound_converter(self, position: int) -> Converter:
        declared, plain = self.of.declared[position], to_physical(self.columns[position].type, self.zone)
        if declared is None or self.columns[position].type != STRING:
            return plain

        def converted(value: Any) -> Any:
            text = plain(value)
            return fitted_one(text, declared) or text

        return converted

    def _physical(self, values: Sequence[Any], convert: Sequence[Converter]) -> list[Any]:
        """Canonical physical values for the first columns of the key; None is NULL."""
        physical: list[Any] = []
        for i, value in enumerate(values):
            if value is not None:
                try:
                    value = convert[i](value)
                except ValueRefused as refused:
                    raise InputError(f"{self.name}.{self.key[i].name} ({self._key_types[i]}): {refused}") from None
            physical.append(canonical_value(value))
        return physical

    def row(self, state_row: Sequence[Any]) -> dict[str, Any]:
        """A row of the state as a user sees it."""
        result = {}
        for name, position, decode in self._row:
            value = state_row[position]
            result[name] = value if decode is None or value is None else decode(value)
        return result

    def shown(self, rows: Rows) -> Rows:
        """Of the rows of a whole state: those of this view, with the shown columns in order."""
        if self.stored.member is not None:
            rows = rows.filter(rows.columns[0].to_numpy() == self.stored.member)
        return rows.select(self.stored.order)

    def table(self, columns: Sequence[pa.Array]) -> pa.Table:
        """An Arrow table of logical types from physical columns in shown order."""
        return logical_table(self.columns, columns, self.zone)

    def _key_text(self) -> str:
        if not self.key:
            return "the empty key ()"
        named = zip(self.key, self._key_types, strict=True)
        return "(" + ", ".join(f"{column.name} {type_}" for column, type_ in named) + ")"
