"""What Spark does without viewkeeper: recomputing, a program written by hand, its own streaming window aggregate."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.baselines import started
from benchmarks.support.viewdf_minutes import FIRST, Minutes, Question, StoredParts, write_files
from benchmarks.support.viewdf_systems import ALWAYS, limited, naive_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MEMORY = "8g"
_GROUP = "bench viewdf"


def warm_java() -> None:
    """Starts the Java process, unless there is one: whoever is first in a process says how much memory it has."""
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None:
        started(os.cpu_count() or 1, MEMORY).stop()


class _OnSpark:
    """A Spark session of its own, all cores, and the folder of the system."""

    def __init__(self, folder: Path, minutes: Minutes, question: Question) -> None:
        from pyspark.sql import SparkSession

        folder.mkdir(parents=True)
        self._folder, self._minutes, self._question, self._last = folder, minutes, question, FIRST
        cores = os.cpu_count() or 1
        active = SparkSession.getActiveSession()
        self._owned = active is None
        self._spark: SparkSession = started(cores, MEMORY) if active is None else active.newSession()
        self._spark.conf.set("spark.sql.shuffle.partitions", str(cores))
        self._spark.conf.set("spark.sql.session.timeZone", "UTC")

    def fill(self, first: int, last: int) -> int:
        """Nothing, unless a subclass keeps something."""
        return last + 1

    def rows(self) -> tuple[int, pa.Table]:
        return self._last, pq.read_table(self._folder / "view")

    def close(self) -> None:
        if self._owned:
            self._spark.stop()

    @contextmanager
    def _limited(self, seconds: float) -> Iterator[None]:
        """The block's Spark jobs are cancelled after so long; raises Cut."""
        context = self._spark.sparkContext
        context.setJobGroup(_GROUP, "bench viewdf", interruptOnCancel=True)
        try:
            with limited(seconds, lambda: context.cancelJobGroup(_GROUP)):
                yield
        finally:  # the thread's later jobs, perhaps somebody else's, are not of this group
            for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                context.setLocalProperty(name, None)  # type: ignore[arg-type]

    def _write(self, frame: DataFrame, name: str) -> None:
        frame.write.mode("overwrite").parquet(str(self._folder / name))

    def _read(self, *names: str) -> DataFrame:
        return self._spark.read.parquet(*(str(self._folder / name) for name in names))


class SparkNaive(_OnSpark):
    """Spark SQL computes the view's part from Parquet files of all parts that it needs."""

    name: ClassVar[str] = "Spark SQL, recomputing"
    is_naive: ClassVar[bool] = True

    @cached_property
    def _parts(self) -> StoredParts:
        return StoredParts(self._folder / "parts", self._minutes)

    def fill(self, first: int, last: int) -> int:
        """Nothing is kept: parts are made when they are read."""
        return ALWAYS

    def take(self, part: int, limit: float) -> float:
        paths, self._last = self._parts.paths(part - self._question.window + 1, part), part
        with self._limited(limit):
            begun = time.perf_counter()
            self._spark.read.parquet(*paths).createOrReplaceTempView("m")
            query = naive_sql(self._question, "m", "unix_timestamp(ts) DIV 60", part)
            self._write(self._spark.sql(query), "view")
        return time.perf_counter() - begun


class HandCoded(_OnSpark):
    """A PySpark program for this view alone: helper parts as Parquet, each from the last one and the new rows.

    Pattern: runs so far, joined with the new rows.  SUM: the groups of each part; the running sums, with the newest
    part added and the oldest taken away.  MAX: the groups of each part, merged over the window.
    """

    name: ClassVar[str] = "PySpark by hand"
    is_naive: ClassVar[bool] = False

    @cached_property
    def _parts(self) -> StoredParts:
        return StoredParts(self._folder / "parts", self._minutes)

    def fill(self, first: int, last: int) -> int:
        """Windows: writes what the program would have written, by NumPy."""
        if self._question.kind == "pattern":
            return last + 1
        each = np.full(self._minutes.pairs, self._minutes.each)
        running = np.zeros(self._minutes.pairs, np.int64)
        for part in range(max(first, last - self._question.window), last + 1):
            values = self._minutes.aggregated(part, self._question.kind)
            if part > last - self._question.window:
                running += values
            write_files(self._minutes.groups([values, each]), self._folder / f"part-{part}")
        if self._question.kind == "sum":
            sums = self._minutes.groups([running, each * self._question.window])
            write_files(sums, self._folder / f"running-{last}")
        return first

    def take(self, part: int, limit: float) -> float:
        (path,) = self._parts.paths(part, part)
        self._last = part
        advance = {"pattern": self._match, "sum": self._slide, "max": self._merge}[self._question.kind]
        with self._limited(limit):
            begun = time.perf_counter()
            advance(self._spark.read.parquet(path), part)
        seconds = time.perf_counter() - begun
        for name in (f"helper-{part - 1}", f"running-{part - 1}", f"part-{part - self._question.window - 1}"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
        return seconds

    def _match(self, new: DataFrame, part: int) -> None:
        from pyspark.sql import functions as f

        new = new.where("loss > 10").select("src", "dest", "loss")
        if (self._folder / f"helper-{part - 1}").exists():
            new = new.join(self._read(f"helper-{part - 1}"), ["src", "dest"], "left")
        else:
            new = new.withColumns({"ct": f.lit(None).cast("long"), "sum_loss": f.lit(None).cast("long")})
        runs = new.selectExpr("src", "dest", "coalesce(ct, 0L) + 1 AS ct", "coalesce(sum_loss, 0L) + loss AS sum_loss")
        self._write(runs, f"helper-{part}")
        self._write(self._read(f"helper-{part}").where("ct >= 4"), "view")

    def _aggregate(self, new: DataFrame, part: int) -> None:
        from pyspark.sql import functions as f

        function = f.sum if self._question.kind == "sum" else f.max
        groups = new.groupBy("src", "dest").agg(function("loss").cast("long").alias("x0"), f.count("*").alias("x1"))
        self._write(groups, f"part-{part}")

    def _slide(self, new: DataFrame, part: int) -> None:
        from pyspark.sql import functions as f

        self._aggregate(new, part)
        left = f"part-{part - self._question.window}"
        running = self._read(f"part-{part}")
        if (self._folder / f"running-{part - 1}").exists():
            running = running.unionByName(self._read(f"running-{part - 1}"))
        if (self._folder / left).exists():
            running = running.unionByName(self._read(left).selectExpr("src", "dest", "-x0 AS x0", "-x1 AS x1"))
        running = running.groupBy("src", "dest").agg(f.sum("x0").alias("x0"), f.sum("x1").alias("x1")).where("x1 > 0")
        self._write(running, f"running-{part}")
        self._write(self._read(f"running-{part}").selectExpr("src", "dest", "x0 AS x"), "view")

    def _merge(self, new: DataFrame, part: int) -> None:
        from pyspark.sql import functions as f

        self._aggregate(new, part)
        names = [f"part-{i}" for i in range(part - self._question.window + 1, part + 1)]
        parts = self._read(*(name for name in names if (self._folder / name).exists()))
        self._write(parts.groupBy("src", "dest").agg(f.max("x0").alias("x")), "view")


class SparkStreaming(_OnSpark):
    """Spark's own sliding window aggregate: a micro-batch a part, from its file's appearing until no more is to do.

    Its state (RocksDB) holds all windows in which rows may yet come: after the first part as many as ever.  A window is
    given out when the watermark has passed its end, that is with the next part's micro-batch.
    """

    name: ClassVar[str] = "Spark Structured Streaming"
    is_naive: ClassVar[bool] = False

    def take(self, part: int, limit: float) -> float:
        hidden, self._last = self._folder / "parts" / f".{part}.parquet", part - 1
        hidden.parent.mkdir(exist_ok=True)
        pq.write_table(self._minutes.part(part), hidden, row_group_size=1 << 20)
        query = self._query
        with limited(limit, query.stop):
            begun = time.perf_counter()
            hidden.rename(hidden.with_name(f"{part}.parquet"))
            query.processAllAvailable()
        return time.perf_counter() - begun

    @cached_property
    def _query(self) -> Any:
        from pyspark.sql import functions as f

        self._spark.conf.set("spark.sql.streaming.stateStore.providerClass",
                             "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")  # fmt: skip
        rows = (self._spark.readStream.schema("ts TIMESTAMP, src STRING, dest STRING, loss INT")
                .option("maxFilesPerTrigger", 1).parquet(str(self._folder / "parts")))  # fmt: skip
        window = f.window("ts", f"{self._question.window} minutes", "1 minute")
        function = f.sum if self._question.kind == "sum" else f.max
        slid = rows.withWatermark("ts", "0 seconds").groupBy(window, "src", "dest").agg(function("loss").alias("x"))
        given = slid.select(f.unix_timestamp("window.end").alias("until"), "src", "dest", "x")
        written = given.writeStream.format("parquet").option("path", str(self._folder / "view")).outputMode("append")
        return written.option("checkpointLocation", str(self._folder / "checkpoint")).start()

    def rows(self) -> tuple[int, pa.Table]:
        given = self._spark.read.parquet(str(self._folder / "view")).where(f"until = {60 * (self._last + 1)}")
        return self._last, given.select("src", "dest", "x").toArrow()

    def close(self) -> None:
        if "_query" in self.__dict__:
            self._query.stop()
        super().close()
