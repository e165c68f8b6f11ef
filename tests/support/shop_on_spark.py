"""Programs that tests run in processes of their own: they maintain by Spark, and are killed there."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from pyspark import SparkContext

import viewkeeper
from pipeline_database import VIEWS, Shop
from viewkeeper.pipeline.spark_executor import SparkExecutor, session
from viewkeeper.trace import points


def lose_workers(faults: Path) -> None:
    """Run in a child process: maintains one database after another; in each a worker is killed, at another point."""
    for point in points.WORKER_POINTS:
        maintain_on_spark(faults / f"database of {point}", faults, point, 0)


def lose_the_driver(root: Path, point: str) -> None:
    """Run in a child process: maintains until it is killed at the point."""
    maintain_on_spark(root, root, point, os.getpid())


def maintain_on_spark(root: Path, faults: Path, point: str, victim: int) -> None:
    """Maintains, with the fault armed for the process `victim`, or for whatever worker comes there (0)."""
    shop = Shop(root, views="")
    shop.write(1, 40)
    driver = shop.maintainer(SparkExecutor(session(2)[0], 2))
    shop.catch_up(driver)
    points.arm(faults, point, 1, victim)
    for seed in range(2, 5):
        shop.write(seed, 30)
        shop.catch_up(driver)
    driver.merging.step(driver.term, idle=True, barriers=[])
    while driver.merging.step(driver.term, idle=True, barriers=[]):
        driver.wait()
    driver.close()
    shop.declare(VIEWS)
    shop.maintain_once(SparkExecutor(session(2)[0], 2))
    assert points.passes(faults, point) > 1, f"{point}: the worker's task was not tried again"
    assert shop.wrong_views() == [], point


def outlive_java(root: Path) -> None:
    """Run in a child process: maintains after the start of Spark's Java process was interrupted, and after it was
    killed."""
    with viewkeeper.connect(root) as db:
        db.sql("CREATE TABLE t (a INT, PRIMARY KEY (a))")
        db.table("t").put({"a": 1})
        signal.signal(signal.SIGINT, signal.default_int_handler)  # else ignored, where a shell began the tests by &
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
