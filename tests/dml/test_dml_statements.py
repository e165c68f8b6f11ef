"""What INSERT, UPDATE, DELETE and MERGE do to the rows of a table, and what they refuse."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database, DeclarationError, InputError, NotSupported, ViewBroken
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import Insert
from viewkeeper.dml.run_change import run_change

T = "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT, note STRING NOT NULL)"
BAG = "CREATE TABLE bag (x INT, y DECIMAL(5,2))"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql(f"{T}; {BAG}; CREATE VIEW total AS SELECT sum(n) AS n FROM t")
        database.sql("INSERT INTO t VALUES (1, 10, 'a'), (2, NULL, 'b'), (3, 30, 'c')")
        yield database


def rows(db: Database, name: str = "t") -> list[tuple[Any, ...]]:
    """All rows of a table as written, in order."""
    table = db.table(name)._table()
    found = [tuple(row.values()) for batch in db._store.rows(table) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: [(value is not None, value) for value in row])


def refused(db: Database, sql: str, message: str, kind: type[Exception] = InputError) -> None:
    """It raises, saying `message`, and nothing is changed."""
    before = rows(db), rows(db, "bag")
    with pytest.raises(kind) as error:
        db.sql(sql)
    assert message in str(error.value)
    assert (rows(db), rows(db, "bag")) == before


class TestInsert:
    def test_values_are_taken_in_the_tables_order_or_in_that_of_a_list(self, db: Database) -> None:
        db.sql("INSERT INTO t (note, ID) VALUES ('d', 4), ('e', 5)")
        db.sql("INSERT INTO TABLE t VALUES (6, DEFAULT, 'f')")
        db.sql("INSERT INTO t BY NAME SELECT 'g' AS note, 7 AS id")
        assert rows(db)[3:] == [(4, None, "d"), (5, None, "e"), (6, None, "f"), (7, None, "g")]

    def test_the_result_counts_rows_and_its_token_reads_behind_the_write(self, db: Database) -> None:
        result = db.sql("INSERT INTO t SELECT id + 10, n, note FROM t WHERE n > 5")
        assert (result.affected, list(result)) == (2, [{"num_affected_rows": 2, "num_inserted_rows": 2}])
        catch_up(db)
        assert db.view("total").get((), after=result.token) == {"n": 80}
        nothing = db.sql("INSERT INTO t SELECT * FROM t WHERE id = 99")
        assert (nothing.affected, str(nothing.token)) == (0, "")
        assert (db.sql("SELECT 1").affected, db.sql("SELECT 1").token) == (None, None)

    def test_a_table_without_a_key_takes_equal_rows(self, db: Database) -> None:
        db.sql("INSERT INTO bag VALUES (1, 1), (1, 1)")
        assert db.sql("INSERT INTO bag SELECT * FROM bag").affected == 2
        assert rows(db, "bag") == [(1, Decimal("1.00"))] * 4

    def test_tables_are_read_as_written_and_views_as_their_queries_have_them_then(self, db: Database) -> None:
        """Whatever has been maintained: nothing has here."""
        db.sql("CREATE VIEW above AS SELECT n + 1 AS m FROM total; INSERT INTO bag SELECT m, n FROM above, total")
        assert rows(db, "bag") == [(41, Decimal("40.00"))]

    def test_a_key_that_is_there_is_refused_by_name(self, db: Database) -> None:
        """Unlike put, which overwrites."""
        refused(db, "INSERT INTO t VALUES (9, 1, 'x'), (2, 1, 'x')", "a row with the key id = 2 already; UPDATE it")
        refused(db, "INSERT INTO t VALUES (9, 1, 'x'), (9, 1, 'y')", "two rows would have the key id = 9")

    def test_what_a_column_does_not_take_is_refused(self, db: Database) -> None:
        refused(db, "INSERT INTO t VALUES (9, 1, NULL)", "t (id = 9): the column note would be NULL, and is NOT NULL")
        refused(db, "INSERT INTO t (n, note) VALUES (1, 'x')", "the column id would be NULL, and is in the key")
        refused(db, "INSERT INTO t VALUES (9, 3000000000, 'x')", "CAST_OVERFLOW", ViewBroken)
        refused(db, "INSERT INTO bag VALUES (1, 1000)", "NUMERIC_VALUE_OUT_OF_RANGE", ViewBroken)


class TestUpdate:
    def test_rows_that_a_condition_names_get_other_values(self, db: Database) -> None:
        assert db.sql("UPDATE t AS a SET a.n = n + id, note = upper(a.note) WHERE a.n >= 10").affected == 2
        assert rows(db) == [(1, 11, "A"), (2, None, "b"), (3, 33, "C")]
        assert db.sql("UPDATE t SET n = DEFAULT").affected == 3
        assert {n for _, n, _ in rows(db)} == {None}

    def test_all_values_are_of_the_row_before(self, db: Database) -> None:
        db.sql("UPDATE t SET id = n, n = id WHERE id = 3")
        assert rows(db) == [(1, 10, "a"), (2, None, "b"), (30, 3, "c")]

    def test_keys_may_take_each_others_places(self, db: Database) -> None:
        """A key that changes is a row that goes and one that comes; which are there is asked behind all of it."""
        assert db.sql("UPDATE t SET id = id + 1").affected == 3
        assert rows(db) == [(2, 10, "a"), (3, None, "b"), (4, 30, "c")]
        db.sql("UPDATE t SET id = CASE id WHEN 2 THEN 3 ELSE 2 END WHERE id < 4")
        assert rows(db) == [(2, None, "b"), (3, 10, "a"), (4, 30, "c")]
        refused(db, "UPDATE t SET id = 4 WHERE id = 2", "a row with the key id = 4 already")
        refused(db, "UPDATE t SET id = 7", "two rows would have the key id = 7")

    def test_subqueries_read_what_was_before(self, db: Database) -> None:
        db.sql("UPDATE t SET n = (SELECT max(n) FROM t) WHERE id IN (SELECT id - 1 FROM t)")
        assert rows(db) == [(1, 30, "a"), (2, 30, "b"), (3, 30, "c")]
        db.sql("UPDATE t AS a SET n = (SELECT max(b.id) FROM t AS b WHERE b.note = a.note AND b.id > 1)")
        assert rows(db) == [(1, None, "a"), (2, 2, "b"), (3, 3, "c")]

    def test_a_table_without_a_key_keeps_how_often_rows_come(self, db: Database) -> None:
        db.sql("INSERT INTO bag VALUES (1, 1), (1, 1), (2, 1); UPDATE bag SET x = 2 WHERE x = 1")
        assert rows(db, "bag") == [(2, Decimal("1.00"))] * 3

    def test_a_nested_column_is_copied_or_made_null(self, db: Database) -> None:
        db.sql("CREATE TABLE nested (id INT PRIMARY KEY, a ARRAY<INT>, b ARRAY<INT>)")
        db.table("nested").put_many([{"id": 1, "a": [1, None]}, {"id": 2, "a": [], "b": [7]}])
        db.sql("UPDATE nested SET b = a, a = NULL WHERE id = 1")
        assert [db.table("nested").get(i) for i in (1, 2)] == [
            {"id": 1, "a": None, "b": [1, None]}, {"id": 2, "a": [], "b": [7]}
        ]  # fmt: skip

    def test_intervals_are_stored_where_no_field_is_lost(self, db: Database) -> None:
        db.sql("CREATE TABLE spans (id INT PRIMARY KEY, d INTERVAL DAY DEFAULT INTERVAL '2' DAY, "
               "s INTERVAL DAY TO SECOND, a DATE)")  # fmt: skip
        db.sql("INSERT INTO spans VALUES (1, INTERVAL '1' DAY, INTERVAL '1' HOUR, DATE '2020-01-31')")
        db.sql("INSERT INTO spans (id, a) VALUES (2, DATE '2020-03-01')")
        db.sql("UPDATE spans SET s = a - DATE '2020-02-01' WHERE d > :least", least=datetime.timedelta(days=1))
        refused(db, "UPDATE spans SET d = s", "SECOND is not stored as INTERVAL DAY", DeclarationError)
        assert [db.table("spans").get(i) for i in (1, 2)] == [
            {"id": 1, "d": datetime.timedelta(1), "s": datetime.timedelta(hours=1), "a": datetime.date(2020, 1, 31)},
            {"id": 2, "d": datetime.timedelta(2), "s": datetime.timedelta(29), "a": datetime.date(2020, 3, 1)},
        ]

    def test_nested_values_are_made_of_others(self, db: Database) -> None:
        """Of the types that the columns have: what does not fit raises, and changes nothing."""
        db.sql("CREATE TABLE made (id INT PRIMARY KEY, a ARRAY<BIGINT>, s STRUCT<x: DOUBLE, y: STRING>, "
               "m MAP<STRING, TINYINT>)")  # fmt: skip
        db.sql("INSERT INTO made VALUES (1, array(1, NULL), named_struct('x', 1, 'y', 'a'), map('k', 2)), "
               "(2, array(), named_struct('X', 2.5, 'y', NULL), map())")  # fmt: skip
        assert db.sql("UPDATE made SET a = array(a[0], id), m = map(s.y, 7), s = struct(size(a) AS x, 'b') "
                      "WHERE s.y = 'a'").affected == 1  # fmt: skip
        refused(db, "UPDATE made SET m = map('k', 300) WHERE id = 2", "CAST_OVERFLOW", ViewBroken)
        refused(db, "UPDATE made SET m = map('k', 'x')", "is not stored as", DeclarationError)
        refused(db, "UPDATE made SET a = array(a[9])", "INVALID_ARRAY_INDEX", ViewBroken)
        assert [db.table("made").get(i) for i in (1, 2)] == [
            {"id": 1, "a": [1, 1], "s": {"x": 2.0, "y": "b"}, "m": [("a", 7)]},
            {"id": 2, "a": [], "s": {"x": 2.5, "y": None}, "m": []},
        ]  # fmt: skip
        copied = "INSERT INTO made SELECT id + 10, a, s, m FROM made WHERE array_contains(a, 1) AND m['a'] = 7"
        assert db.sql(copied).affected == 1

    def test_a_row_for_which_an_expression_raises_changes_nothing(self, db: Database) -> None:
        refused(db, "UPDATE t SET n = 1 / (id - 3)", "DIVIDE_BY_ZERO", ViewBroken)
        refused(db, "UPDATE t SET id = 9223372036854775808 WHERE id = 1", "CAST_OVERFLOW", ViewBroken)
        refused(db, "UPDATE t SET note = CASE WHEN id < 3 THEN 'x' END", "t (id = 3): the column note would be NULL")

    def test_keys_as_constants_are_found_and_others_are_not(self, db: Database) -> None:
        cases: dict[str, set[int]] = {
            "id = 2": {2}, "3 = id AND n > 5": {3}, "id IN (1, 3, 9)": {1, 3}, "id = NULL": set(), "id = 2.5": set(),
            "id = 9": set(), "id = 1 OR id = 2": {1, 2}, "id = n / 10": {1, 3}, "id = 2 AND id = 3": set(),
        }  # fmt: skip
        for where, ids in cases.items():
            db.sql(f"UPDATE t SET note = 'found' WHERE {where}")
            assert {id_ for id_, _, note in rows(db) if note == "found"} == ids, where
            db.sql("UPDATE t SET note = '-'")


class TestDelete:
    def test_rows_go_that_a_condition_names_or_all(self, db: Database) -> None:
        assert db.sql("DELETE FROM t WHERE n IS NULL").affected == 1
        assert db.sql("DELETE FROM t AS a WHERE EXISTS (SELECT 1 FROM t WHERE t.id > a.id)").affected == 1
        assert rows(db) == [(3, 30, "c")]
        db.sql("INSERT INTO bag VALUES (1, 1), (1, 1), (2, NULL); DELETE FROM bag WHERE y = 1")
        assert rows(db, "bag") == [(2, None)]
        assert (db.sql("DELETE FROM t").affected, rows(db)) == (1, [])


class TestMerge:
    def test_clauses_are_tried_in_order(self, db: Database) -> None:
        db.sql("INSERT INTO bag VALUES (1, 5), (3, NULL), (4, 7), (5, 9)")
        result = db.sql("""
            MERGE INTO t USING bag AS s ON t.id = s.x
            WHEN MATCHED AND s.y IS NULL THEN DELETE
            WHEN MATCHED THEN UPDATE SET n = t.n + s.y
            WHEN NOT MATCHED AND s.x = 5 THEN INSERT (note, id) VALUES ('five', s.x)
            WHEN NOT MATCHED BY TARGET THEN INSERT (id, n, note) VALUES (x, y, 'new')
            WHEN NOT MATCHED BY SOURCE THEN UPDATE SET note = 'alone'""")
        assert rows(db) == [(1, 15, "a"), (2, None, "alone"), (4, 7, "new"), (5, None, "five")]
        assert list(result) == [
            {"num_affected_rows": 5, "num_updated_rows": 2, "num_deleted_rows": 1, "num_inserted_rows": 2}
        ]

    def test_rows_that_no_clause_takes_stay(self, db: Database) -> None:
        before = rows(db)
        changed = db.sql("""MERGE INTO t USING (SELECT 1 AS i) AS s ON t.id = s.i WHEN MATCHED AND n > 99 THEN DELETE
                            WHEN NOT MATCHED BY SOURCE AND n > 99 THEN DELETE""")
        assert (changed.affected, rows(db)) == (0, before)

    def test_conditions_may_hold_queries_of_the_row(self, db: Database) -> None:
        """Whatever relations they become, all rows that they may need are read."""
        there = "EXISTS (SELECT 1 FROM bag AS o WHERE o.x = t.id)"
        db.sql(f"""INSERT INTO bag (x) VALUES (1), (2);
                   MERGE INTO t USING (SELECT 3 AS i) AS s ON t.id = s.i WHEN MATCHED AND {there} THEN DELETE
                   WHEN NOT MATCHED BY SOURCE AND {there} THEN UPDATE SET note = 'before'""")
        assert rows(db) == [(1, 10, "before"), (2, None, "before"), (3, 30, "c")]
        db.sql("""MERGE INTO t USING (SELECT 3 AS i) AS s ON t.id = s.i
                  WHEN NOT MATCHED BY SOURCE AND id = (SELECT min(id) FROM t AS o WHERE o.note = t.note) THEN DELETE""")
        assert rows(db) == [(2, None, "before"), (3, 30, "c")]

    def test_star_takes_the_sources_columns_by_name(self, db: Database) -> None:
        db.sql("""MERGE INTO t USING (SELECT 'z' AS note, 5 AS more, id + 2 AS id, n FROM t) AS u ON t.id = u.id
                  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""")
        assert rows(db) == [(1, 10, "a"), (2, None, "b"), (3, 10, "z"), (4, None, "z"), (5, 30, "z")]

    def test_a_row_that_several_of_the_source_match_is_refused_but_for_a_plain_delete(self, db: Database) -> None:
        merge = "MERGE INTO t USING (VALUES (2, 5), (2, 6)) AS s (i, v) ON t.id = s.i WHEN MATCHED "
        for action in ("THEN UPDATE SET n = v", "AND v > 5 THEN DELETE", "AND v > 9 THEN UPDATE SET n = v"):
            refused(db, merge + action, "the row id = 2 is matched by several rows of the source")
        assert db.sql(merge + "THEN DELETE").affected == 1
        db.sql("INSERT INTO bag VALUES (1, 1)")
        refused(db, "MERGE INTO bag USING t ON bag.x <= t.id WHEN MATCHED THEN UPDATE SET y = 0", "a row is matched by")

    def test_a_source_without_any_match_inserts(self, db: Database) -> None:
        """Rows with a NULL key match nothing, as in a join."""
        sql = """MERGE INTO bag USING (VALUES (CAST(NULL AS INT)), (1)) AS s (x) ON bag.x = s.x
                 WHEN NOT MATCHED THEN INSERT (x) VALUES (s.x)"""
        assert [db.sql(sql).affected for _ in range(2)] == [2, 1]
        assert rows(db, "bag") == [(None, None), (None, None), (1, None)]

    def test_inserted_rows_have_keys_of_their_own(self, db: Database) -> None:
        refused(
            db,
            """MERGE INTO t USING (VALUES (1)) AS s (i) ON t.id = s.i + 5
                       WHEN NOT MATCHED THEN INSERT (id, note) VALUES (s.i, 'x')""",
            "a row with the key id = 1 already",
        )
        db.sql("""MERGE INTO t USING (VALUES (1)) AS s (i) ON t.id = s.i WHEN MATCHED THEN UPDATE SET id = 9
                  WHEN NOT MATCHED THEN INSERT (id, note) VALUES (s.i, 'x')""")
        assert [id_ for id_, _, _ in rows(db)] == [2, 3, 9]


class TestRefused:
    """What is refused as it is written, with its place."""

    @pytest.mark.parametrize(
        ("sql", "message", "place"),
        [
            ("INSERT INTO nowhere VALUES (1)", "there is no table nowhere", (1, 13)),
            ("INSERT INTO total VALUES (1)", "total is a view, whose rows are not changed", (1, 13)),
            ("INSERT INTO t VALUES (1)", "t is to get 3 columns, and there are 1 values", (1, 1)),
            ("INSERT INTO t (id, id) VALUES (1, 2)", "the column id stands twice", (1, 20)),
            ("INSERT INTO t (id, m) VALUES (1, 2)", "t has no column m", (1, 20)),
            ("INSERT INTO t BY NAME SELECT 1 AS m", "t has no column m", (1, 1)),
            ("INSERT INTO t", "expected VALUES or a query", (1, 14)),
            ("INSERT INTO t VALUES ('7', 1, 'x')", "the column id of t: STRING is not stored as BIGINT", (1, 15)),
            ("INSERT INTO t SELECT rand(), 1, 'x'", "rand", (1, 22)),
            ("UPDATE t SET m = 1", "t has no column m", (1, 14)),
            ("UPDATE t SET n = 1, n = 2", "the column n stands twice", (1, 21)),
            ("UPDATE t SET n = sum(n)", "an aggregate cannot stand in SET", None),
            ("UPDATE t SET n = rank() OVER (ORDER BY id)", "a window function cannot stand in SET", (1, 18)),
            ("MERGE INTO t USING bag ON id = x WHEN MATCHED AND rank() OVER (ORDER BY id) = 1 THEN DELETE",
             "a window function cannot stand in MERGE", (1, 51)),
            ("UPDATE t SET n = true", "BOOLEAN is not stored as INT", None),
            ("UPDATE t SET n = 1 more", "an alias can stand behind a whole output only", (1, 18)),
            ("UPDATE t SET n = *", "* can stand in a SELECT list", (1, 18)),
            ("UPDATE t SET n = 1 FROM bag", "Expecting ) near FROM", (1, 20)),
            ("UPDATE t SET n = 1 WHERE n", "WHERE needs a condition, not a value of type INT", (1, 26)),
            ("UPDATE t SET n = x.n", "there is no x in FROM", (1, 18)),
            ("DELETE t", "expected FROM", (1, 8)),
            ("DELETE FROM t WHERE id = 1)", "expected the end of the statement", (1, 27)),
            ("DELETE FROM t WHERE id = 1 LIMIT 2", "this is not SQL", (1, 28)),
            ("MERGE INTO t USING bag ON id = x", "expected WHEN MATCHED", (1, 33)),
            ("MERGE INTO t USING bag ON id = x WHEN MATCHED THEN INSERT (id) VALUES (1)", "expected UPDATE or DELETE",
             (1, 52)),
            ("MERGE INTO t USING bag ON id = x WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE",
             "only the last WHEN MATCHED can be without AND", (1, 59)),
            ("MERGE INTO t USING bag ON id = x WHEN NOT MATCHED THEN INSERT (id, n) VALUES (1)",
             "2 values are named, and there are 1", (1, 78)),
            ("MERGE INTO t USING bag ON id = x WHEN NOT MATCHED THEN INSERT *", "the source has no column id", (1, 34)),
            ("MERGE INTO t USING bag ON id = x WHEN NOT MATCHED THEN INSERT (id) VALUES (t.n)", "there is no t in FROM",
             (1, 76)),
            ("MERGE INTO t USING (SELECT 1) ON true WHEN MATCHED THEN UPDATE SET *", "name the source", (1, 68)),
            ("MERGE INTO t USING bag ON id = x WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "no row of the source",
             (1, 77)),
            ("MERGE INTO t USING bag ON id = x WHEN MATCHED AND n THEN DELETE", "WHEN needs a condition", (1, 51)),
        ],
    )  # fmt: skip
    def test_it_is_refused_with_its_place(
        self, db: Database, sql: str, message: str, place: tuple[int, int] | None
    ) -> None:
        with pytest.raises(DeclarationError) as error:
            db.sql(sql)
        assert message in str(error.value)
        assert place is None or (error.value.line, error.value.column) == place

    def test_a_view_that_only_spark_answers_is_not_read_without_it(self, db: Database) -> None:
        (statement,) = parse_script("INSERT INTO bag SELECT n, n FROM total")
        assert isinstance(statement, Insert)
        asked = db.catalog.changing([replace(db.catalog.views[0], asked="SELECT ...")])
        with pytest.raises(NotSupported, match="total is a view whose query only Spark answers"):
            run_change(asked, db._store, statement)

    def test_a_snapshot_only_reads(self, db: Database) -> None:
        with db.snapshot() as snapshot, pytest.raises(InputError, match="a snapshot only reads"):
            snapshot.sql("DELETE FROM t")


class TestScripts:
    def test_statements_of_all_kinds_follow_one_another(self, db: Database) -> None:
        """Each that changes rows is a step of its own: what went before one that fails stays."""
        with pytest.raises(InputError, match="id = 1 already"):
            db.sql("""CREATE TABLE u (id BIGINT PRIMARY KEY); INSERT INTO u VALUES (1);
                      CREATE VIEW v AS SELECT id FROM u;
                      DELETE FROM t WHERE id = 2; INSERT INTO u VALUES (1); DELETE FROM t""")
        assert (rows(db, "u"), [id_ for id_, _, _ in rows(db)]) == ([(1,)], [1, 3])
        assert db.catalog.find("v") is not None

    def test_parameters_are_values_of_their_own_types(self, db: Database) -> None:
        db.sql("CREATE TABLE p (s STRING PRIMARY KEY, d DECIMAL(9,2), at TIMESTAMP, day DATE, b BINARY, ok BOOLEAN)")
        text, at = "it's; -- :x", datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC)
        db.sql("INSERT INTO p VALUES (:s, :d, :at, :day, :b, :ok)", s=text, d=Decimal("1.5"), at=at, day=at.date(),
               b=b"\0", ok=True)  # fmt: skip
        assert rows(db, "p") == [(text, Decimal("1.50"), at, at.date(), b"\0", True)]
        assert db.sql("UPDATE p SET d = d + :more, ok = :ok WHERE s = :s", s=text, more=1, ok=None).affected == 1
        assert list(db.sql("SELECT :a + 1 AS a, :b AS b", a=2**40, b=0.5)) == [{"a": 2**40 + 1, "b": 0.5}]
        assert db.sql("DELETE FROM p WHERE s IN (:text, :b)", text=text, b="none").affected == 1
        numbers = db.sql("SELECT :i AS i, :d AS d, :ok AS ok", i=np.int64(9), d=np.float32(0.5), ok=np.bool_(True))
        assert list(numbers) == [{"i": 9, "d": 0.5, "ok": True}]

    def test_parameters_are_refused_where_they_have_no_value(self, db: Database) -> None:
        for sql, given, message in (
            ("DELETE FROM t WHERE id = :a", {}, "no value for the parameter :a"),
            ("SELECT id AS :a FROM t", {"a": "x"}, "a parameter is a value, and no name"),
            ("SELECT :a", {}, "no value for the parameter :a"),
            ("SELECT upper(n) FROM t WHERE note RLIKE :a", {}, "no value for the parameter :a"),
            ("CREATE VIEW v AS SELECT id FROM t WHERE n = :a", {}, "no value for the parameter :a"),
            ("SELECT :a", {"a": [1]}, "is no constant of SQL"),
            ("DELETE FROM t WHERE id = :id", {"id": 7, "idd": 8}, "given a value, and :idd does not stand in the text"),
        ):
            with pytest.raises(DeclarationError, match=message):
                db.sql(sql, **given)
        with pytest.raises(InputError, match="with unsafe=True there are no parameters"):
            db.sql("SELECT :a", engine="spark", unsafe=True, a=1)
        with pytest.raises(DeclarationError, match="given a value, and :b does not stand in the text"):
            db.sql("SELECT :a", engine="spark", a=1, b=2)
