"""What a store of base tables means, in a few lines of plain Python; and tables to try it on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from viewkeeper.catalog.model import REJECTED, Column, StateSpec, Stored, Table
from viewkeeper.catalog.types import BIGINT, INT, STRING, Type, physical_type, to_logical
from viewkeeper.changes.positions import Cut
from viewkeeper.changes.verify import LogBatch
from viewkeeper.errors import InputError
from viewkeeper.stores.contract import Store
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.stores.node import SEQUENCE
from viewkeeper.stores.node_environments import Nodes, Transactions
from viewkeeper.trace.rows import Rows

Model = dict[tuple[Any, ...], dict[str, Any]]
"""Key to row; in a table without a key, row id to row."""


def make_table(
    id_: int, name: str, columns: Iterable[tuple[str, Type] | tuple[str, Type, bool]], key: str = ""
) -> Table:
    """A table; a third item False in a column's tuple makes it NOT NULL, and key columns always are."""
    keys = key.split()
    declared = tuple(Column(c[0], c[1], (c[2] if len(c) == 3 else True) and c[0] not in keys) for c in columns)
    positions = tuple(next(i for i, c in enumerate(declared) if c.name == k) for k in keys)
    state = StateSpec(id_ + 1000, "keyed", declared, len(keys))
    return Table(id_, name, declared, positions, Stored(state, tuple(range(len(declared)))))


ORDERS = make_table(20, "orders", [("id", BIGINT), ("customer", BIGINT), ("note", STRING), ("n", INT, False)], "id")
PAIRS = make_table(21, "pairs", [("b", STRING), ("v", BIGINT), ("a", INT)], "a b")
BAG = make_table(22, "bag", [("x", INT), ("s", STRING)])


def apply_put(model: Model, table: Table, row: Mapping[str, Any]) -> None:
    """Put into a table with a key."""
    key = tuple(row[table.columns[i].name] for i in table.key)
    values = [default and default.value for default in table.defaults]
    old = model.get(key, dict(zip((column.name for column in table.columns), values, strict=True)))
    new = {**old, **row}
    if any(not column.nullable and new[column.name] is None for column in table.columns):
        raise InputError("a NOT NULL column is left unset")
    model[key] = new


def replay(table: Table, operations: Iterable[tuple[int, Rows]], model: Model | None = None) -> Model:
    """The rows that operations read from a log make, one at a time, each key's in the order of its sequences."""
    result: Model = {} if model is None else model
    names = [column.name for column in table.columns]
    for row in sorted(as_dicts(table, operations), key=lambda row: (row["node"], row["sequence"])):
        key = tuple(row["values"][names[i]] for i in table.key) or (row["row id"],)
        named = [name for i, name in enumerate(names) if row["set"][i // 8] >> i % 8 & 1]
        if row["kind"] == 0:
            old = result.get(key, row["values"])
            result[key] = {**old, **{name: row["values"][name] for name in named}}
        elif row["kind"] == 1:
            result.pop(key, None)
        elif key in result:
            result[key] = {**result[key], **dict.fromkeys(named)}
    return result


def as_dicts(table: Table, operations: Iterable[tuple[int, Rows]]) -> list[dict[str, Any]]:
    """Operations as zone 1 gets them, as dicts of logical values."""
    result = []
    for id_, rows in operations:
        if id_ != table.id:
            continue
        count = len(table.columns)
        values = [to_logical(rows.columns[i], c.type).to_pylist() for i, c in enumerate(table.columns)]
        rest = [column.to_pylist() for column in rows.columns[count:]]
        names = [*([] if table.key else ["row id"]), "kind", "set", "node", "sequence", "stamp"]
        for at in range(len(rows)):
            row = {name: column[at] for name, column in zip(names, rest, strict=True)}
            row["values"] = {c.name: column[at] for c, column in zip(table.columns, values, strict=True)}
            result.append(row)
    return result


def read_range(store: Store, node: int, after: int, upto: int, tables: Mapping[int, Table]) -> LogBatch:
    """The operations of a node with sequences from after + 1 to `upto`."""
    found = LogBatch([], Rows.empty([physical_type(column.type) for column in REJECTED.columns]), {})
    for slice_ in store.log.slices(Cut.between({node: after}, {node: upto})):
        batch = store.log.read(slice_, tables)
        found.operations += batch.operations
        found.rejected = Rows.concat([found.rejected, batch.rejected])
        found.skipped = {id_: found.skipped.get(id_, 0) + batch.skipped.get(id_, 0)
                         for id_ in {**found.skipped, **batch.skipped}}  # fmt: skip
    return found


def read_all(store: Store, *tables: Table, after: Mapping[int, int] | None = None) -> list[tuple[int, Rows]]:
    """All operations in the logs behind `after`; nothing may be rejected."""
    result = []
    for node, end in store.ends().items():
        batch = read_range(store, node, (after or {}).get(node, 0), end, {table.id: table for table in tables})
        assert batch.rejected.columns[4].to_pylist() == []
        result += batch.operations
    return result


def stored_rows(store: Store, table: Table) -> list[dict[str, Any]]:
    return [row for batch in store.rows(table) for row in batch.to_pylist()]


def in_order(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows in an order of their own, to be compared."""
    return sorted(repr(tuple(row.items())) for row in rows)


def append_raw(store: EmbeddedStore, entry: bytes) -> int:
    """Write an entry to the log by hand, as a foreign program would; its first sequence."""
    nodes = Nodes.open(store.root)

    def append(txns: Transactions) -> int:
        cursor = txns[0].cursor(nodes.nodes[0].log)
        first = nodes.nodes[0].end(txns[0]) + 1
        assert cursor.put(SEQUENCE.pack(first), entry, append=True)
        return first

    first = nodes.write([0], append)
    nodes.close()
    return first
