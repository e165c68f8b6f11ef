"""What becomes of snapshots of Iceberg tables: expiry, rollbacks, branches, compaction; where batches end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from iceberg_views import ROW, declared, opened_table, problems, reports, require_right, with_names
from iceberg_writer import SCHEMA, IcebergWriter
from local_maintenance import catch_up
from viewkeeper.catalog.operation_kinds import DELETE
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, Error, LogLost
from viewkeeper.pipeline import adopting
from viewkeeper.stores.outside.contract import PartRange
from viewkeeper.trace import points

SUPPORT = Path(__file__).parent.parent / "support"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with with_names(tmp_path / "db") as database:
        yield database


def test_rows_that_are_only_added_need_no_key(db: Database, tmp_path: Path) -> None:
    """Whoever puts them into other files, whether it says so or not, changes nothing."""
    writer = IcebergWriter(tmp_path / "t")
    writer.table.append(pa.Table.from_pylist([ROW, ROW], SCHEMA))
    writer.compact()
    db.sql(declared(writer, "CREATE VIEW n AS SELECT id, count(*) AS n FROM t GROUP BY id", ""))
    catch_up(db)
    writer.table.append(pa.Table.from_pylist([ROW, {**ROW, "id": 2}], SCHEMA))
    writer.compact(said=False)
    writer.table.append(pa.Table.from_pylist([ROW], SCHEMA))
    catch_up(db)
    assert {tuple(row.values()) for row in db.view("n").rows()} == {(1, 4), (2, 1)}
    assert problems(db, "n") == []
    writer.delete(1)
    with pytest.raises(LogLost, match="sequence number 6 deletes or changes rows, and the table has no PRIMARY KEY"):
        catch_up(db)
    with pytest.raises(DeclarationError, match="a table without PRIMARY KEY is for rows that are only added"):
        db.sql(declared(writer, "", "").replace("TABLE t", "TABLE t2"))


def test_a_table_without_a_key_is_read_from_the_oldest_snapshot_that_is_known(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t")
    for id_ in range(4):
        writer.append([{**ROW, "id": id_}])
    writer.delete(3)
    writer.append([{**ROW, "id": 5}])
    writer.expire(writer.snapshots[:-1])
    db.sql(declared(writer, "CREATE VIEW n AS SELECT id FROM t", ""))
    writer.append([{**ROW, "id": 6}])
    catch_up(db)
    assert sorted(row["id"] for row in db.view("n").rows()) == [0, 1, 2, 5, 6]
    assert problems(db, "n") == []


def test_a_compaction_is_not_read(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t")
    writer.append([ROW])
    db.sql(declared(writer))
    catch_up(db)
    opened = opened_table(db)
    writer.compact()
    assert opened.estimate(1, 2) == 1
    assert opened.read(PartRange(opened.table.id, "0", 1, 2, "")).operations == []
    writer.compact(said=False)
    assert opened.read(PartRange(opened.table.id, "0", 2, 3, "")).operations == [], "the same rows cancel"
    for file in (writer.folder / "shop" / "t" / "data").iterdir():
        file.unlink()
    assert opened.read(PartRange(opened.table.id, "0", 1, 2, "")).operations == []


def test_what_a_copy_on_write_leaves_as_it_is_is_no_operation(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t")
    writer.append([{**ROW, "id": id_} for id_ in range(100)])
    db.sql(declared(writer))
    catch_up(db)
    writer.delete(7)
    opened = opened_table(db)
    ((operations, _, _),) = opened.read(PartRange(opened.table.id, "0", 1, 2, "")).operations
    assert operations.kind == DELETE and operations.columns[0].to_pylist() == [7]


def test_snapshots_that_expire_on_the_way_are_not_needed(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t")
    chance = random.Random(5)
    writer.change(chance, 3)
    db.sql(declared(writer))
    catch_up(db)
    known = len(writer.snapshots)
    writer.change(chance, 8)
    writer.expire([*writer.snapshots[: known - 1], *writer.snapshots[known:-1]])
    catch_up(db)
    require_right(db, writer)


def test_a_snapshot_that_expired_before_what_followed_was_read_stops_the_table_alone(
    db: Database, tmp_path: Path
) -> None:
    writer = IcebergWriter(tmp_path / "t")
    writer.append([ROW])
    db.sql(declared(writer))
    catch_up(db)
    writer.merge([{**ROW, "g": 2}])
    writer.expire(writer.snapshots[:-1])
    db.table("here").put({"id": 3, "name": "three"})
    with pytest.raises(LogLost, match="the snapshot with the sequence number 1 is gone from shop.t, .* drop the table"):
        catch_up(db)
    assert len(list(db.sql("SELECT name FROM here"))) == 3
    assert [row["g"] for row in db.sql("SELECT g FROM t")] == [1]


def test_files_that_are_gone_before_they_were_read_stop_the_table(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t")
    writer.append([ROW])
    db.sql(declared(writer))
    catch_up(db)
    writer.overwrite([{**ROW, "id": 2}])
    for file in (writer.folder / "shop" / "t" / "data").iterdir():
        file.unlink()
    with pytest.raises(LogLost, match=r"parquet.* is gone from shop.t, as expire_snapshots or remove_orphan_files"):
        catch_up(db)


def test_a_rollback_holds_the_table_up_until_the_next_snapshot(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t")
    writer.append([ROW])
    (before,), rows = writer.snapshots, dict(writer.rows)
    db.sql(declared(writer))
    writer.merge([{**ROW, "g": 2}, {**ROW, "id": 2}])
    catch_up(db)
    writer.roll_back(before, rows)
    with pytest.raises(Error, match="rolled back to an older snapshot, which its views will follow when the next one"):
        catch_up(db)
    (report,) = reports(db, "groups")
    assert report.verdict == "not judged" and "rolled back to an older snapshot" in report.unjudged[0]
    writer.append([{**ROW, "id": 3}])
    catch_up(db)
    require_right(db, writer)


def test_a_rollback_while_the_table_is_adopted_leaves_nothing_behind(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are those of the snapshot behind which snapshots are followed, whatever has come meanwhile."""
    monkeypatch.setattr(adopting, "ROWS_AT_ONCE", 1)
    writer = IcebergWriter(tmp_path / "t")
    writer.append([ROW])
    (before,), rows = writer.snapshots, dict(writer.rows)
    db.sql(declared(writer))
    table = opened_table(db)
    begun = table.start().positions
    writer.append([{**ROW, "id": 2}])
    found = [operations.columns[0].to_pylist() for each in table.scan(begun) for operations, _ in each.all_rows()]
    assert found == [[1]]
    writer.roll_back(before, rows)
    writer.append([{**ROW, "id": 3}])
    catch_up(db)
    require_right(db, writer)


def test_other_branches_are_not_followed_until_they_are_the_main_one(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t")
    writer.append([ROW])
    db.sql(declared(writer))
    (first,) = writer.snapshots
    writer.table.manage_snapshots().create_branch(first, "audit").commit()
    later = [{**ROW, "id": 2}, {**ROW, "id": 3}]
    writer.table.append(pa.Table.from_pylist(later[:1], SCHEMA), branch="audit")
    catch_up(db)
    require_right(db, writer)
    writer.append([{**ROW, "id": 9}])
    catch_up(db)
    require_right(db, writer)
    writer.table.append(pa.Table.from_pylist(later[1:], SCHEMA), branch="audit")
    writer.table.manage_snapshots().set_current_snapshot(ref_name="audit").commit()
    writer.rows = {row["id"]: row for row in [ROW, *later]}
    catch_up(db)
    require_right(db, writer)


def test_deletes_by_value_stop_the_table(db: Database, tmp_path: Path) -> None:
    writer = IcebergWriter(tmp_path / "t")
    writer.append([ROW])
    db.sql(declared(writer))
    catch_up(db)
    writer.delete_by_value(1)
    with pytest.raises(LogLost, match="has equality deletes, which is not supported: rewrite its data files"):
        catch_up(db)
    for columns in ("", "(PRIMARY KEY (id))"):
        with pytest.raises(DeclarationError, match="has equality deletes, which is not supported: rewrite"):
            db.sql(declared(writer, "", columns).replace("TABLE t", "TABLE t2"))


def test_batches_are_cut_where_a_commit_was_whole(db: Database, tmp_path: Path) -> None:
    """A transaction may be several snapshots."""
    writer = IcebergWriter(tmp_path / "t")
    db.sql(declared(writer, ""))
    catch_up(db)
    rows = [{**ROW, "id": id_} for id_ in range(10)]
    writer.append(rows)
    for _ in range(3):
        writer.merge(rows)
    opened = opened_table(db)
    assert opened.ends().positions == {"0": 7}, "four commits, three of them of two snapshots"
    assert [opened.estimate(0, 7), opened.estimate(0, 3)] == [70, 30]
    assert [opened.partway("0", 0, 7, wanted) for wanted in (1, 10, 15, 25, 45, 69)] == [1, 1, 3, 3, 5, 7]
    assert opened.partway("0", 3, 7, 1) == 5
    for file in (writer.folder / "shop" / "t" / "metadata").glob("*.metadata.json"):
        if str(file) not in writer.table.metadata_location:
            file.unlink()
    assert opened.partway("0", 0, 7, 1) == 7, "where nobody knows any more what was whole, at the end"


@pytest.mark.faults
@pytest.mark.parametrize("point", ["log read", "after commit"])
def test_drivers_that_are_killed_while_they_adopt_and_follow_lose_and_double_nothing(
    db: Database, tmp_path: Path, point: str
) -> None:
    """The table is written between them."""
    chance, faults = random.Random(point), tmp_path / "faults"
    faults.mkdir()
    writer = IcebergWriter(tmp_path / "t")
    writer.append([{**ROW, "id": id_} for id_ in range(40)])
    db.sql(declared(writer))
    paths = os.pathsep.join([str(SUPPORT), *sys.path])
    environment = {**os.environ, "VIEWKEEPER_FAULTS": str(faults), "PYTHONPATH": paths}
    killed = 0
    for count in (3, 1):
        writer.change(chance, 2, keys=40)
        db.table("here").put({"id": 2, "name": "two"})
        points.arm(faults, point, count)
        ended = subprocess.run([sys.executable, SUPPORT / "catching_up.py", tmp_path / "db"], env=environment)
        killed += ended.returncode == -signal.SIGKILL
    assert killed
    catch_up(db)
    require_right(db, writer)
