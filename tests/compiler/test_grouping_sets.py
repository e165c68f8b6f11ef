"""ROLLUP, CUBE and GROUPING SETS: which sets they are, and what is refused."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from compiler_catalog import catalog_of, query_of
from viewkeeper.compiler.grouping_sets import sets_of
from viewkeeper.errors import DeclarationError

SHOP = catalog_of("CREATE TABLE o (a INT, b INT)")


@pytest.mark.parametrize(
    ("written", "sets"),
    [
        ("ROLLUP (a, b)", ["a b", "a", ""]),
        ("CUBE (a, b)", ["a b", "a", "b", ""]),
        ("ROLLUP ((a, b), c)", ["a b c", "a b", ""]),
        ("a, CUBE (b)", ["a b", "a"]),
        ("GROUPING SETS (a, (b), (a, b), ())", ["a", "b", "a b", ""]),
        ("GROUPING SETS (a, ROLLUP (b))", ["a", "b", ""]),
        ("ROLLUP (a), ROLLUP (b)", ["a b", "a", "b", ""]),
    ],
)
def test_sets_are_combined_each_with_each(written: str, sets: list[str]) -> None:
    group = sqlglot.parse_one(f"SELECT 1 FROM o GROUP BY {written}", dialect="spark").args["group"]
    assert isinstance(group, exp.Group)
    assert [" ".join(node.name for node in each) for each in sets_of(group)] == sets


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT a, grouping(a) AS g FROM o GROUP BY a", "stands with ROLLUP"),
        ("SELECT a, grouping(b) AS g FROM o GROUP BY ROLLUP (a)", "does not name what is grouped by"),
        ("SELECT a, grouping_id(b, a) AS g FROM o GROUP BY ROLLUP (a, b)", "in its order"),
        (f"SELECT 1 AS x FROM o GROUP BY CUBE ({', '.join(f'a + {n}' for n in range(13))})", "at most twelve"),
        ("SELECT 1 AS x FROM o GROUP BY ROLLUP (1 + 1)", "never NULL"),
    ],
)
def test_what_spark_refuses_is_refused(query: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        query_of(SHOP, query)
