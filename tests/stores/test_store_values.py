"""What `put` takes, type by type, and what it refuses; row by row, in bulk, from Arrow and from pandas alike."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn import examples
from store_model import make_table, stored_rows
from viewkeeper.catalog.model import Table
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
    TIMESTAMP_NTZ,
    TINYINT,
    YEAR_MONTH,
    Type,
    decimal,
)
from viewkeeper.errors import InputError
from viewkeeper.stores.embedded import EmbeddedStore


class Nowhere(dt.tzinfo):
    """A zone that knows no offset: a time in it is naive."""

    def utcoffset(self, _: dt.datetime | None) -> None:
        return None


UTC, BERLIN = dt.UTC, ZoneInfo("Europe/Berlin")
DAY, NOON = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12)

TAKEN: list[tuple[Type, Any, Any]] = [
    (DAY_TIME, dt.timedelta(days=-1, microseconds=1), dt.timedelta(days=-1, microseconds=1)),
    (DAY_TIME, pd.Timedelta(hours=5), dt.timedelta(hours=5)),
    (DAY_TIME, "-1 02:03:04.5", -dt.timedelta(days=1, hours=2, minutes=3, seconds=4, microseconds=500_000)),
    (Type("INTERVAL DAY"), dt.timedelta(days=106_751_991), dt.timedelta(days=106_751_991)),
    (Type("INTERVAL HOUR TO MINUTE"), "0 00:01:00", dt.timedelta(minutes=1)),
    (YEAR_MONTH, -(2**31), -(2**31)),
    (YEAR_MONTH, "-1-2", -14),
    (Type("INTERVAL YEAR"), np.int16(24), 24),
    (BOOLEAN, True, True),
    (BOOLEAN, np.bool_(False), False),
    (TINYINT, -128, -128),
    (SMALLINT, np.int64(7), 7),
    (INT, 2**31 - 1, 2**31 - 1),
    (BIGINT, -(2**63), -(2**63)),
    (FLOAT, 0.1, np.float32(0.1).item()),
    (FLOAT, 3, 3.0),
    (DOUBLE, 0.1, 0.1),
    (DOUBLE, 2**53, 2.0**53),
    (DOUBLE, float("inf"), float("inf")),
    (decimal(15, 2), "19.90", Decimal("19.90")),
    (decimal(15, 2), Decimal("1.1"), Decimal("1.10")),
    (decimal(15, 2), 7, Decimal("7.00")),
    (decimal(15, 2), Decimal("1.500"), Decimal("1.50")),
    (decimal(15, 2), "1e3", Decimal("1000.00")),
    (decimal(38, 18), "-12345678901234567890.000000000000000001", Decimal("-12345678901234567890.000000000000000001")),
    (decimal(20, 0), -(10**20) + 1, Decimal(-(10**20) + 1)),
    (decimal(2, 2), "-0.00", Decimal("0.00")),
    (STRING, "é\0", "é\0"),
    (STRING, "", ""),
    (BINARY, b"\0\xff", b"\0\xff"),
    (BINARY, bytearray(b"x"), b"x"),
    (DATE, DAY, DAY),
    (DATE, "2024-02-29", DAY),
    (DATE, dt.date.min, dt.date.min),
    (DATE, dt.date.max, dt.date.max),
    (TIMESTAMP, NOON, NOON.replace(tzinfo=UTC)),
    (TIMESTAMP, NOON.replace(tzinfo=Nowhere()), NOON.replace(tzinfo=UTC)),

    (TIMESTAMP, NOON.replace(tzinfo=BERLIN), NOON.replace(hour=11, tzinfo=UTC)),
    (TIMESTAMP, "2024-02-29 12:00:00.000001", NOON.replace(microsecond=1, tzinfo=UTC)),
    (TIMESTAMP, "2024-02-29T12:00+01:00", NOON.replace(hour=11, tzinfo=UTC)),
    (TIMESTAMP_NTZ, NOON, NOON),
    (TIMESTAMP_NTZ, "2024-02-29", NOON.replace(hour=0)),
    (TIMESTAMP_NTZ, dt.datetime(1960, 1, 1, 0, 0, 0, 1), dt.datetime(1960, 1, 1, 0, 0, 0, 1)),
]  # fmt: skip

REFUSED: list[tuple[Type, Any, str]] = [
    (DAY_TIME, dt.timedelta(days=106_751_992), "no INTERVAL DAY TO SECOND"),
    (DAY_TIME, 5, "a timedelta"),
    (DAY_TIME, pd.Timedelta(nanoseconds=1), "nanoseconds"),
    (Type("INTERVAL DAY"), dt.timedelta(hours=1), "no INTERVAL DAY"),
    (DAY_TIME, "1 24:00:00", "D hh:mm:ss.ffffff"),
    (YEAR_MONTH, 2**31, "no INTERVAL YEAR TO MONTH"),
    (YEAR_MONTH, "178956970-8", "no INTERVAL YEAR TO MONTH"),
    (YEAR_MONTH, "-178956970-9", "no INTERVAL YEAR TO MONTH"),
    (YEAR_MONTH, "999999999999-0", r"an int of months \(or Y-M\)"),
    (YEAR_MONTH, "1-12", r"an int of months \(or Y-M\)"),
    (Type("INTERVAL YEAR"), 14, "no INTERVAL YEAR"),
    (BOOLEAN, 1, "True or False"),
    (TINYINT, 128, "-128 to 127"),
    (INT, 1.0, "an int"),
    (INT, True, "an int"),
    (BIGINT, 2**63, "outside"),
    (BIGINT, "1", "an int"),
    (BIGINT, Decimal(1), "an int"),
    (FLOAT, 1e39, "too great"),
    (FLOAT, 2**24 + 1, "no exact"),
    (FLOAT, "1", "a float"),

    (DOUBLE, 2**53 + 1, "no exact"),
    (DOUBLE, 10**400, "too great"),
    (DOUBLE, Decimal("0.5"), "a float"),
    (DOUBLE, True, "a float"),
    (decimal(15, 2), "19.999", "behind the point"),
    (decimal(15, 2), 10**13, "before the point"),
    (decimal(15, 2), 1.5, "a Decimal"),
    (decimal(15, 2), "x", "a number"),

    (decimal(15, 2), Decimal("NaN"), "not finite"),
    (decimal(15, 2), "Infinity", "not finite"),
    (decimal(38, 2), "1e1000000", "before the point"),
    (decimal(38, 2), "1e-1000000", "behind the point"),
    (decimal(38, 0), 10**38, "before the point"),
    (STRING, b"x", "a str"),
    (STRING, 1, "a str"),
    (STRING, "\ud800", "UTF-8"),
    (BINARY, "x", "bytes"),
    (DATE, NOON, "a date"),
    (DATE, "2024-2-29", "a date"),
    (DATE, "2023-02-29", "day"),
    (DATE, 1, "a date"),
    (TIMESTAMP, DAY, "a datetime"),
    (TIMESTAMP, "noon", "a datetime"),

    (TIMESTAMP, "2024-02-29 12:00:00.0000001", "a datetime"),
    (TIMESTAMP, pd.Timestamp(1), "nanoseconds"),
    (TIMESTAMP, pd.NaT, "a datetime"),
    (TIMESTAMP, dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=1))), "years 1 to 9999"),
    (TIMESTAMP_NTZ, NOON.replace(tzinfo=UTC), "has a time zone"),

    (TIMESTAMP_NTZ, "2024-02-29T12:00Z", "has a time zone"),
]  # fmt: skip


def one_column(type_: Type) -> Table:
    return make_table(40, "t", [("id", INT), ("v", type_)], "id")


def named(cases: list[tuple[Type, Any, Any]]) -> list[str]:
    return [f"{type_} {type(value).__name__} {str(value)[:20]!a}" for type_, value, _ in cases]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    made = EmbeddedStore(tmp_path / "store", durability="process")
    yield made
    made.close()


@pytest.mark.parametrize(("type_", "value", "expected"), TAKEN, ids=named(TAKEN))
def test_a_value_that_loses_nothing_is_taken_alone_and_among_many(
    store: EmbeddedStore, type_: Type, value: Any, expected: Any
) -> None:
    """put and put_many convert alike, and get and rows give the same value back."""
    table = one_column(type_)
    store.put(table, {"id": 1, "v": value})
    store.put_many(table, [{"id": 2, "v": value}, {"id": 3, "v": None}])
    store.put_many(table, [{"id": 4, "v": value}, {"id": 5}])
    got = {row["id"]: row["v"] for row in stored_rows(store, table)}
    assert got == {1: expected, 2: expected, 3: None, 4: expected, 5: None}
    assert type(store.get(table, 1)["v"]) is type(expected) and store.get(table, 1)["v"] == expected


@pytest.mark.parametrize(("type_", "value", "reason"), REFUSED, ids=named(REFUSED))
def test_a_value_that_would_lose_something_is_refused_with_the_reason(
    store: EmbeddedStore, type_: Type, value: Any, reason: str
) -> None:
    """put and put_many refuse alike, naming column, type and reason, and write nothing."""
    table = one_column(type_)
    with pytest.raises(InputError, match=f"column v .*{reason}"):
        store.put(table, {"id": 1, "v": value})
    with pytest.raises(InputError, match=rf"rows\[1\] \(id = 2\), column v .*{reason}"):
        store.put_many(table, [{"id": 1, "v": None}, {"id": 2, "v": value}])
    assert set(store.ends().values()) == {0}


@pytest.mark.parametrize(
    ("type_", "array", "expected"),
    [
        (BIGINT, pa.array([1, None], pa.uint8()), [1, None]),
        (STRING, pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
        (STRING, pa.array([None, None]), [None, None]),
        (DOUBLE, pa.array([float("nan"), 1.5], pa.float32()), [pytest.approx(float("nan"), nan_ok=True), 1.5]),
        (DOUBLE, pa.array([1, 2]), [1.0, 2.0]),
        (decimal(15, 2), pa.array([Decimal("1.5"), None]), [Decimal("1.50"), None]),
        (decimal(15, 2), pa.array([3, 4]), [Decimal("3.00"), Decimal("4.00")]),
        (TIMESTAMP, pa.array([NOON, None], pa.timestamp("ms", "Europe/Berlin")), [NOON.replace(tzinfo=UTC), None]),
        (TIMESTAMP, pa.array([NOON, None], pa.timestamp("ns")), [NOON.replace(tzinfo=UTC), None]),
        (BINARY, pa.array([b"ab"], pa.binary(2)), [b"ab"]),
    ],
)
def test_arrow_columns_are_converted_where_nothing_is_lost(
    store: EmbeddedStore, type_: Type, array: pa.Array, expected: list[Any]
) -> None:
    table = one_column(type_)
    store.put_many(table, pa.table({"id": range(len(array)), "v": array}))
    assert [store.get(table, i)["v"] for i in range(len(array))] == expected


@pytest.mark.parametrize(
    ("type_", "array", "reason"),
    [
        (TINYINT, pa.array([1, 300]), "-128 to 127"),
        (INT, pa.array([1, 2.0]), "an int"),
        (decimal(5, 2), pa.array([Decimal("0.01"), Decimal("0.001")]), "behind the point"),
        (TIMESTAMP, pa.array([0, 1], pa.timestamp("ns")), "anosecond"),
        (TIMESTAMP_NTZ, pa.array([0, 1], pa.timestamp("us", "UTC")), "time zone"),
        (DATE, pa.array([0, 10_000_000], pa.date32()), "out of range|year"),
        (FLOAT, pa.array([1.0, 1e300]), "too great"),
        (STRING, pa.array([b"a", b"b"]), "a str"),
    ],
)
def test_arrow_columns_that_would_lose_something_are_refused(
    store: EmbeddedStore, type_: Type, array: pa.Array, reason: str
) -> None:
    with pytest.raises(InputError, match=rf"rows\[[01]\] .*column v .*({reason})"):
        store.put_many(one_column(type_), pa.table({"id": [1, 2], "v": array}))
    assert set(store.ends().values()) == {0}


def test_missing_in_pandas_is_null_but_nan_in_arrow_and_dicts_is_a_value(store: EmbeddedStore) -> None:
    table = one_column(DOUBLE)
    store.put_many(table, pd.DataFrame({"id": [1, 2], "v": [np.nan, 1.0]}))
    store.put_many(table, pa.table({"id": [3], "v": [float("nan")]}))
    store.put_many(table, [{"id": 4, "v": float("nan")}])
    values = [store.get(table, i)["v"] for i in (1, 2, 3, 4)]
    assert values[:2] == [None, 1.0] and all(value != value for value in values[2:])


def test_pandas_integers_with_gaps_are_integers(store: EmbeddedStore) -> None:
    """pandas holds them as floats; mixed objects and NaT count as missing too."""
    table = make_table(41, "t", [("id", INT), ("n", BIGINT), ("s", STRING), ("at", TIMESTAMP)], "id")
    frame = pd.DataFrame({"id": [1, 2], "n": [7, None], "s": [None, "x"], "at": [pd.NaT, pd.Timestamp(NOON)]})
    store.put_many(table, frame)
    assert store.get(table, 1) == {"id": 1, "n": 7, "s": None, "at": None}
    assert store.get(table, 2) == {"id": 2, "n": None, "s": "x", "at": NOON.replace(tzinfo=UTC)}
    with pytest.raises(InputError, match="column n BIGINT: 1.5"):
        store.put_many(table, pd.DataFrame({"id": [1], "n": [1.5]}))


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)), min_size=1, max_size=5))
def test_naive_times_are_read_in_the_databases_zone(tmp_path: Path, moments: list[dt.datetime]) -> None:
    """Also in the hours that a clock change skips or repeats, and by every way in."""
    store = EmbeddedStore(tmp_path / "zone", durability="process", zone="Europe/Berlin")
    table = one_column(TIMESTAMP)
    moments = [*moments, dt.datetime(2024, 3, 31, 2, 30), dt.datetime(2024, 10, 27, 2, 30)]
    expected = [moment.replace(tzinfo=BERLIN).astimezone(UTC) for moment in moments]
    for way in (
        pa.table({"id": range(len(moments)), "v": moments}),
        [{"id": i, "v": m} for i, m in enumerate(moments)],
    ):
        store.put_many(table, way)
        assert [store.get(table, i)["v"].astimezone(UTC) for i in range(len(moments))] == expected
    assert store.get(table, 0)["v"].tzinfo == BERLIN
    store.close()


def test_arrow_text_that_is_no_utf8_is_refused_where_it_stands(store: EmbeddedStore) -> None:
    """Arrow arrays can hold what is no text: it is refused by row and column before anything is written."""
    table = make_table(43, "texts", [("id", INT), ("v", STRING)], "id")
    offsets, data = pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes()), pa.py_buffer(b"a\xff")
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, data])
    for column in (broken, broken.dictionary_encode()):
        with pytest.raises(InputError, match=r"rows\[1\].*column v STRING: 'utf-8' codec can't decode"):
            store.put_many(table, pa.table({"id": [1, 2], "v": column}))
    assert store.get(table, 1) is None


def test_sparse_and_complex_pandas_columns_are_taken_or_refused_as_their_values_are(store: EmbeddedStore) -> None:
    table = make_table(44, "numbers", [("id", INT), ("v", INT)], "id")
    store.put_many(table, pd.DataFrame({"id": [1, 2], "v": pd.arrays.SparseArray([0, 7])}))
    assert store.get(table, 2) == {"id": 2, "v": 7}
    with pytest.raises(InputError, match="column v INT"):
        store.put_many(table, pd.DataFrame({"id": [1], "v": [1j]}))
    with pytest.raises(InputError, match="delete_many takes keys, not int"):
        store.delete_many(table, 5)  # type: ignore[arg-type]


def test_names_that_do_not_fit_are_refused_with_a_hint(store: EmbeddedStore) -> None:
    table = make_table(42, "orders", [("id", INT), ("customer", BIGINT)], "id")
    for row, message in (
        ({"id": 1, "custmer": 2}, "orders: no column 'custmer'; did you mean customer?"),
        ({"customer": 2}, "column id is missing"),
        ({"id": 1, "ID": 2}, "given twice"),
        ({1: 2}, "no column 1"),
    ):
        with pytest.raises(InputError, match=message.replace("?", r"\?")):
            store.put(table, row)
        with pytest.raises(InputError, match=message.replace("?", r"\?")):
            store.put_many(table, [row])
    for wrong in ([1], "x", 5, {"id": 1}):
        with pytest.raises(InputError, match="dict"):
            store.put_many(table, wrong)
    with pytest.raises(InputError, match="key is \\(id\\); got 2 values"):
        store.get(table, (1, 2))


def test_a_duration_of_arrows_that_is_too_long_is_refused_as_such(store: EmbeddedStore) -> None:
    table = one_column(DAY_TIME)
    given = pa.table({table.columns[0].name: [1], table.columns[1].name: pa.array([2**62], pa.duration("s"))})
    with pytest.raises(InputError, match="duration.* is too long"):
        store.put_many(table, given)
