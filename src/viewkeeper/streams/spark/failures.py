"""What Spark says is wrong with a query, in one line and with the place."""

from __future__ import annotations

import re

from viewkeeper.compiler.part_references import place_in_text
from viewkeeper.compiler.supported import no_value
from viewkeeper.errors import DeclarationError, Error, StorageError, is_shortage
from viewkeeper.plans.expressions import TextPlace
from viewkeeper.plans.references import PartQuery
from viewkeeper.spark.asking import deepest
from viewkeeper.streams.spark.hidden import HiddenQuery

_END = re.compile(r"(?:;?\s*SQLSTATE: \w+|\n== SQL|\n== DataFrame|\nJVM stacktrace:|; line \d+ pos \d+).*", re.DOTALL)
_AT = re.compile(r"line (\d+),? pos (\d+)")
_UNBOUND = re.compile(r"\[UNBOUND_SQL_PARAMETER\] Found the unbound parameter: (\w+)")
_BY_PLACE = re.compile(r"_\d+")
"""What Spark calls a `?`."""
_UNKNOWN = re.compile(r"\[UNRESOLVED_ROUTINE\] Cannot resolve routine `(\w+)`")
_ADVICE = re.compile(r'\s*If necessary set "?spark\.sql\.ansi\.enabled"? to "?false"? to bypass this error\.')


def failures() -> tuple[type[Exception], ...]:
    """All that Spark raises for a query; the loss of its Java process is none of them."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JJavaError


def is_unreadable(error: BaseException) -> bool:
    """Whether Spark cannot parse the query at all."""
    from pyspark.errors import ParseException

    return isinstance(error, ParseException)


def is_refusal(error: Exception) -> bool:
    """Whether Spark has refused to run the query, rather than raised while it ran."""
    from pyspark.errors import AnalysisException, ParseException

    return isinstance(error, AnalysisException | ParseException)


def refusal(error: Exception, query: HiddenQuery) -> DeclarationError:
    """`error` came of analysing `query`: the same, with its place in the text."""
    place = place_of(error, query) or ()
    unbound = _UNBOUND.search(str(error))
    if unbound is not None:
        name = unbound[1]
        return DeclarationError(no_value("" if _BY_PLACE.fullmatch(name) else name), *place)
    return DeclarationError(f"Spark refuses this query: {text_of(error, query)}", *place)


def unknown_function(refused: DeclarationError) -> str | None:
    """The function for want of which Spark has refused a query, None where that is not why."""
    found = _UNKNOWN.search(str(refused))
    return None if found is None else found[1]


def failure(error: Exception, query: HiddenQuery, written: PartQuery) -> str:
    """`error` came of running `query`, which stands for what was `written`: what is to be said of it."""
    place = place_of(error, query)
    place = None if place is None else place_in_text(written, place, (1, 1))
    where = f" (line {place[0]}, column {place[1]} of the query)" if place else ""
    return text_of(error, query) + where


def raise_unless_of_query(error: Exception) -> None:
    """Raises Error where a failure is not the query's own: Spark was stopped, or lost a file."""
    from pyspark.errors import PySparkException

    condition = (error.getCondition() if isinstance(error, PySparkException) else None) or ""
    text = str(error)
    if (
        "SparkContext was shut down" in text
        or "stopped SparkContext" in text
        or "SparkContext has been shutdown" in text
    ):
        raise Error("Spark was stopped while a query ran; start this process again") from error
    if is_shortage(error):
        raise StorageError(f"Spark ran short of something: {_one_line(text)}") from error
    if condition.startswith(("FAILED_READ_FILE", "PATH_NOT_FOUND")):
        raise Error(f"Spark cannot read a part file: {_one_line(text)}; check the database") from error


def text_of(error: Exception, query: HiddenQuery) -> str:
    """What `error` says of `query`, in one line."""
    return query.shown(_one_line(deepest(error)))


def _one_line(text: str) -> str:
    return " ".join(_ADVICE.sub("", _END.sub("", text.strip())).split())


def place_of(error: Exception, query: HiddenQuery) -> TextPlace | None:
    """Where in the text of `query` it was raised, if that is known."""
    from pyspark.errors import PySparkException
    from pyspark.errors.exceptions.base import QueryContextType

    if not isinstance(error, PySparkException):
        return None
    for context in error.getQueryContext():
        if context.contextType() == QueryContextType.SQL and not context.objectName():
            return query.place(context.startIndex())
    if at := _AT.search(str(error)):
        lines = query.sql.split("\n")[: int(at[1]) - 1]
        return query.place(sum(len(line) + 1 for line in lines) + int(at[2]))
    return None
