"""Log entries: what is written comes back in bulk; what is bad is rejected and named, its neighbours are kept."""

from __future__ import annotations

import random
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from store_model import BAG, ORDERS, PAIRS, append_raw, as_dicts, make_table, read_range, stored_rows
from viewkeeper.catalog.model import REJECTED, Table
from viewkeeper.catalog.operation_kinds import DELETE, DELETE_COLUMNS, PUT
from viewkeeper.catalog.types import BIGINT, BOOLEAN, DATE, INT, STRING, decimal, physical_type
from viewkeeper.changes import entries, verify
from viewkeeper.changes.layout import raw_type
from viewkeeper.changes.operations import Operations, TableForm
from viewkeeper.changes.verify import LogBatch
from viewkeeper.errors import Damaged, InputError
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.stores.node_environments import Nodes

WIDE = make_table(
    50, "wide",
    [("k", BIGINT), ("flag", BOOLEAN), ("price", decimal(5, 2)), ("big", decimal(20, 0)), ("day", DATE),
     ("s", STRING), ("n", INT, False)], "k",
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    made = EmbeddedStore(tmp_path / "store", nodes=1, durability="process")
    yield made
    made.close()


def entry_of(table: Table, operations: Operations, stamp: int = 5) -> bytes:
    form = TableForm(table)
    (body,) = entries.encode(form, operations)
    return entries.seal(form, body, stamp)


def raw_puts(table: Table, changed: dict[str, dict[int, Any]], count: int) -> Operations:
    """`count` puts of sound rows, in raw types, but for the values at `changed[column][row]`."""
    sound = {"flag": 1, "price": 123, "big": (7).to_bytes(16, "little"), "day": 0, "s": b"ok", "n": 1}
    columns = []
    for column in table.columns:
        values = list(range(count)) if column.name == "k" else [sound[column.name]] * count
        for row, value in changed.get(column.name, {}).items():
            values[row] = value
        columns.append(pa.array(values, raw_type(physical_type(column.type))))
    return Operations(PUT, columns)


def raw_entry(table: Table, operations: Operations, stamp: int = 5) -> bytes:
    """`entry_of` for raw columns, which Arrow writes without judging them."""
    form = TableForm(table)
    if len(operations) == 1:
        return entry_of(table, operations, stamp)
    message = (
        pa.RecordBatch.from_arrays(operations.columns, names=[c.name for c in table.columns]).serialize().to_pybytes()
    )
    return entries.seal(form, entries.Body(PUT, 0, len(operations), message), stamp)


def read(store: EmbeddedStore, *tables: Table) -> LogBatch:
    return read_range(store, 0, 0, store.ends()[0], {table.id: table for table in tables})


def reasons(batch: LogBatch) -> list[tuple[int, str]]:
    return list(zip(batch.rejected.columns[2].to_pylist(), batch.rejected.columns[4].to_pylist(), strict=True))


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([ORDERS, PAIRS, BAG]), st.integers(0, 2), st.integers(1, 5)), max_size=12),
    st.randoms(),
)
def test_entries_of_any_mix_come_back_in_their_places(
    case: list[tuple[Table, int, int]], random_: random.Random
) -> None:
    """Every operation has its entry's stamp, its own sequence, kind, set mask and values."""
    forms = {table.id: TableForm(table) for table in (ORDERS, PAIRS, BAG)}
    written, firsts, expected, at = [], [], [], 1
    for stamp, (table, kind, count) in enumerate(case):
        form = forms[table.id]
        kind = PUT if table is BAG and kind == DELETE_COLUMNS else kind
        partial = kind == DELETE_COLUMNS or (kind == PUT and bool(table.key) and random_.random() < 0.5)
        named = [sorted({*form.key, random_.randrange(len(form.types))}) for _ in range(count)]
        mask = np.stack([form.mask(columns) for columns in named]) if partial else None
        columns = []
        for i, type_ in zip(form.carried(kind) or (0,), form.carried_types(kind), strict=True):
            value = "é" if type_ == STRING else 7
            columns.append(pa.array([value if not partial or i in n else None for n in named], physical_type(type_)))
        written.append(entry_of(table, Operations(kind, columns, mask), stamp))
        firsts.append(at)
        full = set(range(len(form.types))) if kind == PUT else set()
        expected += [(at + n, table.id, kind, stamp, set(named[n]) if partial else full) for n in range(count)]
        at += count
    batch = verify.judge(entries.decode(written, np.array(firsts, np.int64), at, forms.get), node=3)
    got = []
    for table in (ORDERS, PAIRS, BAG):
        for row in as_dicts(table, batch.operations):
            names = {i for i in range(len(table.columns)) if row["set"][0] >> i & 1}
            got.append((row["sequence"], table.id, row["kind"], row["stamp"], names))
            assert row["node"] == 3 and {v for v in row["values"].values() if v is not None} <= {7, "é"}
    refused = dict(reasons(batch))
    assert sorted(got) == [e for e in expected if e[0] not in refused]
    assert all("NOT NULL" in reason or "key" in reason for reason in refused.values())


BAD_ROWS: list[tuple[str, Any, str]] = [
    ("k", None, "NULL in key column k"), ("n", None, "NULL in column n, which is NOT NULL"),
    ("flag", 2, "column flag holds what is no BOOLEAN"), ("flag", -1, "no BOOLEAN"), ("price", 100_000, "no DECIMAL"),
    ("price", -(2**63), "no DECIMAL"), ("big", (10**20).to_bytes(16, "little"), "no DECIMAL"),
    ("big", (-(10**20)).to_bytes(16, "little", signed=True), "no DECIMAL"), ("day", 3_000_000, "no DATE"),
    ("s", b"\xff\xfe", "column s holds what is no STRING"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value", "reason"), BAD_ROWS)
@pytest.mark.parametrize("count", [1, 1000])
def test_a_bad_row_is_rejected_alone(store: EmbeddedStore, column: str, value: Any, reason: str, count: int) -> None:
    """Its 999 neighbours in the entry are kept, and the rejection names its own place."""
    store.put(WIDE, {"k": 5000, "n": 1})
    bad = count // 2
    append_raw(store, raw_entry(WIDE, raw_puts(WIDE, {column: {bad: value}}, count)))
    batch = read(store, WIDE)
    assert len(batch.rejected.columns) == len(REJECTED.columns)
    (rejection,) = zip(*(c.to_pylist() for c in batch.rejected.columns), strict=True)
    assert rejection[:4] == (WIDE.id, 0, 2 + bad, 5) and reason in rejection[4]
    kept = sorted(row["sequence"] for row in as_dicts(WIDE, batch.operations))
    assert kept == [1, *(2 + i for i in range(count) if i != bad)]


def damaged(entry: bytes) -> list[tuple[str, bytes]]:
    def resealed(change: Callable[[bytearray], None]) -> bytes:
        data = bytearray(entry)
        change(data)
        data[:4] = zlib.crc32(bytes(data[4:])).to_bytes(4, "little")
        return bytes(data)

    def chop(data: bytearray) -> None:
        del data[-40:]

    def scramble(data: bytearray) -> None:
        data[entries.HEADER.size :] = random.Random(1).randbytes(len(data) - entries.HEADER.size)

    def count(data: bytearray) -> None:
        data[16:20] = (7).to_bytes(4, "little")

    def columns(data: bytearray) -> None:
        data[8:12] = b"\1\2\3\4"

    return [
        ("nothing", b""), ("garbage", b"\xde\xad" * 50),
        ("a flipped bit", entry[:-9] + bytes([entry[-9] ^ 1]) + entry[-8:]),
        ("truncated", entry[:-8]), ("truncated, resealed", resealed(chop)), ("scrambled, resealed", resealed(scramble)),
        ("another count", resealed(count)), ("other columns", resealed(columns)),
    ]  # fmt: skip


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("which", range(8))
def test_an_entry_that_cannot_be_read_is_rejected_whole(store: EmbeddedStore, which: int, count: int) -> None:
    """The entries around it are applied, writing goes on behind it, and its bytes are kept."""
    what, entry = damaged(raw_entry(WIDE, raw_puts(WIDE, {}, count)))[which]
    store.put_many(WIDE, [{"k": i, "n": i} for i in range(30)])
    before = store.ends()[0]
    append_raw(store, entry)
    store.put_many(WIDE, [{"k": i, "n": i} for i in range(30)])
    batch = read(store, WIDE)
    (place, _reason), *others = reasons(batch)
    assert not others and place == before + 1, what
    assert batch.rejected.columns[5].to_pylist() == [entry]
    assert len(as_dicts(WIDE, batch.operations)) == 60
    positions: dict[int, int] = {}
    while (cut := store.log.cut(7, positions)).operations:
        positions = cut.positions
    assert positions == store.ends(), "cuts pass over it"


def test_one_bad_entry_among_many_small_ones_is_found(store: EmbeddedStore) -> None:
    """Halving finds the bad ones, and only those."""
    good = raw_entry(WIDE, raw_puts(WIDE, {}, 2))
    bad = damaged(good)[5][1]
    firsts = np.arange(1, 2001, 2)
    written = [bad if i in (3, 500, 999) else good for i in range(1000)]
    batch = verify.judge(entries.decode(written, firsts, 2001, {WIDE.id: TableForm(WIDE)}.get), 0)
    assert [place for place, _ in reasons(batch)] == [7, 1001, 1999]
    assert sum(len(rows) for _, rows in batch.operations) == 1994


@pytest.mark.parametrize("seed", range(4))
def test_no_bytes_whatever_harm_their_neighbours(seed: int) -> None:
    """Whatever an entry with a right checksum holds, the entries beside it are applied, and what it gives is sound."""
    random_, form = random.Random(seed), TableForm(WIDE)
    good = raw_entry(WIDE, raw_puts(WIDE, {}, 2))
    for _ in range(250):
        entry = bytearray(raw_entry(WIDE, raw_puts(WIDE, {"s": {0: None}}, random_.choice([1, 2, 50]))))
        for _ in range(random_.choice([1, 2, 5])):
            entry[random_.randrange(entries.HEADER.size, len(entry))] = random_.choice([0, 1, 127, 128, 255])
        entry[:4] = zlib.crc32(bytes(entry[4:])).to_bytes(4, "little")
        (count, _) = entries.count_and_stamp(bytes(entry)) or (0, 0)
        firsts = np.array([1, 3, 3 + count])
        batch = verify.judge(entries.decode([good, bytes(entry), good], firsts, 5 + count, {WIDE.id: form}.get), 0)
        sequences = {at for _, rows in batch.operations for at in rows.columns[-2].to_pylist()}
        assert {1, 2, 3 + count, 4 + count} <= sequences
        for _, rows in batch.operations:
            for column in rows.columns:
                column.validate(full=True)


def test_column_deletes_that_no_row_can_take_are_rejected(store: EmbeddedStore) -> None:
    form = TableForm(WIDE)
    masks = np.stack([form.mask([1]), form.mask([6]), form.mask([0])])
    append_raw(store, entry_of(WIDE, Operations(DELETE_COLUMNS, [pa.array([1, 2, 3])], masks)))
    batch = read(store, WIDE)
    assert [place for place, _ in reasons(batch)] == [2, 3] and len(batch.operations[0][1]) == 1


def test_a_rejected_operation_can_be_put_again_once_it_can_be_done(store: EmbeddedStore) -> None:
    """operation_bytes keeps one operation, apply does it; what is bad in itself stays refused, with a message."""
    form = TableForm(WIDE)
    partial = Operations(PUT, [pa.array([1], physical_type(t)) if i == 0 else pa.array(["x"] if i == 5 else [None],
                         physical_type(t)) for i, t in enumerate(form.types)], form.mask([0, 5])[None, :])  # fmt: skip
    append_raw(store, entry_of(WIDE, partial))
    ((_, rows),) = read(store, WIDE).operations
    operation = verify.operation_bytes(form, rows, 0)
    with pytest.raises(InputError, match="column n, which is NOT NULL"):
        store.apply(WIDE, operation)
    store.put(WIDE, {"k": 1, "n": 9})
    store.apply(WIDE, operation)
    assert store.get(WIDE, 1)["s"] == "x" and store.get(WIDE, 1)["n"] == 9
    store.apply(WIDE, entry_of(WIDE, Operations(DELETE, [pa.array([1])])))
    assert store.get(WIDE, 1) is None
    append_raw(store, raw_entry(WIDE, raw_puts(WIDE, {"s": {1: b"\xff"}}, 3)))
    for bad in (read(store, WIDE).rejected.columns[5][0].as_py(), b"", b"garbage"):
        with pytest.raises(InputError, match="no operation"):
            store.apply(WIDE, bad)


def test_a_large_call_is_several_entries_of_bounded_size_with_one_stamp(store: EmbeddedStore) -> None:
    """No message is longer than 1 MiB, and a cut never falls between them."""
    store.put_many(ORDERS, [{"id": i, "note": "x" * 500, "n": i} for i in range(10_000)])
    store.put(ORDERS, {"id": 0, "n": 0})
    nodes = Nodes.open(store.root)
    with nodes.reading(0) as txn:
        lengths = [len(value) for _, value in txn.cursor(nodes.nodes[0].log)]
    nodes.close()
    assert len(lengths) > 4 and max(lengths) <= entries.BLOCK_BYTES_MAX + entries.HEADER.size
    assert store.log.cut(100, {}).operations == 10_000
    assert len({row["stamp"] for row in as_dicts(ORDERS, read(store, ORDERS).operations)}) == 2


def test_a_clock_that_was_ahead_once_does_not_keep_the_log_for_ever(store: EmbeddedStore) -> None:
    """Entries whose stamps a clock gave that was far ahead are trimmed behind the positions like any others."""
    for id_ in range(20):
        store.put(ORDERS, {"id": id_, "n": 1})
    assert store.log.forget(store.ends(), older_than_seconds=60) == 0
    store._nodes.stamps.next(at_least=time.time_ns() // 1000 + 10**12)
    for id_ in range(20):
        store.put(ORDERS, {"id": id_, "n": 2})
    assert store.log.forget(store.ends(), older_than_seconds=60) == 0, "the first entry is not old yet"
    assert store.log.forget({0: 20}, older_than_seconds=-1) == 20
    assert store.log.forget(store.ends(), older_than_seconds=60) == 19
    assert all(store.get(ORDERS, id_) for id_ in range(20))


def test_a_log_that_was_trimmed_too_far_says_so(store: EmbeddedStore) -> None:
    for i in range(5):
        store.put(ORDERS, {"id": i, "n": i})
    store.log.forget({0: 3}, older_than_seconds=-1)
    with pytest.raises(Damaged, match="does not hold sequence 3"):
        read_range(store, 0, 2, 5, {ORDERS.id: ORDERS})
    assert (
        len(stored_rows(store, ORDERS)) == 5
        and len(read_range(store, 0, 3, 5, {ORDERS.id: ORDERS}).operations[0][1]) == 2
    )


def log_of(store: EmbeddedStore) -> list[bytes]:
    nodes = Nodes.open(store.root)
    with nodes.reading(0) as txn:
        found = [bytes(value) for _, value in txn.cursor(nodes.nodes[0].log)]
    nodes.close()
    return found


def test_each_entry_holds_the_running_hash_of_the_log_before_it(store: EmbeddedStore) -> None:
    """Of single operations, large calls and deletes alike, from zeros on; two logs that differ once differ for good."""
    store.put_many(ORDERS, [{"id": i, "note": "x" * 500, "n": i} for i in range(5000)])
    store.put(ORDERS, {"id": 0, "n": 0})
    store.put(BAG, {"x": 1, "s": "a"})
    store.delete(BAG, {"x": 1, "s": "a"})
    store.delete(ORDERS, 7)
    log = log_of(store)
    assert len(log) > 6 and entries.hash_before(log[0]) == entries.EMPTY_LOG
    assert [entries.hash_before(entry) for entry in log[1:]] == [entries.running_hash(entry) for entry in log[:-1]]
    assert len(set(map(entries.running_hash, log))) == len(log)


@pytest.mark.parametrize("which", range(8))
def test_the_running_hash_goes_on_behind_whatever_bytes_another_program_wrote(store: EmbeddedStore, which: int) -> None:
    store.put(WIDE, {"k": 1, "n": 1})
    _, entry = damaged(raw_entry(WIDE, raw_puts(WIDE, {}, 1)))[which]
    append_raw(store, entry)
    store.put(WIDE, {"k": 2, "n": 2})
    log = log_of(store)
    assert log[1] == entry and entries.hash_before(log[2]) == entries.running_hash(entry)


def test_the_header_is_the_one_that_the_format_document_shows(store: EmbeddedStore) -> None:
    """Field by field, so that a log can be read by other programs."""
    entry = entry_of(ORDERS, Operations(DELETE, [pa.array([7])]), stamp=9)
    form = TableForm(ORDERS)
    assert form.fingerprint == zlib.crc32(b"BIGINT,BIGINT,STRING,INT/0")
    rest = struct.pack("<BBBxIIIq", 1, DELETE, 2, form.fingerprint, ORDERS.id, 1, 9) + struct.pack(">Bq", 0, 7)
    assert entry == struct.pack("<I", zlib.crc32(rest)) + rest
