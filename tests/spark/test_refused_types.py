"""Types that no column can have: what is said, and that what is advised can be done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import viewkeeper
from viewkeeper import Database, DeclarationError
from viewkeeper.errors import Error

pytestmark = pytest.mark.spark

POINT = "X'0101000000000000000000F03F0000000000000040'"
REFUSED = {
    "parse_json(x)": ("VARIANT, which no column can have; take a value out of it with variant_get", "to_json({})"),
    "array(parse_json(x))": (r"ARRAY<VARIANT>, which no column can have: it holds VARIANT; take", "to_json({}[0])"),
    "make_interval(0, k)": ("INTERVAL, which no column can have; write CAST", "CAST({} AS STRING)"),
    "map('a', make_interval(0, k))": ("it holds INTERVAL; write CAST", "CAST({}['a'] AS STRING)"),
    "x COLLATE UTF8_LCASE": ("STRING COLLATE UTF8_LCASE, which no column can have; .* COLLATE UTF8_BINARY",
                             "({}) COLLATE UTF8_BINARY"),
    f"st_geomfromwkb({POINT})": (r"GEOMETRY\(0\), which no column can have; write st_asbinary", "st_asbinary({})"),
    "TIME'10:00:00'": (r"TIME\(6\), which no column can have; write CAST\(... AS STRING\)", "CAST({} AS STRING)"),
}  # fmt: skip

BY_CHANCE = {
    "SELECT (x COLLATE UTF8_LCASE) COLLATE UTF8_BINARY AS c, count(*) AS n FROM t "
    "GROUP BY x COLLATE UTF8_LCASE": "GROUP BY",
    "SELECT CAST(c AS STRING) AS c FROM (SELECT DISTINCT x COLLATE UTF8_LCASE AS c FROM t)": "DISTINCT",
    "SELECT max(x COLLATE UTF8_LCASE) COLLATE UTF8_BINARY AS m FROM t": "max",
    "SELECT max_by(k, x COLLATE UTF8_LCASE) AS m FROM t": "max_by",
    "SELECT CAST(c AS STRING) AS c FROM (SELECT x COLLATE UTF8_LCASE AS c FROM t "
    "INTERSECT SELECT x COLLATE UTF8_LCASE FROM t)": "INTERSECT",
    "SELECT k FROM (SELECT k, x COLLATE UTF8_LCASE AS c FROM t ORDER BY c LIMIT 1)": "LIMIT",
}  # fmt: skip

SETTLED = {
    "SELECT count(*) AS n FROM t GROUP BY x COLLATE UTF8_LCASE": [1, 2],
    "SELECT count(DISTINCT x COLLATE UTF8_LCASE) AS n FROM t": [2],
    "SELECT max(length(x COLLATE UTF8_LCASE)) AS n FROM t": [1],
    "SELECT count(*) AS n FROM t GROUP BY x COLLATE UTF8_LCASE = 'A'": [1, 2],
    "SELECT DISTINCT x COLLATE UTF8_LCASE = 'A' AS n FROM t": [False, True],
    "SELECT a.k FROM t a JOIN t b ON a.x COLLATE UTF8_LCASE = b.x AND a.k < b.k": [1],
    "SELECT k FROM t ORDER BY x COLLATE UTF8_LCASE DESC, k LIMIT 2": [1, 3],
}  # fmt: skip


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql("CREATE TABLE t (k INT PRIMARY KEY, x STRING)")
        database.table("t").put_many([{"k": 1, "x": "a"}, {"k": 2, "x": "A"}, {"k": 3, "x": "b"}])
        yield database


def test_refused_types_are_named_with_a_remedy_that_works(db: Database) -> None:
    for value, (message, _) in REFUSED.items():
        with pytest.raises(DeclarationError, match=f"the column v is of type .*{message}"):
            db.sql(f"CREATE VIEW refused AS SELECT k, {value} AS v FROM t")
    db.sql("UPDATE t SET x = '1'")
    remedies = [remedy.format(value) for value, (_, remedy) in REFUSED.items()]
    db.sql("; ".join(f"CREATE VIEW v{i} AS SELECT k, {remedy} AS v FROM t" for i, remedy in enumerate(remedies)))
    db.catch_up()
    assert {each.verdict for each in db.check_all([f"v{i}" for i in range(len(remedies))])} == {"right"}
    for value in ("parse_json(x)", "array(make_interval(0, k))"):
        with pytest.raises(Error, match=r"the column v is of type .*(parse_json reads|make_dt_interval)$"):
            db.sql(f"SELECT {value} AS v FROM t")


def test_what_a_collation_finds_equal_is_shown_where_the_rows_settle_it(db: Database) -> None:
    for query, named in BY_CHANCE.items():
        with pytest.raises(DeclarationError, match=named):
            db.sql(f"CREATE VIEW refused AS {query}")
    db.sql("; ".join(f"CREATE VIEW v{i} AS {query}" for i, query in enumerate(SETTLED)))
    db.catch_up()
    for i, (query, values) in enumerate(SETTLED.items()):
        assert sorted(row for (row,) in (each.values() for each in db.sql(f"SELECT * FROM v{i}"))) == values, query
    assert {each.verdict for each in db.check_all([f"v{i}" for i in range(len(SETTLED))])} == {"right"}
