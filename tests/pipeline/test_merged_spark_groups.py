"""What Spark said of groups, and their rows, outlive merges, drivers that die, and another Spark."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import viewkeeper
from asked_groups import QUERIES, TABLES, change
from pipeline_database import term_of
from questions import asked
from viewkeeper.database import Database
from viewkeeper.errors import ViewBroken
from viewkeeper.pipeline import spark_calls, tasks, term
from viewkeeper.pipeline.driver import Maintainer, caught_up
from viewkeeper.pipeline.fills import unfilled
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.spark_answers import SparkAnswers
from viewkeeper.plans.maintenance import ReverseJoin, SparkGroups, plan_of
from viewkeeper.stores.logs import Logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VIEWS = {name: QUERIES[name] for name in ("filtered", "whole_beside", "windows")}


class Killed(BaseException):
    """Nothing is tidied up behind it, as behind a process that is killed."""


def maintained(database: Database, spark: SparkSession, operations_max: int, *, merged: bool) -> int:
    """Brings everything in, a few operations a batch, and merges all there is to merge, or what keeping up needs; how
    often the driver was killed.

    Spark is asked, and runs nothing else.  A driver that is killed leaves all as it is, and the next one takes over.
    """
    store, killed = database._store, 0
    while True:
        executor = LocalExecutor(2, answers=SparkAnswers(lambda: spark))
        driver = Maintainer(term_of(database.root, 5.0), Logs.of(store), executor, operations_max)
        ends, ids = store.ends(), unfilled(driver.term.snapshot.catalog)
        try:
            while not caught_up(driver.term.snapshot, ends, ids):
                if not driver.step():
                    driver.wait()
            while driver.merging.step(driver.term, idle=merged, barriers=[]):
                driver.wait()
        except Killed:
            driver._pool.shutdown()
            driver.term.close()
            killed += 1
            continue
        driver.close()
        return killed


def killing(point: str, count: int) -> Callable[[str], None]:
    """What kills where `point` is reached for the `count`-th time."""
    left = [count]

    def reached(name: str) -> None:
        left[0] -= name == point
        if name == point and not left[0]:
            raise Killed

    return reached


def runs_of_groups(database: Database) -> list[int]:
    """How many runs there are of each state that keeps groups, and of each that keeps their rows."""
    version = database._newest.version()
    plan = plan_of(version.catalog)
    found = []
    for operator in plan.operators:
        if isinstance(operator, SparkGroups):
            reverse = next(each for each in plan.operators if each.id == operator.input)
            assert isinstance(reverse, ReverseJoin)
            found += [len(version.snapshot.states.get(each.state.id, ())) for each in (operator, reverse)]
    return found


def wrong(database: Database) -> list[tuple[object, ...]]:
    return [(r.view, r.differing, r.errors) for r in database.check_all() if not r.ok]


def test_groups_are_right_through_merges_and_drivers_that_die(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that a merge adds up take back what was said before it; what is not committed is asked for again."""
    chance = random.Random(8)
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql(TABLES)
        database.sql(";".join(f"CREATE VIEW {name} AS {query}" for name, query in VIEWS.items()))
        maintained(database, spark, 100, merged=False)
    for point in ("zone file written", "before commit", "after commit", "merge", None):
        with viewkeeper.connect(tmp_path / "db", durability="process") as database:
            change(database, chance, 16)
            with monkeypatch.context() as patch:
                if point is not None:
                    reached = killing(point, 1 if point == "merge" else chance.randint(2, 4))
                    patch.setattr(tasks, "reached", reached)
                    patch.setattr(term, "reached", reached)
                killed = maintained(database, spark, chance.randint(6, 9), merged=point in ("merge", None))
                assert killed == (point is not None)
            if point in ("before commit", "merge", None):
                assert wrong(database) == []
            if point in ("merge", None):
                runs = runs_of_groups(database)
                assert len(runs) == 10 and max(runs) <= 1, runs
            else:
                assert max(runs_of_groups(database)) > 2
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        for key in range(12):
            database.table("t").delete(key)
        maintained(database, spark, 5, merged=True)
        assert wrong(database) == [] and list(database.view("filtered").scan()) == []
        assert len(list(database.view("whole_beside").scan())) == 1, "the group of all rows is there without any"


def test_a_view_is_built_anew_by_another_spark_from_merged_states(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new Spark is asked for all groups, once; what the old one said is gone with its states."""
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql(f"{TABLES}; CREATE VIEW v AS {QUERIES['one']}")
        for step in range(3):
            database.table("t").put_many(
                [{"id": i, "g": str(i % 5), "s": str(i)} for i in range(9 * step, 9 * step + 9)]
            )
            maintained(database, spark, 4, merged=True)
        monkeypatch.setattr(spark_calls, "spark_version", lambda: "9.9.9")
        database.table("t").delete(1)
        maintained(database, spark, 4, merged=True)
        with pytest.raises(ViewBroken, match=r"this is Spark 9\.9\.9"):
            list(database.view("v").scan())
        questions = asked(monkeypatch)
        database.sql(f"DROP VIEW v; CREATE VIEW v AS {QUERIES['one']}")
        maintained(database, spark, 4, merged=True)
        assert [sum(map(len, question.tables.values())) for question in questions] == [26]
        assert wrong(database) == [] and len(runs_of_groups(database)) == 2
        database.table("t").delete(2)
        maintained(database, spark, 4, merged=True)
        assert wrong(database) == []
