"""A database that is deleted and made anew, or replaced by an older copy, at the same path, while processes that have
used it live on: nothing that they remember is taken for what is there now."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import viewkeeper
from local_maintenance import catch_up
from pipeline_database import Shop
from viewkeeper.database import Database
from viewkeeper.errors import Error, Fenced, NotFound
from viewkeeper.pipeline import fills, maintain
from viewkeeper.pipeline.spark_executor import SparkExecutor
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.snapshot import Change

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECLARATIONS = """
CREATE TABLE t (id BIGINT, k STRING, x BIGINT, PRIMARY KEY (id));
CREATE VIEW v AS SELECT k, sum(x) AS s, max(x) AS most FROM t GROUP BY k;
CREATE VIEW j AS SELECT l.id, r.x FROM t l JOIN t r ON l.k = r.k;
CREATE INDEX i ON v (s);
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "db"


def put(db: Database, step: int, factor: int) -> None:
    db.table("t").put_many([{"id": 4 * step + i, "k": "a", "x": factor * (i + 1)} for i in range(4)])


def right(db: Database, steps: int, factor: int) -> bool:
    rows = [{"k": "a", "s": 10 * factor * steps, "most": 4 * factor}]
    by_index = db.view("v").get(10 * factor * steps, index="i")
    return list(db.view("v").scan()) == rows == by_index and db.view("j").to_arrow().num_rows == (4 * steps) ** 2


def make(place: Path, factor: int, steps: int = 3) -> Database:
    db = viewkeeper.connect(place)
    db.sql(DECLARATIONS)
    for step in range(steps):
        put(db, step, factor)
        catch_up(db)
    return db


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("fewer", [0, 1, 2])
def test_a_database_made_anew_at_the_same_path_is_right(place: Path, closed: bool, fewer: int) -> None:
    """Its manifests have the same numbers as those that tasks, readers and drivers of this process remember."""
    old = make(place, 1)
    assert right(old, 3, 1)
    if closed:
        old.close()
    shutil.rmtree(place)
    with make(place, 10, steps=3 - fewer) as new:
        assert right(new, 3 - fewer, 10)
        if not closed:
            old.close()
        put(new, 3 - fewer, 10)
        catch_up(new)
        assert right(new, 4 - fewer, 10)


@pytest.mark.spark
def test_workers_of_a_live_session_take_nothing_from_a_deleted_database(spark: SparkSession, place: Path) -> None:
    """Spark's Python workers outlive databases."""
    for factor in (1, 10):
        with viewkeeper.connect(place) as db:
            db.sql(DECLARATIONS)
            for step in range(3):
                put(db, step, factor)
                maintain.catch_up(local_storage(db.root), db._logs, lambda: SparkExecutor(spark, 2), timeout=100)
            assert right(db, 3, factor)
        shutil.rmtree(place)


def test_a_handle_of_a_database_that_was_made_anew_says_so(place: Path) -> None:
    """Neither does it read the other's rows, nor does it write into files that are deleted."""
    old = make(place, 1)
    table, view = old.table("t"), old.view("v")
    shutil.rmtree(place)
    with make(place, 10) as new:
        for use in (lambda: view.get("a"), lambda: old.sql("SELECT * FROM v"), lambda: old.snapshot(),
                    lambda: table.put({"id": 1, "k": "b", "x": 1}), lambda: table.get(1)):  # fmt: skip
            with pytest.raises(Error, match=r"made anew|another copy.*connect"):
                use()
        old.close()
        assert right(new, 3, 10)


def restored(place: Path, copy: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(copy, place)


@pytest.mark.parametrize("more", [1, 2, 3])
def test_an_older_copy_that_is_put_back_is_what_is_read_and_maintained(place: Path, more: int) -> None:
    """Other steps are made from it than those that were remembered, under the same numbers."""
    db = make(place, 1, steps=2)
    db.close()
    copy = place.with_name("copy")
    shutil.copytree(place, copy)
    with viewkeeper.connect(place) as db:
        reader = viewkeeper.connect(place)
        for step in range(2, 4):
            put(db, step, 1)
            catch_up(db)
        assert right(reader, 4, 1)
        view = reader.view("v")
    restored(place, copy)
    assert view.get("a") == {"k": "a", "s": 20, "most": 4}
    with viewkeeper.connect(place) as db:
        assert right(db, 2, 1)
        for step in range(more):
            db.table("t").put({"id": 1000 + step, "k": "b", "x": 7})
            catch_up(db)
            for each in (db.view("v"), view):
                assert each.get("a") == {"k": "a", "s": 20, "most": 4}
                assert each.get("b") == {"k": "b", "s": 7 * (step + 1), "most": 7}
        assert db.view("j").to_arrow().num_rows == 64 + more**2
    with pytest.raises(Error, match="another copy was put in its place"):
        reader.table("t").put({"id": 1, "k": "a", "x": 1})
    reader.close()


@pytest.mark.parametrize("anew", [True, False])
def test_a_driver_whose_database_is_replaced_stops_and_commits_nothing_into_it(tmp_path: Path, anew: bool) -> None:
    """Its next commit is refused, though the number that it would take is free."""
    shop = Shop(tmp_path / "db")
    shutil.copytree(shop.root, tmp_path / "copy")
    shop.write(1, 20)
    driver = shop.maintainer()
    shop.catch_up(driver)
    term = driver.term
    if anew:
        shutil.rmtree(shop.root)
        shutil.rmtree(tmp_path / "copy")
        Shop(tmp_path / "copy")
        shutil.copytree(tmp_path / "copy", shop.root)
    else:
        restored(shop.root, tmp_path / "copy")
    there = local_storage(shop.root).numbers()
    assert term.snapshot.number + 1 > there[-1]
    with pytest.raises(Fenced, match="made anew, or an older copy was put back"):
        term.commit(Change("merge", term.snapshot.version))
    with pytest.raises(Error, match="connect again"):
        driver.batches.step(term)
    driver._pool.shutdown()
    assert local_storage(shop.root).numbers() == there


def test_a_fill_does_not_go_on_in_another_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job names the manifest by its identity: a task that finds another one under the number fails."""
    shop = Shop(tmp_path / "db")
    shop.write(1, 60)
    shop.maintain_once()
    copy = tmp_path / "copy"
    shutil.copytree(shop.root, copy)
    shop.maintain_once()
    known = shop.snapshot
    restored(shop.root, copy)
    Shop(shop.root).maintain_once()
    now = local_storage(shop.root).newest()
    assert (now.number, now.database) == (known.number, known.database)
    assert now.identity != known.identity
    with pytest.raises(NotFound, match="another than the one that is asked for"):
        local_storage(shop.root).at(*known.ref)
    assert local_storage(shop.root).at(*now.ref).identity == now.identity
    assert fills.unfilled(now.catalog) == frozenset()


def test_appends_to_a_stream_of_a_replaced_database_are_refused(place: Path) -> None:
    """The stream's log is deleted: what is appended to it would be lost."""
    declared = "CREATE STREAM s (ts TIMESTAMP NOT NULL, x INT) TIMESTAMP BY ts PARTITION LENGTH 60"
    old = viewkeeper.connect(place)
    old.sql(declared)
    stream = old.stream("s")
    stream.append([{"ts": "2026-01-01 00:00:00", "x": 1}])
    shutil.rmtree(place)
    with viewkeeper.connect(place) as new:
        new.sql(declared)
        assert new.stream("s").append([{"ts": "2026-01-01 00:00:00", "x": 2}]).stored == 1
        with pytest.raises(Error, match="connect again"):
            stream.append([{"ts": "2026-01-01 00:00:00", "x": 3}])
        old.close()
        new.stream("s").append([{"ts": "2026-01-01 00:02:00", "x": 4}])
        catch_up(new)
        assert [row["x"] for row in new.stream("s").at("2026-01-01 00:00:00")] == [2]
