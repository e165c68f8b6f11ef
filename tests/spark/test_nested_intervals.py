"""Intervals of every type within arrays, structs and maps: put, computed here and by Spark, and handed back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import viewkeeper
from viewkeeper import InputError

pytestmark = pytest.mark.spark

DECLARED = """
CREATE TABLE t (k INT PRIMARY KEY, im INTERVAL MONTH, iy INTERVAL YEAR TO MONTH, ih INTERVAL HOUR,
  a ARRAY<INTERVAL YEAR TO MONTH>, s STRUCT<`d d`: INTERVAL DAY, m: MAP<STRING, INTERVAL YEAR>>);
CREATE VIEW here AS SELECT k, array(im, im) AS am, struct(ih, iy) AS both, map('x', iy) AS mm, get(a, 0) AS a0,
  s.m AS sm, a FROM t;
CREATE VIEW by_spark AS SELECT k, transform(a, x -> x + INTERVAL 1 MONTH) AS more, CAST(a AS STRING) AS of_a,
  CAST(s AS STRING) AS of_s, array_max(a) AS greatest, array_repeat(ih, 2) AS hours FROM t;
CREATE VIEW above AS SELECT k, am, CAST(am AS STRING) AS of_am, CAST(both AS STRING) AS of_both FROM here;
CREATE VIEW grouped AS SELECT a, count(*) AS n, max(CAST(s AS STRING)) AS greatest, sort_array(collect_set(iy)) AS iys
  FROM t GROUP BY a;
CREATE VIEW whole AS SELECT x.k, x.a, x.s, y.mm FROM t x JOIN (SELECT mode(iy) AS iy, map(1, max(iy)) AS mm FROM t) y
  ON array_max(x.a) <> y.iy
"""
VIEWS = ("here", "by_spark", "above", "grouped", "whole")


def test_views_hold_what_spark_says_in_its_types(tmp_path: Path) -> None:
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(DECLARED)
        held = {"d d": timedelta(days=3), "m": {"q": 24}}
        db.table("t").put_many([
            {"k": 1, "im": 3, "iy": "1-2", "ih": timedelta(hours=5), "a": [1, None, "2-3"], "s": held}, {"k": 2},
            {"k": 3, "a": [], "s": {"d d": None, "m": {}}},
        ])  # fmt: skip
        db.sql("INSERT INTO t (k, a, s) SELECT k + 10, a, s FROM t WHERE k = 1")
        for value, reason in (({"d d": timedelta(hours=3)}, "field d d: 3:00:00 is no INTERVAL DAY"),
                              ({"m": {"a": 7}}, "field m: value of 'a': 7 is no INTERVAL YEAR")):  # fmt: skip
            with pytest.raises(InputError, match=reason):
                db.table("t").put({"k": 9, "s": value})
        db.catch_up()
        assert {each.verdict for each in db.check_all(VIEWS)} == {"right"}
        (row,) = (row for row in db.view("here").rows() if row["k"] == 1)
        assert row == {"k": 1, "am": [3, 3], "both": {"ih": timedelta(hours=5), "iy": 14}, "mm": [("x", 14)], "a0": 1,
                       "sm": [("q", 24)], "a": [1, None, 27]}  # fmt: skip
        (row,) = (row for row in db.view("by_spark").rows() if row["k"] == 1)
        assert (row["more"], row["hours"]) == ([2, None, 28], [timedelta(hours=5)] * 2)
        described = {row["col_name"]: row["data_type"] for row in db.sql("DESCRIBE by_spark")}
        assert (described["more"], described["hours"]) == ("array<interval year to month>", "array<interval hour>")
        for query in ("SELECT k, a, s, CAST(a AS STRING) AS x, CAST(s AS STRING) AS y FROM t", "SELECT * FROM whole"):
            assert sorted(map(str, db.sql(query))) == sorted(map(str, db.sql(query, engine="spark")))


def test_intervals_beside_chars_are_sparks_own_too(tmp_path: Path) -> None:
    """The length of the text stood in the place of the interval's type, and Spark was given a number of another one."""
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, st STRUCT<c: CHAR(3), y: INTERVAL YEAR, h: INTERVAL HOUR>)")
        db.sql("INSERT INTO t SELECT 1, struct('a', INTERVAL 2 YEAR, INTERVAL 3 HOUR)")
        db.catch_up()
        query = "SELECT st.c = 'a  ' AS c, typeof(st.y) AS y, typeof(st.h) AS h, st.y = INTERVAL 2 YEAR AS same FROM t"
        assert list(db.sql(query, engine="spark")) == [
            {"c": True, "y": "interval year", "h": "interval hour", "same": True}
        ]
