"""The store's write lock: waits that end and say for whom; and the maps: many databases in one process, and growth."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import viewkeeper
from store_model import ORDERS, in_order, read_all, replay, stored_rows
from store_processes import start
from viewkeeper.catalog.model import Column, Stream
from viewkeeper.catalog.types import TIMESTAMP
from viewkeeper.errors import Busy, Error, StorageError
from viewkeeper.stores import lmdb_folders
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.stores.locks import PATIENCE
from viewkeeper.streams.intake.stream_log import StreamLog
from viewkeeper.trace.local_disk import LocalDisk

CLICKS = Stream(20, "clicks", (Column("t", TIMESTAMP, False),), 0, length=60)


@contextmanager
def held_by_a_stopped_process(root: Path) -> Iterator[int]:
    """The write locks of the store in `root` are held by a process that is stopped, as by Ctrl-Z."""
    holder = subprocess.Popen(start("write_and_hold", root), stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        os.kill(holder.pid, signal.SIGSTOP)
        yield holder.pid
    finally:
        holder.kill()
        holder.communicate()


def test_a_wait_for_a_stopped_writer_ends_and_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`put`, `put_many` and a cut say who holds the lock; reads that need none answer at once; when the holder is gone
    all goes on."""
    monkeypatch.setenv(PATIENCE, "1")
    threads = threading.active_count()
    with viewkeeper.connect(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (id BIGINT, PRIMARY KEY (id))")
        table = db.table("t")
        table.put({"id": 1})
        with held_by_a_stopped_process(db.root) as pid:
            for _ in range(2):
                begin = time.monotonic()
                with pytest.raises(Busy, match=rf"process {pid}, which is stopped .*since 20\d\d-.*write lock"):
                    table.put({"id": 2})
                assert 0.9 < time.monotonic() - begin < 5
            with pytest.raises(Busy, match=f"process {pid}"):
                table.put_many([{"id": i} for i in range(10)])
            with pytest.raises(Busy, match=f"process {pid}"):
                db._store.log.cut(100, {})
            begin = time.monotonic()
            assert db.lag()["nodes"] and table.get(1) == {"id": 1} and db.status()["nodes"]
            assert time.monotonic() - begin < 0.9, "three reads take less than one wait"
        table.put({"id": 2})
        assert table.get(2) and threading.active_count() <= threads + 2, "a wait leaves no thread behind"


def test_ctrl_c_ends_a_wait_for_the_lock(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "s", durability="process")
    with held_by_a_stopped_process(store.root):
        threading.Timer(0.5, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()  # type: ignore[arg-type]
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            store.put(ORDERS, {"id": 1, "n": 1})
        assert time.monotonic() - begin < 5
    store.put(ORDERS, {"id": 1, "n": 1})
    store.close()


def test_a_fork_does_not_wait_for_a_thread_that_waits_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PATIENCE, "3")
    store, raised = EmbeddedStore(tmp_path / "s", durability="process"), []

    def put() -> None:
        try:
            store.put(ORDERS, {"id": 1, "n": 1})
        except Busy as error:
            raised.append(error)

    with held_by_a_stopped_process(store.root):
        thread = threading.Thread(target=put)
        thread.start()
        time.sleep(0.3)
        begin = time.monotonic()
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert time.monotonic() - begin < 2
        thread.join()
    assert len(raised) == 1
    store.close()


def test_an_append_to_a_stream_names_who_holds_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread of the same process, here."""
    monkeypatch.setenv(PATIENCE, "0.5")
    with StreamLog(tmp_path, LocalDisk(str(tmp_path))) as log:
        held, done = threading.Event(), threading.Event()

        def hold() -> None:
            with log._transaction(write=True):
                held.set()
                done.wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        with pytest.raises(Busy, match=rf"a thread of this process \({os.getpid()}\)"):
            log.seal(CLICKS, 1)
        assert log.end(CLICKS.id) == 0
        done.set()
        thread.join()
        assert log.seal(CLICKS, 1) == 1


def test_a_child_that_outlives_its_parent_does_not_keep_the_lock(tmp_path: Path) -> None:
    """A forked child lets go of the files by which its parent holds locks."""
    store = EmbeddedStore(tmp_path / "s", durability="process")
    store.put(ORDERS, {"id": 1, "n": 1})
    read, write = os.pipe()
    parent = os.fork()
    if parent == 0:
        store.put(ORDERS, {"id": 2, "n": 1})
        child = os.fork()
        if child == 0:
            time.sleep(20)
            os._exit(0)
        for lock in store._nodes.locks:
            lock.take()
        os.write(write, b"%d" % child)
        os.kill(os.getpid(), signal.SIGKILL)
    grandchild = int(os.read(read, 20))
    os.waitpid(parent, 0)
    begin = time.monotonic()
    store.put(ORDERS, {"id": 3, "n": 1})
    assert time.monotonic() - begin < 10
    os.kill(grandchild, signal.SIGKILL)
    store.close()


def test_two_hundred_databases_can_be_open_in_one_process(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 6000:
        pytest.skip("the system allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (6000, before[1]))
    opened = []
    try:
        for i in range(200):
            db = viewkeeper.connect(tmp_path / str(i), durability="process")
            opened.append(db)
            db.sql("CREATE TABLE t (id BIGINT, PRIMARY KEY (id))")
            db.table("t").put({"id": i})
        assert [db.table("t").get(i) for i, db in enumerate(opened)] == [{"id": i} for i in range(200)]
    finally:
        for db in opened:
            db.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("what", ["files", "address space"])
def test_at_the_limit_the_error_says_how_many_are_open_and_what_to_do(tmp_path: Path, what: str) -> None:
    """In a process of its own, whose limits are lowered."""
    code = (
        "import resource, sys\nfrom pathlib import Path\nfrom viewkeeper.stores.embedded import EmbeddedStore\n"
        "from viewkeeper.errors import StorageError\n"
        + ("resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n" if what == "files"
           else "resource.setrlimit(resource.RLIMIT_AS, (1 << 38, 1 << 38))\n")
        + "kept = []\ntry:\n    for i in range(300):\n"
        f"        kept.append(EmbeddedStore(Path({str(tmp_path)!r}) / str(i), durability='process'))\n"
        "except StorageError as error:\n    print(error)\n"
    )  # fmt: skip
    said = subprocess.run([start("")[0], "-c", code], capture_output=True, text=True, timeout=100)
    assert "close databases that are not used, or raise `ulimit -" in said.stdout, said
    assert "databases open" in said.stdout


@pytest.mark.parametrize("gigabytes", [6, 9, 12, 33, 40])
def test_a_map_leaves_address_space_for_the_work(tmp_path: Path, gigabytes: int) -> None:
    """Of what a limited process has left, as much as all maps take; in a process of its own."""
    code = (
        "import mmap, resource\nfrom pathlib import Path\nfrom viewkeeper.stores.embedded import EmbeddedStore\n"
        f"limit = int(open('/proc/self/statm').read().split()[0]) * mmap.PAGESIZE + ({gigabytes} << 30)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        f"kept = EmbeddedStore(Path({str(tmp_path)!r}) / 's', nodes=2, durability='process')\n"
        f"mmap.mmap(-1, {gigabytes} << 28)\nprint('there is room')\n"
    )
    said = subprocess.run([start("")[0], "-c", code], capture_output=True, text=True, timeout=100)
    assert said.stdout == "there is room\n", said


def test_a_store_grows_beyond_its_map_in_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stores, one in another process, outgrow the map that they began with; an open scan is waited for."""
    monkeypatch.setattr(lmdb_folders, "MAP_BYTES", 1 << 20)
    monkeypatch.setattr(lmdb_folders, "_MAP_BYTES_LEAST", 1 << 16)
    store = EmbeddedStore(tmp_path / "s", durability="process")
    rows = [{"id": i, "n": 1, "note": "x" * 500} for i in range(2_000)]
    store.put_many(ORDERS, rows[:100])
    other = subprocess.Popen(start("write_for_ever", store.root, 7, "process"), stdout=subprocess.DEVNULL)
    try:
        for i in range(0, 2_000, 500):
            store.put_many(ORDERS, rows[i : i + 500])
        with pytest.raises(Error, match="end the scan"), store.scan(ORDERS):
            for i in range(10, 30):
                store.put_many(ORDERS, [{**row, "id": row["id"] + 2_000 * i} for row in rows])
        for i in range(1, 4):
            store.put_many(ORDERS, [{**row, "id": row["id"] + 2_000 * i} for row in rows])
        assert store.get(ORDERS, 7_999)
    finally:
        other.kill()
        other.wait()
    assert in_order(stored_rows(store, ORDERS)) == in_order(replay(ORDERS, read_all(store, ORDERS)).values())
    store.close()


def test_a_full_map_is_an_error_in_words() -> None:
    with pytest.raises(StorageError, match="too many files"), lmdb_folders.translated(Path("x")):
        error = lmdb_folders.lmdb.Error("Too many open files")
        error.code = 24
        raise error
