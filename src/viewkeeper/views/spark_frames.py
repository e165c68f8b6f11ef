"""Tables, views and parts as Spark DataFrames, and SELECTs that Spark runs."""

from __future__ import annotations

import itertools
import re
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet
from sqlglot.tokens import TokenType

from viewkeeper.catalog.model import Index, PartView, Stream
from viewkeeper.compiler.parts import has_brackets, read_query
from viewkeeper.compiler.references import Reference
from viewkeeper.compiler.source import Source
from viewkeeper.compiler.syntax import syntax_tree, tokenize
from viewkeeper.streams.spark.processes import loss_named
from viewkeeper.trace.lease import Lease
from viewkeeper.trace.manifest import ManifestRef
from viewkeeper.views.part_query import meant
from viewkeeper.views.parts import Parts
from viewkeeper.views.result import Result
from viewkeeper.views.spark_session import SparkUse
from viewkeeper.views.version import Version, repeated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WORD = re.compile(r"\w+")


class SparkFrames:
    """Hands rows to Spark, until `close`: tables and views as Parquet files of their own; parts as the files in which
    they stand.  What a DataFrame shows does not change, whatever is committed meanwhile: with `holds` the versions of
    parts are held here, else whoever closes this holds them.  Spark is started when first needed."""

    def __init__(self, spark: SparkUse, *, holds: bool = False) -> None:
        self._spark, self._holds = spark, holds
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._numbers = itertools.count(1)
        self._leases: dict[ManifestRef, Lease] = {}

    def frame(self, version: Version, name: str, allow_stale: bool = False) -> DataFrame:
        """The rows of a table or view as of `version`."""
        shape = version.shape(name)
        return self.table(shape.table(repeated(version.rows(shape, allow_stale)).columns))

    def table(self, table: pa.Table) -> DataFrame:
        """The rows of an Arrow table."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="viewkeeper-")
        file = Path(self._folder.name) / f"{next(self._numbers)}.parquet"
        pyarrow.parquet.write_table(table, file, store_schema=False)
        return self._spark.session().read.parquet(str(file))

    def parts(
        self, version: Version, parts: Parts, first: int | None = None, last: int | None = None,
        part_timestamp: str | None = None,
    ) -> DataFrame:  # fmt: skip
        """The rows of parts `first` to `last` (None: of all) as of `version`; `part_timestamp` is the name for a last
        column with the part's start, None for none.  Raises LeaseLost where the version is not held, and too old."""
        from viewkeeper.streams.spark.reading import frame

        snapshot = version.snapshot
        if self._holds and snapshot.ref not in self._leases:
            self._leases[snapshot.ref] = Lease(snapshot.storage, snapshot.number)
        return frame(self._spark.session(), parts.folder, parts.of.columns, parts.pieces(first, last),
                     version.catalog.zone, parts.of.length, part_timestamp)  # fmt: skip

    def close(self) -> None:
        """Deletes the files and lets the versions go; the DataFrames cannot be read any more."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        while self._leases:
            self._leases.popitem()[1].close()


def run_on_spark(spark: SparkUse, version: Version, text: str) -> Result:
    """What Spark answers to one SELECT, with all tables, views, streams and parts of `version` at hand."""
    from viewkeeper.streams.spark.hidden import without_hidden

    sql, references = _cut(version, text)
    named = set(_WORD.findall(sql.lower()))
    # Rows are handed over only of what the text may mean: a name that does not stand in it cannot be meant.
    meant_here = [item.name for item in version.catalog.everything()
                  if not isinstance(item, Index) and named.issuperset(_WORD.findall(item.name.lower()))]  # fmt: skip
    parts: dict[str, Stream | PartView | Reference] = {each.name: each for each in references}
    parts |= {item.name: item for item in version.catalog.parts()
              if named.issuperset(_WORD.findall(item.name.lower()))}  # fmt: skip
    query = without_hidden(sql, frozenset(name.lower() for name in parts)) if parts else None
    frames, session = SparkFrames(spark), spark.session()
    with loss_named(), closing(frames):
        try:
            for name in meant_here:
                frames.frame(version, name).createOrReplaceTempView(f"`{name}`")
            for name, what in parts.items():
                chosen = meant(version, what)
                hidden = query.columns.get(name.lower()) if query is not None else None
                frames.parts(version, *chosen, hidden).createOrReplaceTempView(f"`{name}`")
            answer = session.sql(query.sql if query is not None else text).toArrow()
            return Result(_in_zone(answer, version.catalog.zone))
        finally:
            for name in (*meant_here, *parts):
                session.catalog.dropTempView(name)


def _cut(version: Version, text: str) -> tuple[str, tuple[Reference, ...]]:
    """`text` with plain names in place of its part references.  What names no stream and no view over streams is for
    Spark alone to read."""
    named = set(_WORD.findall(text.lower()))
    if not any(named.issuperset(_WORD.findall(item.name.lower())) for item in version.catalog.parts()):
        return text, ()
    source = Source(text)
    tokens = tokenize(source)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not has_brackets(tokens):
        return text, ()
    query = read_query(source, tokens, partial(syntax_tree, faithful=True)).query
    return query.sql, query.references


def _in_zone(table: pa.Table, zone: str) -> pa.Table:
    """`table` as Spark gives it, with its TIMESTAMPs shown in the database's time zone."""
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            type_ = pa.timestamp("us", zone)
            table = table.set_column(i, field.with_type(type_), table.column(i).cast(type_))
    return table
