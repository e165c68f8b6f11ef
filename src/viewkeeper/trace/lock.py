"""The driver lock: on one machine, at most one process at a time is the driver of a database.

It is a `flock` on `driver.lock`, which the kernel lets go when the process dies.  `driver.json` beside it says who
holds it; it is only for messages.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from viewkeeper.errors import Busy
from viewkeeper.permissions import open_shared

if TYPE_CHECKING:
    from viewkeeper.trace.commit import Storage

Purpose = Literal["pipeline", "statement", "rebase"]

POLL_SECONDS = 0.01
GRACE_SECONDS = 0.05
"""The lock is tried for at least so long: it may be held for an instant by `holder`, or by one who has not yet written
who it is."""


@dataclass(frozen=True)
class Holder:
    """Who holds the lock: process, host, since when (seconds since 1970), and what for."""

    pid: int
    host: str
    since: float
    purpose: Purpose

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"a {self.purpose} in process {self.pid} on {self.host}, since {since}"


class DriverLock:
    """Not reentrant; not for several threads at once.  A child process does not hold it, and cannot release it.

    `is_held` says whether this object holds the lock.
    """

    def __init__(self, storage: Storage) -> None:
        self._root, self._disk = storage.root, storage.disk
        self._path, self._note = storage.root / "driver.lock", storage.root / "driver.json"
        self._descriptor: int | None = None
        self.is_held = False

    def acquire(self, purpose: Purpose, wait_seconds: float) -> None:
        """Take the lock.  A statement is waited for, `wait_seconds` at most; others refuse at once.

        `Busy` says who holds it.
        """
        self._descriptor = open_shared(self._path)
        try:
            _open_locks.add(self)  # before it is locked: another thread may fork at any time
            self._wait(self._descriptor, wait_seconds)
            self.is_held = True
            note = Holder(os.getpid(), socket.gethostname(), time.time(), purpose)
            self._disk.replace(self._note, json.dumps(asdict(note)).encode())
        except BaseException:  # a disk that is full, say: nobody would ever get the lock again
            self.forget()
            raise

    def _wait(self, descriptor: int, wait_seconds: float) -> None:
        started = time.monotonic()
        while not _try_lock(descriptor, fcntl.LOCK_EX):
            holder = self._read_note()
            lasting = holder is not None and holder.purpose != "statement"
            patience = GRACE_SECONDS if lasting else max(wait_seconds, GRACE_SECONDS)
            if time.monotonic() - started >= patience:
                raise Busy(
                    f"{self._root} is maintained by {holder or 'another process'}: wait until it ends, or stop it"
                )
            time.sleep(POLL_SECONDS)

    def release(self) -> None:
        """Let the lock go; once is enough."""
        if self.is_held:
            try:
                self._note.unlink(missing_ok=True)
            finally:
                self.forget()

    def forget(self) -> None:
        """Close this process's descriptor; the lock itself goes when no process has one."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            _open_locks.discard(self)
        self._descriptor, self.is_held = None, False

    def holder(self) -> Holder | None:
        """Who holds the lock, in this process or another; None if nobody does."""
        try:
            descriptor = os.open(self._path, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            return None if _try_lock(descriptor, fcntl.LOCK_SH) else self._read_note()
        finally:
            os.close(descriptor)

    def _read_note(self) -> Holder | None:
        try:
            return Holder(**json.loads(self._note.read_bytes()))
        except (FileNotFoundError, ValueError):  # not written yet, or cut off by a power failure
            return None


def _try_lock(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


_open_locks: set[DriverLock] = set()


def _forget_in_child() -> None:
    """A forked child shares the parent's descriptor: were it left open, a child that outlives a killed driver would
    keep the lock.  Closing it leaves the parent's lock alone; unlocking would not."""
    for lock in list(_open_locks):
        lock.forget()


os.register_at_fork(after_in_child=_forget_in_child)
