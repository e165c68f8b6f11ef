"""Messages in Avro, whose schemas are in a registry, as operations."""

from __future__ import annotations

import datetime
import random
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewkeeper
from avro_topics import KEY, PRICE, AvroTopic, envelope, envelopes, record
from kafka_messages import operations, read, topic_table
from kafka_topics import COLUMNS, VIEWS, require_right
from local_maintenance import catch_up
from schema_registry import Registry, serving
from store_servers import unique
from viewkeeper.catalog.model import Catalog
from viewkeeper.errors import DeclarationError, Error, InputError, LogLost, StoreAway
from viewkeeper.pipeline.declare_script import run
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.maintain import Maintenance
from viewkeeper.servers import Kafka
from viewkeeper.stores.outside.kafka.table import KafkaTable

ORDERS = "id BIGINT, customer INT, price DECIMAL(15,2), PRIMARY KEY (id)"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry()) as found:
        yield found


def table_of(registry: Registry, columns: str, format_: str = "avro", zone: str = "UTC", **more: str) -> KafkaTable:
    return topic_table(columns, format_, zone, registry=registry.url, **more)


def test_envelopes_put_and_delete_rows(registry: Registry) -> None:
    row = record("Value", id="long", customer=["null", "int"], price=["null", PRICE])
    value, key = registry.register("orders-value", envelopes(row)), registry.register("orders-key", KEY)

    def message(id_: int, *said: Any) -> tuple[bytes, bytes]:
        return registry.written(key, {"id": id_}), registry.written(value, envelope(*said))

    table = table_of(registry, ORDERS, "debezium-avro")
    one = {"id": 1, "customer": 7, "price": Decimal("19.90")}
    two = {"id": 2, "customer": None, "price": Decimal("-5.00")}
    found = read(table, [
        message(1, "c", None, one), message(2, "r", None, two), message(1, "u", one, {**one, "customer": 8}),
        message(1, "d", {**one, "customer": 8}, None), (registry.written(key, {"id": 1}), None),
        message(3, "d", None, None), message(4, "x", None, None), message(5, "c", None, None), (b"2", None),
        (None, registry.written(value, envelope("m", None, None))),
    ])  # fmt: skip
    assert operations(table, found) == [
        (1, one), (2, two), (3, {**one, "customer": 8}), (4, ("delete", (1,))), (5, ("delete", (1,))),
        (6, ("delete", (3,))), (9, ("delete", (2,))),
    ]  # fmt: skip
    assert [(bad.sequence, bad.reason) for bad in found.bad] == [
        (7, "op is 'x'; expected c, r, u or d"), (8, "it has no row in after"),
    ]  # fmt: skip
    assert registry.asked == [f"/schemas/ids/{key}", f"/schemas/ids/{value}"]  # each once


def test_schemas_change_from_message_to_message(registry: Registry) -> None:
    """A field that comes, goes, becomes wider, another decimal, another name of the record."""
    price = {**PRICE, "scale": 1}
    ids = [
        registry.register("v", record("V", id="long", customer="int", price=PRICE)),
        registry.register("v", record("V", id="long", price=["null", price], customer=["null", "long"], more="string")),
        registry.register("v", record("W", price="string", id="int")),
    ]
    table = table_of(registry, ORDERS)
    given = [
        (ids[0], {"id": 1, "customer": 7, "price": Decimal("1.25")}),
        (ids[1], {"id": 2, "price": Decimal("1.5"), "customer": None, "more": "x"}),
        (ids[2], {"price": "2.75", "id": 3}),
        (ids[0], {"id": 4, "customer": 7, "price": Decimal("-0.01")}),
        (ids[1], {"id": 5, "price": None, "customer": 3_000_000_000, "more": "x"}),
    ]
    found = read(table, [(None, registry.written(id_, value)) for id_, value in given])
    assert operations(table, found) == [
        (1, {"id": 1, "customer": 7, "price": Decimal("1.25")}),
        (2, {"id": 2, "customer": None, "price": Decimal("1.50")}),
        (3, {"id": 3, "customer": None, "price": Decimal("2.75")}),
        (4, {"id": 4, "customer": 7, "price": Decimal("-0.01")}),
    ]  # fmt: skip
    assert [(bad.sequence, bad.reason[:16]) for bad in found.bad] == [(5, "column customer:")]


def test_a_key_stands_in_the_value_or_in_the_messages_key(registry: Registry) -> None:
    value = registry.register("v", record("V", customer="int"))
    whole, bare = registry.register("k", KEY), registry.register("k", "long")
    table = table_of(registry, ORDERS)
    data = registry.written(value, {"customer": 7})
    found = read(table, [
        (registry.written(whole, {"id": 1}), data), (registry.written(bare, 2), data), (b"3", data),
        (b'{"id": 4}', data), (None, data),
        (registry.written(whole, {"id": 1}), None), (registry.written(bare, 2), None), (b"3", None),
        (b"\0\0\0\0\x63\2", None),
    ])  # fmt: skip
    nothing = {"customer": 7, "price": None}
    assert operations(table, found) == [
        *((id_, {"id": id_, **nothing}) for id_ in (1, 2, 3, 4)),
        (6, ("delete", (1,))), (7, ("delete", (2,))), (8, ("delete", (3,))),
    ]  # fmt: skip
    assert {bad.sequence: bad.reason for bad in found.bad} == {
        5: "NULL in column id, which is in the key", 9: "its key: the registry has no schema 99",
    }  # fmt: skip


def test_a_row_of_another_key_than_its_message_has_is_rejected(registry: Registry) -> None:
    value, bare = registry.register("v", record("V", id="long", customer="int")), registry.register("k", "long")
    data = registry.written(value, {"id": 1, "customer": 7})
    found = read(table_of(registry, ORDERS), [
        (registry.written(bare, 1), data), (registry.written(bare, 2), data), (b"1", data), (b"3", data), (None, data),
    ])  # fmt: skip
    assert {bad.sequence: bad.reason for bad in found.bad} == dict.fromkeys(
        (2, 4), "column id is not what its message's key says"
    )


TIMES = [
    ({"type": "long", "logicalType": "timestamp-millis"}, 1_500, 1_500_000),
    ({"type": "long", "logicalType": "timestamp-micros"}, -1, -1),
    ({"type": "long", "logicalType": "timestamp-nanos"}, 1_999, 1),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, 253_402_214_400_001, 253_402_214_400_001_000),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, 5, 5),
    ({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, 7, 7),
    ({"type": "long", "connect.name": "io.debezium.time.Timestamp"}, 7, 7_000),
    ({"type": "long", "connect.name": "org.apache.kafka.connect.data.Timestamp", "logicalType": "timestamp-millis"},
     7, 7_000),
    ({"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}, "1970-01-01T00:00:00.000007Z", 7),
]  # fmt: skip


@pytest.mark.parametrize("type_", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_times_of_all_kinds(registry: Registry, type_: str) -> None:
    table = table_of(registry, f"id BIGINT, at {type_}, PRIMARY KEY (id)", zone="Europe/Berlin")
    given, expected, epoch = [], [], datetime.datetime(1970, 1, 1)
    for number, (schema, value, microseconds) in enumerate(TIMES):
        if type_ == "TIMESTAMP_NTZ" and isinstance(value, str):
            continue
        id_ = registry.register("v", record("V", id="long", at=["null", schema]))
        given += [(None, registry.written(id_, {"id": number, "at": None})),
                  (None, b"\0" + id_.to_bytes(4, "big") + bytes(_raw(number, value)))]  # fmt: skip
        at = epoch + datetime.timedelta(microseconds=microseconds)
        expected += [(number, None), (number, at if type_ == "TIMESTAMP_NTZ" else at.replace(tzinfo=datetime.UTC))]
    found = read(table, given)
    assert not found.bad
    assert [(row["id"], row["at"]) for _, row in operations(table, found)] == expected


def _raw(id_: int, value: int | str) -> Iterator[int]:
    """A record of a long, and a long or text that is no null, as Avro has them, whatever is the type's logical one."""
    yield from (2 * id_, 2)
    number = 2 * len(value) if isinstance(value, str) else (value << 1) ^ (value >> 63)
    while number > 127:
        yield 128 | number & 127
        number >>= 7
    yield number
    if isinstance(value, str):
        yield from value.encode()


def test_every_type_is_read_as_it_is_declared(registry: Registry) -> None:
    table = table_of(
        registry, "k STRING, b BOOLEAN, t TINYINT, f FLOAT, d DOUBLE, x BINARY, day DATE, u STRING, e STRING, "
        "w DECIMAL(38,10), v DECIMAL(10,3), a ARRAY<DECIMAL(5,2)>, s STRUCT<p: INT, q: STRING>, m MAP<STRING, INT>, "
        "o STRING, PRIMARY KEY (k)",
    )  # fmt: skip
    variable = {**record("VariableScaleDecimal", scale="int", value="bytes"),
                "connect.name": "io.debezium.data.VariableScaleDecimal"}  # fmt: skip
    id_ = registry.register("v", record(
        "V", k="string", b="boolean", t="int", f="float", d="double", x={"type": "fixed", "name": "F", "size": 2},
        day={"type": "int", "logicalType": "date"}, u={"type": "string", "logicalType": "uuid"},
        e={"type": "enum", "name": "E", "symbols": ["RED", "BLUE"]},
        w={"type": "fixed", "name": "D", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 10},
        v=["null", variable], a={"type": "array", "items": ["null", {**PRICE, "precision": 5}]},
        s=["null", record("S", p=["null", "int"], q={"type": "string", "logicalType": "uuid"})],
        m={"type": "map", "values": "int"}, o=["null", "int", "string"],
    ))  # fmt: skip
    uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    row = {"k": "ü", "b": True, "t": -128, "f": 0.5, "d": 1e300, "x": b"\0\xff", "day": datetime.date(9999, 12, 31),
           "u": uuid, "e": "BLUE", "w": Decimal("-1234567890123456789012345678.0123456789"),
           "v": {"scale": 3, "value": (-1500).to_bytes(2, "big", signed=True)}, "a": [Decimal("1.25"), None],
           "s": {"p": None, "q": uuid}, "m": {"x": 1}, "o": "text"}  # fmt: skip
    found = read(table, [(None, registry.written(id_, row))])
    assert not found.bad
    ((_, read_row),) = operations(table, found)
    read_row["m"] = dict(read_row["m"])
    assert read_row == {**row, "v": Decimal("-1.500")}


@pytest.mark.parametrize(("message", "reason"), [
    (b"", "it does not begin as messages do whose schema is in a registry"),
    (b'{"id":1}', "it does not begin as messages do whose schema is in a registry"),
    (b"\0\0\0\0\x63\2", "the registry has no schema 99"),
    (b"\0\0\0\0\1\2", "it is not as its schema says: it ends too early"),
    (b"\0\0\0\0\1\2\4", "it is not as its schema says: list index out of range"),
    (b"\0\0\0\0\1\2\0\2", "it is longer than its schema says"),
    (b"\0\0\0\0\2\2", "its schema is no record"),
    (b"\0\0\0\0\3", "schema 3 is one of PROTOBUF, not of Avro"),
    (b"\0\0\0\0\4", "schema 4 cannot be read: "),
    (b"\0\0\0\0\5\0", "NULL in column id, which is in the key"),
])  # fmt: skip
def test_what_is_no_row_is_rejected_and_its_neighbours_are_kept(
    registry: Registry, message: bytes, reason: str
) -> None:
    good = registry.register("v", record("V", id="long", customer=["null", "int"]))
    registry.register("bare", "long")
    registry.register("other", "message V {}", schemaType="PROTOBUF")
    registry.register("bad", {"type": "record", "name": "V", "fields": [{"name": "id", "type": "nosuch"}]})
    registry.register("null", record("V", id=["null", "long"]))
    table = table_of(registry, ORDERS)
    neighbour = (b"5", registry.written(good, {"id": 5, "customer": None}))
    found = read(table, [neighbour, (b"1", message), neighbour])
    assert [(bad.sequence, bad.reason[: len(reason)]) for bad in found.bad] == [(2, reason)]
    assert [sequence for sequence, _ in operations(table, found)] == [1, 3]


def test_a_number_for_a_timestamp_is_read_in_the_unit_that_is_declared_and_else_refused(registry: Registry) -> None:
    columns = "id BIGINT, at TIMESTAMP, PRIMARY KEY (id)"
    plain = registry.written(registry.register("v", record("V", id="long", at="long")), {"id": 1, "at": 1_500})
    date = registry.register("v", record("V", id="long", at={"type": "int", "logicalType": "date"}))
    day = registry.written(date, {"id": 1, "at": datetime.date(1970, 1, 2)})
    reasons = [bad.reason for bad in read(table_of(registry, columns), [(None, plain), (None, day)]).bad]
    assert reasons == ["column at: is a number; say what it counts: OPTIONS (timestamps 'seconds|millis|micros')",
                       "column at: is a date"]  # fmt: skip
    table = table_of(registry, columns, timestamps="millis")
    at = datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, datetime.UTC)
    assert operations(table, read(table, [(None, plain)])) == [(1, {"id": 1, "at": at})]


def test_schemas_refer_to_others(registry: Registry) -> None:
    registry.register("unit", {"type": "enum", "name": "shop.Unit", "symbols": ["EUR"]})
    money = record("shop.Money", amount=PRICE, unit="shop.Unit")
    unit = {"name": "shop.Unit", "subject": "unit", "version": 1}
    registry.register("money", money, [unit])
    table = table_of(registry, "id INT, price STRUCT<amount: DECIMAL(15,2), unit: STRING>, PRIMARY KEY (id)")
    refers = [unit, {"name": "shop.Money", "subject": "money", "version": 1}]
    value = registry.register("orders", record("V", id="int", price="shop.Money"), refers)
    row = {"id": 1, "price": {"amount": Decimal("1.50"), "unit": "EUR"}}
    assert operations(table, read(table, [(None, registry.written(value, row))])) == [(1, row)]


def test_a_field_that_is_gone_from_envelopes_stops_the_table(registry: Registry) -> None:
    id_ = registry.register("v", envelopes(record("V", id="long", customer="int")))
    value = registry.written(id_, envelope("c", None, {"id": 1, "customer": 7}))
    with pytest.raises(LogLost, match="no row has a field price from offset 0 on"):
        read(table_of(registry, ORDERS, "debezium-avro"), [(b"1", value)])
    other = registry.written(registry.register("v", record("V", id="long")), {"id": 1})
    found = read(table_of(registry, ORDERS, "debezium-avro"), [(b"1", other)])
    assert [bad.reason for bad in found.bad] == ["its schema is no envelope of Debezium's"]


def test_a_registry_that_does_not_answer_is_waited_for(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    data = registry.written(registry.register("v", record("V", id="long")), {"id": 1})
    table = table_of(registry, ORDERS)
    registry.fails = True
    with pytest.raises(StoreAway, match=r"t \(table \d+ in an outside store\): no schema registry answers at .*: 500"):
        read(table, [(None, data)])
    registry.fails, registry.login = False, ("me", "word")
    with pytest.raises(Error, match="refuses: 401"):
        read(table, [(None, data)])
    monkeypatch.setenv("WORD", "word")
    known = table_of(registry, ORDERS, **{"registry.user": "me", "registry.password_env": "WORD"})
    assert len(operations(known, read(known, [(None, data)]))) == 1
    several = topic_table(ORDERS, "avro", registry=f"http://127.0.0.1:1, {registry.url}")
    registry.login = None
    assert len(operations(several, read(several, [(None, data)]))) == 1
    nobody = topic_table(ORDERS, "avro", registry="http://127.0.0.1:1")
    with pytest.raises(StoreAway, match="no schema registry answers at http://127.0.0.1:1: .*refused"):
        read(nobody, [(None, data)])


def test_rows_that_are_only_added_need_no_key(registry: Registry) -> None:
    id_ = registry.register("v", record("V", n="int"))
    table = table_of(registry, "n INT", "avro-append")
    data = registry.written(id_, {"n": 1})
    found = read(table, [(None, data), (b"k", data), (b"k", None)])
    assert (operations(table, found), found.bad) == ([(1, {"n": 1}), (2, {"n": 1})], [])
    with pytest.raises(InputError, match="are written by other programs alone"):
        table.put_many([{"n": 1}])


@pytest.mark.parametrize(("declared", "message"), [
    ("id INT, PRIMARY KEY (id)) USING kafka OPTIONS (AB, format 'avro')", "'avro' needs registry"),
    ("id INT, PRIMARY KEY (id)) USING kafka OPTIONS (AB, registry 'http://r')", "'debezium-json' has no registry"),
    ("id INT) USING kafka OPTIONS (AB, format 'avro', registry 'http://r')", "needs a PRIMARY KEY"),
    ("id INT, PRIMARY KEY (id)) USING kafka OPTIONS (AB, format 'avro-append', registry 'http://r')", "has no PRIMARY"),
    ("id INT, PRIMARY KEY (id)) USING kafka OPTIONS (AB, format 'avro', registry 'http://r', registry.password 'x')",
     "a secret is not kept in the catalog"),
])  # fmt: skip
def test_what_cannot_be_is_refused_when_it_is_declared(declared: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        run(Catalog(), "CREATE TABLE t (" + declared.replace("AB", "bootstrap_servers 'a', topic 'b'"))


@pytest.mark.parametrize("format_", ["debezium-avro", "avro"])
def test_views_over_a_topic_in_avro_hold_what_its_writers_know(
    registry: Registry, kafka: Kafka, tmp_path: Path, format_: str
) -> None:
    """Through a registry that is away for a while, which holds up this table alone."""
    chance, topic = random.Random(8), AvroTopic(kafka.bootstrap_servers, unique("avro"), format_, registry)
    topic.change(chance, 200)
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql("CREATE TABLE customers (id INT, name STRING, PRIMARY KEY (id))")
        db.table("customers").put_many([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
        catch_up(db)
        require_right(db, topic)
        for _ in range(3):
            topic.change(chance, 50)
            catch_up(db)
            require_right(db, topic)
        db.sql("CREATE VIEW names AS SELECT name FROM customers")
        registry.fails = True
        topic.new_version()
        topic.change(chance, 20)
        with Maintenance(db._storage, db._logs, LocalExecutor):
            soon = time.monotonic() + 60
            while "no schema registry answers" not in db.status()["tables"][1]["state"]:
                assert time.monotonic() < soon
                time.sleep(0.1)
            token = db.table("customers").put({"id": 3, "name": "c"})
            assert db.view("names").get("c", after=token, timeout=60) is not None
            registry.fails = False
        db.table("customers").delete(3)
        catch_up(db)
        require_right(db, topic)
        assert not list(db.rejected("orders"))
