"""Messages of a topic as operations: formats, types, and what is none."""

from __future__ import annotations

import base64
import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from kafka_messages import envelope, operations, read, topic_table
from viewkeeper.catalog.model import Catalog
from viewkeeper.errors import DeclarationError, LogLost
from viewkeeper.pipeline.declare_script import run

ORDERS = "id BIGINT, customer INT, price DECIMAL(15,2), PRIMARY KEY (id)"
ROW = {"id": 1, "customer": 7, "price": "19.90"}
READ = {"id": 1, "customer": 7, "price": Decimal("19.90")}


def test_an_envelope_is_a_put_of_the_whole_row_or_a_delete() -> None:
    table = topic_table(ORDERS)
    found = read(table, [
        ({"id": 1}, envelope("c", None, ROW)),
        ({"id": 2}, envelope("r", None, {"id": 2, "customer": None, "price": 5})),
        ({"id": 1}, envelope("u", ROW, {**ROW, "customer": 8})),
        ({"id": 1}, envelope("d", {**ROW, "customer": 8}, None)),
        ({"id": 1}, None),
        ({"id": 3}, envelope("d", None, None)),
        (None, envelope("m", None, None)),
    ])  # fmt: skip
    assert not found.bad
    assert operations(table, found) == [
        (1, READ), (2, {"id": 2, "customer": None, "price": Decimal("5.00")}), (3, {**READ, "customer": 8}),
        (4, ("delete", (1,))), (5, ("delete", (1,))), (6, ("delete", (3,))),
    ]  # fmt: skip


def test_envelopes_under_payload_say_by_their_schema_how_values_are_written() -> None:
    table = topic_table("id BIGINT, price DECIMAL(10,2), d DATE, at TIMESTAMP, n TIMESTAMP_NTZ, PRIMARY KEY (id)")

    def schema(scale: str, at: str) -> dict[str, Any]:
        fields = [
            {"type": "int64", "field": "id"},
            {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": scale},
             "field": "price"},
            {"type": "int32", "name": "io.debezium.time.Date", "field": "d"},
            {"type": "string", "name": "io.debezium.time.ZonedTimestamp", "field": "at"},
            {"type": "int64", "name": at, "field": "n"},
        ]  # fmt: skip
        return {
            "type": "struct",
            "fields": [{"field": "before", "fields": fields}, {"field": "after", "fields": fields}],
        }

    def row(id_: int, unscaled: int, n: int) -> dict[str, Any]:
        price = base64.b64encode(unscaled.to_bytes(3, "big", signed=True)).decode()
        return {"id": id_, "price": price, "d": -719162, "at": "2024-03-31T01:30:00.5Z", "n": n}

    found = read(table, [
        ({"schema": {}, "payload": {"id": 1}}, {"schema": schema("2", "io.debezium.time.MicroTimestamp"),
                                                "payload": envelope("c", None, row(1, -1990, 1_000_001))}),
        ({"schema": {}, "payload": {"id": 2}}, {"schema": schema("1", "io.debezium.time.Timestamp"),
                                                "payload": envelope("c", None, row(2, 199, 1_001))}),
        ({"schema": {}, "payload": {"id": 2}}, {"schema": schema("1", "io.debezium.time.Timestamp"),
                                                "payload": envelope("d", None, None)}),
    ])  # fmt: skip
    assert not found.bad
    at = datetime.datetime(2024, 3, 31, 1, 30, 0, 500_000, datetime.UTC)
    first, epoch = datetime.date(1, 1, 1), datetime.datetime(1970, 1, 1)
    assert operations(table, found) == [
        (1, {"id": 1, "price": Decimal("-19.90"), "d": first, "at": at, "n": epoch.replace(second=1, microsecond=1)}),
        (2, {"id": 2, "price": Decimal("19.90"), "d": first, "at": at, "n": epoch.replace(second=1, microsecond=1000)}),
        (3, ("delete", (2,))),
    ]  # fmt: skip


def test_a_number_for_a_timestamp_is_read_in_the_unit_that_is_declared_and_else_refused() -> None:
    columns = "id BIGINT, at TIMESTAMP, PRIMARY KEY (id)"
    given = [({"id": 1}, envelope("c", None, {"id": 1, "at": 1_500}))]
    found = read(topic_table(columns), given)
    assert [bad.reason for bad in found.bad] == [
        "column at: is a number; say what it counts: OPTIONS (timestamps 'seconds|millis|micros')"
    ]
    table = topic_table(columns, timestamps="millis")
    assert operations(table, read(table, given)) == [
        (1, {"id": 1, "at": datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, datetime.UTC)})
    ]


def test_decimals_keep_all_their_digits() -> None:
    table = topic_table("id BIGINT, big DECIMAL(38,2), small DECIMAL(15,2), PRIMARY KEY (id)")
    text = b'{"op":"c","after":{"id":1,"big":123456789012345678901234567890.12,"small":1234567890123.45}}'
    assert operations(table, read(table, [({"id": 1}, text)])) == [
        (1, {"id": 1, "big": Decimal("123456789012345678901234567890.12"), "small": Decimal("1234567890123.45")})
    ]


@pytest.mark.parametrize(("key", "value", "reason"), [
    (b"{", None, "column id: '{' is no BIGINT"),
    (None, None, "its key says nothing of id"),
    ({"id": 1}, b"{\"id\": 1", "its value is no JSON"),
    ({"id": 1}, b"\xff\xfe", "its value is no JSON"),
    ({"id": 1}, b"", "its value is no JSON"),
    ({"id": 1}, b"null", "its value is no JSON object"),
    ({"id": 1}, b" [1]", "its value is no JSON object"),
    ({"id": 1}, b'"{"', "its value is no JSON object"),
    ({"id": "x"}, {"customer": 1}, "its message's key is none of the table's: column id: 'x'"),
    (None, {"customer": 1}, "NULL in column id, which is in the key"),
    ({"id": 1}, {"customer": 1.5}, "column customer: "),
    ({"id": 1}, {"customer": 3_000_000_000}, "column customer: "),
    ({"id": 1}, {"customer": [1]}, "column customer: holds an object or an array"),
    ({"id": 1}, {"price": "1.999"}, "column price: "),
])  # fmt: skip
def test_what_is_no_row_is_rejected_and_its_neighbours_are_kept(key: Any, value: Any, reason: str) -> None:
    table = topic_table(ORDERS, "json")
    good = ({"id": 5}, {"customer": 7, "price": 1})
    found = read(table, [good, (key, value), good])
    assert [(bad.sequence, bad.reason[: len(reason)]) for bad in found.bad] == [(2, reason)]
    assert [sequence for sequence, _ in operations(table, found)] == [1, 3]


def test_rows_by_their_keys_take_the_key_from_the_message() -> None:
    table = topic_table(ORDERS, "json")
    found = read(table, [
        ({"id": 1}, {"customer": 7, "price": 19.9, "more": {"x": 1}}), (b"2", {"price": None}), ({"id": 3}, {"id": 3}),
        (b"2", None), ({"id": 1}, None),
    ])  # fmt: skip
    assert not found.bad
    nothing = {"customer": None, "price": None}
    assert operations(table, found) == [
        (1, READ), (2, {"id": 2, **nothing}), (3, {"id": 3, **nothing}), (4, ("delete", (2,))), (5, ("delete", (1,))),
    ]  # fmt: skip


def test_a_row_of_another_key_than_its_message_has_is_rejected() -> None:
    """A tombstone of that key would delete nothing, and a compacted topic would keep the row under it."""
    table = topic_table(ORDERS, "json")
    found = read(table, [
        (b"1", {**ROW, "id": "1"}), ({"id": 1}, ROW), (None, ROW), ({"other": 5}, ROW), (b"2", ROW), ({"id": 3}, ROW),
        (b"x", ROW), (b"4", {"customer": 7}),
    ])  # fmt: skip
    assert sorted((bad.sequence, bad.reason) for bad in found.bad) == [
        (5, "column id is not what its message's key says"), (6, "column id is not what its message's key says"),
        (7, "its message's key is none of the table's: column id: 'x' is no BIGINT"),
    ]  # fmt: skip
    assert [sequence for sequence, _ in operations(table, found)] == [1, 2, 3, 4, 8]
    pair = topic_table("a INT, b STRING, n INT, PRIMARY KEY (b, a)", "json")
    found = read(pair, [({"a": 1, "b": "x"}, {"a": 1, "b": "x"}), ({"a": 1}, {"a": 1, "b": "y"}),
                        ({"a": 1, "b": "x"}, {"a": 1, "b": "z"})])  # fmt: skip
    assert [bad.reason for bad in found.bad] == ["column b is not what its message's key says"]


def test_of_a_field_that_stands_twice_the_first_counts() -> None:
    table = topic_table(
        "id INT, n INT, big DECIMAL(30,2), s STRUCT<p: INT>, m MAP<STRING, INT>, PRIMARY KEY (id)", "json"
    )
    value = b'{"id":1,"n":1,"n":2,"big":1.25,"big":2.25,"s":{"p":1,"p":2},"m":{"x":1,"x":2}}'
    ((_, row),) = operations(table, read(table, [(b"1", value)]))
    assert {**row, "m": dict(row["m"])} == {"id": 1, "n": 1, "big": Decimal("1.25"), "s": {"p": 1}, "m": {"x": 1}}


def test_a_plain_text_is_a_key_too() -> None:
    table = topic_table("k STRING, n INT, PRIMARY KEY (k)", "json")
    found = read(table, [(b"a b", {"n": 1}), (b'"c"', {"n": 2}), ({"k": "d"}, {"n": 3}), (b"a b", None)])
    assert [row for _, row in operations(table, found)] == [
        {"k": "a b", "n": 1}, {"k": "c", "n": 2}, {"k": "d", "n": 3}, ("delete", ("a b",)),
    ]  # fmt: skip


def test_rows_that_are_only_added_need_no_key() -> None:
    table = topic_table("n INT, s STRING", "json-append")
    found = read(table, [(None, {"n": 1, "s": "a"}), (b"k", {"n": 1, "s": "a"}), (b"k", None)])
    assert (operations(table, found), found.bad) == ([(1, {"n": 1, "s": "a"}), (2, {"n": 1, "s": "a"})], [])


def test_every_type_is_read_as_it_is_declared() -> None:
    table = topic_table(
        "k STRING, b BOOLEAN, t TINYINT, f FLOAT, d DOUBLE, x BINARY, day DATE, at TIMESTAMP, n TIMESTAMP_NTZ, "
        "a ARRAY<INT>, s STRUCT<p: INT, q: STRING>, m MAP<STRING, INT>, PRIMARY KEY (k)", "json", "Europe/Berlin",
    )  # fmt: skip
    value = {"b": True, "t": -128, "f": 0.5, "d": 1e300, "x": base64.b64encode(b"\0\xff").decode(), "day": "9999-12-31",
             "at": "2024-07-01T12:00:00", "n": "1582-10-10T00:00:00", "a": [1, None], "s": {"p": 1, "q": "é"},
             "m": {"x": 1}}  # fmt: skip
    found = read(table, [({"k": "ü"}, value)])
    assert not found.bad
    ((_, row),) = operations(table, found)
    assert (row["b"], row["t"], row["f"], row["d"], row["x"]) == (1, -128, 0.5, 1e300, b"\0\xff")
    assert (row["day"], row["n"]) == (datetime.date(9999, 12, 31), datetime.datetime(1582, 10, 10))
    assert row["at"].astimezone(datetime.UTC) == datetime.datetime(2024, 7, 1, 10, tzinfo=datetime.UTC)
    assert (row["a"], row["s"], dict(row["m"])) == ([1, None], {"p": 1, "q": "é"}, {"x": 1})


def test_a_field_that_is_gone_from_envelopes_stops_the_table() -> None:
    table = topic_table(ORDERS)
    with pytest.raises(LogLost, match="no row has a field price from offset 1 on"):
        read(table, [({"id": 1}, envelope("c", None, ROW)), ({"id": 2}, envelope("c", None, {"id": 2, "customer": 1}))])


def test_a_truncated_table_stops() -> None:
    with pytest.raises(LogLost, match="was truncated in its database"):
        read(topic_table(ORDERS), [(None, envelope("t", None, None))])


@pytest.mark.parametrize(("declared", "message"), [
    ("id INT, PRIMARY KEY (id)) USING kafka", "kafka needs bootstrap_servers"),
    ("id INT, PRIMARY KEY (id)) USING kafka OPTIONS (AB, formt 'json')", "did you mean format"),
    ("id INT, PRIMARY KEY (id)) USING kafka OPTIONS (AB, format 'xml')", "there are debezium-json"),
    ("id INT) USING kafka OPTIONS (AB)", "needs a PRIMARY KEY"),
    ("id INT, PRIMARY KEY (id)) USING kafka OPTIONS (AB, kafka.sasl.password 'x')",
     "a secret is not kept in the catalog"),
    ("id INT DEFAULT 1, PRIMARY KEY (id)) USING kafka OPTIONS (AB)", "DEFAULT"),
    ("id INT, i INTERVAL DAY, PRIMARY KEY (id)) USING kafka OPTIONS (AB)", "INTERVAL"),
    ("id INT, PRIMARY KEY (id)) USING nosuch", "there are kafka"),
    ("id INT, PRIMARY KEY (id)) OPTIONS (a 'b')", "expected USING"),
    ("id INT, PRIMARY KEY (id)) USING kafka OPTIONS (topic 'a', topic 'b')", "stands twice"),
])  # fmt: skip
def test_what_no_topic_can_be_is_refused_when_it_is_declared(declared: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        run(Catalog(), "CREATE TABLE t (" + declared.replace("AB", "bootstrap_servers 'a', topic 'b'"))


def test_what_is_written_through_viewkeeper_is_read_as_it_was() -> None:
    for format_ in ("debezium-json", "json"):
        table = topic_table(
            "id BIGINT, price DECIMAL(20,2), x BINARY, at TIMESTAMP, s STRING, PRIMARY KEY (id)", format_
        )
        row = {"id": 1, "price": Decimal("123456789012345678.01"), "x": b"\1", "s": "é\"\\",
               "at": datetime.datetime(2024, 1, 1, 0, 0, 0, 1, datetime.UTC)}  # fmt: skip
        made = table.written_messages(table.intake.rows([row])) + table.written_messages(table.intake.deletes([1]))
        assert [json.loads(key or b"") for key, _ in made] == [{"id": 1}] * 2
        assert [each for _, each in operations(table, read(table, made))] == [row, ("delete", (1,))]
