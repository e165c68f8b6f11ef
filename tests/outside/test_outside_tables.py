"""Tables in outside stores, whatever the store: adopted while they are written, held up while it is away."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewkeeper
from file_store import PARTS, FileStore, FileTable
from local_maintenance import catch_up, with_servers
from pipeline_database import term_of
from viewkeeper.checker.check import check_views
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, Error, InputError, LogLost, NotReady, NotSupported, StoreAway
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.pipeline import adopting
from viewkeeper.pipeline.driver import Maintainer
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.maintain import Maintenance
from viewkeeper.pipeline.rebase import rebase
from viewkeeper.stores.logs import Logs
from viewkeeper.stores.outside import outside_kinds as kinds
from viewkeeper.stores.outside.said import said_of

VIEWS = """
CREATE VIEW groups AS SELECT g, count(*) AS n, sum(a) AS total, min(note) AS least FROM t GROUP BY g;
CREATE VIEW both AS SELECT t.id, here.name FROM t JOIN here ON t.g = here.id;
CREATE VIEW over AS SELECT name, count(*) AS n FROM both GROUP BY name;
CREATE INDEX by_a ON t (a)
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileStore:
    monkeypatch.setattr(kinds, "KINDS", {**kinds.KINDS, "file": ("file_store", "FileTable")})
    monkeypatch.setattr(FileTable, "between", None)
    return FileStore(tmp_path / "store")


@pytest.fixture
def db(tmp_path: Path, store: FileStore) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql("CREATE TABLE here (id INT, name STRING, PRIMARY KEY (id))")
        database.table("here").put_many([{"id": 1, "name": "one"}, {"id": 2, "name": "two"}])
        yield database


def declared(store: FileStore, more: str = VIEWS) -> str:
    columns = "(id INT, g INT, a BIGINT, note STRING, PRIMARY KEY (id))"
    return f"CREATE TABLE t {columns} USING file OPTIONS (folder '{store.folder}'); {more}"


def change(store: FileStore, chance: random.Random, operations: int, keys: int = 12) -> None:
    for _ in range(operations):
        id_, kind = chance.randrange(keys), chance.random()
        if kind < 0.25:
            store.delete(id_)
        elif kind < 0.35:
            store.delete_columns(id_, chance.choice(["a", "note"]))
        elif kind < 0.6:
            store.put({"id": id_, "a": chance.choice([None, 1, 2, 3])})
        else:
            note = chance.choice(["x", "y", None])
            store.put({"id": id_, "g": chance.choice([None, 1, 2]), "a": chance.randrange(9), "note": note})


def require_right(db: Database, store: FileStore) -> None:
    rows = [{"g": None, "a": None, "note": None, **row} for row in store.rows.values()]
    names = {1: "one", 2: "two"}
    both = Counter((row["id"], names[row["g"]]) for row in rows if row["g"] in names)
    assert Counter(tuple(row.values()) for row in db.view("both").rows()) == both
    by_name = Counter(name for _, name in both.elements())
    assert {tuple(row.values()) for row in db.view("over").rows()} == set(by_name.items())
    assert {(row["g"], row["n"]) for row in db.view("groups").rows()} == set(Counter(r["g"] for r in rows).items())
    assert Counter(row["id"] for row in db.table("t").get(2, index="by_a")) == Counter(
        row["id"] for row in rows if row["a"] == 2
    )
    with db._newest.held() as version:
        reports = check_views(DatabaseEvidence(version, db._logs), ["groups", "over"], None)
    assert [report.problem for report in reports if report.problem] == []


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_views_hold_what_the_store_does_after_each_batch(
    db: Database, store: FileStore, seed: int, servers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adopted while it is written, on both sides of the scan and within it, and followed then."""
    with_servers(monkeypatch, servers)
    monkeypatch.setattr(adopting, "ROWS_AT_ONCE", 4)
    chance = random.Random(seed)
    change(store, chance, 60, keys=30)
    monkeypatch.setattr(FileTable, "between", lambda: change(store, chance, 7, keys=30))
    db.sql(declared(store))
    catch_up(db)
    FileTable.between = None
    catch_up(db)
    require_right(db, store)
    for _ in range(5):
        change(store, chance, 25)
        db.table("here").put({"id": 2, "name": "two"})
        catch_up(db)
        require_right(db, store)


def test_batches_of_other_tables_leave_the_place_from_which_an_adopted_one_will_be_read(
    db: Database, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies before it in the log need not be there any more."""
    monkeypatch.setattr(adopting, "ROWS_AT_ONCE", 2)
    change(store, random.Random(1), 60, keys=30)
    lengths = [len((store.folder / part).read_text().splitlines()) for part in PARTS]
    (store.folder / "cut").write_text(str(min(lengths)))
    monkeypatch.setattr(FileTable, "between", lambda: db.table("here").put({"id": 2, "name": "two"}))
    db.sql(declared(store))
    catch_up(db)
    require_right(db, store)


def test_nothing_of_a_table_is_read_before_it_is_adopted(db: Database, store: FileStore) -> None:
    store.put({"id": 1, "g": 1})
    db.sql(declared(store))
    for read in (lambda: db.sql("SELECT * FROM t"), lambda: db.view("groups").rows(), lambda: db.view("over").rows()):
        with pytest.raises(NotReady):
            list(read())
    assert {each["name"]: each["state"] for each in db.status()["tables"]} == {
        "here": "read", "t": "waits to be adopted",
    }  # fmt: skip
    db.sql("CREATE VIEW mine AS SELECT name FROM here")
    catch_up(db)
    assert len(list(db.sql("SELECT * FROM t"))) == 1


@pytest.mark.parametrize("steps", range(1, 9))
def test_a_driver_that_dies_while_it_adopts_leaves_the_next_one_the_rest(
    db: Database, store: FileStore, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were deleted after a first driver had read them are not left over."""
    monkeypatch.setattr(adopting, "ROWS_AT_ONCE", 3)
    chance = random.Random(steps)
    change(store, chance, 60, keys=30)
    db.sql(declared(store))
    maintainer = Maintainer(term_of(db.root, 5.0), db._logs, LocalExecutor())
    done = 0
    while done < steps and db._logs.outside is not None and adopting.unadopted(maintainer.term.snapshot.catalog):
        done += maintainer.adopting.step(maintainer.term)
        maintainer.wait()
    maintainer.term.close()  # as if it had been killed: nothing is finished
    for id_ in list(store.rows)[::2]:
        store.delete(id_)
    change(store, chance, 20, keys=30)
    catch_up(db)
    require_right(db, store)


def test_a_store_that_is_away_holds_up_its_own_table_alone(db: Database, store: FileStore) -> None:
    db.sql(declared(store))
    catch_up(db)
    store.put({"id": 1, "g": 1, "a": 5})
    (store.folder / "away").touch()
    db.table("here").put({"id": 3, "name": "three"})
    maintainer = Maintainer(term_of(db.root, 5.0), db._logs, LocalExecutor())
    db.sql("SELECT name FROM here")
    while not maintainer.step() or maintainer.last_error is None:
        maintainer.wait()
    assert "the folder does not answer" in str(maintainer.last_error)
    assert len(list(db.sql("SELECT name FROM here"))) == 3
    with pytest.raises(StoreAway, match="the folder does not answer"):
        catch_up(db)
    assert next(t for t in db.status()["tables"] if t["name"] == "t")["state"] == "read: t: the folder does not answer"
    (store.folder / "away").unlink()
    maintainer.close()
    catch_up(db)
    require_right(db, store)


def test_a_log_that_was_cut_off_stops_its_table_and_says_so(db: Database, store: FileStore) -> None:
    db.sql(declared(store))
    catch_up(db)
    change(store, random.Random(1), 20)
    (store.folder / "cut").write_text("5")
    db.table("here").put({"id": 3, "name": "three"})
    with pytest.raises(LogLost, match="its log was cut off"):
        catch_up(db)
    assert len(list(db.sql("SELECT name FROM here"))) == 3


def test_a_table_that_cannot_be_adopted_is_not_waited_for(db: Database, store: FileStore) -> None:
    db.sql(declared(store))
    (store.folder / "refused").touch()
    db.table("here").put({"id": 3, "name": "three"})
    with pytest.raises(Error, match="^t cannot be adopted: nobody may read it$"):
        catch_up(db)


@pytest.mark.parametrize("told", ["away", "sick"])
def test_a_store_that_cannot_be_asked_keeps_catch_up_from_nothing_else(
    db: Database, store: FileStore, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql(declared(store))
    catch_up(db)
    if told == "away":
        (store.folder / "away").touch()
    else:
        monkeypatch.setattr(FileTable, "ends", lambda self: self._require_fit())
        monkeypatch.setattr(FileTable, "_require_fit", refuse, raising=False)
    db.table("here").put({"id": 3, "name": "three"})
    db.sql("CREATE VIEW names AS SELECT name FROM here")
    why = "^t: the folder does not answer$" if told == "away" else "^t: its column a is of another type$"
    with pytest.raises(Error, match=why) as raised:
        catch_up(db)
    assert isinstance(raised.value, StoreAway) is (told == "away")
    assert {row["name"] for row in db.view("names").rows()} == {"one", "two", "three"}


def refuse(table: FileTable) -> None:
    raise Error(said_of(table.table.id, table.table.name, "its column a is of another type"))


@pytest.mark.parametrize(("told", "what", "why"), [
    ("cut", LogLost, "^t: its log was cut off$"), ("refused", Error, "^t cannot be adopted: nobody may read it$"),
])  # fmt: skip
def test_who_waits_for_a_running_pipeline_hears_what_it_cannot_do(
    db: Database, store: FileStore, told: str, what: type[Error], why: str
) -> None:
    """In another process, which has not read there itself."""
    db.sql(declared(store))
    if told == "cut":
        catch_up(db)
    (store.folder / told).write_text("5")
    change(store, random.Random(1), 20)
    with Maintenance(db._storage, Logs.of(db._store), LocalExecutor), pytest.raises(what, match=why):
        db.catch_up(timeout=60.0)


def test_another_store_in_the_place_of_the_one_that_was_read_is_not_read_on(db: Database, store: FileStore) -> None:
    db.sql(declared(store))
    change(store, random.Random(1), 20)
    catch_up(db)
    assert {each["state"] for each in db.status()["logs"]} == {"ok"}
    (store.folder / "identity").write_text("second")
    assert all("not the one that was read before" in each["state"] for each in db.status()["logs"])
    deadline = time.monotonic() + 60
    while not all("not the one that was read before" in each["state"] for each in db.lag()["logs"]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    change(store, random.Random(2), 20)
    with pytest.raises(LogLost, match="not the one that was read before"):
        catch_up(db)
    with db._newest.held() as version:
        (report,) = check_views(DatabaseEvidence(version, db._logs), ["groups"], None)
    assert report.verdict == "not judged" and "not the one that was read before" in report.unjudged[0]


def test_what_is_no_operation_is_rejected_and_its_neighbours_are_kept(db: Database, store: FileStore) -> None:
    db.sql(declared(store))
    catch_up(db)
    store.put({"id": 2, "g": 1})
    store.junk()
    store.put({"id": 4, "g": 1})
    catch_up(db)
    assert [(row["reason"], row["operation"]) for row in db.rejected("t")] == [("it is junk", b"junk")]
    assert len(list(db.sql("SELECT * FROM t"))) == 2


def test_tokens_of_writes_into_outside_stores_travel_and_cover(db: Database, store: FileStore) -> None:
    db.sql(declared(store))
    token = db.table("t").put({"id": 1, "g": 1}) | db.table("here").put({"id": 9, "name": "nine"})
    assert viewkeeper.Token.parse(str(token)) == token
    catch_up(db)
    assert db.view("groups").get(1, after=str(token))["n"] == 1
    token = db.table("t").delete(1)
    catch_up(db)
    assert db.view("groups").get(1, after=token) is None


def test_statements_that_need_atomic_steps_are_refused_by_name(db: Database, store: FileStore) -> None:
    db.sql(declared(store))
    catch_up(db)
    for statement in ("DELETE FROM t", "INSERT INTO t VALUES (1, 1, 1, 'x')", "UPDATE t SET a = 1"):
        with pytest.raises(NotSupported, match="t is in an outside store, which has no atomic steps"):
            db.sql(statement)
    with pytest.raises(NotSupported, match="t is in an outside store: its rows cannot be read in one step"):
        db.sql("INSERT INTO here SELECT id, note FROM t")


def test_secrets_come_from_the_environment_or_a_file(
    db: Database, store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeclarationError, match="a secret is not kept in the catalog"):
        db.sql(declared(store, "").replace("OPTIONS (", "OPTIONS (password 'hush', "))
    named = declared(store, "").replace("OPTIONS (", "OPTIONS (password_env 'STORE_PASSWORD', ")
    with pytest.raises(DeclarationError, match="no such environment variable"):
        db.sql(named)
    monkeypatch.setenv("STORE_PASSWORD", "hush")
    db.sql(named)
    catch_up(db)
    assert not any(b"hush" in file.read_bytes() for file in db.root.rglob("*") if file.is_file())
    assert "STORE_PASSWORD" in db.sql("DESCRIBE t").note


def test_a_dropped_table_leaves_no_positions_and_a_new_one_begins_anew(db: Database, store: FileStore) -> None:
    change(store, random.Random(1), 20)
    db.sql(declared(store))
    catch_up(db)
    db.sql("DROP TABLE t CASCADE")
    db.table("here").put({"id": 5, "name": "five"})
    catch_up(db)
    assert set(map(type, db._newest.version().snapshot.positions)) == {int}
    db.sql(declared(store))
    catch_up(db)
    require_right(db, store)


def test_a_rebase_leaves_tables_in_outside_stores_as_they_are(db: Database, store: FileStore) -> None:
    change(store, random.Random(1), 20)
    db.sql(declared(store))
    catch_up(db)
    assert not rebase(db._storage, db._store, LocalExecutor).done
    require_right(db, store)


def test_columns_may_be_dropped_and_none_comes(db: Database, store: FileStore) -> None:
    db.sql(declared(store, "CREATE VIEW more AS SELECT g, count(*) AS n FROM t GROUP BY g"))
    change(store, random.Random(1), 20)
    catch_up(db)
    with pytest.raises(NotSupported, match="t, which is in file, gets no columns: all its rows would have to be read"):
        db.sql("ALTER TABLE t ADD COLUMN extra INT")
    db.sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT; ALTER TABLE t DROP COLUMN note")
    store.put({"id": 1, "g": 1, "a": 7})
    with pytest.raises(InputError):
        db.table("t").put({"id": 3, "note": "x"})
    catch_up(db)
    rows = {row["id"]: row for row in db.sql("SELECT * FROM t")}
    assert (rows[1]["a"], list(rows[1])) == (7, ["id", "g", "a"])
    assert set(rows) == set(store.rows)


def test_logs_are_forgotten_behind_what_is_committed(db: Database, store: FileStore) -> None:
    db.sql(declared(store))
    change(store, random.Random(1), 20)
    catch_up(db)
    maintainer = Maintainer(term_of(db.root, 5.0), db._logs, LocalExecutor())
    maintainer.step()
    maintainer.close()
    assert (store.folder / "forgotten").exists()


def test_check_reports_on_the_others_where_one_store_is_away(db: Database, store: FileStore) -> None:
    db.sql(f"{declared(store)}; CREATE VIEW names AS SELECT name FROM here")
    store.put({"id": 1, "g": 1, "a": 5})
    catch_up(db)
    (store.folder / "away").touch()
    with db._newest.held() as version:
        reports = {each.view: each for each in
                   check_views(DatabaseEvidence(version, db._logs), ["names", "groups", "over"], None)}  # fmt: skip
    assert [reports[name].verdict for name in ("names", "groups", "both", "over")] == ["right", *["not judged"] * 3]
    assert reports["groups"].unjudged == ["t cannot be compared with its store: the folder does not answer"]
    assert reports["over"].unjudged == ["view both below it is not judged"]
