"""Locks of one machine: at most one process at a time is the driver of a database, or follows under a name.

A lock is a `flock` on a file, which the kernel lets go when the process dies.  A note beside it says who holds it; it
is only for messages.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from viewkeeper.durable import replace
from viewkeeper.errors import Busy, Error
from viewkeeper.permissions import open_shared

BRIEF = "statement"
"""What it is held for only for a moment."""

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
    purpose: str

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"a {self.purpose} in process {self.pid} on {self.host}, since {since}"


class FileLock:
    """The lock on the file `path`, a `Lock`.  Not reentrant; not for several threads at once.  A child process does not
    hold it, and cannot release it.

    `is_held` says whether this object holds it; `refusal` is what others are told of its holder.
    """

    def __init__(self, path: Path, refusal: Callable[[Holder | None], str]) -> None:
        self._path, self._note, self._refusal = path, path.with_suffix(".json"), refusal
        self._descriptor: int | None = None
        self.is_held = False

    def acquire(self, purpose: str, wait_seconds: float) -> None:
        """Take the lock.  A statement is waited for, `wait_seconds` at most; others refuse at once.

        `Busy` says who holds it.
        """
        self._descriptor = open_shared(self._path)
        try:
            _open_locks.add(self)  # before it is locked: another thread may fork at any time
            self._wait(self._descriptor, wait_seconds)
            self.is_held = True
            note = Holder(os.getpid(), socket.gethostname(), time.time(), purpose)
            replace(str(self._note), json.dumps(asdict(note)).encode())
        except BaseException:  # a disk that is full, say: nobody would ever get the lock again
            self.forget()
            raise

    def _wait(self, descriptor: int, wait_seconds: float) -> None:
        started = time.monotonic()
        while not _try_lock(descriptor, fcntl.LOCK_EX):
            holder = self._read_note()
            lasting = holder is not None and holder.purpose != BRIEF
            patience = GRACE_SECONDS if lasting else max(wait_seconds, GRACE_SECONDS)
            if time.monotonic() - started >= patience:
                raise Busy(self._refusal(holder))
            time.sleep(POLL_SECONDS)

    def beat(self) -> None:
        """See `Lock`; the kernel knows whether the process lives."""
        if not self.is_held:
            raise Error(f"{self._path} is not locked by this process any more")

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


def driver_lock(root: Path) -> FileLock:
    """The lock of the driver of the database in `root`."""

    def refusal(holder: Holder | None) -> str:
        return f"{root} is maintained by {holder or 'another process'}: wait until it ends, or stop it"

    return FileLock(root / "driver.lock", refusal)


_open_locks: set[FileLock] = set()


def _forget_in_child() -> None:
    """A forked child shares the parent's descriptor: were it left open, a child that outlives a killed driver would
    keep the lock.  Closing it leaves the parent's lock alone; unlocking would not."""
    for lock in list(_open_locks):
        lock.forget()


os.register_at_fork(after_in_child=_forget_in_child)
