"""The embedded store among processes: killed writers, cuts, forks, readers that are gone."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import pytest

from killing import said_when_killed
from store_model import ORDERS, as_dicts, in_order, read_all, read_range, replay, stored_rows
from store_processes import start
from viewkeeper.changes.positions import Token
from viewkeeper.errors import Error, InputError
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.stores.node_environments import Nodes
from viewkeeper.stores.words import StampWord


@contextmanager
def running(*commands: list[str]) -> Iterator[list[subprocess.Popen[str]]]:
    started = [subprocess.Popen(c, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) for c in commands]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def kill_in_the_middle(root: Path, writers: list[int], durability: str, seconds: float) -> dict[int, list[list[str]]]:
    """Let writers write and kill them after `seconds` in which all of them did; what each had said."""
    commands = {writer: start("write_for_ever", root, writer, durability) for writer in writers}
    return said_when_killed(root.parent, commands, seconds)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(2))
def test_what_was_acknowledged_survives_kill_9_of_several_writers(tmp_path: Path, seed: int) -> None:
    """Three writers, killed at random: sequences are dense, log and rows agree, nothing that was said is missing."""
    random_ = random.Random(seed)
    store = EmbeddedStore(tmp_path / "s", nodes=3, durability="process")
    for round_ in range(2):
        writers = [seed % 3 + 3 * i for i in range(3)]
        said = kill_in_the_middle(store.root, writers, ["process", "sync"][round_], random_.uniform(0.1, 0.6))
        store.put(ORDERS, {"id": 1_000_000 + round_, "n": 0})  # The killed ones' locks are free.
        operations = as_dicts(ORDERS, read_all(store, ORDERS))
        for node, end in store.ends().items():
            own = [(row["sequence"], row["stamp"]) for row in operations if row["node"] == node]
            assert sorted(own) == [(at, stamp) for at, (_, stamp) in enumerate(sorted(own), 1)] and len(own) == end
            stamps = [stamp for _, stamp in sorted(own)]
            assert stamps == sorted(stamps), "stamps never fall along a log"
        assert in_order(stored_rows(store, ORDERS)) == in_order(replay(ORDERS, read_all(store, ORDERS)).values())
        for writer, lines in said.items():
            check_acknowledged(writer, lines, operations, store)
        if round_ == 0:
            store.close()
            store = EmbeddedStore(tmp_path / "s")
    store.close()


def test_a_child_forked_during_a_scan_is_told_so_and_the_scan_goes_on(tmp_path: Path) -> None:
    """Reopening would end the parent's read transaction, so the child must not."""
    store = EmbeddedStore(tmp_path / "s", durability="process")
    store.put_many(ORDERS, [{"id": i, "n": i} for i in range(100)])
    with store.scan(ORDERS) as scan:
        child = os.fork()
        if child == 0:
            try:
                store.get(ORDERS, 1)
            except Error as error:
                os._exit(0 if "spawn" in str(error) else 2)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        store.delete_many(ORDERS, range(100))
        assert sum(len(batch) for batch in scan.batches) == 100
    assert os.waitstatus_to_exitcode(status) == 0
    store.close()


def test_forks_beside_a_writing_thread_give_children_that_work(tmp_path: Path) -> None:
    """A fork waits for the transactions of other threads."""
    store = EmbeddedStore(tmp_path / "s", durability="process")
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            store.put_many(ORDERS, [{"id": i, "n": i} for i in range(50)])

    writer = threading.Thread(target=write)
    writer.start()
    children = []
    for i in range(10):
        child = os.fork()
        if child == 0:
            try:
                store.put(ORDERS, {"id": 1000 + i, "n": i})
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    exits = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    stop.set()
    writer.join()
    assert exits == [0] * 10 and len(stored_rows(store, ORDERS)) == 60
    store.close()


def test_a_commit_that_fails_behind_another_nodes_says_what_is_written_and_is_finished_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the second node has no room, the error says that the call counts all the same, and whoever comes next
    finishes it."""
    store = EmbeddedStore(tmp_path / "s", nodes=2)
    second = store._nodes.nodes[1]

    class Full:
        def begin(self, **options: bool) -> Any:
            txn = environment.begin(**options)

            class Txn:
                def __getattr__(self, name: str) -> Any:
                    return getattr(txn, name)

                def commit(self) -> None:
                    txn.abort()
                    raise lmdb.DiskError("No space left on device")

            return Txn()

    environment = second.environment
    monkeypatch.setattr(second, "environment", Full())
    told = "could not commit on all of the nodes 0, 1 .*No space left.*node 0 holds the whole call.*do not write it"
    with pytest.raises(Error, match=told):
        store.put_many(ORDERS, [{"id": i, "n": 1} for i in range(20)])
    with pytest.raises(Error, match="No space left"):
        stored_rows(store, ORDERS)
    monkeypatch.undo()
    assert store.log.cut(100, {}).operations == 20
    assert len(stored_rows(store, ORDERS)) == 20
    store.close()


def check_acknowledged(
    writer: int, lines: list[list[str]], operations: list[dict[str, Any]], store: EmbeddedStore
) -> None:
    """Every operation of every acknowledged call is in the log, at or before its token's positions."""
    placed = {(row["node"], row["sequence"]): row for row in operations}
    by_call: dict[int, set[int]] = {}
    for row in operations:
        if row["values"]["id"] % 10 == writer and row["kind"] == 0:
            by_call.setdefault(row["values"]["n"], set()).add(row["values"]["id"])
    for line in lines:
        middle = line.index("/")
        token = Token.parse(line[middle + 1])
        assert token.covered_by(store.ends())
        ids = {int(id_) for id_ in line[2 : 3 if line[1] == "put" else middle]}
        last = {placed[node, sequence]["values"]["id"] for node, sequence in token.positions.items()}
        assert last <= ids and all(id_ % 10 == writer for id_ in last)
        if line[1] != "delete":
            assert ids <= by_call[int(line[0])]


@pytest.mark.parametrize("seed", range(2))
def test_a_cut_never_splits_a_call_nor_holds_a_write_without_those_before_it(tmp_path: Path, seed: int) -> None:
    """While three processes write, every cut, of any limit, holds all rows of a call or none, and all earlier calls."""
    random_ = random.Random(seed)
    store = EmbeddedStore(tmp_path / "s", nodes=3, durability="process")
    positions: dict[int, int] = {}
    seen: dict[tuple[int, int], set[int]] = {}
    partial = 0
    with running(*(start("count_together", store.root, 100) for _ in range(3))) as processes:
        while True:
            done = all(process.poll() is not None for process in processes)
            cut = store.log.cut(random_.choice([1, 10, 100, 10_000]), positions)
            for node, end in cut.positions.items():
                batch = read_range(store, node, positions.get(node, 0), end, {ORDERS.id: ORDERS})
                for row in as_dicts(ORDERS, batch.operations):
                    values = row["values"]
                    seen.setdefault((values["customer"], values["n"]), set()).add(values["id"])
            assert all(ids == {1, 2, 3, 4, writer} for (writer, _), ids in seen.items()), "a call was split"
            calls: dict[int, list[int]] = {}
            for writer, call in seen:
                calls.setdefault(writer, []).append(call)
            assert all(sorted(c) == list(range(len(c))) for c in calls.values()), "an earlier call is missing"
            positions = cut.positions
            partial += cut.backlog
            if done and not cut.backlog and positions == store.ends():
                break
    assert len(seen) == 300 and partial > 5
    store.close()


def test_a_write_after_an_acknowledged_one_in_another_process_has_no_smaller_stamp(tmp_path: Path) -> None:
    """But a greater one, also if the clock goes back: the shared word only rises, and is rebuilt from the logs."""
    store = EmbeddedStore(tmp_path / "s", nodes=3, durability="process")
    store.put_many(ORDERS, [{"id": i, "n": i} for i in range(20)])
    greatest = store.log.cut(1000, {}).stamp
    ahead = greatest + 3_600_000_000
    StampWord(store.root / "stamp").next(at_least=ahead)
    store.put(ORDERS, {"id": 1, "n": 1})
    assert store.log.cut(1000, {}).stamp == ahead + 1
    store.close()
    (tmp_path / "s" / "stamp").write_bytes(bytes(8))
    store = EmbeddedStore(tmp_path / "s")
    store.put(ORDERS, {"id": 2, "n": 1})
    assert store.log.cut(1000, {}).stamp == ahead + 2
    store.close()


def test_after_one_write_with_the_clock_an_hour_ahead_batches_can_still_be_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stamps go up by one at least, so that 5,000 puts within that hour are 5,000 moments; a call on several nodes is
    one moment, as ever."""
    store = EmbeddedStore(tmp_path / "s", nodes=3, durability="process")
    with monkeypatch.context() as patch:
        clock = time.time_ns
        patch.setattr(time, "time_ns", lambda: clock() + 3_600_000_000_000)
        store.put(ORDERS, {"id": 0, "n": 0})
    for i in range(5000):
        store.put(ORDERS, {"id": i, "n": i})
    store.put_many(ORDERS, [{"id": i, "n": i} for i in range(500)])
    positions: dict[int, int] = {}
    sizes = []
    while (cut := store.log.cut(1000, positions)).operations:
        sizes.append(cut.operations)
        positions = cut.positions
    assert sizes == [1000, 1000, 1000, 1000, 1000, 501] and positions == store.ends()
    store.close()


def test_forks_beside_several_writing_threads_come_soon_and_give_children_that_work(tmp_path: Path) -> None:
    """Threads of which one or the other is always in a transaction let a waiting fork go first."""
    store, stop = EmbeddedStore(tmp_path / "s"), threading.Event()

    def write(me: int) -> None:
        while not stop.is_set():
            store.put_many(ORDERS, [{"id": me * 100 + i, "n": 1} for i in range(20)])

    threads = [threading.Thread(target=write, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    begin, codes = time.monotonic(), []
    for id_ in range(1000, 1003):
        child = os.fork()
        if child == 0:
            try:
                store.put(ORDERS, {"id": id_, "n": 2})
                os._exit(0)
            except BaseException:  # noqa: BLE001 - the parent is told by the exit code
                os._exit(1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    took = time.monotonic() - begin
    stop.set()
    for thread in threads:
        thread.join()
    assert codes == [0, 0, 0] and took < 10, took
    assert all(store.get(ORDERS, id_) for id_ in range(1000, 1003))


def test_a_forked_child_reads_and_writes_beside_its_parent(tmp_path: Path) -> None:
    """The child reopens the store; neither harms the other."""
    store = EmbeddedStore(tmp_path / "s", durability="process")
    store.put(ORDERS, {"id": 1, "n": 1})
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for i in range(100, 200):
                store.put(ORDERS, {"id": i, "n": i})
            status = 0 if store.get(ORDERS, 1) is not None and len(stored_rows(store, ORDERS)) >= 101 else 2
        finally:
            os._exit(status)
    for i in range(200, 300):
        store.put(ORDERS, {"id": i, "n": i})
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(stored_rows(store, ORDERS)) == 201 == len(replay(ORDERS, read_all(store, ORDERS)))
    store.close()


def test_a_reader_that_was_killed_does_not_let_the_file_grow(tmp_path: Path) -> None:
    """reader_check frees its slot; without that, no page that it could see is ever used again."""
    store = EmbeddedStore(tmp_path / "s", nodes=1, durability="process")
    rows = [{"id": i, "n": i, "note": "x" * 1000} for i in range(500)]
    store.put_many(ORDERS, rows)
    with running(start("read_and_wait", store.root)) as (reader,):
        assert reader.stdout is not None and int(reader.stdout.readline()) == 500
    assert store.reader_check() == 1

    def grow() -> int:
        for _ in range(30):
            store.put_many(ORDERS, rows)
            store.log.forget(store.ends(), older_than_seconds=-1)
        return int(store.statistics()["nodes"][0]["file_bytes"])

    grown = grow()
    assert grow() <= 1.2 * grown
    assert store.statistics()["nodes"][0]["rows"] == 500
    store.close()


def test_users_in_one_process_share_one_environment_and_its_durability(tmp_path: Path) -> None:
    """A second opening sees the first one's rows; another durability or number of nodes is refused, in words."""
    first = EmbeddedStore(tmp_path / "s", nodes=3, durability="process")
    second = EmbeddedStore(tmp_path / ".." / tmp_path.name / "s")
    first.put(ORDERS, {"id": 1, "n": 1})
    assert second.get(ORDERS, 1) is not None and second.nodes == 3
    with pytest.raises(InputError, match="durability='process'"):
        EmbeddedStore(tmp_path / "s", durability="sync")
    with pytest.raises(InputError, match="3 nodes"):
        EmbeddedStore(tmp_path / "s", nodes=2)
    with pytest.raises(InputError, match="expected one of"):
        EmbeddedStore(tmp_path / "s", durability="maybe")
    first.close()
    first.close()
    assert second.get(ORDERS, 1) is not None
    second.close()
    again = EmbeddedStore(tmp_path / "s", durability="sync")
    assert again.get(ORDERS, 1) is not None
    again.close()
    assert Nodes.open(tmp_path / "s").users == 1
    Nodes.open(tmp_path / "s").close()


def test_a_dropped_tables_rows_can_be_forgotten(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "s", durability="process")
    store.put_many(ORDERS, [{"id": i, "n": i} for i in range(25_000)])
    assert not store.forget([ORDERS.id], seconds=60) and store.stored_tables() == set()
    assert stored_rows(store, ORDERS) == []
    assert sum(node["rows"] for node in store.statistics()["nodes"].values()) == 0
    store.close()
