"""A driver's term of office: the lock, the epoch, the newest snapshot, and the only hand that commits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from viewkeeper.errors import Fenced
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.disk import Lock
from viewkeeper.trace.lock import Holder, driver_lock
from viewkeeper.trace.points import reached
from viewkeeper.trace.snapshot import Change, Snapshot

STATEMENT_WAIT_SECONDS = 30.0
"""How long a statement of another process that holds the lock may take."""


def acquired(storage: Storage, purpose: str, wait_seconds: float = STATEMENT_WAIT_SECONDS) -> Lock:
    """The driver lock of a database, which this process holds now; raises Busy, naming who holds it."""
    lock = driver_lock(storage.root)
    lock.acquire(purpose, wait_seconds)
    return lock


def driver_of(storage: Storage) -> Holder | None:
    """Who holds the driver lock; None if nobody does."""
    return driver_lock(storage.root).holder()


class Term:
    """Holds the driver lock of a database, under an epoch of its own.

    `running` are the attempts (jobs and merges) whose files may still be written or named; garbage collection leaves
    their files alone.
    """

    def __init__(self, storage: Storage, lock: Lock) -> None:
        self.storage = storage
        self.snapshot: Snapshot = storage.new_epoch(storage.newest())
        self.running: set[int] = set()
        self._lock = lock
        self._settled = True
        self._attempts = itertools.count(1)

    @property
    def epoch(self) -> int:
        """The number of this term."""
        return self.snapshot.epoch

    def begin_attempt(self) -> int:
        """A number that no other attempt of this term has."""
        attempt = next(self._attempts)
        self.running.add(attempt)
        return attempt

    def end_attempt(self, attempt: int) -> None:
        """The attempt's files are named by a manifest by now, or never will be."""
        self.running.discard(attempt)

    @contextmanager
    def attempt(self) -> Iterator[int]:
        """An attempt that ends with the block."""
        attempt = self.begin_attempt()
        try:
            yield attempt
        finally:
            self.end_attempt(attempt)

    def commit(self, change: Change, identity: str | None = None) -> Snapshot:
        """Makes `change` the newest manifest; raises `Fenced` where another driver has taken over.

        Where the disk or memory fails (OSError, MemoryError) it may be in all the same: `settle` finds out.
        """
        self.settle()
        reached("before commit")
        try:
            self.snapshot = self.storage.next(self.snapshot, change, identity)
        except (OSError, MemoryError):
            self._settled = False
            raise
        reached("after commit")
        return self.snapshot

    def settle(self) -> None:
        """Goes on from what is in, after a commit that may be; raises what the disk still refuses."""
        if self._settled:
            return
        newest = self.storage.settle()
        if newest.epoch != self.epoch:
            raise Fenced(f"this driver's epoch is {self.epoch}, and the database is in epoch {newest.epoch}")
        self.snapshot, self._settled = newest, True

    def beat(self) -> None:
        """Shows that the driver lives; from time to time."""
        self._lock.beat()

    def close(self) -> None:
        """Ends the term."""
        self._lock.release()
