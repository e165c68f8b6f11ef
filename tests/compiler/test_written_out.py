"""What Spark writes shorter than sqlglot reads, and what it alone reads."""

from __future__ import annotations

import pytest

from compiler_catalog import catalog_of, query_of
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.source_text import UNREAD
from viewkeeper.compiler.statements import CreateView
from viewkeeper.errors import DeclarationError, NotSupported

ORDERS = catalog_of("CREATE TABLE orders (id BIGINT PRIMARY KEY, price INT, day DATE, at TIMESTAMP)")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("TABLE orders", ["id", "price", "day", "at"]), ("TABLE orders LIMIT 3", ["id", "price", "day", "at"]),
        ("SELECT +price, +1, - + price FROM orders", ["(+ price)", "(+ 1)", "(- (+ price))"]),
        ("SELECT price, count(*) FROM orders GROUP BY price WITH ROLLUP", ["price", "count(1)"]),
        ("SELECT id, price FROM orders ORDER BY ALL", ["id", "price"]),
        ("SELECT CAST(-id AS VARCHAR(1)), 1::CHAR(2), char(65) FROM orders",
         ["CAST((- id) AS STRING)", "CAST(1 AS STRING)", "char(65)"]),
    ],
)  # fmt: skip
def test_outputs_are_called_as_in_spark(query: str, names: list[str]) -> None:
    bound = query_of(ORDERS, query)
    assert [column.name for column in bound.relation.columns][: bound.visible] == names


@pytest.mark.parametrize(
    "query",
    [
        "SELECT window(at, '1 hour') FROM orders", "SELECT dateadd(MONTH, 1, day) FROM orders",
        "SELECT date_diff(hour, at, at) FROM orders", "SELECT id FROM orders ORDER BY ALL, id",
        "SELECT row_number() OVER (ORDER BY ALL) FROM orders", "SELECT * FROM range(3)",
        "SELECT id FROM orders JOIN range(3) USING (id)", "SELECT ceil(price, 1) FROM orders",
        "SELECT CAST(array(id) AS ARRAY<CHAR(9)>) FROM orders", "WITH w AS (SELECT id FROM orders) (SELECT id FROM w)",
    ],
)  # fmt: skip
def test_what_only_spark_knows_is_left_to_it(query: str) -> None:
    """It is NotSupported, and no other error: then Spark is asked."""
    with pytest.raises(NotSupported):
        query_of(ORDERS, query)


def test_a_query_with_pipes_is_spark_s_alone() -> None:
    (statement,) = parse_script("CREATE VIEW v AS FROM orders |> WHERE price > 1 |> SELECT id")
    assert isinstance(statement, CreateView)
    assert statement.query.tree == UNREAD and statement.refused is not None


@pytest.mark.parametrize(
    "query", ["TABLE", "TABLE TABLE orders", "SELECT TABLE orders", "SELECT id FROM orders WITH ROLLUP",
              "SELECT + FROM orders", "SELECT price + + FROM orders", "SELECT dateadd(MONTHS, 1, day) FROM orders"],
)  # fmt: skip
def test_what_is_no_sql_is_refused_still(query: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        query_of(ORDERS, query)
    assert type(refused.value) is DeclarationError
