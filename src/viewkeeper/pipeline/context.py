"""What a zone program sees of the world: state to read, and places for what it writes and sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import REJECTED, StateSpec, Table
from viewkeeper.catalog.types import physical_type
from viewkeeper.changes.operations import TableForm
from viewkeeper.changes.verify import operation_bytes
from viewkeeper.jobs import ring
from viewkeeper.maintenance.task import Sent
from viewkeeper.pipeline.work import GivenOperations, LogRange, TableRows, ZoneWork
from viewkeeper.streams.part_changes import PartChanges
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.run import Run
from viewkeeper.trace.snapshot import Snapshot
from viewkeeper.trace.trace import Trace


class ZoneContext:
    """The context of one task (`maintenance.program` says what a program may ask of it).

    State is read as of the work's base, whatever an earlier attempt has written meanwhile.
    """

    def __init__(self, work: ZoneWork, storage: Storage, base: Snapshot, server: int) -> None:
        self.seed = server == 0 and work.carried is None and isinstance(work.source, TableRows)
        self.owned = ring.interval(server, work.servers)
        self.written: dict[int, tuple[StateSpec, list[Rows]]] = {}
        self.sent: dict[str, list[Sent]] = {}
        self.counters: Counter[str] = Counter()
        self._work, self._storage, self._base = work, storage, base
        self._traces: dict[int, Trace] = {}

    def trace(self, spec: StateSpec) -> Trace:
        """The state as of the version before this work's."""
        trace = self._traces.get(spec.id)
        if trace is None:
            trace = self._traces[spec.id] = self._open(spec)
        return trace

    def write(self, spec: StateSpec, rows: Rows) -> None:
        """Adds `rows` to what this version says of the state."""
        if len(rows):
            self.written.setdefault(spec.id, (spec, []))[1].append(rows)

    def send(self, target: str, rows: Rows, hashes: np.ndarray) -> None:
        """Hands `rows` to the servers that own their `hashes`, in the target's zone."""
        if len(rows):
            self.sent.setdefault(target, []).append(Sent(rows, hashes))

    def reject(self, table: Table, operations: Rows, reasons: Sequence[str]) -> None:
        """Keeps operations (as `changes` lays them out) that cannot be applied, each with its reason."""
        form, length = TableForm(table), len(operations)
        node, sequence, stamp = operations.columns[-3:]
        blobs = [operation_bytes(form, operations, i) for i in range(length)]
        texts = pa.array(reasons, physical_type(REJECTED.columns[4].type))
        operation = pa.array(blobs, physical_type(REJECTED.columns[5].type))
        columns = [pa.array(np.full(length, table.id)), node, sequence, stamp, texts, operation]
        self.write(REJECTED, Rows(columns, np.ones(length, dtype=np.int64)))

    def count(self, name: str, number: int) -> None:
        """Adds to a counter of this version."""
        self.counters[name] += number

    def take_sent(self) -> dict[str, list[Sent]]:
        """What has been sent so far; nothing is left."""
        sent, self.sent = self.sent, {}
        return sent

    def _open(self, spec: StateSpec) -> Trace:
        if isinstance(self._work.source, LogRange | GivenOperations | PartChanges):
            return self._base.trace(spec)
        if isinstance(self._work.source, TableRows):
            return Trace(spec, [])
        private = [Run.open(self._storage.disk, ref) for ref in self._work.private.get(spec.id, ())]
        return Trace(spec, [*self._base.trace(spec).runs, *private])
