"""What a script is read as: statements, declarations, places."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler_catalog import catalog_of
from drawn import examples
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import BIGINT, BINARY, DOUBLE, FLOAT, INT, SMALLINT, STRING, TIMESTAMP, TINYINT, decimal
from viewkeeper.compiler.bind import bind_index, bind_table, bind_view
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import (
    CreateIndex,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    ExplainCreateView,
    ExplainView,
    SelectStatement,
    Show,
    Statement,
)
from viewkeeper.errors import DeclarationError, NotSupported


def one(sql: str) -> Statement:
    (statement,) = parse_script(sql)
    return statement


def table(sql: str) -> tuple[tuple[Column, ...], tuple[int, ...]]:
    statement = one(sql)
    assert isinstance(statement, CreateTable)
    bound = bind_table(statement, "UTC")
    return bound.columns, bound.key


def test_a_script_is_split_at_semicolons_outside_texts_names_and_comments() -> None:
    script = "SHOW TABLES;; SELECT ';' AS `a;b` FROM t -- ; no\n /* ; */ ;\n\nDESCRIBE v;"
    statements = parse_script(script)
    assert [type(s) for s in statements] == [Show, SelectStatement, Describe]
    assert [s.place for s in statements] == [(1, 1), (1, 15), (4, 1)]
    assert statements[1].text == "SELECT ';' AS `a;b` FROM t"


def test_nothing_is_no_statement() -> None:
    assert parse_script(" ; -- nothing\n;") == []


@pytest.mark.parametrize(
    "sql, expected",
    [
        ("show tables", (Show, "TABLES", None)), ("SHOW VIEWS", (Show, "VIEWS", None)),
        ("DROP TABLE t", (Drop, "TABLE", False)), ("DROP VIEW IF EXISTS `t`", (Drop, "VIEW", True)),
        ("DROP MATERIALIZED VIEW t", (Drop, "VIEW", False)), ("drop index t", (Drop, "INDEX", False)),
        ("DESCRIBE t", (Describe, None, None)), ("DESC TABLE t", (Describe, None, None)),
        ("DESCRIBE table", (Describe, None, None)), ("EXPLAIN VIEW t", (ExplainView, None, None)),
    ],
)  # fmt: skip
def test_small_statements_are_read(sql: str, expected: tuple[type, str | None, bool | None]) -> None:
    statement = one(sql)
    kind, if_exists = getattr(statement, "kind", None), getattr(statement, "if_exists", None)
    assert (type(statement), kind, if_exists) == expected


def test_explain_create_view_holds_the_view_with_places_of_the_whole_script() -> None:
    statement = one("EXPLAIN CREATE VIEW v AS\n SELECT a FROM t")
    assert isinstance(statement, ExplainCreateView)
    assert statement.view.query.sql == "SELECT a FROM t"
    assert statement.view.name.place == (1, 21)


def test_every_type_of_column_has_its_spellings() -> None:
    columns, key = table(
        "CREATE TABLE t (a byte, b SHORT, c integer, d LONG, e REAL, f double, g DECIMAL, h numeric(5), i dec(7, 3), "
        "j string, k BINARY, l timestamp_ltz, `m n` INT NOT NULL)"
    )
    assert [column.type for column in columns] == [
        TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, decimal(10, 0), decimal(5, 0), decimal(7, 3), STRING, BINARY,
        TIMESTAMP, INT,
    ]  # fmt: skip
    assert columns[-1] == Column("m n", INT, False)
    assert key == ()


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (a INT, B DOUBLE, PRIMARY KEY (b, a))",
        "CREATE TABLE t (PRIMARY  KEY(B,A), A INT, b DOUBLE NOT NULL)",
        "CREATE TABLE t (A INT, b DOUBLE, CONSTRAINT pk PRIMARY KEY (b, a))",
    ],
)
def test_key_columns_are_in_the_keys_order_and_not_null(sql: str) -> None:
    columns, key = table(sql)
    assert key == (1, 0)
    assert not any(column.nullable for column in columns)


@pytest.mark.parametrize(
    "declared", ["BIGINT PRIMARY KEY", "BIGINT NOT NULL PRIMARY KEY", "BIGINT PRIMARY KEY NOT NULL"]
)
def test_a_key_can_stand_beside_its_column(declared: str) -> None:
    assert table(f"CREATE TABLE t (id {declared}, a INT)") == ((Column("id", BIGINT, False), Column("a", INT)), (0,))


@pytest.mark.parametrize(
    "sql, message, place",
    [
        ("CREATE TABLE t (a VARCHAR)", "expected (", (1, 26)),
        ("CREATE TABLE t (a VARCHAR(x))", "expected a whole number", (1, 27)),
        ("CREATE TABLE t (a ARRAY<VARCHAR(0)>)", r"VARCHAR(0): the length is at least 1", (1, 33)),
        ("CREATE TABLE t (a CHAR)", "expected (", (1, 23)),
        ("CREATE TABLE t (a ARRAY<INTERVAL>)", "the fields of the interval", (1, 33)),
        ("CREATE TABLE t (a INT,\n b MAP<MAP<INT, INT>, INT>)", "key of a map cannot be of type MAP", (2, 20)),
        ("CREATE TABLE t (s STRUCT<a: INT, A STRING>)", "two fields are called A", (1, 34)),
        ("CREATE TABLE t (a UINT)", "there are BOOLEAN, TINYINT", (1, 19)),
        ("CREATE TABLE t (a INT(3))", "INT has no length", (1, 22)),
        ("CREATE TABLE t (a DECIMAL(39, 2))", "1 to 38", None),
        ("CREATE TABLE t (a DECIMAL(3, 4))", "at most the first", None),
        ("CREATE TABLE t (a INT COMMENT 'x' COMMENT 'y')", "COMMENT is not supported here", (1, 35)),
        ("CREATE TABLE t (a INT COMMENT 5)", "expected a text in quotes", (1, 31)),
        ("COMMENT ON COLUMN t IS 'x'", "expected . and the column", (1, 21)),
        ("COMMENT ON t IS 'x'", "expected TABLE or VIEW or COLUMN", (1, 12)),
        ("CREATE TABLE t (a INT DEFAULT 1 DEFAULT 2)", "DEFAULT is not supported here", (1, 33)),
        ("CREATE TABLE t (a INT DEFAULT, b INT)", "expected a constant", (1, 30)),
        ("CREATE TABLE t (a DATE DEFAULT current_date())", "another value each time", (1, 32)),
        ("CREATE STREAM s (ts TIMESTAMP DEFAULT NULL)", "DEFAULT is not supported in a column of a stream", (1, 31)),
        ("CREATE TABLE t (a INT) PARTITIONED BY (a)", "is not supported in CREATE TABLE", (1, 24)),
        ("CREATE TABLE t AS SELECT 1", "CREATE TABLE ... AS is not supported", (1, 16)),
        ("CREATE TABLE IF EXISTS t (a INT)", "expected NOT", (1, 17)),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1", "OR REPLACE and IF NOT EXISTS", (1, 38)),
        ("CREATE OR REPLACE TABLE t (a INT)", "CREATE OR REPLACE TABLE is not supported", (1, 19)),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", "CREATE TEMPORARY is not supported", (1, 8)),
        ("CREATE FUNCTION f AS 'x'", "CREATE FUNCTION is not supported", (1, 8)),
        ("ALTER TABLE t CHANGE a b INT", "ALTER TABLE ... CHANGE is not supported", (1, 15)),
        ("ALTER TABLE t ADD COLUMN a INT FIRST", "FIRST is not supported here", (1, 32)),
        ("ALTER TABLE t ADD COLUMN a INT PRIMARY KEY", "a key is declared with the table", (1, 32)),
        ("ALTER TABLE t DROP a", "expected COLUMNS", (1, 20)),
        ("ALTER TABLE t ALTER COLUMN a SET NOT NULL", "expected DEFAULT", (1, 34)),
        ("ALTER INDEX i RENAME TO j", "ALTER INDEX is not supported yet", (1, 7)),
        ("INSERT OVERWRITE t VALUES (1)", "INSERT OVERWRITE is not supported", (1, 8)),
        ("TRUNCATE TABLE t", "TRUNCATE is not supported yet", (1, 1)),
        ("CREATE VIEW a.b AS SELECT 1", "a name has one part only", (1, 14)),
        ("DROP VIEW v CASCADE NOW", "NOW is not supported in DROP", (1, 21)),
        ("EXPLAIN DELETE FROM t", "EXPLAIN DELETE is not supported", (1, 9)),
        ("CREATE INDEX i ON t USING x (a)", "expected (", (1, 21)),
    ],
)
def test_other_declarations_are_refused_by_name_and_place(
    sql: str, message: str, place: tuple[int, int] | None
) -> None:
    with pytest.raises(DeclarationError) as refused:
        one(sql)
    assert message in str(refused.value)
    if place:
        assert (refused.value.line, refused.value.column) == place
    if "not supported" in message:
        assert isinstance(refused.value, NotSupported)


@pytest.mark.parametrize(
    "sql, message, place",
    [
        ("FOO", "a statement begins with", (1, 1)),
        ("CREATE TABLE t", "expected (", (1, 15)),
        ("CREATE TABLE t (a)", "expected a type", (1, 18)),
        ("CREATE TABLE t (a INT", "expected )", (1, 22)),
        ("CREATE TABLE 1t (a INT)", "expected the name of a table", (1, 14)),
        ("CREATE TABLE t ()", "expected the name of a column", (1, 17)),
        ("CREATE TABLE t (PRIMARY KEY (a))", "needs columns", None),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)", "one PRIMARY KEY", (1, 42)),
        ("CREATE VIEW v SELECT 1", "expected AS", (1, 15)),
        ("CREATE VIEW v AS", "expected a query", (1, 17)),
        ("CREATE VIEW v AS SHOW TABLES", "", (1, 18)),
        ("SELECT a\n  FROM t WHERE WHERE", "this is not SQL", None),
        ("SELECT a,\n  b, FROM t", ", is out of place", (2, 4)),
        ("SELECT 'a", "this is not SQL", None),
        ("SHOW COLUMNS", "expected TABLES or VIEWS", (1, 6)),
        ("SHOW TABLES LIKE 'a'", "expected the end of the statement", (1, 13)),
    ],
)
def test_what_is_no_sql_is_refused_with_its_place(sql: str, message: str, place: tuple[int, int] | None) -> None:
    with pytest.raises(DeclarationError) as refused:
        one(sql)
    assert message in str(refused.value)
    if place:
        assert (refused.value.line, refused.value.column) == place


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, , b FROM t", "SELECT , a FROM t", "SELECT coalesce(, a) FROM t", "SELECT a IN (, 1) FROM t",
        "SELECT a FROM . t", "SELECT . 5 FROM t", "SELECT a NOT NULL FROM t", "SELECT a NOT IS NULL FROM t",
        "SELECT CASE WHEN a NULL END FROM t", "SELECT CASE a WHEN 1 'x' END FROM t", "SELECT a BETWEEN 1 2 FROM t",
        "SELECT AS a b FROM t", "SELECT a AS FROM t", "SELECT a AS, b FROM t", "SELECT (a AS b) FROM t",
        "SELECT (a b) FROM t", "SELECT count() FROM t", "SELECT 5L(*) FROM t", "SELECT 2.5F(3) FROM t",
        "SELECT a FROM FROM t", "SELECT a FROM SELECT t", "FROM SELECT t", "(a) t", "SELECT a FROM t GROUP BY",
        "SELECT a FROM t GROUP BY , a", "SELECT a FROM t GROUP BY DISTINCT a",
        "SELECT sum(SELECT a) FROM t", "SELECT count(ORDER BY *) FROM t", "SELECT a AS 1.5 FROM t",
        "SELECT a AS X'1f' FROM t", "SELECT t.'a' FROM t", "SELECT a AS select FROM t", "SELECT .1.5e3BD FROM t",
    ],
)  # fmt: skip
def test_what_sqlglot_forgives_and_spark_does_not_is_refused(sql: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        one(sql)
    assert refused.value.line == 1


@pytest.mark.parametrize(
    "sql, message, place",
    [
        ("CREATE TABLE t (a INT, A BIGINT)", "the column A stands twice", (1, 24)),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a, A))", "the key column A stands twice", (1, 40)),
        ("CREATE TABLE t (amount INT, PRIMARY KEY (amuont))", "did you mean amount?", (1, 42)),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(sql: str, message: str, place: tuple[int, int]) -> None:
    with pytest.raises(DeclarationError, match=message.replace("?", r"\?")) as refused:
        table(sql)
    assert (refused.value.line, refused.value.column) == place


def test_an_index_is_looked_up_without_regard_to_case() -> None:
    catalog = catalog_of("CREATE TABLE t (a INT, b INT); CREATE VIEW v AS SELECT b FROM t")
    statement = one("CREATE INDEX by_b ON T (B, a)")
    assert isinstance(statement, CreateIndex)
    index = bind_index(catalog, statement)
    assert (index.name, index.on, index.columns) == ("by_b", catalog.tables[0].id, (1, 0))


@pytest.mark.parametrize(
    "sql, message",
    [
        ("CREATE INDEX i ON tt (a)", "there is no table or view tt; did you mean t?"),
        ("CREATE INDEX i ON t (aa)", "t has no column aa; did you mean a?"),
        ("CREATE INDEX i ON t (a, A)", "the column A stands twice"),
        ("CREATE INDEX T ON t (a)", "there is a table called t already"),
    ],
)
def test_an_index_on_nothing_is_refused(sql: str, message: str) -> None:
    catalog = catalog_of("CREATE TABLE t (a INT, b INT)")
    statement = one(sql)
    assert isinstance(statement, CreateIndex)
    with pytest.raises(DeclarationError) as refused:
        bind_index(catalog, statement)
    assert str(refused.value).startswith(message)


names = st.text("abcü😀 \n`'\";-.", min_size=1, max_size=8)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(names, min_size=1, max_size=4, unique_by=str.lower), st.lists(st.text("\n ", max_size=3), min_size=1))
def test_any_name_in_backticks_comes_back_as_written_with_its_place(columns: list[str], gaps: list[str]) -> None:
    quoted = ["`" + name.replace("`", "``") + "`" for name in columns]
    declared = [f"{gaps[i % len(gaps)]}{name} INT" for i, name in enumerate(quoted)]
    script = f"CREATE TABLE t ({','.join(declared)}); CREATE VIEW v AS SELECT * FROM t"
    create, view = parse_script(script)
    assert isinstance(create, CreateTable) and isinstance(view, CreateView)
    assert [column.name.name for column in create.columns] == columns
    for column, name in zip(create.columns, quoted, strict=True):
        line, place = column.name.place
        assert script.split("\n")[line - 1][place - 1 :].startswith(name.split("\n")[0])
    bound = bind_view(catalog_of(create.text), view)
    assert [column.name for column in bound.columns] == columns


def test_threads_that_parse_at_once_each_get_their_own_statements() -> None:
    """What one thread parses is never mixed up with what another does."""
    texts = [f"SELECT a, count(*) AS n{i} FROM (SELECT a, b FROM t{i} WHERE b IN (1, 2)) AS q GROUP BY a"
             for i in range(40)]  # fmt: skip
    expected = [repr(parse_script(text)) for text in texts]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            assert list(threads.map(lambda text: repr(parse_script(text)), texts)) == expected


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE TABLE `` (a INT)", "name of a table, which cannot be empty.*line 1, column 14"),
        ("CREATE TABLE t (`` INT)", "name of a column, which cannot be empty"),
        ("SELECT a FROM t WHERE a = '\ud800'", "is no character.*line 1, column 28"),
        (None, "expected SQL text, not NoneType"),
    ],
)  # fmt: skip
def test_empty_names_and_what_is_no_text_are_refused(sql: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        parse_script(sql)
