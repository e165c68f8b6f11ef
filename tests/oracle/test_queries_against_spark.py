"""Random views and histories against Spark itself; `python -m oracle.against_spark` makes thousands of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oracle.against_spark import coverage, pairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_random_queries_with_a_history_are_what_spark_says(spark: SparkSession) -> None:
    """After every batch; most answers have rows, and most are judged by Spark."""
    reached = pairs(spark, 40, seed=7)
    print(coverage(reached))
    answers = sum(times for name, times in reached.items() if name.startswith("judged by "))
    assert reached["judged by spark"] > answers / 2 and reached["answers with rows"] > answers / 4
