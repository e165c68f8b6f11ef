"""What a dropped table leaves in the store goes, whoever drives, and whoever still writes."""

from __future__ import annotations

from pathlib import Path

import viewkeeper
from local_maintenance import catch_up
from viewkeeper.database import Database
from viewkeeper.stores.embedded import EmbeddedStore

TABLE = "CREATE TABLE t (id BIGINT, note STRING, PRIMARY KEY (id))"
BAG = "CREATE TABLE bag (x BIGINT)"
ROWS = [{"id": i, "note": "x" * 50} for i in range(50_000)]


def statistics(db: Database) -> list[dict[str, int]]:
    """What the embedded store counts, of each node."""
    assert isinstance(db._store, EmbeddedStore)
    return list(db._store.statistics()["nodes"].values())


def stored(db: Database) -> int:
    """Rows of all tables in the store, dropped ones too."""
    return sum(node["rows"] for node in statistics(db))


def file_bytes(db: Database) -> int:
    return sum(node["file_bytes"] for node in statistics(db))


def test_drops_of_fifty_thousand_rows_leave_none_and_their_room_is_used_again(tmp_path: Path) -> None:
    sizes = []
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        for _ in range(6):
            db.sql(TABLE)
            db.table("t").put_many(ROWS)
            db.sql("DROP TABLE t")
            catch_up(db)
            db._store.log.forget(db._store.ends(), older_than_seconds=-1)
            assert stored(db) == 0
            sizes.append(file_bytes(db))
        assert sizes[5] < 1.3 * sizes[2], sizes


def test_a_drop_answered_without_a_driver_frees_the_rows_at_once(tmp_path: Path) -> None:
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(f"{TABLE}; {BAG}")
        db.table("t").put_many(ROWS[:1000])
        db.table("bag").put_many([{"x": i % 10} for i in range(1000)])
        db.sql("DROP TABLE t")
        assert stored(db) == 1000
        db.sql("DROP TABLE bag")
        assert stored(db) == 0 and db._store.stored_tables() == set()


def test_what_a_drop_did_not_get_done_is_done_after_a_restart(tmp_path: Path) -> None:
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(TABLE)
        dropped = db.table("t")._table()
        db.sql("DROP TABLE t")
        db._store.put_many(dropped, ROWS[:2000])  # As a killed driver would have left them.
    with viewkeeper.connect(tmp_path / "db") as db:
        db.sql(BAG)
        assert stored(db) == 0


def test_rows_that_a_writer_puts_who_does_not_know_of_the_drop_go_too(tmp_path: Path) -> None:
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(f"{TABLE}; {BAG}")
        dropped = db.table("t")._table()
        db.table("bag").put_many([{"x": 1}])
        db.sql("DROP TABLE t")
        db._store.put_many(dropped, ROWS[:100])
        catch_up(db)
        assert stored(db) == 1
        db.sql(TABLE)
        db.table("t").put({"id": 1})
        catch_up(db)
        assert stored(db) == 2 and db.table("t").get(1) is not None and db.table("t").get(2) is None


def test_a_held_version_keeps_the_rows_of_a_table_that_is_dropped_meanwhile(tmp_path: Path) -> None:
    """They may still be compared with it."""
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(TABLE)
        db.table("t").put_many(ROWS[:100])
        catch_up(db)
        with db.snapshot():
            db.sql("DROP TABLE t")
            assert stored(db) == 100
        db.sql(BAG)
        assert stored(db) == 0
