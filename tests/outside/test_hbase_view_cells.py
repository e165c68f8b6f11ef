"""How rows of views are laid out in HBase: keys that are never alike, cells that are read back."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import STRING, Type, array_of, decimal
from viewkeeper.errors import InputError
from viewkeeper.stores.columns import ColumnIntake
from viewkeeper.stores.outside.hbase.view_cells import KEY_MAX, ViewCells
from viewkeeper.stores.outside.targets import RowForm
from viewkeeper.trace.rows import Rows


def type_called(text: str) -> Type:
    special = {"DECIMAL(20,4)": decimal(20, 4), "DECIMAL(9,2)": decimal(9, 2), "ARRAY<STRING>": array_of(STRING)}
    return special.get(text) or Type(text)


@dataclass
class Laid:
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    unique: bool


def form_of(types: Sequence[Type], key: int, unique: bool = True) -> RowForm:
    columns = tuple(Column(name, type_) for name, type_ in zip("abcdefgh", types, strict=False))
    return RowForm(Laid(columns, tuple(range(key)), unique), "UTC")


def rows_of(form: RowForm, values: Sequence[Sequence[Any]]) -> Rows:
    columns = [ColumnIntake(column.type, "UTC").from_values([row[i] for row in values])
               for i, column in enumerate(form.columns)]  # fmt: skip
    return Rows(columns, np.arange(1, len(values) + 1))


def keys_of(types: str, options: Mapping[str, str], *values: Sequence[Any]) -> list[bytes]:
    form = form_of([type_called(each) for each in types.split()], len(types.split()))
    return ViewCells(form, options).keys(rows_of(form, values))


def test_keys_are_texts_if_nobody_says_else() -> None:
    assert keys_of("BIGINT", {}, [-5], [None]) == [b"-5", b"[null]"]
    assert keys_of("STRING", {}, ["ä"], [""], ["[null]"], [None]) == ["ä".encode(), b'[""]', b'["[null]"]', b"[null]"]
    assert keys_of("BINARY", {}, [b"\xff"], [b""]) == [b"\xff", b'[""]']
    assert keys_of("INT STRING", {}, [1, "x"], [None, ""]) == [b'[1,"x"]', b'[null,""]']
    nothing = form_of([type_called("INT")], 0)
    assert ViewCells(nothing, {}).keys(nothing.keys(rows_of(nothing, [[1]]))) == [b"[]"]


def test_keys_that_are_too_long_for_hbase_are_told_apart_by_a_hash() -> None:
    texts = ["x" * 30_000, "x" * 30_001, "x" * 40_000, "x" * 39_999 + "y"]
    keys = keys_of("STRING", {}, *([text] for text in texts))
    assert len(set(keys)) == 4
    assert max(map(len, keys)) <= KEY_MAX
    assert keys[0] == texts[0].encode()
    (again,) = keys_of("STRING", {}, [keys[1].decode()])
    assert again not in keys
    with pytest.raises(InputError, match="the key of a row has 40,000 bytes, and HBase takes 32,767; leave out"):
        keys_of("STRING", {"key": "text"}, [texts[2]])


@pytest.mark.parametrize(("types", "key", "given_", "expected"), [
    ("BIGINT", "long", [1], b"\0\0\0\0\0\0\0\1"),
    ("BIGINT", "long", [None], b"\xff" * 9 + b"[null]"),
    ("INT STRING", "int, text", [-1, "x"], b"\xff\xff\xff\xffx"),
    ("INT STRING", "int, text", [None, "x"], b"\xff\xff\xff\xff\xff" + b'[null,"x"]'),
    ("STRING", "text", [""], b"\xff" + b'[""]'),
    ("STRING INT", "text(2), int", ["ab", None], b"\xff" * 7 + b'["ab",null]'),
    ("STRING STRING", "text, text", ["", ""], b"|"),
])  # fmt: skip
def test_keys_by_encodings(types: str, key: str, given_: Sequence[Any], expected: bytes) -> None:
    assert keys_of(types, {"key": key, "separator": "|"}, given_) == [expected]


@pytest.mark.parametrize(("types", "options", "given_"), [
    ("BINARY", {"key": "binary"}, [None]),
    ("BINARY", {"key": "binary"}, [b""]),
    ("STRING INT", {"key": "text, int", "separator": r"\xff"}, [None, 1]),
])  # fmt: skip
def test_keys_that_could_be_another_ones_are_refused(types: str, options: Mapping[str, str], given_: list[Any]) -> None:
    with pytest.raises(InputError, match="is NULL or empty has no key by the option key; leave it out"):
        keys_of(types, options, given_)


FORMS = [
    ("BIGINT", "long"), ("SMALLINT", "short"), ("BIGINT", "ordered_long"), ("STRING", "text"), ("STRING", "text(1)"),
    ("INT STRING", "int, text"), ("STRING INT", "text, int"), ("STRING STRING", "text, text"),
    ("STRING SMALLINT", "text(2), short"), ("BINARY", "binary(1)"), ("SMALLINT BINARY", None), ("STRING", None),
    ("STRING STRING", None), ("BINARY", None),
]  # fmt: skip
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BIGINT": st.integers(-(2**63), 2**63 - 1), "INT": st.integers(-(2**31), 2**31 - 1),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1), "BINARY": st.binary(max_size=3),
    "STRING": st.text(st.sampled_from('[]",nul\\|ÿ0'), max_size=4),
}  # fmt: skip


@given(st.sampled_from(FORMS), st.data())
def test_no_two_keys_are_alike(form: tuple[str, str | None], data: st.DataObject) -> None:
    types, key = form
    values = data.draw(st.lists(st.tuples(*(st.none() | VALUES[each] for each in types.split())), min_size=1,
                                unique=True))  # fmt: skip
    options = {} if key is None else {"key": key, "separator": r"\x00"}
    try:
        keys = keys_of(types, options, *values)
    except InputError as refused:
        assert "bytes" in str(refused) and key is not None and "(" in key
        return
    assert len(set(keys)) == len(values)
    assert all(keys)


COLUMNS = {
    "INT": ("int", st.integers(-(2**31), 2**31 - 1)), "BOOLEAN": ("boolean", st.booleans()),
    "DOUBLE": ("double", st.floats()), "FLOAT": ("float", st.floats(width=32)),
    "DECIMAL(20,4)": ("text", st.decimals(-(10**10), 10**10, places=4)),
    "STRING": ("text", st.text(st.characters(codec="utf-8"))), "BINARY": ("binary", st.binary()),
    "DATE": ("text", st.dates()),
    "TIMESTAMP_NTZ": ("millis", st.integers(-62135596800000, 253402300799999).map(
        lambda milliseconds: datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=milliseconds))),
    "ARRAY<STRING>": ("text", st.lists(st.none() | st.text(st.characters(codec="utf-8")))),
}  # fmt: skip


@given(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=6), st.booleans(), st.booleans(), st.data())
def test_rows_are_read_back_as_they_were(types: list[str], encoded: bool, unique: bool, data: st.DataObject) -> None:
    form = form_of([type_called(each) for each in types], 1, unique)
    options = {"family": "r"}
    if encoded:
        options["columns"] = ", ".join(f"{name}=q:{name}{name}:{COLUMNS[type_][0]}"
                                       for name, type_ in zip("abcdefgh", types, strict=False))  # fmt: skip
    row = [data.draw(st.none() | COLUMNS[each][1]) for each in types]
    laid = ViewCells(form, options)
    ((_, cells),) = laid.cells(rows_of(form, [row])).items()
    for found in (cells, laid.resting(cells)):
        values, times = laid.values(found)
        assert repr(values) == repr(dict(zip("abcdefgh", row, strict=False)))
        assert times == 1
    assert set(laid.nulls(cells)) == {cell for cell in cells if cell not in laid.resting(cells)}
    assert len(laid.nulls(cells)) == row.count(None)
    assert {cell[:2] for cell in cells} <= ({b"q:", b"r:"} if encoded else {b"r:"})


def test_cells_of_a_row() -> None:
    form = form_of([type_called("INT"), type_called("STRING"), type_called("DECIMAL(9,2)")], 3, unique=False)
    laid = ViewCells(form, {"columns": r"a=n:\x00:int"})
    assert laid.cells(rows_of(form, [[7, "", None]])) == {
        b'[7,"",null]': {b"n:\0": b"\0\0\0\7", b"f:b": b"", b"f:c": b"", b"f:viewkeeper:null": b'["c"]',
                         b"f:viewkeeper:times": b"1"},
    }  # fmt: skip
    assert laid.version == b"f:viewkeeper:version"
