"""What users give, rows and keys, to operations on a table: names resolved, values converted, all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.operation_kinds import DELETE, DELETE_COLUMNS, PUT
from viewkeeper.catalog.types import physical_type
from viewkeeper.changes.layout import is_null
from viewkeeper.changes.operations import Operations, TableForm, bits
from viewkeeper.errors import InputError, RowError
from viewkeeper.files import FileRows
from viewkeeper.stores.columns import BadValue, ColumnIntake, from_pandas, is_pandas
from viewkeeper.stores.value_conversion import ValueRefused
from viewkeeper.trace.hashing import canonical


class ColumnNames:
    """Finds columns by name, in any case of letters; `owner` is for messages.  Both methods raise InputError."""

    def __init__(self, owner: str, columns: Sequence[Column]) -> None:
        self._owner, self._columns = owner, columns
        self._positions = {column.name.lower(): i for i, column in enumerate(columns)}

    def position(self, name: Any) -> int:
        """The column called `name`."""
        found = self._positions.get(name.lower()) if isinstance(name, str) else None
        if found is not None:
            return found
        names = [column.name for column in self._columns]
        close = get_close_matches(str(name).lower(), list(self._positions), n=1)
        hint = f"did you mean {names[self._positions[close[0]]]}?" if close else f"it has {', '.join(names)}"
        raise InputError(f"{self._owner}: no column {name!r}; {hint}")

    def positions(self, names: Iterable[Any]) -> tuple[int, ...]:
        """The columns called `names`, in their order, each once."""
        positions = tuple(map(self.position, names))
        if len(set(positions)) != len(positions):
            twice = next(p for i, p in enumerate(positions) if p in positions[:i])
            raise InputError(f"{self._owner}: column {self._columns[twice].name} is given twice")
        return positions


class TableIntake:
    """Takes rows and keys for one table.  All methods raise InputError; `zone` is where naive times are."""

    def __init__(self, form: TableForm, zone: str) -> None:
        self.form, self.table = form, form.table
        self.intakes = [ColumnIntake(type_, zone, declared)
                        for type_, declared in zip(form.types, form.table.declared, strict=True)]  # fmt: skip
        self.names = ColumnNames(self.table.name, self.table.columns)
        self._everything = tuple(range(len(form.types)))
        needed = form.required if form.keyless else form.key
        self._must_be_named = tuple(i for i in needed if form.defaults[i] is None)

    def named(self, names: Iterable[Any]) -> tuple[int, ...]:
        """The columns called `names`, in their order, each once."""
        positions = self.names.positions(names)
        self._complete(positions)
        return positions

    def row(self, row: Mapping[str, Any]) -> tuple[tuple[int, ...], list[Any]]:
        """One row: the columns that it names, and physical values of all columns (their defaults where not named)."""
        row = as_mapping(row, self.table.name)
        named = self.named(row)
        values: list[Any] = list(self.form.defaults)
        for i, value in zip(named, row.values(), strict=True):
            column = self.table.columns[i]
            if value is not None:
                try:
                    values[i] = self.intakes[i].one(value)
                except ValueRefused as refused:
                    raise self._bad_value(i, str(refused), row) from None
            elif i in self.form.key or not column.nullable:
                raise self._bad_value(i, self._no_null(i), row)
            else:
                values[i] = None
        if self.form.keyless:
            return self._everything, values
        for i in self.form.key:
            values[i] = canonical_value(values[i])
        return named, values

    def key(self, key: Any) -> list[Any]:
        """A key as physical values."""
        form = self.form
        if form.keyless:
            raise InputError(f"{self.table.name} has no primary key; read it through a view, or with SELECT")
        parts = key if isinstance(key, (tuple, list)) else (key,)
        if len(parts) != len(form.key):
            names = ", ".join(self.table.columns[i].name for i in form.key)
            raise InputError(f"{self.table.name}: the key is ({names}); got {len(parts)} values: {key!r}")
        values = []
        for i, part in zip(form.key, parts, strict=True):
            try:
                if part is None:
                    raise ValueRefused(self._no_null(i))
                values.append(canonical_value(self.intakes[i].one(part)))
            except ValueRefused as refused:
                raise self._bad_value(i, str(refused)) from None
        return values

    def deletes(self, keys: Iterable[Any]) -> Operations:
        """Deletes of the rows of `keys`."""
        if not isinstance(keys, Iterable):
            raise InputError(f"{self.table.name}: delete_many takes keys, not {type(keys).__name__}")
        return Operations(DELETE, self._key_columns(map(self.key, keys)))

    def keys(self, rows: pa.Table) -> list[pa.Array]:
        """The key columns of `rows`, which name them, as canonical physical ones."""
        places = {self.names.position(name): at for at, name in enumerate(rows.column_names)}
        found = self._converted(self.form.key, lambda i: self.intakes[i].from_arrow(_whole(rows.column(places[i]))))
        for i, column in found.items():
            if column.null_count:
                raise self._bad_value(i, self._no_null(i), at=int(is_null(column).argmax()), columns=found)
        return [found[i] for i in self.form.key]

    def column_deletes(self, key: Any, columns: Sequence[str]) -> Operations:
        """A delete of `columns` of the row of `key`."""
        if isinstance(columns, str):
            raise InputError(f"{self.table.name}: columns={columns!r}: expected a list of names")
        physical, positions = self.key(key), tuple(map(self.names.position, columns))
        for i in positions:
            if i in self.form.key or not self.table.columns[i].nullable:
                raise self._bad_value(i, self._no_null(i))
        return Operations(DELETE_COLUMNS, self._key_columns([physical]), self.form.mask(positions)[None, :])

    def whole_row(self, row: Any) -> list[Any]:
        """A row of a table without a key as physical values; all columns must be named."""
        row = as_mapping(row, self.table.name)
        named = self.named(row)
        for i, column in enumerate(self.table.columns):
            if i not in named:
                raise InputError(f"{self.table.name}: column {column.name} is missing; to delete, give the whole row")
        return self.row(row)[1]

    def _key_columns(self, keys: Iterable[Sequence[Any]]) -> list[pa.Array]:
        physical = list(keys)
        return [pa.array([key[at] for key in physical], physical_type(self.form.types[i]))
                for at, i in enumerate(self.form.key)]  # fmt: skip

    def rows(self, rows: Any) -> Operations:
        """Puts of many rows: mappings, an Arrow table or batch, a pandas DataFrame, rows of a file."""
        if isinstance(rows, FileRows):
            if rows.objects is not None:
                return self._from_mappings(rows.objects)
            given = rows.columns
            return self._uniform(rows.names, len(rows), lambda i, at: self.intakes[i].from_any(given[at]))
        if isinstance(rows, (pa.Table, pa.RecordBatch)):
            names, columns = rows.schema.names, [_whole(column) for column in rows.columns]
            return self._uniform(names, len(rows), lambda i, at: self.intakes[i].from_arrow(columns[at]))
        if is_pandas(rows):
            names, given = list(rows.columns), [rows.iloc[:, at] for at in range(len(rows.columns))]
            return self._uniform(names, len(rows), lambda i, at: self._from_series(i, given[at]))
        if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
            raise InputError(f"{self.table.name}: put_many takes dicts, Arrow or pandas, not {type(rows).__name__}")
        return self._from_mappings(list(rows))

    def _from_series(self, i: int, series: Any) -> pa.Array:
        return self.intakes[i].from_any(from_pandas(series, self.form.types[i]))

    def _from_mappings(self, rows: list[Any]) -> Operations:
        if not rows:
            return Operations(PUT, [pa.array([], physical_type(type_)) for type_ in self.form.types])
        if set(map(type, rows)) != {dict}:
            rows = [row_mapping(row, self.table.name, n) for n, row in enumerate(rows)]
        names = tuple(rows[0])
        if names and set(map(len, rows)) == {len(names)}:
            get = itemgetter(*names)
            try:
                columns = list(zip(*map(get, rows), strict=True)) if len(names) > 1 else [list(map(get, rows))]
            except KeyError:
                return self._mixed(rows)
            return self._uniform(names, len(rows), lambda i, at: self.intakes[i].from_values(columns[at]))
        return self._mixed(rows)

    def _uniform(self, names: Sequence[Any], length: int, take: Any) -> Operations:
        """Puts of rows that all name the same columns; `take(i, at)` converts column i, given at place `at`."""
        named = self.named(names)
        places = {i: at for at, i in enumerate(named)}
        columns = self._converted(places, lambda i: take(i, places[i]))
        whole = [columns[i] if i in columns else self.form.unnamed(i, length) for i in self._everything]
        full = self.form.keyless or len(named) == len(whole)
        return self._judged(Operations(PUT, whole, None if full else np.tile(self.form.mask(named), (length, 1))))

    def _mixed(self, rows: list[Mapping[str, Any]]) -> Operations:
        """Puts of rows that do not all name the same columns."""
        gathered, named = by_column(rows, len(rows), len(self.form.types), self.named)
        columns = self._converted(self._everything, lambda i: self.intakes[i].from_values(gathered[i]))
        masks = {positions: self.form.mask(positions) for positions in set(named)}
        mask = np.array([masks[positions] for positions in named])
        for i, default in enumerate(self.form.defaults):
            if default is not None:
                columns[i] = pc.if_else(pa.array(bits(mask, i)), columns[i], pa.scalar(default, columns[i].type))
        return self._judged(Operations(PUT, [columns[i] for i in self._everything],
                                       None if self.form.keyless else mask))  # fmt: skip

    def _converted(self, positions: Iterable[int], convert: Callable[[int], pa.Array]) -> dict[int, pa.Array]:
        """The columns at `positions`, the key's first, so that what is wrong elsewhere can name the key."""
        columns: dict[int, pa.Array] = {}
        for i in sorted(positions, key=lambda i: i not in self.form.key):
            try:
                column = convert(i)
            except BadValue as bad:
                raise self._bad_value(i, str(bad), at=bad.row, columns=columns) from None
            columns[i] = canonical(column) if i in self.form.key else column
        return columns

    def _judged(self, puts: Operations) -> Operations:
        """`puts`, if they set no key or NOT NULL column to NULL."""
        for i, (column, declared) in enumerate(zip(puts.columns, self.table.columns, strict=True)):
            if column.null_count and (i in self.form.key or not declared.nullable):
                nulls = is_null(column)
                if puts.named is not None:
                    nulls &= bits(puts.named, i)
                if nulls.any():
                    raise self._bad_value(
                        i, self._no_null(i), at=int(nulls.argmax()), columns=dict(enumerate(puts.columns))
                    )
        return puts

    def _complete(self, named: Sequence[int]) -> None:
        """Refuse rows that leave out a key column, or what can have no NULL in a table without a key; unless it has a
        default."""
        for i in self._must_be_named:
            if i not in named:
                raise InputError(
                    f"{self.table.name}: column {self.table.columns[i].name} is missing; {self._no_null(i)}"
                )

    def _no_null(self, i: int) -> str:
        return "it is in the key, so it cannot be NULL" if i in self.form.key else "it is NOT NULL"

    def _bad_value(self, i: int, reason: str, row: Mapping[str, Any] | None = None, at: int | None = None,
                   columns: Mapping[int, pa.Array] | None = None) -> InputError:  # fmt: skip
        """The error for column `i`: of `row`, or of row `at` of a call with `columns` as far as they are read."""
        names = {k: self.table.columns[k].name for k in self.form.key if k != i}
        if row is not None:
            given = {name.lower(): value for name, value in row.items()}
            key = {name: given[name.lower()] for name in names.values()}
        else:
            key = {name: columns[k][at].as_py() for k, name in names.items() if columns and k in columns}
        described = ", ".join(f"{name} = {value!r}" for name, value in key.items())
        column, declared = self.table.columns[i], self.table.declared[i]
        why = (f" ({described})" if described else "") + f", column {column.name} {declared or column.type}: {reason}"
        return InputError(self.table.name + why) if at is None else RowError(f"{self.table.name}, ", at, why)


def canonical_value(value: Any) -> Any:
    """`keys.canonical` of one physical Python value."""
    if not isinstance(value, float):
        return value
    return value + 0.0 if value == value else float("nan")


def as_mapping(row: Any, where: str) -> Mapping[str, Any]:
    """`row` as names to values: a mapping, or a PySpark Row."""
    if isinstance(row, Mapping):
        return row
    if hasattr(row, "asDict"):
        return dict(row.asDict())
    raise InputError(f"{where}: a row is a dict of column names to values, not {type(row).__name__}")


def row_mapping(row: Any, owner: str, n: int) -> Mapping[str, Any]:
    """`as_mapping` of row `n` of a call on the table or stream `owner`."""
    try:
        return as_mapping(row, owner)
    except InputError as error:
        raise RowError(f"{owner}, ", n, str(error).removeprefix(owner)) from None


def by_column(
    rows: Iterable[Mapping[Any, Any]], length: int, width: int, find: Callable[[tuple[Any, ...]], tuple[int, ...]],
    first: int = 0,
) -> tuple[list[list[Any]], list[tuple[int, ...]]]:  # fmt: skip
    """The values of `length` rows that need not name the same columns: those of each of `width` columns, None where a
    row does not name it; and which columns each row names, as `find` says, whose InputError tells the row: the first of
    them is number `first` of the call."""
    found: dict[tuple[Any, ...], tuple[int, ...]] = {}
    columns: list[list[Any]] = [[None] * length for _ in range(width)]
    named: list[tuple[int, ...]] = []
    for n, row in enumerate(rows):
        names = tuple(row)
        if names not in found:
            try:
                found[names] = find(names)
            except InputError as error:
                raise RowError("", first + n, f": {error}") from None
        named.append(found[names])
        for i, value in zip(named[-1], row.values(), strict=True):
            columns[i][n] = value
    return columns, named


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
