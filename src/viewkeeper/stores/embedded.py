"""The embedded store: base rows and logs in LMDB, one environment a node (docs/format-store.md).

A write: convert and lay out the rows, hash keys to nodes, make the log entries; then, holding the writer locks of the
nodes that it touches, take one stamp, put rows and entries, commit.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog import codec
from viewkeeper.catalog.model import Table
from viewkeeper.catalog.operation_kinds import DELETE, PUT
from viewkeeper.changes import entries, verify
from viewkeeper.changes.entries import Body
from viewkeeper.changes.operations import ROW_ID_NODE_BITS, Operations
from viewkeeper.changes.positions import Hashes, LogName, LogPlace, Positions, Token
from viewkeeper.errors import InputError
from viewkeeper.stores import embedded_log, history, keyed, keyless
from viewkeeper.stores.access import KEY_BYTES_MAX, Apply, TableAccess, remove_some, table_ids
from viewkeeper.stores.changing import MomentRead
from viewkeeper.stores.contract import ComputeChange, Moment, Numbered, Store, TableScan, Traits
from viewkeeper.stores.embedded_log import EmbeddedLog
from viewkeeper.stores.forks import forks
from viewkeeper.stores.intents import Intent, NodePart
from viewkeeper.stores.moment import EmbeddedMoment
from viewkeeper.stores.node import SEQUENCE, Node, Tail
from viewkeeper.stores.node_environments import Nodes, Transactions
from viewkeeper.stores.source_steps import DECIDING, take_step

_FORGOTTEN_AT_ONCE = 10_000
_COMPUTED_BESIDE_WRITERS = 3
"""How often a change is computed while others write, before it is while nobody does."""

NodeStep = tuple[Sequence[Body], Apply]
"""Entries of one kind of operations on one node, and what does them."""

NodePlans = Mapping[int, Sequence[NodeStep]]
"""What is written on each node, in order."""


class EmbeddedStore(Store):
    """The store in folder `root`, made if absent with `nodes` nodes (default 2; None takes what is there).

    `durability`: "sync" (what is acknowledged survives a power loss) or "process" (a kill of the process only; a power
    loss may damage the store); all users in one process share one.  `zone`: where naive times are.
    A forked child may go on using it; it gets an Error if a scan was open at the fork.
    """

    traits = Traits(
        consistent_cuts=True, refuses_in_transaction=True, keyless_tables=True, atomic_changes=True,
        key_bytes_max=KEY_BYTES_MAX,
    )  # fmt: skip

    def __init__(
        self, root: str | Path, nodes: int | None = None, durability: str | None = None, zone: str = "UTC"
    ) -> None:
        self._nodes = Nodes.open(Path(root), nodes, durability)
        self._nodes.finish_dead_calls(_redo)
        self.root, self.zone, self.nodes = self._nodes.root, zone, self._nodes.count
        self.log = EmbeddedLog(self._nodes, zone)
        self._tables: dict[int, TableAccess] = {}
        self._closed = False

    def put(self, table: Table, row: Mapping[str, Any]) -> Token:
        access = self._access(table)
        form = access.form
        named, values = access.intake.row(row)
        place = values if form.keyless else [values[i] for i in form.key]
        hash_ = access.hash(place)
        number = hash_ % self.nodes
        if form.keyless:
            apply = keyless.plan_one(access, values, number, hash_)
        else:
            apply = keyed.plan_one(access, access.key_bytes(place), named, values)
        mask = None if len(named) == len(values) else form.mask(named).tobytes()
        body = entries.single(PUT, form.shapes[PUT, mask is not None].layout.pack(values), mask)
        return self._commit(access, {number: [([body], apply)]})

    def put_many(self, table: Table, rows: Any) -> Token:
        access, token = self._access(table), Token()
        if isinstance(rows, pa.RecordBatchReader):
            for batch in rows:
                token |= self._write(access, access.intake.rows(batch))
            return token
        return self._write(access, access.intake.rows(rows))

    def delete(self, table: Table, key: Any, columns: Sequence[str] | None = None) -> Token | bool:
        access = self._access(table)
        if columns is not None:
            return self._write(access, access.intake.column_deletes(key, columns))
        if access.form.keyless:
            token = self._delete_equal(access, [key])
            return token if token.positions else False
        return self._write(access, access.intake.deletes([key]))

    def delete_many(self, table: Table, keys: Iterable[Any]) -> Token:
        access = self._access(table)
        if access.form.keyless:
            return self._delete_equal(access, keys)
        return self._write(access, access.intake.deletes(keys))

    def get(self, table: Table, key: Any) -> dict[str, Any] | None:
        access = self._access(table)
        values = access.intake.key(key)
        stored, number = access.key_bytes(values), access.hash(values) % self.nodes
        with self._nodes.reading(number) as txn:
            row = txn.get(stored, db=self._nodes.nodes[number].rows)
        return None if row is None else access.as_dict(values, row)

    @contextmanager
    def scan(self, table: Table) -> Iterator[TableScan]:
        access = self._access(table)
        with self._nodes.reading_at_one_moment() as txns:
            pairs = list(zip(self._nodes.nodes, txns, strict=True))
            positions: dict[LogName, int] = {number: node.end(txn) for number, (node, txn) in enumerate(pairs)}
            yield TableScan(positions, (batch for node, txn in pairs for batch in access.batches(node, txn)))

    @contextmanager
    def at_one_moment(self) -> Iterator[Moment]:
        with self._nodes.reading_at_one_moment() as txns:
            yield EmbeddedMoment(self._nodes, txns, self._access)

    def rows(self, table: Table) -> Iterator[pa.RecordBatch]:
        with self.scan(table) as scan:
            for batch in scan.batches:
                yield batch.select(range(len(table.columns)))

    def stamp_after(self, node: int, position: int) -> int | None:
        return embedded_log.stamp_after(self._nodes, node, position)

    def ends(self) -> dict[LogName, int]:
        found: dict[LogName, int] = {}
        for number, node in enumerate(self._nodes.nodes):
            with self._nodes.reading(number) as txn:
                found[number] = node.end(txn)
        return found

    def compare(self, node: int, *places: tuple[int, str]) -> list[LogPlace]:
        with self._nodes.reading(node, buffers=True) as txn:
            return [history.compare(self._nodes.nodes[node], txn, position, hash_) for position, hash_ in places]

    def replaced(self, positions: Positions, hashes: Hashes) -> dict[int, str]:
        return history.replaced(self._nodes, positions, hashes)

    def require_same(self, positions: Positions, hashes: Hashes) -> None:
        if reasons := self.replaced(positions, hashes):
            raise history.store_replaced(self._nodes, list(reasons.values()))

    def reader_check(self) -> int:
        """Free what killed readers hold; how many there were.  Done at opening and with every batch."""
        return self._nodes.reader_check()

    def stored_tables(self) -> set[int]:
        found: set[int] = set()
        for number, node in enumerate(self._nodes.nodes):
            with self._nodes.reading(number) as txn:
                for stored in (node.rows, node.equal, node.steps):
                    found.update(table_ids(txn.cursor(stored)))
        return found

    def forget(self, tables: Collection[int], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        for id_ in tables:
            for number, node in enumerate(self._nodes.nodes):
                for stored in (node.rows, node.equal, node.layout, node.steps):
                    while self._nodes.write([number], partial(_forget_some, number, stored, id_)):
                        if time.monotonic() > deadline:
                            return True
        return False

    def statistics(self) -> dict[str, Any]:
        """Durability; of each node, what is in its log and tables, and what its files take."""
        return embedded_log.statistics(self._nodes)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._nodes.close()

    def apply(self, table: Table, operation: bytes) -> Token:
        access = self._access(table)
        operations = verify.operation_from_bytes(operation, access.form)
        if operations is None or (access.form.keyless and operations.kind != PUT):
            raise InputError(f"{table.name}: these bytes are no operation that the table can take; see its reason")
        return self._write(access, operations)

    def _access(self, table: Table) -> TableAccess:
        found = self._tables.get(table.id)
        if found is None or found.form.table != table:
            with forks.kept_out():  # What is made for the first time may take locks, which a child would find taken.
                found = self._tables[table.id] = TableAccess(table, self.zone)
        return found

    def _write(self, access: TableAccess, operations: Operations) -> Token:
        """Write operations on their nodes, in one atomic step."""
        plans = self._plans(access, operations)
        return self._commit(access, plans) if plans else Token()

    def _plans(self, access: TableAccess, operations: Operations) -> NodePlans:
        """What is written on each node.  Rows of tables without a key are deleted by their ids, and must be there."""
        by_id = access.form.keyless and operations.kind == DELETE
        hashes = np.zeros(len(operations), np.uint64) if by_id else access.hashes(operations)
        placed = operations.columns[0].to_numpy() >> ROW_ID_NODE_BITS if by_id else hashes % np.uint64(self.nodes)
        plans: dict[int, list[NodeStep]] = {}
        for number in range(self.nodes):
            here = np.flatnonzero(placed == number)
            if len(here):
                part = operations if len(here) == len(operations) else operations.take(here)
                if by_id:
                    apply = keyless.plan_removal(access, part)
                elif access.form.keyless:
                    apply = keyless.plan(access, part, number, hashes[here])
                else:
                    apply = keyed.plan(access, part, here)
                plans[number] = [(entries.encode(access.form, part), apply)]
        return plans

    def _commit(self, access: TableAccess, plans: NodePlans) -> Token:
        return self._nodes.write(list(plans), partial(self._do, access, plans))

    def _do(self, access: TableAccess, plans: NodePlans, txns: Transactions) -> Token:
        stamp = self._nodes.stamps.next()
        parts: dict[int, NodePart] = {}
        written = {}
        for number, steps in plans.items():
            node, txn = self._nodes.nodes[number], txns[number]
            access.settle(node, txn)
            before = tail = node.tail(txn)
            for bodies, apply in steps:
                apply(node, txn, tail.sequence + 1)
                tail = _append(node, txn, access, bodies, tail, stamp)
            written[number] = tail
            if len(plans) > 1:
                parts[number] = NodePart(before, [body for bodies, _ in steps for body in bodies])
        if len(parts) > 1:
            txns.intent = Intent(access.declaration, stamp, parts)
        return _token(written)

    def change(self, table: Table, compute: ComputeChange) -> Token:
        access = self._access(table)
        for _ in range(_COMPUTED_BESIDE_WRITERS):
            with self._nodes.reading_at_one_moment() as txns:
                moment = MomentRead(self._nodes, txns, self._access)
                operations = compute(moment)
            plans = self._plans_in_order(access, operations)
            if not plans:
                return Token()
            token = self._nodes.write(list(moment.nodes_read | set(plans)), partial(self._still, access, plans, moment))
            if token is not None:
                return token

        def alone(txns: Transactions) -> Token:
            moment = EmbeddedMoment(self._nodes, [txns[number] for number in range(self.nodes)], self._access)
            return self._do(access, self._plans_in_order(access, compute(moment)), txns)

        return self._nodes.write(range(self.nodes), alone)

    def do_step(self, table: Table, operations: Sequence[Operations], step: Numbered) -> Token | None:
        access = self._access(table)
        plans: NodePlans = {DECIDING: (), **self._plans_in_order(access, operations)}
        return self._nodes.write(list(plans), partial(self._take_step, access, plans, step))

    def _take_step(self, access: TableAccess, plans: NodePlans, step: Numbered, txns: Transactions) -> Token | None:
        new = take_step(self._nodes.nodes[DECIDING], txns[DECIDING], access.prefix, step)
        return self._do(access, plans, txns) if new else None

    def _still(self, access: TableAccess, plans: NodePlans, moment: MomentRead, txns: Transactions) -> Token | None:
        """Do what was computed of `moment`, if that still holds; else None."""
        return self._do(access, plans, txns) if moment.holds_still(self._nodes.nodes, txns) else None

    def _plans_in_order(self, access: TableAccess, operations: Sequence[Operations]) -> NodePlans:
        plans: dict[int, list[NodeStep]] = {}
        for each in operations:
            for number, steps in self._plans(access, each).items():
                plans.setdefault(number, []).extend(steps)
        return plans

    def _delete_equal(self, access: TableAccess, rows: Iterable[Any]) -> Token:
        """Remove one equal row for each of `rows`, in a table without a key; pass over those that are not there."""
        by_node: dict[int, list[tuple[list[Any], int]]] = {}
        for row in rows:
            values = access.intake.whole_row(row)
            hash_ = access.hash(values)
            by_node.setdefault(hash_ % self.nodes, []).append((values, hash_))

        def do(txns: Transactions) -> Token:
            stamp = self._nodes.stamps.next()
            parts, written = {}, {}
            for number, removed in self._removed_equal(access, by_node, txns).items():
                node, txn = self._nodes.nodes[number], txns[number]
                bodies = entries.encode(access.form, Operations(DELETE, [pa.array(removed, pa.int64())]))
                tail = node.tail(txn)
                written[number] = _append(node, txn, access, bodies, tail, stamp)
                parts[number] = NodePart(tail, bodies)
            txns.intent = Intent(access.declaration, stamp, parts)
            return _token(written)

        # A row with an earlier layout may be on any node.
        return self._nodes.write(range(self.nodes) if access.has_earlier else list(by_node), do)

    def _removed_equal(
        self, access: TableAccess, by_node: Mapping[int, Sequence[tuple[list[Any], int]]], txns: Transactions
    ) -> dict[int, list[int]]:
        """The ids of the rows that were removed, by node."""
        pairs = {number: (self._nodes.nodes[number], txn) for number, txn in txns.items()}
        for node, txn in pairs.values():
            access.settle(node, txn)
        removed: dict[int, list[int]] = {}
        for number, wanted in by_node.items():
            for values, hash_ in wanted:
                found = keyless.remove_one(access, *pairs[number], values, hash_)
                places = [(number, found)] if found is not None else (
                    (each, id_) for each, pair in pairs.items()
                    if (id_ := keyless.remove_older(access, *pair, values)) is not None
                )  # fmt: skip
                for place, id_ in islice(places, 1):
                    removed.setdefault(place, []).append(id_)
        return removed


def _token(written: Mapping[int, Tail]) -> Token:
    return Token({number: tail.sequence for number, tail in written.items()},
                 {number: tail.hash.hex() for number, tail in written.items()})  # fmt: skip


def _forget_some(number: int, stored: Any, id_: int, txns: Transactions) -> bool:
    return remove_some(txns[number].cursor(stored), id_, _FORGOTTEN_AT_ONCE) == _FORGOTTEN_AT_ONCE


def _append(node: Node, txn: Any, access: TableAccess, bodies: Sequence[Body], tail: Tail, stamp: int) -> Tail:
    """Put entries behind the end of a node's log, `tail`; the new end.  All that is written to a log comes by here,
    since each entry carries on the log's running hash."""
    sequence, before = tail
    for body in bodies:
        entry = entries.seal(access.form, body, stamp, before)
        txn.put(SEQUENCE.pack(sequence + 1), entry, db=node.log, append=True)
        sequence, before = sequence + body.count, entries.running_hash(entry)
    return Tail(sequence, before)


def _redo(number: int, node: Node, txn: Any, intent: Intent, part: NodePart) -> None:
    """Do what a call that died was to do on one node: its entries are put as they were meant to be, and the rows are
    changed as they say."""
    access = TableAccess(codec.loads(intent.table), "UTC")  # The zone is for values as users see them.
    access.settle(node, txn)
    tail = part.tail
    for body in part.bodies:
        first, tail = tail.sequence + 1, _append(node, txn, access, [body], tail, intent.stamp)
        operations = _operations(access, txn.get(SEQUENCE.pack(first), db=node.log), body)
        places = np.arange(body.count)
        if not access.form.keyless:
            apply = keyed.plan(access, operations, places)
        elif operations.kind == PUT:
            apply = keyless.plan(access, operations, number, access.hashes(operations))
        else:
            apply = keyless.plan_removal(access, operations)
        apply(node, txn, first)


def _operations(access: TableAccess, entry: bytes, body: Body) -> Operations:
    """The operations of an entry that was written just now."""
    form = access.form
    batch = entries.decode([entry], np.array([1]), 1 + body.count, lambda _: form)
    assert len(batch.decoded) == 1 and not batch.bad, "what a call has written can be read"
    return entries.typed(form, batch.decoded[0].operations)
