"""Spark DataFrames into a stream, whole and followed."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import viewkeeper
from child import SUPPORT
from followed_files import Files, followed
from stream_intake import Intake, at
from viewkeeper.errors import Busy, Error, InputError
from viewkeeper.streams.intake.stream_environment import Appended
from viewkeeper.streams.spark import follow as follow_module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_frame_is_stored_by_its_tasks_as_one_append(spark: SparkSession, tmp_path: Path) -> None:
    """Good rows of all partitions are stored and bad ones rejected, in one entry, whatever the session's zone."""
    intake = Intake(tmp_path, zone="Europe/Berlin")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        df = spark.range(1000).repartition(7).selectExpr(
            "IF(id % 100 = 0, NULL, timestamp_seconds(id * 10)) AS ts", "CAST(id AS INT) AS loss"
        )  # fmt: skip
        assert intake.append(df, "x") == Appended(990, 10, sequence=1)
        assert intake.append(df, "x") == Appended(990, 10, True, 1)
        ntz = spark.sql("SELECT TIMESTAMP_NTZ'2015-07-01 12:00:00' AS ts, 'ntz' AS src")
        assert intake.append(ntz) == Appended(1, 0, sequence=2)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    rows = intake.stored()
    assert {(row["ts"], row["loss"]) for row in rows[:-1]} == {(at(n * 10), n) for n in range(1000) if n % 100}
    assert rows[-1]["ts"].isoformat() == "2015-07-01T10:00:00+00:00"
    assert {row["loss"] for _, row in intake.rejected()} == set(range(0, 1000, 100))
    assert intake.files() == intake.named()


@pytest.mark.parametrize("name", ["with space", "a%20b", "pérc 😀", "a#b?c"])
def test_a_stream_is_followed_wherever_its_database_lies(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """As the first write, and again; the checkpoint stands within the database, whatever its path is made of."""
    with viewkeeper.connect(tmp_path / name) as db:
        db.sql("CREATE STREAM m (ts TIMESTAMP NOT NULL, loss INT) TIMESTAMP BY ts PARTITION LENGTH 60")
        files = Files(spark, tmp_path / "in")
        for n, number in enumerate((5, 8), 1):
            files.add(number)
            with db.stream("m").follow(files.df(), name="f", trigger={"availableNow": True}) as following:
                assert following.wait(120)
            assert following.last == Appended(1, 0, sequence=n)
    assert {path.name for path in tmp_path.iterdir()} == {name, "in"}


def test_an_empty_frame_and_one_of_other_columns(spark: SparkSession, tmp_path: Path) -> None:
    """No rows leave no entry; unknown columns are refused before anything runs."""
    intake = Intake(tmp_path)
    assert intake.append(spark.range(0).selectExpr("timestamp_seconds(id) AS ts")) == Appended(0, 0)
    with pytest.raises(InputError, match="no column 'tss'"):
        intake.append(spark.range(1).selectExpr("timestamp_seconds(id) AS tss"))
    assert not intake.entries() and not intake.files()


def test_a_follow_goes_on_where_the_last_one_ended(spark: SparkSession, tmp_path: Path) -> None:
    """Files that come while it runs, and between two runs, are each stored once; a file is one append."""
    intake, files = Intake(tmp_path / "db"), Files(spark, tmp_path / "in")
    files.add(1, 2)
    files.add(3)
    with followed(intake, files.df(), trigger={"availableNow": True}) as running:
        assert running.wait(300)
    files.add(4, 5, 6)
    with followed(intake, files.df(), trigger={"availableNow": True}) as running:
        assert running.wait(300) and running.last == Appended(3, 0, sequence=3)
        assert running.last_error is None and not running.is_active
    assert sorted(intake.values("loss")) == [1, 2, 3, 4, 5, 6] and len(intake.entries()) == 3


def test_a_batch_that_was_stored_but_not_committed_counts_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the follow dies between the append and Spark's own commit, the batch is done again and stored once."""
    intake, files = Intake(tmp_path / "db"), Files(spark, tmp_path / "in")
    files.add(1, 2)
    store = follow_module.append

    def store_and_die(*arguments: object) -> Appended:
        store(*arguments)  # type: ignore[arg-type]
        raise OSError("power failure")

    monkeypatch.setattr(follow_module, "append", store_and_die)
    with followed(intake, files.df()) as running, pytest.raises(Error, match="follow 'f' of stream m.*power failure"):
        running.wait(300)
    assert "power failure" in str(running.last_error)
    monkeypatch.undo()
    files.add(3)
    with followed(intake, files.df(), trigger={"availableNow": True}) as running:
        assert running.wait(300)
    assert sorted(intake.values("loss")) == [1, 2, 3] and len(intake.entries()) == 2


def test_a_new_checkpoint_counts_its_batches_anew(spark: SparkSession, tmp_path: Path) -> None:
    """Where somebody deletes the checkpoint, everything comes again, and nothing of it passes for a duplicate."""
    intake, files = Intake(tmp_path / "db"), Files(spark, tmp_path / "in")
    files.add(1)
    for _ in range(2):
        with followed(intake, files.df(), trigger={"availableNow": True}) as running:
            assert running.wait(300)
        checkpoint = intake.root / "streams" / "follow" / "20" / "f" / "checkpoint"
        checkpoint.rename(tmp_path / f"old {time.time_ns()}")
    assert intake.values("loss") == [1, 1]


def test_two_live_follows_of_one_name_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """The second is told the holder's process; another name is fine; the name is free when the first has ended."""
    intake, files = Intake(tmp_path / "db"), Files(spark, tmp_path / "in")
    with followed(intake, files.df()):
        with pytest.raises(Busy, match=f"stream m is followed under the name 'f' by process {os.getpid()}"):
            followed(intake, files.df())
        with followed(intake, files.df(), "g"):
            pass
    with followed(intake, files.df()) as running:
        assert running.is_active and not running.wait(0.01)


def test_a_follow_of_a_dropped_stream_ends_and_says_so(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that come after the drop are not stored for nobody to see."""
    intake, files = Intake(tmp_path / "db"), Files(spark, tmp_path / "in")
    files.add(1)
    with followed(intake, files.df()) as running:
        end = time.monotonic() + 60
        while running.last is None and time.monotonic() < end:
            time.sleep(0.05)
        intake.log.forget(20)
        files.add(2)
        with pytest.raises(
            Error, match="follow 'f' of stream m has ended: NotFound: the stream 'm' does not exist any"
        ):
            running.wait(60)
    assert not intake.entries()


def test_what_cannot_be_followed_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A frame at rest, other columns, and names that make no folder are named, and leave no lock."""
    intake, files = Intake(tmp_path / "db"), Files(spark, tmp_path / "in")
    for df, name, problem in (
        (spark.range(1), "f", "one that is not streaming: append it"),
        ([], "f", "not list"),
        (files.df().withColumnRenamed("loss", "lost"), "f", "no column 'lost'"),
        (files.df(), "../f", "name='../f'"),
    ):
        with pytest.raises(InputError, match=problem):
            followed(intake, df, name)
    with pytest.raises(PySparkException, match="interval"):
        followed(intake, files.df(), trigger={"processingTime": "often"})
    with followed(intake, files.df()):
        pass


def test_a_follow_waits_for_the_java_process_of_one_that_was_killed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Java process outlives its Python by a while, in which it still writes the checkpoint."""
    intake, files = Intake(tmp_path / "db"), Files(spark, tmp_path / "in")
    with followed(intake, files.df()):
        (lock,) = intake.root.rglob("java.lock")
    with lock.open("r+") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)  # what Java's locks are
        with monkeypatch.context() as patch:
            patch.setattr(follow_module, "JAVA_SECONDS", 0.1)
            with pytest.raises(Busy, match=r"followed under the name 'f' by the Java process .*java\.lock open"):
                followed(intake, files.df())
        timer = threading.Timer(0.3, fcntl.lockf, (held, fcntl.LOCK_UN))
        timer.start()
        with followed(intake, files.df()):
            assert timer.finished.is_set()
        timer.join()


@pytest.mark.faults
def test_each_row_counts_once_whenever_the_follow_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    """After kill -9 of a follow at any moment, the next one of the name stores all rows that are missing, once."""
    intake, files = Intake(tmp_path / "db"), Files(spark, tmp_path / "in")
    call = f"import followed_files as t; t.follow_for_ever({str(intake.root)!r}, {str(tmp_path / 'in')!r})"
    child = subprocess.Popen([sys.executable, "-c", call], cwd=SUPPORT, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None and child.stdout.readline() == b"following\n"
        for n in range(0, 80, 10):
            files.add(*range(n, n + 10))
        while len(intake.entries()) < 2:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 1))
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    with followed(intake, files.df(), trigger={"availableNow": True}) as running:
        assert running.wait(300)
    assert Counter(intake.values("loss")) == dict.fromkeys(range(80), 1)
