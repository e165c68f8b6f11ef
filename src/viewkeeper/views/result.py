"""What `db.sql` answers: a table of rows, in the form that the caller likes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from viewkeeper.changes.positions import Token
from viewkeeper.errors import InputError
from viewkeeper.views.python_rows import data_frame, dicts


class Result:
    """The rows that a statement gave, in their order; empty for a statement that gives none.

    `note` is what there is to say beside the rows, as text for a person (or "").  Of a statement that changed rows
    `affected` is how many, and `token` is for `get(..., after=token)`; of others None.  Iterating gives a dict a row.
    """

    def __init__(
        self, table: pa.Table | None = None, note: str = "", affected: int | None = None, token: Token | None = None
    ) -> None:  # fmt: skip
        self._table = pa.table({}) if table is None else table
        self.note, self.affected, self.token = note, affected, token

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return self._table.column_names

    def to_arrow(self) -> pa.Table:
        return self._table

    def to_pandas(self) -> Any:
        """A pandas DataFrame."""
        return data_frame(self._table)

    def __len__(self) -> int:
        return self._table.num_rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if len(set(self.columns)) < len(self.columns):
            twice = next(name for name in self.columns if self.columns.count(name) > 1)
            raise InputError(f"two columns are called {twice!r}: give one an alias (AS ...), or use to_arrow()")
        yield from dicts(self._table)

    def __repr__(self) -> str:
        return f"<Result: {len(self)} rows of {', '.join(self.columns) or 'no columns'}>"
