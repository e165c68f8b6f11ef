"""Leases: how a reader keeps the files of one manifest while it uses them, for as long as it lives.

A lease is a file in `leases/`: `{"number": 17, "expiry": seconds since 1970, "pid": ..., "host": ...}`.  A thread, one
a process, renews it; a reader that dies stops renewing, and its lease runs out.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator

from viewkeeper.errors import Error
from viewkeeper.trace.disk import LEASES, Disk
from viewkeeper.trace.snapshot import Chain, Snapshot

SECONDS = 30.0


class LeaseLost(Error):
    """The manifest may be gone: it was old when the lease was written, or the lease ran out unrenewed."""


class Lease:
    """Keeps manifest `number` until it is closed; it ends by itself `seconds` after the process does.

    Raises `LeaseLost` if the manifest is not the newest nor was so a moment ago: take a newer one
    (`Lease.on_newest`).  After a fork it belongs to the parent alone.
    """

    def __init__(self, storage: Chain, number: int, seconds: float = SECONDS) -> None:
        self.number, self.seconds = number, seconds
        self._disk = storage.disk
        self._name = f"{LEASES}/{number:012d}-{os.getpid()}-{secrets.token_hex(4)}.json"
        self._owner = os.getpid()
        self._lost = False
        try:
            self._write()
            # In this order: pruning looks at the numbers first and then at the leases, so one of the two sees the
            # other.
            if not storage.is_recent(number):
                raise LeaseLost(f"manifest {number} was replaced too long ago: it may not be kept any more")
            _renewer.add(self)
        except BaseException:
            self._disk.delete([self._name])
            raise

    @classmethod
    def on_newest(cls, storage: Chain, seconds: float = SECONDS) -> tuple[Snapshot, Lease]:
        """The newest snapshot, and a lease on it."""
        while True:
            snapshot = storage.newest()
            try:
                return snapshot, cls(storage, snapshot.number, seconds)
            except LeaseLost:
                continue  # this process slept between the two lines, for longer than manifests are kept

    def check(self) -> None:
        """Raise `LeaseLost` if the lease has run out, as it does when a process is stopped for long."""
        if self._lost or time.time() >= self._expiry:
            raise LeaseLost(f"the lease on manifest {self.number} ran out: this process was stopped for too long")

    def close(self) -> None:
        """Let the manifest go; closing twice is closing once."""
        if self._owner == os.getpid():
            _renewer.discard(self)
            self._disk.delete([self._name])

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def renew_if_due(self) -> None:
        """Start its time again after a third of it; too late, and it is lost, whatever the file says: collection may
        have passed it by."""
        if time.time() < self.due:
            return
        self.due += self.seconds / 3
        expiry = self._expiry
        try:
            self._write()
        except (OSError, MemoryError):
            return  # a full disk, say: there are two more tries before it runs out
        if time.time() >= expiry:
            self._lost = True

    def _write(self) -> None:
        now = time.time()
        expiry = now + self.seconds
        note = {"number": self.number, "expiry": expiry, "pid": self._owner, "host": socket.gethostname()}
        self._disk.put(self._name, json.dumps(note).encode())
        self._expiry, self.due = expiry, now + self.seconds / 3


def held(disk: Disk, now: float) -> set[int]:
    """The numbers of the manifests that have a lease at `now`, seconds since 1970."""
    return {number for _, number, expiry in notes(disk) if expiry > now}


def notes(disk: Disk) -> Iterator[tuple[str, int, float]]:
    """Each lease's name, manifest number and expiry.  A file that cannot be read was cut off by a power failure, which
    no reader survives: it has run out."""
    for each in disk.list(LEASES):
        name = f"{LEASES}/{each}"
        try:
            note = json.loads(disk.read(name))
            yield name, note["number"], note["expiry"]
        except FileNotFoundError:
            continue  # closed just now
        except ValueError:
            yield name, 0, 0.0


class _Renewer:
    """The one thread of a process that renews its leases; it runs while there are any."""

    def __init__(self) -> None:
        self._leases: set[Lease] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, lease: Lease) -> None:
        with self._changed:
            self._leases.add(lease)
            try:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="viewkeeper leases", daemon=True)
                    thread.start()
                    self._thread = thread
            except BaseException:  # no more threads, say: the next lease tries again
                self._leases.discard(lease)
                raise
            self._changed.notify()

    def discard(self, lease: Lease) -> None:
        with self._changed:
            self._leases.discard(lease)
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            try:
                while self._leases:
                    due = min(lease.due for lease in self._leases)
                    self._changed.wait(max(due - time.time(), 0.0))
                    for lease in self._leases:
                        lease.renew_if_due()
            finally:
                self._thread = None


_renewer = _Renewer()


def _forget_parent() -> None:
    global _renewer
    _renewer = _Renewer()


os.register_at_fork(after_in_child=_forget_parent)
