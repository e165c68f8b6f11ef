"""Functions of Python's in views, queries and statements: declared, called for new values, kept with the catalog."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import local_maintenance
import viewkeeper
from viewkeeper.catalog.model import View
from viewkeeper.checker.check import check_views
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, InputError, QueryRaises, ViewBroken
from viewkeeper.evidence import DatabaseEvidence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = """
CREATE TABLE t (id INT, a STRING, x DOUBLE, n BIGINT, PRIMARY KEY (id));
CREATE TABLE u (n BIGINT, s STRING);
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql(TABLES)
        yield database


def of_no_module() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Two functions that a process without this module can load: one raises, one is over Arrow arrays."""

    def picky(n: pd.Series) -> pd.Series:
        if (n == 13).any():
            raise ValueError("thirteen is no number")
        return n + 1

    def shout(text: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise(text, "!", "")

    return picky, shout


picky, shout = of_no_module()


def fill(database: Database) -> None:
    database.table("t").put_many([{"id": i, "a": [None, "a", "b"][i % 3], "x": float(i), "n": i} for i in range(6)])
    database.table("u").put_many([{"n": i, "s": "ab"[i % 2]} for i in range(11, 15)])


def rows(database: Database, view: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in database.view(view).scan()), key=repr)


def test_a_function_is_called_wherever_an_expression_stands(database: Database) -> None:
    """In outputs, WHERE, GROUP BY, ON and within other calls, of its own too; before the rows and after them."""
    by = 3
    database.function("tripled", lambda x: x * by, returns="DOUBLE")
    database.function("shout", shout, returns="STRING")
    database.sql("CREATE VIEW v AS SELECT id, tripled(x) + 1 AS y, upper(shout(a)) AS s, Shout(shout(upper(a))) AS s2 "
                 "FROM t WHERE tripled(x) > 2")  # fmt: skip
    fill(database)
    database.sql("CREATE VIEW g AS SELECT shout(s) AS k, count(*) AS n FROM u GROUP BY shout(s);"
                 "CREATE VIEW j AS SELECT t.id, u.n FROM t JOIN u ON shout(t.a) = shout(u.s)")  # fmt: skip
    local_maintenance.catch_up(database)
    assert rows(database, "v")[:2] == [(1, 4.0, "A!", "A!!"), (2, 7.0, "B!", "B!!")]
    assert (3, 10.0, None, None) in rows(database, "v")
    assert rows(database, "g") == [("a!", 2), ("b!", 2)]
    assert (2, 11) in rows(database, "j")
    database.table("t").delete(1)
    database.table("t").put({"id": 2, "x": 0.5})
    database.table("u").delete({"n": 11, "s": "b"})
    local_maintenance.catch_up(database)
    assert {row[0] for row in rows(database, "v")} == {3, 4, 5}
    assert rows(database, "g") == [("a!", 2), ("b!", 1)]
    assert {row[1] for row in rows(database, "j")} == {12, 13, 14}


def test_queries_and_statements_that_change_rows_call_functions(database: Database) -> None:
    database.function("shout", shout, returns="STRING")
    fill(database)
    assert database.sql("UPDATE t SET a = shout(a) WHERE shout(a) = 'b!'").affected == 2
    database.sql("INSERT INTO u SELECT n, shout(a) FROM t WHERE id < 2")
    local_maintenance.catch_up(database)
    assert {row["s"] for row in database.sql("SELECT shout(a) AS s FROM t")} == {None, "a!", "b!!"}
    assert {row["s"] for row in database.sql("SELECT s FROM u")} == {None, "a!", "a", "b"}


@pytest.mark.parametrize("query", [
    *(f"SELECT t.id, u.n AS o FROM t {kind} JOIN u ON {on}" for kind in ("LEFT", "RIGHT", "FULL")
      for on in ("plus(t.id, u.n) = 15", "t.id = u.n - 10 AND low(t.a) = 'b'",
                 "low(u.s) = low(t.a) AND u.n > t.n + 9")),
    *(f"SELECT t.id FROM t LEFT {kind} JOIN u ON {on}" for kind in ("SEMI", "ANTI")
      for on in ("low(t.a) = u.s OR t.id = 0", "t.id = u.n - 10 AND low(concat(t.a, u.s)) = 'aa'")),
    "SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY low(a) ORDER BY plus(id, n)) = 1",
    "SELECT count(*) FILTER (WHERE low(a) = 'a') AS c FROM t GROUP BY low(a) HAVING low(max(a)) IS NOT NULL",
    "SELECT id FROM t WHERE low(a) NOT IN (SELECT low(s) FROM u WHERE plus(n, 1) > 13)",
    "SELECT id, e FROM t LATERAL VIEW OUTER explode(array(low(a), a)) x AS e",
    "SELECT id FROM t ORDER BY low(a), plus(id, 1) DESC LIMIT 3",
    "SELECT low(a) AS l FROM t UNION SELECT low(s) FROM u"])  # fmt: skip
def test_queries_say_the_same_as_with_a_function_of_spark(database: Database, query: str) -> None:
    database.function("low", lambda s: s.str.lower(), returns="STRING")
    database.function("plus", lambda a, b: a + b, returns="BIGINT")
    fill(database)
    local_maintenance.catch_up(database)
    natively = re.sub(r"plus\((\S+), (\S+)\)", r"(\1 + \2)", query.replace("low(", "lower("))
    assert bag(database, query) == bag(database, natively)


def bag(database: Database, query: str) -> list[str]:
    return sorted(repr(row) for row in database.sql(query))


def test_what_a_subquery_gives_is_given_to_a_function(database: Database) -> None:
    database.function("low", lambda s: s.str.lower(), returns="STRING")
    database.sql("""CREATE VIEW v AS SELECT id, low((SELECT 'X')) AS x, low((SELECT upper(max(s)) FROM u)) AS m,
        low((SELECT upper(max(u.s)) FROM u WHERE u.s = t.a)) AS c FROM t WHERE id < 3""")
    fill(database)
    local_maintenance.catch_up(database)
    assert rows(database, "v") == [(0, "x", "b", None), (1, "x", "b", "a"), (2, "x", "b", "b")]


@pytest.mark.parametrize(("query", "row"), [
    ("SELECT id, picky(n) AS p FROM t WHERE id > 3", "row(id=4, n=13)"),
    ("SELECT id, picky(picky(n) - 1) AS p FROM t WHERE id > 3", "row(id=4, n=13)"),
    ("SELECT t.id FROM t LEFT JOIN u ON t.id = u.n - 10 AND picky(t.n + u.n - 14) = 1",
     "row(id=4, n=13, n=14)"),
    ("SELECT picky(sum(n)) AS p FROM t WHERE id = 4 GROUP BY a", "group(a=a)")])  # fmt: skip
def test_a_query_that_raises_names_the_row_by_its_own_columns(database: Database, query: str, row: str) -> None:
    database.function("picky", picky, returns="BIGINT")
    fill(database)
    database.table("t").put({"id": 4, "a": "a", "n": 13})
    local_maintenance.catch_up(database)
    with pytest.raises(QueryRaises, match=re.escape(f" for {row}")):
        database.sql(query)


def test_merge_joins_by_functions(database: Database) -> None:
    database.function("shout", shout, returns="STRING")
    database.function("plus", lambda a, b: a + b, returns="BIGINT")
    fill(database)
    local_maintenance.catch_up(database)
    database.sql("""MERGE INTO t USING u ON plus(t.id, u.n) = 16 AND shout(u.s) = 'b!'
        WHEN MATCHED THEN UPDATE SET a = shout(s)
        WHEN NOT MATCHED THEN INSERT (id, a, n) VALUES (plus(u.n, 100), shout(s), 0)
        WHEN NOT MATCHED BY SOURCE AND shout(a) = 'a!' THEN DELETE""")
    local_maintenance.catch_up(database)
    found = {row["id"]: row["a"] for row in database.sql("SELECT id, a FROM t WHERE id > 0 AND (n = 0 OR id < 6)")}
    assert found == {2: "b", 3: "b!", 5: "b!", 112: "a!", 114: "a!"}


def test_every_type_is_given_and_taken_back(database: Database) -> None:
    """With and without NULL, over Arrow and over pandas, to the last bit; a whole number stays one beside a NULL."""
    types = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(30, 3)",
             "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")  # fmt: skip
    columns = ", ".join(f"c{i} {type_}" for i, type_ in enumerate(types))
    database.sql(f"CREATE TABLE w (id INT, {columns}, PRIMARY KEY (id))")

    def arrow(column: pa.Array) -> pa.Array:
        return column

    for i, type_ in enumerate(types):
        database.function(f"pandas{i}", lambda column: column, returns=type_)
        database.function(f"arrow{i}", arrow, returns=type_)
    for kind in ("pandas", "arrow"):
        calls = ", ".join(f"{kind}{i}(c{i}) AS c{i}" for i in range(len(types)))
        database.sql(f"CREATE VIEW v_{kind} AS SELECT id, {calls} FROM w")
    values = (True, -1, 2, 3, 2**53 + 1, 1.5, -0.0, "-1.25", "123456789012345678901234567.125", "é", b"\0",
              "0001-01-01", "9999-12-31T23:59:59.999999", "2024-03-31T02:30:00")  # fmt: skip
    database.table("w").put_many([{"id": 1, **{f"c{i}": v for i, v in enumerate(values)}}, {"id": 2}])
    local_maintenance.catch_up(database)
    expected = [repr(row) for row in database.sql("SELECT * FROM w ORDER BY id")]
    for kind in ("pandas", "arrow"):
        assert [repr(row) for row in database.sql(f"SELECT * FROM v_{kind} ORDER BY id")] == expected


def test_a_row_for_which_it_raises_breaks_its_views_and_no_other_row(database: Database) -> None:
    database.function("picky", picky, returns="BIGINT")
    database.sql("CREATE VIEW v AS SELECT n, picky(n) AS p FROM u; CREATE VIEW w AS SELECT n FROM u")
    fill(database)
    local_maintenance.catch_up(database)
    with pytest.raises(ViewBroken, match="FUNCTION_RAISED at 1:11"):
        rows(database, "v")
    assert len(rows(database, "w")) == 4
    database.table("u").delete({"n": 13, "s": "b"})
    local_maintenance.catch_up(database)
    assert rows(database, "v") == [(11, 12), (12, 13), (14, 15)]
    with pytest.raises(ViewBroken, match="FUNCTION_RAISED"):
        database.sql("SELECT picky(n + 2) FROM u")


@pytest.mark.parametrize(("f", "message"), [
    (lambda n: n.sum(), "f returned an int64, not a column"),
    (lambda n: n[:1], "f returned 1 values for 4 rows; one for each is wanted"),
    (lambda n: n.astype(str), "f returned values of Arrow's type .*string, and is declared to return BIGINT"),
])  # fmt: skip
def test_a_function_that_gives_no_column_stops_its_view_alone(database: Database, f: Any, message: str) -> None:
    database.function("f", f, returns="BIGINT")
    database.sql("CREATE VIEW v AS SELECT n, f(n) AS p FROM u; CREATE VIEW w AS SELECT n FROM u")
    local_maintenance.catch_up(database)
    fill(database)
    local_maintenance.catch_up(database)
    with pytest.raises(ViewBroken, match=message):
        database.sql("SELECT f(n) FROM u")
    with pytest.raises(ViewBroken, match=f"{message}.*; mend it, and declare it again by db.function"):
        rows(database, "v")
    assert len(rows(database, "w")) == 4
    database.function("f", lambda n: n + 1, returns="BIGINT")
    local_maintenance.catch_up(database)
    assert rows(database, "v") == [(11, 12), (12, 13), (13, 14), (14, 15)]


def test_other_code_builds_the_views_anew_beside_those_that_are_read(database: Database) -> None:
    """And what reads them; the same code again does nothing, wherever its lines stand."""
    database.function("f", lambda n: n + 1, returns="BIGINT")
    database.sql("CREATE VIEW v AS SELECT n, f(n) AS p FROM u; CREATE VIEW w AS SELECT sum(p) AS s FROM v;"
                 "CREATE VIEW x AS SELECT n AS m FROM u WHERE f(n) > 12")  # fmt: skip
    fill(database)
    local_maintenance.catch_up(database)
    before = database.catalog
    database.function(
        "f", lambda n: n + 1, returns="BIGINT",
    )  # fmt: skip
    assert database.catalog == before
    database.function("F", lambda n: n + 2, returns="BIGINT")
    assert {v.name for v in database.catalog.views if v.replaces is not None} == {"v (new)", "w (new)", "x (new)"}
    assert rows(database, "w") == [(54,)]
    evidence = DatabaseEvidence(database._newest.version(), database._logs)
    assert [str(report) for report in check_views(evidence, "vwx", None) if not report.ok] == []
    database.table("u").put({"n": 20, "s": None})
    local_maintenance.catch_up(database)
    assert rows(database, "w") == [(sum((11, 12, 13, 14, 20)) + 10,)] and len(rows(database, "x")) == 5
    assert [(each.name, each.version) for each in database.catalog.functions] == [("F", 2)]
    with pytest.raises(DeclarationError, match="w cannot be made with the new code of F: SUM needs a number"):
        database.sql("CREATE VIEW y AS SELECT n, upper(s) AS s FROM u WHERE n BETWEEN f(n) AND 3")
        local_maintenance.catch_up(database)
        database.function("f", lambda n: n > 2, returns="BOOLEAN")


ALIKE = {
    "a try around more": """def f(s):
    try: w = float(s); w = 10 / (w - 3)
    except (ValueError, ZeroDivisionError): return -1.0
    return w""",
    "a try around less": """def f(s):
    w = float(s);
    try: w = 10 / (w - 3)
    except (ValueError, ZeroDivisionError): return -1.0
    return w""",
    "a set": "names = {'a', 'b', 'c', 'd', 'e'}\ndef f(s): return s in names or s in {'v', 'w', 'x', 'y', 'z'}",
}
TOLD = """import sys
from viewkeeper.catalog.types import DOUBLE
from viewkeeper.spark.python_functions import python_function
for text in sys.argv[1:]:
    names = {}
    exec(text, names)
    print(python_function("f", names["f"], DOUBLE, True).fingerprint)
"""


def test_the_same_code_is_known_in_every_process_and_other_code_is_never_taken_for_it() -> None:
    """What a try covers stands in a table of its own; the elements of a set come in another order in each process."""
    told = [subprocess.run([sys.executable, "-c", TOLD, *ALIKE.values()], env={**os.environ, "PYTHONHASHSEED": seed},
                           capture_output=True, text=True, check=True).stdout.split() for seed in "123"]  # fmt: skip
    assert told[0] == told[1] == told[2]
    assert len(set(told[0])) == len(ALIKE)


def test_what_cannot_be_declared_or_called_is_refused_with_the_reason(database: Database) -> None:
    database.function("f", lambda n: n, returns="BIGINT", deterministic=False)
    fill(database)
    local_maintenance.catch_up(database)
    assert len(list(database.sql("SELECT f(n) FROM u"))) == 4
    for text, message in (
        ("CREATE VIEW v AS SELECT n, f(n) AS p FROM u", "declared with deterministic=False.* column 28"),
        ("CREATE VIEW v AS SELECT n, f(NULL) AS p FROM u", "called without columns"),
        ("DELETE FROM u WHERE g(n) > 1", "Cannot resolve routine `g`"),
        ("DELETE FROM u WHERE f(DISTINCT n) > 1", "the function f is not supported yet"),
        ("CREATE VIEW v AS SELECT n, f(n) AS p, soundex(s) AS z FROM u", "only Spark has the rest: .* soundex"),
        (
            "SELECT n FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.n = f(u.n))",
            "f is a Python function, .* only Spark has the rest: this subquery .* write a join; .*column 59",
        ),
        ("DELETE FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.n = f(u.n))", "f is a Python function, .* write a join"),
        ("SELECT n, (SELECT f(3)) AS p FROM u", "f is called without columns"),
        ("DROP FUNCTION g", "there is no function g to drop"),
    ):
        with pytest.raises(DeclarationError, match=message):
            database.sql(text)
    for name in (
        "upper",
        "levenshtein",
        "select",
        "rand",
        "coalesce",
        "aes_encrypt",
        "a b",
        "1f",
        "count",
        "current_date",
    ):
        with pytest.raises(DeclarationError, match="means something in SQL already|no name for a function"):
            database.function(name, lambda n: n, returns="BIGINT")
    for returns, message in (
        ("NUMBER", "no type that a column can have"), ("INT, b INT", "no type that a column can have"),
        ("ARRAY<INT>", "a function gives no arrays"), (5, "no type that a column can have"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            database.function("h", lambda n: n, returns=returns)
    lock = threading.Lock()
    with pytest.raises(InputError, match="the function h cannot be kept"):
        database.function("h", lambda n: lock, returns="BIGINT")


def test_a_function_is_dropped_when_no_view_calls_it(database: Database) -> None:
    database.function("f", lambda n: n, returns="BIGINT")
    database.sql("CREATE VIEW v AS SELECT n, f(n) AS p FROM u")
    with pytest.raises(DeclarationError, match="f is called by v; drop these first"):
        database.sql("DROP FUNCTION f")
    database.sql("DROP VIEW v; DROP FUNCTION F; DROP FUNCTION IF EXISTS f")
    assert [row["function"] for row in database.sql("SHOW FUNCTIONS")] == []
    assert not [view for view in database.catalog.objects if isinstance(view, View)]


def test_another_process_goes_on_with_what_the_catalog_holds(database: Database, tmp_path: Path) -> None:
    """Where it cannot load a function the view stops, saying why, and no other; declared again it is built anew."""
    (tmp_path / "elsewhere.py").write_text("def f(n):\n    return n * 2\n")
    sys.path.insert(0, str(tmp_path))
    try:
        import elsewhere  # type: ignore[import-not-found]

        database.function("doubled", elsewhere.f, returns="BIGINT")
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules["elsewhere"]
    database.function("more", lambda n: n + 1, returns="BIGINT")
    database.sql("CREATE VIEW v AS SELECT n, doubled(n) AS p FROM u; CREATE VIEW w AS SELECT n, more(n) AS p FROM u")
    local_maintenance.catch_up(database)
    fill(database)
    script = ("import sys, viewkeeper, local_maintenance\n"
              "local_maintenance.catch_up(viewkeeper.connect(sys.argv[1]))")  # fmt: skip
    subprocess.run(
        [sys.executable, "-c", script, str(database.root)], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert rows(database, "w") == [(11, 12), (12, 13), (13, 14), (14, 15)]
    with pytest.raises(ViewBroken, match="doubled cannot be loaded in this process .ModuleNotFoundError.*elsewhere"):
        rows(database, "v")
    database.function("doubled", lambda n: n * 2, returns="BIGINT")
    local_maintenance.catch_up(database)
    assert rows(database, "v")[0] == (11, 22)


@pytest.mark.spark
def test_spark_gives_the_same_with_the_function_as_its_own(spark: SparkSession, database: Database) -> None:
    """`check` has it computed by Spark, row by row where it raises."""
    database.function("picky", picky, returns="BIGINT")
    database.function("shout", shout, returns="STRING")
    database.sql("CREATE VIEW v AS SELECT n, picky(n) AS p FROM u;"
                 "CREATE VIEW w AS SELECT shout(upper(a)) AS s, count(*) AS c, sum(x) AS x FROM t "
                 "GROUP BY shout(upper(a)) HAVING shout(shout(upper(a))) <> ''")  # fmt: skip
    fill(database)
    database.catch_up()
    assert [str(report) for report in database.check_all() if not report.ok] == []
    assert rows(database, "w") == [("A!", 2, 5.0), ("B!", 2, 7.0)]
    database.table("u").delete({"n": 13, "s": "b"})
    database.catch_up()
    assert [str(report) for report in database.check_all() if not report.ok] == []
