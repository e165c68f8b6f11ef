"""Fixtures that all tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings

from viewkeeper.pipeline.spark import JAVA_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests marked `spark`."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run whatever python3 is on the PATH
    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("viewkeeper tests")
        .config("spark.ui.enabled", "false")
        # Some tests count jobs and stages, late in a run of thousands: Spark forgets the oldest beyond these.
        .config("spark.ui.retainedJobs", "100000")
        .config("spark.ui.retainedStages", "100000")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.driver.defaultJavaOptions", JAVA_OPTIONS)
        .getOrCreate()
    )
    yield session
    session.stop()


settings.register_profile("no-shrink", phases=[Phase.explicit, Phase.reuse, Phase.generate])
