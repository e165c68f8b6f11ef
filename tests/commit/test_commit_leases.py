"""Leases keep what readers use, collection deletes the rest, and one process at a time is the driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from commit_model import database, ended, forked, killed, receipt, write
from viewkeeper.catalog.model import Catalog
from viewkeeper.errors import Busy, Fenced
from viewkeeper.trace import lease as leases
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.garbage import collect
from viewkeeper.trace.lease import Lease, LeaseLost
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.lock import driver_lock
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.snapshot import Change, Snapshot


def replace_all(storage: Storage, snapshot: Snapshot) -> Snapshot:
    """A batch whose one file takes the place of all before it."""
    version = snapshot.version + 1
    written = write(storage, receipt(version, [5], epoch=snapshot.epoch))
    return storage.next(snapshot, Change("batch", version, {}, [written], snapshot.states.get(5, ())))


def files_of(storage: Storage) -> set[str]:
    return {path.name for path in (storage.root / "state").iterdir()}


# Collection


def test_a_leased_manifest_keeps_its_files_until_the_lease_is_closed(tmp_path: Path) -> None:
    """Hundreds of versions later its snapshot can still be read cold; once let go, it and its files are deleted."""
    storage, snapshot = database(tmp_path, keep_seconds=0)
    for _ in range(5):
        snapshot = replace_all(storage, snapshot)
    held = snapshot
    with Lease(storage, held.number):
        for _ in range(150):
            snapshot = replace_all(storage, snapshot)
        collect(storage, snapshot, (), time.time() + 1)
        assert files_of(storage) == held.files.keys() | snapshot.files.keys()
        assert local_storage(tmp_path).at(held.number).states == held.states
        assert storage.held() == {held.number}
    collected = collect(storage, snapshot, (), time.time() + 1)
    assert files_of(storage) == set(snapshot.files)
    assert (collected.files, collected.bytes) == (1, 100)
    assert not storage.exists(held.number)
    assert local_storage(tmp_path).newest().states == snapshot.states


def test_replaced_files_stay_for_the_set_time(tmp_path: Path) -> None:
    """Nothing goes before `keep_seconds` have passed since it was replaced; then all but the newest goes."""
    storage, snapshot = database(tmp_path, keep_seconds=60)
    for _ in range(5):
        snapshot = replace_all(storage, snapshot)
    assert collect(storage, snapshot, (), time.time() + 55).files == 0
    assert collect(storage, snapshot, (), time.time() + 65).files == 4
    assert files_of(storage) == set(snapshot.files)


def test_only_what_can_never_be_committed_is_deleted(tmp_path: Path) -> None:
    """Files of a running attempt, of a later epoch and of strangers stay; those of ended attempts and old epochs go."""
    storage, snapshot = database(tmp_path, keep_seconds=0)
    snapshot = storage.new_epoch(snapshot)
    epoch = snapshot.epoch
    running, over = file_name(1, epoch, 1, 0, 8, "batch"), file_name(1, epoch, 1, 0, 7, "merge")
    older, later = file_name(1, epoch - 1, 1, 0, 8, "batch"), file_name(1, epoch + 1, 1, 0, 7, "batch")
    for name in (running, over, older, later, "notes.txt"):
        (storage.root / "state" / name).write_bytes(b"x")
    assert collect(storage, snapshot, {8}, time.time() + 1).files == 2
    assert files_of(storage) == {running, later, "notes.txt"}


def test_catalogs_and_leftovers_go_too(tmp_path: Path) -> None:
    """A replaced catalog, leases that ran out long ago, and files without their final name are deleted."""
    storage, snapshot = database(tmp_path, keep_seconds=0)
    for version in range(1, 4):
        snapshot = storage.next(snapshot, Change("catalog", version, catalog=Catalog(next_id=version)))
    (storage.root / "manifests" / ".000000000099.json.abcd").write_bytes(b"half")
    os.utime(storage.root / "manifests" / ".000000000099.json.abcd", (0, 0))
    (storage.root / "leases" / "000000000001-1-aa.json").write_text(
        '{"number": 1, "expiry": 5.0, "pid": 1, "host": "gone"}'
    )
    (storage.root / "leases" / "000000000001-1-bb.json").write_bytes(b"")
    collect(storage, snapshot, (), time.time() + 1)
    assert [path.name for path in (storage.root / "catalogs").iterdir()] == [snapshot.catalog_ref.name]
    assert {path.name for path in (storage.root / "manifests").iterdir()} == {
        f"{number:012d}.json" for number in range(snapshot.since, snapshot.number + 1)
    }
    assert list((storage.root / "leases").iterdir()) == []
    assert local_storage(tmp_path).newest().catalog == Catalog(next_id=3)


def test_a_replaced_driver_does_not_collect(tmp_path: Path) -> None:
    """Whoever finds a later epoch stops before it deletes anything."""
    old, snapshot = database(tmp_path, keep_seconds=0)
    new = local_storage(tmp_path)
    new.new_epoch(new.newest())
    with pytest.raises(Fenced, match="epoch"):
        collect(old, snapshot, (), time.time() + 1)


def test_a_long_life_leaves_a_folder_of_bounded_size(tmp_path: Path) -> None:
    """After 300 commits the folder holds one chain, and `summary` says so."""
    storage, snapshot = database(tmp_path, keep_seconds=0)
    for _ in range(300):
        snapshot = replace_all(storage, snapshot)
        if snapshot.number % 50 == 0:
            collect(storage, snapshot, (), time.time() + 1)
    collect(storage, snapshot, (), time.time() + 1)
    manifests = snapshot.number - snapshot.since + 1
    assert storage.summary() == {"manifests": manifests, "files": 1, "bytes": 100, "leased": 0}


# Leases


def test_an_old_manifest_cannot_be_leased(tmp_path: Path) -> None:
    """The newest can, a replaced one cannot once it may have been pruned, even while it is still in the chain."""
    storage, snapshot = database(tmp_path, keep_seconds=0)
    newer = replace_all(storage, snapshot)
    with pytest.raises(LeaseLost, match="replaced too long ago"):
        Lease(storage, snapshot.number)
    with pytest.raises(LeaseLost):
        Lease(storage, newer.number + 1)
    assert list((storage.root / "leases").iterdir()) == []
    got, lease = Lease.on_newest(storage)
    assert got.number == lease.number == newer.number
    lease.close()


def test_a_lease_just_replaced_can_be_taken(tmp_path: Path) -> None:
    """With the usual times a reader may lease the snapshot it has, though commits have passed it."""
    storage, snapshot = database(tmp_path)
    replace_all(storage, snapshot)
    with Lease(storage, snapshot.number) as lease:
        lease.check()
        assert storage.held() == {snapshot.number}


def test_an_open_lease_is_renewed_and_its_thread_ends_with_it(tmp_path: Path) -> None:
    """It outlives its length many times; one thread renews all of a process."""
    storage, snapshot = database(tmp_path)
    with Lease(storage, snapshot.number, seconds=0.3) as first, Lease(storage, snapshot.number, seconds=0.3):
        for _ in range(10):
            time.sleep(0.1)
            assert storage.held() == {snapshot.number}
        first.check()
        assert sum(thread.name == "viewkeeper leases" for thread in threading.enumerate()) == 1
    assert storage.held() == set()
    for thread in threading.enumerate():
        if thread.name == "viewkeeper leases":
            thread.join(1)
            assert not thread.is_alive()


def test_the_lease_of_a_dead_reader_runs_out(tmp_path: Path) -> None:
    """kill -9 leaves the lease file, which counts until its time is over and not longer."""
    storage, snapshot = database(tmp_path)

    def read() -> None:
        Lease(storage, snapshot.number, seconds=0.5)
        killed()

    assert ended(forked(read)) == -9
    assert storage.held() == {snapshot.number}
    time.sleep(0.6)
    assert storage.held() == set()


def test_a_stopped_reader_learns_that_its_lease_ran_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease that was not renewed in time is lost for good, also if it is renewed afterwards."""
    storage, snapshot = database(tmp_path)
    monkeypatch.setattr(leases._renewer, "add", lambda lease: None)
    lease = Lease(storage, snapshot.number, seconds=0.1)
    lease.check()
    time.sleep(0.15)
    lease.renew_if_due()
    with pytest.raises(LeaseLost, match="ran out"):
        lease.check()
    lease.close()


def test_a_forked_child_leaves_its_parents_lease_alone(tmp_path: Path) -> None:
    """The child can close it, and take and renew leases of its own; the parent's goes on."""
    storage, snapshot = database(tmp_path)
    with Lease(storage, snapshot.number, seconds=0.3) as lease:

        def child() -> None:
            lease.close()
            with Lease(storage, snapshot.number, seconds=0.3) as own:
                time.sleep(0.5)
                own.check()

        assert ended(forked(child)) == 0
        lease.check()
        assert storage.held() == {snapshot.number}


@pytest.mark.faults
def test_leased_files_are_there_while_a_driver_commits_and_collects(tmp_path: Path) -> None:
    """With no time of grace at all, a lease that was granted is as good as its word."""
    storage, snapshot = database(tmp_path, keep_seconds=0)
    snapshot = replace_all(storage, snapshot)
    stop = time.monotonic() + 2.5

    def drive() -> None:
        current = snapshot
        while time.monotonic() < stop:
            current = replace_all(storage, current)
            collect(storage, current, (), time.time())

    child = forked(drive)
    reader, granted = local_storage(tmp_path, keep_seconds=0), 0
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        seen, lease = Lease.on_newest(reader)
        with lease:
            granted += 1
            for _ in range(3):
                assert all((reader.root / "state" / name).exists() for name in seen.files)
                assert local_storage(tmp_path).at(seen.number).states == seen.states
                time.sleep(0.001)
    assert granted > 5


# The driver lock


def test_a_second_driver_is_refused_and_told_who_is_the_first(tmp_path: Path) -> None:
    """A pipeline refuses at once, however long one would wait; when it is released the next one gets it."""
    storage, _ = database(tmp_path)
    first, second = driver_lock(storage.root), driver_lock(storage.root)
    assert first.holder() is None
    first.acquire("pipeline", 0)
    started = time.monotonic()
    with pytest.raises(Busy, match=rf"a pipeline in process {os.getpid()} on "):
        second.acquire("statement", 30)
    assert time.monotonic() - started < 1
    holder = second.holder()
    assert holder is not None
    assert (holder.pid, holder.purpose) == (os.getpid(), "pipeline")
    first.release()
    second.acquire("statement", 0)
    assert second.is_held
    assert not first.is_held
    second.release()


def test_a_statement_is_waited_for(tmp_path: Path) -> None:
    """Whoever meets a statement gets the lock when it is over, and `Busy` if that takes too long."""
    storage, _ = database(tmp_path)
    statement, other = driver_lock(storage.root), driver_lock(storage.root)
    statement.acquire("statement", 0)
    with pytest.raises(Busy, match="a statement in process"):
        other.acquire("pipeline", 0.1)
    timer = threading.Timer(0.2, statement.release)
    timer.start()
    other.acquire("pipeline", 10)
    assert other.is_held
    other.release()
    timer.join()


@pytest.mark.faults
def test_the_lock_of_a_killed_driver_is_free_though_its_children_live(tmp_path: Path) -> None:
    """Neither a forked child nor a started program inherits the lock, nor can a child release it."""
    storage, _ = database(tmp_path)
    pids = tmp_path / "pids"

    def drive() -> None:
        lock = driver_lock(storage.root)
        lock.acquire("pipeline", 0)
        program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
        forked_child = forked(lambda: (lock.release(), time.sleep(60)))  # type: ignore[arg-type]
        pids.with_suffix(".new").write_text(f"{program.pid} {forked_child}")
        pids.with_suffix(".new").rename(pids)
        time.sleep(60)

    driver = forked(drive)
    while not pids.exists():
        time.sleep(0.01)
    time.sleep(0.1)
    with pytest.raises(Busy, match=f"process {driver} "):
        driver_lock(storage.root).acquire("pipeline", 0)
    os.kill(driver, signal.SIGKILL)
    assert ended(driver) == -9
    successor = driver_lock(storage.root)
    successor.acquire("pipeline", 0)
    successor.release()
    for pid in map(int, pids.read_text().split()):
        os.kill(pid, signal.SIGKILL)
