"""The database in a folder: opened where there is one, made when something is to be written."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from viewkeeper.catalog.model import Catalog
from viewkeeper.errors import Error, NotFound, storage_named
from viewkeeper.settings import Settings, found, settle, wanted
from viewkeeper.stores.contract import Store, require_durability
from viewkeeper.stores.kinds import open_store
from viewkeeper.stores.logs import Logs
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.views.spark_frames import SparkFrames
from viewkeeper.views.spark_session import SparkUse
from viewkeeper.views.version_sources import Newest


@dataclass(frozen=True)
class Opened:
    """An open database."""

    storage: Storage
    store: Store
    newest: Newest
    spark: SparkUse
    frames: SparkFrames
    logs: Logs

    @staticmethod
    def of(storage: Storage, store: Store) -> Opened:
        """The database whose folder and store are open."""
        newest = Newest(storage, store)
        zone = newest.version().catalog.zone
        spark = SparkUse(zone)
        frames = SparkFrames(spark.session, holds=True)
        return Opened(storage, store, newest, spark, frames, Logs.of(store, zone))


class Opening:
    """The database in the folder `root`, which need not be there yet.

    To name `nodes` or `zone` is to make it: they are fixed then.  Else a folder without a database stays as it is until
    something is written.
    """

    def __init__(
        self, root: Path, nodes: int | None, zone: str | None, durability: str | None, opened: Opened | None = None
    ) -> None:  # fmt: skip
        self.root = root
        self._nodes, self._zone, self._durability = nodes, zone, durability
        self._lock = threading.Lock()
        self._opened = opened
        self._closed = False
        if opened is not None:
            return
        wanted(nodes, zone)
        require_durability(durability)
        with storage_named(root):
            settings = found(root, nodes, zone)
            if settings is not None:
                self._opened = self._open(settings)
            elif nodes is not None or zone is not None:
                self.made()

    @property
    def opened(self) -> Opened:
        """The database; raises NotFound where there is none."""
        return self._opened or self._found()

    def made(self) -> Opened:
        """The database, made where there is none."""
        self.require_open()
        with self._lock, storage_named(self.root):
            if self._opened is None:
                self._opened = self._open(settle(self.root, self._nodes, self._zone))
            return self._opened

    def require_open(self) -> None:
        """Raises Error where the database has been closed."""
        if self._closed:
            raise Error(f"the database in {self.root} is closed; connect to it again")

    def close(self) -> None:
        """Lets go of everything; once is enough."""
        self._closed = True
        if self._opened is None:
            return
        self._opened.newest.close()
        try:
            self._opened.frames.close()
            self._opened.spark.close()
        finally:
            self._opened.logs.close()
            self._opened.logs.outside.close()
            self._opened.store.close()

    def _found(self) -> Opened:
        """Looks again: another process may have made it."""
        self.require_open()
        with self._lock, storage_named(self.root):
            if self._opened is None:
                settings = found(self.root, self._nodes, self._zone)
                if settings is None:
                    raise NotFound(f"there is no database in {self.root}: name the folder of one, or make it, by a "
                                   f"first CREATE TABLE or by viewkeeper init --db {self.root}")  # fmt: skip
                self._opened = self._open(settings)
            return self._opened

    def _open(self, settings: Settings) -> Opened:
        storage = local_storage(self.root)
        storage.initialise(Catalog(zone=settings.zone))
        store = open_store(self.root, settings, self._durability)
        try:
            return Opened.of(storage, store)
        except BaseException:
            store.close()
            raise
