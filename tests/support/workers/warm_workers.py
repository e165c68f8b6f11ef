"""Spark's daemon, which forks its Python workers, with the modules loaded that they need: each worker would load them
anew for more than a second, and the tests start about a hundred."""

from __future__ import annotations

import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark import daemon

import viewkeeper.pipeline.spark_calls  # noqa: F401
import viewkeeper.pipeline.tasks  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
