"""Tables, views and parts as Spark DataFrames, and SELECTs that Spark runs."""

from __future__ import annotations

import itertools
import re
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from viewkeeper.catalog.model import PartView, Stream, Table, View
from viewkeeper.compiler.bind_python import left_to_spark
from viewkeeper.compiler.lexing import lexemes
from viewkeeper.compiler.part_references import has_brackets, quoted, read_query
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.syntax import syntax_tree, tokenize
from viewkeeper.errors import DeclarationError, Error, NotSupported, QueryRaises
from viewkeeper.plans.references import Reference
from viewkeeper.spark.asking import ask, one_query, parsed, refused
from viewkeeper.spark.parameters import Constant, constants
from viewkeeper.spark.processes import loss_named
from viewkeeper.spark.refused_types import unread_column
from viewkeeper.spark.sessions import active, own_session
from viewkeeper.spark.tables import answer_of, from_file
from viewkeeper.streams.spark.failures import (
    failures,
    is_refusal,
    is_unreadable,
    place_of,
    raise_unless_of_query,
    refusal,
    text_of,
    unknown_function,
)  # fmt: skip
from viewkeeper.streams.spark.hidden import without_hidden
from viewkeeper.streams.spark.plans import foreign_function, outside, plan_of, spark_functions, unnamed_relation
from viewkeeper.streams.spark.quiet import failures_unlogged
from viewkeeper.streams.spark.reading import frame
from viewkeeper.trace.lease import Lease
from viewkeeper.trace.manifest import ManifestRef
from viewkeeper.views.part_query import meant
from viewkeeper.views.parts_at_version import Parts
from viewkeeper.views.result import Result
from viewkeeper.views.spark_session import SparkUse
from viewkeeper.views.version import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WORD = re.compile(r"\w+")


class SparkFrames:
    """Hands rows to Spark, until `close`: tables and views as Parquet files of their own; parts as the files in which
    they stand.  What a DataFrame shows does not change, whatever is committed meanwhile: with `holds` the versions of
    parts are held here, else whoever closes this holds them.  `session` is asked for when first needed, and starts
    Spark then; several threads may use this."""

    def __init__(self, session: Callable[[], SparkSession], *, holds: bool = False) -> None:
        self._session, self._holds = session, holds
        self._lock = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._numbers = itertools.count(1)
        self._leases: dict[ManifestRef, Lease] = {}

    def frame(self, version: Version, name: str, allow_stale: bool = False) -> DataFrame:
        """The rows of a table or view as of `version`."""
        shape = version.shape(name)
        return self.table(shape.table(version.rows(shape, allow_stale).repeated().columns))

    def table(self, table: pa.Table) -> DataFrame:
        """The rows of an Arrow table."""
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="viewkeeper-")
            file = Path(self._folder.name) / f"{next(self._numbers)}.parquet"
        session = self._session()
        with active(session):
            return from_file(session, table, file)

    def parts(
        self, version: Version, parts: Parts, first: int | None = None, last: int | None = None,
        part_timestamp: str | None = None,
    ) -> DataFrame:  # fmt: skip
        """The rows of parts `first` to `last` (None: of all) as of `version`; `part_timestamp` is the name for a last
        column with the part's start, None for none.  Raises LeaseLost where the version is not held, and too old."""
        snapshot = version.snapshot
        with self._lock:
            if self._holds and snapshot.ref not in self._leases:
                self._leases[snapshot.ref] = Lease(snapshot.storage, snapshot.number)
        session = self._session()
        with active(session):
            return frame(session, parts.disk, parts.of.columns, parts.pieces(first, last), version.catalog.zone,
                         parts.of.length, part_timestamp)  # fmt: skip

    def close(self) -> None:
        """Deletes the files and lets the versions go; the DataFrames cannot be read any more."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        while self._leases:
            self._leases.popitem()[1].close()


_REMEDY = ('engine="spark" runs one query over the tables, views and streams of this database; with unsafe=True '
           "(--unsafe on the command line) Spark runs whatever it is given")  # fmt: skip


def run_on_spark(
    spark: SparkUse, version: Version, text: str, parameters: Mapping[str, object] | None = None, unsafe: bool = False
) -> Result:
    """What Spark answers to one query, with all tables, views, streams and parts of `version` at hand; `parameters` are
    the values of `:name` there, where it is not `unsafe`.

    Raises DeclarationError or NotSupported, with the place, for a command, and for what reads or calls anything else;
    `unsafe`: Spark runs that too.  The session is nobody else's until the answer is there.
    """
    zone = version.catalog.zone
    with loss_named(), failures_unlogged():
        if unsafe:
            session = own_session(spark.session(), zone, {"spark.sql.runSQLOnFiles": "true"})
            with active(session):
                return _run(session, version, text, None)
        given = constants(text, parameters or {}, zone)
        with spark.queries().session(zone, None) as session:
            try:
                return _run(session, version, text, given)
            except failures() as error:
                raise _told(error, text) from error
            except DeclarationError as error:
                raise refused(error, _REMEDY) from None


def _told(error: Exception, text: str) -> Error:
    """What Spark says of the query `text`, as an error of ours."""
    raise_unless_of_query(error)
    query = without_hidden(text, frozenset())
    if is_unreadable(error):
        return refused(refusal(error, query), _REMEDY)
    if is_refusal(error):
        return refusal(error, query)
    place = place_of(error, query)
    where = "" if place is None else f" (line {place[0]}, column {place[1]})"
    return QueryRaises(f"the query raises: {text_of(error, query)}{where}")


def answered_by_spark(
    spark: SparkUse, version: Version, text: str, refused: NotSupported, parameters: Mapping[str, object]
) -> Result:
    """What Spark answers to a query that our own operators do not know: `refused` is what they say, and what is raised
    where `text` is no query, or none that Spark can read."""
    try:
        one_query(text.rstrip().removesuffix(";"))
    except DeclarationError:
        raise refused from None
    try:
        return run_on_spark(spark, version, text, parameters)
    except DeclarationError as error:
        if error.__cause__ is not None and is_unreadable(error.__cause__):
            raise refused from None
        name = unknown_function(error)
        if name is None or version.catalog.function(name) is None:
            raise error from None
        raise NotSupported(left_to_spark(name, refused), error.line, error.column) from None


def _run(session: SparkSession, version: Version, text: str, parameters: Mapping[str, Constant] | None) -> Result:
    """What Spark answers; whatever it is given, where there are no `parameters`."""
    unsafe = parameters is None
    sql, references = _cut(version, text)
    named = set(_WORD.findall(sql.lower()))
    # Rows are handed over only of what the text may mean: a name that does not stand in it cannot be meant.
    catalog = version.catalog
    readable: list[Table | View] = [*catalog.tables, *(view for view in catalog.views if view.replaces is None)]
    meant_here = [item.name for item in readable if named.issuperset(_WORD.findall(item.name.lower()))]
    parts: dict[str, Stream | PartView | Reference] = {each.name: each for each in references}
    parts |= {item.name: item for item in version.catalog.in_parts
              if named.issuperset(_WORD.findall(item.name.lower()))}  # fmt: skip
    query = without_hidden(sql, frozenset(name.lower() for name in parts)) if parts else None
    asked = sql if query is None else query.sql
    plan = None if unsafe else plan_of(parsed(session, asked))
    if plan is not None:
        _refuse(asked, unnamed_relation(plan, (*meant_here, *parts)), "table, view or stream of this database")
    frames = SparkFrames(lambda: session)
    with closing(frames):
        try:
            for name in meant_here:
                frames.frame(version, name).createOrReplaceTempView(quoted(name))
            for name, what in parts.items():
                chosen = meant(version, what)
                hidden = query.columns.get(name.lower()) if query is not None else None
                frames.parts(version, *chosen, hidden).createOrReplaceTempView(quoted(name))
            answer = session.sql(asked) if plan is None else ask(session, asked, parameters)
            if plan is not None:
                _refuse(asked, foreign_function(plan, spark_functions(session)), "function of Spark's own")
                _refuse(asked, outside(plan_of(answer._jdf.queryExecution().analyzed())), "part of this database")
            if (unread := unread_column(answer.schema)) is not None:
                raise Error(unread)
            return Result(answer_of(answer, version.catalog.zone))
        finally:
            for name in (*meant_here, *parts):
                session.catalog.dropTempView(name)


def _refuse(sql: str, found: str | None, what: str) -> None:
    """Raises NotSupported where something is `found` that is none of `what`."""
    if found is not None:
        names = {name.strip("`").lower() for name in found.split("(")[0].split(".")}
        at = next((word.start for word in lexemes(sql) if sql[word.start : word.end].strip("`").lower() in names), None)
        raise Script(sql).error(f"{found} is no {what}", at, NotSupported)


def _cut(version: Version, text: str) -> tuple[str, tuple[Reference, ...]]:
    """`text` with plain names in place of its part references, and without semicolons at its end.  What names no stream
    and no view over streams is for Spark alone to read."""
    words = list(lexemes(text))
    while words and text[words[-1].start : words[-1].end] == ";":
        text = text[: words.pop().start]
    named = set(_WORD.findall(text.lower()))
    if not any(named.issuperset(_WORD.findall(item.name.lower())) for item in version.catalog.in_parts):
        return text, ()
    source = Script(text)
    tokens = tokenize(source)
    if not has_brackets(tokens):
        return text, ()
    query = read_query(source, tokens, partial(syntax_tree, faithful=True)).query
    return query.sql, query.references
