"""Tables of HBase on Spark: logs read by its workers, and views checked with its own answers."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import viewkeeper
from hbase_rows import HBaseRows
from store_servers import unique
from viewkeeper.servers import HBase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stores, pytest.mark.spark]


@pytest.mark.parametrize("chained", [300_000, 0], ids=["one task", "parts apart"])
def test_views_over_a_table_are_kept_by_spark(
    spark: SparkSession, hbase: HBase, tmp_path: Path, chained: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewkeeper.pipeline.batches.CHAINED_MAX", chained)
    chance = random.Random(5)
    with (
        closing(HBaseRows(hbase, unique("spark"))) as rows,
        viewkeeper.connect(tmp_path / "db", durability="process") as db,
    ):
        rows.change(chance, 100)
        db.sql(rows.declared("CREATE VIEW spend AS SELECT customer, count(*) AS n FROM orders GROUP BY customer"))
        with db.maintain(servers=2):
            for _ in range(3):
                rows.change(chance, 60)
                db.catch_up(timeout=60)
                counts = Counter(customer for customer, _, _ in rows.rows().values())
                assert {row["customer"]: row["n"] for row in db.view("spend").rows()} == counts
            token = db.table("orders").put({"id": 1, "customer": 77})
            assert db.view("spend").get(77, after=token) == {"customer": 77, "n": 1}
        assert [report.problem for report in db.check_all()] == [""]
