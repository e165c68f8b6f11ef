"""Redis servers that are killed, stopped, emptied, or have lost what they had acknowledged; drivers that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

import viewkeeper
from cut_wire import Wire
from local_maintenance import catch_up
from pipeline_database import term_of
from redis_rows import RedisRows, put_of
from viewkeeper.checker.check import check_views
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, LogLost, StoreAway
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.pipeline.driver import Maintainer
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.maintain import Maintenance
from viewkeeper.servers import Redis
from viewkeeper.stores.outside.opened import OutsideTables
from viewkeeper.stores.outside.redis import table as redis_table

pytestmark = pytest.mark.faults

VIEWS = "CREATE VIEW notes AS SELECT note, count(*) AS n FROM orders GROUP BY note"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Redis]:
    with Redis(tmp_path / "redis") as running:
        yield running


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql(
            "CREATE TABLE customers (id INT, PRIMARY KEY (id)); CREATE VIEW n AS SELECT count(*) AS n FROM customers"
        )
        yield database


def require_right(db: Database, rows: RedisRows) -> None:
    counts: dict[str | None, int] = {}
    for row in rows.model.values():
        counts[row.get("note")] = counts.get(row.get("note"), 0) + 1
    assert {(row["note"], row["n"]) for row in db.view("notes").rows()} == set(counts.items())
    with db._newest.held() as version:
        (report,) = check_views(DatabaseEvidence(version, db._logs), ["notes"], None)
    assert report.problem == ""


def test_a_server_that_is_killed_while_it_is_written_loses_nothing_that_it_acknowledged(
    db: Database, server: Redis
) -> None:
    rows = RedisRows(server.url, "orders")
    db.sql(rows.declared(VIEWS))
    ended = threading.Event()

    def write() -> None:
        chance = random.Random(1)
        while not ended.is_set():
            row = {"id": chance.randrange(50), "note": chance.choice(["x", "y", None])}
            while True:  # until it is acknowledged
                try:
                    rows.put(row)
                    break
                except redis.RedisError:
                    time.sleep(0.005)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(4):
            time.sleep(0.3)
            server.kill()
            time.sleep(0.1)
            server.start()
            catch_up(db)
    finally:
        ended.set()
        writer.join()
    catch_up(db)
    require_right(db, rows)


def test_a_server_that_is_away_holds_up_its_own_table_alone(db: Database, server: Redis) -> None:
    rows = RedisRows(server.url, "orders")
    db.sql(rows.declared(VIEWS))
    catch_up(db)
    rows.change(random.Random(1), 100)
    server.kill()
    db.table("customers").put({"id": 1})
    maintainer = Maintainer(term_of(db.root, 5.0), db._logs, LocalExecutor())
    while not maintainer.step() or maintainer.last_error is None:
        maintainer.wait()
    maintainer.close()
    assert "Connection refused" in str(maintainer.last_error) and "orders: its log" in str(maintainer.last_error)
    assert [row["n"] for row in db.view("n").rows()] == [1]
    with pytest.raises(StoreAway, match="Connection refused"):
        catch_up(db)
    with pytest.raises(StoreAway, match="rows cannot be written"):
        db.table("orders").put({"id": 1})
    server.start()
    rows.change(random.Random(2), 100)
    catch_up(db)
    require_right(db, rows)


def test_a_network_that_is_cut_for_a_while_loses_nothing(db: Database, server: Redis) -> None:
    """Others have another way to the server, and write on."""
    chance, rows = random.Random(5), RedisRows(server.url, "orders")
    with Wire(server.port) as wire:
        db.sql(rows.declared(VIEWS).replace(server.url, f"redis://127.0.0.1:{wire.port}"))
        catch_up(db)
        with Maintenance(db._storage, db._logs, LocalExecutor):
            for _ in range(3):
                rows.change(chance, 50)
                time.sleep(0.1)
                wire.cut()
                rows.change(chance, 50)
                token = db.table("customers").put({"id": chance.randrange(100)})
                assert db.view("n").get(after=token) is not None
                deadline = time.monotonic() + 60
                while db.status()["logs"][0]["state"] == "ok":
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                wire.mend()
        catch_up(db)
        require_right(db, rows)


def test_a_server_that_does_not_answer_any_more_is_away(
    db: Database, server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_table, "TIMEOUT_SECONDS", 0.2)
    rows = RedisRows(server.url, "orders")
    db.sql(rows.declared(VIEWS))
    catch_up(db)
    rows.change(random.Random(1), 100)
    (pid,) = (process.pid for process in server.processes)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreAway, match="Timeout"):
            catch_up(db)
    finally:
        os.kill(pid, signal.SIGCONT)
    catch_up(db)
    require_right(db, rows)


def test_an_emptied_server_stops_the_table(db: Database, server: Redis) -> None:
    rows = RedisRows(server.url, "orders")
    db.sql(rows.declared(VIEWS))
    rows.change(random.Random(1), 50)
    catch_up(db)
    rows.client.flushall()
    db.table("customers").put({"id": 1})
    with pytest.raises(LogLost, match=r"orders.log is gone, as if by FLUSHALL or DEL; drop the table"):
        catch_up(db)
    assert [row["n"] for row in db.view("n").rows()] == [1]
    rows.model.clear()
    rows.change(random.Random(2), 80)
    with pytest.raises(LogLost, match="not the one that was read before"):
        catch_up(db)


def test_a_server_that_lost_what_it_had_acknowledged_stops_the_table(db: Database, tmp_path: Path) -> None:
    with Redis(tmp_path / "careless", settings={"appendonly": "no"}) as server:
        rows = RedisRows(server.url, "orders")
        db.sql(rows.declared(VIEWS))
        rows.change(random.Random(1), 30)
        rows.client.save()
        rows.change(random.Random(2), 30)
        catch_up(db)
        tables = OutsideTables("UTC")
        watched = tables.of(db.catalog.outside[0])
        assert watched.ends().positions == {"0": 60}
        server.kill()
        server.start()
        db.table("customers").put({"id": 1})
        with pytest.raises(LogLost, match="ends at 30, and had been read up to 60: the store has lost entries"):
            catch_up(db)
        assert [row["n"] for row in db.view("n").rows()] == [1]
        rows.change(random.Random(3), 100)
        with pytest.raises(LogLost, match="has lost entries that the server had acknowledged"):
            watched.ends()
        tables.close()


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_driver_that_is_killed_while_it_adopts_leaves_the_next_one_the_rest(
    db: Database, server: Redis, steps: int
) -> None:
    rows = RedisRows(server.url, "orders")
    for start in range(0, 3000, 500):
        rows.run(*(part for id_ in range(start, start + 500) for part in put_of(id_, {"note": "x"})))
    rows.model = {id_: {"id": id_, "note": "x"} for id_ in range(3000)}
    db.sql(rows.declared(VIEWS))
    program = f"""
import sys
import viewkeeper
from local_maintenance import catch_up
from viewkeeper.pipeline import adopting
from viewkeeper.stores.outside.redis import table
adopting.ROWS_AT_ONCE = table.ROWS_AT_ONCE = 500
table.SCANNED_AT_ONCE = 100
committed, commit = 0, adopting.Adopting._finish
def finish(self, term, step):
    global committed
    done = commit(self, term, step)
    committed += done
    if committed == {steps}:
        print("now", flush=True)
        sys.stdin.read()
    return done
adopting.Adopting._finish = finish
catch_up(viewkeeper.connect({str(db.root)!r}))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stdin=subprocess.PIPE, env=environment
    ) as driver:
        assert driver.stdout is not None and driver.stdout.readline() == b"now\n"
        driver.kill()
    for id_ in range(0, 3000, 2):
        rows.delete(id_)
    rows.change(random.Random(steps), 100)
    catch_up(db)
    require_right(db, rows)


def test_a_server_that_may_evict_rows_is_refused(db: Database, server: Redis) -> None:
    rows = RedisRows(server.url, "orders")
    rows.client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(DeclarationError, match="its maxmemory-policy is allkeys-lru, and has to be noeviction"):
        db.sql(rows.declared())
    assert db.catalog.find("orders") is None


def test_a_password_comes_from_where_it_is_said_to_be(
    db: Database, server: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RedisRows(server.url, "orders").client.config_set("requirepass", "hush")
    rows = RedisRows(f"redis://:hush@{server.address}", "orders")
    rows.change(random.Random(1), 50)
    monkeypatch.setenv("WRONG", "wrong")
    (tmp_path / "secret").write_text("hush\n")

    def declared(more: str) -> str:
        columns = "(id BIGINT, note STRING, PRIMARY KEY (id))"
        return f"CREATE TABLE orders {columns} USING redis OPTIONS (url '{server.url}', prefix 'orders'{more}); {VIEWS}"

    for more, why in (("", "Authentication required"), (", password_env 'WRONG'", "invalid username-password")):
        with pytest.raises(DeclarationError, match=why):
            db.sql(declared(more))
    db.sql(declared(f", password_file '{tmp_path / 'secret'}'"))
    catch_up(db)
    require_right(db, rows)
    assert not any(b"hush" in file.read_bytes() for file in db.root.rglob("*") if file.is_file())
