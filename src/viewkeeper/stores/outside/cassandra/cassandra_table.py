"""A table of Cassandra (`contract.OutsideTable`): a part of its log is a node's, whose positions Place.java makes.

Each node's log is served by a program beside the node (`node_log`), which can do without the cluster; the cluster is
asked what the table is, for rows, and to write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any, ClassVar

from viewkeeper.catalog.model import Column, Table
from viewkeeper.catalog.outside_store import PARTITION_KEY
from viewkeeper.changes.operations import Operations
from viewkeeper.errors import Error, InputError, LogLost, StoreAway
from viewkeeper.stores.outside.cassandra.cluster import (
    CONSISTENCIES,
    PARTITIONER,
    Connection,
    StoreSchema,
)
from viewkeeper.stores.outside.cassandra.driver_errors import translated
from viewkeeper.stores.outside.cassandra.entry_reader import EntryReader, StoredKind
from viewkeeper.stores.outside.cassandra.node_log import LogFrame, LogRefused, NodeLog, bytes_between
from viewkeeper.stores.outside.cassandra.raw_columns import misfit, natural
from viewkeeper.stores.outside.cassandra.row_access import RowAccess
from viewkeeper.stores.outside.contract import (
    LogEnds,
    OutsideTable,
    OutsideTraits,
    PartRange,
    ReadPart,
    Scanned,
    identity_of,
)
from viewkeeper.stores.outside.options import choice, filled_in, require_known
from viewkeeper.stores.outside.said import said_of

LOOK_SECONDS = 1.0
"""Between two looks at what the cluster says of the table."""

NEARLY_FULL = 0.75
"""A folder cdc_raw that is so full is warned of."""

BYTES_AN_OPERATION = 100
"""About so many bytes of a log are one operation."""

_OPTIONAL = ("port", "username", "password", "datacenter", "consistency", "follower", PARTITION_KEY)
_ANEW = "drop the table, and create it again"


class CassandraTable(OutsideTable):
    """Rows of a table in Cassandra 5 or newer that has `cdc = true`."""

    traits: ClassVar[OutsideTraits] = OutsideTraits(
        order="cell timestamp", rows=True, writable=True, partial=True, keyless=False
    )

    def __init__(self, table: Table, zone: str) -> None:
        super().__init__(table, zone)
        assert table.outside is not None
        self._options = filled_in(dict(table.outside.options))
        self._keyspace, self._name = self._options["keyspace"], self._options["table"]
        self._follower = f"{self._options.get('follower', 'viewkeeper')}/{self._keyspace}.{self._name}/{table.id}"
        self._partition = table.outside.partition([table.columns[i].name for i in table.key]) or len(table.key)
        self._nodes = [NodeLog(address) for address in _addresses(self._options["log_readers"])]
        self._connection = Connection(self._options)
        self._lock = threading.Lock()
        self._seen: StoreSchema | None = None
        self._looked = 0.0
        self._by_part: dict[str, NodeLog] = {}
        self._segments: dict[str, tuple[int, list[tuple[int, int]]]] = {}
        self._room: dict[str, tuple[int, int]] = {}

    @classmethod
    def check(cls, options: Mapping[str, str], keyless: bool) -> None:
        require_known("cassandra", options, ("contact_points", "keyspace", "table", "log_readers"), _OPTIONAL)
        choice(options, "consistency", tuple(CONSISTENCIES), "local_quorum")
        if not options.get("port", "9042").isdecimal():
            raise InputError(f"OPTIONS (port '{options['port']}'): expected a number")
        _addresses(options["log_readers"])
        if keyless:
            raise InputError("a table in cassandra needs the PRIMARY KEY that it has there")

    @classmethod
    def columns(cls, options: Mapping[str, str]) -> list[Column]:
        found = filled_in(options)
        with closing(Connection(found)) as connection, translated("its schema cannot be read", found):
            schema = connection.schema(found["keyspace"], found["table"])
        if schema.id is None:
            raise Error(f"there is no table {found['keyspace']}.{found['table']} in the cluster")
        key = schema.key
        rest = [each.name for each in schema.columns if each.kind == "regular"]
        static = [each.name for each in schema.columns if each.kind == "static"]
        if static:
            raise InputError(f"the column {static[0]} is static, which is not supported; name the columns that are "
                             "wanted, without it")  # fmt: skip
        columns = []
        for name in (*key, *rest):
            column = schema.column(name)
            assert column is not None
            columns.append(Column(name, natural(column.type, name), name not in key))
        return columns

    def require_there(self) -> None:
        self._require_fit(self._look(0.0))
        self._ends()

    def start(self) -> LogEnds:
        ends = self._ends()
        positions = {part: found["start"] for part, found in ends.items()}
        for part, place in positions.items():
            self._asked(self._by_part[part], {**self._request("begin"), "place": place})
        return self._as_ends(ends, positions)

    def ends(self) -> LogEnds:
        ends = self._ends()
        return self._as_ends(ends, {part: found["end"] for part, found in ends.items()})

    def read(self, range_: PartRange) -> ReadPart:
        for is_sure in (False, True):
            try:
                return self._read(range_, is_sure)
            except LogRefused as refused:
                if refused.kind != "schema" or is_sure:
                    raise self._refused(refused) from refused
            self._look(0.0)
            self._ends()  # tells the nodes' programs what is new
        raise AssertionError("the second time it is sure")

    def estimate(self, after: int, upto: int) -> int:
        if upto <= after:
            return 0
        known = [each for each in self._segments.values() if each[0] >= upto]
        if not known:
            return max(1, bytes_between(after, upto) // BYTES_AN_OPERATION)
        _, segments = min(known, key=lambda each: each[0] - upto)
        bytes_ = sum(bytes_between(max(begin, after), min(end, upto)) for begin, end in segments)
        return max(1, bytes_ // BYTES_AN_OPERATION)

    def state_of(self, part: str) -> str:
        if part not in self._room:
            return "ok"
        used, limit = self._room[part]
        held = f"{used >> 20:,} of {limit >> 20:,} MiB"
        if used < limit * NEARLY_FULL:
            return f"ok; cdc_raw holds {held}"
        return (f"cdc_raw is nearly full, and then the node refuses writes: it holds {held}; viewkeeper cassandra-log "
                "--followers says who has not read it")  # fmt: skip

    def scan(self, since: Mapping[str, int]) -> Iterator[Scanned]:
        """All rows, with the timestamps of their cells.  When a row was inserted nobody says: it is taken to have been
        when the newest of its cells was written."""
        schema = self._look(0.0)
        self._require_fit(schema)
        with self._translated("its rows cannot be read"):
            yield from self._rows(schema).all()

    def get(self, key: Any) -> dict[str, Any] | None:
        with self._translated("its rows cannot be read"):
            return self._rows(self._look(LOOK_SECONDS)).get(key)

    def write(self, operations: Operations) -> Mapping[str, int]:
        with self._translated("rows cannot be written"):
            self._rows(self._look(LOOK_SECONDS)).write(operations)
        ends = self._ends()
        # What is acknowledged is in the log's file then, or, with commitlog_sync: periodic, when that is next written.
        if pause := max(_sync_seconds(each) for each in ends.values()):
            time.sleep(pause)
            ends = self._ends()
        return {part: found["end"] for part, found in ends.items()}

    def forget(self, positions: Mapping[str, int]) -> None:
        for part, place in positions.items():
            node = self._by_part.get(part)
            if node is None:
                self._ends()
                node = self._by_part.get(part)
            if node is not None:
                self._asked(node, {**self._request("passed"), "place": place})

    def close(self) -> None:
        self._connection.close()
        for node in self._nodes:
            node.close()

    def _rows(self, schema: StoreSchema) -> RowAccess:
        return RowAccess(self.intake, self._connection, schema)

    def _look(self, most: float) -> StoreSchema:
        """What the cluster says of the table, not longer ago than `most` seconds."""
        with self._lock:
            if self._seen is None or time.monotonic() - self._looked > most:
                with self._translated("the cluster cannot be asked"):
                    found = self._connection.schema(self._keyspace, self._name)
                self._seen, self._looked = found, time.monotonic()
            return self._seen

    def _require_fit(self, schema: StoreSchema) -> None:
        """Raises Error where the table there cannot be the one that is declared."""
        name = f"{self._keyspace}.{self._name}"
        if schema.id is None:
            raise Error(self._said(f"there is no table {name} in the cluster {schema.cluster}"))
        if schema.partitioner != PARTITIONER:
            raise Error(self._said(f"the cluster's partitioner is {schema.partitioner}; expected {PARTITIONER}"))
        if not schema.is_logged:
            raise Error(self._said(f"its changes are not logged; switch it on: ALTER TABLE {name} WITH cdc = true"))
        if schema.seconds_to_live:
            raise Error(self._said(f"its rows expire (default_time_to_live = {schema.seconds_to_live}), of which no "
                                   f"log tells: ALTER TABLE {name} WITH default_time_to_live = 0"))  # fmt: skip
        key, declared = schema.key, [self.table.columns[i].name for i in self.table.key]
        if [each.lower() for each in key] != [each.lower() for each in declared]:
            raise Error(self._said(f"its PRIMARY KEY is ({', '.join(key)}), and declared is ({', '.join(declared)})"))
        partition = sum(each.kind == "partition_key" for each in schema.columns)
        if partition != self._partition:
            names = ", ".join(key[:partition])
            raise Error(self._said(f"its partition key is ({names}); say so: OPTIONS ({PARTITION_KEY} '{names}')"))
        for i, column in enumerate(self.table.columns):
            there = schema.column(column.name)
            if there is None:
                names = ", ".join(each.name for each in schema.columns)
                raise Error(self._said(f"it has no column {column.name}; it has {names}"))
            why = "is static, which is not supported: leave it out" if there.kind == "static" else \
                misfit(there.type, column.type, i in self.table.key)  # fmt: skip
            if why is not None:
                raise Error(self._said(f"its column {column.name} {why}"))

    def _ends(self) -> dict[str, dict[str, Any]]:
        """What each node's program says, by part.  They are told what they do not know."""
        schema = self._look(LOOK_SECONDS)
        self._require_fit(schema)
        found: dict[str, dict[str, Any]] = {}
        hosts = set()
        for node in self._nodes:
            told = self._asked(node, self._request("who"))
            host = schema.hosts.get(told["address"])
            if host is None or told["cluster"] != schema.cluster:
                raise Error(self._said(f"the log at {node.address} is of the node {told['address']} of the cluster "
                                       f"{told['cluster']}, which is none of {schema.cluster}'s"))  # fmt: skip
            emptied = schema.truncated.get(host)
            version = f"{schema.version} {emptied}"
            if told.get("host") != host or told.get("schema") != version or told.get("table") != schema.id:
                self._asked(node, {"do": "schema", "host": host, "version": version, "keyspace": schema.told,
                                   "table": schema.id, "emptied": emptied})  # fmt: skip
            told = self._asked(node, self._request("ends"))
            hosts.add(host)
            part = part_of_host(host)
            self._by_part[part], found[part] = node, told
            self._room[part] = told["used"], told["limit"]
            self._segments[part] = (told["end"], [(begin, end) for begin, end in told["segments"]])
        if missing := sorted(address for address, host in schema.hosts.items() if host not in hosts):
            raise Error(self._said(f"nobody serves the log of the node {missing[0]} of the cluster: start viewkeeper "
                                   "cassandra-log beside it, and name it in OPTIONS (log_readers ...)"))  # fmt: skip
        return found

    def _as_ends(self, found: Mapping[str, Mapping[str, Any]], positions: Mapping[str, int]) -> LogEnds:
        identities = {part: _identity(told) for part, told in found.items()}
        return LogEnds(dict(positions), identities)

    def _read(self, range_: PartRange, is_sure: bool) -> ReadPart:
        node = self._node_of(range_.part)
        names = self._declared_names()
        request = {
            **self._request("read"), "after": range_.after, "upto": range_.upto, "sure": is_sure,
            "key": [names[i] for i in self.form.key], "values": [names[i] for i in self.form.values],
        }  # fmt: skip
        found, reader = ReadPart(), None
        try:
            for each in node.read(request, len(self.form.key), len(self.form.values)):
                if isinstance(each, LogFrame):
                    assert reader is not None
                    reader.read(each, found)
                    continue
                if range_.identity and _identity(each) != range_.identity:
                    raise LogLost(self._said(f"the log of the node {each['address']} is not the one that was read "
                                             f"before, or of another table: {_ANEW}"))  # fmt: skip
                reader = EntryReader(self.intake, self._stored(each, names))
        except OSError as error:
            raise self._away(node, error) from error
        return found

    def _stored(self, told: Mapping[str, Any], names: Sequence[str]) -> StoredKind:
        types = tuple(told["types"][name] for name in names)
        for i, (cql, column) in enumerate(zip(types, self.table.columns, strict=True)):
            if (why := misfit(cql, column.type, i in self.table.key)) is not None:
                raise Error(self._said(f"its column {column.name} {why}"))
        return StoredKind(types, self._partition, tuple(told["falling"]))

    def _node_of(self, part: str) -> NodeLog:
        """The program that serves a part: each says which node it is beside."""
        if part not in self._by_part:
            for node in self._nodes:
                told = self._asked(node, self._request("who"))
                if "host" in told:
                    self._by_part[part_of_host(told["host"])] = node
        if part not in self._by_part:
            self._ends()
        if part not in self._by_part:
            raise LogLost(self._said(f"nobody serves the log {part} any more: was a node replaced?  {_ANEW}"))
        return self._by_part[part]

    def _declared_names(self) -> list[str]:
        """The names of the columns as they are spelled there."""
        seen = self._seen
        if seen is None:
            told = self._asked(self._nodes[0], self._request("who"))
            names = list(told.get("types", {}))
        else:
            names = [each.name for each in seen.columns]
        spelled = {name.lower(): name for name in names} | {name: name for name in names}
        return [spelled.get(column.name) or spelled.get(column.name.lower(), column.name)
                for column in self.table.columns]  # fmt: skip

    def _request(self, what: str) -> dict[str, Any]:
        return {"do": what, "keyspace": self._keyspace, "table": self._name, "follower": self._follower}

    def _asked(self, node: NodeLog, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return node.asked(request)
        except OSError as error:
            raise self._away(node, error) from error
        except LogRefused as refused:
            raise self._refused(refused) from refused

    def _away(self, node: NodeLog, error: OSError) -> StoreAway:
        return StoreAway(self._said(f"who serves a node's log (viewkeeper cassandra-log) does not answer at "
                                    f"{node.address}: {error.strerror or error}"))  # fmt: skip

    def _refused(self, refused: LogRefused) -> Error:
        if refused.kind == "truncated":
            return LogLost(self._said(f"it was emptied (TRUNCATE), of which no log tells; {_ANEW}"))
        if refused.kind == "lost":
            return LogLost(self._said(f"a node's log {refused}: segments of cdc_raw were deleted before they had been "
                                      f"read; {_ANEW}"))  # fmt: skip
        return Error(self._said(f"a node's log cannot be read: {refused}"))

    def _translated(self, what: str) -> AbstractContextManager[None]:
        return translated(what, self._options, self._said)

    def _said(self, message: str) -> str:
        return said_of(self.table.id, self.table.name, message)


def part_of_host(host: str) -> str:
    """What the log of a node is called, by the node's id (a UUID): a number, as operations have it."""
    return str(int(host.replace("-", "")[:8], 16) >> 1)


def _identity(told: Mapping[str, Any]) -> str:
    return identity_of(told["cluster"], told["host"], told["table"])


def _sync_seconds(told: Mapping[str, Any]) -> float:
    """How long a node may take to write to its log's file what it has acknowledged."""
    milliseconds = int(told["sync_ms"])
    return milliseconds * 1.5 / 1000 + 0.05 if milliseconds else 0.0


def _addresses(text: str) -> list[str]:
    found = [each.strip() for each in text.split(",")]
    for each in found:
        host, _, port = each.rpartition(":")
        if not host or not port.isdecimal():
            raise InputError(f"OPTIONS (log_readers '{text}'): expected HOST:PORT of each node's program, with commas "
                             "between them")  # fmt: skip
    return found
