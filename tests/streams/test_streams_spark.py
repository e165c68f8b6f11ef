"""Parts come to Spark as DataFrames, and to any query that Spark can run."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database, DeclarationError, NotReady
from viewkeeper.streams.spark.sessions import SMALL_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STREAM = "CREATE STREAM M (ts TIMESTAMP NOT NULL, src STRING, loss INT) TIMESTAMP BY ts PARTITION LENGTH 60"


def rows(minute: int, sources: str = "ab") -> list[dict[str, Any]]:
    return [{"ts": f"2015-01-01 10:{minute:02}:00", "src": src, "loss": minute} for src in sources]


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "net", zone="Asia/Kolkata") as database:
        database.sql(f"{STREAM}; CREATE TABLE hosts (name STRING, site STRING, PRIMARY KEY (name))")
        database.table("hosts").put({"name": "a", "site": "north"})
        database.stream("M").append([*rows(0), *rows(1, "bc"), *rows(3)])
        database.stream("M").seal(database.stream("M").subscript_at("2015-01-01 10:03"))
        catch_up(database)
        yield database


def first(db: Database) -> int:
    return db.stream("M").subscript_at("2015-01-01 10:00")


def test_a_part_and_a_range_and_all_come_to_spark(db: Database) -> None:
    m, i = db.stream("M"), first(db)
    assert dict(m.part(i).to_spark().dtypes) == {"ts": "timestamp", "src": "string", "loss": "int"}
    assert [m.part(i).to_spark().count(), m.parts(i, i + 2).to_spark().count(), m.to_spark().count()] == [2, 4, 6]
    assert m.part(i + 2).to_spark().toArrow().num_rows == 0
    (row,) = m.part(i).to_spark().where("src = 'a'").toArrow().to_pylist()
    assert row == next(each for each in m.part(i) if each["src"] == "a")


def test_spark_runs_any_query_over_parts(db: Database) -> None:
    i = first(db)
    text = f"""WITH both AS (SELECT New.src, Prev.loss AS before FROM M[{i + 1}] AS New
                             LEFT JOIN M[{i}] AS Prev ON New.src = Prev.src)
               SELECT b.src, before, site FROM both b LEFT JOIN hosts ON name = b.src ORDER BY b.src;"""
    assert list(db.sql(text, engine="spark")) == [
        {"src": "b", "before": 0, "site": None}, {"src": "c", "before": None, "site": None}]  # fmt: skip
    with db.snapshot() as snapshot:
        (found,) = snapshot.sql(f"SELECT count(*) AS n FROM m[{i}..{i + 3}] WHERE loss < 3", engine="spark")
        assert found == {"n": 4}


def test_part_timestamp_is_hidden_from_spark_too(db: Database) -> None:
    assert db.sql("SELECT * FROM M LIMIT 1", engine="spark").columns == ["ts", "src", "loss"]
    query = "SELECT PART_TIMESTAMP, count(*) AS n FROM M GROUP BY PART_TIMESTAMP ORDER BY 1"
    mine, sparks = db.sql(query).to_arrow(), db.sql(query, engine="spark").to_arrow()
    assert mine.to_pylist() == sparks.to_pylist()
    assert mine.column(0)[0].as_py() == datetime.datetime(2015, 1, 1, 4, 30, tzinfo=datetime.UTC)
    natural = db.sql(f"SELECT count(*) AS n FROM M[{first(db)}] NATURAL JOIN M[{first(db) + 1}] AS b", engine="spark")
    assert list(natural) == [{"n": 0}]


def test_what_spark_cannot_read_is_refused_by_name(db: Database) -> None:
    with pytest.raises(NotReady, match=rf"M\[{first(db) + 4}\] is not sealed yet"):
        db.sql(f"SELECT * FROM M[{first(db) + 4}]", engine="spark")
    with pytest.raises(DeclarationError, match="hosts has no parts"):
        db.sql(f"SELECT * FROM hosts[5] JOIN M[{first(db)}] AS m ON true", engine="spark")
    assert list(db.sql("SELECT array(7, 8)[1] AS x", engine="spark")) == [{"x": 8}]
    assert list(db.sql("SELECT split(src, '')[0] AS x FROM M LIMIT 0", engine="spark")) == []


def test_a_large_dataframe_shows_its_version_whatever_is_repaired(db: Database) -> None:
    m, many = db.stream("M"), SMALL_ROWS + 5
    late = pa.table({"ts": pa.array(["2015-01-01 10:01:00"] * many), "loss": pa.array(range(many), pa.int32())})
    m.append(late)
    catch_up(db)
    with db.snapshot() as snapshot:
        before, whole = snapshot.stream("M").part(first(db) + 1).to_spark(), m.to_spark()
        m.append(late)
        catch_up(db)
        assert before.count() == many + 2
    assert whole.count() == many + 6
    assert m.to_spark().count() == 2 * many + 6
