"""A statement that changes rows is one step, whatever others write meanwhile, and whatever stops it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import viewkeeper
from memory_store import MemoryStore
from store_model import BAG, ORDERS
from viewkeeper import Database, InputError
from viewkeeper.dml import run_change as running
from viewkeeper.maintenance.ad_hoc import run_query
from viewkeeper.stores.embedded import EmbeddedStore


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", nodes=3, durability="process") as database:
        database.sql("CREATE TABLE c (id BIGINT PRIMARY KEY, n INT); CREATE TABLE d (id BIGINT PRIMARY KEY, n INT)")
        database.sql("INSERT INTO c VALUES (1, 0), (2, 0), (3, 0), (4, 0)")
        yield database


def count(db: Database, id_: int) -> int:
    return db.table("c").get(id_)["n"]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """What another does, one after the other, whenever a statement has computed what it will write."""
    to_do: list[Callable[[], object]] = []

    def computed(*given: object) -> object:
        rows = run_query(*given)
        if to_do:
            another = threading.Thread(target=to_do.pop(0))
            another.start()
            another.join()
        return rows

    monkeypatch.setattr(running, "run_query", computed)
    yield to_do
    assert not to_do, "the statement was computed less often"


@pytest.mark.parametrize("where", ["WHERE id = 1", "WHERE id IN (1, 2)", ""])
def test_two_threads_that_count_lose_nothing(db: Database, where: str) -> None:
    times = 100 if where else 25

    def add() -> None:
        for _ in range(times):
            db.sql(f"UPDATE c SET n = n + 1 {where}")

    threads = [threading.Thread(target=add) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count(db, 1) == 2 * times


def test_what_is_read_by_key_is_compared_with_what_is_there_then(
    db: Database, meanwhile: list[Callable[[], object]]
) -> None:
    """Rows that were not read may change, of the same node and table too."""
    put = db.table("c").put
    meanwhile[:] = [lambda: [put({"id": id_, "n": 5}) for id_ in (2, 3, 4, 7)]]
    db.sql("UPDATE c SET n = n + 1 WHERE id = 1")
    assert count(db, 1) == 1
    meanwhile[:] = [lambda: put({"id": 1, "n": 10}), lambda: put({"id": 1, "n": 20})]
    db.sql("UPDATE c SET n = n + 1 WHERE id = 1")
    assert count(db, 1) == 21


def test_what_is_read_whole_is_computed_again_where_its_table_was_written(
    db: Database, meanwhile: list[Callable[[], object]]
) -> None:
    meanwhile[:] = [lambda: db.table("d").put({"id": 1, "n": 5})]
    db.sql("UPDATE c SET n = n + 1")
    meanwhile[:] = [lambda: db.table("c").put({"id": 9, "n": 9}), lambda: db.table("d").put({"id": 2, "n": 5})]
    assert db.sql("UPDATE c SET n = n + 1").affected == 5
    meanwhile[:] = [lambda: db.table("d").put({"id": 3, "n": 100}), lambda: None]
    db.sql("UPDATE c SET n = (SELECT sum(n) FROM d) WHERE id = 1")
    assert [count(db, id_) for id_ in (1, 2, 9)] == [110, 2, 10]


def test_a_statement_that_others_always_come_before_is_computed_while_nobody_writes(db: Database) -> None:
    """So it ends, however busy its table is."""
    table, store, computed = db.table("c")._table(), db._store, []

    def compute(moment: object) -> list[object]:
        computed.append(len(list(moment.rows(table))))  # type: ignore[attr-defined]
        if len(computed) < 4:
            another = threading.Thread(target=partial(db.table("c").put, {"id": len(computed), "n": 50}))
            another.start()
            another.join()
        return [store._access(table).intake.rows([{"id": 4, "n": sum(computed)}])]

    assert store.change(table, compute).positions  # type: ignore[arg-type]
    assert len(computed) == 4


def test_of_two_that_insert_one_key_one_is_refused(db: Database, meanwhile: list[Callable[[], object]]) -> None:
    meanwhile[:] = [lambda: db.sql("INSERT INTO c VALUES (9, 1)"), lambda: None, lambda: None]
    with pytest.raises(InputError, match="a row with the key id = 9 already"):
        db.sql("INSERT INTO c VALUES (9, 2)")
    meanwhile.clear()
    assert count(db, 9) == 1


def test_an_interrupt_changes_nothing_or_all(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is computed nothing is held: Ctrl-C ends it there, and the next one goes on."""
    monkeypatch.setattr(running, "run_query", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        db.sql("UPDATE c SET n = n + 1")
    monkeypatch.undo()
    assert count(db, 1) == 0 and db.sql("UPDATE c SET n = n + 1").affected == 4


def test_a_map_that_is_too_small_does_it_once(tmp_path: Path) -> None:
    """The step is begun again then, with a larger map."""
    with viewkeeper.connect(tmp_path / "db", nodes=2, durability="process") as db:
        db.sql("CREATE TABLE c (id BIGINT PRIMARY KEY, n INT, s STRING)")
        for node in db._store._nodes.nodes:
            node.environment.set_mapsize(1 << 20)
        db.table("c").put_many([{"id": i, "n": 0, "s": "x" * 100} for i in range(3000)])
        assert db.sql("UPDATE c SET n = n + 1, s = repeat(s, 20)").affected == 3000
        assert sum(node.environment.info()["map_size"] for node in db._store._nodes.nodes) > 4 << 20
        batches = list(db._store.rows(db.table("c")._table()))
        assert {n for batch in batches for n in batch.column(1).to_pylist()} == {1}


def test_a_store_without_atomic_steps_refuses_them() -> None:
    """Its rows are written one by one, with put."""
    store = MemoryStore()
    assert not store.traits.atomic_changes and EmbeddedStore.traits.atomic_changes
    for table in (ORDERS, BAG):
        with pytest.raises(InputError, match=f"{table.name}: this store has no atomic steps over what is read"):
            store.change(table, lambda moment: [])
