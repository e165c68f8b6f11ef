"""Where sqlglot reads a text otherwise than Spark, or Spark means something of its own: as Spark means it, or refused.

Every expectation here was compared with Spark.
"""

from __future__ import annotations

import pytest
import sqlglot.parser

from compiler_catalog import catalog_of, query_of
from viewkeeper.catalog.types import BIGINT
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.syntax import require_source
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.expressions import Compare, Literal
from viewkeeper.plans.relations import Filter, Project

CATALOG = catalog_of("""
    CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, b BOOLEAN, p DECIMAL(5,2), s STRING);
    CREATE TABLE r (id BIGINT PRIMARY KEY, t_id BIGINT);
""")


def names(outputs: str, rest: str = "FROM t") -> list[str]:
    query = query_of(CATALOG, f"SELECT {outputs} {rest}")
    return [column.name for column in query.relation.columns[: query.visible]]


def refusal(query: str) -> DeclarationError:
    with pytest.raises(DeclarationError) as refused:
        query_of(CATALOG, query)
    return refused.value


def compared_with(condition: str) -> Literal:
    relation = query_of(CATALOG, f"SELECT id FROM t WHERE {condition}").relation
    assert isinstance(relation, Project) and isinstance(relation.input, Filter)
    comparison = relation.input.predicate
    assert isinstance(comparison, Compare)
    (literal,) = [side for side in (comparison.left, comparison.right) if isinstance(side, Literal)]
    return literal


@pytest.mark.parametrize(
    "expression",
    [
        "b = g > 1", "b = b > FALSE", "b <> g IN (1)", "b = g IS NULL", "b < b BETWEEN FALSE AND b", "b = NOT b",
        "b IN (TRUE) IS NULL", "b IS NULL IS NULL", "b BETWEEN FALSE AND b = FALSE", "g BETWEEN 1 AND 2 <=> b",
        "NOT g IS NULL IN (b)", "b > TRUE IN (b)", "g > 1 NOT IN (TRUE)",
    ],
)  # fmt: skip
def test_a_condition_within_a_comparison_needs_parentheses(expression: str) -> None:
    """Where Spark's precedence of comparisons, IS, IN, BETWEEN and NOT is not sqlglot's, nothing is guessed."""
    refused = refusal(f"SELECT {expression} FROM t")
    assert isinstance(refused, NotSupported) and "parentheses" in str(refused)


def test_comparisons_in_a_row_go_from_left_to_right() -> None:
    """Comparisons that nest to the left, or in parentheses, are admitted and mean what Spark means."""
    assert names("g < 2 = b, b = (g > 1), (g IS NULL) = b, NOT g < 2 = b") == [
        "((g < 2) = b)", "(b = (g > 1))", "((g IS NULL) = b)", "(NOT ((g < 2) = b))",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "condition, whole",
    [
        ("g > 1.5", 1), ("g >= 1.5", 2), ("g < 1.5", 2), ("g <= 1.5", 1), ("1.5 > g", 2), ("1.5 >= g", 1),
        ("1.5 < g", 1), ("1.5 <= g", 2), ("g > -1.5", -2), (f"id < 0.{'0' * 37}1", 1), (f"-0.{'0' * 37}1 < id", -1),
        ("id <= 9223372036854775807.0", 2**63 - 1),
    ],
)  # fmt: skip
def test_an_integer_is_compared_with_the_whole_number_beside_a_decimal(condition: str, whole: int) -> None:
    """Of `<` and its kin between an integer and a DECIMAL constant Spark makes one between integers."""
    literal = compared_with(condition)
    assert (literal.type, literal.value) == (BIGINT, whole)


def test_the_whole_number_stands_in_the_name_too() -> None:
    """An output without alias has Spark's name, in which the DECIMAL constant is rounded."""
    assert names("g > 1.5, 1.5 > (g), g = 1.5, p > 1.5, g BETWEEN 0.5 AND 1.5, g > -(0.5)") == [
        "(g > 1)", "(2 > g)", "(g = 1.5)", "(p > 1.5)", "between(g, 0.5, 1.5)", "(g > (- 0.5))",
    ]  # fmt: skip


@pytest.mark.parametrize("bound", ["99999999999999999999", "9223372036854775807.5", "-9223372036854775808.5"])
def test_a_constant_beyond_every_integer_is_refused(bound: str) -> None:
    """Spark finds `g < 99999999999999999999` true even where g is NULL; such a comparison says nothing."""
    for condition in (f"g < {bound}", f"{bound} >= g", f"g BETWEEN 0 AND {bound}"):
        assert "beyond every BIGINT" in str(refusal(f"SELECT id FROM t WHERE {condition}"))
    assert names(f"g = {bound} AS x") == ["x"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT s AS g, count(*) AS n FROM t GROUP BY s HAVING g = 'a'",
        "SELECT g, count(*) AS s FROM t GROUP BY g HAVING s > 1",
        "SELECT g, sum(p) AS p FROM t GROUP BY g HAVING p > 1.2345",
        "SELECT b, sum(g) AS g FROM t GROUP BY b HAVING g IN (1, 3000000000)",
    ],
)
def test_an_alias_in_having_that_hides_a_column_of_another_type_is_refused(query: str) -> None:
    """Spark converts by the hidden column's type, then compares the alias: no answer, or another one."""
    assert "is an alias here, and a column of another type in FROM" in str(refusal(query))


def test_an_alias_in_having_may_hide_a_column_that_is_not_converted() -> None:
    """`sum(p) AS p ... HAVING p > 1` means the sum, and nothing is converted by the column's type."""
    assert names("sum(p) AS p", "FROM t HAVING p > 1") == ["p"]
    assert names("b, sum(g) AS g", "FROM t GROUP BY b HAVING g > 1 OR g IS NULL") == ["b", "g"]
    assert names("max(s) AS s", "FROM t HAVING s > 'a'") == ["s"]


def test_is_not_null_and_not_is_null_have_their_own_names() -> None:
    """sqlglot reads both as one; Spark names them as they are written, whatever stands before IS."""
    assert names("(g = NULL) IS NOT NULL, NOT g IS NULL, NOT TRUE IS NULL, coalesce(g, NULL) IS NOT NULL") == [
        "((g = NULL) IS NOT NULL)", "(NOT (g IS NULL))", "(NOT (true IS NULL))", "(coalesce(g, NULL) IS NOT NULL)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "query, column",
    [
        ("SELECT g FROM t WHERE g = 1 JOIN r ON t.id = t_id", 29), ("SELECT g FROM t GROUP BY g WHERE g = 1", 28),
        ("SELECT count(*) FROM t HAVING count(*) > 1 GROUP BY g", 44), ("SELECT g FROM t LIMIT 1 ORDER BY g", 25),
        ("SELECT g FROM t OFFSET 1 LIMIT 1", 26), ("FROM t SELECT g JOIN r ON t.id = t_id", 17),
        ("SELECT g FROM t WHERE t.id = t_id, r", 34), ("SELECT g FROM (SELECT g FROM t LIMIT 1 WHERE g = 1)", 40),
    ],
)  # fmt: skip
def test_clauses_stand_in_their_order(query: str, column: int) -> None:
    """The clauses of a SELECT stand in Spark's order, and tables only behind FROM and JOIN."""
    assert f"is out of place (line 1, column {column})" in str(refusal(query))


def test_from_may_stand_first() -> None:
    """`FROM t SELECT g` is Spark's too, and every pair of parentheses has an order of its own."""
    query = query_of(CATALOG, "FROM (SELECT g FROM t WHERE b GROUP BY g HAVING g > 1) SELECT g WHERE g < 9")
    assert [column.name for column in query.relation.columns] == ["g"]


@pytest.mark.parametrize(
    "query, message, column",
    [
        ("SELECT g ! IN (1) FROM t", "write NOT here", 10),
        ("SELECT g IS ! NULL FROM t", "write NOT here", 13),
        ("SELECT a FROM (SELECT g FROM t) (a)", "stand behind a name", 34),
        ("SELECT g FROM t JOIN r ON WHERE t.id = t_id", "missing behind ON", 24),
        ("SELECT g FROM t JOIN r ON JOIN t x ON t.id = t_id", "missing behind ON", 24),
        ("SELECT id FROM t |> WHERE id = 1", "|> is not supported", 18),
        ("SELECT MAP (id) USING 'cat' FROM t", "this is not SQL", 1),
        ("SELECT if(b, 1) FROM t", "if takes 3 arguments, not 2", 8),
        ("SELECT try_cast(g AS NONSENSE) FROM t", "Expected TYPE after CAST", 22),
        ("SELECT id FROM t WHERE g IN 1", "IN needs a list", 29),
    ],
)
def test_what_spark_does_not_take_or_we_do_not_is_refused_at_its_place(query: str, message: str, column: int) -> None:
    """Texts that sqlglot forgives, rewrites or stumbles over are refused, in our words."""
    refused = refusal(query)
    assert message in str(refused) and f"line 1, column {column}" in str(refused)


@pytest.mark.parametrize(
    "script, place",
    [
        ("SELECT 'abc FROM t", "line 1, column 8"), ("SELECT id,\n `abc FROM t", "line 2, column 2"),
        ("SELECT\n id /* x", "line 2, column 5"), ("SELECT X'GG' FROM t", "line 1, column 8"),
    ],
)  # fmt: skip
def test_a_text_that_does_not_end_is_refused_where_it_begins(script: str, place: str) -> None:
    """A quote, name or comment that is never closed is named by line and column."""
    with pytest.raises(DeclarationError, match=place):
        parse_script(script)


@pytest.mark.parametrize("query", ["SELECT id FROM t WHERE id =", "SELECT id FROM t JOIN", "SELECT sum() FROM t"])
def test_a_refusal_shows_nothing_of_the_parser(query: str) -> None:
    """What is missing is said without classes and tokens of sqlglot."""
    assert "sqlglot" not in str(refusal(query)) and "Token" not in str(refusal(query))


def test_a_compiled_sqlglot_is_named_with_the_remedy() -> None:
    """Its classes cannot be inherited from, which Python says without saying of what."""
    require_source(sqlglot.parser.__file__)
    with pytest.raises(ImportError, match="uninstall the package sqlglotc"):
        require_source("/lib/sqlglot/parser.cpython-311-x86_64-linux-gnu.so")
