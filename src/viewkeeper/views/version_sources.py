"""Where reads get their version from: the newest commit, or one that is held."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from viewkeeper.changes.positions import Token
from viewkeeper.errors import Error, Timeout, storage_named
from viewkeeper.stores.contract import Store
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.lease import Lease
from viewkeeper.trace.snapshot import Snapshot
from viewkeeper.views.tokens import require_written
from viewkeeper.views.version import Version

POLL_SECONDS = (0.001, 0.005)
"""The shortest and longest pause between two looks for a newer version."""


class Versions(Protocol):
    """What a reader reads from."""

    def version(self) -> Version:
        """The version to read now, for a read of milliseconds."""

    def holding(self, token: Token, timeout: float) -> Version:
        """A version that holds the writes of `token`; raises Timeout, and StoreReplaced where they were lost."""

    def held(self) -> AbstractContextManager[Version]:
        """A version whose files stay until the context is left, however long that takes."""


class Newest:
    """Always the newest commit, of any process.  Without the store, tokens are taken at their word."""

    def __init__(self, storage: Storage, store: Store | None = None) -> None:
        self._storage, self._store = storage, store
        self._version = Version(storage.newest())
        self._closed = False

    def close(self) -> None:
        """Nothing is read any more."""
        self._closed = True

    def require_open(self) -> None:
        """Raises Error where the database has been closed."""
        if self._closed:
            raise Error(f"the database in {self._storage.root} is closed; connect to it again")

    def _require_same(self, snapshot: Snapshot) -> None:
        if snapshot.database != self._version.snapshot.database:
            raise Error(f"{self._storage.root} is another database than the one that was opened: it was deleted and "
                        "made anew; close this one and connect again")  # fmt: skip

    def version(self) -> Version:
        self.require_open()
        version = self._version
        snapshot = self._storage.refresh(version.snapshot)
        if snapshot is not version.snapshot:
            self._require_same(snapshot)
            version = self._version = Version(snapshot, version)
        return version

    def holding(self, token: Token, timeout: float) -> Version:
        end, pause = time.monotonic() + timeout, POLL_SECONDS[0]
        while True:
            version = self.version()
            self.require_written(token, version.snapshot)
            if token.covered_by(version.snapshot.positions):
                return version
            left = end - time.monotonic()
            if left <= 0:
                raise Timeout(f"after {timeout:g} s, {_how_far(version, token)}; is anybody maintaining? "
                              "db.maintain() or db.catch_up() does")  # fmt: skip
            time.sleep(min(pause, left))
            pause = min(pause * 2, POLL_SECONDS[1])

    def require_written(self, token: Token, snapshot: Snapshot) -> None:
        """Raises StoreReplaced where the writes of `token` were lost with a store that was replaced."""
        if self._store is not None:
            require_written(token, snapshot, self._store, self.version().snapshot.rebased)

    @contextmanager
    def held(self) -> Iterator[Version]:
        version, lease = self.lease()
        with lease:
            yield version

    def lease(self) -> tuple[Version, Lease]:
        """The newest version and a lease on it, which the caller must close."""
        self.require_open()
        with storage_named(self._storage.root):
            snapshot, lease = Lease.on_newest(self._storage)
            try:
                self._require_same(snapshot)
            except Error:
                lease.close()
                raise
        version = self._version
        return version if version.snapshot is snapshot else Version(snapshot, version), lease


class Held:
    """One version, whoever commits what; `close` lets its files go."""

    def __init__(self, newest: Newest) -> None:
        self._newest = newest
        self._version, self._lease = newest.lease()
        self._closed = False

    def version(self) -> Version:
        if self._closed:
            raise Error("the snapshot is closed; take another")
        self._lease.check()
        return self._version

    def holding(self, token: Token, timeout: float) -> Version:
        self._newest.require_written(token, self._version.snapshot)
        if not token.covered_by(self._version.snapshot.positions):
            raise Timeout(f"a snapshot stays as it is: {_how_far(self._version, token)}")
        return self._version

    @contextmanager
    def held(self) -> Iterator[Version]:
        yield self.version()

    def close(self) -> None:
        self._closed = True
        self._lease.close()


def _how_far(version: Version, token: Token) -> str:
    return f"version {version.number} does not hold the write yet ({token.missing(version.snapshot.positions)})"
