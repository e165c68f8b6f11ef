"""Racing drivers, racing readers and kill -9: one winner for each number, and never a mix of two steps."""

from __future__ import annotations

import mmap
import os
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commit_model import contents, database, ended, forked, killed, receipt, write
from viewkeeper.catalog.model import Catalog
from viewkeeper.errors import Fenced
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.garbage import collect
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.snapshot import Change, Snapshot

# Drivers


def test_a_replaced_driver_is_fenced_at_its_next_commit(tmp_path: Path) -> None:
    """The message names both epochs; going on from a newer snapshot does not help; nothing of it is committed."""
    old, snapshot = database(tmp_path)
    new = local_storage(tmp_path)
    taken = new.new_epoch(new.newest())
    with pytest.raises(Fenced, match=r"manifest 3 of epoch 2 .* manifest 3 of epoch 3"):
        old.next(snapshot, Change("batch", 1))
    with pytest.raises(Fenced, match="epoch is 2, and the database is in epoch 3"):
        old.next(old.newest(), Change("batch", 1))
    assert contents(local_storage(tmp_path).newest()) == contents(taken)


def test_a_process_can_be_the_driver_again(tmp_path: Path) -> None:
    """Having been replaced binds only the term that is over: it may take a new epoch from the newest snapshot."""
    old, _ = database(tmp_path)
    new = local_storage(tmp_path)
    new.new_epoch(new.newest())
    again = old.new_epoch(old.newest())
    assert old.next(again, Change("batch", 1)).epoch == 4


def test_a_driver_that_slept_while_its_number_was_pruned_is_fenced(tmp_path: Path) -> None:
    """It finds its number free, but loses; no reader takes up what it wrote, and the next collection removes it."""
    old, snapshot = database(tmp_path, keep_seconds=0)
    reader = local_storage(tmp_path, keep_seconds=0)
    seen = reader.newest()
    new = local_storage(tmp_path, keep_seconds=0)
    current = new.new_epoch(new.newest())
    for version in range(1, 80):
        current = new.next(current, Change("batch", version))
    collect(new, current, (), time.time() + 1)
    assert not new.exists(snapshot.number + 1)
    with pytest.raises(Fenced, match="replaced"):
        old.next(snapshot, Change("batch", 1, {0: 666}))
    assert new.exists(snapshot.number + 1)
    assert contents(reader.refresh(seen)) == contents(current)
    collect(new, current, (), time.time() + 1)
    assert not new.exists(snapshot.number + 1)


def compete(root: Path, wins: int, upto: int, seed: int) -> None:
    """Be the driver again and again, for a few commits each time; append what was won to the file `wins`."""
    chance, storage = random.Random(seed), local_storage(root)
    while (snapshot := storage.newest()).number < upto:
        try:
            snapshot = storage.new_epoch(snapshot)
            os.write(wins, f"{snapshot.number} {snapshot.identity}\n".encode())
            for _ in range(chance.randrange(4)):
                snapshot = storage.next(snapshot, Change("batch", snapshot.version + 1, {0: snapshot.number}))
                os.write(wins, f"{snapshot.number} {snapshot.identity}\n".encode())
        except Fenced:
            storage = local_storage(root)


@pytest.mark.faults
def test_of_two_racing_drivers_exactly_one_wins_each_number(tmp_path: Path) -> None:
    """Every number has one winner, and its manifest is the winner's."""
    local_storage(tmp_path / "db").initialise(Catalog())
    wins = os.open(tmp_path / "wins", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    racers = [forked(lambda seed=seed: compete(tmp_path / "db", wins, 150, seed)) for seed in range(2)]
    assert [ended(racer) for racer in racers] == [0, 0]
    os.close(wins)
    won = [line.split() for line in (tmp_path / "wins").read_text().splitlines()]
    newest = local_storage(tmp_path / "db").newest()
    assert sorted(int(number) for number, _ in won) == list(range(2, newest.number + 1))
    assert {int(number): id_ for number, id_ in won} == {
        number: local_storage(tmp_path / "db").read(number).identity for number in range(2, newest.number + 1)
    }


# Readers


class SharedNumbers:
    """Two numbers that parent and child both see: the commit begun last, and the one acknowledged last."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 16)

    def begin(self, number: int) -> None:
        self._memory[0:8] = struct.pack("q", number)

    def acknowledge(self, number: int) -> None:
        self._memory[8:16] = struct.pack("q", number)

    @property
    def begun(self) -> int:
        return int(struct.unpack("q", self._memory[0:8])[0])

    @property
    def acknowledged(self) -> int:
        return int(struct.unpack("q", self._memory[8:16])[0])


def commit_steadily(root: Path, shared: SharedNumbers, keep_seconds: float, seconds: float) -> None:
    """Commit and prune without pause for `seconds`."""
    storage = local_storage(root, keep_seconds)
    snapshot = storage.newest()
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        shared.begin(snapshot.number + 1)
        written = receipt(snapshot.version + 1, [5], epoch=snapshot.epoch)
        change = Change("batch", snapshot.version + 1, {0: snapshot.number + 1}, [written], snapshot.states.get(5, ()))
        snapshot = storage.next(snapshot, change)
        shared.acknowledge(snapshot.number)
        if snapshot.number % 16 == 0:
            collect(storage, snapshot, (), time.time())


@pytest.mark.faults
@pytest.mark.parametrize("keep_seconds", [60.0, 0.1])
def test_a_reader_is_never_behind_what_was_acknowledged(tmp_path: Path, keep_seconds: float) -> None:
    """Each `refresh` gives what was acknowledged before it or something later, whole, however long the reader slept."""
    _, first = database(tmp_path, keep_seconds)
    shared, chance = SharedNumbers(), random.Random(7)
    shared.begin(first.number)
    child = forked(lambda: commit_steadily(tmp_path, shared, keep_seconds, 2.5))
    reader = local_storage(tmp_path, keep_seconds)
    snapshot, seen = reader.newest(), set[int]()
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if chance.random() < 0.01:
            time.sleep(chance.choice([0.01, 0.15]))
        acknowledged = shared.acknowledged
        snapshot = reader.refresh(snapshot)
        assert acknowledged <= snapshot.number <= shared.begun
        seen.add(snapshot.number)
        if snapshot.number > first.number:
            assert snapshot.positions == {0: snapshot.number}
            assert [run.first for run in snapshot.states[5]] == [snapshot.version]
            assert len(snapshot.files) == 1
    assert len(seen) > 5


# kill -9


class Killer:
    """Kills this process before or after the n-th of the calls by which a file becomes durable."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, part: float) -> None:
        self._left, self._part = at, part
        for owner, name in ((os, "fsync"), (os, "link"), (os, "unlink")):
            patch.setattr(owner, name, self._around(getattr(owner, name)))
        patch.setattr(os, "fdopen", self._cutting(os.fdopen))

    def _around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            self._step()
            result = call(*arguments, **options)
            self._step()
            return result

        return called

    def _cutting(self, open_: Callable[..., Any]) -> Callable[..., Any]:
        def opened(descriptor: int, mode: str, *arguments: Any, **options: Any) -> Any:
            file = open_(descriptor, mode, *arguments, **options)
            if mode != "wb":
                return file
            self._left -= 1
            return file if self._left else _Half(file, self._part)

        return opened

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            killed()


class _Half:
    """A file whose first write is incomplete, and the process's last."""

    def __init__(self, file: Any, part: float) -> None:
        self._file, self._part = file, part

    def __enter__(self) -> _Half:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        self._file.write(data[: int(len(data) * self._part)])
        self._file.flush()
        killed()


def step(storage: Storage, snapshot: Snapshot) -> Snapshot:
    """A commit that depends on the version alone: every fourth has a catalog, every fifth removes what was before."""
    version = snapshot.version + 1
    removed = snapshot.states.get(5, ()) if version % 5 == 0 else ()
    catalog = Catalog(next_id=version) if version % 4 == 0 else None
    return storage.next(snapshot, Change("batch", version, {0: version}, [receipt(version, [5, 6])], removed, catalog))


def expect(snapshot: Snapshot) -> None:
    """`snapshot` is exactly what `step` after `step` makes."""
    version = snapshot.version
    assert snapshot.positions == ({0: version} if version else {})
    assert [run.first for run in snapshot.states.get(6, ())] == list(range(1, version + 1))
    oldest = max(1, version - version % 5)
    assert [run.first for run in snapshot.states.get(5, ())] == list(range(oldest, version + 1))
    assert set(snapshot.files) == {run.file for runs in snapshot.states.values() for run in runs}
    assert version < 4 or snapshot.catalog.next_id == version - version % 4


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(120))
def test_a_commit_killed_anywhere_is_in_whole_or_not_at_all(tmp_path: Path, seed: int) -> None:
    """Whatever system call the driver dies in, the database is at the last acknowledged step or the one begun."""
    chance = random.Random(seed)
    database(tmp_path)
    shared = SharedNumbers()
    at, part = seed % 60 + 1, chance.random()  # a commit makes 9 of the steps, with a catalog 18

    def drive() -> None:
        storage = local_storage(tmp_path)
        snapshot = storage.new_epoch(storage.newest())
        shared.acknowledge(snapshot.version)
        with pytest.MonkeyPatch.context() as patch:
            Killer(patch, at, part)
            while True:
                shared.begin(snapshot.version + 1)
                snapshot = step(storage, snapshot)
                shared.acknowledge(snapshot.version)

    assert ended(forked(drive)) == -9
    storage = local_storage(tmp_path)
    found = storage.newest()
    assert found.version in (shared.acknowledged, shared.begun)
    expect(found)
    expect(step(storage, storage.new_epoch(found)))


@pytest.mark.faults
@pytest.mark.parametrize("at", [*range(1, 12), 50, 100, 140, 160])
def test_a_collection_killed_anywhere_leaves_what_is_named(tmp_path: Path, at: int) -> None:
    """All files of the newest manifest are there, and the next collection finishes the work."""
    storage, snapshot = database(tmp_path, keep_seconds=0)
    for version in range(1, 70):
        added = write(storage, receipt(version, [5], epoch=snapshot.epoch))
        snapshot = storage.next(snapshot, Change("batch", version, {}, [added], snapshot.states.get(5, ())))

    def clean() -> None:
        with pytest.MonkeyPatch.context() as patch:
            Killer(patch, at, 0.0)
            collect(storage, snapshot, (), time.time() + 1)

    assert ended(forked(clean)) == -9
    found = local_storage(tmp_path).newest()
    assert contents(found) == contents(snapshot)
    assert all((storage.root / "state" / name).exists() for name in found.files)
    successor = local_storage(tmp_path, keep_seconds=0)
    taken = successor.new_epoch(successor.newest())
    collect(successor, taken, (), time.time() + 1)
    assert [path.name for path in (storage.root / "state").iterdir()] == list(found.files)
    assert successor.numbers() == [taken.number]
