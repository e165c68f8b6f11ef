"""Works on Spark: what comes of them in this process, as a job each of no more stages than they need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import part_programs
from part_programs import PROGRAMS, Keeper, Row, RunningSum, block_of
from state_disk import disk_in
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.spark_executor import SparkExecutor
from viewkeeper.streams import preparing
from viewkeeper.streams.part_files import to_table
from written_parts import COLUMNS, all_types, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LATE: dict[int, list[Row]] = {1: [("group 7", 5)], 4: [("new", 2), (None, 4)]}


@pytest.fixture(params=["one stage", "two stages"])
def executor(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[SparkExecutor]:
    """Two view servers, however few rows there are; workers are sent the programs, which they cannot import."""
    from pyspark import cloudpickle

    if request.param == "two stages":
        monkeypatch.setattr(preparing, "DIRECT_SERVERS", 1)

    monkeypatch.setattr(preparing, "SMALL_ROWS", 0)
    monkeypatch.setattr(preparing, "SMALL_GROUPED_ROWS", 0)
    monkeypatch.setattr(preparing, "SLICE_ROWS", 40)
    cloudpickle.register_pickle_by_value(part_programs)
    yield SparkExecutor(spark, 2)
    cloudpickle.unregister_pickle_by_value(part_programs)


def kept_by(executor: Any, root: Path, program: Any) -> Keeper:
    """Six parts, built in two works, then late rows in two of them."""
    root.mkdir()
    kept = Keeper(root, executor, program, 0)
    for part in range(6):
        kept.add(part, [(f"group {i}", i % 5 - part) for i in range(0, 90, part + 1)])
    for last in (1, 5):
        assert kept.build(last).error is None
    touched: dict[int, np.ndarray | None] = {}
    reads = program.inputs[0]
    for part, rows in LATE.items():
        kept.add(part, rows)
        for j in range(6):
            if reads.low.at(j) <= part <= reads.high.at(j):
                touched[j] = np.union1d(touched.get(j, np.zeros(0, np.uint64)), block_of(rows).hashes)
    kept.repair(touched, 3)
    return kept


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: type(program).__name__)
def test_spark_makes_what_this_process_makes(executor: SparkExecutor, tmp_path: Path, program: Any) -> None:
    """Built and repaired on Spark, every part has the rows that it has when built and repaired here."""
    on_spark = kept_by(executor, tmp_path / "spark", program)
    here = kept_by(LocalExecutor(2), tmp_path / "here", program)
    assert on_spark.found() == here.found() == here.expected()
    shapes = [{place: [(p.rows, p.low, p.high) for p in pieces] for place, pieces in kept.pieces.items()}
              for kept in (on_spark, here)]  # fmt: skip
    assert shapes[0] == shapes[1]


def stages(spark: SparkSession) -> list[int]:
    """The number of stages of each job so far."""
    tracker = spark.sparkContext.statusTracker()
    infos = [tracker.getJobInfo(job) for job in sorted(tracker.getJobIdsForGroup(None))]
    return [len(info.stageIds) for info in infos if info is not None]


def test_a_work_is_one_job(
    spark: SparkSession, executor: SparkExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many view servers preparing and computing are a stage each, with few one; a small work is a single task, and
    Spark shows what it is for."""
    wide = 2 if preparing.DIRECT_SERVERS == 1 else 1
    kept = Keeper(tmp_path, executor, RunningSum(), 0)
    for part in range(2):
        kept.add(part, [(f"group {i}", i) for i in range(90)])
    before = len(stages(spark))
    kept.build(0)
    assert stages(spark)[before:] == [wide]
    monkeypatch.setattr(preparing, "SMALL_ROWS", 1000)
    kept.build(1)
    assert stages(spark)[before:] == [wide, 1]
    assert spark.sparkContext._jsc.sc().statusStore().jobsList(None).head().description().get() == "a test"
    assert kept.found() == kept.expected()


@pytest.mark.parametrize(
    ("value", "said"), [(666, "part 2: the row of 666 raises"), (667, "a defect in viewkeeper: Key")]
)
@pytest.mark.parametrize("small", [0, 1000])
def test_what_a_program_raises_is_the_outcome(
    executor: SparkExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: int, said: str, small: int
) -> None:
    """In whichever stage a program raises, it is the view's error, and no task is tried again for it."""
    monkeypatch.setattr(preparing, "SMALL_ROWS", small)
    kept = Keeper(tmp_path, executor, RunningSum(), 0)
    kept.add(1, [("a", 1)])
    kept.add(2, [("a", value)])
    outcome = kept.build(2)
    assert outcome.error is not None and outcome.error.startswith(said) and not outcome.made
    kept.next = 1
    assert kept.build(1).error is None


def test_spark_reads_part_files(spark: SparkSession, tmp_path: Path) -> None:
    """Part files are Parquet that Spark reads natively, every type with its values, times in UTC or as written."""
    _, pieces = write(tmp_path, {3: all_types(6)}, COLUMNS, grouped=True, name="a.parquet")
    read = spark.read.parquet(str(tmp_path / "a.parquet"))
    assert read.columns == [*(column.name for column in COLUMNS), "__part", "__group"]
    names = [f"`{column.name}`" for column in COLUMNS]
    types = [type_.upper() for _, type_ in read.dtypes]
    assert types[: len(COLUMNS)] == [str(column.type) for column in COLUMNS]
    expected = to_table(disk_in(tmp_path), [pieces[3]], COLUMNS, "UTC")
    found = read.select(*names).toArrow()
    assert [repr(column.to_pylist()) for column in found.columns] == [
        repr(column.to_pylist()) for column in expected.columns]  # fmt: skip
    assert [row[0] for row in read.select("__part").distinct().collect()] == [3]
