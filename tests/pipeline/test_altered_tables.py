"""ALTER TABLE ... ADD, DROP and RENAME COLUMN: rows of before are read as if they had the columns of now."""

from __future__ import annotations

import datetime
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database, DeclarationError, InputError
from viewkeeper.catalog.model import Table
from viewkeeper.checker.check import check_views
from viewkeeper.errors import LayoutChanged, NotReady, NotSupported
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.trace import points

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b STRING); CREATE TABLE u (id INT PRIMARY KEY, w INT)"


def connected(root: Path) -> Database:
    return viewkeeper.connect(root / "db", durability="process")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with connected(tmp_path) as made:
        made.sql(TABLE)
        made.table("t").put_many([{"id": i, "a": i % 2, "b": "x"} for i in range(4)])
        yield made


def rows(db: Any, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in db.sql(query)]


def by_id(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: int(row["id"]))


def require_right(db: Database) -> None:
    with db._newest.held() as version:
        names = [view.name for view in version.catalog.views]
        assert all(report.ok for report in check_views(DatabaseEvidence(version, db._logs), names, None))


class TestViews:
    def test_what_a_query_means_stays_whatever_columns_come(self, db: Database) -> None:
        """`*`, NATURAL JOIN and a name that only the query around has mean what they meant when it was written; the
        views are not built anew."""
        db.sql("""CREATE VIEW stars AS SELECT * FROM t WHERE a = 1;
                  CREATE VIEW natural_ AS SELECT * FROM t NATURAL JOIN u;
                  CREATE VIEW within AS SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND a = w);
                  CREATE VIEW over_stars AS SELECT count(*) AS n FROM stars""")
        db.table("u").put_many([{"id": i, "w": i % 2} for i in range(4)])
        catch_up(db)
        names = ("stars", "natural_", "within", "over_stars")
        before = {name: rows(db, f"SELECT * FROM {name} ORDER BY 1") for name in names}
        filled = [view.filled for view in db.catalog.views]
        db.sql("ALTER TABLE t ADD COLUMN w INT DEFAULT 5; ALTER TABLE u ADD COLUMN a INT DEFAULT 6")
        db.table("t").put({"id": 1, "w": 8})
        catch_up(db)
        assert {name: rows(db, f"SELECT * FROM {name} ORDER BY 1") for name in names} == before
        assert [view.filled for view in db.catalog.views] == filled
        require_right(db)

    def test_a_view_of_after_has_the_column_in_rows_of_before(self, db: Database) -> None:
        catch_up(db)
        db.table("t").put({"id": 8, "a": 0})
        db.sql(
            "ALTER TABLE t ADD COLUMN c DECIMAL(20,2) NOT NULL DEFAULT 1.5;"
            "CREATE VIEW v AS SELECT c, count(*) AS n FROM t GROUP BY c"
        )
        db.table("t").put({"id": 9, "c": 2})
        catch_up(db)
        assert [(str(c), n) for c, n in rows(db, "SELECT * FROM v ORDER BY c")] == [("1.50", 5), ("2.00", 1)]
        require_right(db)

    def test_an_index_is_made_anew_where_columns_come_and_stays_where_they_go(self, db: Database) -> None:
        db.sql("CREATE INDEX by_a ON t (a)")
        catch_up(db)
        db.sql("ALTER TABLE t DROP COLUMN b")
        assert by_id(db.table("t").get(1, index="by_a")) == [{"id": 1, "a": 1}, {"id": 3, "a": 1}]
        db.sql("ALTER TABLE t ADD COLUMN b INT DEFAULT 7")
        with pytest.raises(NotReady, match="by_a"):
            db.table("t").get(1, index="by_a")
        catch_up(db)
        found = db.table("t").get(1, index="by_a")
        assert by_id(found) == [{"id": 1, "a": 1, "b": 7}, {"id": 3, "a": 1, "b": 7}]

    def test_a_snapshot_of_before_stays_as_it_is(self, db: Database) -> None:
        db.sql("CREATE VIEW v AS SELECT * FROM t")
        catch_up(db)
        with db.snapshot() as before:
            db.sql("ALTER TABLE t ADD COLUMN c INT DEFAULT 1; DROP VIEW v; ALTER TABLE t DROP COLUMN b")
            db.table("t").put({"id": 0, "c": 9})
            catch_up(db)
            assert rows(before, "SELECT * FROM t WHERE id = 0") == [(0, 0, "x")]
            assert rows(before, "SELECT * FROM v WHERE id = 0") == [(0, 0, "x")]
            assert rows(db, "SELECT * FROM t WHERE id = 0") == [(0, 0, 9)]

    def test_a_table_may_get_other_columns_as_often_as_it_likes(self, db: Database) -> None:
        """Rows of each of fifty layouts, read at once; it costs what it costs to look at fifty declarations."""
        db.sql("CREATE VIEW v AS SELECT * FROM t")
        for i in range(25):
            db.table("t").put({"id": 100 + i, "a": i})
            db.sql(f"ALTER TABLE t ADD COLUMN c{i} INT DEFAULT {i}" + f"; ALTER TABLE t DROP COLUMN c{i - 1}" * bool(i))
        db.sql("CREATE VIEW w AS SELECT id, a, c24 FROM t")
        catch_up(db)
        found = [(100 + i, i, 24) for i in range(25)]
        assert rows(db, "SELECT * FROM w WHERE id >= 100 ORDER BY id") == found
        assert [tuple(db.table("t").get(100 + i).values()) for i in range(25)] == [
            (id_, a, None, c) for id_, a, c in found
        ]
        require_right(db)


class TestWriters:
    def test_a_put_by_the_form_of_before_is_taken_as_such_or_refused(self, db: Database, tmp_path: Path) -> None:
        """It is never read wrongly: nodes that have rows of the new form refuse it, and a handle goes on by itself."""
        with connected(tmp_path) as other:
            of_before = other.table("t")._table()
            db.sql("ALTER TABLE t ADD COLUMN c INT DEFAULT 7; ALTER TABLE t DROP COLUMN b")
            other._store.put(of_before, {"id": 1, "b": "old"})
            assert db.table("t").get(1) == {"id": 1, "a": 1, "c": 7}
            db.table("t").put_many([{"id": i, "c": 8} for i in range(10, 30)])
            with pytest.raises(LayoutChanged, match="later ALTER TABLE"):
                other._store.put(of_before, {"id": 1, "a": 5})
            with pytest.raises(LayoutChanged):
                list(other._store.rows(of_before))
            other.table("t").put({"id": 1, "a": 5})
            with pytest.raises(InputError, match="no column 'b'"):
                other.table("t").put({"id": 1, "b": "y"})
            catch_up(other)
            assert rows(other, "SELECT * FROM t WHERE id < 3 ORDER BY id") == [(0, 0, 7), (1, 5, 7), (2, 0, 7)]
            require_right(db)

    @pytest.mark.parametrize("write", ["put", "put_many", "get", "delete", "sql"])
    def test_whoever_meets_the_change_between_lookup_and_lock_goes_on_by_the_new_form(
        self, db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
    ) -> None:
        with connected(tmp_path) as other:
            handle, before = other.table("t"), [other.table("t")._table()]
            db.sql("ALTER TABLE t ADD COLUMN c INT DEFAULT 7")
            db.table("t").put_many([{"id": i, "c": 8} for i in range(10)])
            now = handle._table
            monkeypatch.setattr(handle, "_table", lambda: before.pop() if before else now())
            if write == "put":
                handle.put({"id": 1, "a": 5})
            elif write == "put_many":
                handle.put_many(row for row in [{"id": 1, "a": 5}])
            elif write == "get":
                assert handle.get(1) == {"id": 1, "a": 1, "b": "x", "c": 8}
            elif write == "delete":
                handle.delete(1, columns=["b"])
            else:
                old = before.pop()
                catalogs = [other.catalog.changing([old])]
                monkeypatch.setattr(type(other), "catalog", property(
                    lambda self: catalogs.pop() if catalogs else self._newest.version().catalog))  # fmt: skip
                assert other.sql("UPDATE t SET a = 5 WHERE id = 1").affected == 1
            expected = {"get": (1, "x"), "delete": (1, None)}.get(write, (5, "x"))
            assert db.table("t").get(1) == {"id": 1, "a": expected[0], "b": expected[1], "c": 8}

    def test_a_writer_in_another_process_goes_on_while_columns_come_and_go(self, db: Database, tmp_path: Path) -> None:
        """None of its rows is lost or read wrongly, whichever form it wrote each by, and it never hears of it."""
        child = os.fork()
        if child == 0:
            done = 1
            try:
                with connected(tmp_path) as mine:
                    handle = mine.table("t")
                    for i in range(120):
                        handle.put({"id": 1000 + i, "a": i})
                        handle.put_many([{"id": 2000 + i, "a": i, "b": str(i)}, {"id": i % 4, "a": i}])
                done = 0
            finally:
                os._exit(done)
        ended = (0, 0)
        for i in range(40):
            db.sql(f"ALTER TABLE t ADD COLUMN c{i} INT DEFAULT {i}")
            db.table("t").put({"id": 5000 + i, f"c{i}": -1})
            db.sql(f"ALTER TABLE t DROP COLUMN c{i}")
            ended = os.waitpid(child, os.WNOHANG)
            if ended[0]:
                break
        assert (ended[1] if ended[0] else os.waitpid(child, 0)[1]) == 0
        catch_up(db)
        stored = {row["id"]: (row["a"], row["b"]) for row in db.sql("SELECT id, a, b FROM t")}
        assert {id_: row for id_, row in stored.items() if 1000 <= id_ < 5000} == {
            **{1000 + i: (i, None) for i in range(120)}, **{2000 + i: (i, str(i)) for i in range(120)}
        }  # fmt: skip
        assert [stored[i] for i in range(4)] == [(116 + i, "x") for i in range(4)]
        require_right(db)

    def test_a_rejected_operation_of_before_can_be_put_again(self, db: Database) -> None:
        db.sql("CREATE TABLE n (id INT PRIMARY KEY, a INT NOT NULL, b INT)")
        table = db.table("n")._table()
        loose = Table(table.id, "n", tuple(type(c)(c.name, c.type, c.name != "id") for c in table.columns), (0,),
                      table.stored, table.details)  # fmt: skip
        db._store.put(loose, {"id": 1, "a": None, "b": 3})
        catch_up(db)
        db.sql("ALTER TABLE n ADD COLUMN c INT DEFAULT 4")
        assert db.put_rejected_again("n") == 0 and len(db.rejected("n")) == 1

    @pytest.mark.parametrize("point", ["before commit", "after commit"])
    def test_a_kill_leaves_the_table_as_it_was_or_as_it_becomes(self, db: Database, tmp_path: Path, point: str) -> None:
        db.sql("CREATE VIEW v AS SELECT * FROM t")
        catch_up(db)
        points.arm(tmp_path, point, 1)
        child = os.fork()
        if child == 0:
            try:
                points._FOLDER = tmp_path
                with connected(tmp_path) as mine:
                    mine.sql("ALTER TABLE t ADD COLUMN c INT DEFAULT 7")
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        done = len(db.catalog.tables[0].columns) == 4
        db.table("t").put({"id": 1, "a": 9})
        db.sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS c INT DEFAULT 7")
        catch_up(db)
        assert done or point == "before commit"
        assert rows(db, "SELECT * FROM t ORDER BY id")[:2] == [(0, 0, "x", 7), (1, 9, "x", 7)]
        assert rows(db, "SELECT * FROM v WHERE id = 1") == [(1, 9, "x")]
        require_right(db)


class TestRefused:
    @pytest.mark.parametrize("sql, message", [
        ("ALTER TABLE t DROP COLUMN id", "id is in the primary key of t"),
        ("ALTER TABLE t DROP COLUMN a", "a is used by v, by_a; drop these first"),
        ("ALTER TABLE t DROP COLUMN nope", "t has no column nope.*line 1, column 27"),
        ("ALTER TABLE t RENAME COLUMN a TO z", "a is used by v, whose queries name it"),
        ("ALTER TABLE t RENAME COLUMN id TO z", "id is in the primary key.* by which v name"),
        ("ALTER TABLE t RENAME COLUMN b TO A", "t has a column A already"),
        ("ALTER TABLE t ADD COLUMN B INT", "t has a column B already"),
        ("ALTER TABLE t ADD COLUMN c INT NOT NULL", "c is NOT NULL, and the rows of t have no value"),
        ("ALTER TABLE v ADD COLUMN c INT", "v is a view; columns are changed, and have comments, in tables only"),
        ("ALTER TABLE tt ADD COLUMN c INT", "there is no table tt"),
    ])  # fmt: skip
    def test_what_is_used_or_there_is_refused_naming_it(self, db: Database, sql: str, message: str) -> None:
        db.sql("CREATE VIEW v AS SELECT id FROM t WHERE a > 0; CREATE INDEX by_a ON t (a)")
        with pytest.raises(DeclarationError, match=message):
            db.sql(sql)

    def test_what_is_there_or_not_is_left_alone_where_that_is_said(self, db: Database) -> None:
        db.sql("ALTER TABLE t ADD COLUMNS IF NOT EXISTS (a INT, c INT); ALTER TABLE t DROP COLUMNS IF EXISTS (b, nope)")
        assert [column.name for column in db.catalog.tables[0].columns] == ["id", "a", "c"]
        db.sql("ALTER TABLE t RENAME COLUMN a TO aa; ALTER TABLE t DROP COLUMN c; ALTER TABLE t DROP COLUMN aa")
        with pytest.raises(DeclarationError, match="primary key"):
            db.sql("ALTER TABLE t DROP COLUMN id")

    def test_a_table_that_parts_are_joined_with_keeps_its_columns(self, db: Database) -> None:
        db.sql(
            "CREATE STREAM s (ts TIMESTAMP NOT NULL, id INT, x INT) TIMESTAMP BY ts PARTITION LENGTH 60;"
            "CREATE VIEW j AS SELECT u.w, sum(s.x) AS n FROM s JOIN u ON s.id = u.id [WINDOW 2 MINUTES] GROUP BY u.w"
        )
        altering = ("ADD COLUMN c INT", "DROP COLUMN w", "RENAME COLUMN w TO ww")
        for sql in altering:
            with pytest.raises(NotSupported, match="u is joined by j, whose parts"):
                db.sql(f"ALTER TABLE u {sql}")
        start = datetime.datetime(2024, 1, 1)
        db.stream("s").append([{"ts": start + datetime.timedelta(seconds=20 * i), "id": 1, "x": i} for i in range(20)])
        catch_up(db)
        db.sql("DROP VIEW j")
        for sql in altering:
            with pytest.raises(NotSupported, match="u was joined with streams, and copies of it as it was are kept"):
                db.sql(f"ALTER TABLE u {sql}")


def test_comments_are_shown_until_others_take_their_place(db: Database) -> None:
    db.sql("""CREATE TABLE c (id INT PRIMARY KEY COMMENT 'number', n INT COMMENT 'count' DEFAULT 4) COMMENT 'all of it';
              CREATE VIEW v AS SELECT * FROM c; COMMENT ON VIEW v IS 'seen'; COMMENT ON COLUMN c.n IS 'how many';
              ALTER TABLE c ADD COLUMN m INT COMMENT 'third'; ALTER TABLE c ALTER COLUMN id COMMENT 'its key'""")
    catch_up(db)
    db.sql("CREATE OR REPLACE VIEW v AS SELECT id FROM c")
    catch_up(db)
    assert [row["comment"] for row in db.sql("DESCRIBE c")] == ["its key", "how many", "third"]
    assert db.sql("DESCRIBE c").note.endswith("; all of it") and db.sql("DESCRIBE v").note.endswith("; seen")
    assert [row["comment"] for row in db.sql("SHOW TABLES") if row["table"] == "c"] == ["all of it"]
    db.sql("COMMENT ON TABLE c IS NULL")
    assert db.sql("DESCRIBE c").note == "primary key (id)"
    wrong = {"COLUMN c.zz": "c has no column zz", "TABLE q": "no table q", "COLUMN v.id": "v is a view"}
    for sql, message in wrong.items():
        with pytest.raises(DeclarationError, match=message):
            db.sql(f"COMMENT ON {sql} IS 'x'")
