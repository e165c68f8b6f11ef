"""The pipeline on Spark: the same results, and a plan that does not grow with the number of views."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline_database import Shop
from viewkeeper.pipeline import batches, fills
from viewkeeper.pipeline.spark_executor import SparkExecutor

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches take the way of large ones."""
    monkeypatch.setattr(batches, "CHAINED_MAX", 0)
    monkeypatch.setattr(fills, "CHAINED_MAX", 0)


def jobs_and_stages(context: SparkContext) -> tuple[int, int]:
    """How many jobs and stages the context has run."""
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup(None)
    infos = [tracker.getJobInfo(job) for job in jobs]
    return len(jobs), sum(len(info.stageIds) for info in infos if info is not None)


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_spark_makes_the_same_views(spark: SparkSession, shop: Shop, staged: None, servers: int) -> None:
    """With 1, 2 and 3 view servers on Spark every view holds its query's answer after every batch."""
    driver = shop.maintainer(SparkExecutor(spark, servers))
    for seed in range(3):
        shop.write(seed, 40)
        shop.catch_up(driver)
        assert shop.wrong_views() == []
    driver.close()


def test_a_small_batch_is_one_stage(spark: SparkSession, shop: Shop) -> None:
    """A batch of few operations is one job of one stage."""
    driver = shop.maintainer(SparkExecutor(spark, 2))
    shop.catch_up(driver)
    shop.write(1, 10)
    before = jobs_and_stages(spark.sparkContext)
    driver.batches.step(driver.term)
    after = jobs_and_stages(spark.sparkContext)
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)
    assert shop.wrong_views() == []
    driver.close()


def test_jobs_and_stages_do_not_grow_with_views(spark: SparkSession, tmp_path: Path, staged: None) -> None:
    """A batch is one job, of as many stages as the deepest view has zones, with 1 view and with 1,000."""
    counts = []
    for number in (1, 1000):
        views = "".join(
            f"CREATE VIEW v{i} AS SELECT customer, sum(price) AS total FROM orders WHERE id <> {i} GROUP BY customer;"
            for i in range(number)
        )
        shop = Shop(tmp_path / str(number), views=views)
        driver = shop.maintainer(SparkExecutor(spark, 2))
        shop.catch_up(driver)
        shop.write(1, 20)
        before = jobs_and_stages(spark.sparkContext)
        driver.batches.step(driver.term)
        after = jobs_and_stages(spark.sparkContext)
        counts.append((after[0] - before[0], after[1] - before[1]))
        driver.close()
    assert counts == [(1, 2), (1, 2)]


def test_jobs_are_named_by_their_batch(spark: SparkSession, shop: Shop) -> None:
    """Spark's user interface shows for each job which database and which batch it was for."""
    driver = shop.maintainer(SparkExecutor(spark, 2))
    shop.catch_up(driver)
    shop.write(1, 10)
    cut = driver.batches.step(driver.term)
    assert cut is not None
    store = spark.sparkContext._jsc.sc().statusStore()
    newest = store.jobsList(None).head()
    title = f"viewkeeper {shop.root.name}: batch {driver.term.snapshot.version}, {cut.operations:,} operations"
    assert newest.description().get() == title
    driver.close()


def test_spark_starts_and_stops_without_a_word() -> None:
    """Where viewkeeper starts Spark it says nothing on standard error; the one line left is Java's own.

    Nor after a minute without a job, when Spark lets go of its workers: see tests/spark/test_spark_starting.py.
    """
    program = """
from viewkeeper.pipeline.spark_executor import session
spark, _ = session(1)
assert spark.sparkContext.parallelize([1], 1).map(abs).collect() == [1]
assert spark.conf.get("spark.python.daemon.module") == "viewkeeper.spark.daemon"
spark.stop()
"""
    started = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    said = [line for line in started.stderr.splitlines() if "Using incubator modules" not in line]
    assert said == []
