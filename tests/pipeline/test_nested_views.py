"""Views with arrays, structs and maps among their columns."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import viewkeeper
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError
from viewkeeper.plans.maintenance import SparkAnswer, plan_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLE = """
CREATE TABLE t (id INT, s STRING, x DOUBLE, m DECIMAL(9, 2), d DATE, PRIMARY KEY (id));
CREATE TABLE n (a ARRAY<DOUBLE>, s STRUCT<k: STRING, v ARRAY<MAP<STRING, DECIMAL(20, 2)>>>, m MAP<INT, TIMESTAMP>);
"""

ON_THE_DELTA = {
    "parts": "SELECT id, split(s, ',') AS parts, array(x, -x, NULL) AS a, map(id, d, id + 10, NULL) AS m FROM t",
    "named": "SELECT id, to_json(struct(s, id AS i, t.m, array(x))) AS j, struct(s) AS s FROM t",
    "bags": "SELECT split(s, ',') AS parts, map('b', x, 'a', m) AS m FROM t",
    "grouped": "SELECT split(s, ',') AS parts, count(*) AS n FROM t GROUP BY split(s, ',')",
    "over_it": "SELECT p.id, size(p.parts) AS n, p.parts, element_at(p.m, 1) AS one FROM parts p JOIN t ON p.id = t.id",
    "equal": "SELECT p.id FROM parts p JOIN parts q ON p.parts = q.parts WHERE NOT p.a <=> q.a OR q.a IS NULL",
    "distinct_parts": "SELECT DISTINCT parts, a FROM parts",
    "structs": "SELECT id, named_struct('s', s, 'in', array(struct(m, d))) AS n, array(m) AS o FROM t",
    "lambdas": "SELECT transform(a, e -> e + 1) AS t, s.k, a[0] AS first FROM n WHERE s.k IS NOT NULL AND size(a) > 0",
    "taken": "SELECT s.k, count(*) AS n, sum(a[0]) AS x FROM n WHERE size(a) > 0 OR s.v[0]['b'] > 1 GROUP BY s.k",
    "elements": "SELECT id, e FROM parts LATERAL VIEW OUTER explode(parts) AS e",
    "words": "SELECT word, count(*) AS n FROM (SELECT explode(split(s, ',')) AS word FROM t) GROUP BY word",
    "within": "SELECT s.k, p, v['b'] AS b, 100 / size(v) AS x FROM n LATERAL VIEW posexplode(s.v) x AS p, v",
    "held": "SELECT a, s, m, size(a) AS n, map_keys(m) AS keys FROM n WHERE s IS NOT NULL",
    "counted_maps": "SELECT s.k, count(m) AS n, count(map('a', s.k)) AS made FROM n GROUP BY s.k",
    "held_arrays": "SELECT a, count(*) AS n, count(DISTINCT a) AS k FROM n GROUP BY a",
}  # fmt: skip
AS_A_WHOLE = {
    "sets": "SELECT m, sort_array(collect_set(s)) AS s, max(struct(id, s)) AS last FROM t GROUP BY m",
    "zipped": "SELECT id, to_json(arrays_zip(parts, a)) AS z FROM parts",
    "pairs": "SELECT id, explode(arrays_zip(parts, a)) AS pair FROM parts",
}  # fmt: skip
TEXTS = ["a,b", "", None, "a", ",", "é,b,c"]
NESTED = [
    {"a": [1.5, None, float("nan"), -0.0], "s": {"k": "é", "v": [{"b": "1.5", "a": None}, {}, None]}, "m": {300: None}},
    {"a": [], "s": ("x", []), "m": {2: "2024-03-31T00:30:00", 1: "0001-01-01T00:00:00"}},
    {"a": [1.5, None, float("nan"), 0.0], "s": {"v": None}, "m": {}},
    {"a": None, "s": None, "m": None},
    {"a": [None], "s": {"k": None, "v": [{"": "-3"}]}, "m": {1: "2024-03-31T00:30:00"}},
]
NUMBERS = [0.0, -0.0, float("nan"), None, 1.5]


@pytest.fixture(scope="module")
def database(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Database:
    folder = tmp_path_factory.mktemp("nested") / "db"
    with viewkeeper.connect(folder, durability="process") as database:
        database.sql(TABLE)
        change(database, random.Random(1))
        views = ON_THE_DELTA | AS_A_WHOLE
        database.sql(";".join(f"CREATE VIEW {name} AS {query}" for name, query in views.items()))
        database.catch_up()
        yield database


def change(database: Database, chance: random.Random) -> None:
    for _ in range(8):
        key = chance.randrange(6)
        if chance.random() < 0.3:
            database.table("t").delete(key)
        else:
            price, day = chance.choice(["1.5", None]), chance.choice(["2024-02-29", None])
            row = {"id": key, "s": chance.choice(TEXTS), "x": chance.choice(NUMBERS), "m": price, "d": day}
            database.table("t").put(row)
        nested = chance.choice(NESTED)
        if chance.random() < 0.4:
            database.table("n").delete(nested)
        else:
            database.table("n").put(nested)


def test_views_with_nested_columns_are_sparks_answer_after_every_batch(database: Database) -> None:
    """By what Spark says of the rows that a batch brings, and by its whole answers."""
    plan = plan_of(database._newest.version().catalog)
    by_spark = [operator.sql for operator in plan.operators if isinstance(operator, SparkAnswer)]
    assert sorted(by_spark) == sorted(AS_A_WHOLE.values())
    chance = random.Random(2)
    for _ in range(2):
        change(database, chance)
        database.catch_up()
        assert [str(report) for report in database.check_all() if not report.ok] == []


def test_nested_values_are_read_as_lists_dicts_and_arrow(database: Database) -> None:
    """Also by key."""
    database.table("t").put({"id": 1, "s": "a,b", "x": -0.0, "m": "2", "d": "2024-02-29"})
    database.catch_up()
    row = database.view("parts").get(1)
    assert row is not None and row["parts"] == ["a", "b"] and row["a"] == [0.0, 0.0, None]
    assert dict(row["m"])[11] is None
    table = database.view("structs").to_arrow()
    assert table.schema.field("n").type.field("in").type == pa.list_(
        pa.struct([("m", pa.decimal128(9, 2)), ("d", pa.date32())])
    )
    assert len(database.view("bags").to_pandas()) == len(table)
    (grouped,) = database.sql("SELECT n FROM grouped WHERE parts = (SELECT parts FROM parts WHERE id = 1)")
    assert grouped["n"] >= 1


@pytest.mark.parametrize("told_apart", ["SELECT DISTINCT m FROM n", "SELECT m FROM n EXCEPT ALL SELECT NULL FROM n"])
def test_maps_cannot_be_told_apart_in_a_query_that_nothing_reads_either(database: Database, told_apart: str) -> None:
    """Spark looks at all of WITH: it refused the view, which was accepted here, when it was checked."""
    for query in (told_apart, f"WITH w AS ({told_apart}) SELECT id FROM t"):
        with pytest.raises(DeclarationError, match="MAP type columns"):
            database.sql(f"CREATE VIEW maps AS {query}")
