"""With Spark: maintenance in the background, DataFrames, queries of any kind, checks."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Busy, Database, DeclarationError, NotSupported, ViewBroken
from viewkeeper.cli import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = """
CREATE TABLE orders (id BIGINT, customer BIGINT, price DECIMAL(15,2), placed DATE, at TIMESTAMP, noted TIMESTAMP_NTZ,
                     small TINYINT, ratio FLOAT, raw BINARY, done BOOLEAN, PRIMARY KEY (id));
CREATE VIEW spend AS SELECT customer, sum(price) AS total, count(*) AS n FROM orders GROUP BY customer;
CREATE VIEW everything AS SELECT * FROM orders WHERE id < 1000;
"""
FULL = {
    "id": 1, "customer": 7, "price": Decimal("19.90"), "placed": datetime.date(2024, 2, 29),
    "at": datetime.datetime(2024, 7, 1, 10, tzinfo=datetime.UTC), "noted": datetime.datetime(2024, 7, 1, 12),
    "small": -3, "ratio": 0.5, "raw": b"\0x", "done": True,
}  # fmt: skip


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "shop", zone="Europe/Berlin", durability="process") as database:
        database.sql(SCHEMA)
        database.table("orders").put_many([FULL, *({"id": i, "customer": i % 3} for i in range(2, 50))])
        yield database


def test_a_view_comes_to_spark_with_its_types_and_values(db: Database) -> None:
    catch_up(db)
    frame = db.view("everything").to_spark()
    types = dict(frame.dtypes)
    assert types == {
        "id": "bigint", "customer": "bigint", "price": "decimal(15,2)", "placed": "date", "at": "timestamp",
        "noted": "timestamp_ntz", "small": "tinyint", "ratio": "float", "raw": "binary", "done": "boolean",
    }  # fmt: skip
    (row,) = frame.where("id = 1 AND at = TIMESTAMP '2024-07-01 12:00:00'").toArrow().to_pylist()
    assert row == FULL


def test_a_dataframe_of_a_snapshot_does_not_change(db: Database) -> None:
    catch_up(db)
    with db.snapshot() as snapshot:
        frame = snapshot.view("everything").to_spark()
        db.table("orders").delete_many(range(2, 50))
        catch_up(db)
        assert frame.count() == 49
        assert db.view("everything").to_spark().count() == 1


def test_spark_runs_any_select_at_one_version(db: Database) -> None:
    catch_up(db)
    found = db.sql("SELECT n, rank() OVER (ORDER BY n DESC) AS r, (SELECT max(at) FROM orders) AS latest FROM spend "
                   "ORDER BY r LIMIT 1", engine="spark")  # fmt: skip
    assert list(found) == [{"n": 16, "r": 1, "latest": FULL["at"]}]


@pytest.mark.parametrize("text, rows", [
    ("SELECT n, rank() OVER (ORDER BY n DESC) AS r FROM spend ORDER BY r LIMIT 1;", [{"n": 16, "r": 1}]),
    ("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT soundex('a') AS s, n FROM t "
     "ORDER BY n", [{"s": "A000", "n": n} for n in (1, 2, 3)]),
])  # fmt: skip
def test_spark_answers_by_itself_what_our_own_operators_do_not_know(
    db: Database, text: str, rows: list[dict[str, object]]
) -> None:
    catch_up(db)
    assert list(db.sql(text)) == rows
    with db.snapshot() as snapshot:
        assert list(snapshot.sql(text)) == rows


GIVEN = {
    "i": 5, "wide": 2**40, "huge": 2**70, "negative": -7, "d": Decimal("-0.050"), "f": 0.1, "inf": float("-inf"),
    "s": "it's \\ \0 \n\U0001f600", "b": b"\0\xff", "ok": True, "none": None, "day": datetime.date(1, 1, 1),
    "at": datetime.datetime(2024, 7, 1, 12, 0, 0, 1), "utc": datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC),
    "long": -datetime.timedelta(days=3, microseconds=1),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_a_parameter_is_to_spark_what_it_is_to_our_own_operators(db: Database, name: str) -> None:
    text, value = f"SELECT :{name} AS v, typeof(:{name}) AS t", {name: GIVEN[name]}
    own = db.sql(f"SELECT :{name} AS v", **value)
    for given in (db.sql(text, **value), db.sql(text, engine="spark", **value), db.snapshot().sql(text, **value)):
        assert [row["v"] for row in given] == [row["v"] for row in own]
        assert name == "none" or given.to_arrow().schema.field("v").type == own.to_arrow().schema.field("v").type


def test_parameters_stand_wherever_spark_computes(db: Database) -> None:
    catch_up(db)
    text = """SELECT /* :no */ soundex(:s) AS s, transform(array(1, :n), x -> x + :n) AS a, ':t' AS t FROM spend
              WHERE customer = :c OR :none LIMIT :few"""
    assert list(db.sql(text, s="abc", n=2, c=7, none=None, few=1)) == [{"s": "A120", "a": [3, 4], "t": ":t"}]
    assert list(db.sql("SELECT IDENTIFIER(?)(?) AS s FROM IDENTIFIER(?) WHERE n > ? LIMIT ? OFFSET ?",
                       ["soundex", "it's", "spend", 0, 1, 1])) == [{"s": "I320"}]  # fmt: skip
    sampled = "SELECT count(*) AS n FROM orders TABLESAMPLE (:k ROWS), orders TABLESAMPLE (BUCKET :k OUT OF :k)"
    assert list(db.sql(sampled, k=1, engine="spark")) == list(db.sql(sampled, k=1)) == [{"n": 49}]
    assert list(db.sql("SELECT count(*) AS n FROM orders TABLESAMPLE (? PERCENT)", [100.0])) == [{"n": 49}]
    assert list(db.sql("SELECT INTERVAL ? DAY < INTERVAL :x HOUR AS less".replace(":x", "?"), [-1, "2"])) == [
        {"less": True}]  # fmt: skip
    db.sql("CREATE VIEW soon AS SELECT id, placed + :d AS until, :d AS d FROM orders WHERE id = :id",
           d=datetime.timedelta(days=2, hours=3), id=1)  # fmt: skip
    assert db.sql("SHOW VIEWS").to_arrow().column("query").to_pylist()[-1] == (
        "SELECT id, placed + INTERVAL '2 03:00:00.000000' DAY TO SECOND AS until, INTERVAL '2 03:00:00.000000' DAY TO "
        "SECOND AS d FROM orders WHERE id = 1")  # fmt: skip
    for sql, given, what in (
        ("SELECT soundex(:s)", {}, r"no value for the parameter :s.* \(line 1, column 16\)"),
        ("SELECT soundex(:s), :x AS x", {"s": "a"}, r"no value for the parameter :x.* \(line 1, column 21\)"),
        ("SELECT soundex('a'), ?", {}, r"no value for the parameter \?.* \(line 1, column 22\)"),
        ("SELECT soundex(:s)", {"s": "a", "x": 1}, ":x does not stand in the text"),
        ("SELECT soundex('a'),\n  :s AS s", {"s": []}, r"is no constant of SQL.* \(line 2, column 3\)"),
        ("SELECT soundex('a') AS s FROM IDENTIFIER(:s)", {"s": "spent"}, r"spent.* \(line 1, column 31\)"),
        ("SELECT IDENTIFIER(:s)('java.lang.System', 'exit', 1)", {"s": "reflect"}, "reflect"),
        ("SELECT IDENTIFIER(concat('id', soundex('a')))", {}, "IDENTIFIER"),
        ("SELECT soundex('a') AS s, 1 DIV\n :z AS d FROM spend", {"z": 0}, r"zero.* \(line 1, column 27\)"),
    ):
        with pytest.raises((DeclarationError, ViewBroken), match=what):
            db.sql(sql, **given)


@pytest.mark.parametrize("engine", ["viewkeeper", "spark"])
@pytest.mark.parametrize("text, kind, what", [
    ("SELECT soundex(nothing) AS s FROM orders", DeclarationError, r"nothing.* \(line 1, column 16\)"),
    ("SELECT frobnicate(id) AS s FROM orders", DeclarationError, "frobnicate"),
    ("SELECT soundex('a') AS s, 1 DIV (id - 1) AS d FROM orders", ViewBroken, "ZERO|zero"),
    ("SELECT soundex('a') AS s FROM missing", NotSupported, "missing"),
    ("SELECT soundex('a' FROM orders", DeclarationError, "line 1"),
    ("SELECT reflect('java.lang.System', 'exit', 1)", NotSupported, "reflect"),
    ("DROP TABLE IF EXISTS missing PURGE", DeclarationError, "line 1"),
])  # fmt: skip
def test_what_spark_refuses_or_raises_is_an_error_of_ours(
    db: Database, engine: str, text: str, kind: type[Exception], what: str
) -> None:
    catch_up(db)
    with pytest.raises(kind, match=what):
        db.sql(text, engine=engine)


def test_threads_that_ask_spark_about_two_versions_never_see_the_others(db: Database) -> None:
    """Queries, DataFrames and checks at once, at two held versions and at the newest."""
    catch_up(db)
    db.sql("CREATE STREAM m (ts TIMESTAMP NOT NULL, n INT) TIMESTAMP BY ts PARTITION LENGTH 60")
    db.stream("m").append([{"ts": f"2024-01-01 00:0{i}", "n": 1} for i in range(3)])
    db.catch_up(timeout=60)
    query = ("SELECT count(*) AS n, sum(price) AS total, (SELECT count(*) FROM spend) AS groups, "
             "(SELECT sum(n) FROM m) AS ones FROM orders")  # fmt: skip
    with db.snapshot() as old:
        db.table("orders").put_many([{"id": i, "customer": 100 + i, "price": 1} for i in range(100, 110)])
        db.stream("m").append([{"ts": f"2024-01-01 00:0{i}", "n": 1} for i in range(3, 6)])
        db.catch_up(timeout=60)
        with db.snapshot() as new:
            expected = {old: (49, 4, 2), new: (59, 14, 5)}  # the newest part is not sealed
            wrong: list[object] = []

            def ask(reader: viewkeeper.Snapshot, times: int) -> None:
                rows, groups, ones = expected[reader]
                for _ in range(times):
                    (found,) = reader.sql(query, engine="spark")
                    (part,) = reader.sql("SELECT sum(n) AS ones, max(PART_TIMESTAMP) AS p FROM m", engine="spark")
                    counted = reader.view("spend").to_spark().count()
                    if (found["n"], found["groups"], found["ones"], part["ones"], counted) != (
                        rows, groups, ones, ones, groups
                    ):  # fmt: skip
                        wrong.append((reader.version, found, part, counted))

            with ThreadPoolExecutor(5) as threads:
                asked = [threads.submit(ask, reader, 3) for reader in (old, new, old, new)]
                checked = threads.submit(db.check_all)
                for each in asked:
                    each.result()
                wrong += [str(report) for report in checked.result() if not report.ok]
            assert wrong == []
    assert db._spark.session().catalog.listTables() == []


def test_the_users_own_session_stays_as_it_is(db: Database, spark: SparkSession) -> None:
    catch_up(db)
    zone = spark.conf.get("spark.sql.session.timeZone")
    db.view("spend").to_spark().count()
    db.close()
    assert spark.conf.get("spark.sql.session.timeZone") == zone
    assert spark.range(3).count() == 3


def test_spark_maintains_in_the_background_and_a_second_one_is_refused(db: Database) -> None:
    orders = db.table("orders")
    with db.maintain():
        with pytest.raises(Busy, match="maintained by a pipeline in process"):
            db.maintain()
        db.catch_up(timeout=60)
        token = orders.put({"id": 1000, "customer": 7, "price": "0.10"})
        assert db.view("spend").get(7, after=token, timeout=60)["total"] == Decimal("20.00")
        db.sql("CREATE VIEW small AS SELECT id, small FROM orders WHERE small < 0")
        db.catch_up(timeout=60)
        assert db.view("small").get(1) == {"id": 1, "small": -3}
    assert db.status()["maintainer"] is None


def test_a_check_finds_all_views_right(db: Database) -> None:
    db.sql("CREATE TABLE bag (a INT); CREATE VIEW n AS SELECT a, count(*) AS n FROM bag GROUP BY a")
    db.table("bag").put_many([{"a": 1}, {"a": 1}, {"a": None}])
    catch_up(db)
    db.table("orders").put({"id": 2, "price": 5})  # in the store, not yet in DELTA
    db.table("bag").delete({"a": 1})
    reports = db.check_all()
    assert [report.view for report in reports] == ["spend", "everything", "n"]
    assert [str(report) for report in reports if not report.ok] == []
    db.check("spend").raise_if_wrong()


def test_the_command_line_maintains_and_checks(db: Database) -> None:
    def run(*arguments: str) -> str:
        return CliRunner().invoke(cli, [*arguments, "--db", str(db.root)], catch_exceptions=False).stdout

    assert "stopped" in run("maintain", "--seconds", "1", "--servers", "1")
    assert json.loads(run("catch-up", "--json"))["version"] == db.status()["version"]
    assert [json.loads(line)["verdict"] for line in run("check", "--json").splitlines()] == ["right", "right"]
    assert "spend at version" in run("check", "spend")
