"""What a micro-batch does to the table that follows it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewkeeper
from viewkeeper.catalog.model import Table
from viewkeeper.database import Database
from viewkeeper.errors import InputError, NotFound
from viewkeeper.stores.contract import Numbered
from viewkeeper.views.table_follow import DELETES, PUTS, TableFollow, TakenBatch

TYPES = pa.schema([("ID", pa.int64()), ("a", pa.int32()), ("b", pa.string()), ("op", pa.string())])


class Frame:
    """What Spark gives of a micro-batch."""

    def __init__(self, rows: list[dict[str, Any]], schema: pa.Schema = TYPES) -> None:
        self._rows = pa.Table.from_pylist(rows, schema)

    def toArrow(self) -> pa.Table:  # noqa: N802 (Spark's name)
        return self._rows


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", nodes=3, durability="process") as database:
        database.sql("CREATE TABLE t (id INT, a INT, b STRING, c INT DEFAULT 9, PRIMARY KEY (id))")
        yield database


def target(db: Database, op: str | None = "op", name: str = "t") -> TableFollow:
    table = db.catalog.find(name)
    assert isinstance(table, Table)
    return TableFollow(db.root, db._newest, db._store, table, op)


def stored(db: Database) -> dict[int, dict[str, Any]]:
    (table,) = db.catalog.tables
    return {row["id"]: row for batch in db._store.rows(table) for row in batch.to_pylist()}


@pytest.mark.parametrize("seed", range(5))
def test_a_micro_batch_does_what_its_rows_do_one_after_another(db: Database, seed: int) -> None:
    """Many on one key too; columns that the DataFrame lacks stay as they are, until the row is deleted."""
    chance, following, model = random.Random(seed), target(db), dict[int, dict[str, Any]]()
    for number in range(8):
        for id_ in chance.sample(range(9), 3):
            db.table("t").put({"id": id_, "c": number})
            model[id_] = {**model.get(id_, {"id": id_, "a": None, "b": None}), "c": number}
        rows, deleted = [], set[int]()
        for _ in range(chance.randrange(12)):
            id_, op = chance.randrange(9), chance.choice((*PUTS, *DELETES, *DELETES))
            row = {"ID": id_, "a": chance.randrange(99), "b": chance.choice(["x", None])}
            rows.append({**row, "op": op})
            if op in DELETES:
                model.pop(id_, None)
                deleted.add(id_)
            else:
                model[id_] = {"c": 9, **model.get(id_, {}), "id": id_, "a": row["a"], "b": row["b"]}
        last = {row["ID"]: row["op"] in PUTS for row in rows}
        taken = following.take(Frame(rows), Numbered("s", number))
        assert (taken.puts, taken.deletes, taken.duplicate) == (sum(last.values()), len(deleted), False)
        assert stored(db) == model
        assert following.take(Frame([]), Numbered("s", number)).duplicate


def test_without_an_operation_column_all_rows_are_put(db: Database) -> None:
    db.sql("CREATE TABLE added (a INT, b STRING)")
    given = pa.schema([("b", pa.string()), ("A", pa.int16())])
    rows = [{"A": 1, "b": "x"}, {"A": 1, "b": "x"}]
    taken = target(db, None, "added").take(Frame(rows, given), Numbered("s", 1))
    assert (taken.puts, taken.deletes) == (2, 0)
    assert target(db, None, "added").take(Frame(rows, given), Numbered("s", 1)) == TakenBatch(
        0, 0, True, viewkeeper.Token()
    )
    assert list(db.sql("SELECT * FROM added")) == [] and db._store.ends() != {}


@pytest.mark.parametrize(("rows", "message"), [
    ([{"ID": 1, "op": "put"}, {"ID": 1, "op": "x"}], "row 1 of the micro-batch: op is 'x'; expected one of put, c, u"),
    ([{"ID": 1, "op": "put"}, {"ID": 1, "op": None}], "row 1 of the micro-batch: op is None"),
    ([{"ID": 1, "op": "d"}, {"ID": None, "op": "d"}], r"t, rows\[1\], column id INT: it is in the key, so it"),
    ([{"ID": 1, "op": "d"}, {"ID": 2**40, "op": "c"}], r"t, rows\[1\], column id INT: 1099511627776 is outside"),
])  # fmt: skip
def test_a_row_that_cannot_be_taken_refuses_its_micro_batch(
    db: Database, rows: list[dict[str, Any]], message: str
) -> None:
    db.table("t").put({"id": 1, "a": 5})
    with pytest.raises(InputError, match=message):
        target(db).take(Frame(rows), Numbered("s", 1))
    assert stored(db)[1]["a"] == 5
    assert target(db).take(Frame([{"ID": 1, "op": "d"}]), Numbered("s", 1)) is not None
    assert stored(db) == {}


def test_a_row_that_the_rows_there_refuse_is_told_by_its_place(db: Database) -> None:
    db.sql("CREATE TABLE strict (id INT, n INT NOT NULL, a INT, PRIMARY KEY (id))")
    given = pa.schema([("id", pa.int32()), ("a", pa.int32()), ("op", pa.string())])
    db.table("strict").put({"id": 2, "n": 1})
    rows = [{"id": 1, "a": 1, "op": "d"}, {"id": 2, "a": 2, "op": "c"}, {"id": 3, "a": 1, "op": "c"}]
    with pytest.raises(InputError, match="row 2 of the micro-batch: there is no such row yet, and column n"):
        target(db, name="strict").take(Frame(rows, given), Numbered("s", 1))


@pytest.mark.parametrize(("table", "op", "columns", "message"), [
    ("t", None, ["id", "x"], "no column 'x'"), ("t", "what", ["id", "a"], "the DataFrame has no such column; it has"),
    ("t", "OP", ["a", "op"], "column id is missing"), ("added", "op", ["a", "op"], "rows are only added, without op="),
])  # fmt: skip
def test_columns_that_do_not_fit_are_refused_before_anything_runs(
    db: Database, table: str, op: str | None, columns: list[str], message: str
) -> None:
    db.sql("CREATE TABLE added (a INT)")
    with pytest.raises(InputError, match=message):
        target(db, op, table).require_columns(columns)


def test_a_table_may_be_altered_and_dropped_meanwhile(db: Database) -> None:
    following = target(db)
    db.sql("ALTER TABLE t RENAME TO s; ALTER TABLE s ADD COLUMN d INT; ALTER TABLE s DROP COLUMN c")
    following.take(Frame([{"ID": 1, "a": 2, "op": "c"}]), Numbered("s", 1))
    assert stored(db) == {1: {"id": 1, "a": 2, "b": None, "d": None}}
    (db.root / "follow" / str(db.catalog.tables[0].id) / "f").mkdir(parents=True)
    db.sql("DROP TABLE s")
    with pytest.raises(NotFound, match="the table 't' does not exist any more"):
        following.require_there()
    db.sql("CREATE TABLE other (id INT, PRIMARY KEY (id))")
    assert not list((db.root / "follow").iterdir())
