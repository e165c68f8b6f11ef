"""Rows as bytes: the bulk form and the single-row form are one, and give back what went in."""

from __future__ import annotations

import struct
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    Type,
    decimal,
    physical_type,
)
from viewkeeper.changes.layout import RowLayout, from_raw

_WIDE = Context(prec=100)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    BOOLEAN: st.integers(0, 1),
    SMALLINT: st.integers(-(2**15), 2**15 - 1),
    INT: st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.integers(-(2**63), 2**63 - 1),
    FLOAT: st.floats(width=32, allow_nan=False),
    DOUBLE: st.floats(allow_nan=False),
    decimal(15, 2): st.integers(-(10**15) + 1, 10**15 - 1),
    decimal(38, 10): st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(n).scaleb(-10, _WIDE)),
    STRING: st.text(max_size=5),
    BINARY: st.binary(max_size=5),
}


@st.composite
def tables_of_rows(draw: st.DrawFn) -> tuple[list[Type], bool, list[list[Any]]]:
    types = draw(st.lists(st.sampled_from(list(VALUES)), max_size=12))
    nullable = draw(st.booleans())
    one = [VALUES[type_] if not nullable else st.none() | VALUES[type_] for type_ in types]
    return types, nullable, draw(st.lists(st.tuples(*one).map(list), max_size=8))


@settings(max_examples=examples(150), deadline=None)
@given(tables_of_rows(), st.integers(0, 3))
def test_rows_come_back_and_both_forms_write_the_same_bytes(
    case: tuple[list[Type], bool, list[list[Any]]], skip: int
) -> None:
    """encode = pack, and decode and unpack invert them, for every mix of types and NULLs."""
    types, nullable, rows = case
    layout = RowLayout(types, nullable)
    columns = [pa.array([row[i] for row in rows], physical_type(type_)) for i, type_ in enumerate(types)]
    encoded = layout.encode(columns, len(rows))
    assert encoded == [layout.pack(row) for row in rows]
    assert [layout.unpack(data) for data in encoded] == rows
    decoded, whole = layout.decode([b"#" * skip + data for data in encoded], skip)
    assert whole.all() and len(whole) == len(rows)
    for column, raw in zip(columns, decoded, strict=True):
        typed = from_raw(raw, column.type)
        typed.validate(full=True)
        assert typed.to_pylist() == column.to_pylist()


@pytest.mark.parametrize("types", [[BIGINT, INT], [BIGINT, STRING], [STRING, BINARY, INT]])
def test_rows_of_a_wrong_length_are_noticed_and_their_neighbours_read(types: list[Type]) -> None:
    """Any truncation or extension of a row is seen, whatever stands beside it."""
    layout = RowLayout(types)
    good = layout.pack([7 if type_ in (BIGINT, INT) else (b"xyz" if type_ == BINARY else "xyz") for type_ in types])
    bad = [good[:length] for length in range(len(good))] + [good + b"!"]
    rows = [piece for wrong in bad for piece in (wrong, good)]
    columns, whole = layout.decode(rows)
    assert whole.tolist() == [False, True] * len(bad)
    assert {len(column) for column in columns} == {len(bad)}


def test_the_layout_is_the_one_that_the_format_document_shows() -> None:
    """bitmap, big-endian fields with lengths for variable columns, then their bytes."""
    layout = RowLayout([BIGINT, STRING, decimal(20, 1), INT])
    expected = struct.pack(">BqI16si", 0b1000, 258, 2, (-15).to_bytes(16, "little", signed=True), 0) + "é".encode()
    assert layout.pack([258, "é", Decimal("-1.5"), None]) == expected


def test_slices_are_laid_out_as_what_they_show() -> None:
    """Offsets into shared Arrow memory are respected."""
    types = [BIGINT, STRING, decimal(30, 2), DOUBLE]
    rows = [[1, None, 3], ["a", None, "ccc"], [Decimal("1.00"), None, Decimal("-3.00")], [0.5, None, np.inf]]
    columns = [pa.array(values, physical_type(type_)) for values, type_ in zip(rows, types, strict=True)]
    layout = RowLayout(types)
    assert layout.encode([column.slice(1, 2) for column in columns], 2) == layout.encode(columns, 3)[1:]
