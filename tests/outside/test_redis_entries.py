"""Hashes and entries of a log as rows and operations: types, keys, and what is none."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from redis.exceptions import ResponseError

from edge_values import edge_values
from redis_rows import RedisRows, put_of
from store_servers import unique
from viewkeeper.catalog.model import Catalog, Table
from viewkeeper.catalog.operation_kinds import DELETE
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    array_of,
    decimal,
    map_of,
)  # fmt: skip
from viewkeeper.changes.operations import Operations, bits
from viewkeeper.errors import DeclarationError, Error, InputError, LogLost
from viewkeeper.pipeline.declare_script import run
from viewkeeper.servers import Redis
from viewkeeper.stores.columns import ColumnIntake
from viewkeeper.stores.outside.contract import PartRange, ReadPart
from viewkeeper.stores.outside.redis.table import RedisTable
from viewkeeper.stores.outside.redis.texts import column_of, texts_of
from viewkeeper.stores.value_conversion import to_python
from viewkeeper.trace.hashing import canonical

ORDERS = "id BIGINT, customer INT, price DECIMAL(15,2) NOT NULL, PRIMARY KEY (id)"


@pytest.fixture
def rows(redis: Redis) -> Iterator[RedisRows]:
    made = RedisRows(redis.url, f"entries-[{unique('x')}]*")
    yield made
    made.client.close()


def opened(rows: RedisRows, columns: str, zone: str = "UTC") -> RedisTable:
    catalog = run(Catalog(zone=zone), f"CREATE TABLE t ({columns}) USING redis {rows.options}").catalog
    table = catalog.find("t")
    assert isinstance(table, Table)
    return RedisTable(table, zone)


def opened_of(type_: Type, zone: str) -> RedisTable:
    """A table with a key of one type, which nobody asks for."""
    options = "OPTIONS (url 'redis://nobody', prefix 't')"
    catalog = run(Catalog(zone=zone), f"CREATE TABLE t (k {type_}, PRIMARY KEY (k)) USING redis {options}").catalog
    table = catalog.find("t")
    assert isinstance(table, Table)
    return RedisTable(table, zone)


def _nested_edges(type_: Type) -> list[Any]:
    parts = [edge_values(part) for _, part in type_.parts]
    if type_.name == "ARRAY":
        return [[], *([value] for value in parts[0])]
    return [{}, *({key: value} for key, value in zip(*parts, strict=False) if key is not None)]


def rows_of(table: RedisTable) -> list[Operations]:
    """All that a scan finds; raises Error where something is no row."""
    return [operations for block in table.scan({}) for operations, _ in block.all_rows()]


def whole_log(table: RedisTable) -> ReadPart:
    ends = table.start()
    return table.read(PartRange(table.table.id, "0", 0, ends.positions["0"], ends.identities["0"]))


def shown(table: RedisTable, found: ReadPart) -> list[tuple[int, str, dict[str, Any]]]:
    """By sequence: the kind of operation, and the columns that it names or carries."""
    made = []
    for each, sequences, _ in found.operations:
        carried = table.form.carried(each.kind)
        decoders = [to_python(table.form.types[i], table.zone) for i in carried]
        columns = [[value if decode is None or value is None else decode(value) for value in column.to_pylist()]
                   for column, decode in zip(each.columns, decoders, strict=True)]  # fmt: skip
        for row, sequence in enumerate(sequences.tolist()):
            named = [
                each.kind != DELETE if each.named is None else bool(bits(each.named, i)[row])
                for i in range(len(table.form.types))
            ]
            values = {table.table.columns[i].name: column[row] for i, column in zip(carried, columns, strict=True)}
            extra = {} if each.kind != 2 else {table.table.columns[i].name: None for i, n in enumerate(named) if n}
            kept = {n: v for n, v in values.items() if each.kind or named[table.intake.names.position(n)]}
            made.append((sequence, ("put", "delete", "delete_columns")[each.kind], {**kept, **extra}))
    return sorted(made, key=lambda each: each[0])


def test_entries_say_which_columns_they_set_and_which_become_null(rows: RedisRows) -> None:
    table = opened(rows, ORDERS)
    rows.run(*put_of(1, {"customer": 7, "price": "19.90"}), *put_of(2, {"price": 5}), "delete", 2)
    rows.run(*put_of(1, {"customer": None}), *put_of(3, {}), "delete_columns", 1, 1, "customer")
    found = whole_log(table)
    assert not found.bad
    assert shown(table, found) == [
        (1, "put", {"id": 1, "customer": 7, "price": Decimal("19.90")}),
        (2, "put", {"id": 2, "price": Decimal("5.00")}),
        (3, "delete", {"id": 2}), (4, "put", {"id": 1, "customer": None}), (5, "put", {"id": 3}),
        (6, "delete_columns", {"id": 1, "customer": None}),
    ]  # fmt: skip
    assert rows.client.hgetall(f"{rows.prefix}:1") == {b"price": b"19.90"}
    assert rows.client.hgetall(f"{rows.prefix}:3") == {b"": b""}
    assert not rows.client.exists(f"{rows.prefix}:2")


def test_where_anything_is_wrong_nothing_is_done(rows: RedisRows) -> None:
    rows.client.set(f"{rows.prefix}:7", "a text")
    rows.run(*put_of(8, {"price": 1}))
    rows.client.expire(f"{rows.prefix}:8", 1000)
    for wrong, why in (
        (["puts", 2], "expected put, delete or delete_columns"), (["delete"], "and a key"),
        (["put", 2, 2, "price", "1"], "columns, are missing"), (["put", 2, "x"], "a number of columns"),
        (["put", 2, 0], "a number of columns"), (["delete_columns", 2, 1], "columns, are missing"),
        (put_of(7, {"price": 1}), "is no hash"), (put_of(8, {"price": 1}), "expires"),
    ):  # fmt: skip
        with pytest.raises(ResponseError, match=why):
            rows.run(*put_of(1, {"price": 1}), *wrong)
    assert rows.client.xlen(f"{rows.prefix}.log") == 1
    assert not rows.client.exists(f"{rows.prefix}:1")


def test_every_type_is_written_as_it_is_told_and_read_as_it_was(rows: RedisRows) -> None:
    table = opened(
        rows,
        "k STRING, b BOOLEAN, t TINYINT, big BIGINT, f FLOAT, d DOUBLE, p DECIMAL(20,9), x BINARY,"
        " day DATE, at TIMESTAMP, n TIMESTAMP_NTZ, a ARRAY<BINARY>, s STRUCT<p: DECIMAL(5,2), q: TIMESTAMP>,"
        " m MAP<STRING, DOUBLE>, im MAP<INT, DATE>, v VARCHAR(3), PRIMARY KEY (k)", "Europe/Berlin",
    )  # fmt: skip
    at = datetime.datetime(2024, 7, 1, 10, 0, 0, 1, datetime.UTC)
    row = {
        "k": "a:b\n", "b": True, "t": -128, "big": -(2**63), "f": 0.1, "d": 1e300, "p": Decimal("0.000000001"),
        "x": b"\0\xff", "day": datetime.date(1, 1, 1), "at": at, "n": datetime.datetime(1582, 10, 10),
        "a": [b"\xff", None], "s": {"p": Decimal("1.50"), "q": at}, "m": {"x": 0.5, "y": float("inf")},
        "im": {2: datetime.date(9999, 12, 31)}, "v": "äöü",
    }  # fmt: skip
    texts = {
        "b": "true", "t": "-128", "big": "-9223372036854775808", "f": "0.1", "d": "1e+300", "p": "0.000000001",
        "x": b"\0\xff", "day": "0001-01-01", "at": "2024-07-01T10:00:00.000001Z", "n": "1582-10-10T00:00:00",
        "a": '["/w==",null]', "s": '{"p":"1.50","q":"2024-07-01T10:00:00.000001Z"}', "m": '{"x":0.5,"y":Infinity}',
        "im": '[[2,"9999-12-31"]]', "v": "äöü",
    }  # fmt: skip
    written = {name.encode(): text.encode() if isinstance(text, str) else text for name, text in texts.items()}
    table.put_many([row])
    assert rows.client.hgetall(f"{rows.prefix}:a:b\n") == written
    rows.run("delete", "a:b\n", *put_of("a:b\n", texts))
    again = table.get("a:b\n")
    assert again is not None
    assert (again["b"], again["x"], again["at"], again["n"], again["p"]) == (True, b"\0\xff", at, row["n"], row["p"])
    found = whole_log(table)
    assert not found.bad
    (_, _, first), (_, kind, _), (_, _, last) = shown(table, found)
    assert (kind, first) == ("delete", last)
    assert (last["s"], last["a"], dict(last["m"]), dict(last["im"])) == (
        {"p": Decimal("1.50"), "q": at}, [b"\xff", None], row["m"], row["im"]
    )  # fmt: skip
    (scanned,) = rows_of(table)
    assert [column.to_pylist() for column in scanned.columns] == [
        column.to_pylist() for column in found.operations[0][0].slice(0, 1).columns
    ]


@pytest.mark.parametrize("type_", [
    BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, decimal(15, 2), decimal(18, 18), decimal(38, 38),
    decimal(38, 0), DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING, BINARY, array_of(DOUBLE), array_of(TIMESTAMP),
    map_of(STRING, decimal(38, 3)), map_of(DATE, BINARY),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_what_is_written_is_read_as_the_same_at_the_edges_of_every_type(type_: Type, zone: str) -> None:
    values = edge_values(type_) if not type_.is_nested else [None, *_nested_edges(type_)]
    intake = ColumnIntake(type_, zone)
    column = intake.from_values(values)
    texts = texts_of(column, type_)
    again, bad = column_of(intake, texts.to_pylist())
    assert not bad
    assert texts_of(again, type_).equals(texts)
    same = [(one, two) for one, two in zip(column.to_pylist(), again.to_pylist(), strict=True) if one == one]
    assert [one for one, _ in same] == [two for _, two in same]
    if not type_.is_nested:
        table = opened_of(type_, zone)
        keys = column.filter(column.is_valid())
        found, refused = table.decoder.keys.columns(table.decoder.keys.texts([canonical(keys)]).to_pylist())
        assert not refused and len(found[0]) == len(keys)


def test_what_a_program_writes_otherwise_means_the_same(rows: RedisRows) -> None:
    table = opened(rows, "k INT, b BOOLEAN, d DOUBLE, at TIMESTAMP, n TIMESTAMP_NTZ, PRIMARY KEY (k)", "Europe/Berlin")
    rows.run(*put_of(1, {"b": "1", "d": "1", "at": "2024-07-01 12:00", "n": "2024-07-01"}))
    rows.run(*put_of(2, {"b": "False", "d": "nan", "at": "2024-07-01T12:00:00+02:00", "n": "2024-07-01T00:00:00.5"}))
    found = whole_log(table)
    assert not found.bad
    (_, _, one), (_, _, two) = shown(table, found)
    assert (one["b"], one["d"], two["b"], math.isnan(two["d"])) == (True, 1.0, False, True)
    assert one["at"] == two["at"] == datetime.datetime(2024, 7, 1, 10, tzinfo=datetime.UTC)
    assert two["n"] - one["n"] == datetime.timedelta(milliseconds=500)


@pytest.mark.parametrize(("columns", "key", "text"), [
    ("k STRING", "", b""), ("k STRING", "log", b"log"), ("k BINARY", b"\xff:*", b"\xff:*"), ("k INT", -5, b"-5"),
    ("k DOUBLE", -0.0, b"0.0"), ("k DOUBLE", float("nan"), b"NaN"), ("k FLOAT", 0.1, b"0.1"),
    ("k BOOLEAN", False, b"false"),
    ("k DECIMAL(38,3)", Decimal("1.5"), b"1.500"), ("k DATE", datetime.date(999, 1, 2), b"0999-01-02"),
    ("k TIMESTAMP", datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), b"2024-01-01T00:00:00Z"),
    ("k INT, l STRING", (1, 'a"\\é\n'), '[1,"a\\"\\\\é\\n"]'.encode()),
    ("k STRING, l BOOLEAN", ("a", True), b'["a",true]'),
    ("k BINARY, l DECIMAL(5,2)", (b"\xff", Decimal("1")), b'["/w==","1.00"]'),
])  # fmt: skip
def test_a_key_has_one_text(rows: RedisRows, columns: str, key: Any, text: bytes) -> None:
    names = ", ".join(each.split()[0] for each in columns.split(", "))
    table = opened(rows, f"{columns}, v INT, PRIMARY KEY ({names})")
    given = key if isinstance(key, tuple) else (key,)
    table.put_many([{**dict(zip(names.split(", "), given, strict=True)), "v": 1}])
    assert [name for name in rows.client.keys("*") if name.startswith(rows.prefix.encode() + b":")] == [
        rows.prefix.encode() + b":" + text
    ]
    assert (table.get(key) or {})["v"] == 1
    found = whole_log(table)
    assert not found.bad and len(found.operations) == 1
    (scanned,) = rows_of(table)
    assert [c.to_pylist()[0] for c in scanned.columns if c.to_pylist()[0] == c.to_pylist()[0]] == [
        c.to_pylist()[0] for c in found.operations[0][0].columns if c.to_pylist()[0] == c.to_pylist()[0]
    ]
    table.delete(key)
    assert table.get(key) is None and not rows_of(table)


@pytest.mark.parametrize(("columns", "key", "reason"), [
    ("k INT", "05", "the key '05' has to be written '5'"), ("k INT", "x", "key column k: 'x'"),
    ("k INT", "", "key column k"), ("k DECIMAL(5,2)", "1.5", "has to be written '1.50'"),
    ("k TIMESTAMP", "2024-01-01T00:00:00", "written '2024-01-01T00:00:00Z'"),
    ("k STRING", b"\xff", "is no UTF-8"), ("k INT, l STRING", '[1, "a"]', """has to be written '[1,"a"]'"""),
    ("k INT, l STRING", '["1","a"]', """has to be written '[1,"a"]'"""),
    ("k INT, l STRING", "[1]", "no JSON array of k, l"),
    ("k INT, l STRING", "1],[2", "no JSON array of k, l"), ("k INT, l STRING", '[1,null]', "has to be written"),
    ("k INT, l STRING", '[1,["a"]]', "has to be written"), ("k INT, l BINARY", '[1,"!"]', "no base64"),
])  # fmt: skip
def test_a_key_that_is_written_otherwise_is_rejected_and_its_neighbours_are_kept(
    rows: RedisRows, columns: str, key: Any, reason: str
) -> None:
    names = ", ".join(each.split()[0] for each in columns.split(", "))
    table = opened(rows, f"{columns}, v INT, PRIMARY KEY ({names})")
    good = {"k": "1", "k, l": '[1,"YQ=="]'}[names] if "k STRING" not in columns else "a"
    good = {"k DECIMAL(5,2)": "1.00", "k TIMESTAMP": "2024-01-01T00:00:00Z"}.get(columns, good)
    rows.run(*put_of(good, {"v": 1}), *put_of(key, {"v": 2}), *put_of(good, {"v": 3}))
    found = whole_log(table)
    assert [bad.sequence for bad in found.bad] == [2]
    assert reason in found.bad[0].reason
    assert sum(len(each) for each, _, _ in found.operations) == 2
    with pytest.raises(Error, match="is no row of it"):
        rows_of(table)


@pytest.mark.parametrize(("values", "reason"), [
    ({"customer": "1.5", "price": 1}, "column customer: '1.5' is no INT"), ({"price": "1.999"}, "column price: "),
    ({"price": None}, "NULL in column price, which is NOT NULL"),
    ({"customer": "3000000000", "price": 1}, "column customer: "),
])  # fmt: skip
def test_a_value_that_is_none_is_rejected(rows: RedisRows, values: dict[str, Any], reason: str) -> None:
    table = opened(rows, ORDERS)
    rows.run(*put_of(1, {"price": 1}), *put_of(2, values), *put_of(3, {"price": 1}))
    found = whole_log(table)
    assert [(bad.sequence, bad.reason[: len(reason)]) for bad in found.bad] == [(2, reason)]
    assert found.bad[0].stamp > 1_700_000_000_000_000
    assert [sequence for sequence, _, _ in shown(table, found)] == [1, 3]


def test_entries_of_others_are_rejected_and_do_not_stop_the_numbers(rows: RedisRows) -> None:
    table = opened(rows, ORDERS)
    rows.run(*put_of(1, {"price": 1}))
    rows.client.xadd(f"{rows.prefix}.log", {"hello": "world"})
    rows.client.xadd(f"{rows.prefix}.log", {"put": "1", "at": "now", "null": "", "price": "1"})
    rows.client.xadd(f"{rows.prefix}.log", {"put": "1", "at": "1", "null": "{", "price": "1"})
    last = rows.run(*put_of(2, {"price": 1}))
    found = whole_log(table)
    assert {bad.reason[:35] for bad in found.bad} == {"it is no entry of the script by whi"}
    assert len(found.bad) == 3
    assert [(kind, row["id"]) for _, kind, row in shown(table, found)] == [("put", 1), ("put", 2)]
    assert table.start().positions == {"0": last} and table.estimate(1, last) < 10


def test_an_entry_of_others_behind_which_no_number_is_left_stops_the_table(rows: RedisRows) -> None:
    table = opened(rows, ORDERS)
    rows.run(*put_of(1, {"price": 1}))
    rows.client.xadd(f"{rows.prefix}.log", {"hello": "world"}, id=f"{2**64 - 2}-0")
    with pytest.raises(ResponseError, match="whose id is too great"):
        rows.run(*put_of(1, {"price": 1}))
    with pytest.raises(LogLost, match="whose id is too great"):
        table.ends()


def test_fields_that_no_column_has_are_passed_over(rows: RedisRows) -> None:
    table = opened(rows, ORDERS)
    rows.run(*put_of(1, {"id": 7, "price": 1, "more": "x", "less": None}), "delete_columns", 1, 1, "more")
    found = whole_log(table)
    assert shown(table, found)[0] == (1, "put", {"id": 1, "price": Decimal("1.00")})
    assert not found.bad


@pytest.mark.parametrize(("declared", "message"), [
    ("id INT, PRIMARY KEY (id)) USING redis", "redis needs url"),
    ("id INT, PRIMARY KEY (id)) USING redis OPTIONS (url 'redis://a', prefx 'b')", "did you mean prefix"),
    ("id INT, PRIMARY KEY (id)) USING redis OPTIONS (url 'http://a', prefix 'b')", "expected redis://HOST:PORT/0"),
    ("id INT, PRIMARY KEY (id)) USING redis OPTIONS (url 'redis://:hush@a', prefix 'b')", "a password is not"),
    ("id INT, PRIMARY KEY (id)) USING redis OPTIONS (url 'redis://a?password=x', prefix 'b')", "a password"),
    ("id INT, PRIMARY KEY (id)) USING redis OPTIONS (url 'redis://a', prefix '')", "it cannot be empty"),
    ("id INT, PRIMARY KEY (id)) USING redis OPTIONS (url 'redis://a', prefix 'b', trim 'yes')", "are true, false"),
    ("id INT) USING redis OPTIONS (url 'redis://a', prefix 'b')", "needs a PRIMARY KEY"),
])  # fmt: skip
def test_what_no_table_in_redis_can_be_is_refused_when_it_is_declared(declared: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        run(Catalog(), f"CREATE TABLE t ({declared}")


def test_the_script_s_own_words_reach_who_puts(rows: RedisRows) -> None:
    table = opened(rows, ORDERS)
    rows.client.set(f"{rows.prefix}:1", "a text")
    with pytest.raises(InputError, match="t: .*:1 is no hash"):
        table.put_many([{"id": 1, "price": 1}])
