"""Tables of Cassandra on Spark: logs read by its workers, and views checked with its own answers."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cassandra.cluster import Session

import viewkeeper
from cassandra_rows import CassandraRows
from store_servers import unique
from viewkeeper.servers import Cassandra
from viewkeeper.servers.cassandra_log import CassandraLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stores, pytest.mark.spark]


@pytest.mark.parametrize("chained", [300_000, 0], ids=["one task", "parts apart"])
def test_views_over_a_table_are_kept_by_spark(
    spark: SparkSession, cassandra: Cassandra, cassandra_log: CassandraLog, cassandra_session: Session, tmp_path: Path,
    chained: int, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("viewkeeper.pipeline.batches.CHAINED_MAX", chained)
    chance, name = random.Random(5), unique("spark").replace("-", "_")
    rows = CassandraRows(cassandra_session, cassandra, [cassandra_log], name)
    rows.change(chance, 100, updates=False)
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(rows.declared("CREATE VIEW spend AS SELECT customer, count(*) AS n FROM orders GROUP BY customer"))
        with db.maintain(servers=2):
            for _ in range(3):
                rows.change(chance, 60)
                db.catch_up(timeout=60)
                counts = Counter(row["customer"] for row in rows.rows())
                assert {row["customer"]: row["n"] for row in db.view("spend").rows()} == counts
            token = db.table("orders").put({"id": 1, "customer": 77})
            assert db.view("spend").get(77, after=token) == {"customer": 77, "n": 1}
        assert [report.problem for report in db.check_all()] == [""]
