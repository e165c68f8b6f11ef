"""Small cases that made other systems wrong, over a whole database: indexes, restarts, tables that are made again, and
rows that come while something starts.  The rest over tables is in `tests/support/oracle/traps*.py`."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database
from viewkeeper.jobs.job import Job
from viewkeeper.pipeline import maintain
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.stores.logs import Logs
from viewkeeper.trace.local_disk import local_storage

T = "CREATE TABLE t (id BIGINT, a STRING, n BIGINT, PRIMARY KEY (id))"
PER_A = "CREATE VIEW per_a AS SELECT a, count(*) AS c, sum(n) AS s FROM t GROUP BY a"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql(T)
        yield database


def found(db: Database, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in db.view(name).rows())


def test_rows_that_come_while_the_pipeline_starts_count_once_g91(db: Database) -> None:
    """A writer goes on while the view is filled and caught up again and again."""
    db.sql(PER_A)

    def write() -> None:
        for first in range(0, 1_000, 50):
            db.table("t").put_many([{"id": id_, "a": "ab"[id_ % 2], "n": 1} for id_ in range(first, first + 50)])

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        catch_up(db)
    writer.join()
    catch_up(db)
    assert found(db, "per_a") == [("a", 500, 500), ("b", 500, 500)]


def test_a_table_made_again_has_its_new_rows_only_n183(db: Database) -> None:
    db.sql(PER_A)
    db.table("t").put_many([{"id": 1, "a": "old", "n": 1}, {"id": 2, "a": "old", "n": 2}])
    catch_up(db)
    db.sql(f"DROP TABLE t CASCADE; {T}; {PER_A}")
    catch_up(db)
    assert found(db, "per_a") == []
    db.table("t").put({"id": 1, "a": "new", "n": 5})
    catch_up(db)
    assert found(db, "per_a") == [("new", 1, 5)]


def test_two_updates_of_a_row_leave_one_entry_in_an_index_i119(db: Database) -> None:
    db.sql("CREATE INDEX by_a ON t (a)")
    table = db.table("t")
    table.put({"id": 1, "a": "a", "n": 1})
    catch_up(db)
    table.put({"id": 1, "a": "b"})
    table.put({"id": 1, "a": "c"})
    catch_up(db)
    assert {a: [row["id"] for row in table.get(a, index="by_a")] for a in "abc"} == {"a": [], "b": [], "c": [1]}


def test_an_entry_whose_row_goes_and_comes_in_one_batch_stays_i121(db: Database) -> None:
    db.sql("CREATE INDEX by_a ON t (a)")
    table = db.table("t")
    table.put({"id": 1, "a": "a", "n": 1})
    catch_up(db)
    table.delete(1)
    table.put({"id": 1, "a": "a", "n": 2})
    catch_up(db)
    assert table.get("a", index="by_a") == [{"id": 1, "a": "a", "n": 2}]


def test_a_count_is_whole_as_soon_as_it_can_be_read_after_a_restart_m169(db: Database) -> None:
    db.sql("CREATE VIEW c AS SELECT count(*) AS n FROM t x JOIN t y ON x.a = y.a")
    db.table("t").put_many([{"id": id_, "a": str(id_ % 5), "n": 1} for id_ in range(50)])
    catch_up(db)
    db.close()
    with viewkeeper.connect(db.root, durability="process") as again:
        assert again.view("c").get()["n"] == 500
        again.table("t").delete(0)
        assert again.view("c").get()["n"] == 500
        catch_up(again)
        assert again.view("c").get()["n"] == 500 - 19


def test_a_hot_row_with_five_views_leaves_no_backlog_o195(db: Database) -> None:
    """Two thousand writes of one row are one row in every view, and nothing is left to do."""
    views = [f"CREATE VIEW v{i} AS SELECT n % {i + 2} AS k, a, count(*) AS c FROM t GROUP BY n % {i + 2}, a"
             for i in range(5)]  # fmt: skip
    db.sql(";".join(views))
    for first in range(0, 2_000, 500):
        db.table("t").put_many([{"id": 1, "a": "x", "n": n} for n in range(first, first + 500)])
        catch_up(db)
    assert all(found(db, f"v{i}") == [(1999 % (i + 2), "x", 1)] for i in range(5))
    assert [node["lag_operations"] for node in db.lag()["nodes"] if node["lag_operations"]] == []


def test_a_column_that_changes_while_an_index_is_filled_is_in_it_as_it_became_i161(db: Database) -> None:
    table = db.table("t")
    table.put_many([{"id": id_, "a": "a", "n": 1} for id_ in range(3)])
    catch_up(db)
    db.sql("CREATE INDEX by_a ON t (a)")
    changes = iter([{"id": 1, "n": 2}, {"id": 2, "a": "b"}])

    class WhileOthersWrite(LocalExecutor):
        def run(self, job: Job) -> list[Any]:
            for change in itertools.islice(changes, 1):
                table.put(change)
            return super().run(job)

    with contextlib.closing(EmbeddedStore(db.root)) as store:
        maintain.catch_up(local_storage(db.root), Logs.of(store), WhileOthersWrite, timeout=60.0)
    catch_up(db)
    assert next(changes, None) is None, "others wrote while it was filled"
    assert sorted((row["id"], row["n"]) for row in table.get("a", index="by_a")) == [(0, 1), (1, 2)]
    assert table.get("b", index="by_a") == [{"id": 2, "a": "b", "n": 1}]
