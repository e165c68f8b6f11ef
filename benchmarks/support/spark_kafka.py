"""Spark's own source for Kafka, with a program in foreachBatch that keeps the newest row of each key, and the view."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from viewkeeper.pipeline.spark_executor import JAVA_OPTIONS
from viewkeeper.servers.fetching import jars
from viewkeeper.spark.starting import local_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_POM = Path(__file__).parent / "spark_kafka_pom.xml"
"""The source of Spark 4.2, which there is not of every Spark; it runs with the one that is installed."""

_ENVELOPE = "op STRING, before STRUCT<id: BIGINT>, after STRUCT<id: BIGINT, customer: INT, price: STRING>"


class ReadBySpark(NamedTuple):
    """Messages a second, that were read alone, and with the view kept from them, and how many orders that has."""

    alone: float
    kept: float
    orders: int


def read_by_spark(servers: str, topic: str, folder: Path, cores: int) -> ReadBySpark:
    """Reads all of a topic of envelopes twice, each time in as large batches as Spark likes; its start is not
    counted."""
    files = ",".join(map(str, sorted(jars("spark_kafka", megabytes=10, pom=_POM.read_bytes()).iterdir())))
    spark = local_spark(str(cores), "viewkeeper bench", {
        "spark.ui.enabled": "false", "spark.driver.memory": "4g", "spark.jars": files, "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.defaultJavaOptions": JAVA_OPTIONS, "spark.sql.shuffle.partitions": str(cores),
    })  # fmt: skip
    counted: list[int] = []

    def count(batch: DataFrame, _: int) -> None:
        counted.append(batch.count())

    def read(into: Callable[[DataFrame, int], None], name: str) -> float:
        options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
        frame = spark.readStream.format("kafka").options(**options).load()
        writer = frame.writeStream.foreachBatch(into).option("checkpointLocation", str(folder / name))
        started = time.perf_counter()
        writer.trigger(availableNow=True).start().awaitTermination()
        return time.perf_counter() - started

    try:
        alone = read(count, "alone")
        kept = _Kept(folder)
        with_view = read(kept.take, "kept")
        return ReadBySpark(sum(counted) / alone, sum(counted) / with_view, kept.orders())
    finally:
        spark.stop()


class _Kept:
    """The newest row of each key, and a view of them, in Parquet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state: Path | None = None

    def take(self, batch: DataFrame, number: int) -> None:
        """What a micro-batch changes."""
        from pyspark.sql import functions as f

        read = batch.select(f.from_json(f.col("value").cast("string"), _ENVELOPE).alias("e"), "offset")
        newest: Any = read.groupBy(f.coalesce("e.after.id", "e.before.id").alias("id")).agg(
            f.max_by(f.struct("e.op", "e.after.customer", f.col("e.after.price").cast("DECIMAL(15,2)").alias("price")),
                     "offset").alias("n"))  # fmt: skip
        rows = newest.where("n.op <> 'd'").select("id", "n.customer", "n.price")
        spark = batch.sparkSession
        if self._state is not None:
            rows = rows.union(spark.read.parquet(str(self._state)).join(newest, "id", "left_anti"))
        state = self._folder / f"state-{number}"
        rows.write.parquet(str(state))
        self._state = state
        view = spark.read.parquet(str(state)).groupBy("customer")
        view.agg(f.sum("price").alias("total"), f.count("*").alias("n")).write.mode("overwrite").parquet(
            str(self._folder / "view")
        )

    def orders(self) -> int:
        """How many there are by the view."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        return int(pc.sum(pq.read_table(self._folder / "view")["n"]).as_py())
