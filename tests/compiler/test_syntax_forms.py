"""Forms of Spark's SQL: which our own operators keep, which Spark is asked about, which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler_catalog import catalog_of
from viewkeeper.catalog.model import Catalog
from viewkeeper.compiler.bind import bind_view
from viewkeeper.compiler.filled_in import filled_in
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import CreateView
from viewkeeper.errors import DeclarationError, NotSupported

TABLES = """CREATE TABLE t (id BIGINT PRIMARY KEY, g STRING, n INT, d DECIMAL(10,2), x DOUBLE, at TIMESTAMP, day DATE,
                ok BOOLEAN, tags ARRAY<STRING>, m MAP<STRING, INT>, st STRUCT<a: INT, b: STRING>, j STRING, u STRING);
            CREATE TABLE s (k BIGINT PRIMARY KEY, g STRING, n INT); CREATE TABLE ks (k BIGINT PRIMARY KEY)"""

NEVER = {
    "s10": "a name begins with a letter", "l10": "always NULL and has no type", "l18": "a name begins with a letter",
    "o28": "near XOR", "r40": "rows of 2 and of 1 values", "g23": "DISTINCT is out of place",
    "w02": "has nothing of its own",
}  # fmt: skip
"""What is refused without asking Spark: it refuses these too, but for a column that is NULL in every row."""


def forms() -> dict[str, str]:
    """Each form by its name."""
    lines = Path(__file__).parent.parent.joinpath("support", "syntax_forms.sql").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("--"))


def declared(catalog: Catalog, query: str) -> None:
    (statement,) = parse_script(filled_in(f"CREATE VIEW v AS {query}").text)
    assert isinstance(statement, CreateView)
    bind_view(catalog, statement)


def test_what_is_no_sql_of_spark_s_is_refused_and_most_else_is_native() -> None:
    """Of the others Spark decides: it kept 104, 13 by calls and groups, and refused 25, each as itself or for a reason
    (chance, ties, a type)."""
    catalog, native, refused = catalog_of(TABLES), set[str](), dict[str, str]()
    for name, query in forms().items():
        try:
            declared(catalog, query)
            native.add(name)
        except NotSupported:
            pass
        except DeclarationError as error:
            refused[name] = str(error)
    assert len(forms()) > 320 and len(native) >= 174
    assert refused.keys() == NEVER.keys()
    assert all(NEVER[name] in message for name, message in refused.items())


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("SELECT id FROM t WHERE n !> 5 OR n !< 1", "SELECT id FROM t WHERE n <= 5 OR n >= 1"),
        ("SELECT at + INTERVAL -3 DAY AS a FROM t", "SELECT at + INTERVAL '-3' DAY AS a FROM t"),
        ("SELECT at + INTERVAL + 3 DAY AS a FROM t", "SELECT at + INTERVAL '3' DAY AS a FROM t"),
        ("SELECT sum(n) OVER (DISTRIBUTE BY g SORT BY id) AS a FROM t",
         "SELECT sum(n) OVER (PARTITION BY g ORDER BY id) AS a FROM t"),
        ("SELECT sum(n) OVER (CLUSTER BY g) AS a FROM t", "SELECT sum(n) OVER (PARTITION BY g) AS a FROM t"),
        ("SELECT id FROM t LIMIT ALL", "SELECT id FROM t"),
        ("SELECT max(n) AS a FROM t GROUP BY GROUPING SETS (())", "SELECT max(n) AS a FROM t"),
    ],
)  # fmt: skip
def test_what_is_written_otherwise_means_the_same(query: str, same: str) -> None:
    catalog, relations = catalog_of(TABLES), []
    for text in (query, same):
        (statement,) = parse_script(f"CREATE VIEW v AS {text}")
        assert isinstance(statement, CreateView)
        relations.append(bind_view(catalog, statement))
    assert relations[0].columns == relations[1].columns
    assert type(relations[0].relation) is type(relations[1].relation)


@pytest.mark.parametrize("query", [
    "SELECT binary 'a' AS a FROM t", "SELECT system.builtin.upper(g) AS a FROM t",
    "SELECT g, count(*) AS c FROM t GROUP BY g QUALIFY row_number() OVER (ORDER BY count(*), g) = 1",
    "SELECT max(n) AS a FROM t GROUP BY GROUPING SETS ((), ())", "SELECT * FROM VALUES 1, 2 AS v (x)",
    "WITH RECURSIVE r (i) MAX RECURSION LEVEL 9 AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 5) FROM r",
    "SELECT j:ref::STRING AS a FROM t", "FROM t |> WHERE n > 1",
])  # fmt: skip
def test_what_our_own_operators_leave_to_spark(query: str) -> None:
    with pytest.raises(NotSupported):
        declared(catalog_of(TABLES), query)
