"""The cluster as its clients see it: a session, what its schema says of a table, and rows as bytes."""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import struct
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    LoadBalancingPolicy,
    RoundRobinPolicy,
)
from cassandra.protocol import ProtocolHandler, ResultMessage

from viewkeeper.stores.outside.cassandra.driver_errors import AWAY
from viewkeeper.stores.outside.cassandra.raw_columns import RawColumn

TIMEOUT_SECONDS = 20.0
"""So long the cluster may take to answer."""

CONSISTENCIES = {
    "quorum": ConsistencyLevel.QUORUM, "local_quorum": ConsistencyLevel.LOCAL_QUORUM, "all": ConsistencyLevel.ALL,
    "one": ConsistencyLevel.ONE, "local_one": ConsistencyLevel.LOCAL_ONE,
}  # fmt: skip
_NODE_SECONDS = 2.0
"""So long one node may take to answer that is asked for itself."""

RECONNECT_SECONDS = 0.5
"""So often a node is tried again that is away."""

_NEVER_EMPTIED = (0, 0, 0)
_KINDS = ("partition_key", "clustering", "static", "regular")
PARTITIONER = "org.apache.cassandra.dht.Murmur3Partitioner"


@dataclass(frozen=True)
class StoreColumn:
    """A column of a table in Cassandra; `kind` is "partition_key", "clustering", "regular" or "static"."""

    name: str
    kind: str
    position: int
    type: str


@dataclass(frozen=True)
class StoreSchema:
    """What the cluster says of a table, its columns in the order of the key, then of their names.

    `id` is another one when it is made anew, None where it is not there; `hosts` are the ids of all nodes, by the
    addresses by which they know each other; `told` is the keyspace for those who read logs, and `version` what tells it
    from what it was.  `truncated`: when the table was emptied (TRUNCATE), as a node says, by its id: a segment of its
    log, how far in it, and a time; of nodes that do not answer nothing is said.
    """

    name: str
    cluster: str
    partitioner: str
    hosts: Mapping[str, str]
    id: str | None
    columns: tuple[StoreColumn, ...]
    is_logged: bool
    seconds_to_live: int
    truncated: Mapping[str, tuple[int, int, int]]
    told: Mapping[str, Any]
    version: str

    @property
    def key(self) -> list[str]:
        """The names of the columns of the primary key, in its order."""
        return [each.name for each in self.columns if each.kind in ("partition_key", "clustering")]

    def column(self, name: str) -> StoreColumn | None:
        """The column that is called so, in any case of letters unless there are several."""
        same = [each for each in self.columns if each.name.lower() == name.lower()]
        return next((each for each in same if each.name == name), same[0] if same else None)


class Page:
    """Some rows as they came: bytes, taken apart when somebody asks."""

    def __init__(self, names: Sequence[str], types: Sequence[Any], count: int, data: bytes) -> None:
        self.names, self.types, self.count = names, types, count
        width, unpack = len(names), struct.Struct(">i").unpack_from
        begins, lengths, at = [], [], 0
        for _ in range(count * width):
            (length,) = unpack(data, at)
            at += 4
            begins.append(at)
            lengths.append(length)
            if length > 0:
                at += length
        self._data = np.frombuffer(data, np.uint8)
        self._begins = np.array(begins, np.int64).reshape(count, width)
        self._lengths = np.array(lengths, np.int64).reshape(count, width)

    def column(self, at: int) -> RawColumn:
        """The values of a column."""
        return RawColumn(self._data, self._begins[:, at], self._lengths[:, at])

    def rows(self) -> list[dict[str, Any]]:
        """The rows as the driver gives them: what is asked of the system, which is little."""
        found = []
        for row in range(self.count):
            given = {}
            for at, (name, type_) in enumerate(zip(self.names, self.types, strict=True)):
                column = self.column(at)
                given[name] = type_.from_binary(column.value(row) if column.lengths[row] >= 0 else None, 5)
            found.append(given)
        return found


class _RawResult(ResultMessage):
    """Rows that are not decoded."""

    def recv_results_rows(self, f: BytesIO, protocol_version: int, user_type_map: Any, result_metadata: Any,
                          column_encryption_policy: Any) -> None:  # fmt: skip
        self.recv_results_metadata(f, user_type_map)
        columns = self.column_metadata or result_metadata
        self.column_names = [each[2] for each in columns]
        self.column_types = [each[3] for each in columns]
        (count,) = struct.unpack(">i", f.read(4))
        self.parsed_rows = [Page(self.column_names, self.column_types, count, f.read())]


class _RawHandler(ProtocolHandler):
    message_types_by_opcode = {**ProtocolHandler.message_types_by_opcode, _RawResult.opcode: _RawResult}


class Connection:
    """A session that is opened when it is first needed, and again after `close`; for any thread."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._cluster: Cluster | None = None
        self._session: Session | None = None
        self._prepared: dict[str, Any] = {}

    def session(self) -> Session:
        """The session; raises NoHostAvailable."""
        with self._lock:
            if self._session is None:
                _silence()
                points = [each.strip() for each in self._options["contact_points"].split(",")]
                user = self._options.get("username")
                around: LoadBalancingPolicy = RoundRobinPolicy()
                if datacenter := self._options.get("datacenter"):
                    around = DCAwareRoundRobinPolicy(datacenter)
                profile = ExecutionProfile(
                    around, consistency_level=consistency_of(self._options),
                    request_timeout=TIMEOUT_SECONDS, row_factory=lambda _, rows: rows,
                )  # fmt: skip
                made = Cluster(
                    points, port=int(self._options.get("port", "9042")), protocol_version=5,
                    execution_profiles={EXEC_PROFILE_DEFAULT: profile}, connect_timeout=TIMEOUT_SECONDS,
                    reconnection_policy=ConstantReconnectionPolicy(RECONNECT_SECONDS, None),
                    schema_metadata_enabled=False, token_metadata_enabled=False, schema_event_refresh_window=-1,
                    auth_provider=PlainTextAuthProvider(user, self._options.get("password", "")) if user else None,
                )  # fmt: skip
                try:
                    session = made.connect()
                except BaseException:
                    made.shutdown()
                    raise
                session.client_protocol_handler = _RawHandler
                self._cluster, self._session, self._prepared = made, session, {}
            return self._session

    def prepared(self, statement: str) -> Any:
        """A statement that is done again and again."""
        session = self.session()
        found = self._prepared.get(statement)
        if found is None:
            found = self._prepared[statement] = session.prepare(statement)
        return found

    def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """The rows of a query of the system's."""
        return _rows(self.session().execute(statement, values or None))

    def close(self) -> None:
        with self._lock:
            made, self._cluster, self._session, self._prepared = self._cluster, None, None, {}
        if made is not None:
            made.shutdown()

    def schema(self, keyspace: str, table: str) -> StoreSchema:
        """What the cluster says of a table now; raises what the driver does."""
        asked = self.session().execute_async(
            "SELECT cluster_name, partitioner, broadcast_address, host_id FROM system.local"
        )
        (local,) = _rows(asked.result())
        peers = self.session().execute("SELECT peer, host_id FROM system.peers", host=asked.coordinator_host)
        hosts = {str(local["broadcast_address"]): str(local["host_id"])}
        hosts |= {str(each["peer"]): str(each["host_id"]) for each in _rows(peers) if each["host_id"] is not None}
        told = self._told(keyspace)
        mine = next((each for each in told["tables"] if each["name"] == table), None)
        version = hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16).hexdigest()
        columns = () if mine is None else tuple(
            StoreColumn(each["name"], each["kind"], each["position"], each["type"])
            for each in sorted(mine["columns"], key=lambda each: (_KINDS.index(each["kind"]), each["position"],
                                                                  each["name"]))
        )  # fmt: skip
        return StoreSchema(
            table, local["cluster_name"], local["partitioner"], hosts, None if mine is None else mine["id"], columns,
            mine is not None and mine["cdc"], 0 if mine is None else mine["ttl"],
            {} if mine is None else self._truncated(mine["id"]), told, version,
        )  # fmt: skip

    def _truncated(self, table: str) -> dict[str, tuple[int, int, int]]:
        session, found = self.session(), {}
        for host in session.cluster.metadata.all_hosts():
            if host.is_up is False:
                continue
            try:
                asked = session.execute("SELECT truncated_at FROM system.local", host=host, timeout=_NODE_SECONDS)
            except AWAY:
                continue  # a node that has just gone
            (row,) = _rows(asked)
            at = {str(id_): bytes(value) for id_, value in (row["truncated_at"] or {}).items()}.get(table)
            found[str(host.host_id)] = _NEVER_EMPTIED if at is None else struct.unpack(">qiq", at)
        return found

    def _told(self, keyspace: str) -> dict[str, Any]:
        """A keyspace as KnownSchema.java takes it."""
        where = "WHERE keyspace_name = %s"
        tables = self.rows(f"SELECT table_name, id, flags, cdc, default_time_to_live FROM system_schema.tables {where}",
                           keyspace)  # fmt: skip
        views = self.rows(f"SELECT view_name AS table_name, id FROM system_schema.views {where}", keyspace)
        columns = self.rows(f"SELECT table_name, column_name, kind, position, type, clustering_order FROM "
                            f"system_schema.columns {where}", keyspace)  # fmt: skip
        dropped = self.rows(f"SELECT table_name, column_name, type, kind, dropped_time FROM "
                            f"system_schema.dropped_columns {where}", keyspace)  # fmt: skip
        types = self.rows(f"SELECT type_name, field_names, field_types FROM system_schema.types {where}", keyspace)
        return {
            "keyspace": keyspace,
            "types": [{"name": each["type_name"], "fields": list(each["field_names"]),
                       "types": list(each["field_types"])} for each in types],
            "tables": [{
                "name": each["table_name"], "id": str(each["id"]), "flags": sorted(each.get("flags") or ["compound"]),
                "cdc": bool(each.get("cdc")), "ttl": each.get("default_time_to_live") or 0,
                "columns": [{"name": column["column_name"], "kind": column["kind"], "position": column["position"],
                             "type": column["type"], "order": column["clustering_order"]}
                            for column in sorted(columns, key=lambda column: column["position"])
                            if column["table_name"] == each["table_name"]],
                "dropped": [{"name": column["column_name"], "type": column["type"], "kind": column["kind"],
                             "time": _microseconds(column["dropped_time"])}
                            for column in dropped if column["table_name"] == each["table_name"]],
            } for each in (*tables, *views)],
        }  # fmt: skip


def consistency_of(options: Mapping[str, str]) -> int:
    """How many replicas acknowledge, and answer."""
    return CONSISTENCIES[options.get("consistency", "local_quorum").lower()]


def _rows(pages: Iterable[Page]) -> list[dict[str, Any]]:
    return [row for page in pages for row in page.rows()]


def _microseconds(time: datetime.datetime) -> int:
    return (time - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)


def _silence() -> None:
    """What the driver prints of nodes that do not answer; we say it ourselves."""
    log = logging.getLogger("cassandra")
    log.propagate = False
    if not log.handlers:
        log.addHandler(logging.NullHandler())
