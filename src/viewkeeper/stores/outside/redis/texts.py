"""Columns as the texts in hashes and entries, and back; keys as the texts in names.

| type                     | text                                                                                   |
|--------------------------|----------------------------------------------------------------------------------------|
| BOOLEAN                  | true, false                                                                            |
| TINYINT .. BIGINT        | digits                                                                                 |
| FLOAT, DOUBLE            | the shortest that is read as the same: 1.5, 1e+20, NaN, Infinity, -Infinity             |
| DECIMAL                  | all digits of its scale: 19.90                                                         |
| DATE                     | 2024-05-01                                                                             |
| TIMESTAMP                | in UTC: 2024-05-01T12:00:00Z, with six digits of a second where it has a fraction      |
| TIMESTAMP_NTZ            | the same without Z                                                                     |
| STRING, BINARY           | itself                                                                                 |
| ARRAY, STRUCT, MAP       | JSON (`nested_json`)                                                                   |

A key is the text of its column, which must be written just so: there is one row a key.  Of several columns it is a JSON
array without spaces: numbers for TINYINT .. BIGINT, true and false, texts of all others, base64 of BINARY.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import Type, to_logical
from viewkeeper.changes.layout import is_null
from viewkeeper.changes.operations import TableForm
from viewkeeper.files import Texts
from viewkeeper.stores.columns import ColumnIntake
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.outside.redis.nested_json import json_reader, json_writer
from viewkeeper.stores.outside.values import scalar_texts
from viewkeeper.trace.hashing import canonical

FieldTexts = Sequence[bytes | None]
"""Texts as the store has them; None is NULL."""

_CONTROL = r"[\x00-\x1f]"


def texts_of(column: pa.Array, type_: Type) -> pa.Array:
    """A physical column as texts (large_binary)."""
    if type_.is_nested:
        write = json_writer(type_)
        values = to_logical(column, type_).to_pylist()
        return pa.array([None if value is None else write(value).encode() for value in values], pa.large_binary())
    if type_.is_bytes:
        return column.cast(pa.large_binary())
    return scalar_texts(type_, column).cast(pa.large_string()).cast(pa.large_binary())


def column_of(intake: ColumnIntake, given: FieldTexts) -> tuple[pa.Array, dict[int, str]]:
    """Texts as a physical column, and why some are no values of it, by row; those are NULL."""
    bad: dict[int, str] = {}
    if intake.type.name == "BINARY":
        return intake.each(list(given))
    if intake.type.is_nested:
        values = _nested(given, intake.type, bad)
        column, refused = intake.each(values)
        return column, {**refused, **bad}
    texts = _decoded(given, bad)
    column, refused = intake.each(texts if intake.type.name == "STRING" else Texts(texts))
    return column, {**refused, **bad}


def _nested(given: FieldTexts, type_: Type, bad: dict[int, str]) -> list[Any]:
    read, values = json_reader(type_), list[Any]()
    for row, text in enumerate(given):
        try:
            values.append(None if text is None else read(text))
        except ValueError as error:
            bad[row] = f"{_shown(text or b'')} {error}"
            values.append(None)
    return values


def _decoded(given: FieldTexts, bad: dict[int, str]) -> pa.Array:
    try:
        return pa.array(given, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:  # one of them is no UTF-8
        texts: list[str | None] = []
        for row, text in enumerate(given):
            try:
                texts.append(None if text is None else text.decode())
            except UnicodeDecodeError:
                bad[row] = f"{_shown(text or b'')} is no UTF-8"
                texts.append(None)
        return pa.array(texts, pa.string())


class KeyTexts:
    """The keys of one table as texts."""

    def __init__(self, intake: TableIntake) -> None:
        self._form: TableForm = intake.form
        self._intakes = [intake.intakes[i] for i in intake.form.key]
        self._types = [intake.form.types[i] for i in intake.form.key]
        self._names = [intake.table.columns[i].name for i in intake.form.key]

    def texts(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Physical columns of keys as texts (large_binary)."""
        if len(columns) == 1:
            return texts_of(columns[0], self._types[0])
        parts = [_json_part(column, type_) for column, type_ in zip(columns, self._types, strict=True)]
        return _joined("[", _joined(*parts, by=","), "]").cast(pa.large_binary())

    def columns(self, given: Sequence[bytes]) -> tuple[list[pa.Array], dict[int, str]]:
        """Texts as physical columns of keys, canonical; and why some are no keys, by row."""
        bad: dict[int, str] = {}
        found = []
        for intake, name, texts in zip(self._intakes, self._names, self._parts(given, bad), strict=True):
            column, refused = column_of(intake, texts)
            for row, reason in refused.items():
                bad.setdefault(row, f"key column {name}: {reason}")
            found.append(canonical(column))
        expected = self.texts(found)
        same = pc.fill_null(pc.equal(pa.array(given, pa.large_binary()), expected), False)
        for row in np.flatnonzero(~same.to_numpy(zero_copy_only=False)).tolist():
            if row not in bad:
                bad[row] = f"the key {_shown(given[row])} has to be written {_shown(expected[row].as_py() or b'')}"
        return found, bad

    def _parts(self, given: Sequence[bytes], bad: dict[int, str]) -> list[FieldTexts]:
        """The texts of each key column."""
        if len(self._types) == 1:
            return [given]
        width = len(self._types)
        try:
            rows = json.loads(b"[" + b",".join(given) + b"]")
            right = len(rows) == len(given) and all(type(row) is list and len(row) == width for row in rows)
        except ValueError:
            right = False
        if not right:
            rows = [self._array(text, row, bad) for row, text in enumerate(given)]
        parts: list[FieldTexts] = []
        for at, type_ in enumerate(self._types):
            texts = [_text_of(row[at]) for row in rows]
            parts.append(_from_base64(texts, bad) if type_.name == "BINARY" else texts)
        return parts

    def _array(self, text: bytes, row: int, bad: dict[int, str]) -> list[Any]:
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if isinstance(value, list) and len(value) == len(self._types):
            return value
        bad[row] = f"the key {_shown(text)} is no JSON array of {', '.join(self._names)}"
        return [None] * len(self._types)


def _json_part(column: pa.Array, type_: Type) -> pa.Array:
    """A key column as JSON (large_string)."""
    if type_.is_integer or type_.name == "BOOLEAN":
        return texts_of(column, type_).cast(pa.large_string())
    if type_.name == "BINARY":
        texts = pa.array([None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()],
                         pa.large_string())  # fmt: skip
    else:
        texts = texts_of(column, type_).cast(pa.large_string())
    if pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py():
        return pa.array([None if text is None else json.dumps(text, ensure_ascii=False) for text in texts.to_pylist()],
                        pa.large_string())  # fmt: skip
    texts = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    return _joined('"', texts, '"')


def _joined(*parts: pa.Array | str, by: str = "") -> pa.Array:
    wide = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in (*parts, by)]
    return pc.binary_join_element_wise(*wide)


def _text_of(part: Any) -> bytes | None:
    """A part of a key in JSON as its column's text; one that is written otherwise is found when it is compared."""
    if isinstance(part, str):
        return part.encode(errors="surrogatepass")
    return None if part is None else json.dumps(part).encode()


def _from_base64(texts: FieldTexts, bad: dict[int, str]) -> FieldTexts:
    found: list[bytes | None] = []
    for row, text in enumerate(texts):
        try:
            found.append(None if text is None else base64.b64decode(text, validate=True))
        except binascii.Error:
            bad.setdefault(row, f"{_shown(text or b'')} in the key is no base64")
            found.append(None)
    return found


def nulls_refused(columns: Sequence[pa.Array], form: TableForm, positions: Sequence[int]) -> dict[int, str]:
    """Why rows cannot be: by row, which of the columns at `positions` is NULL and must not be."""
    bad: dict[int, str] = {}
    for column, i in zip(columns, positions, strict=True):
        if not form.table.columns[i].nullable or i in form.key:
            for row in np.flatnonzero(is_null(column)).tolist():
                bad.setdefault(row, f"NULL in column {form.table.columns[i].name}, which is NOT NULL")
    return bad


def _shown(text: bytes) -> str:
    shown = repr(text.decode(errors="backslashreplace"))
    return shown if len(shown) <= 60 else shown[:57] + "..."
