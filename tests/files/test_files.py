"""Rows in files: what stands in them is read as the columns are declared."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database, InputError, files
from viewkeeper.cli import cli


@pytest.fixture
def db(tmp_path: Path) -> Database:
    database = viewkeeper.connect(tmp_path / "db")
    database.sql(
        "CREATE TABLE t (k STRING, n INT, PRIMARY KEY (k)); CREATE STREAM m (ts TIMESTAMP NOT NULL, src STRING, "
        "loss INT, p DECIMAL(9,2)) TIMESTAMP BY ts PARTITION LENGTH 60"
    )
    return database


def test_texts_of_a_csv_file_mean_what_the_columns_are_declared_as(db: Database, tmp_path: Path) -> None:
    """Digits in a STRING stay text, decimals are exact, and only rows with a value of another type are rejected."""
    file = tmp_path / "m.csv"
    file.write_text("TS,src,loss,p\n2015-01-01 10:00,007,14,1.10\n2015-01-01 10:01,1,abc,2\n,2,3,1\n"
                    "2015-01-01 10:02,,,2.5\n2015-01-01 10:03,x,2.5,1\n")  # fmt: skip
    (done,) = db.stream("m").load(file)
    assert (done.stored, done.rejected) == (2, 3)
    rows = [(row["src"], row["loss"], row["p"]) for row in db.stream("m").open().to_arrow().to_pylist()]
    assert rows == [("007", 14, Decimal("1.10")), (None, None, Decimal("2.50"))]


def test_json_lines_whose_types_change_are_judged_one_by_one(db: Database, tmp_path: Path) -> None:
    """A line with a text where the others have numbers is rejected alone; one that is no JSON is named."""
    file = tmp_path / "m.jsonl"
    file.write_text('{"ts":"2015-01-01 10:00","loss":3}\n{"ts":"2015-01-01 10:00","loss":"x"}\n')
    (done,) = db.stream("m").load(file)
    assert (done.stored, done.rejected) == (1, 1)
    file.write_text('{"ts":"2015-01-01 10:00","loss":3}\n{"ts":"2015-01-01 10:00","loss":"x"}\n{"ts":\n')
    with pytest.raises(InputError, match="row 3"):
        list(db.stream("m").load(file))


def test_a_table_takes_digits_of_a_csv_file_as_text_where_it_says_so(db: Database, tmp_path: Path) -> None:
    """A key of type STRING may look like a number."""
    file = tmp_path / "t.csv"
    file.write_text("k,n\n1,1\n02,2\n")
    assert [count for count, _ in db.table("t").load(file)] == [2]
    assert db.table("t").get("02") == {"k": "02", "n": 2}


# As the declared types say


@pytest.fixture
def typed(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "typed", zone="Europe/Berlin", durability="process") as database:
        database.sql(
            "CREATE TABLE t (id INT, s STRING, x DOUBLE, f FLOAT, p DECIMAL(9,2), n BIGINT, b BOOLEAN, d DATE, "
            "ts TIMESTAMP, w TIMESTAMP_NTZ, y BINARY, PRIMARY KEY (id));"
            "CREATE STREAM m (ts TIMESTAMP NOT NULL, s STRING, n INT, x DOUBLE, d DATE, y BINARY) "
            "TIMESTAMP BY ts PARTITION LENGTH 60"
        )
        yield database


def loaded(db: Database, file: Path, text: str | bytes, **options: str) -> list[dict[str, Any]]:
    """What the table holds after a file with this content, by id."""
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    for _ in db.table("t").load(file, **options):
        pass
    return [row for i in range(100) if (row := db.table("t").get(i)) is not None]


def appended(db: Database, file: Path, text: str, **options: str) -> tuple[list[dict[str, Any]], list[tuple[str, Any]]]:
    """The rows of the stream, and what was rejected of a file with this content: reasons and rows."""
    file.write_text(text)
    for _ in db.stream("m").load(file, **options):
        pass
    rows = db.stream("m").open().to_arrow().to_pylist()
    catch_up(db)
    rejected = [(row["reason"], json.loads(row["operation"])) for row in db.rejected("m")]
    return rows, sorted(rejected, key=str)


def test_only_an_empty_field_without_quotes_is_null(typed: Database, tmp_path: Path) -> None:
    """NA, null, nan and N/A are texts in a STRING, and in a DOUBLE what they say or nothing that it takes."""
    rows = loaded(typed, tmp_path / "t.csv", 'id,s,x\n1,NA,NaN\n2,null,nan\n3,nan,-Infinity\n4,N/A,\n5,,1\n6,"",2\n'
                  '7,"NULL",+1.5e3\n')  # fmt: skip
    assert [row["s"] for row in rows] == ["NA", "null", "nan", "N/A", None, "", "NULL"]
    assert repr([row["x"] for row in rows]) == "[nan, nan, -inf, None, 1.0, 2.0, 1500.0]"
    with pytest.raises(InputError, match=r"t\.csv, row 2 \(id = 9\), column x DOUBLE: 'N/A' is no DOUBLE"):
        loaded(typed, tmp_path / "t.csv", "id,x\n8,1\n9,N/A\n")
    assert typed.table("t").get(8) is None


def test_what_stands_for_null_can_be_said(typed: Database, tmp_path: Path) -> None:
    """Then it alone is NULL, unless it stands in quotes; an empty field is an empty text."""
    rows = loaded(typed, tmp_path / "t.csv", 'id,s,n\n1,\\N,\\N\n2,"\\N",1\n3,,2\n', null="\\N")
    assert [(row["s"], row["n"]) for row in rows] == [(None, None), ("\\N", 1), ("", 2)]
    with pytest.raises(InputError, match="row 1 .*'' is no BIGINT"):
        loaded(typed, tmp_path / "t.csv", "id,n\n1,\n", null="NA")
    with pytest.raises(InputError, match="NULL can be said of CSV files only"):
        loaded(typed, tmp_path / "t.jsonl", '{"id":1}\n', null="NA")
    result = CliRunner().invoke(cli, ["load", "--db", str(typed.root), "--null", "-", "t", str(tmp_path / "u.csv")])
    assert result.exit_code == 2 and "does not exist" in result.output
    (tmp_path / "u.csv").write_text("id,s\n1,-\n2,x\n")
    result = CliRunner().invoke(cli, ["load", "--db", str(typed.root), "--null", "-", "t", str(tmp_path / "u.csv")])
    assert result.exit_code == 0 and typed.table("t").get(1)["s"] is None and typed.table("t").get(2)["s"] == "x"


@pytest.mark.parametrize(
    ("before", "last", "expected"),
    [
        ([""] * 30_000, "2024-07-01 10:00:00", dt.datetime(2024, 7, 1, 8, tzinfo=dt.UTC)),
        (["2024-07-01 10:00:00"] * 30_000, "2024-07-01 10:00:00.25", dt.datetime(2024, 7, 1, 8, 0, 0, 250_000, dt.UTC)),
        (["2024-07-01"], "2050-07-01", dt.datetime(2050, 6, 30, 22, tzinfo=dt.UTC)),
        (["2024-07-01T10:00Z"], "2024-07-01 10:00:00+02:00", dt.datetime(2024, 7, 1, 8, tzinfo=dt.UTC)),
        (["2024-07-01T10:00Z"], "2024-07-01 10:00", dt.datetime(2024, 7, 1, 8, tzinfo=dt.UTC)),
    ],
)
def test_times_of_a_csv_file_are_read_whatever_stood_before(
    typed: Database, tmp_path: Path, before: list[str], last: str, expected: dt.datetime
) -> None:
    lines = [f"{i + 1000},{text}" for i, text in enumerate(before)]
    assert loaded(typed, tmp_path / "t.csv", "\n".join(["id,ts", *lines, f"1,{last}"]))[0]["ts"] == expected


def test_rows_are_put_in_the_files_order(typed: Database, tmp_path: Path) -> None:
    """The later of two rows with one key counts, though the first was written otherwise."""
    rows = loaded(typed, tmp_path / "t.csv", "id,p\n1, 5\n1,7\n2,1e1\n2,8\n3,9\n3, 0.50 \n")
    assert [row["p"] for row in rows] == [Decimal("7.00"), Decimal("8.00"), Decimal("0.50")]


def test_a_bad_row_is_rejected_alone_with_its_own_reason_and_place(typed: Database, tmp_path: Path) -> None:
    """A row beside it is stored as it is; one with two faults has one reason, and what was good in it is kept."""
    file = tmp_path / "m.csv"
    rows, rejected = appended(typed, file, "ts,s,n,x\n2015-01-01 10:00,a,1,0.5\n2015-01-01 10:00,b,0x1F,1\n"
                              "2015-01-01 10:01,c,3,1e400\n,d,4,1\n2015-01-01 10:02,e,99999999999,\n")  # fmt: skip
    assert [(row["s"], row["n"], row["x"]) for row in rows] == [("a", 1, 0.5)]
    assert {reason for reason, _ in rejected} == {
        f"column n INT: '0x1F' is no INT ({file}, row 2)",
        f"column x DOUBLE: 1e400 is too great for a DOUBLE ({file}, row 3)",
        f"column ts is NULL, and a row needs its time ({file}, row 4)",
        f"column n INT: 99999999999 is outside -2147483648 to 2147483647 ({file}, row 5)",
    }
    assert rejected[0][1] == {"ts": "2015-01-01 10:00", "s": "b", "n": "0x1F", "x": 1.0}


def test_a_rejected_row_of_a_file_can_be_put_again_as_it_was(typed: Database, tmp_path: Path) -> None:
    """Its fields are kept with their types: what was too far ahead is taken when its time comes."""
    typed.sql("CREATE STREAM far (ts TIMESTAMP NOT NULL, n INT, x DOUBLE, y BINARY, p DECIMAL(9,2), s STRING) "
              "TIMESTAMP BY ts PARTITION LENGTH 60 MAX AHEAD 0")  # fmt: skip
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=3)
    row = {"ts": soon.isoformat(), "n": 7, "x": 0.1, "y": "00ff", "p": "1.10", "s": "12"}
    (tmp_path / "m.csv").write_text(",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n")
    (tmp_path / "m.jsonl").write_text(json.dumps(row) + "\n")
    done = list(typed.stream("far").load(tmp_path / "m.csv", tmp_path / "m.jsonl"))
    assert [each.rejected for each in done] == [1, 1]
    catch_up(typed)
    time.sleep(max(0.0, (soon - dt.datetime.now(dt.UTC)).total_seconds()) + 0.1)
    assert typed.put_rejected_again("far") == 2
    expected = {"ts": soon, "n": 7, "x": 0.1, "y": b"\0\xff", "p": Decimal("1.10"), "s": "12"}
    assert list(typed.stream("far").open()) == [expected] * 2


def test_a_bad_row_of_a_tables_file_is_named_as_it_stands_there(typed: Database, tmp_path: Path) -> None:
    lines = [f"{i},1" for i in range(files.BATCH_ROWS + 5)]
    lines[files.BATCH_ROWS + 2] = "77777,x"
    with pytest.raises(InputError, match=rf"^t, {tmp_path}/t.csv, row 65539 \(id = 77777\), column n BIGINT: 'x' is no "
                       r"BIGINT; of .*t.csv, 65,536 rows before are written$"):  # fmt: skip
        loaded(typed, tmp_path / "t.csv", "id,n\n" + "\n".join(lines))
    with pytest.raises(InputError, match="cannot be read as csv: .* row 2: Expected 2 columns, got 3"):
        loaded(typed, tmp_path / "t.csv", "id,n\n1,2\n1,2,3\n")
    with pytest.raises(InputError, match="t.csv, row 2 is not text in UTF-8"):
        loaded(typed, tmp_path / "t.csv", b"id,s\n1,\xc3\xbc\n2,\xff\n")


def test_fields_may_hold_line_ends_and_a_single_column_blank_lines(typed: Database, tmp_path: Path) -> None:
    rows = loaded(typed, tmp_path / "t.csv", '\ufeffid,s\r\n1,"a\r\nb, ""c"""\r\n\r\n2,x\r\n')
    assert [row["s"] for row in rows] == ['a\r\nb, "c"', "x"]
    with pytest.raises(InputError, match="row 2, column id INT: it is in the key, so it cannot be NULL"):
        loaded(typed, tmp_path / "t.csv", "id\n1\n\n3\n")


def test_every_type_is_read_from_csv_json_and_put_alike(typed: Database, tmp_path: Path) -> None:
    """The same values, written as each has it."""
    head = "id,s,x,f,p,n,b,d,ts,w,y"
    text = f"{head}\n1,2024-01-01,1.5,0.1,1.10,-7,TRUE,2024-02-29,2024-07-01 10:00,2024-07-01T10:00:00.5,00fF\n"
    (one,) = loaded(typed, tmp_path / "t.csv", text)
    row = ('{"id":2,"s":"2024-01-01","x":1.5,"f":0.1,"p":1.10,"n":-7,"b":true,"d":"2024-02-29",'
           '"ts":"2024-07-01 10:00","w":"2024-07-01T10:00:00.5","y":"00fF"}')  # fmt: skip
    two = loaded(typed, tmp_path / "t.jsonl", row + "\n")[1]
    result = CliRunner().invoke(cli, ["put", "--db", str(typed.root), "t", row.replace('"id":2', '"id":3')])
    assert result.exit_code == 0, result.output
    three = typed.table("t").get(3)
    assert [{**found, "id": 0} for found in (two, three)] == [{**one, "id": 0}] * 2
    assert one | {"id": 0} == {
        "id": 0, "s": "2024-01-01", "x": 1.5, "f": float(np.float32(0.1)), "p": Decimal("1.10"), "n": -7, "b": True,
        "d": dt.date(2024, 2, 29), "ts": dt.datetime(2024, 7, 1, 8, tzinfo=dt.UTC),
        "w": dt.datetime(2024, 7, 1, 10, 0, 0, 500_000), "y": b"\0\xff",
    }  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    ['"x":1.5', '"x":7', '"p":0.1', '"p":1e3', '"p":"1.5"', '"x":NaN', '"f":0.1', '"n":1.0', '"n":"1"', '"x":"1.5"',
     '"p":1.005', '"s":1.5', '"s":1', '"b":1', '"d":"2024-01-01"', '"d":1', '"x":1e400', '"f":1e39', '"y":"zz"',
     '"x":9007199254740993', '"n":9223372036854775808', '"s":"\\ud83d"', '"s":{"a":1}', '"s":[1]', '"p":NaN'],
)  # fmt: skip
def test_put_and_load_take_the_same_json(typed: Database, tmp_path: Path, fields: str) -> None:
    """1.5 is a DOUBLE, and exact in a DECIMAL; what one refuses the other refuses, too."""
    result = CliRunner().invoke(cli, ["put", "--db", str(typed.root), "t", f'{{"id":1,{fields}}}'])
    try:
        loaded(typed, tmp_path / "t.jsonl", f'{{"id":2,{fields}}}\n')
    except InputError as error:
        assert result.exit_code == 1 and str(error).split(", column ")[1] in str(result.exception)
        return
    assert result.exit_code == 0, result.output
    one, two = typed.table("t").get(1), typed.table("t").get(2)
    assert repr(one | {"id": 0}) == repr(two | {"id": 0})


def test_a_json_field_that_is_missing_is_left_alone_and_null_sets_null(typed: Database, tmp_path: Path) -> None:
    """As put_many has it; a column may first appear behind any number of rows, and texts that look like dates stay."""
    lines = [f'{{"id":{i},"n":{i}}}' for i in range(1, 20_000)]
    lines += [
        '{"id":1,"s":"2024-01-01","x":0.1}',
        '{"id":2,"n":null}',
        '{"id":3,"d":"2024-01-01"}',
        "",
        '{"ID":4,"S":"x"}',
    ]
    rows = loaded(typed, tmp_path / "t.jsonl", "\n".join(lines))
    assert [(row["n"], row["s"], row["x"], row["d"]) for row in rows[:4]] == [
        (1, "2024-01-01", 0.1, None), (None, None, None, None), (3, None, None, dt.date(2024, 1, 1)),
        (4, "x", None, None),
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"^t, .*t.jsonl, line 4 \(id = 6\), column n BIGINT: 1.5 "):
        loaded(typed, tmp_path / "t.jsonl", '\n{"id":5}\n\n{"id":6,"n":1.5}\n')
    with pytest.raises(InputError, match="t.jsonl, line 2: t: no column 'k'"):
        loaded(typed, tmp_path / "t.jsonl", '{"id":5}\n{"id":6,"k":1}\n')
    _, rejected = appended(
        typed, tmp_path / "m.jsonl", '{"ts":"2015-01-01","n":1}\n\n{"ts":"2015-01-01","x":0.5,"n":1.5}\n'
    )
    assert rejected == [(f"column n INT: 1.5 (Number) is not an int ({tmp_path}/m.jsonl, line 3)",
                         {"ts": "2015-01-01", "s": None, "n": 1.5, "x": 0.5, "d": None, "y": None})]  # fmt: skip


def test_files_of_one_name_in_several_folders_are_all_loaded_under_an_id(typed: Database, tmp_path: Path) -> None:
    """The id of a file is its whole path, however it is given."""
    parts = [tmp_path / folder / "part-0.csv" for folder in ("x", "y")]
    for i, file in enumerate(parts):
        file.parent.mkdir()
        file.write_text(f"ts,n\n2015-01-01 10:00,{i}\n")
    done = list(typed.stream("m").load(*parts, id="monday"))
    assert [(each.stored, each.duplicate) for each in done] == [(1, False), (1, False)]
    again = typed.stream("m").load(os.path.relpath(parts[1]), parts[0], id="monday")
    assert [each.duplicate for each in again] == [True, True]
    assert [each.duplicate for each in typed.stream("m").load(parts[0], id="tuesday")] == [False]


def test_a_frame_that_pandas_wrote_is_loaded_as_put_many_takes_it(tmp_path: Path) -> None:
    """Integers that are floats since some are missing; an index that nobody declared; 1.5 stays refused."""
    import pandas as pd

    frame = pd.DataFrame({"id": [1, 2, 3], "x": [7, None, 9]}).query("id > 1")
    with viewkeeper.connect(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (id BIGINT, x BIGINT, PRIMARY KEY (id)); CREATE TABLE u (id BIGINT, x BIGINT, "
               "PRIMARY KEY (id))")  # fmt: skip
        db.table("t").put_many(frame)
        frame.to_parquet(tmp_path / "f.parquet")
        list(db.table("u").load(tmp_path / "f.parquet"))
        rows = [db.table(name).get(key) for name in "tu" for key in (2, 3)]
        assert rows == [{"id": 2, "x": None}, {"id": 3, "x": 9}] * 2
        pd.DataFrame({"id": [5], "x": [1.5]}).to_parquet(tmp_path / "g.parquet")
        with pytest.raises(InputError, match=r"row 1 \(id = 5\), column x BIGINT: 1.5"):
            list(db.table("u").load(tmp_path / "g.parquet"))


# Every form in which Spark, pandas and Arrow hold values


NOON = dt.datetime(2024, 7, 1, 12)
MOMENT = NOON.replace(tzinfo=dt.UTC)
FORMS: list[tuple[str, pa.Array, list[Any]]] = [
    ("s", pa.array(["a", None]).dictionary_encode(), ["a", None]),
    ("s", pa.array(["a", None], pa.large_string()), ["a", None]),
    ("s", pa.array(["a", None], pa.string_view()), ["a", None]),
    ("s", pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array(["a"], pa.string_view())), ["a", None]),
    ("s", pa.RunEndEncodedArray.from_arrays([1, 3, 4], pa.array(["z", "a", None])).slice(1, 2), ["a", "a"]),
    ("s", pa.RunEndEncodedArray.from_arrays([1, 2], pa.array(["a", None]).dictionary_encode()), ["a", None]),
    ("s", pa.array([None, None], pa.null()), [None, None]),
    ("s", pa.array([None, None], pa.struct([("a", pa.int32())])), [None, None]),
    ("s", pa.array([None, None], pa.list_(pa.string())), [None, None]),
    ("x", pa.array([1.5, None], pa.float16()), [1.5, None]),
    ("x", pa.array([1.5, None], pa.float32()), [1.5, None]),
    ("x", pa.array([2**53, -(2**53)]), [2.0**53, -(2.0**53)]),
    ("x", pa.array([7, None], pa.uint64()), [7.0, None]),
    ("f", pa.array([0.1, float("inf")]), [float(np.float32(0.1)), float("inf")]),
    ("f", pa.array([2**24, 2**60]), [2.0**24, 2.0**60]),
    *(("p", pa.array([Decimal("1.5"), None], type_), [Decimal("1.50"), None])
      for type_ in (pa.decimal32(5, 1), pa.decimal64(12, 3), pa.decimal128(38, 10), pa.decimal256(60, 20))),
    ("p", pa.array([3, None], pa.uint8()), [Decimal("3.00"), None]),
    ("p", pa.array([3, None], pa.int64()), [Decimal("3.00"), None]),
    *(("n", pa.array([200, None], type_), [200, None])
      for type_ in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.int16())),
    ("n", pa.array([200, None], pa.int32()).dictionary_encode(), [200, None]),
    ("b", pa.array([True, None]), [True, None]),
    ("d", pa.array([NOON.date(), None], pa.date32()), [NOON.date(), None]),
    ("d", pa.array([NOON.date(), None], pa.date64()), [NOON.date(), None]),
    *(("ts", pa.array([MOMENT, None], pa.timestamp(unit, "America/New_York")), [MOMENT, None])
      for unit in ("s", "ms", "us", "ns")),
    *(("ts", pa.array([NOON, None], pa.timestamp(unit)), [MOMENT - dt.timedelta(hours=2), None])
      for unit in ("s", "ms", "us", "ns")),
    *(("w", pa.array([NOON, None], pa.timestamp(unit)), [NOON, None]) for unit in ("s", "ms", "us", "ns")),
    ("y", pa.array([b"ab", None], pa.binary(2)), [b"ab", None]),
    ("y", pa.array([b"ab", None], pa.large_binary()), [b"ab", None]),
    ("y", pa.array([b"ab", None], pa.binary_view()), [b"ab", None]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "array", "expected"), FORMS, ids=lambda value: str(getattr(value, "type", ""))[:60])
def test_every_form_of_a_column_is_taken_where_nothing_is_lost(
    typed: Database, tmp_path: Path, name: str, array: pa.Array, expected: list[Any]
) -> None:
    """By put_many and from Arrow and Parquet files, into a table and into a stream."""
    table = pa.table({"id": [1, 2], name: array})
    ways = [table]
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    ways.append(tmp_path / "t.arrow")
    with suppress(pa.ArrowNotImplementedError, pa.ArrowInvalid):  # what Parquet cannot hold
        pq.write_table(table, tmp_path / "t.parquet")
        ways.append(tmp_path / "t.parquet")
    for way in ways:
        typed.table("t").delete_many([1, 2])
        typed.table("t").put_many(way) if way is table else list(typed.table("t").load(way))
        assert [typed.table("t").get(i)[name] for i in (1, 2)] == expected, way
    if name in ("s", "x", "n", "d", "y"):
        done = typed.stream("m").append(table.rename_columns(["k", name]).drop_columns(["k"]).append_column(
            "ts", pa.array([0, 1], pa.timestamp("us", "UTC"))))  # fmt: skip
        assert done.stored == 2
        assert [row[name] for row in typed.stream("m").open()] == expected


@pytest.mark.parametrize(
    ("name", "array", "reason"),
    [
        ("n", pa.array([1, 2**63], pa.uint64()), "outside"),
        ("n", pa.array([1.0, 2.0]), "an int"),
        ("n", pa.array([True, False]), "an int"),
        ("x", pa.array([1, 2**53 + 1]), "no exact DOUBLE"),
        ("f", pa.array([1, 2**24 + 1]), "no exact FLOAT"),
        ("x", pa.array([Decimal("0.5")] * 2), "a float"),
        ("p", pa.array([Decimal("1"), Decimal("0.001")], pa.decimal256(50, 3)), "behind the point"),
        ("p", pa.array([1.5, 2.5]), "a Decimal"),
        ("d", pa.array([0, 5], pa.int64()).view(pa.date64()), "lose data|no whole day|a date"),
        ("d", pa.array([NOON, NOON]), "a date"),
        ("ts", pa.array([NOON.date()] * 2), "a datetime"),
        ("w", pa.array([MOMENT] * 2, pa.timestamp("us", "UTC")), "time zone"),
        ("s", pa.array([b"a", b"b"]), "a str"),
        ("s", pa.array([{"a": 1}, None]), "a str"),
    ],
    ids=lambda value: str(getattr(value, "type", ""))[:60],
)
def test_a_form_that_would_lose_something_is_refused(
    typed: Database, tmp_path: Path, name: str, array: pa.Array, reason: str
) -> None:
    """As put_many refuses it, with the file and the row."""
    table = pa.table({"id": [1, 2], name: array})
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(InputError, match=rf"rows\[[01]\] .*column {name} .*({reason})") as by_rows:
        typed.table("t").put_many(table)
    with pytest.raises(InputError, match=rf"{tmp_path}/t.arrow, row [12] .*({reason})") as by_file:
        list(typed.table("t").load(tmp_path / "t.arrow"))
    assert str(by_rows.value).split(", column")[1] == str(by_file.value).split(", column")[1]


@pytest.mark.spark
def test_files_that_spark_writes_are_loaded_as_spark_meant_them(spark: Any, typed: Database, tmp_path: Path) -> None:
    """Parquet, CSV and JSON of every type, NULLs and empty texts among them, with moments of many years."""
    sql = """SELECT 1 AS id, 'a "b", c' AS s, 0.1D AS x, 0.1F AS f, 1.10BD AS p, 7L AS n, true AS b,
        DATE '2024-02-29' AS d, TIMESTAMP '2050-07-01 10:00:00.25Z' AS ts, TIMESTAMP_NTZ '2024-07-01 10:00:00.5' AS w
        UNION ALL SELECT 2, '', double('NaN'), float('Infinity'), -0.05BD, -1L, false, DATE '0001-01-01',
        TIMESTAMP '0099-01-01 00:00:00Z', TIMESTAMP_NTZ '9999-12-31 23:59:59.999'
        UNION ALL SELECT 3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, TIMESTAMP '9999-01-01 00:00:00Z', NULL"""
    frame = spark.sql(sql).coalesce(1)
    expected = {row.id: row.asDict() for row in frame.drop("ts").collect()}
    moments = [dt.datetime(2050, 7, 1, 10, 0, 0, 250_000, dt.UTC), dt.datetime(99, 1, 1, tzinfo=dt.UTC),
               dt.datetime(9999, 1, 1, tzinfo=dt.UTC)]  # fmt: skip
    for form in ("parquet", "csv", "json"):
        options = {"header": True, "escape": '"', "ignoreNullFields": False}
        frame.write.options(**options).format(form).save(str(tmp_path / form))
        (file,) = (tmp_path / form).glob(f"*.{form}")
        typed.table("t").delete_many([1, 2, 3])
        if form == "json":  # JSON has no numbers for these; Spark writes texts
            file.write_text(file.read_text().replace('"NaN"', "NaN").replace('"Infinity"', "Infinity"))
        list(typed.table("t").load(file))
        for id_, moment in enumerate(moments, 1):
            row = typed.table("t").get(id_)
            assert row.pop("ts") == moment and row.pop("y") is None, form
            assert repr(row) == repr({name: expected[id_][name] for name in row}), form


def test_int96_of_parquet_is_a_moment_and_reaches_all_years(typed: Database, tmp_path: Path) -> None:
    """Spark writes TIMESTAMPs so, in UTC; in nanoseconds the years would end in 2262."""
    moments = [dt.datetime(1600, 1, 1), dt.datetime(2024, 7, 1, 12), dt.datetime(9999, 12, 31)]
    table = pa.table({"id": [1, 2, 3], "ts": pa.array(moments, pa.timestamp("us")), "w": moments})
    pq.write_table(table, tmp_path / "t.parquet", use_deprecated_int96_timestamps=True)
    list(typed.table("t").load(tmp_path / "t.parquet"))
    rows = [typed.table("t").get(i) for i in (1, 2, 3)]
    assert [row["ts"] for row in rows] == [moment.replace(tzinfo=dt.UTC) for moment in moments]
    assert [row["w"] for row in rows] == moments


@pytest.mark.parametrize(("name", "data", "said"), [
    ("f.csv", "k,größe\na,1\n".encode("latin-1"), "first line, the names of the columns, is not text in UTF-8"),
    ("f.jsonl", b'{"k":"a"}\n{"k":"b","n":' + b"[" * 100_000, "row 2: its arrays or objects are nested too deep"),
    ("f.csv", b'n,k\n1,a\n2,"b\n3,c\n', "row 2: the file ends inside quotes"),
    ("f.csv", b'n,k\n1,a\n2,"b', "row 2: the file ends inside quotes"),
    ("f.csv", b'n,k\n1,a\n2,"', "row 2: the file ends inside quotes"),
    ("f.csv", b'k\n"a ""b"" c\n', "row 1: the file ends inside quotes"),
])  # fmt: skip
def test_a_file_that_is_cut_off_or_no_text_is_named(
    db: Database, tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    with pytest.raises(InputError, match=said) as raised:
        list(db.table("t").load(file))
    assert str(file) in str(raised.value)
    assert db.table("t").get("b") is None


@pytest.mark.parametrize(("end", "k"), [
    ('"a"', "a"), ('"a"\n', "a"), ('"a""b"', 'a"b'), ('"a"""', 'a"'), ('""', ""), ('"a,""\n"', 'a,"\n'), ("a\n", "a"),
    ('"a\nb"\r\n', "a\nb"), ('a"', 'a"'), ('x"a', 'x"a'),
])  # fmt: skip
def test_quotes_at_the_end_of_a_file_that_are_closed_are_taken(db: Database, tmp_path: Path, end: str, k: str) -> None:
    file = tmp_path / "f.csv"
    file.write_text(f"n,k\n1,{end}", newline="")
    assert [n for n, _ in db.table("t").load(file)] == [1]
    assert db.table("t").get(k) == {"k": k, "n": 1}
