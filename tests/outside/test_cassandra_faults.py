"""Nodes of Cassandra, and the programs that serve their logs, are killed; segments go before they are read."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from cassandra import DriverException
from cassandra.cluster import NoHostAvailable
from click.testing import CliRunner

import viewkeeper
from cassandra_rows import CassandraRows, connected
from local_maintenance import catch_up
from viewkeeper.catalog.model import Catalog, Table
from viewkeeper.checker.check import check_views
from viewkeeper.cli import cli
from viewkeeper.database import Database
from viewkeeper.errors import Error, LogLost, StoreAway
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.pipeline.declare_script import run
from viewkeeper.servers import Cassandra
from viewkeeper.servers.cassandra_log import CassandraLog
from viewkeeper.stores.outside.cassandra import cassandra_table
from viewkeeper.stores.outside.opened import OutsideTables

pytestmark = pytest.mark.faults

VIEWS = "CREATE VIEW rows AS SELECT id, customer, price, note FROM orders"
SMALL = {"commitlog_segment_size": "1MiB"}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        yield database


@contextmanager
def cluster(folder: Path, nodes: int = 1, **settings: object) -> Iterator[tuple[Cassandra, list[CassandraLog]]]:
    """A cluster of its own, with what serves its logs."""
    with ExitStack() as running:
        server = running.enter_context(Cassandra(folder / "cassandra", nodes=nodes, settings=settings))
        logs = [running.enter_context(log_of(server, folder, node)) for node in range(1, nodes + 1)]
        yield server, logs


def log_of(server: Cassandra, folder: Path, node: int = 1) -> CassandraLog:
    return CassandraLog(folder / f"log{node}", server.node_folder(node) / "cassandra.yaml")


def require_right(db: Database, rows: CassandraRows) -> None:
    """The client of a database that has seen a node go comes back a moment after the node."""
    caught_up(db)
    expected = Counter((row["id"], row["customer"], row["price"], row["note"]) for row in rows.rows())
    assert Counter(tuple(row.values()) for row in db.view("rows").rows()) == expected
    while True:
        try:
            with db._newest.held() as version:
                (report,) = check_views(DatabaseEvidence(version, db._logs), ["rows"], None)
            break
        except StoreAway:
            time.sleep(0.2)
    assert report.problem == ""


@contextmanager
def written(rows: CassandraRows) -> Iterator[None]:
    """A foreign program that writes until it is acknowledged, again and again."""
    ended = threading.Event()

    def write() -> None:
        chance = random.Random(1)
        while not ended.is_set():
            id_ = chance.randrange(50)
            until_acknowledged(lambda id_=id_: rows.put(id_, customer=chance.randrange(4), note="x"))
            if chance.random() < 0.3:
                until_acknowledged(lambda: rows.delete(chance.randrange(50)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()


def until_acknowledged(do: Callable[[], Any]) -> None:
    while True:
        try:
            do()
            return
        except (DriverException, NoHostAvailable):
            time.sleep(0.05)


def caught_up(db: Database) -> None:
    while True:
        try:
            catch_up(db)
            return
        except StoreAway:
            time.sleep(0.2)


def test_a_node_and_its_log_that_are_killed_while_it_is_written_lose_nothing(db: Database, tmp_path: Path) -> None:
    with cluster(tmp_path) as (server, (log,)), connected(server) as session:
        rows = CassandraRows(session, server, [log], "orders")
        rows.change(random.Random(1), 30, updates=False)
        db.sql(rows.declared(VIEWS))
        caught_up(db)
        with written(rows):
            for _ in range(2):
                time.sleep(0.5)
                server.kill()
                server.start()
                caught_up(db)
                log.kill()
                time.sleep(0.2)
                with pytest.raises(
                    StoreAway, match=r"who serves a node's log \(viewkeeper cassandra-log\) does not ans"
                ):
                    catch_up(db)
                log.start()
                caught_up(db)
        caught_up(db)
        until_acknowledged(rows.rows)
        require_right(db, rows)


@pytest.mark.stores
def test_segments_go_when_all_have_read_them_and_not_before(db: Database, tmp_path: Path) -> None:
    with cluster(tmp_path, cdc_total_space="6MiB", **SMALL) as (server, (log,)), connected(server) as session:
        rows, folder = CassandraRows(session, server, [log], "orders"), server.node_folder(1) / "cdc_raw"
        db.sql(rows.declared(VIEWS))
        catch_up(db)
        opened = db._logs.outside.of(db.catalog.outside[0])
        slow = rows.declared().replace("OPTIONS (", "OPTIONS (follower 'slow', ")
        table = run(Catalog(), slow).catalog.find("orders")
        assert isinstance(table, Table)
        OutsideTables("UTC").of(table).start()
        assert [log["state"] for log in db.status()["logs"]] == ["ok; cdc_raw holds 0 of 6 MiB"]
        for id_ in range(10):
            rows.put(id_, note="x" * 200_000)
        catch_up(db)
        opened.forget(opened.ends().positions)
        assert len(list(folder.glob("*.log"))) >= 2, "one has not read them"
        (other,) = (name for name in followers(log) if name.startswith("slow/"))
        CliRunner().invoke(cli, ["cassandra-log", "--listen", log.address, "--drop", other])
        for id_ in range(100):  # three times what cdc_raw may hold
            until_acknowledged(lambda id_=id_: rows.put(id_, note="x" * 200_000))
            if id_ % 5 == 0:
                catch_up(db)
                opened.forget(opened.ends().positions)
        assert len(list(folder.glob("*.log"))) < 6
        catch_up(db)
        require_right(db, rows)
        server.kill()
        server.start()  # links segments anew that had been deleted
        caught_up(db)
        until_acknowledged(rows.rows)
        require_right(db, rows)
        (follower,) = followers(log)
        for id_ in range(60):
            try:
                rows.put(id_, note="x" * 200_000)
            except DriverException:
                break
        else:
            raise AssertionError("a full cdc_raw refuses writes")
        (told,) = (each["state"] for each in db.status()["logs"])
        assert told.startswith("cdc_raw is nearly full, and then the node refuses writes: it holds ")
        with pytest.raises(Error, match="rows cannot be written: .*see viewkeeper cassandra-log --followers"):
            db.table("orders").put({"id": 1, "note": "x"})
        log.kill()
        for file in folder.glob("*.log"):
            file.unlink()
            file.with_name(file.stem + "_cdc.idx").unlink(missing_ok=True)
        log.start()
        with pytest.raises(LogLost, match="segments of cdc_raw were deleted before they had been read; drop the table"):
            catch_up(db)
        dropped = CliRunner().invoke(cli, ["cassandra-log", "--listen", log.address, "--drop", follower])
        assert dropped.exit_code == 0 and follower not in dropped.output
        nobody = CliRunner().invoke(cli, ["cassandra-log", "--listen", log.address, "--drop", follower])
        assert f"nobody called {follower} follows the log" in str(nobody.exception)


@pytest.mark.stores
def test_a_log_that_is_compressed_and_written_now_and_then(db: Database, tmp_path: Path) -> None:
    """A token covers what is acknowledged, and not in the log's file yet."""
    settings = {"commitlog_sync": "periodic", "commitlog_sync_period": "300ms",
                "commitlog_compression": [{"class_name": "LZ4Compressor"}]}  # fmt: skip
    with cluster(tmp_path, **settings) as (server, (log,)), connected(server) as session:
        rows = CassandraRows(session, server, [log], "orders")
        rows.change(random.Random(1), 30, updates=False)
        db.sql(rows.declared(VIEWS))
        catch_up(db)
        for id_ in range(3):
            rows.change(random.Random(id_), 30)
            token = db.table("orders").put({"id": id_, "note": "put"})
            catch_up(db)
            assert db.view("rows").get(id_, after=token)["note"] == "put"
            require_right(db, rows)
            log.kill()
            log.start()


def followers(log: CassandraLog) -> list[str]:
    told = CliRunner().invoke(cli, ["cassandra-log", "--listen", log.address, "--followers"])
    assert told.exit_code == 0, told.output
    first, *others = told.output.splitlines()
    assert first.startswith("cdc_raw holds ")
    return [line.split(" has read up to ")[0] for line in others]


@pytest.mark.stores
def test_one_of_three_nodes_is_down_for_a_while(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cassandra_table, "LOOK_SECONDS", 0.2)
    with cluster(tmp_path, nodes=3) as (server, logs), connected(server) as session:
        rows = CassandraRows(session, server, logs, "orders", replicas=3)
        rows.change(random.Random(1), 30, updates=False)
        with pytest.raises(Error, match="nobody serves the log of the node 127.0.0.3"):
            db.sql(CassandraRows(session, server, logs[:2], "others").declared())
        db.sql(rows.declared(VIEWS))
        caught_up(db)
        for node in (2, 3):
            with written(rows):
                time.sleep(1)
                server.kill(node=node)
                time.sleep(10)
                caught_up(db)
                server.start(node=node)
                time.sleep(2)
            caught_up(db)
            until_acknowledged(rows.rows)
            require_right(db, rows)
        rows.change(random.Random(2), 60)
        server.nodetool(2, "repair", "--full", "shop", "orders")
        caught_up(db)
        require_right(db, rows)
        assert db.table("orders").put({"id": 7, "note": "put"}) and db.table("orders").get(7)["note"] == "put"
        caught_up(db)
        require_right(db, rows)
