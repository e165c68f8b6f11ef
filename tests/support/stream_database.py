"""A database with streams for tests without Spark: ViewDFs are run by DuckDB, generated views in this process."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Catalog, Column, PartView, Stream, Table
from viewkeeper.catalog.types import BIGINT, INT, STRING, TIMESTAMP, Type, logical_type, to_physical
from viewkeeper.errors import Error
from viewkeeper.pipeline import requests
from viewkeeper.pipeline.driver import Maintainer, caught_up
from viewkeeper.pipeline.fills import unfilled
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.part_keeping import stream_goals, streams_caught_up
from viewkeeper.pipeline.term import Term
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.stores.logs import Logs
from viewkeeper.streams.analyst import Keys
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.intake.append import StreamTarget, append
from viewkeeper.streams.intake.stream_log import StreamLog
from viewkeeper.streams.part_files import PartWriter, to_table
from viewkeeper.streams.part_index import read_index
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.streams.work import Made, Outcome, QueryWork
from viewkeeper.trace.garbage import collect
from viewkeeper.trace.local_disk import LocalDisk, local_storage
from viewkeeper.trace.lock import driver_lock
from viewkeeper.trace.naming import file_name

_TYPES = {"HUGEINT": BIGINT, "INTEGER": INT, "VARCHAR": STRING, "TIMESTAMP WITH TIME ZONE": TIMESTAMP}


class DuckAnalyst:
    """Tells the columns of a query as DuckDB sees them."""

    def columns(
        self, sql: str, tables: Mapping[str, tuple[Column, ...]], timed: Collection[str] | None = None,
        zone: str = "UTC", by_rows: str | None = None, keys: Keys | None = None, nested: bool = False,
        parameters: object = None,
    ) -> tuple[Column, ...]:  # fmt: skip
        with duck() as connection:
            for name, columns in tables.items():
                connection.register(name, schema_of(columns).empty_table())
            described = connection.execute("DESCRIBE " + quoted(sql)).fetchall()
        return tuple(Column(name, _TYPES.get(type_, Type(type_)), True) for name, type_, *_ in described)


def quoted(sql: str) -> str:
    """`sql` with names quoted as DuckDB has it."""
    return sql.replace("`", '"')


def schema_of(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of columns as users see them."""
    return pa.schema([pa.field(column.name, logical_type(column.type)) for column in columns])


def run_query(work: QueryWork) -> Outcome:
    """A part of a ViewDF, by DuckDB."""
    disk, columns = work.disk, work.view.columns
    tables = {
        name: to_table(disk, [piece for pieces in by_part.values() for piece in pieces], work.columns[name], "UTC")
        for name, by_part in work.pieces.items()
    }
    try:
        found = query(work.query.sql, tables, columns)
    except duckdb.Error as error:
        return Outcome(error=str(error))
    if work.old is not None and sorted_rows(to_table(disk, work.old, columns, "UTC")) == sorted_rows(found):
        return Outcome({(work.view.id, work.part): Made(work.old, np.zeros(0, np.uint64))})
    physical = [to_physical(found.column(i).combine_chunks(), c.type) for i, c in enumerate(columns)]
    name = file_name(work.version, work.epoch, 0, 0, work.attempt, "batch", "parquet")
    writer = PartWriter(disk, name, columns, "UTC", grouped=False)
    writer.add(work.part, Block(physical, np.zeros(len(found), np.uint64)))
    ref, pieces = writer.finish()
    return Outcome({(work.view.id, work.part): Made(tuple(pieces.values()))}, () if ref is None else (ref,))


def query(sql: str, tables: Mapping[str, pa.Table], columns: tuple[Column, ...]) -> pa.Table:
    """What DuckDB answers, in the types of `columns`."""
    with duck() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        found = connection.sql(quoted(sql)).to_arrow_table()
    return found.rename_columns([column.name for column in columns]).cast(schema_of(columns))


def duck() -> duckdb.DuckDBPyConnection:
    """A connection of its own to DuckDB: what is registered or set in it is seen by no other."""
    return _duck(os.getpid()).cursor()


@cache
def _duck(process: int) -> duckdb.DuckDBPyConnection:
    """A connection takes 20 ms to make, a cursor of one 1 ms; a forked process needs its own."""
    return duckdb.connect(config={"threads": 1})


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows in an order that depends on nothing else."""
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


class StreamDatabase:
    """The database in `root`; `drive` maintains it in this process until nothing is left to do."""

    def __init__(self, root: Path, servers: int = 1) -> None:
        self.root, self.servers = root, servers
        self.storage = local_storage(root)
        self.storage.initialise(Catalog())
        self.store = EmbeddedStore(root, nodes=1, durability="process")
        self.log = StreamLog(root, LocalDisk(str(root)))

    def close(self) -> None:
        self.log.close()
        self.store.close()

    @property
    def catalog(self) -> Catalog:
        return self.storage.newest().catalog

    def declare(self, sql: str) -> None:
        requests.submit(local_storage(self.root), sql, analyst=DuckAnalyst)

    def stream(self, name: str) -> Stream:
        found = self.catalog.find(name)
        assert isinstance(found, Stream)
        return found

    def view(self, name: str) -> PartView:
        found = self.catalog.find(name)
        assert isinstance(found, PartView)
        return found

    def append(self, name: str, rows: Any) -> None:
        append(StreamTarget(self.storage, self.stream(name), "UTC"), rows)

    def seal(self, name: str, upto: int) -> None:
        self.log.seal(self.stream(name), upto)

    def maintainer(self, executor: LocalExecutor | None = None) -> Maintainer:
        """A driver, to be closed by who asked for it."""
        lock = driver_lock(self.root)
        lock.acquire("pipeline", 10.0)
        return Maintainer(
            Term(local_storage(self.root), lock),
            Logs.of(self.store),
            executor or LocalExecutor(self.servers, run_query),
        )

    def drive(self) -> None:
        """Maintains until all is in."""
        maintainer = self.maintainer()
        try:
            newest = self.storage.newest()
            ends, goals, ids = self.store.ends(), stream_goals(newest)[0], unfilled(newest.catalog)
            while True:
                snapshot = maintainer.term.snapshot
                if caught_up(snapshot, ends, ids) and streams_caught_up(snapshot, goals):
                    return
                if not maintainer.step():
                    maintainer.wait()
                if maintainer.last_error is not None:
                    raise Error(maintainer.last_error)
        finally:
            maintainer.close()

    def tidy(self) -> None:
        """Has old parts looked through until nothing goes any more and nothing is rolled up, and deletes the files that
        only older versions name."""
        maintainer = self.maintainer()
        try:
            number = -1
            while number != maintainer.term.snapshot.number:
                number = maintainer.term.snapshot.number
                maintainer.parts.tidy(maintainer.term, time.time())
                maintainer.parts.step(maintainer.term)
                maintainer.parts.finish(maintainer.term)
                assert maintainer.last_error is None, maintainer.last_error
            later = time.time() + 2 * self.storage.keep_seconds
            collect(maintainer.term.storage, maintainer.term.snapshot, maintainer.term.running, later)
        finally:
            maintainer.close()
        self.storage = local_storage(self.root)  # who has looked before the manifests went would not see the newest

    def progress(self, name: str) -> StreamProgress | ViewProgress:
        snapshot = self.storage.newest()
        item = snapshot.catalog.find(name)
        assert item is not None
        data = snapshot.progress.get(item.id)
        return StreamProgress.from_dict(data) if isinstance(item, Stream) else ViewProgress.from_dict(data)

    def part(self, name: str, part: int) -> pa.Table:
        """The rows of one part, as of the newest version."""
        snapshot = self.storage.newest()
        item = snapshot.catalog.find(name)
        assert item is not None
        found = read_index(snapshot)[item.id].at(part)
        assert found is not None, f"{name}[{part}] is not there"
        return to_table(self.storage.disk, found.pieces, item.columns, "UTC")

    def rows(self, name: str, part: int) -> list[tuple[Any, ...]]:
        return sorted_rows(self.part(name, part))


def moment(seconds: float) -> datetime.datetime:
    """A moment in Unix time."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def put(database: StreamDatabase, name: str, **values: int) -> None:
    table = database.catalog.find(name)
    assert isinstance(table, Table)
    database.store.put_many(table, [values])
    database.drive()
