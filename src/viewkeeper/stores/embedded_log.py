"""The embedded store's logs: ends, cuts, reading, trimming."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from viewkeeper.catalog.model import Table
from viewkeeper.changes import entries
from viewkeeper.changes.operations import TableForm
from viewkeeper.changes.positions import Cut, Hashes, LogName, Positions
from viewkeeper.changes.verify import LogBatch, judge
from viewkeeper.errors import Damaged
from viewkeeper.stores.contract import NO_HASHES, WHOLE_RING, Interval
from viewkeeper.stores.forks import forks
from viewkeeper.stores.history import hash_at, require_same
from viewkeeper.stores.node import SEQUENCE
from viewkeeper.stores.node_environments import Nodes, Transactions

_TRIMMED_AT_ONCE = 1000
_KEPT_OPEN = 8


class NodeRange(NamedTuple):
    """The operations of one node with sequences from `after` + 1 to `upto`, both ends of entries; the running hashes of
    its log at both, "" for any."""

    node: int
    after: int
    upto: int
    hashes: tuple[str, str] = ("", "")


class EmbeddedLog:
    """The logs of an open store (`contract.LogReader`); in another process, of the one in its folder."""

    def __init__(self, nodes: Nodes, zone: str) -> None:
        self._root, self._zone = nodes.root, zone
        self._nodes: Nodes | None = nodes

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_nodes": None}

    @contextmanager
    def _opened(self) -> Iterator[Nodes]:
        if self._nodes is not None:
            yield self._nodes
            return
        nodes = Nodes.open(self._root)
        try:
            yield nodes
        finally:
            _keep_open(nodes)

    def cut(self, limit: int, after: Positions, hashes: Hashes = NO_HASHES) -> Cut:
        with self._opened() as nodes:
            nodes.reader_check()
            return _cut(nodes, limit, after, hashes)

    def slices(self, cut: Cut) -> tuple[NodeRange, ...]:
        """A node's log is one slice."""
        return tuple(
            NodeRange(node, after, upto, (cut.hashes_after.get(node, ""), cut.hashes.get(node, "")))
            for node, upto in sorted(cut.positions.items(), key=str)
            if isinstance(node, int) and upto > (after := cut.after.get(node, 0))
        )

    def read(self, slice_: NodeRange, tables: Mapping[int, Table], interval: Interval = WHOLE_RING) -> LogBatch:
        """All that is in a slice: entries are not sorted by key, and to decode them is most of the work."""
        with self._opened() as nodes:
            return _read(nodes, slice_, tables, self._zone)

    def forget(self, positions: Positions, older_than_seconds: float) -> int:
        with self._opened() as nodes:
            nodes.clear_intents()
            return _trim(nodes, positions, older_than_seconds)


_keeping = Lock()
_kept: dict[Path, Nodes] = {}
"""What was read last, open for the next task of this process: to open LMDB takes the writers' locks for a moment."""


def _keep_open(nodes: Nodes) -> None:
    """Close what `nodes` takes the place of: those of the same folder, or those that were read longest ago."""
    with forks.kept_out(), _keeping:
        before = _kept.pop(nodes.root, None)
        _kept[nodes.root] = nodes
        if before is None and len(_kept) > _KEPT_OPEN:
            before = _kept.pop(next(iter(_kept)))
    if before is not None:
        before.close()


def _cut(nodes: Nodes, limit: int, after: Positions, hashes: Hashes) -> Cut:
    """The end of the batch behind `after`: a moment at which no write was under way on any node.

    Everything where that is at most `limit` operations; else the greatest stamp at which it is (but at least one
    stamp), the same on all nodes.  Raises StoreReplaced where the logs have not `hashes` at `after`;
    NO_HASHES asks for no such proof.
    """
    # Not copied: entries are long, and few are looked at.
    with forks.kept_out(), nodes.reading_at_one_moment(buffers=True) as txns:
        if hashes is not NO_HASHES:
            require_same(nodes, dict(enumerate(txns)), after, hashes)
        logs = [_Log(txn.cursor(node.log)) for node, txn in zip(nodes.nodes, txns, strict=True)]

        def ending(positions: list[int], stamp: int) -> Cut:
            found: dict[LogName, str] = {
                n: hash_at(nodes.nodes[n], txns[n], position) for n, position in enumerate(positions)
            }
            return Cut(dict(enumerate(positions)), sum(positions) - sum(starts), stamp, positions != ends, found,
                       after, hashes)  # fmt: skip

        starts = [after.get(number, 0) for number in range(nodes.count)]
        ends = [max(log.end, start) for log, start in zip(logs, starts, strict=True)]
        total = sum(ends) - sum(starts)
        if total <= limit:
            stamp = max((log.stamp_at(end) for log, end in zip(logs, ends, strict=True) if end), default=0)
            return ending(ends, stamp)
        waiting = [(log, start, end) for log, start, end in zip(logs, starts, ends, strict=True) if end > start]
        low = min(log.stamp_at(start + 1) for log, start, _ in waiting)
        high = max(log.stamp_at(end) for log, _, end in waiting)
        while low < high:
            middle = (low + high + 1) // 2
            held = sum(log.last_upto(middle, start, end) - start for log, start, end in waiting)
            low, high = (middle, high) if held <= limit else (low, middle - 1)
        positions = [log.last_upto(low, start, end) for log, start, end in zip(logs, starts, ends, strict=True)]
        return ending(positions, low)


def stamp_after(nodes: Nodes, number: int, position: int) -> int | None:
    """The stamp of the first entry behind `position` on a node; None where there is none.  Takes no lock."""
    with nodes.reading(number, buffers=True) as txn:
        log = _Log(txn.cursor(nodes.nodes[number].log))
        return log.stamp_at(position + 1) if log.end > position else None


class _Log:
    """One node's log in a read transaction.  An entry that is none (bad bytes) counts as part of the one before it."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.end = 0
        if cursor.last():
            counted = entries.count_and_stamp(cursor.value())
            self.end = SEQUENCE.unpack(cursor.key())[0] + (counted[0] if counted else 1) - 1

    def stamp_at(self, sequence: int) -> int:
        """The stamp of the entry that holds `sequence`."""
        return self._entry_at(sequence)[2]

    def last_upto(self, stamp: int, start: int, end: int) -> int:
        """The last sequence in start..end whose entry's stamp is at most `stamp`; stamps never fall along a log."""
        low, high = start, end
        while low < high:
            first, last, found = self._entry_at((low + high + 1) // 2)
            low, high = (min(last, high), high) if found <= stamp else (low, max(first - 1, low))
        return low

    def _entry_at(self, sequence: int) -> tuple[int, int, int]:
        """First and last sequence, and stamp, of the entry that holds `sequence`."""
        cursor = self._cursor
        if not cursor.set_range(SEQUENCE.pack(sequence + 1)):
            last = self.end
            cursor.last()
        else:
            last = SEQUENCE.unpack(cursor.key())[0] - 1
            cursor.prev()
        while (counted := entries.count_and_stamp(cursor.value())) is None:
            if not cursor.prev():
                return 1, last, 0
        return SEQUENCE.unpack(cursor.key())[0], last, counted[1]


def _read(nodes: Nodes, range_: NodeRange, tables: Mapping[int, Table], zone: str) -> LogBatch:
    """Operations of tables that are not in `tables` are counted as skipped; `zone` is the database's time zone."""
    node, after, upto, hashes = range_
    firsts, found = [], []
    with nodes.reading(node) as txn:
        for position, hash_ in zip((after, upto), hashes, strict=True):
            if hash_:
                require_same(nodes, {node: txn}, {node: position}, {node: hash_})
        cursor = txn.cursor(nodes.nodes[node].log)
        if upto > after and cursor.set_range(SEQUENCE.pack(after + 1)):
            stop = SEQUENCE.pack(upto + 1)
            for key, entry in cursor.iternext():
                if key >= stop:
                    break
                firsts.append(key)
                found.append(entry)
    sequences = np.frombuffer(b"".join(firsts), ">u8").astype(np.int64)
    if upto > after and (not len(sequences) or sequences[0] != after + 1):
        raise Damaged(f"the log of node {node} in {nodes.root} does not hold sequence {after + 1}; was it trimmed?")
    forms: dict[int, TableForm | None] = {}

    def form_of(table: int) -> TableForm | None:
        if table not in forms:
            forms[table] = TableForm(tables[table], zone) if table in tables else None
        return forms[table]

    return judge(entries.decode(found, sequences, upto + 1, form_of), node)


def _trim(nodes: Nodes, positions: Positions, older_than_seconds: float) -> int:
    """Remove entries at or before `positions` and older than that, in small transactions; how many.

    Stamps never fall, so a clock that was ahead once leaves stamps from the future: these say nothing of the age, and
    their entries go too, or the log would grow until the clock has caught up.
    The last entry of each log stays: the next sequence and stamp follow from it.  The running hash at each position
    stays known, by the entry there or the one behind it.
    """
    now, age = time.time_ns() // 1000, int(older_than_seconds * 1_000_000)
    young = (now - age, now + age)
    removed = 0
    for number, position in positions.items():
        assert isinstance(number, int), "a node"
        while (step := _trim_some(nodes, number, position, young)) == _TRIMMED_AT_ONCE:
            removed += step
        removed += step
    return removed


def statistics(nodes: Nodes) -> dict[str, Any]:
    """Durability, and per node: first and last sequence, entries, rows of all tables, bytes of the file, readers."""
    described = {}
    for number, node in enumerate(nodes.nodes):
        with nodes.reading(number) as txn:
            cursor = txn.cursor(node.log)
            first = SEQUENCE.unpack(cursor.key())[0] if cursor.first() else 1
            described[number] = {
                "first": first, "last": node.end(txn), "entries": txn.stat(node.log)["entries"],
                "rows": txn.stat(node.rows)["entries"],
                "file_bytes": (nodes.root / "nodes" / str(number) / "data.mdb").stat().st_size,
                "readers": node.environment.info()["num_readers"],
            }  # fmt: skip
    return {"durability": nodes.durability, "nodes": described}


def _trim_some(nodes: Nodes, number: int, position: int, young: tuple[int, int]) -> int:
    node = nodes.nodes[number]
    with nodes.reading(number) as txn:
        if not _can_go(txn.cursor(node.log), position, young):
            return 0  # Most often nothing is to be done: the writer lock is not even asked for.

    def remove(txns: Transactions) -> int:
        removed, cursor = 0, txns[number].cursor(node.log)
        while removed < _TRIMMED_AT_ONCE and _can_go(cursor, position, young):
            cursor.delete()
            removed += 1
        return removed

    return nodes.write([number], remove)


def _can_go(cursor: Any, position: int, young: tuple[int, int]) -> bool:
    """Whether the log's first entry can be removed; leaves `cursor` there.  `young` are the stamps of those too new."""
    if not cursor.first():
        return False
    entry = cursor.value()
    counted = entries.count_and_stamp(entry)
    if not cursor.next():
        return False
    last = SEQUENCE.unpack(cursor.key())[0] - 1
    if last == position and entries.hash_before(cursor.value()) != entries.running_hash(entry):
        last += 1  # The next entry is another program's: this one alone tells the running hash.
    cursor.first()
    return bool(last <= position and (counted is None or not young[0] < counted[1] <= young[1]))
