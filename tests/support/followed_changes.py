"""Changes of a table that come as files, which Spark reads as a stream, here or in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import viewkeeper

SCHEMA = "id INT, a INT, b STRING, op STRING"


class Changes:
    """A folder of JSON-lines files and the streaming DataFrame of them, one file a micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._spark, self._folder = spark, folder

    def add(self, *rows: dict[str, Any]) -> None:
        number = sum(1 for _ in self._folder.glob("*.json"))
        hidden = self._folder / f".{number}.tmp"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        # Spark takes files in the order of their times, which are counted in seconds or milliseconds.
        os.utime(hidden, (1_700_000_000 + 10 * number,) * 2)
        hidden.rename(self._folder / f"{number}.json")

    def df(self) -> DataFrame:
        return self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self._folder))


def follow_for_ever(root: str, folder: str) -> None:
    """Run in a process of its own: follow until killed."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    with (
        viewkeeper.connect(root, durability="process") as db,
        db.table("t").follow(Changes(session, Path(folder)).df(), name="f", op="op") as running,
    ):
        print("following", flush=True)
        running.wait()
