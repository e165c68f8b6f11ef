"""Forks beside the transactions of other threads.

LMDB's environments must not be used in a child; it opens them anew.  No transaction of the parent may be open then.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from viewkeeper.errors import Busy

_WAIT_SECONDS = 10


class Forks:
    """Keeps forks and the short transactions of other threads apart."""

    def __init__(self) -> None:
        # Taken by itself, not by the condition: only then can Ctrl-C not come between taking and letting go.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._undone = 0
        self._waiting = 0  # Forks that wait: no thread begins anything before them, else they might wait for ever.
        self._own = threading.local()
        self.opening = threading.Lock()  # A folder is opened, and closed, by one thread at a time; no fork meanwhile.
        self.interrupted = False  # In a child: other threads' transactions were open at the fork after all.

    @contextmanager
    def kept_out(self) -> Iterator[None]:
        """No fork happens within this block."""
        within = getattr(self._own, "undone", 0)
        counted = False
        try:
            with self._lock:
                if self._waiting and not within:  # Else a fork waits for this very thread.
                    self._changed.wait_for(lambda: not self._waiting)
                self._undone += 1
                counted = True
            self._own.undone = within + 1
            yield
        finally:
            if counted:
                self._own.undone = within
                with self._lock:
                    self._undone -= 1
                    if self._waiting:
                        self._changed.notify_all()

    def step_aside(self) -> None:
        """Lets forks go first that wait for this thread, which is within `kept_out`, but has no transaction open."""
        within = getattr(self._own, "undone", 0)
        with self._lock:
            if self._waiting and within:
                self._undone -= within
                try:
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: not self._waiting)
                finally:
                    self._undone += within

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within this block no other thread is within `kept_out`; for a thread that has no transaction open.

        Raises Busy where another thread's transaction does not end.
        """
        within = getattr(self._own, "undone", 0)
        with self._lock:
            self._undone -= within
            self._waiting += 1
            try:
                self._changed.notify_all()
                if not self._changed.wait_for(lambda: not self._undone, timeout=_WAIT_SECONDS):
                    raise Busy("another thread of this process is in a transaction for too long; try again")
                yield
            finally:
                self._waiting -= 1
                self._undone += within
                self._changed.notify_all()

    def before(self) -> None:
        self._changed.acquire()
        self._waiting += 1
        self._changed.wait_for(lambda: not self._undone, timeout=_WAIT_SECONDS)

    def after_in_parent(self) -> None:
        self._waiting -= 1
        self._changed.notify_all()
        self._changed.release()

    def after_in_child(self) -> None:
        self.interrupted, self._undone, self._waiting = bool(self._undone), 0, 0
        self.opening = threading.Lock()
        self._changed.release()


forks = Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=forks.before, after_in_parent=forks.after_in_parent, after_in_child=forks.after_in_child)
