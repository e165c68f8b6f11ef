"""Spark streaming DataFrames that tables follow."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import viewkeeper
from child import SUPPORT
from followed_changes import Changes
from local_maintenance import catch_up
from viewkeeper.database import Database
from viewkeeper.errors import Busy, Error, InputError
from viewkeeper.views.table_follow import TableFollow, TakenBatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = {"availableNow": True}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", nodes=3, durability="process") as database:
        database.sql("CREATE TABLE t (id INT, a INT, b STRING, PRIMARY KEY (id)); "
                     "CREATE VIEW v AS SELECT b, sum(a) AS total FROM t GROUP BY b")  # fmt: skip
        yield database


def row(id_: int, a: int | None = None, op: str = "put") -> dict[str, Any]:
    return {"id": id_, "a": a, "b": "x", "op": op}


def values(db: Database) -> dict[int, int]:
    return {each["id"]: each["a"] for batch in db._store.rows(db.catalog.tables[0]) for each in batch.to_pylist()}


def test_a_table_follows_a_stream_and_its_views_do(spark: SparkSession, db: Database, tmp_path: Path) -> None:
    """Files that come while it runs, and between two runs, are each taken once."""
    changes, table = Changes(spark, tmp_path / "in"), db.table("t")
    changes.add(row(1, 1), row(2, 2), row(1, 3, "u"), row(2, op="d"), row(3, 3, "c"))
    with table.follow(changes.df(), name="f", op="op", trigger=NOW) as running:
        assert running.wait(300)
    assert (running.last.puts, running.last.deletes) == (2, 1)
    changes.add(row(3, op="delete"), row(4, 4))
    with table.follow(changes.df(), name="f", op="op", trigger=NOW) as running:
        assert running.wait(300)
        assert running.last_error is None and not running.is_active
    catch_up(db)
    assert db.view("v").get("x", after=running.last.token) == {"b": "x", "total": 7}
    assert values(db) == {1: 3, 4: 4}


def test_a_micro_batch_that_comes_again_overwrites_nothing_that_others_have_written_since(
    spark: SparkSession, db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the follow dies between the step and Spark's own commit."""
    changes, table, take = Changes(spark, tmp_path / "in"), db.table("t"), TableFollow.take
    changes.add(row(1, 1), row(2, 2), row(3, op="d"))
    taken: list[TakenBatch] = []

    def take_and_die(*arguments: Any) -> TakenBatch:
        taken.append(take(*arguments))
        if len(taken) == 1:
            raise OSError("power failure")
        return taken[-1]

    monkeypatch.setattr(TableFollow, "take", take_and_die)
    with (
        table.follow(changes.df(), name="f", op="op") as running,
        pytest.raises(Error, match="the follow 'f' of table t has ended: .*power failure"),
    ):
        running.wait(300)
    table.put({"id": 1, "a": 7})
    table.delete(2)
    table.put({"id": 3, "a": 8})
    changes.add(row(4, 4))
    with table.follow(changes.df(), name="f", op="op", trigger=NOW) as running:
        assert running.wait(300)
    assert [(each.duplicate, each.puts) for each in taken] == [(False, 2), (True, 0), (False, 1)]
    assert values(db) == {1: 7, 3: 8, 4: 4}


def test_a_row_that_the_table_cannot_take_ends_the_follow_and_nothing_of_its_batch_is_stored(
    spark: SparkSession, db: Database, tmp_path: Path
) -> None:
    changes, table = Changes(spark, tmp_path / "in"), db.table("t")
    changes.add(row(1, 1), row(2, 2, "upsert"))
    with (
        table.follow(changes.df(), name="f", op="op", trigger=NOW) as running,
        pytest.raises(Error, match="row 1 of the micro-batch: op is 'upsert'; expected one of put"),
    ):
        running.wait(300)
    assert values(db) == {}


def test_what_a_table_cannot_follow_is_refused(spark: SparkSession, db: Database, tmp_path: Path) -> None:
    changes, table = Changes(spark, tmp_path / "in"), db.table("t")
    for df, name, op, problem in (
        (spark.range(1), "f", None, "one that is not streaming: put_many it"), ([], "f", None, "not list"),
        (changes.df(), "f", None, "no column 'op'"), (changes.df(), "../f", "op", "name='../f'"),
        (changes.df(), "f", "nosuch", "op='nosuch': the DataFrame has no such column"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=problem):
            table.follow(df, name=name, op=op)
    with (
        table.follow(changes.df(), name="f", op="op"),
        pytest.raises(Busy, match=f"table t is followed under the name 'f' by process {os.getpid()}"),
    ):
        table.follow(changes.df(), name="f", op="op")


@pytest.mark.faults
def test_a_table_holds_what_a_stream_says_whenever_the_follow_is_killed(
    spark: SparkSession, db: Database, tmp_path: Path
) -> None:
    """After kill -9 of a follow at any moment, the next one of the name does the rest; each batch was done once, which
    the positions of the logs tell.

    Where the kill comes between two steps of Spark, one batch has the next two files, and one operation of a
    key that both name.
    """
    chance, model = random.Random(), dict[int, int]()
    changes, table = Changes(spark, tmp_path / "in"), db.table("t")
    call = f"import followed_changes as f; f.follow_for_ever({str(db.root)!r}, {str(tmp_path / 'in')!r})"
    child = subprocess.Popen([sys.executable, "-c", call], cwd=SUPPORT, stdout=subprocess.PIPE)
    named: list[set[int]] = []
    try:
        assert child.stdout is not None and child.stdout.readline() == b"following\n"
        for number in range(8):
            batch = [row(id_, number, chance.choice("cd")) for id_ in chance.sample(range(20), 6)]
            named.append({each["id"] for each in batch})
            for each in batch:
                model.pop(each["id"], None)
                if each["op"] == "c":
                    model[each["id"]] = number
            changes.add(*batch)
        while sum(db._store.ends().values()) < 12:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 1))
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    with table.follow(changes.df(), name="f", op="op", trigger=NOW) as running:
        assert running.wait(300)
    assert values(db) == model
    less = sum(map(len, named)) - sum(db._store.ends().values())
    assert less in {0, *(len(one & other) for one, other in pairwise(named))}, named
