"""Defaults of columns: what a new row gets in a column that it does not name, by whatever way it comes."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import viewkeeper
from drawn import examples
from local_maintenance import catch_up
from memory_store import MemoryStore
from store_model import Model, apply_put, in_order, make_table, read_all, replay, stored_rows
from viewkeeper import Database, DeclarationError, InputError
from viewkeeper.catalog.model import ColumnDetails, Default
from viewkeeper.catalog.types import BIGINT, INT
from viewkeeper.stores.embedded import EmbeddedStore

TABLE = """CREATE TABLE t (id INT PRIMARY KEY, n INT DEFAULT 3 + 4, s STRING NOT NULL DEFAULT upper('x'),
                            d DECIMAL(20,2) DEFAULT 1.5, day DATE DEFAULT DATE '2020-01-02', w DOUBLE)"""
NEW = {"n": 7, "s": "X", "d": Decimal("1.50"), "day": datetime.date(2020, 1, 2), "w": None}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as made:
        made.sql(
            f"{TABLE}; CREATE VIEW v AS SELECT id, n, s, d, day, w FROM t; CREATE TABLE bag (x INT DEFAULT 5, y INT)"
        )
        yield made


def rows(db: Database, name: str = "v") -> list[dict[str, Any]]:
    catch_up(db)
    return list(db.sql(f"SELECT * FROM {name} ORDER BY 1, 2"))


class TestPut:
    @pytest.mark.parametrize("given_", [
        [{"id": 1}], [{"id": 1}, {"id": 2, "n": 5}], pd.DataFrame({"id": [1]}), pa.table({"id": pa.array([1])}),
        pa.table({"id": pa.array([1])}).to_reader(),
    ], ids=["dicts", "dicts that differ", "pandas", "Arrow", "a reader"])  # fmt: skip
    def test_a_column_that_is_not_named_has_its_default(self, db: Database, given_: Any) -> None:
        db.table("t").put_many(given_)
        assert db.table("t").get(1) == rows(db)[0] == {"id": 1, **NEW}

    def test_a_row_that_is_there_keeps_its_values_and_none_is_null(self, db: Database) -> None:
        t = db.table("t")
        t.put({"id": 1, "n": None, "s": "y"})
        t.put({"id": 1, "w": 2.0})
        t.put_many([{"id": 1, "d": 3}, {"id": 2}, {"id": 2, "n": 9}])
        t.delete(2, columns=["day"])
        assert rows(db) == [{"id": 1, **NEW, "n": None, "s": "y", "w": 2.0, "d": Decimal(3)},
                            {"id": 2, **NEW, "n": 9, "day": None}]  # fmt: skip
        assert [t.get(1), t.get(2)] == rows(db)

    def test_a_row_that_is_made_again_begins_with_the_defaults(self, db: Database) -> None:
        t = db.table("t")
        t.put({"id": 1, "n": 1, "s": "y"})
        catch_up(db)
        t.delete(1)
        t.delete(1, columns=["n"])
        t.put({"id": 1, "w": 1.0})
        assert rows(db) == [{"id": 1, **NEW, "w": 1.0}] == [t.get(1)]

    def test_rows_without_a_key_have_them_too(self, db: Database) -> None:
        bag = db.table("bag")
        bag.put({"y": 1})
        bag.put_many([{"y": 2}, {"x": 1}])
        assert bag.delete({"x": 5, "y": 1})
        db.sql("CREATE VIEW b AS SELECT x, y FROM bag")
        assert rows(db, "b") == [{"x": 1, "y": None}, {"x": 5, "y": 2}]

    def test_a_column_not_null_without_a_default_is_still_asked_for(self, db: Database) -> None:
        db.sql("CREATE TABLE u (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL DEFAULT 1)")
        with pytest.raises(InputError, match="column a, which is NOT NULL"):
            db.table("u").put({"id": 1})


class TestStatements:
    def test_insert_fills_the_columns_that_are_not_listed(self, db: Database) -> None:
        db.sql(
            "INSERT INTO t (id) VALUES (1); INSERT INTO t (w, id) SELECT 2.5, 2; INSERT INTO t BY NAME SELECT 3 AS id"
        )
        assert rows(db) == [{"id": 1, **NEW}, {"id": 2, **NEW, "w": 2.5}, {"id": 3, **NEW}]

    def test_the_word_default_is_the_default(self, db: Database) -> None:
        db.sql(
            "INSERT INTO t (id, n) VALUES (1, DEFAULT), (2, 1 + 1), (3, NULL);INSERT INTO t (id, n) VALUES (4, DEFAULT)"
        )
        assert [row["n"] for row in rows(db)] == [7, 2, None, 7]
        db.sql("UPDATE t SET n = DEFAULT, s = DEFAULT, day = NULL WHERE id = 3")
        db.sql("""MERGE INTO t USING (VALUES (2), (9)) AS m (k) ON t.id = m.k
                  WHEN MATCHED THEN UPDATE SET n = DEFAULT, s = 'm'
                  WHEN NOT MATCHED THEN INSERT (id, n, w) VALUES (m.k, DEFAULT, 1)""")
        assert rows(db)[1:] == [{"id": 2, **NEW, "s": "m"}, {"id": 3, **NEW, "day": None}, {"id": 4, **NEW},
                                {"id": 9, **NEW, "w": 1.0}]  # fmt: skip

    def test_a_changed_default_is_for_rows_from_then_on(self, db: Database) -> None:
        t = db.table("t")
        t.put({"id": 1})
        db.sql("ALTER TABLE t ALTER COLUMN n SET DEFAULT 100")
        t.put({"id": 2})
        db.sql("ALTER TABLE t ALTER n DROP DEFAULT")
        t.put({"id": 3})
        assert [row["n"] for row in rows(db)] == [7, 100, None]
        (described,) = (row for row in db.sql("DESCRIBE t") if row["col_name"] == "s")
        assert described["default"] == "upper('x')"

    @pytest.mark.parametrize("sql, message", [
        ("CREATE TABLE q (a INT DEFAULT b)", "there is no column b .line 1, column 31"),
        ("CREATE TABLE q (a INT DEFAULT 'x')", "of type STRING, which is not stored as INT.* column 31"),
        ("CREATE TABLE q (a TINYINT DEFAULT 1000)", "raises CAST_OVERFLOW"),
        ("CREATE TABLE q (a INT DEFAULT 1/0)", "raises DIVIDE_BY_ZERO"),
        ("CREATE TABLE q (a INT DEFAULT (SELECT 1))", "one constant, without a name or a query"),
        ("CREATE TABLE q (a INT DEFAULT 1 AS b)", "one constant"),
        ("CREATE TABLE q (a ARRAY<INT> DEFAULT 1)", "its DEFAULT can only be NULL yet"),
        ("CREATE TABLE q (a INT DEFAULT sum(1))", "no constant"),
        ("CREATE TABLE q (a INT DEFAULT 1, PRIMARY KEY (a))", "a is in the key"),
        ("ALTER TABLE t ALTER COLUMN id SET DEFAULT 1", "id is in the key"),
        ("ALTER TABLE t ALTER COLUMN nn SET DEFAULT 1", "no column nn; did you mean n"),
        ("ALTER TABLE v ALTER COLUMN n SET DEFAULT 1", "v is a view"),
    ])  # fmt: skip
    def test_what_is_no_constant_of_the_columns_type_is_refused(self, db: Database, sql: str, message: str) -> None:
        with pytest.raises(DeclarationError, match=message):
            db.sql(sql)


TABLE_OF_NUMBERS = replace(
    make_table(30, "d", [("id", BIGINT), ("a", INT), ("b", INT, False), ("c", INT)], "id"),
    details=tuple(ColumnDetails(each) for each in (None, Default("3", 3), Default("4", 4), None)),
)

SMALL = st.integers(0, 2)
PUT = st.fixed_dictionaries({"id": SMALL}, optional={"a": st.none() | SMALL, "b": SMALL, "c": st.none() | SMALL})
STEP = st.one_of(
    st.tuples(st.just("put"), PUT), st.tuples(st.just("put_many"), st.lists(PUT, max_size=6)),
    st.tuples(st.just("delete"), SMALL), st.tuples(st.just("clear"), SMALL),
)  # fmt: skip


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, max_size=12), embedded=st.booleans())
def test_any_history_gives_the_models_rows_in_store_and_log(
    tmp_path_factory: Any, steps: list[Any], embedded: bool
) -> None:
    """Of partial puts, too, whole batches of them: the store, a plain dictionary and the log replayed agree."""
    folder = tmp_path_factory.mktemp("defaults")
    store = EmbeddedStore(folder / "s", nodes=2, durability="process") if embedded else MemoryStore()
    table, model = TABLE_OF_NUMBERS, Model()
    for kind, what in steps:
        if kind in ("put", "put_many"):
            for row in [what] if kind == "put" else what:
                apply_put(model, table, row)
            (store.put if kind == "put" else store.put_many)(table, what)
        elif kind == "delete":
            model.pop((what,), None)
            store.delete(table, what)
        else:
            store.delete(table, what, ["a", "c"])
            if (what,) in model:
                model[what,] = {**model[what,], "a": None, "c": None}
    assert in_order(stored_rows(store, table)) == in_order(model.values())
    assert replay(table, read_all(store, table)) == model
    store.close()
