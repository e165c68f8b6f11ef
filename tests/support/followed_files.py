"""A folder of files that a stream follows, here or in a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from stream_intake import Intake
from viewkeeper.streams.spark.follow import Follow, StreamFollow, follow


def followed(intake: Intake, df: DataFrame, name: str = "f", **more: object) -> Follow:
    return follow(StreamFollow(intake.target), df, name, **more)  # type: ignore[arg-type]


class Files:
    """A folder of CSV files of whole numbers, and the streaming DataFrame of them, one file a micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._spark, self._folder = spark, folder

    def add(self, *numbers: int) -> None:
        hidden = self._folder / f".{numbers[0]}.csv"
        hidden.write_text("".join(f"{n}\n" for n in numbers))
        hidden.rename(self._folder / f"{numbers[0]}.csv")

    def df(self) -> DataFrame:
        read = self._spark.readStream.schema("n INT").option("maxFilesPerTrigger", 1).csv(str(self._folder))
        return read.selectExpr("timestamp_seconds(n) AS ts", "n AS loss")


def follow_for_ever(root: str, folder: str) -> None:
    """Run in a process of its own: follow until killed."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    with followed(Intake(Path(root)), Files(session, Path(folder)).df()) as running:
        print("following", flush=True)
        running.wait()
