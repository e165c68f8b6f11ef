"""What no text may do: neither a view's, nor one that `engine="spark"` runs."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.errors import ParseException

import viewkeeper
from viewkeeper import Database
from viewkeeper.checker.spark_judge import SparkJudge
from viewkeeper.cli import cli
from viewkeeper.compiler.lexing import lexemes, printed
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.syntax import tokenize
from viewkeeper.errors import DeclarationError, InputError
from viewkeeper.spark.asking import ask, one_query
from viewkeeper.spark.sessions import own_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = """
CREATE TABLE t (id BIGINT, x STRING, PRIMARY KEY (id));
CREATE STREAM m (ts TIMESTAMP NOT NULL, loss INT) TIMESTAMP BY ts PARTITION LENGTH 60;
"""
PIECES = ["'", '"', "`", "\\", "\n", "\r", " ", "--", "-- x\\\n", "/*", "*/", "/*+", "{#", "#}", "$", "$$", "r'", 'R"',
          "a", "b", "x", "SELECT", "GROUP BY", "1", "12", ".", "e", "E5", "e+", "D", "BD", "L", "_", "ö", "\u2028",
          "\x85", "\xa0", "\x0b", "\x0c", "\0", "\ufeff", ";", "://", ":", "/", "<", ">", "=", "|", "!", "\u017f",
          "\u0131", "²", "\u0663", "%", "''", "N'", "X'1F'", "b'", "0x1F", "{%", "//", "#", "?::", "@v", "\U0001f600",
          "\x1c", "\u2029"]  # fmt: skip


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql(SCHEMA)
        database.table("t").put({"id": 1, "x": "a"})
        database.stream("m").append([{"ts": "2015-01-01 10:00", "loss": 1}, {"ts": "2015-01-01 10:05", "loss": 2}])
        yield database


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder that INSERT OVERWRITE DIRECTORY would empty."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "kept").write_text("as it was")
    return folder


def spark_words(spark: SparkSession, text: str) -> list[tuple[int, int]]:
    """Where Spark's own lexer sees words."""
    java: Any = spark._jvm
    parser = java.org.apache.spark.sql.catalyst.parser
    lexer = parser.SqlBaseLexer(parser.UpperCaseCharStream(java.org.antlr.v4.runtime.CharStreams.fromString(text)))
    lexer.removeErrorListeners()
    found = re.finditer(
        r"\[@-?\d+,(\d+):(\d+)='(?:(?!',<\d+>(?:,channel=\d+)?,\d+:\d+\]).)*',<\d+>(,channel=\d+)?,\d+:\d+\]",
        lexer.getAllTokens().toString(), re.DOTALL,
    )  # fmt: skip
    return [(int(token[1]), int(token[2]) + 1) for token in found if not token[3]]


def test_any_text_is_cut_into_the_words_that_sparks_own_lexer_sees(spark: SparkSession) -> None:
    chance, taken = random.Random(15), 0
    for _ in range(1500):
        text = "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 12)))
        words = list(lexemes(text))
        if any(word.kind == "dollar" for word in words):
            continue
        assert [(word.start, word.end) for word in words] == spark_words(spark, text), repr(text)
        try:
            tokens = tokenize(Script(text))
        except DeclarationError:
            continue
        taken += 1
        assert spark_words(spark, printed(text)) == [(word.start, word.end) for word in words], repr(text)
        assert {token.start for token in tokens} <= {word.start for word in words} | {
            i for word in words for i in range(word.start, word.end)
        }, repr(text)
    assert taken > 200


def attack(victim: Path, table: str, value: str) -> str:
    """A text for sqlglot, and a command for Spark, which goes on with the comment in the second line."""
    return (f"FROM {table} -- \\\nSELECT {value} AS z, '\nINSERT OVERWRITE DIRECTORY \"{victim}\" USING csv "
            "SELECT 1 AS a --' AS text")  # fmt: skip


@pytest.mark.parametrize(("table", "value"), [("t", "id"), ("m", "1 / loss"), ("m", "upper(loss)")])
def test_a_comment_that_hides_a_command_is_refused_where_a_view_is_declared(
    db: Database, victim: Path, table: str, value: str
) -> None:
    query = attack(victim, table, value)
    for text in (query, f"CREATE VIEW v AS {query}", f"EXPLAIN CREATE VIEW v AS {query}",
                 f"CREATE VIEW v AS INITIALIZE v[j] AS {query} UPDATE v[j] AS {query} PARTITION LENGTH 1"):  # fmt: skip
        with pytest.raises(DeclarationError, match=r"take the \\ away \(line \d, column \d+\)"):
            db.sql(text)
    db.catch_up(timeout=60)
    assert [path.name for path in victim.iterdir()] == ["kept"]


def test_a_comment_that_hides_a_command_does_nothing_even_where_it_is_asked(spark: SparkSession, victim: Path) -> None:
    """As if such a view had been declared long ago: by the pipeline, and by `check`."""
    session = own_session(spark, "UTC")
    session.range(3).createOrReplaceTempView("t")
    query = attack(victim, "t", "id")
    assert "INSERT" in one_query(query)
    for text in (query, f"FROM t INSERT OVERWRITE DIRECTORY '{victim}' USING csv SELECT 1 AS a"):
        with pytest.raises(ParseException):
            ask(session, text)
        with pytest.raises(ParseException):
            SparkJudge(spark).answers({"v": text}, {"t": pa.table({"id": [1]})})
    for text in (f"INSERT OVERWRITE DIRECTORY '{victim}' USING csv SELECT 1", "SELECT 1; DROP TABLE t"):
        with pytest.raises(DeclarationError):
            ask(session, text)
    assert [path.name for path in victim.iterdir()] == ["kept"]


def test_comments_and_blanks_of_every_kind_do_not_change_what_a_view_is(db: Database) -> None:
    db.sql("CREATE VIEW a AS SELECT upper(x) AS u, 'it''s', 'a' 'b' AS ab, r'\\n' AS r /* a /* nested */ ' */\u00a0"
           "FROM (SELECT 'q' AS x, ts FROM m) s -- it's; -- here\n")  # fmt: skip
    db.sql("CREATE VIEW b AS SELECT /* ' */ id, X'1F' AS h, 1e1D AS d, 1.BD AS e -- '\r FROM t /* \" */")
    db.catch_up(timeout=60)
    (row,) = db.view("a").at("2015-01-01 10:00")
    assert list(row.values()) == ["Q", "it's", "ab", "\\n"]
    assert [str(report) for report in db.check_all() if not report.ok] == []


REFUSED = [
    ("INSERT OVERWRITE DIRECTORY '{victim}' USING csv SELECT 1", "expected a query"),
    ("FROM t INSERT OVERWRITE DIRECTORY '{victim}' USING csv SELECT id", "INSERT"),
    ("WITH q AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{victim}' USING csv SELECT * FROM q", "INSERT"),
    ("SELECT 1; INSERT OVERWRITE DIRECTORY '{victim}' USING csv SELECT 1", "without a semicolon"),
    ("CREATE TABLE u AS SELECT 1 AS a", "expected a query"),
    ("CREATE TEMPORARY VIEW t AS SELECT 1 AS a", "expected a query"),
    ("SET spark.sql.ansi.enabled=false", "expected a query"),
    ("BEGIN SELECT 1; END", "expected a query"),
    ("EXECUTE IMMEDIATE 'SELECT 1'", "expected a query"),
    ("SELECT * FROM text.`{victim}`", "is no table, view or stream of this database"),
    ("SELECT x IN (SELECT value FROM text.`{victim}`) FROM t", "is no table, view or stream of this database"),
    ("SELECT * FROM secret", "secret is no table, view or stream"),
    ("SELECT * FROM global_temp.secret", "global_temp.secret is no table, view or stream"),
    ("SELECT * FROM IDENTIFIER('global_' || 'temp.secret')", "global_temp.secret is no table, view or stream"),
    ("SELECT * FROM IDENTIFIER(concat('global_', 'temp.secret'))", "IDENTIFIER"),
    ("SELECT reflect('java.util.UUID', 'randomUUID')", "reflect calls a Java method"),
    ("SELECT `Java_Method` ('java.util.UUID', 'randomUUID')", "Java_Method calls a Java method"),
    ("SELECT try_reflect('java.util.UUID', 'randomUUID')", "try_reflect calls a Java method"),
    ("SELECT IDENTIFIER('reflect')('java.util.UUID', 'randomUUID')", "reflect calls a Java method"),
    ("SELECT IDENTIFIER(upper('reflect'))('java.util.UUID', 'randomUUID')", "IDENTIFIER"),
    ("SELECT IDENTIFIER('default.f')(1)", "function of a catalog"),
    ("SELECT * FROM IDENTIFIER('text.`{victim}`')", "is no table, view or stream of this database"),
    ("SELECT system.builtin.reflect('java.util.UUID', 'randomUUID')", "reflect calls a Java method"),
    ("SELECT from_json('1', reflect('java.util.UUID', 'randomUUID'))", "reflect calls a Java method"),
    ("SELECT default.f(1)", "function of a catalog"),
    ("SELECT TRANSFORM(x) USING 'cat' AS (y) FROM t", "a script"),
    (
        "SELECT xpath_string('<!DOCTYPE a SYSTEM \"file://{victim}/kept\"><a/>', 'a') FROM t",
        "xpath_string can open files",
    ),
    ("SELECT XPath('<a/>', 'a')", "XPath can open files"),
    ("SELECT xpath_int('<a/>', 'a')", "xpath_int can open files"),
    ("SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '{victim}'))", "can open files"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_engine_spark_takes_one_query_over_the_databases_own_names(
    spark: SparkSession, db: Database, victim: Path, text: str, message: str
) -> None:
    spark.range(1).createOrReplaceTempView("secret")
    spark.range(1).createOrReplaceGlobalTempView("secret")
    with pytest.raises(DeclarationError, match=re.escape(message)) as refused:
        db.sql(text.format(victim=victim), engine="spark")
    assert "unsafe=True" in str(refused.value)
    assert refused.value.line is not None
    assert [path.name for path in victim.iterdir()] == ["kept"]
    assert list(db.sql("SELECT count(*) AS n FROM t", engine="spark")) == [{"n": 0}]


@pytest.mark.parametrize(
    ("text", "message"),
    [("SELECT reflect('java.util.UUID', 'randomUUID') FROM m", "calls a Java method"),
     ("SELECT ts, xpath_string('<!DOCTYPE a SYSTEM \"file:///etc/hostname\"><a/>', 'a') AS v FROM m", "can open files"),
     ("SELECT ts, upper(value) AS v FROM m, text.`/etc/hostname`", "a name has one part only"),
     ("SELECT ts, upper(value) AS v FROM m, IDENTIFIER('text.`/etc/hostname`')", "a name has one part only")],
)  # fmt: skip
def test_a_view_cannot_reach_out_either(db: Database, text: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        db.sql(f"CREATE VIEW v AS {text}")


def test_whoever_asks_for_it_runs_anything_and_leaves_no_setting_behind(
    db: Database, victim: Path, tmp_path: Path
) -> None:
    db.catch_up(timeout=60)
    with db.snapshot() as snapshot:
        for reader in (db, snapshot):
            found = reader.sql(f"SELECT value FROM text.`{victim}/kept`", engine="spark", unsafe=True)
            assert list(found) == [{"value": "as it was"}]
            reader.sql("SET spark.sql.ansi.enabled=false", engine="spark", unsafe=True)
    with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
        db.sql("SELECT 2147483647 + 1 AS a FROM t", engine="spark")
    with pytest.raises(InputError, match='unsafe=True is for engine="spark"'):
        db.sql("SELECT 1", unsafe=True)
    out = tmp_path / "out"
    command = f"INSERT OVERWRITE DIRECTORY '{out}' USING csv SELECT id FROM t"
    arguments = ["sql", command, "--engine", "spark", "--db", str(db.root)]
    assert "one query" in str(CliRunner().invoke(cli, arguments).exception)
    assert not out.exists()
    assert CliRunner().invoke(cli, [*arguments, "--unsafe"], catch_exceptions=False).exit_code == 0
    assert list(out.glob("*.csv"))
