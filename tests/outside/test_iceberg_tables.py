"""Tables over Iceberg tables, which `pyiceberg` writes."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.types import LongType, StringType

from iceberg_views import ROW, declared, opened_table, problems, reports, require_right, with_names
from iceberg_writer import IcebergWriter
from local_maintenance import catch_up, with_servers
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, Error, InputError, LogLost, StoreAway
from viewkeeper.pipeline import adopting
from viewkeeper.stores.outside.contract import PartRange
from viewkeeper.stores.outside.said import told_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with with_names(tmp_path / "db") as database:
        yield database


@pytest.mark.parametrize(("seed", "partitioned_by", "servers"), [
    (0, None, 1), (1, None, 1), (2, {"g": "identity"}, 3), (3, {"note": "identity", "g": "identity"}, 1),
])  # fmt: skip
def test_views_hold_what_the_table_does_after_each_batch(
    db: Database, tmp_path: Path, seed: int, partitioned_by: dict[str, str] | None, servers: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Adopted while it is written, and followed then: deletes and puts in one commit, upserts, overwrites, keys that
    change, deletes by position, compaction."""
    with_servers(monkeypatch, servers)
    monkeypatch.setattr(adopting, "ROWS_AT_ONCE", 2)
    chance = random.Random(seed)
    writer = IcebergWriter(tmp_path / "t", partitioned_by)
    writer.change(chance, 6)
    db.sql(declared(writer))
    writer.change(chance, 4)
    catch_up(db)
    require_right(db, writer)
    for _ in range(2):
        writer.change(chance, 5)
        db.table("here").put({"id": 2, "name": "two"})
        catch_up(db)
        require_right(db, writer)


def test_columns_that_are_left_out_are_those_of_the_table(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t")
    db.sql(declared(writer, "CREATE VIEW v AS SELECT g FROM t", "(PRIMARY KEY (ID))"))
    shown = [tuple(row.values())[:2] for row in db.sql("DESCRIBE t")]
    assert shown == [("id", "bigint"), ("g", "int"), ("a", "bigint"), ("note", "string")]
    assert "primary key (id); in iceberg (table 'shop.t'" in db.sql("DESCRIBE t").note


def test_values_of_every_type_come_through_the_rows_and_the_log(db: Database, tmp_path: Path) -> None:
    """Also as columns of partitions, under names in any case and with any sign."""
    utc, first, last = datetime.UTC, datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "Id": (pa.int64(), [1, 2, 3]), "a b": (pa.string(), ["x'\"", None, ""]), "a.b": (pa.int32(), [-128, None, 127]),
        "big": (pa.decimal128(38, 2), [Decimal("-1.20"), None, Decimal(10) ** 35]),
        "small": (pa.decimal128(9, 4), [Decimal("1.2345"), None, Decimal(0)]), "f": (pa.float32(), [0.5, None, -0.0]),
        "d": (pa.float64(), [1e300, None, math.inf]), "b": (pa.bool_(), [True, None, False]),
        "at": (pa.timestamp("us", "UTC"), [first.replace(tzinfo=utc), None, last.replace(tzinfo=utc)]),
        "n": (pa.timestamp("us"), [first, None, last]), "day": (pa.date32(), [first.date(), None, last.date()]),
        "x": (pa.binary(), [b"\0\xff", None, b""]), "l": (pa.list_(pa.string()), [["a", None], None, []]),
        "s": (pa.struct([("P", pa.int32()), ("q", pa.list_(pa.timestamp("us", "UTC")))]),
              [{"P": 1, "q": [first.replace(tzinfo=utc)]}, None, {"P": None, "q": None}]),
        "m": (pa.map_(pa.string(), pa.decimal128(9, 1)), [[("k", Decimal("1.5"))], None, []]),
        "pd": (pa.date32(), [first.date(), None, last.date()]), "pn": (pa.decimal128(5, 2), [Decimal("1.5"), None, 0]),
        "pt": (pa.timestamp("us", "UTC"), [datetime.datetime(2024, 1, 1, 1, 1, 1, 5, utc), None, None]),
        "pb": (pa.bool_(), [True, None, False]), "p s": (pa.string(), ["a/b %=ü", None, ""]),
    }  # fmt: skip
    given = pa.table([pa.array(values, type_) for type_, values in columns.values()], list(columns))
    writer = IcebergWriter(tmp_path / "t", dict.fromkeys(["pd", "pn", "pt", "pb", "p s"], "identity"),
                           schema=given.schema)  # fmt: skip
    writer.table.append(given.slice(0, 2))
    db.sql(declared(writer, "CREATE VIEW v AS SELECT * FROM t"))
    catch_up(db)
    writer.table.append(given.slice(2))
    changed = given.slice(0, 1).set_column(5, "f", pa.array([7.0], pa.float32()))
    writer.table.overwrite(changed, EqualTo("Id", 1))
    catch_up(db)
    wanted = [{**row, "f": 7.0 if row["Id"] == 1 else row["f"]} for row in given.to_pylist()]
    found = {row["Id"]: row for row in db.view("v").rows()}
    assert [_with_dict(found[row["Id"]], "m") for row in wanted] == [_with_dict(row, "m") for row in wanted]
    assert problems(db, "v") == []


def _with_dict(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {**row, name: None if row[name] is None else dict(row[name])}


@pytest.mark.parametrize(("columns", "message"), [
    ("(id INT, PRIMARY KEY (id))", "its column id is of type BIGINT, and declared is INT"),
    ("(id BIGINT, price INT, PRIMARY KEY (id))", "it has no column price; it has id, g, a, note"),
    ("(g INT, PRIMARY KEY (g))", "the key g = 1 stands in 2 rows"),
    ("(a BIGINT, PRIMARY KEY (a))", "begins with {'a': None}: NULL in column a, which is in the key"),
    ("(id BIGINT NOT NULL DEFAULT 1)", "DEFAULT"),
])  # fmt: skip
def test_what_cannot_be_followed_is_refused_when_it_is_declared(
    db: Database, tmp_path: Path, columns: str, message: str
) -> None:
    writer = IcebergWriter(tmp_path / "t")
    writer.append([{"id": 1, "g": 1, "a": None, "note": "x"}, {"id": 2, "g": 1, "a": 3, "note": "x"}])
    with pytest.raises(DeclarationError, match=message):
        db.sql(declared(writer, "", columns))
    assert db.catalog.find("t") is None


def test_a_table_whose_snapshots_have_no_order_is_refused_until_it_has_been_written_anew(
    db: Database, tmp_path: Path
) -> None:
    writer = IcebergWriter(tmp_path / "t", version=1)
    writer.append([ROW])
    with pytest.raises(DeclarationError, match="of format version 1: ALTER TABLE"):
        db.sql(declared(writer))
    with writer.table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    with pytest.raises(DeclarationError, match="when it was of format version 1: write to it once"):
        db.sql(declared(writer))
    writer.append([{**ROW, "id": 2}])
    db.sql(declared(writer))
    writer.delete(1)
    catch_up(db)
    require_right(db, writer)


def test_a_type_that_no_column_can_have_is_refused_by_name(db: Database, tmp_path: Path) -> None:
    for written, name in {pa.time64("us"): "time", pa.binary(4): r"fixed\[4\]", pa.list_(pa.uuid()): "uuid"}.items():
        writer = IcebergWriter(tmp_path / name[:4], schema=pa.schema([("id", pa.int64()), ("v", written)]))
        with pytest.raises(DeclarationError, match=f"the column v is of Iceberg's type {name}, which no column here"):
            db.sql(declared(writer))
        db.sql(declared(writer, "", "(id BIGINT, PRIMARY KEY (id))") + "; DROP TABLE t")
        with pytest.raises(DeclarationError, match="its column v is of type .*, and declared is BINARY"):
            db.sql(declared(writer, "", "(id BIGINT, v BINARY, PRIMARY KEY (id))"))


def test_options_that_say_too_little_or_too_much_are_refused(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = IcebergWriter(tmp_path / "t")
    named = "table 'shop.t', catalog.type 'sql'"
    for options, message in {
        f"{named}": r"needs catalog.uri '...'",
        "table 'shop.t', catalog.uri 'sqlite:///x'": r"needs catalog.type '...'",
        "table 't', catalog.type 'sql', catalog.uri 'sqlite:///x'": "say its namespace, too",
        "table 'shop.t', catalog.type 'hive', catalog.uri 'thrift://x'": "'hive'.: there are rest, sql",
        f"{named}, catalog.uri 'sqlite:///x', tabel 'x'": "did you mean table",
        f"{named}, catalog.uri 'postgresql://me:pw@host/db'": "a secret is not kept",
        f"{named}, catalog.uri 'sqlite:///x', catalog.token 'x'": "a secret is not kept",
        f"{named}, catalog.uri 'sqlite:///x', 'catalog.s3.secret-access-key' 'x'": "a secret is not kept",
        f"{named}, catalog.uri 'sqlite:///x', 'catalog.header.Authorization' 'x'": "a secret is not kept",
        f"{named}, catalog.uri_env 'NOSUCH_'": "no such environment variable",
        f"{named}, catalog.uri 'nosuch://x'": "the catalog default cannot be used: .*nosuch",
        f"{named}, catalog.uri '{writer.uri}'": "there is no Iceberg table shop.t in the catalog default",
        f"{named}, catalog.uri 'sqlite:///{tmp_path}/nosuch.db'": "no such table: iceberg_tables",
    }.items():
        with pytest.raises(DeclarationError, match=message):
            db.sql(f"CREATE TABLE t (id BIGINT, PRIMARY KEY (id)) USING iceberg OPTIONS ({options})")
    monkeypatch.setenv("SHOP_URI", writer.uri)
    kept = f"{named}, catalog 'foreign', catalog.uri_env 'SHOP_URI'"
    db.sql(f"CREATE TABLE t (PRIMARY KEY (id)) USING iceberg OPTIONS ({kept})")
    assert writer.uri not in db.sql("DESCRIBE t").note and "SHOP_URI" in db.sql("DESCRIBE t").note


def test_a_table_that_was_made_anew_is_not_read_on(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t")
    db.sql(declared(writer))
    writer.append([ROW])
    catch_up(db)
    writer.make_anew()
    writer.append([ROW])
    with pytest.raises(LogLost, match="not the one that was read before"):
        catch_up(db)
    opened = opened_table(db)
    with pytest.raises(LogLost, match="as if it had been dropped and made anew"):
        opened.read(PartRange(opened.table.id, "0", 0, 1, "f" * 32))


def test_a_catalog_that_is_away_holds_up_its_table_alone_and_may_come_back(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t")
    db.sql(declared(writer))
    catch_up(db)
    writer.append([ROW])
    writer.folder.rename(tmp_path / "away")
    db.table("here").put({"id": 3, "name": "three"})
    opened = opened_table(db)
    for call in (opened.ends, opened.start, lambda: opened.read(PartRange(opened.table.id, "0", 0, 1, ""))):
        with pytest.raises(StoreAway, match="shop.t cannot be read") as raised:
            call()
        assert told_of(str(raised.value)) == opened.table.id, "so that it is known which table is held up"
    assert opened.estimate(0, 7) == 7
    (tmp_path / "away").rename(writer.folder)
    catch_up(db)
    require_right(db, writer)


def test_columns_that_no_table_names_come_and_go_and_partitions_change(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t", {"g": "identity"})
    writer.append([ROW])
    db.sql(declared(writer))
    catch_up(db)
    with writer.table.update_schema() as schema:
        schema.add_column("extra", StringType())
    with writer.table.update_spec() as spec:
        spec.remove_field("g")
        spec.add_identity("extra")
    writer.table.append(pa.table({"id": pa.array([2]), "g": pa.array([2], pa.int32()), "extra": ["e"]}))
    writer.rows[2] = {"id": 2, "g": 2, "a": None, "note": None}
    catch_up(db)
    require_right(db, writer)
    with writer.table.update_spec() as spec:
        spec.remove_field("extra")
    with writer.table.update_schema() as schema:
        schema.delete_column("extra")
    writer.delete_rows([1])
    writer.append([{**ROW, "id": 3}])
    catch_up(db)
    require_right(db, writer)


def test_a_column_that_is_another_one_under_the_name_of_the_first_stops_the_table(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t")
    writer.append([ROW])
    db.sql(declared(writer, "CREATE VIEW v AS SELECT id, note FROM t"))
    catch_up(db)
    with writer.table.update_schema() as schema:
        schema.rename_column("a", "amount")
    with pytest.raises(Error, match="it has no column a; it has id, g, amount, note: ALTER TABLE t DROP COLUMN"):
        catch_up(db)
    with writer.table.update_schema() as schema:
        schema.add_column("a", LongType())
    with pytest.raises(Error, match="its column a is another one than it was, as if that had been renamed"):
        catch_up(db)
    writer.table.append(pa.table({"id": pa.array([2]), "amount": pa.array([5]), "a": pa.array([6])}))
    opened = opened_table(db)
    with pytest.raises(Error, match="its column a is another one than it was"):
        opened.read(PartRange(opened.table.id, "0", 1, 2, ""))
    db.sql("ALTER TABLE t DROP COLUMN a")
    catch_up(db)
    assert {row["id"] for row in db.view("v").rows()} == {1, 2}
    assert problems(db, "v") == []


@pytest.mark.parametrize("retyped", [False, True])
def test_a_column_that_is_dropped_or_retyped_stops_the_table_until_it_is_dropped_here_too(
    db: Database, tmp_path: Path, retyped: bool
) -> None:
    writer = IcebergWriter(tmp_path / "t")
    writer.append([ROW])
    db.sql(declared(writer, "CREATE VIEW v AS SELECT id, note FROM t"))
    catch_up(db)
    with writer.table.update_schema() as schema:
        if retyped:
            schema.update_column("g", LongType())
        else:
            schema.delete_column("g")
    writer.table.append(pa.table({"id": pa.array([7]), "note": ["y"]}))
    with pytest.raises(Error, match="type BIGINT, and declared is INT" if retyped else "it has no column g; it has id"):
        catch_up(db)
    assert [row["id"] for row in db.view("v").rows()] == [1]
    db.sql("ALTER TABLE t DROP COLUMN g")
    catch_up(db)
    assert {row["id"] for row in db.view("v").rows()} == {1, 7}
    assert problems(db, "v") == []


def test_rows_that_are_no_rows_are_rejected_once_and_their_neighbours_are_kept(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t")
    columns = "(id BIGINT, g INT NOT NULL, note VARCHAR(3), PRIMARY KEY (id))"
    db.sql(declared(writer, "CREATE VIEW v AS SELECT id FROM t", columns))
    catch_up(db)
    good = {"id": 1, "g": 1, "a": 2, "note": "abc"}
    writer.append([good, {**good, "id": None}, {**good, "id": 3, "g": None}, {**good, "id": 4, "note": "long"},
                   {**good, "id": 5}, {**good, "id": 5}, {**good, "id": 6}])  # fmt: skip
    writer.delete(6)  # which writes the others anew
    catch_up(db)
    assert [row["id"] for row in db.sql("SELECT id FROM t ORDER BY id")] == [1, 5]
    assert sorted(row["reason"] for row in db.rejected("t")) == [
        "NULL in column g, which is NOT NULL", "NULL in column id, which is in the key",
        "column note: 'long' has 4 characters, more than VARCHAR(3)",
        "its key stands in two rows of the snapshot with the sequence number 1",
    ]  # fmt: skip
    writer.delete(5)
    catch_up(db)
    (report,) = reports(db, "v")
    assert report.verdict == "right" and {said.partition("}: ")[2] for said in report.left_out} >= {
        "NULL in column g, which is NOT NULL", "NULL in column id, which is in the key",
        "column note: 'long' has 4 characters, more than VARCHAR(3)",
    }  # fmt: skip


def test_nothing_is_written_through_viewkeeper(db: Database, tmp_path: Path) -> None:
    db.sql(declared(IcebergWriter(tmp_path / "t"), ""))
    with pytest.raises(InputError, match="rows of it are written in the store itself"):
        db.table("t").put({"id": 1})
    with pytest.raises(InputError, match="no look-up by key"):
        db.table("t").get(1)


@pytest.mark.spark
def test_views_over_a_table_are_kept_by_spark(
    spark: SparkSession, db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewkeeper.pipeline.batches.CHAINED_MAX", 0)
    chance, writer = random.Random(4), IcebergWriter(tmp_path / "t")
    writer.change(chance, 4)
    db.sql(declared(writer))
    with db.maintain(servers=2):
        for _ in range(2):
            writer.change(chance, 4)
            db.catch_up(timeout=60)
            require_right(db, writer)
    assert [report.problem for report in db.check_all()] == ["", ""]
