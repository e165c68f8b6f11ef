"""The one way in which the text of a query gets to Spark.

Spark is given no text as it was typed, but one printed from its words: no comment is left in it, and nothing but blanks
stands between the words.  Spark's own parser then reads it by the rule for queries, which has no commands, and what it
has read is what runs: no text is parsed twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from viewkeeper.compiler.lexing import Lexeme, lexemes, printed
from viewkeeper.compiler.source_text import Script
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.spark.parameters import Constant, with_constants
from viewkeeper.spark.sessions import active

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUERY = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
_JAVA = "calls a Java method"
_FILES = "can open files and addresses"
_REACHING = {
    "reflect": _JAVA, "java_method": _JAVA, "try_reflect": _JAVA,
    "from_avro": _FILES, "to_avro": _FILES, "schema_of_avro": _FILES, "from_protobuf": _FILES, "to_protobuf": _FILES,
    "from_xml": _FILES, "schema_of_xml": _FILES,
    **dict.fromkeys(("xpath", *(f"xpath_{type_}" for type_ in ("boolean", "double", "float", "int", "long", "number",
                                                              "short", "string"))), _FILES),
    "python_worker_logs": "reads what other queries have logged",
}  # fmt: skip
"""Functions that reach beyond their arguments, some when a query is merely analysed; reviewed with the `spark.pins`."""


def ask(session: SparkSession, sql: str, parameters: Mapping[str, Constant] | None = None) -> DataFrame:
    """The answer to the query `sql` in `session`, one of `own_session`'s; `parameters` are the values of `:name` there.

    Raises DeclarationError or NotSupported where it is not one query, or names a function that reaches beyond its
    arguments; pyspark's errors where Spark cannot parse or analyse it.
    """
    from pyspark.sql import DataFrame

    plan = parsed(session, sql)
    with active(session):
        if parameters:
            plan = with_constants(session, plan, parameters)
        rows = _java(session).org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
    return DataFrame(rows, session)


def parsed(session: SparkSession, sql: str) -> Any:
    """Spark's plan of the query `sql` as parsed, its names not looked up yet; raises as `ask`."""
    text = one_query(sql)
    with active(session):
        # Not the session's own parser: an extension may have put another one in its place.
        return _java(session).org.apache.spark.sql.execution.SparkSqlParser().parseQuery(text)


@lru_cache(maxsize=256)
def one_query(sql: str) -> str:
    """`sql` as Spark is given it: of the same length, each word at its place."""
    source, words = Script(sql), list(lexemes(sql))
    if not words or sql[words[0].start : words[0].end].upper() not in _QUERY:
        raise source.error("expected a query, which begins with SELECT or WITH", words[0].start if words else 0)
    for word in words:
        if word.kind == "dollar":
            raise source.error("a text between dollars is not supported; write it in quotes", word.start, NotSupported)
        if sql[word.start : word.end] == ";":
            raise source.error("one query is expected here, without a semicolon", word.start)
    script: int | None = None
    for i, word in enumerate(words):
        text = sql[word.start : word.end].upper()
        script = word.start if text in ("TRANSFORM", "MAP", "REDUCE") else script
        if text == "USING" and i + 1 < len(words) and words[i + 1].kind in ("string", "raw"):
            raise source.error("a script cannot stand in a query; leave it out", script, NotSupported)
        if (reason := _reaching(sql, words, i)) is not None:
            raise source.error(reason, word.start, NotSupported)
    return printed(sql)


def _reaching(sql: str, words: Sequence[Lexeme], i: int) -> str | None:
    """Why word `i` cannot stand in a query, if it is a function that reaches out."""

    def text(index: int) -> str:
        return sql[words[index].start : words[index].end] if 0 <= index < len(words) else ""

    if words[i].kind not in ("word", "quoted") or text(i + 1) != "(":
        return None
    name = text(i)
    if words[i].kind == "quoted":
        name = name[1:-1].replace("``", "`")
    if what := _REACHING.get(name.lower()):
        return f"{name} {what}, which a query cannot do here; leave it out"
    if text(i - 1) == "." and words[i - 2 : i - 1] and words[i - 2].kind in ("word", "quoted"):
        return f"{text(i - 2)}.{name} is a function of a catalog; a query can call Spark's own alone here"
    return None


def refused(error: DeclarationError, remedy: str) -> DeclarationError:
    """The same error, at the same place, with what to do besides."""
    where = f" (line {error.line}, column {error.column})"
    return type(error)(f"{str(error).removesuffix(where)}; {remedy}", error.line, error.column)


def _java(session: SparkSession) -> Any:
    assert session._jvm is not None, "a session has a JVM until it is stopped"
    return session._jvm


def deepest(error: Exception) -> str:
    """What `error` says; of a Java exception that Spark does not name, the cause behind its causes."""
    from py4j.protocol import Py4JJavaError

    if not isinstance(error, Py4JJavaError):
        return str(error)
    found = error.java_exception
    while found.getCause() is not None:
        found = found.getCause()
    return f"{found.getClass().getSimpleName()}: {found.getMessage()}"


_OF_VALUES = frozenset(
    (
        "ArithmeticException", "DateTimeException", "IllegalArgumentException", "IllegalFormatConversionException",
        "IndexOutOfBoundsException", "JsonEOFException", "JsonParseException",
        "MissingFormatArgumentException", "NumberFormatException",
        "PatternSyntaxException", "StringIndexOutOfBoundsException", "UnknownFormatConversionException",
    )
)  # fmt: skip
"""Java's own exceptions that functions of Spark's let through, of values that they cannot take."""


_OF_ROWS = ("21", "22")
"""SQLSTATEs of Spark's for what it found in rows: more of them than there may be, or a value that cannot be."""


def raised_by_java(error: Exception) -> str | None:
    """How the query has raised of the rows that it read, where pyspark does not know the exception: the class of a
    Spark exception, FUNCTION_RAISED of such another; None where it has failed for another reason."""
    from py4j.java_gateway import is_instance_of
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

    if not isinstance(error, Py4JJavaError):
        return None
    found = error.java_exception
    while found.getCause() is not None:
        found = found.getCause()
    if found.getClass().getSimpleName() in _OF_VALUES:
        return "FUNCTION_RAISED"
    if not is_instance_of(SparkContext._gateway, found, "org.apache.spark.SparkThrowable"):
        return None
    return str(found.getCondition()).split(".")[0] if str(found.getSqlState()).startswith(_OF_ROWS) else None
