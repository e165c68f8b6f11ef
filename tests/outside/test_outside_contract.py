"""What every kind of outside store must do (`stores.outside.contract`), each with a writer of its own."""

from __future__ import annotations

import pickle
import random
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cassandra_rows import CassandraRows
from file_store import FileStore
from hbase_rows import HBaseRows
from iceberg_writer import IcebergWriter
from kafka_topics import Topic
from redis_rows import RedisRows
from store_servers import unique
from viewkeeper.catalog.model import Catalog, Table
from viewkeeper.catalog.operation_kinds import DELETE, DELETE_COLUMNS
from viewkeeper.catalog.outside_store import TIMESTAMPED
from viewkeeper.changes.operations import Operations, bits
from viewkeeper.changes.positions import part_of
from viewkeeper.errors import InputError, StoreAway
from viewkeeper.pipeline.declare_script import run
from viewkeeper.servers import Cassandra, HBase, Kafka, Redis
from viewkeeper.servers.cassandra_log import CassandraLog
from viewkeeper.stores.outside import outside_kinds as kinds
from viewkeeper.stores.outside.contract import LogEnds, OutsideTable, PartRange
from viewkeeper.stores.outside.outside_kinds import kind_of_store

Rows = dict[int, int | None]


class Written:
    """A table (id INT, a BIGINT) of one kind, and a foreign program that writes it; `rows` are what it has written.
    `bare`: there are rows whose columns are all NULL."""

    def __init__(
        self, kind: str, options: str, put: Callable[[int, int | None], Any], delete: Callable[[int], Any],
        bare: bool = True,
    ) -> None:  # fmt: skip
        self._put, self._delete, self.bare = put, delete, bare
        declared = f"CREATE TABLE t (id INT, a BIGINT, PRIMARY KEY (id)) USING {kind} {options}"
        table = run(Catalog(), declared).catalog.find("t")
        assert isinstance(table, Table) and table.outside is not None
        self.kind, self.table = kind, table
        self.rows: Rows = {}

    def opened(self) -> OutsideTable:
        return kind_of_store(self.kind)(pickle.loads(pickle.dumps(self.table)), "UTC")

    def change(self, chance: random.Random, operations: int) -> None:
        for _ in range(operations):
            id_ = chance.randrange(10)
            if chance.random() < 0.3:
                self._delete(id_)
                self.rows.pop(id_, None)
            else:
                self.rows[id_] = chance.choice([None, chance.randrange(100)])
                self._put(id_, self.rows[id_])
                self.settle()

    def settle(self) -> None:
        """Without the rows that cannot be there."""
        if not self.bare:
            self.rows = {id_: a for id_, a in self.rows.items() if a is not None}


@pytest.fixture(params=["file", "kafka", "redis", "delta", "iceberg", "cassandra", "hbase"])
def written(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    name = unique("contract")
    if request.param == "file":
        monkeypatch.setattr(kinds, "KINDS", {**kinds.KINDS, "file": ("file_store", "FileTable")})
        store = FileStore(tmp_path / "store")
        return Written(
            "file", f"OPTIONS (folder '{store.folder}')", lambda id_, a: store.put({"id": id_, "a": a}), store.delete
        )
    if request.param == "kafka":
        kafka: Kafka = request.getfixturevalue("kafka")
        topic = Topic(kafka.bootstrap_servers, name, "json")

        def put(id_: int, a: int | None) -> None:
            topic.put({"id": id_, "a": a})
            topic.flush()

        def delete(id_: int) -> None:
            topic.delete(id_)
            topic.flush()

        return Written("kafka", topic.options, put, delete)
    if request.param == "delta":
        path = str(tmp_path / name)
        schema = pa.schema([("id", pa.int32()), ("a", pa.int64())])
        DeltaTable.create(path, schema, configuration={"delta.enableChangeDataFeed": "true"})

        def merge(id_: int, a: int | None) -> None:
            row = pa.Table.from_pylist([{"id": id_, "a": a}], schema)
            (DeltaTable(path).merge(row, "t.id = s.id", source_alias="s", target_alias="t")
                .when_matched_update_all().when_not_matched_insert_all().execute())  # fmt: skip

        return Written("delta", f"OPTIONS (path '{path}')", merge, lambda id_: DeltaTable(path).delete(f"id = {id_}"))
    if request.param == "iceberg":
        lake = IcebergWriter(tmp_path / name, schema=pa.schema([("id", pa.int32()), ("a", pa.int64())]))
        return Written("iceberg", lake.options, lambda id_, a: lake.put({"id": id_, "a": a}), lake.delete)
    if request.param == "cassandra":
        cassandra: Cassandra = request.getfixturevalue("cassandra")
        log: CassandraLog = request.getfixturevalue("cassandra_log")
        session = request.getfixturevalue("cassandra_session")
        held = CassandraRows(session, cassandra, [log], name.replace("-", "_"), "id int PRIMARY KEY, a bigint")
        return Written("cassandra", held.options, lambda id_, a: held.put(id_, a=a), held.delete)
    if request.param == "hbase":
        return hbase_table(request.getfixturevalue("hbase"), name)
    redis: Redis = request.getfixturevalue("redis")
    rows = RedisRows(redis.url, name)
    return Written("redis", rows.options, lambda id_, a: rows.put({"id": id_, "a": a}), rows.delete)


def hbase_table(hbase: HBase, name: str) -> Written:
    rows = HBaseRows(hbase, name)

    def put(id_: int, a: int | None) -> None:
        key = struct.pack(">i", id_)
        time.sleep(0.002)  # of one millisecond a delete would count more than a put behind it
        if a is None:
            rows.table.delete(key, columns=[b"f:a"])
        else:
            rows.table.put(key, {b"f:a": struct.pack(">q", a)})

    def delete(id_: int) -> None:
        time.sleep(0.002)
        rows.table.delete(struct.pack(">i", id_))

    options = (f"OPTIONS (thrift '{hbase.address}', wal '{hbase.root.as_uri()}', table '{name}', key 'int', "
               "columns 'a=f:a:long')")  # fmt: skip
    return Written("hbase", options, put, delete, bare=False)


@pytest.fixture
def table(written: Written) -> Iterator[OutsideTable]:
    with closing(written.opened()) as opened:
        while True:
            try:
                opened.start()
                break
            except StoreAway:  # a topic is there a moment before its partitions can be asked
                time.sleep(0.05)
        yield opened


def logged(table: OutsideTable, after: LogEnds, upto: LogEnds) -> Iterator[Operations]:
    """The operations between two ends, in the order of each part."""
    for part, end in upto.positions.items():
        found = table.read(PartRange(table.table.id, part, after.positions.get(part, 0), end, upto.identities[part]))
        assert not found.bad
        for operations, _ in ordered(found.operations):
            yield operations


def ordered(operations: list[tuple[Operations, Any, Any]]) -> list[tuple[Operations, int]]:
    single = [
        (each.slice(i, i + 1), int(sequence))
        for each, sequences, _ in operations
        for i, sequence in enumerate(sequences)
    ]
    return sorted(single, key=lambda pair: pair[1])


def applied(rows: Rows, operations: Operations, bare: bool) -> None:
    for i in range(len(operations)):
        id_ = operations.columns[0][i].as_py()
        if operations.kind == DELETE:
            rows.pop(id_, None)
        elif operations.kind == DELETE_COLUMNS:
            rows |= {id_: None} if id_ in rows else {}
        elif operations.named is None or bits(operations.named, 1)[i]:
            rows[id_] = operations.columns[1][i].as_py()
        else:
            rows.setdefault(id_)
        if not bare and rows.get(id_) is None:
            rows.pop(id_, None)


def test_rows_and_what_the_log_says_after_them_are_what_was_written(written: Written, table: OutsideTable) -> None:
    chance, found = random.Random(1), Rows()
    written.change(chance, 40)
    table.require_there()
    begin = table.start()
    for block in table.scan(begin.positions) if table.traits.rows else ():
        written.change(chance, 5)
        for operations, _ in block.all_rows():
            applied(found, operations, written.bare)
    written.change(chance, 40)
    for operations in logged(table, begin, table.ends()):
        applied(found, operations, written.bare)
    assert found == written.rows


def test_ends_grow_and_keep_their_identity(written: Written, table: OutsideTable) -> None:
    seen = table.start()
    for _ in range(5):
        written.change(random.Random(2), 5)
        ends = table.ends()
        assert ends.identities == seen.identities
        assert all(len(identity) == 32 for identity in ends.identities.values())
        assert all(ends.positions[part] >= position for part, position in seen.positions.items())
        assert sum(ends.positions.values()) > sum(seen.positions.values())
        seen = ends
    assert table.ends() == seen


def test_a_range_is_the_same_whenever_wherever_and_in_whatever_pieces_it_is_read(
    written: Written, table: OutsideTable
) -> None:
    begin = table.start()
    written.change(random.Random(3), 30)
    ends = table.ends()

    def read(opened: OutsideTable, part: str, after: int, upto: int) -> list[tuple[int, object]]:
        found = opened.read(PartRange(written.table.id, part, after, upto, ends.identities[part]))
        return [(sequence, (each.kind, [column.to_pylist() for column in each.columns],
                            None if each.named is None else each.named.tobytes()))
                for each, sequence in ordered(found.operations)]  # fmt: skip

    for part, end in ends.positions.items():
        first, middle = begin.positions[part], (begin.positions[part] + end) // 2
        if first == end:  # nothing was written there
            continue
        whole = read(table, part, first, end)
        assert whole and read(table, part, first, middle) + read(table, part, middle, end) == whole
        assert [sequence for sequence, _ in whole] == sorted({sequence for sequence, _ in whole})
        assert written.kind in TIMESTAMPED or all(first < sequence <= end for sequence, _ in whole)
        assert read(table, part, end, end) == []
        written.change(random.Random(4), 10)
        with closing(written.opened()) as other:
            assert read(other, part, first, end) == whole
        assert table.estimate(first, end) >= 1 and table.estimate(end, end) == 0


def test_what_is_written_through_viewkeeper_is_in_the_log_up_to_its_token(
    written: Written, table: OutsideTable
) -> None:
    begin, found = table.start(), Rows()
    if not table.traits.writable:
        for write in (
            lambda: table.put_many([{"id": 1, "a": 1}]),
            lambda: table.delete(3),
            lambda: table.delete_many([4]),
        ):
            with pytest.raises(InputError, match="rows of it are written in the store itself"):
                write()
        return
    token = table.put_many([{"id": id_, "a": id_} for id_ in range(20)])
    token |= table.delete(3)
    token |= table.delete_many([4, 5])
    token |= table.put_many([{"id": 4, "a": None}])
    upto = table.ends()
    positions = {part_of(str(log)): position for log, position in token.positions.items()}
    assert all(upto.positions[part] >= position for part, position in positions.items())
    written.change(random.Random(5), 20)
    for operations in logged(table, begin, LogEnds(positions, upto.identities)):
        applied(found, operations, written.bare)
    expected = {id_: id_ for id_ in range(20) if id_ not in (3, 4, 5)}
    assert found == expected | ({4: None} if written.bare else {})


def test_a_table_that_was_closed_is_there_again(written: Written, table: OutsideTable) -> None:
    written.change(random.Random(6), 5)
    ends = table.ends()
    table.close()
    assert table.ends() == ends
    table.forget(ends.positions)
    assert table.ends() == ends
