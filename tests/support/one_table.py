"""A query over one table of a few rows, by our operators, by the checker and by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bags import bag
from viewkeeper.catalog.model import Scannable
from viewkeeper.catalog.types import logical_type, to_logical, to_physical
from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.maintenance.ad_hoc import run_query
from viewkeeper.plans.relations import Relation
from viewkeeper.spark.tables import local
from viewkeeper.spark.types import spark_type
from viewkeeper.trace.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answered_twice(
    relation: Relation, scan: Scannable, rows: Sequence[tuple[Any, ...]], zone: str = "UTC"
) -> list[tuple[Any, ...]]:  # fmt: skip
    """What our operators and the checker say over the `rows` of `scan`, which is the same."""
    columns = [pa.array([row[i] for row in rows], logical_type(c.type, zone)) for i, c in enumerate(scan.columns)]
    physical = [to_physical(array, c.type) for array, c in zip(columns, scan.columns, strict=True)]
    found = run_query(relation, lambda id_: Rows(physical, np.ones(len(rows), dtype=np.int64)), zone).repeated()
    arrays = zip(found.columns, relation.columns, strict=True)
    logical = [to_logical(array, c.type, zone).to_pylist() for array, c in arrays]
    answer = list(zip(*logical, strict=True))
    judged = evaluate(relation, {scan.id: Answer(list(rows))}, zone)
    assert not judged.errors and bag(answer) == bag(judged.rows)
    return answer


def show(spark: SparkSession, scan: Scannable, rows: Sequence[tuple[Any, ...]]) -> None:
    """Makes `rows` the table `t` of the session: a local relation, of which no query needs a worker."""
    from pyspark.sql.types import StructField, StructType

    columns = [pa.array([row[i] for row in rows], logical_type(c.type)) for i, c in enumerate(scan.columns)]
    schema = StructType([StructField(c.name, spark_type(c.type), c.nullable) for c in scan.columns])
    frame = local(spark, pa.table(columns, [c.name for c in scan.columns]), schema)
    frame.coalesce(1).createOrReplaceTempView("t")
