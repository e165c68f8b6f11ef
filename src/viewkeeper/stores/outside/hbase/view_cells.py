"""A view's rows as HBase has them: the keys of rows, and their cells, by the options `key`, `columns` and `family`.

All columns are cells, also those of the key: texts under their own names in `family`, if `columns` does not say else.
What is written of a row in one step is all that is not NULL, an empty cell for what is NULL, and beside them its
version, the names of its columns that are NULL, and, where rows are a bag, how often it is there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import Type
from viewkeeper.changes.layout import is_null
from viewkeeper.errors import InputError
from viewkeeper.stores.columns import ColumnIntake
from viewkeeper.stores.outside.hbase.byte_spans import ByteSpans
from viewkeeper.stores.outside.hbase.encodings import Encoding
from viewkeeper.stores.outside.hbase.mapping import columns_option, key_option, require_holds, shell_bytes
from viewkeeper.stores.outside.hbase.row_keys import KeyEncoder
from viewkeeper.stores.outside.key_texts import json_key, key_texts
from viewkeeper.stores.outside.targets import RESERVED, RowForm
from viewkeeper.stores.outside.values import texts_of, value_of
from viewkeeper.stores.value_conversion import to_python
from viewkeeper.trace.rows import Rows

FAMILY = "f"
"""Where columns are if nobody says."""

KEY_MAX = 32_767
"""So many bytes a row's key has, at most."""

_LONG = 30_000
"""Of a text of more bytes so many are in the key, and a hash of all; no key that is itself is so long."""

_LEAD = b"\xff"

RowCells = dict[bytes, bytes]
"""Values by their columns' names (FAMILY:QUALIFIER)."""


class ViewColumn(NamedTuple):
    """Where a column of the view is, and how its values are written there and read."""

    name: str
    cell: bytes
    encode: Callable[[pa.Array], Sequence[bytes | None]]
    decode: Callable[[bytes], Any]


class ViewCells:
    """How rows of a view are laid out; raises InputError where the options do not fit the view."""

    def __init__(self, form: RowForm, options: Mapping[str, str]) -> None:
        self._form = form
        self._types = [form.columns[i].type for i in form.key]
        self.columns = _columns(form, options)
        self.version = version_cell(options)
        self._null, self._times = (_own_cell(options, name) for name in ("null", "times"))
        self._encoder = None if "key" not in options else _ViewKeys(form, options)

    def keys(self, key: Rows) -> list[bytes]:
        """The keys of the rows that have these in the view."""
        if self._encoder is not None:
            return self._encoder.keys(key)
        return [_fitted(text or json_key(self._types, [text] * len(self._types)))
                for text in key_texts(self._types, key)]  # fmt: skip

    def cells(self, rows: Rows) -> dict[bytes, RowCells]:
        """Of each row, by its key, what is written in one step, beside its version."""
        columns = [each.encode(column) for each, column in zip(self.columns, rows.columns, strict=True)]
        names = [column.cell for column in self.columns]
        made = dict[bytes, RowCells]()
        for key, times, *values in zip(self.keys(self._form.keys(rows)), rows.weights.tolist(), *columns, strict=True):
            cells = {name: value or b"" for name, value in zip(names, values, strict=True)}
            nulls = [column.name for column, value in zip(self.columns, values, strict=True) if value is None]
            cells[self._null] = json.dumps(nulls, separators=(",", ":"), ensure_ascii=False).encode()
            if not self._form.unique:
                cells[self._times] = str(times).encode()
            made[key] = cells
        return made

    def nulls(self, cells: RowCells) -> list[bytes]:
        """The cells of a row that are there for a NULL."""
        names = set(json.loads(cells[self._null]))
        return [column.cell for column in self.columns if column.name in names] if names else []

    def resting(self, cells: RowCells) -> RowCells:
        """What is there of a row when all of it is written; without its version."""
        gone = set(self.nulls(cells))
        return {name: value for name, value in cells.items() if name not in gone}

    def values(self, found: RowCells) -> tuple[dict[str, Any], int]:
        """A row as users see it, and how often it is there.  Raises ValueError where it is none."""
        names = set(json.loads(found.get(self._null, b"[]")))
        row = {column.name: None if column.name in names or (value := found.get(column.cell)) is None
               else column.decode(value) for column in self.columns}  # fmt: skip
        return row, int(found.get(self._times, b"1"))


class _ViewKeys:
    """Keys by the encodings of the option `key`.

    Where a part is NULL, or the key would be empty, it is what no other key begins with or is as long as, and JSON.
    """

    def __init__(self, form: RowForm, options: Mapping[str, str]) -> None:
        names = [form.columns[i].name for i in form.key]
        self._names, self._types = names, [form.columns[i].type for i in form.key]
        self._encodings, self._separator = key_option(options)
        if len(self._encodings) != len(names):
            raise InputError(f"OPTIONS (key {options['key']!r}): it has {len(self._encodings)} encodings, and the "
                             f"view's key {len(names)} columns ({', '.join(names)})")  # fmt: skip
        for name, encoding, type_ in zip(names, self._encodings, self._types, strict=True):
            require_holds("key", encoding, name, type_)
        self._encoder = KeyEncoder(names, self._types, self._encodings, self._separator)

    def keys(self, key: Rows) -> list[bytes]:
        """The keys of rows; raises InputError where one cannot be written."""
        odd = np.logical_or.reduce([is_null(column) for column in key.columns])
        if len(self._types) == 1 and self._encodings[0].width is None:
            odd |= np.array([not value for value in key.columns[0].to_pylist()], bool)
        made = [b""] * len(key)
        plain = np.flatnonzero(~odd)
        if len(plain):
            taken = key.take(plain)
            for row, each in zip(plain.tolist(), self._encoder.encode(taken.columns), strict=True):
                if len(each) > KEY_MAX:
                    raise InputError(f"the key of a row has {len(each):,} bytes, and HBase takes {KEY_MAX:,}; leave "
                                     "out the option key")  # fmt: skip
                made[row] = each
        if odd.any():
            lead, taken = self._lead(), key.take(np.flatnonzero(odd))
            texts = [texts_of(type_, column).to_pylist()
                     for type_, column in zip(self._types, taken.columns, strict=True)]  # fmt: skip
            for row, parts in zip(np.flatnonzero(odd).tolist(), zip(*texts, strict=True), strict=True):
                made[row] = _fitted(lead + json_key(self._types, parts))
        return made

    def _lead(self) -> bytes:
        """What such a key begins with: it is longer than all of one length, and no UTF-8 where a text would be."""
        lead = _LEAD
        for encoding in self._encodings:
            if encoding.width is None:
                if encoding.name != "text" or self._separator.startswith(_LEAD):
                    raise InputError(f"a row whose {' or '.join(self._names)} is NULL or empty has no key by the "
                                     "option key; leave it out")  # fmt: skip
                break
            lead += _LEAD * encoding.width
        return lead


def home(options: Mapping[str, str]) -> bytes:
    """The family of columns that the option `columns` does not name, and of what is said of a row."""
    return shell_bytes(options.get("family", FAMILY))


def version_cell(options: Mapping[str, str]) -> bytes:
    """The cell that has a row's version."""
    return _own_cell(options, "version")


def _own_cell(options: Mapping[str, str], name: str) -> bytes:
    return home(options) + f":{RESERVED}{name}".encode()


def families(options: Mapping[str, str]) -> list[bytes]:
    """Those in which rows are."""
    return sorted({home(options), *(family for family, _, _ in columns_option(options).values())})


def _columns(form: RowForm, options: Mapping[str, str]) -> list[ViewColumn]:
    named = {name.lower(): place for name, place in columns_option(options).items()}
    found, taken = list[ViewColumn](), dict[bytes, str]()
    for column in form.columns:
        family, qualifier, encoding = named.pop(column.name.lower(), (home(options), column.name.encode(), None))
        cell = family + b":" + qualifier
        if (other := taken.setdefault(cell, column.name)) != column.name:
            raise InputError(f"OPTIONS (columns ...): {other} and {column.name} are both {cell.decode()!r}")
        if encoding is None or (encoding.name == "text" and column.type.is_nested):
            found.append(_as_text(column.name, column.type, cell, form.zone))
        else:
            require_holds("columns", encoding, column.name, column.type)
            found.append(_encoded(column.name, column.type, cell, form.zone, encoding))
    for name in named:
        raise InputError(f"OPTIONS (columns ...): {name} is no column of the view")
    return found


def _as_text(name: str, type_: Type, cell: bytes, zone: str) -> ViewColumn:
    return ViewColumn(name, cell, lambda column: texts_of(type_, column).to_pylist(),
                      lambda value: value_of(type_, value, zone))  # fmt: skip


def _encoded(name: str, type_: Type, cell: bytes, zone: str, encoding: Encoding) -> ViewColumn:
    intake, shown = ColumnIntake(type_, zone), to_python(type_, zone)

    def encode(column: pa.Array) -> Sequence[bytes | None]:
        try:
            return encoding.encode(column, type_)
        except InputError as refused:
            raise InputError(f"column {name}: {refused}") from None

    def decode(value: bytes) -> Any:
        column, reasons = encoding.column(ByteSpans.of([value]), intake)
        if reasons:
            raise ValueError(f"column {name}: {reasons[0]}")
        physical = column[0].as_py()
        return physical if shown is None else shown(physical)

    return ViewColumn(name, cell, encode, decode)


def _fitted(text: bytes) -> bytes:
    if len(text) <= _LONG:
        return text
    return text[:_LONG] + hashlib.sha256(text).hexdigest().encode()
