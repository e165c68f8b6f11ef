"""Tables over Delta tables, which `deltalake` writes."""

from __future__ import annotations

import datetime
import json
import math
import random
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import viewkeeper
from delta_writer import FEED, DeltaWriter
from local_maintenance import catch_up, with_servers
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import BIGINT, array_of
from viewkeeper.checker.check import check_views
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, Error, InputError, LogLost, NotSupported
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.pipeline import adopting
from viewkeeper.stores.logs import Logs
from viewkeeper.stores.outside.contract import PartRange
from viewkeeper.stores.outside.delta.lake_table import DeltaLakeTable
from viewkeeper.stores.outside.delta.schema import Metadata
from viewkeeper.stores.outside.lakes.lake_columns import misfit
from viewkeeper.stores.outside.said import told_of

VIEWS = """
CREATE VIEW groups AS SELECT g, count(*) AS n, sum(a) AS total, min(note) AS least FROM t GROUP BY g;
CREATE VIEW both AS SELECT t.id, here.name FROM t JOIN here ON t.g = here.id
"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql("CREATE TABLE here (id INT, name STRING, PRIMARY KEY (id))")
        database.table("here").put_many([{"id": 1, "name": "one"}, {"id": 2, "name": "two"}])
        yield database


def declared(writer: DeltaWriter, more: str = VIEWS, columns: str = "(PRIMARY KEY (id))") -> str:
    return f"CREATE TABLE t {columns} USING delta OPTIONS (path '{writer.path}'); {more}"


def require_right(db: Database, writer: DeltaWriter) -> None:
    rows = list(writer.rows.values())
    assert Counter(tuple(row.values()) for row in db.sql("SELECT id, g, a, note FROM t")) == Counter(
        tuple(row.values()) for row in rows
    )
    assert {(row["g"], row["n"]) for row in db.view("groups").rows()} == set(Counter(r["g"] for r in rows).items())
    names = {1: "one", 2: "two"}
    both = Counter((row["id"], names[row["g"]]) for row in rows if row["g"] in names)
    assert Counter(tuple(row.values()) for row in db.view("both").rows()) == both
    with db._newest.held() as version:
        reports = check_views(DatabaseEvidence(version, db._logs), ["groups", "both"], None)
    assert [report.problem for report in reports if report.problem] == []


@pytest.mark.parametrize(("partitioned_by", "servers"), [(None, 1), (["g"], 3), (["note", "g"], 1)])
@pytest.mark.parametrize("seed", range(2))
def test_views_hold_what_the_table_does_after_each_batch(
    db: Database, tmp_path: Path, partitioned_by: list[str] | None, servers: int, seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Adopted while it is written, and followed then: merges, deletes, updates, keys that change, whole overwrites,
    compaction."""
    with_servers(monkeypatch, servers)
    monkeypatch.setattr(adopting, "ROWS_AT_ONCE", 2)
    chance = random.Random(seed)
    writer = DeltaWriter(tmp_path / "t", partitioned_by)
    writer.change(chance, 15)
    db.sql(declared(writer))
    writer.change(chance, 5)
    catch_up(db)
    require_right(db, writer)
    for _ in range(4):
        writer.change(chance, 6)
        db.table("here").put({"id": 2, "name": "two"})
        catch_up(db)
        require_right(db, writer)


def test_columns_that_are_left_out_are_those_of_the_table(db: Database, tmp_path: Path) -> None:
    writer = DeltaWriter(tmp_path / "t")
    for columns in ("", "(PRIMARY KEY (ID))", "(\n CONSTRAINT c PRIMARY KEY (Id)\n)"):
        db.sql(f"{declared(writer, '', columns)} CREATE VIEW v AS SELECT g FROM t")
        shown = [tuple(row.values())[:2] for row in db.sql("DESCRIBE t")]
        assert shown == [("id", "bigint"), ("g", "int"), ("a", "bigint"), ("note", "string")]
        assert db.catalog.tables[-1].key == ((0,) if columns else ())
        db.sql("DROP TABLE t CASCADE")
    db.sql(declared(writer, "").replace("TABLE t", "TABLE IF NOT EXISTS t"))
    db.sql(declared(writer, "").replace("TABLE t", "TABLE IF NOT EXISTS t"))
    assert "primary key (id); in delta (path" in db.sql("DESCRIBE t").note
    with pytest.raises(DeclarationError, match=r"has no column nosuch.*\(line 1, column 31\)"):
        db.sql(declared(writer, "", "(PRIMARY KEY (nosuch))").replace("TABLE t", "TABLE t2"))
    with pytest.raises(DeclarationError, match="has no schema of its own"):
        db.sql("CREATE TABLE k USING kafka OPTIONS (bootstrap_servers 'a:1', topic 'b', format 'json-append')")
    with pytest.raises(DeclarationError, match="a table needs columns"):
        db.sql("CREATE TABLE k (PRIMARY KEY (id))")


def test_values_of_every_type_come_through_the_rows_and_the_log(db: Database, tmp_path: Path) -> None:
    """Also as columns of partitions, under names in any case and with any sign."""
    utc, first, last = datetime.UTC, datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "Id": (pa.int64(), [1, 2, 3]), "a b": (pa.string(), ["x'\"", None, ""]), "a.b": (pa.int8(), [-128, None, 127]),
        "Order": (pa.int16(), [1, None, 2]), "big": (pa.decimal128(38, 2), [Decimal("-1.20"), None, Decimal(10) ** 35]),
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
        "pb": (pa.bool_(), [True, None, False]), "p s": (pa.string(), ["a/b %=ü", None, "c"]),
    }  # fmt: skip
    given = pa.table([pa.array(values, type_) for type_, values in columns.values()], list(columns))
    path = str(tmp_path / "t")
    write_deltalake(path, given.slice(0, 2), partition_by=["pd", "pn", "pt", "pb", "p s"], configuration=FEED)
    db.sql(f"CREATE TABLE t (PRIMARY KEY (id)) USING delta OPTIONS (path '{path}'); CREATE VIEW v AS SELECT * FROM t")
    catch_up(db)
    write_deltalake(path, given.slice(2), mode="append")
    table = DeltaTable(path)
    source = pa.table({"id": pa.array([1, 2], pa.int64())})
    (table.merge(source, "t.`Id` = s.id", source_alias="s", target_alias="t")
        .when_matched_update({"f": "cast(7 as float)"}).execute())  # fmt: skip
    table = DeltaTable(path)
    catch_up(db)
    wanted = [{**row, "f": 7.0 if row["Id"] < 3 else -0.0} for row in given.to_pylist()]
    found = {row["Id"]: row for row in db.view("v").rows()}
    assert [_with_dict(found[row["Id"]], "m") for row in wanted] == [_with_dict(row, "m") for row in wanted]
    with db._newest.held() as version:
        assert [report.problem for report in check_views(DatabaseEvidence(version, db._logs), ["v"], None)] == [""]


def _with_dict(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {**row, name: None if row[name] is None else dict(row[name])}


def test_times_as_spark_wrote_them_once_are_read(db: Database, tmp_path: Path) -> None:
    """INT96, which Parquet calls a time without a zone."""
    writer = tmp_path / "t"
    at = [datetime.datetime(1600, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC)]
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "at": pa.array(at, pa.timestamp("us", "UTC"))})
    write_deltalake(str(writer), rows.slice(0, 0), configuration=FEED)
    with viewkeeper.connect(tmp_path / "berlin", zone="Europe/Berlin", durability="process") as other:
        other.sql(f"CREATE TABLE t (PRIMARY KEY (id)) USING delta OPTIONS (path '{writer}')")
        catch_up(other)
        write_deltalake(str(writer), rows, mode="append")
        (file,) = (f for f in writer.glob("*.parquet"))
        pq.write_table(rows, file, use_deprecated_int96_timestamps=True)
        catch_up(other)
        assert [row["at"] for row in other.sql("SELECT id, at FROM t ORDER BY id")] == at


@pytest.mark.parametrize(("configuration", "columns", "message"), [
    ({}, "", "its change data feed is off; switch it on: ALTER TABLE delta.`.*t` SET TBLPROPERTIES"),
    (FEED, "(id INT, PRIMARY KEY (id))", "its column id is of type BIGINT, and declared is INT"),
    (FEED, "(id BIGINT, price INT, PRIMARY KEY (id))", "it has no column price; it has id, g, a, note"),
    (FEED, "(g INT, PRIMARY KEY (g))", "the key g = 1 stands in 2 rows"),
    (FEED, "(a BIGINT, PRIMARY KEY (a))", "begins with {'a': None}: NULL in column a, which is in the key"),
    (FEED, "(id BIGINT NOT NULL DEFAULT 1)", "DEFAULT"),
    ({**FEED, "delta.enableDeletionVectors": "true"}, "(PRIMARY KEY (id))", "it has deletion vectors"),
])  # fmt: skip
def test_what_cannot_be_followed_is_refused_when_it_is_declared(
    db: Database, tmp_path: Path, configuration: dict[str, str], columns: str, message: str
) -> None:
    writer = DeltaWriter(tmp_path / "t", configuration=configuration)
    writer.append([{"id": 1, "g": 1, "a": None, "note": "x"}, {"id": 2, "g": 1, "a": 3, "note": "x"}])
    with pytest.raises(DeclarationError, match=message):
        db.sql(declared(writer, "", columns))
    assert db.catalog.find("t") is None


def test_options_that_say_too_little_or_too_much_are_refused(db: Database, tmp_path: Path) -> None:
    for options, message in {
        "path 'some/where'": "say the whole path",
        "path '/nosuch/where'": "there is no Delta table at /nosuch/where",
        "pth '/x'": "did you mean path",
        "path 's3://b/t', storage.aws_secret_access_key 'x'": "a secret is not kept",
        "path 'az://b/t', storage.azure_storage_account_key 'x'": "a secret is not kept",
        "path 's3://b/t', storage.aws_secret_access_key_env 'NOSUCH_'": "no such environment variable",
    }.items():
        with pytest.raises(DeclarationError, match=message):
            db.sql(f"CREATE TABLE t (id BIGINT, PRIMARY KEY (id)) USING delta OPTIONS ({options})")


def test_a_type_that_no_column_can_have_is_refused_by_name() -> None:
    fields = [{"name": "id", "type": "long", "nullable": False}, {"name": "v", "nullable": True, "type": {
        "type": "array", "elementType": "variant", "containsNull": True}}]  # fmt: skip
    found = Metadata.made("x", json.dumps({"type": "struct", "fields": fields}), [], {})
    with pytest.raises(NotSupported, match="the column v is of Delta's type variant, which no column here can have"):
        found.as_columns()
    assert misfit(found.held(), [Column("ID", BIGINT, False)]) is None
    assert "its column v is of type" in (misfit(found.held(), [Column("v", array_of(BIGINT), True)]) or "")


def test_rows_that_are_only_added_need_no_key(db: Database, tmp_path: Path) -> None:
    writer = DeltaWriter(tmp_path / "t")
    same = {"id": 1, "g": 1, "a": 2, "note": None}
    writer.append([same, same])
    db.sql(declared(writer, "CREATE VIEW n AS SELECT id, count(*) AS n FROM t GROUP BY id", ""))
    catch_up(db)
    writer.append([same, {**same, "id": 2}])
    writer.append([same])
    writer.table.optimize.compact()
    catch_up(db)
    assert {tuple(row.values()) for row in db.view("n").rows()} == {(1, 4), (2, 1)}
    with db._newest.held() as version:
        assert [report.problem for report in check_views(DatabaseEvidence(version, db._logs), ["n"], None)] == [""]
    writer.delete(1)
    with pytest.raises(LogLost, match="version 5 deletes or changes rows, and the table has no PRIMARY KEY"):
        catch_up(db)
    late = DeltaWriter(tmp_path / "late", configuration={})
    late.table.alter.set_table_properties(FEED)
    with pytest.raises(DeclarationError, match="first version, which was made without the change data feed"):
        db.sql(declared(late, "", "").replace("TABLE t", "TABLE t2"))


def test_commits_are_read_in_their_order_whatever_their_writers_clocks_say(db: Database, tmp_path: Path) -> None:
    writer = DeltaWriter(tmp_path / "t")
    db.sql(declared(writer))
    catch_up(db)
    for g in (1, 2, 1, None):
        writer.merge([{"id": 1, "g": g, "a": 2, "note": "x"}])
    for version in range(1, 5):
        commit = writer.path / "_delta_log" / f"{version:020}.json"
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        for line in lines:
            if "commitInfo" in line:
                line["commitInfo"]["timestamp"] -= 1_000_000 * version
        commit.write_text("\n".join(map(json.dumps, lines)))
    catch_up(db)
    require_right(db, writer)


def test_a_feed_that_was_switched_on_later_is_followed_from_then_on(db: Database, tmp_path: Path) -> None:
    writer = DeltaWriter(tmp_path / "t", configuration={})
    writer.change(random.Random(1), 8)
    writer.table.alter.set_table_properties(FEED)
    db.sql(declared(writer))
    writer.change(random.Random(2), 8)
    catch_up(db)
    require_right(db, writer)


def test_files_that_are_gone_before_they_were_read_stop_the_table_alone(db: Database, tmp_path: Path) -> None:
    writer = DeltaWriter(tmp_path / "t")
    writer.append([{"id": 1, "g": 1, "a": 2, "note": "x"}])
    db.sql(declared(writer))
    catch_up(db)
    writer.merge([{"id": 1, "g": 2, "a": 2, "note": "x"}])
    for file in (writer.path / "_change_data").iterdir():
        file.unlink()
    db.table("here").put({"id": 3, "name": "three"})
    with pytest.raises(LogLost, match="_change_data/.* is gone from .*, as VACUUM .* drop the table"):
        catch_up(db)
    assert len(list(db.sql("SELECT name FROM here"))) == 3
    assert [row["g"] for row in db.sql("SELECT g FROM t")] == [1]


def test_rows_that_vacuum_removed_before_they_were_read_stop_the_table(db: Database, tmp_path: Path) -> None:
    """What an overwrite deleted stands in the files that it removed."""
    writer = DeltaWriter(tmp_path / "t")
    writer.append([{"id": 1, "g": 1, "a": 2, "note": "x"}])
    db.sql(declared(writer))
    catch_up(db)
    writer.overwrite([{"id": 2, "g": 1, "a": 2, "note": "x"}])
    assert writer.table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(LogLost, match="part-.* is gone from .*, as VACUUM"):
        catch_up(db)


def test_a_table_that_is_gone_holds_up_itself_alone_and_may_come_back(db: Database, tmp_path: Path) -> None:
    writer = DeltaWriter(tmp_path / "t")
    db.sql(declared(writer))
    catch_up(db)
    writer.append([{"id": 1, "g": 1, "a": 2, "note": "x"}])
    writer.path.rename(tmp_path / "away")
    db.table("here").put({"id": 3, "name": "three"})
    with pytest.raises(Error, match="there is no Delta table at"):
        catch_up(db)
    (table,) = (table for table in db.catalog.tables if table.name == "t")
    opened = DeltaLakeTable(table, "UTC")
    assert opened.estimate(0, 7) == 7
    for call in (opened.ends, opened.start, lambda: opened.read(PartRange(table.id, "0", 0, 1, ""))):
        with pytest.raises(Error) as raised:
            call()
        assert told_of(str(raised.value)) == table.id, "so that it is known which table is held up"
    (tmp_path / "away").rename(writer.path)
    catch_up(db)
    require_right(db, writer)


def test_commits_that_are_cleaned_up_before_they_were_read_stop_the_table(db: Database, tmp_path: Path) -> None:
    writer = DeltaWriter(tmp_path / "t")
    db.sql(declared(writer))
    catch_up(db)
    writer.change(random.Random(1), 5)
    writer.table.create_checkpoint()
    for version in range(3):
        (writer.path / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(LogLost, match=r"_delta_log/0+1.json is gone from"):
        catch_up(db)


def test_a_table_that_was_made_anew_is_not_read_on(db: Database, tmp_path: Path) -> None:
    writer = DeltaWriter(tmp_path / "t")
    db.sql(declared(writer))
    writer.change(random.Random(1), 4)
    catch_up(db)
    writer.make_anew()
    writer.change(random.Random(2), 8)
    with pytest.raises(LogLost, match="not the one that was read before"):
        catch_up(db)


def test_columns_that_no_table_names_come_and_go(db: Database, tmp_path: Path) -> None:
    writer = DeltaWriter(tmp_path / "t")
    writer.append([{"id": 1, "g": 1, "a": 2, "note": "x"}])
    db.sql(declared(writer))
    catch_up(db)
    more = pa.table({"id": pa.array([2], pa.int64()), "g": pa.array([2], pa.int32()), "extra": ["e"]})
    write_deltalake(str(writer.path), more, mode="append", schema_mode="merge")
    writer.rows[2] = {"id": 2, "g": 2, "a": None, "note": None}
    writer.add_to(1, 3)
    catch_up(db)
    require_right(db, writer)


@pytest.mark.parametrize(("column", "message"), [
    (None, "in version 2 it has no column a; it has id, g, note: ALTER TABLE t DROP COLUMN"),
    (["text"], "its column a is of type STRING, and declared is BIGINT"),
])  # fmt: skip
def test_a_column_that_is_dropped_or_retyped_stops_the_table_until_it_is_dropped_here_too(
    db: Database, tmp_path: Path, column: list[str] | None, message: str
) -> None:
    writer = DeltaWriter(tmp_path / "t")
    writer.append([{"id": 1, "g": 1, "a": 2, "note": "x"}])
    db.sql(declared(writer, "CREATE VIEW v AS SELECT id, note FROM t"))
    catch_up(db)
    left = pa.table({"id": pa.array([7], pa.int64()), "g": pa.array([1], pa.int32()), "note": ["y"]})
    if column is not None:
        left = left.append_column("a", pa.array(column))
    write_deltalake(str(writer.path), left, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(Error, match=message):
        catch_up(db)
    assert [row["id"] for row in db.view("v").rows()] == [1]
    db.sql("ALTER TABLE t DROP COLUMN a")
    catch_up(db)
    assert [row["id"] for row in db.view("v").rows()] == [7]
    with db._newest.held() as version:
        assert [report.problem for report in check_views(DatabaseEvidence(version, db._logs), ["v"], None)] == [""]


def test_rows_that_are_no_rows_are_rejected_and_their_neighbours_are_kept(db: Database, tmp_path: Path) -> None:
    writer = DeltaWriter(tmp_path / "t")
    columns = "(id BIGINT, g INT NOT NULL, note VARCHAR(3), PRIMARY KEY (id))"
    db.sql(declared(writer, "CREATE VIEW v AS SELECT id FROM t", columns))
    catch_up(db)
    good = {"id": 1, "g": 1, "a": 2, "note": "abc"}
    writer.append([good, {**good, "id": None}, {**good, "id": 3, "g": None}, {**good, "id": 4, "note": "long"},
                   {**good, "id": 5}, {**good, "id": 5}])  # fmt: skip
    writer.delete(3)
    catch_up(db)
    assert [row["id"] for row in db.sql("SELECT id FROM t ORDER BY id")] == [1, 5]
    assert sorted(row["reason"] for row in db.rejected("t")) == [
        "NULL in column g, which is NOT NULL", "NULL in column id, which is in the key",
        "column note: 'long' has 4 characters, more than VARCHAR(3)", "its key stands in two rows of version 1",
    ]  # fmt: skip
    writer.delete(5)
    catch_up(db)
    with db._newest.held() as version:
        (report,) = check_views(DatabaseEvidence(version, db._logs), ["v"], None)
    assert report.verdict == "right" and {said.partition("}: ")[2] for said in report.left_out} >= {
        "NULL in column id, which is in the key", "column note: 'long' has 4 characters, more than VARCHAR(3)",
    }  # fmt: skip


def test_nothing_is_written_through_viewkeeper(db: Database, tmp_path: Path) -> None:
    db.sql(declared(DeltaWriter(tmp_path / "t"), ""))
    with pytest.raises(InputError, match="rows of it are written in the store itself"):
        db.table("t").put({"id": 1})
    with pytest.raises(InputError, match="no look-up by key"):
        db.table("t").get(1)


def test_batches_are_cut_by_what_commits_hold(db: Database, tmp_path: Path) -> None:
    writer = DeltaWriter(tmp_path / "t")
    db.sql(declared(writer, ""))
    catch_up(db)
    for start in range(0, 50, 10):
        writer.append([{"id": i, "g": 1, "a": 1, "note": "x"} for i in range(start, start + 10)])
    (table,) = (table for table in db.catalog.tables if table.name == "t")
    snapshot = db._newest.version().snapshot
    logs = Logs.of(db._store)
    while not (cut := logs.cut(db.catalog, 20, snapshot.positions, snapshot.hashes)).operations:
        time.sleep(0.05)
    assert (cut.positions[f"{table.id}/0"], cut.operations, cut.backlog) == (3, 20, True)
    logs.close()
