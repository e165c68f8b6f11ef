"""Values of views as cells of Cassandra, compared with what the driver makes of them; no server is needed."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cassandra import cqltypes

from viewkeeper.catalog.model import Column, View
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    YEAR_MONTH,
    Type,
    decimal,
    logical_type,
    physical_type,
    to_physical,
)
from viewkeeper.errors import InputError
from viewkeeper.stores.outside.cassandra.target_marker import _packed, _unpacked
from viewkeeper.stores.outside.cassandra.view_cells import cells_of, cql_of, value_in
from viewkeeper.stores.outside.cassandra.view_layout import KEY, TIMES, ViewLayout
from viewkeeper.stores.outside.cassandra.view_target import CassandraTarget
from viewkeeper.stores.outside.targets import RowForm
from viewkeeper.trace.rows import Rows
from written import stored_as

CASES: list[tuple[Type, Any, list[Any]]] = [
    (BOOLEAN, cqltypes.BooleanType, [True, False]),
    (TINYINT, cqltypes.ByteType, [-128, 127]),
    (SMALLINT, cqltypes.ShortType, [-32768, 0]),
    (INT, cqltypes.Int32Type, [-(2**31), 2**31 - 1]),
    (BIGINT, cqltypes.LongType, [-(2**63), 2**63 - 1]),
    (FLOAT, cqltypes.FloatType, [0.5, -math.inf]),
    (DOUBLE, cqltypes.DoubleType, [0.1, math.inf, 5e-324]),
    (DATE, cqltypes.SimpleDateType, [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1970, 1, 1)]),
    (decimal(15, 2), cqltypes.DecimalType, [Decimal("1.28"), Decimal("-1.28"), Decimal("0.00"), Decimal("-2.56")]),
    (decimal(38, 10), cqltypes.DecimalType,
     [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001"), Decimal("0E-10")]),
    (STRING, cqltypes.UTF8Type, ["", "ä\x00"]),
    (BINARY, cqltypes.BytesType, [b"", b"\xff\x00"]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "theirs", "values"), CASES)
def test_cells_are_those_that_the_driver_writes_and_are_read_back(type_: Type, theirs: Any, values: list[Any]) -> None:
    assert cql_of(type_) == theirs.typename
    cells = cells_of(type_, to_physical(pa.array([None, *values], logical_type(type_)), type_)).to_pylist()
    assert cells == [None, *(theirs.serialize(value, 5) for value in values)]
    assert [value_in(type_, cell, "UTC") for cell in cells] == [None, *values]


def test_equal_numbers_are_one_cell() -> None:
    for type_ in (FLOAT, DOUBLE):
        zero, other, nan, negative = cells_of(type_, pa.array([0.0, -0.0, math.nan, -math.nan], physical_type(type_)))
        assert zero == other and nan == negative
        assert math.isnan(value_in(type_, nan.as_py(), "UTC"))


def test_what_has_no_such_type_there_is_exact_too() -> None:
    time = datetime.datetime(2024, 5, 1, 12, 0, 0, 7, datetime.UTC)
    (cell,) = cells_of(TIMESTAMP, to_physical(pa.array([time], logical_type(TIMESTAMP)), TIMESTAMP))
    assert (cql_of(TIMESTAMP), cell.as_py()) == ("text", b"2024-05-01T12:00:00.000007Z")
    assert value_in(TIMESTAMP, cell.as_py(), "UTC") == time
    assert (cql_of(DAY_TIME), cql_of(YEAR_MONTH)) == ("bigint", "int")
    (cell,) = cells_of(DAY_TIME, pa.array([-1]))
    assert value_in(DAY_TIME, cell.as_py(), "UTC") == datetime.timedelta(microseconds=-1)
    for type_ in (BIGINT, DOUBLE, decimal(9, 2)):
        with pytest.raises(ValueError, match="0 bytes are no "):
            value_in(type_, b"", "UTC")


def layout(key: list[Column], unique: bool = True) -> ViewLayout:
    columns = (*key, Column("v", STRING))
    positions = tuple(range(len(key) if unique else len(columns)))
    stored = stored_as("keyed", 1, columns, positions)
    view = View(1, "v", "", columns, positions, unique, (), stored)
    return ViewLayout(RowForm(view, "UTC"))


def test_the_view_key_is_the_primary_key_where_it_can_be_one() -> None:
    plain = layout([Column("a", INT, False), Column("b", DATE, False)])
    assert plain.create("k.t", 1) == (
        'CREATE TABLE k.t ("a" int, "b" date, "v" text, "viewkeeper:version" bigint, PRIMARY KEY (("a", "b"))) '
        "WITH ID = 1"
    )
    rows = Rows([pa.array([7], pa.int32()), pa.array([0], pa.int32()), pa.array(["x"], pa.large_string())], np.ones(1))
    cells = [cell.to_pylist()[0] for cell in plain.cells(rows)]
    assert plain.keys(rows.select([0, 1])) == [tuple(cells[:2])] == [(b"\0\0\0\7", b"\x80\0\0\0")]
    others = [layout([Column("a", type_, nullable)])
              for type_, nullable in ((INT, True), (STRING, False), (decimal(5, 1), False))]  # fmt: skip
    for other in (*others, layout([]), layout([Column("a", INT, False)], unique=False)):
        assert other.key_names == [f'"{KEY}"']
    assert layout([], unique=False).columns[-1] == (TIMES, "bigint")
    there = {"a": ("partition_key", "int"), "b": ("partition_key", "date"), "v": ("regular", "text"),
             "viewkeeper:version": ("regular", "bigint"), "more": ("regular", "int")}  # fmt: skip
    assert plain.fits(there)
    assert not plain.fits({**there, "more": ("clustering", "int")})
    assert not plain.fits({**there, "v": ("regular", "int")})


def test_keys_in_the_journal_are_read_back() -> None:
    keys = [(b"", b"x"), (b"\xff" * 70_000,), (b"a", b"", b"c")] * 3
    blobs = list(_packed(keys))
    assert len(blobs) == 4
    assert [key for blob in blobs for key in _unpacked(blob)] == keys


def test_options_say_where() -> None:
    good = {"contact_points": "a,b", "keyspace": "k", "table": "t"}
    CassandraTarget.check(good)
    with pytest.raises(InputError, match="say of which datacenter"):
        CassandraTarget.check({**good, "consistency": "local_quorum"})
    assert CassandraTarget.collide(good, {**good, "contact_points": "b, c"})
    assert not CassandraTarget.collide(good, {**good, "contact_points": "c"})
    assert not CassandraTarget.collide(good, {**good, "table": "u"})
