"""The write lock of an LMDB environment, of our own, in front of LMDB's.

LMDB's lock is waited for in C: for ever, deaf to Ctrl-C, and it names nobody.  So whoever writes takes this one first,
and finds LMDB's free.  It is a `flock` on a file, gone with its holder however that dies.

It is held by holding an open file, and taken within `uninterrupted`: Ctrl-C is heard while the lock is waited for, and
before it is taken and after it is released.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from contextlib import suppress
from datetime import datetime
from io import FileIO
from pathlib import Path
from weakref import WeakSet

from viewkeeper.errors import Busy, Error, InputError
from viewkeeper.interrupts import let_through
from viewkeeper.permissions import open_shared
from viewkeeper.stores.forks import forks
from viewkeeper.stores.words import LockWords

PATIENCE = "VIEWKEEPER_LOCK_SECONDS"
"""The environment variable that says for how long a lock is waited for before Busy is raised."""
PATIENCE_SECONDS = 60.0
_TOLD_AFTER_SECONDS = 5.0
_SHORT_WAITS = (0.0001, 0.0002, 0.0004, 0.0008)
"""Most waits end within these; the others are worth a thread that waits in the kernel."""
_LOOK_SECONDS = 0.02

log = logging.getLogger("viewkeeper")
_files: WeakSet[FileIO] = WeakSet()


class WriterLock:
    """The write lock of one environment; `file` is made where it is absent, beside `words`.

    `take` gives an open file, and `release` takes it back: the lock is held until then.  Threads of one process exclude
    each other as processes do.
    """

    def __init__(self, file: Path, words: LockWords) -> None:
        self._path, self._words = file, words
        self._idle: list[FileIO] = []
        self._given_up: list[_Wait] = []

    def take(self) -> FileIO:
        """Waits until nobody else holds it.  Raises Busy, naming the holder, after a time."""
        file = self._idle.pop() if self._idle else _opened(self._path)
        if self._words.waited_for_long or not _locked_at_once(file):
            file = self._waited_for(file)
        self._words.write()
        return file

    def release(self, file: FileIO) -> None:
        """Lets others have it."""
        fcntl.flock(file, fcntl.LOCK_UN)
        self._idle.append(file)

    def close(self) -> None:
        """Closes the files that are not in use."""
        self._idle.clear()

    def _waited_for(self, file: FileIO) -> FileIO:
        for seconds in () if self._words.waited_for_long else _SHORT_WAITS:
            time.sleep(seconds)
            if _locked_at_once(file):
                return file
        begin, patience, told = time.monotonic(), _patience(), False
        wait = self._given_up.pop() if self._given_up else None
        if wait is None or not wait.want():
            wait = _Wait(file, self._path.with_suffix(".queue"), self._words)
        try:
            while not wait.got.wait(_LOOK_SECONDS):
                self._words.waited_for_long = not wait.got.is_set()
                let_through()
                forks.step_aside()
                waited = time.monotonic() - begin
                if waited > patience:
                    raise Busy(f"{self._path.parent}: not written for {waited:.0f} s: {self._holder_named()} has the "
                               "write lock; wait for it, or end it (nothing is lost), then try again")  # fmt: skip
                if waited > _TOLD_AFTER_SECONDS and not told:
                    log.warning("%s: waiting for the write lock, which %s has", self._path.parent, self._holder_named())
                    told = True
            return wait.file
        except BaseException:
            if wait.give_up():
                self._given_up.append(wait)
            raise

    def _holder_named(self) -> str:
        pid, since = self._words.read()
        who = f"a thread of this process ({pid})" if pid == os.getpid() else f"process {pid}{_state(pid)}"
        return f"{who}, since {datetime.fromtimestamp(since):%Y-%m-%d %H:%M:%S},"


class _Wait:
    """A thread that waits for a lock in the kernel, for somebody who can give up.  `file` holds the lock once it is
    `got`.

    Whoever releases the lock and takes it again at once is faster than those who are woken.  So these wait in a queue,
    a second lock, and once the first one has waited for long everybody goes there.
    """

    def __init__(self, file: FileIO, queue: Path, words: LockWords) -> None:
        self.file = file
        self.got = threading.Event()
        self._words = words
        self._wanted, self._guard = True, threading.Lock()
        threading.Thread(target=self._run, args=(_opened(queue),), name="viewkeeper waits", daemon=True).start()

    def _run(self, queue: FileIO) -> None:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(self.file, fcntl.LOCK_EX)
        with self._guard:
            if not self._wanted:
                _let_go(self.file)
            self.got.set()
        with suppress(ValueError):  # Given up, and the store closed since: whoever waits next takes it back.
            self._words.waited_for_long = False
        _let_go(queue)

    def give_up(self) -> bool:
        """Lets the lock go as soon as it is got; whether that is still to come."""
        with self._guard:
            self._wanted = False
            if self.got.is_set():
                _let_go(self.file)
            return not self.got.is_set()

    def want(self) -> bool:
        """The opposite; False where it has been let go meanwhile."""
        with self._guard:
            self._wanted = not self.got.is_set()
            return self._wanted


def _opened(path: Path) -> FileIO:
    try:
        file = FileIO(open_shared(path), "r+")
    except FileNotFoundError:
        raise Error(f"{path.parent} was deleted while it was open; close the database and connect again") from None
    _files.add(file)
    return file


def _let_go(file: FileIO) -> None:
    # Unlocked first: a child that is forked while it is being closed has a copy of it that nobody closes.
    fcntl.flock(file, fcntl.LOCK_UN)
    file.close()


def _locked_at_once(file: FileIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _patience() -> float:
    text = os.environ.get(PATIENCE, "")
    try:
        return float(text) if text else PATIENCE_SECONDS
    except ValueError:
        raise InputError(f"{PATIENCE}={text!r}: expected seconds, such as {PATIENCE_SECONDS:g}") from None


def _state(pid: int) -> str:
    """What is worth to know of a process, where the system says it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
    return ", which is stopped (kill -CONT lets it go on)" if state in "Tt" else ""


def _let_go_in_child() -> None:
    """A file that a child keeps open would hold its parent's lock beyond the parent's death."""
    for file in list(_files):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
