"""What is accepted at both ends of time can be read, in every zone and by every way; what cannot be is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database, InputError
from viewkeeper.catalog.model import Column, Stored, Table
from viewkeeper.catalog.time_zones import limits
from viewkeeper.catalog.types import INT, TIMESTAMP
from viewkeeper.changes.operations import TableForm
from viewkeeper.changes.verify import operation_bytes, operation_from_bytes
from viewkeeper.stores.intake import TableIntake

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Asia/Kolkata", "Africa/Monrovia"]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SCHEMA = """CREATE TABLE t (id INT, ts TIMESTAMP, d DATE, n TIMESTAMP_NTZ, PRIMARY KEY (id));
    CREATE VIEW v AS SELECT id, ts, coalesce(ts, d) AS of_day, coalesce(ts, n) AS of_time, d, n FROM t;
    CREATE STREAM m (ts TIMESTAMP NOT NULL, id INT, d DATE) TIMESTAMP BY ts PARTITION LENGTH 60"""


def made(root: Path, zone: str) -> Database:
    db = viewkeeper.connect(root, zone=zone, durability="process")
    db.sql(SCHEMA)
    return db


def in_arrow(id_: int, microseconds: int) -> pa.Table:
    return pa.table({"id": [id_], "ts": pa.array([microseconds], pa.timestamp("us", "UTC"))})


@pytest.mark.parametrize("zone", ZONES)
def test_the_first_and_last_moments_are_taken_and_read_by_every_way(tmp_path: Path, zone: str) -> None:
    """A TIMESTAMP is good where it lies in the years 1 to 9999 both in UTC and in the database's zone."""
    with made(tmp_path / "db", zone) as db:
        ends = limits(zone)
        for id_, microseconds in enumerate(ends):
            moment = EPOCH + dt.timedelta(microseconds=microseconds)
            db.table("t").put({"id": id_, "ts": moment})
            db.table("t").put_many([{"id": id_ + 2, "ts": moment.isoformat()}])
            db.table("t").put_many(in_arrow(id_ + 4, microseconds))
        catch_up(db)
        expected = {id_: EPOCH + dt.timedelta(microseconds=ends[id_ % 2]) for id_ in range(6)}
        rows = [*db.view("v").rows(), *db.view("v").scan(), *db.sql("SELECT id, ts FROM t")]
        rows += [db.view("v").get(0), db.view("v").get(1), db.table("t").get(0), db.table("t").get(5)]
        assert all(row["ts"] - expected[row["id"]] == dt.timedelta(0) for row in rows) and len(rows) == 22
        assert {row["ts"].tzinfo for row in rows} == {ZoneInfo(zone)}
        assert list(db.view("v").to_pandas().ts.dt.year.unique()) in ([1, 9999], [9999, 1])


@pytest.mark.parametrize("zone", ZONES)
def test_moments_beyond_are_refused_by_every_way_in(tmp_path: Path, zone: str) -> None:
    with made(tmp_path / "db", zone) as db:
        for microseconds in (limits(zone)[0] - 1, limits(zone)[1] + 1):
            with pytest.raises(InputError, match="years 1 to 9999"):
                db.table("t").put_many(in_arrow(1, microseconds))
            rows = pa.concat_tables([in_arrow(1, 0), in_arrow(2, microseconds)])
            assert db.stream("m").append(rows.slice(1)).rejected == 1
            assert (db.stream("m").append(rows).stored, db.stream("m").append(rows).rejected) == (1, 1)
            with pytest.raises(InputError, match="years 1 to 9999"):
                db.table("t").put_many(rows)
        assert db.table("t").get(1) is None


@pytest.mark.parametrize(("zone", "text"), [("Europe/Berlin", "9999-12-31T23:59:59Z"),
                                            ("America/New_York", "0001-01-01T00:00:00Z")])  # fmt: skip
def test_a_moment_whose_year_the_zone_has_not_is_refused_as_text_constant_and_log_entry(
    tmp_path: Path, zone: str, text: str
) -> None:
    table = Table(40, "t", (Column("id", INT, False), Column("ts", TIMESTAMP)), (0,), Stored.__new__(Stored))
    elsewhere, here = TableForm(table), TableForm(table, zone)
    puts = TableIntake(elsewhere, "UTC").rows([{"id": 1, "ts": text}])
    entry = operation_bytes(elsewhere, elsewhere.as_rows(puts, 0, np.array([1]), np.array([1])), 0)
    assert operation_from_bytes(entry, elsewhere) is not None and operation_from_bytes(entry, here) is None
    with made(tmp_path / "db", zone) as db:
        with pytest.raises(InputError, match=f"{text} is outside the years 1 to 9999 in UTC or {zone}"):
            db.table("t").put({"id": 1, "ts": text})
        with pytest.raises(viewkeeper.DeclarationError, match="years 1 to 9999"):
            db.sql(f"SELECT id FROM t WHERE ts = TIMESTAMP '{text}'")


@pytest.mark.parametrize("zone", ZONES)
def test_days_and_written_times_at_the_ends_become_moments_that_can_be_read(tmp_path: Path, zone: str) -> None:
    """The moment may lie in a year that UTC has not: clocks in the zone show a good one."""
    ends = [dt.datetime.min, dt.datetime.max]
    with made(tmp_path / "db", zone) as db:
        db.table("t").put_many([{"id": i, "d": end.date(), "n": end} for i, end in enumerate(ends)])
        catch_up(db)
        ways: list[list[dict[str, Any]]] = [list(db.view("v").rows()), list(db.view("v").scan())]
        ways += [list(db.sql("SELECT * FROM v ORDER BY id")), [db.view("v").get(0), db.view("v").get(1)]]
        for way in ways:
            for row, end in zip(sorted(way, key=lambda row: row["id"]), ends, strict=True):
                assert (row["d"], row["n"], row["ts"]) == (end.date(), end, None)
                assert row["of_time"].replace(tzinfo=None) == end and row["of_day"].date() == end.date()
        assert db.view("v").to_arrow().num_rows == 2


@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("d", pa.array([0, 10_000_000], pa.date32())),
        ("d", pa.array([0, 86_400_000 * 10**9], pa.date64())),
        ("ts", pa.array([0, 2**62], pa.timestamp("us"))),
        ("ts", pa.array([0, 2**62], pa.timestamp("s", "Europe/Berlin"))),
    ],
)
def test_one_value_beyond_the_years_rejects_one_row_of_an_append(tmp_path: Path, column: str, array: pa.Array) -> None:
    with made(tmp_path / "db", "Europe/Berlin") as db:
        rows = pa.table({"ts": pa.array([0, 1], pa.timestamp("us", "UTC")), "id": [1, 2]})
        rows = rows.drop_columns([column]) if column in rows.column_names else rows
        done = db.stream("m").append(rows.append_column(column, array))
        assert (done.stored, done.rejected) == (1, 1)
        catch_up(db)
        (rejected,) = db.rejected("m")
        assert "outside the years 1 to 9999" in rejected["reason"] and f'"{column}": ' in rejected["operation"]


def test_a_text_written_with_surrogates_is_one_text_in_views_and_selects(tmp_path: Path) -> None:
    r"""'\uD83D\uDE00' is the character that the pair means; half of a pair is '?', as in Spark."""
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(r"""CREATE TABLE t (s STRING, PRIMARY KEY (s));
            CREATE VIEW v AS SELECT s, '\uD83D\uDE00' AS pair, '\uD83D' AS half FROM t WHERE s = '\uD83D\uDE00'""")
        db.table("t").put_many([{"s": "\U0001f600"}, {"s": "?"}])
        catch_up(db)
        expected = [{"s": "\U0001f600", "pair": "\U0001f600", "half": "?"}]
        assert list(db.view("v").rows()) == expected
        assert list(db.sql(r"SELECT s, '\uD83D\uDE00' AS pair, '\uD83D' AS half FROM t WHERE s = '\uD83D' '\uDE00'")
                    ) == expected  # fmt: skip
        assert list(db.sql(r"SELECT s FROM v WHERE s <> '\uDE00'")) == [{"s": "\U0001f600"}]
