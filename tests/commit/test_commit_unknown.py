"""A commit of which nobody knows whether it is in is created again until that is known, and made exactly once."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from commit_model import database, receipt
from faulty_disk import GONE, LATE, LOST, NEVER, FaultyDisk, Files, any_faults, storage_on
from viewkeeper.catalog.model import Catalog
from viewkeeper.errors import Fenced
from viewkeeper.trace.commit import Storage, manifest_name
from viewkeeper.trace.disk import TRIES, Created
from viewkeeper.trace.garbage import collect
from viewkeeper.trace.local_disk import LocalDisk, local_storage
from viewkeeper.trace.snapshot import Change, Snapshot


def driver(stored: Files, *faults: str | None) -> tuple[Storage, FaultyDisk, Snapshot]:
    """A driver of the database in `stored`, whose creates meet `faults` from now on."""
    storage, disk = storage_on(stored)
    snapshot = storage.new_epoch(storage.initialise(Catalog()))
    disk.faults.extend(faults)
    return storage, disk, snapshot


def batch(snapshot: Snapshot, end: int) -> Change:
    """A batch that moves node 0 to `end`."""
    added = receipt(snapshot.version + 1, [5], epoch=snapshot.epoch)
    return Change("batch", snapshot.version + 1, {0: end}, [added], snapshot.states.get(5, ()))


@pytest.mark.parametrize("faults", [[LOST], [NEVER], [LOST, LOST], [NEVER, LOST], [NEVER, NEVER]])
def test_an_answer_that_is_lost_fences_nobody(faults: list[str]) -> None:
    """The number is taken, by the very manifest that was created: the commit is in."""
    storage, disk, snapshot = driver(Files(), *faults)
    before = disk.creates
    after = storage.next(snapshot, batch(snapshot, 1))
    assert after.number == snapshot.number + 1 and storage.newest().identity == after.identity
    assert disk.creates == before + len(faults) + 1


def test_a_number_that_another_has_taken_fences() -> None:
    """Also where the answer says nothing at first."""
    stored = Files()
    storage, disk, snapshot = driver(stored)
    other, _, _ = driver(stored)
    assert other.epoch == snapshot.epoch + 1
    disk.faults.extend([LOST, NEVER])
    with pytest.raises(Fenced):
        storage.next(snapshot, batch(snapshot, 1))


def test_a_number_that_was_taken_and_is_free_again_fences() -> None:
    """What took it has been pruned: were it created again, it would be believed, and the chain goes on elsewhere."""
    storage, disk, snapshot = driver(Files(), GONE)
    with pytest.raises(Fenced):
        storage.next(snapshot, batch(snapshot, 1))
    assert not disk.exists(manifest_name(snapshot.number + 1))


@pytest.mark.parametrize("fault", [LOST, LATE, NEVER])
def test_what_may_be_in_is_settled_before_anything_else_is_committed(fault: str) -> None:
    """It is the same manifest that is created again, and the driver goes on from it."""
    storage, disk, snapshot = driver(Files(), *[fault] * TRIES, *[NEVER] * TRIES)
    with pytest.raises(TimeoutError, match="no answer"):
        storage.next(snapshot, batch(snapshot, 7))
    with pytest.raises(TimeoutError):
        storage.settle()
    settled = storage.settle()
    assert (settled.number, settled.positions) == (snapshot.number + 1, {0: 7})
    disk.arrive()
    assert storage.next(settled, batch(settled, 8)).positions == {0: 8}


def test_a_commit_that_comes_in_late_meets_the_next_drivers_epoch() -> None:
    """Its number is taken by then, and stays taken."""
    stored = Files()
    storage, disk, snapshot = driver(stored, *[LATE] * TRIES)
    with pytest.raises(TimeoutError):
        storage.next(snapshot, batch(snapshot, 7))
    other, _, taken = driver(stored)
    disk.arrive()
    assert other.newest().identity == taken.identity
    with pytest.raises(Fenced):
        storage.settle()


def test_a_candidate_follows_what_the_driver_commits_meanwhile() -> None:
    """A number that is taken by the epoch before its own is no defeat: it applies that manifest and tries the next."""
    stored = Files()
    living, _, snapshot = driver(stored)
    candidate, _ = storage_on(stored)
    seen = candidate.newest()
    after = living.next(snapshot, batch(snapshot, 5))
    taken = candidate.new_epoch(seen)
    assert (taken.number, taken.epoch, taken.positions) == (after.number + 1, snapshot.epoch + 1, {0: 5})
    slow, _ = storage_on(stored)
    with pytest.raises(Fenced):
        slow.new_epoch(seen)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_lost_every_batch_is_in_once(seed: int) -> None:
    """Drivers that come and go, with all faults: the chain is the batches, in order, without a gap."""
    chance, stored = random.Random(seed), Files()
    storage, disk, snapshot = driver(stored)
    replaced: list[tuple[Storage, FaultyDisk]] = []
    for _ in range(40):
        if chance.random() < 0.1:
            replaced.append((storage, disk))
            storage, disk, snapshot = driver(stored)
        assert snapshot.positions.get(0, 0) == snapshot.version, "each version is one batch further"
        disk.faults.extend(any_faults(chance))
        try:
            snapshot = storage.next(snapshot, batch(snapshot, snapshot.version + 1))
        except TimeoutError:
            disk.faults.clear()
            if chance.random() < 0.5:
                disk.arrive()
            snapshot = storage.settle()
        disk.faults.clear()
        if chance.random() < 0.2:
            collect(storage, snapshot, (), 2**40)
        for old, way in replaced:
            way.arrive()
            with pytest.raises(Fenced):
                old.settle()
                known = old.newest()
                old.next(known, batch(known, -1))
        assert storage.newest().identity == snapshot.identity


# The local disk


def test_a_link_whose_answer_is_lost_is_known_by_its_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS: the first call made the link, and the one that was sent again says that it is there."""
    _, snapshot = database(tmp_path)
    link = os.link

    def twice(*arguments: str) -> None:
        link(*arguments)
        link(*arguments)

    monkeypatch.setattr(os, "link", twice)
    disk = LocalDisk(str(tmp_path))
    assert disk.create("catalogs/a.json", b"{}") == Created()
    storage = local_storage(tmp_path)
    taken = storage.new_epoch(storage.newest())
    assert storage.next(taken, batch(taken, 3)).number == snapshot.number + 2


@pytest.mark.parametrize("lasting", [False, True])
def test_a_folder_that_cannot_be_synced_leaves_the_commit_to_be_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasting: bool
) -> None:
    """The name may be there and lost with the power: it is created again, and so synced again, and is the driver's."""
    storage, snapshot = database(tmp_path)
    fsync, failing = os.fsync, [TRIES if lasting else 1]

    def refused(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}") and failing[0]:  # noqa: PTH112
            failing[0] -= 1
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refused)
    if lasting:
        with pytest.raises(OSError, match="Input/output"):
            storage.next(snapshot, batch(snapshot, 7))
        assert storage.settle().positions == {0: 7}
    else:
        assert storage.next(snapshot, batch(snapshot, 7)).positions == {0: 7}
    assert failing == [0]
