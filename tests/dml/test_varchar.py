"""VARCHAR(n) of tables: what is cut off, and what is too long, whichever way a text comes in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pytest

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database, DeclarationError, InputError
from viewkeeper.catalog.text_lengths import fitted, fitted_one
from viewkeeper.catalog.types import Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARCHAR3 = Type("VARCHAR", 3)
TEXTS = ["", " ", "ab", "abc", "ab ", "abc  ", "abcd", "a    ", "     ", "abc d", "abc\t", "é\U0001f600é",
         "é\U0001f600é ", "é\U0001f600éé", "abc\u00a0"]  # fmt: skip


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql("""CREATE TABLE t (k VARCHAR(3) PRIMARY KEY, v VARCHAR(3) NOT NULL DEFAULT 'new  ');
                        CREATE TABLE texts (s STRING); CREATE VIEW by_key AS SELECT k, upper(v) AS v FROM t""")
        yield database


def test_one_text_and_many_are_cut_alike() -> None:
    kept, too_long = fitted(pa.array([*TEXTS, None], pa.large_string()), VARCHAR3)
    assert [None if bad else text for text, bad in zip(kept.to_pylist(), too_long, strict=True)] == [
        *(fitted_one(text, VARCHAR3) for text in TEXTS), None]  # fmt: skip


@pytest.mark.spark
def test_spark_cuts_and_refuses_alike(spark: SparkSession) -> None:
    kept = {i: fitted_one(text, VARCHAR3) for i, text in enumerate(TEXTS)}
    spark.sql("CREATE TABLE as_varchar (i INT, v VARCHAR(3)) USING parquet")
    try:
        for i, text in enumerate(TEXTS):
            rows = spark.createDataFrame([(i, text)], "i INT, v STRING")
            if kept[i] is None:
                with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
                    rows.write.insertInto("as_varchar")
            else:
                rows.write.insertInto("as_varchar")
        found = {row.i: row.v for row in spark.table("as_varchar").collect()}
    finally:
        spark.sql("DROP TABLE as_varchar")
    assert found == {i: text for i, text in kept.items() if text is not None}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_cut_or_refused_whichever_way_it_comes(db: Database, text: str) -> None:
    t, kept = db.table("t"), fitted_one(text, VARCHAR3)
    db.table("texts").put({"s": text})
    ways = [
        lambda: t.put({"k": text, "v": text}),
        lambda: t.put_many([{"k": text, "v": text}]),
        lambda: t.put_many(pa.table({"k": [text], "v": [text]})),
        lambda: t.put_many(pd.DataFrame({"k": [text], "v": [text]})),
        lambda: db.sql("INSERT INTO t VALUES (:s, :s)", s=text),
        lambda: db.sql("INSERT INTO t SELECT s, s FROM texts"),
        lambda: db.sql("MERGE INTO t USING texts ON k = s WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s, s)"),
    ]
    for way in ways:
        if kept is None:
            with pytest.raises(InputError, match=r"VARCHAR\(3\)"):
                way()
        else:
            way()
        catch_up(db)
        assert list(db.sql("SELECT k, v FROM t")) == ([] if kept is None else [{"k": kept, "v": kept}])
        assert [row["v"] for row in db.view("by_key").rows()] == ([] if kept is None else [kept.upper()])
        db.sql("DELETE FROM t")


def test_update_cuts_and_refuses(db: Database) -> None:
    db.sql("INSERT INTO t (k) VALUES ('a'), ('b')")
    db.sql("UPDATE t SET v = concat(v, '   ') WHERE k = 'a'")
    with pytest.raises(InputError, match=r"column v, which begins with 'new', is longer than VARCHAR\(3\)"):
        db.sql("UPDATE t SET v = concat(v, '!')")
    with pytest.raises(InputError, match=r"two rows would have the key k = 'x'|already"):
        db.sql("UPDATE t SET k = CASE k WHEN 'a' THEN 'x' ELSE 'x' END")
    with pytest.raises(InputError, match="k = 'abc'"):
        db.sql("INSERT INTO t (k) VALUES ('abc'), ('abc ')")
    catch_up(db)
    assert sorted(row["v"] for row in db.sql("SELECT v FROM t")) == ["new", "new"]


def test_columns_are_added_and_described_with_their_length(db: Database) -> None:
    db.sql("INSERT INTO t (k) VALUES ('a'); ALTER TABLE t ADD COLUMN w VARCHAR(2) DEFAULT 'x  '")
    catch_up(db)
    assert list(db.sql("SELECT v, w, length(w) AS n FROM t")) == [{"v": "new", "w": "x ", "n": 2}]
    described = {row["col_name"]: row["data_type"] for row in db.sql("DESCRIBE t")}
    assert described == {"k": "varchar(3)", "v": "varchar(3)", "w": "varchar(2)"}
    with pytest.raises(DeclarationError, match=r"the DEFAULT of w is longer than VARCHAR\(2\).* \(line 1, column 42\)"):
        db.sql("ALTER TABLE t ALTER COLUMN w SET DEFAULT 'xyz'")
    with pytest.raises(DeclarationError, match=r"the DEFAULT of c is longer than VARCHAR\(1\)"):
        db.sql("CREATE TABLE u (c VARCHAR(1) DEFAULT 'xy')")
    db.close()
    with viewkeeper.connect(db.root) as again, pytest.raises(InputError, match=r"VARCHAR\(2\)"):
        again.table("t").put({"k": "b", "w": "xyz"})
