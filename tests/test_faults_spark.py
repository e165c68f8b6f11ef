"""The same faults on real Spark: workers and drivers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pyspark import SparkContext

import viewkeeper
from pipeline_database import VIEWS, Shop
from viewkeeper.pipeline.spark import SparkExecutor, session
from viewkeeper.trace import points

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def maintain_on_spark(root: Path, point: str, victim: str) -> None:
    """Run in a child process: maintains, with the fault armed for a worker or for this process."""
    shop = Shop(root, views="")
    shop.write(1, 40)
    driver = shop.maintainer(SparkExecutor(session(2)[0], 2))
    shop.catch_up(driver)
    points.arm(root, point, 1, os.getpid() if victim == "driver" else 0)
    for seed in range(2, 5):
        shop.write(seed, 30)
        shop.catch_up(driver)
    driver.merging.step(driver.term, idle=True, barriers=[])
    while driver.merging.step(driver.term, idle=True, barriers=[]):
        time.sleep(0.01)
    driver.close()
    shop.declare(VIEWS)
    shop.maintain_once(SparkExecutor(session(2)[0], 2))
    assert points.passes(root, point) > 1, "the worker's task was not tried again"
    assert shop.wrong_views() == []


def run_child(root: Path, point: str, victim: str) -> subprocess.CompletedProcess[str]:
    call = f"import test_faults_spark as t; t.maintain_on_spark(t.Path({str(root)!r}), {point!r}, {victim!r})"
    environment = {**os.environ, "VIEWKEEPER_FAULTS": str(root)}
    return subprocess.run(
        [sys.executable, "-c", call], cwd=Path(__file__).parent, env=environment, capture_output=True, text=True,
        timeout=180, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("point", points.WORKER_POINTS)
def test_a_killed_worker_is_replaced(tmp_path: Path, point: str) -> None:
    """Where a worker is killed Spark tries its task again, and nothing is lost or doubled."""
    ended = run_child(tmp_path, point, "worker")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("point", points.POINTS)
def test_a_killed_driver_is_followed_by_the_next(tmp_path: Path, point: str) -> None:
    """Where the driver is killed, while its workers may still be writing, the next one finds everything right."""
    ended = run_child(tmp_path, point, "driver")
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    shop = Shop(tmp_path)
    if not shop.snapshot.catalog.views:
        shop.declare(VIEWS)
    shop.maintain_once()
    assert shop.wrong_views() == []


def outlive_java(root: Path, interrupted: bool) -> None:
    """Run in a child process: maintains after Spark's Java process was killed, or its start interrupted."""
    with viewkeeper.connect(root) as db:
        db.sql("CREATE TABLE t (a INT, PRIMARY KEY (a))")
        db.table("t").put({"a": 1})
        if interrupted:
            threading.Timer(1.0, signal.raise_signal, [signal.SIGINT]).start()
            with pytest.raises(KeyboardInterrupt):
                db.catch_up()
        db.catch_up()
        SparkContext._gateway.proc.kill()
        SparkContext._gateway.proc.wait()
        db.table("t").put({"a": 2})
        for use in (db.catch_up, lambda: db.maintain().wait(), lambda: db.sql("SELECT a FROM t", engine="spark")):
            with pytest.raises(viewkeeper.Error, match="Java process is gone.*start it again"):
                use()


@pytest.mark.parametrize("interrupted", [False, True])
def test_the_loss_of_java_is_named_and_an_interrupted_start_leaves_none_behind(
    tmp_path: Path, interrupted: bool
) -> None:
    """Every use of Spark says that its Java process is gone; Ctrl-C while it starts leaves it whole, and usable."""
    call = f"import test_faults_spark as t; t.outlive_java(t.Path({str(tmp_path)!r}), {interrupted})"
    ended = subprocess.run(
        [sys.executable, "-c", call], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=180,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
