"""The marker of a view's table in Cassandra, and the journal of the keys that are being written.

Both are tables of the keyspace that all its views share.  The marker is written by lightweight transactions alone, each
on the condition that nobody has done another since.  It holds the *stamp*: the timestamp with which rows are written
now, which only grows.  So what an older writer sent late loses against what a newer one wrote of the same row, whatever
the clocks of nodes say; which rows an older one may have on the way the journal says (decision 101).
"""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from cassandra import ConsistencyLevel, InvalidRequest
from cassandra.concurrent import execute_concurrent_with_args

from viewkeeper.errors import Error, StoreAway
from viewkeeper.stores.outside.cassandra.cluster import Connection
from viewkeeper.stores.outside.cassandra.driver_errors import translated
from viewkeeper.stores.outside.cassandra.view_layout import VERSION, TableKey, quoted
from viewkeeper.stores.outside.targets import Begun, Marker, TargetTaken, Written

MARKERS, JOURNAL = "viewkeeper_markers", "viewkeeper_journal"

STAMP_LEAST = 1 << 62
"""Stamps are this and the microseconds since 1970, at least: later than what others write with a clock's time, which
so cannot hide what is written here, and than what a keyspace held that was put back."""

_STEP = 2
"""From a stamp to the next: of each row, what it was goes one before."""

KEYS_AT_ONCE = 64_000
"""About so many bytes of keys are one entry of the journal."""

_WRITES_AT_ONCE, _ENTRIES_A_PAGE = 16, 20
_TRIES, _PAUSE_SECONDS = 20, 0.1

_TABLES = {
    MARKERS: '("table" text PRIMARY KEY, database text, view_id bigint, state_id bigint, version bigint, at text, '
             "writing text, epoch bigint, attempt uuid, stamp bigint, settled bigint, rows uuid)",
    JOURNAL: '("table" text, stamp bigint, attempt uuid, part int, keys blob, PRIMARY KEY ("table", stamp, attempt, '
             "part))",
}  # fmt: skip


@dataclass(frozen=True)
class MarkerState:
    """A marker, and beside it: who writes (`attempt`), with which `stamp`, up to which stamp all that was written is
    whole (`settled`), and the id of the table of rows."""

    marker: Marker
    attempt: uuid.UUID
    stamp: int
    settled: int
    rows: uuid.UUID


class TargetMarker:
    """The marker of the table `name`, as one writer at a time has it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options, self.connection = options, Connection(options)
        self.keyspace, self.name = options["keyspace"], options["table"]
        self.place = f"{quoted(self.keyspace)}.{quoted(self.name)}"
        self.mine: MarkerState | None = None
        is_local = options["consistency"] == "local_quorum"
        self._serial = ConsistencyLevel.LOCAL_SERIAL if is_local else ConsistencyLevel.SERIAL
        self._journaled = False

    def translated(self) -> AbstractContextManager[None]:
        """Raises what the driver does as errors of ours."""
        return translated(f"Cassandra does not take {self.keyspace}.{self.name}", self.options)

    def require_keyspace(self) -> None:
        """Raises Error where there is no such keyspace, or it is one of Cassandra's own."""
        query = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = %s"
        with self.translated():
            is_there = bool(self.connection.rows(query, self.keyspace))
        if not is_there or self.keyspace.split("_")[0] == "system":
            raise Error(f"there is no keyspace {self.keyspace} for tables of yours in the cluster: make it, with its "
                        "number of replicas")  # fmt: skip

    def read(self) -> MarkerState | None:
        """What is there; raises TargetTaken where it is something else."""
        ids = self._ids()
        state, there = self._selected() if MARKERS in ids else None, ids.get(self.name)
        if state is None:
            if there is not None:
                raise self.taken("a table that is not viewkeeper's")
            return None
        if there != state.rows:
            there = self._surely()
        if there == state.rows:
            return state
        if there is not None and VERSION not in self.columns():
            raise self.taken("a table that is not viewkeeper's")
        return replace(state, marker=state.marker._replace(at=Written()))  # it was dropped, or is not yet made

    def begin(self, mine: Marker, found: MarkerState | None) -> None:
        """Makes this the only writer, behind what `read` has `found`; raises Begun where it is not that any more."""
        attempt = uuid.uuid4()
        if found is None:
            self._make()
            stamp = _stamp(0)
            made = MarkerState(mine._replace(at=Written(), writing=None), attempt, stamp, stamp, uuid.uuid4())
            done = self._done(
                f'INSERT INTO {self._markers} ("table", database, view_id, state_id, version, at, epoch, attempt, '
                "stamp, settled, rows) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS",
                self.name, mine.database, mine.view, mine.state, -1, str(Written()), mine.epoch, attempt, made.stamp,
                made.settled, made.rows,
            )  # fmt: skip
            if not done:
                raise Begun("another writer has begun")
            self.mine = made
        else:
            self.mine = found
            self._change(replace(found, marker=found.marker._replace(epoch=mine.epoch), attempt=attempt,
                                 stamp=_stamp(found.stamp)))  # fmt: skip

    def note(self, keys: Sequence[TableKey], at: Written, whole: bool) -> int:
        """Says that rows with these keys are about to be written, of the version `at`, and gives the stamp to write
        them with.  `whole` is whether what was not written is as the marker says."""
        now = self._begun()
        stamp = _stamp(now.stamp)
        with self.translated():
            insert = self._prepared(
                f'INSERT INTO {self._journal} ("table", stamp, attempt, part, keys) VALUES (?, ?, ?, ?, ?) '
                "USING TIMESTAMP ?"
            )
            entries = [(self.name, stamp, now.attempt, part, blob, stamp) for part, blob in enumerate(_packed(keys))]
            self._journaled = True
            execute_concurrent_with_args(self.connection.session(), insert, entries, concurrency=_WRITES_AT_ONCE)
        was = now.marker
        self._change(replace(now, stamp=stamp, marker=was._replace(writing=at, at=was.at if whole else Written())))
        return stamp

    def take_back(self, rows: uuid.UUID | None = None) -> None:
        """Says that nothing is whole, and, if given, which table the rows will be in."""
        now = self._begun()
        self._change(replace(now, stamp=_stamp(now.stamp), rows=rows or now.rows,
                             marker=now.marker._replace(at=Written())))  # fmt: skip

    def complete(self, marker: Marker) -> None:
        """Says what is there, whole."""
        now, is_whole = self._begun(), marker.at.version >= 0
        if is_whole and not self.is_there():
            raise Begun("the table is not the one that was written")
        self._change(replace(now, marker=marker._replace(writing=None),
                             settled=now.stamp if is_whole else now.settled))  # fmt: skip
        if is_whole and self._journaled:
            with self.translated():
                forget = self._prepared(
                    f'DELETE FROM {self._journal} USING TIMESTAMP ? WHERE "table" = ? AND stamp <= ?'
                )
                self.connection.session().execute(forget, (now.stamp, self.name, now.stamp))
            self._journaled = False

    def unsettled(self) -> set[TableKey]:
        """The keys of rows that older writers, and this one, may have written since all was whole, or may have on the
        way."""
        now, found = self._begun(), set[TableKey]()
        with self.translated():
            query = self._prepared(f'SELECT keys FROM {self._journal} WHERE "table" = ? AND stamp > ?')
            query.fetch_size = _ENTRIES_A_PAGE
            for page in self.connection.session().execute(query, (self.name, now.settled)):
                self._journaled = True
                for row in page.rows():
                    found.update(_unpacked(row["keys"]))
        return found

    def remove(self) -> None:
        """Drops the table, and then the marker."""
        self.take_back()
        now = self._begun()
        with self.translated():
            session = self.connection.session()
            session.execute(f"DROP TABLE IF EXISTS {self.place}")
            session.execute(f'DELETE FROM {self._journal} USING TIMESTAMP {now.stamp} WHERE "table" = %s', (self.name,))
        if not self._done(f'DELETE FROM {self._markers} WHERE "table" = ? IF attempt = ? AND stamp = ?', self.name,
                          now.attempt, now.stamp):  # fmt: skip
            raise Begun("another writer has begun")
        self.mine = None

    def is_there(self) -> bool:
        """Whether the table is the one that this writer writes."""
        rows = self._begun().rows
        return self._ids().get(self.name) == rows or self._surely() == rows

    def columns(self) -> dict[str, tuple[str, str]]:
        """The columns of the table there, by name: kind and type."""
        with self.translated():
            rows = self.connection.rows("SELECT column_name, kind, type FROM system_schema.columns WHERE keyspace_name "
                                        "= %s AND table_name = %s", self.keyspace, self.name)  # fmt: skip
        return {each["column_name"]: (each["kind"], each["type"]) for each in rows}

    @property
    def _markers(self) -> str:
        return f"{quoted(self.keyspace)}.{MARKERS}"

    @property
    def _journal(self) -> str:
        return f"{quoted(self.keyspace)}.{JOURNAL}"

    def _begun(self) -> MarkerState:
        if self.mine is None:
            raise Begun("nothing was begun")
        return self.mine

    def _change(self, then: MarkerState) -> None:
        """The marker's next state, or Begun.  Where it is not known whether it was done the writer begins anew, and
        reads it."""
        now, marker = self._begun(), then.marker
        self.mine = None
        done = self._done(
            f"UPDATE {self._markers} SET database = ?, view_id = ?, state_id = ?, version = ?, at = ?, writing = ?, "
            'epoch = ?, attempt = ?, stamp = ?, settled = ?, rows = ? WHERE "table" = ? IF attempt = ? AND stamp = ?',
            marker.database, marker.view, marker.state, marker.at.version, str(marker.at),
            None if marker.writing is None else str(marker.writing), marker.epoch, then.attempt, then.stamp,
            then.settled, then.rows, self.name, now.attempt, now.stamp,
        )  # fmt: skip
        if not done and self._selected() != then:  # else the driver has sent it twice
            raise Begun("another writer has begun, or Cassandra has lost what was written")
        self.mine = then

    def _done(self, statement: str, *values: Any) -> bool:
        with self.translated():
            prepared = self._prepared(statement)
            prepared.serial_consistency_level = self._serial
            (page,) = self.connection.session().execute(prepared, values)
            return bool(page.rows()[0]["[applied]"])

    def _selected(self) -> MarkerState | None:
        with self.translated():
            query = self._prepared(f'SELECT * FROM {self._markers} WHERE "table" = ?')
            query.consistency_level = self._serial
            rows = [row for page in self.connection.session().execute(query, (self.name,)) for row in page.rows()]
        return _state(rows[0]) if rows else None

    def _prepared(self, statement: str) -> Any:
        """A statement on the tables of all views.  Who sees that others make them may be a moment too early."""
        for _ in range(_TRIES):
            try:
                return self.connection.prepared(statement)
            except InvalidRequest as refused:
                if "does not exist" not in str(refused):
                    raise
                time.sleep(_PAUSE_SECONDS)
        return self.connection.prepared(statement)

    def _ids(self, host: Any = None) -> dict[str, uuid.UUID]:
        """The tables of the keyspace, as a node says."""
        with self.translated():
            session = self.connection.session()
            asked = session.execute("SELECT table_name, id FROM system_schema.tables WHERE keyspace_name = %s",
                                    (self.keyspace,), host=host)  # fmt: skip
            return {row["table_name"]: row["id"] for page in asked for row in page.rows()}

    def _surely(self) -> uuid.UUID | None:
        """The id of the table: a node that was away may not know yet that it was made."""
        with self.translated():
            hosts = [host for host in self.connection.session().cluster.metadata.all_hosts() if host.is_up is not False]
        ids = {self._ids(host).get(self.name) for host in hosts}
        if len(ids) > 1:
            raise StoreAway(f"Cassandra's nodes do not agree yet on what the table {self.keyspace}.{self.name} is "
                            f"({self.options['contact_points']})")  # fmt: skip
        return next(iter(ids), None)

    def _make(self) -> None:
        """Makes the tables of markers and of the journal.  Their ids follow from the keyspace's name: on two nodes at
        one time the same tables are made."""
        with self.translated():
            session = self.connection.session()
            if not self.connection.rows("SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = %s",
                                        self.keyspace):  # fmt: skip
                raise Error(f"there is no keyspace {self.keyspace} in the cluster: make it first, with the replication "
                            "that its tables shall have (CREATE KEYSPACE)")  # fmt: skip
            for name, columns in _TABLES.items():
                id_ = uuid.uuid5(uuid.NAMESPACE_URL, f"viewkeeper:{self.keyspace}.{name}")
                session.execute(f"CREATE TABLE IF NOT EXISTS {quoted(self.keyspace)}.{name} {columns} WITH ID = {id_}")

    def taken(self, what: str) -> TargetTaken:
        """That the table is somebody else's."""
        return TargetTaken(f"{self.keyspace}.{self.name} ({self.options['contact_points']}) holds {what}; take another "
                           "table, or drop it")  # fmt: skip


def _state(row: Mapping[str, Any]) -> MarkerState:
    writing = row["writing"]
    marker = Marker(row["database"], row["view_id"], row["state_id"], Written.parse(row["at"]), row["epoch"],
                    None if writing is None else Written.parse(writing))  # fmt: skip
    return MarkerState(marker, row["attempt"], row["stamp"], row["settled"], row["rows"])


def _stamp(last: int) -> int:
    return max(last + _STEP, STAMP_LEAST + time.time_ns() // 1000)


def _packed(keys: Sequence[TableKey]) -> Iterator[bytes]:
    """Keys as blobs: of each its number of columns, and each column behind its length."""
    parts, size = list[bytes](), 0
    for key in keys:
        parts.append(struct.pack(">B", len(key)))
        for cell in key:
            parts += [struct.pack(">I", len(cell)), cell]
        size += 1 + sum(map(len, key)) + 4 * len(key)
        if size > KEYS_AT_ONCE:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def _unpacked(blob: bytes) -> Iterator[TableKey]:
    at = 0
    while at < len(blob):
        width, at, key = blob[at], at + 1, list[bytes]()
        for _ in range(width):
            (size,) = struct.unpack_from(">I", blob, at)
            key.append(blob[at + 4 : at + 4 + size])
            at += 4 + size
        yield tuple(key)
