"""Rows in files: what stands in them is read as the columns are declared."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

import viewkeeper
from viewkeeper import Database, InputError


@pytest.fixture
def db(tmp_path: Path) -> Database:
    database = viewkeeper.connect(tmp_path / "db")
    database.sql(
        "CREATE TABLE t (k STRING, n INT, PRIMARY KEY (k)); CREATE STREAM m (ts TIMESTAMP NOT NULL, src STRING, "
        "loss INT, p DECIMAL(9,2)) TIMESTAMP BY ts PARTITION LENGTH 60"
    )
    return database


def test_texts_of_a_csv_file_mean_what_the_columns_are_declared_as(db: Database, tmp_path: Path) -> None:
    """Digits in a STRING stay text, decimals are exact, and only rows with a value of another type are rejected."""
    file = tmp_path / "m.csv"
    file.write_text("TS,src,loss,p\n2015-01-01 10:00,007,14,1.10\n2015-01-01 10:01,1,abc,2\n,2,3,1\n"
                    "2015-01-01 10:02,,,2.5\n2015-01-01 10:03,x,2.5,1\n")  # fmt: skip
    (done,) = db.stream("m").load(file)
    assert (done.stored, done.rejected) == (2, 3)
    rows = [(row["src"], row["loss"], row["p"]) for row in db.stream("m").open().to_arrow().to_pylist()]
    assert rows == [("007", 14, Decimal("1.10")), (None, None, Decimal("2.50"))]


def test_json_lines_whose_types_change_are_judged_one_by_one(db: Database, tmp_path: Path) -> None:
    """A line with a text where the others have numbers is rejected alone; one that is no JSON is named."""
    file = tmp_path / "m.jsonl"
    file.write_text('{"ts":"2015-01-01 10:00","loss":3}\n{"ts":"2015-01-01 10:00","loss":"x"}\n')
    (done,) = db.stream("m").load(file)
    assert (done.stored, done.rejected) == (1, 1)
    file.write_text('{"ts":"2015-01-01 10:00","loss":3}\n{"ts":"2015-01-01 10:00","loss":"x"}\n{"ts":\n')
    with pytest.raises(InputError, match="row 3"):
        list(db.stream("m").load(file))


def test_a_table_takes_digits_of_a_csv_file_as_text_where_it_says_so(db: Database, tmp_path: Path) -> None:
    """A key of type STRING may look like a number."""
    file = tmp_path / "t.csv"
    file.write_text("k,n\n1,1\n02,2\n")
    assert [count for count, _ in db.table("t").load(file)] == [2]
    assert db.table("t").get("02") == {"k": "02", "n": 2}
