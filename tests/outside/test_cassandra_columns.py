"""Values as Cassandra writes them become columns; its own client writes them here."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from cassandra import cqltypes

from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Type,
    decimal,
)
from viewkeeper.errors import NotSupported
from viewkeeper.stores.columns import ColumnIntake
from viewkeeper.stores.outside.cassandra.raw_columns import RawColumn, misfit, natural, physical

EPOCH = datetime.date(1970, 1, 1)
UUID = uuid.UUID("0FDC2C9A-91E5-4EB7-A9E5-0D7F6AE8B1C2")


def raw(values: Sequence[bytes | None]) -> RawColumn:
    """The values between others."""
    data, begins = b"x", []
    for value in values:
        begins.append(len(data))
        data += (value or b"") + b"y"
    lengths = [-1 if value is None else len(value) for value in values]
    return RawColumn(np.frombuffer(data, np.uint8), np.array(begins, np.int64), np.array(lengths, np.int64))


def taken(cql: str, type_: Type, values: Sequence[Any]) -> tuple[list[Any], dict[int, str]]:
    """Values, those that are bytes as they are, others as the client writes them."""
    writer = cqltypes.lookup_casstype_simple({
        "tinyint": "ByteType", "smallint": "ShortType", "int": "Int32Type", "bigint": "LongType",
        "varint": "IntegerType", "decimal": "DecimalType", "float": "FloatType", "double": "DoubleType",
        "boolean": "BooleanType", "text": "UTF8Type", "ascii": "AsciiType", "uuid": "UUIDType",
        "timeuuid": "TimeUUIDType", "inet": "InetAddressType", "blob": "BytesType", "date": "SimpleDateType",
        "timestamp": "DateType",
    }[cql])  # fmt: skip
    written = [value if value is None or isinstance(value, bytes) else writer.serialize(value, 5) for value in values]
    array, reasons = physical(cql, raw(written), ColumnIntake(type_, "UTC"))
    return array.to_pylist(), reasons


@pytest.mark.parametrize(("cql", "type_", "values"), [
    ("tinyint", TINYINT, [0, -128, 127, None]), ("smallint", SMALLINT, [1, -32768, None, 32767]),
    ("int", INT, [None, 2**31 - 1, -(2**31), -1]), ("int", BIGINT, [5, None, -(2**31)]),
    ("bigint", BIGINT, [2**63 - 1, -(2**63), None, 0]), ("double", DOUBLE, [1.5, -0.0, float("inf"), None, 5e-324]),
    ("float", FLOAT, [1.5, None]), ("float", DOUBLE, [1.5, None]), ("text", STRING, ["é", "", None, "\0"]),
    ("ascii", STRING, ["a", None]), ("inet", STRING, ["1.2.3.4", "::1", None, "1.2.3.4"]),
    ("blob", BINARY, [b"", b"\0\xff", None]), ("varint", decimal(38, 0), [Decimal(10**37), Decimal(-1), None]),
    ("int", INT, []), ("text", STRING, []), ("decimal", decimal(20, 2), []), ("decimal", decimal(20, 2), [None]),
])  # fmt: skip
def test_values_are_what_the_client_wrote(cql: str, type_: Type, values: list[Any]) -> None:
    found, reasons = taken(cql, type_, [int(v) if cql == "varint" and v is not None else v for v in values])
    assert found == values and not reasons


def test_values_that_are_held_otherwise_here() -> None:
    assert taken("boolean", BOOLEAN, [True, False, None, b"\x02"]) == ([1, 0, None, 1], {})
    assert taken("uuid", STRING, [UUID, None, uuid.UUID(int=0)])[0] == [str(UUID), None, str(uuid.UUID(int=0))]
    days = [datetime.date.min, EPOCH, None, datetime.date.max]
    assert taken("date", DATE, days)[0] == [None if each is None else (each - EPOCH).days for each in days]
    moments = [0, -1, None, 253_402_300_799_999]
    assert taken("timestamp", TIMESTAMP, moments)[0] == [None if each is None else each * 1000 for each in moments]
    (nan,), _ = taken("double", DOUBLE, [float("nan")])
    assert nan != nan


@pytest.mark.parametrize("precision", [15, 38])
def test_decimals_of_any_scale_and_length(precision: int) -> None:
    values = [Decimal("1.5"), Decimal("1.500"), Decimal(-3), None, Decimal("1E+3"), Decimal("-0.25"), Decimal("0E-50")]
    found, reasons = taken("decimal", decimal(precision, 2), values)
    shown = [None if each is None else Decimal(each).scaleb(-2) if precision == 15 else each for each in found]
    assert shown == values and not reasons


def test_what_no_column_can_hold_is_none_and_said() -> None:
    found, reasons = taken("decimal", decimal(5, 2), [
        Decimal("1.234"), Decimal("1.2"), Decimal("1234.5"), Decimal(10**60), b"\0\0", Decimal("1E-70"),
    ])  # fmt: skip
    assert found == [None, 120, None, None, None, None] and sorted(reasons) == [0, 2, 3, 4, 5]
    for cql, type_, bad in (
        ("int", INT, b"\0"), ("uuid", STRING, b"1"), ("text", STRING, b"\xff"), ("inet", STRING, b"123"),
        ("timestamp", TIMESTAMP, 253_402_300_800_000), ("timestamp", TIMESTAMP, -(2**63)), ("date", DATE, b"\0" * 4),
        ("bigint", BIGINT, b""), ("boolean", BOOLEAN, b""), ("varint", decimal(38, 0), 10**38),
    ):  # fmt: skip
        found, reasons = taken(cql, type_, [bad, None])
        assert found == [None, None] and list(reasons) == [0], (cql, bad, reasons)


def test_types_that_fit() -> None:
    assert misfit("smallint", BIGINT, True) is None and misfit("decimal", decimal(15, 2), False) is None
    assert misfit("bigint", INT, False) == "is of Cassandra's type bigint, which is BIGINT, and declared is INT"
    assert "leave it out" in str(misfit("map<text, int>", STRING, False))
    assert all("in the key" in str(misfit(cql, DOUBLE, True)) for cql in ("double", "float", "decimal"))
    assert natural("timeuuid", "id") == STRING
    with pytest.raises(NotSupported, match=r"any scale; say which: price DECIMAL\(p, s\)"):
        natural("decimal", "price")
    with pytest.raises(NotSupported, match="type frozen<address>, which no column here can have"):
        natural("frozen<address>", "home")
