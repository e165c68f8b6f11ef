"""Storage: the chain of manifests of one database, how it grows by one and how a process reads its end.

`docs/commit.md` explains the protocol and why it holds.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from viewkeeper.catalog import codec
from viewkeeper.catalog.model import Catalog
from viewkeeper.errors import Damaged, Fenced, NotFound
from viewkeeper.permissions import make_folder, make_root
from viewkeeper.plans import read_catalog
from viewkeeper.trace import lease
from viewkeeper.trace.local import LocalDisk
from viewkeeper.trace.manifest import CatalogRef, Manifest
from viewkeeper.trace.run import close_files_except
from viewkeeper.trace.snapshot import Change, Snapshot, advance, follow

CATALOGS_REMEMBERED = 4
GLANCE_SECONDS = 0.001
"""So long the file of the newest manifest is taken to be the one that was read; whether there is a newer one is looked
at every time."""

Mark = tuple[int, int]
"""Inode and time of change of a manifest's file: as long as they are the same, so is the file."""


class _Known(NamedTuple):
    """The newest snapshot seen, when it was known to be the newest, and the mark of its manifest's file then."""

    snapshot: Snapshot
    confirmed: float
    mark: Mark | None


class Storage:
    """The folder of one database.  Any number of processes read; one, the driver, commits.

    A replaced manifest, and the files it names, stay at least `keep_seconds`.
    """

    def __init__(self, root: Path, keep_seconds: float = 60.0) -> None:
        self.root, self.keep_seconds = Path(root), keep_seconds
        self.state, self.manifests = self.root / "state", self.root / "manifests"
        self.catalogs, self.leases = self.root / "catalogs", self.root / "leases"
        self.disk = LocalDisk()
        self._prefix = f"{self.manifests}/"  # a text: `newest` runs in microseconds
        self.epoch: int | None = None  # the one taken by this process, once it is the driver
        # Threads share these two without a lock: both are replaced, never changed.
        self._known: _Known | None = None
        self._catalogs: dict[CatalogRef, Catalog] = {}

    def initialise(self, catalog: Catalog) -> Snapshot:
        """Make the database, at version 0; if it is there already (another process was first), its newest snapshot."""
        if not self.root.exists():
            make_root(self.root)
        for folder in (self.state, self.manifests, self.catalogs, self.leases):
            make_folder(folder)
            self.disk.publish(folder)
        if not self.numbers():
            first = Manifest(number=1, version=0, epoch=1, kind="epoch", database=secrets.token_hex(8),
                             identity=secrets.token_hex(8), follows="", since=1, positions={}, stamp=0,
                             catalog=self._write_catalog(1, 1, catalog))  # fmt: skip
            with contextlib.suppress(Fenced):
                self.commit(first)
        return self.newest()

    def publish(self, path: Path) -> None:
        """Return when the finished file `path` and its name are durable."""
        self.disk.publish(path)

    # Reading

    def newest(self) -> Snapshot:
        """The snapshot of the newest manifest.  Exact, and in microseconds when nothing is new.

        A manifest is the newest if the next number does not exist; but that may have come and been pruned.  It is kept
        for `keep_seconds` after it was replaced, so whoever looks more often than that cannot miss it, and whoever
        does not lists the folder.  And the file at hand must still be the one that was read (as of a millisecond ago):
        the folder may have been made anew, or an older copy put back.
        """
        if self._known is None:
            return self._open_newest()
        snapshot, confirmed, mark = self._known
        looked = time.time()
        if 0 <= looked - confirmed < GLANCE_SECONDS and not self.exists(snapshot.number + 1):
            return snapshot
        while self.exists(snapshot.number + 1):
            try:
                manifest, mark = self._read(snapshot.number + 1)
            except FileNotFoundError:
                return self._open_newest()
            if manifest.follows != snapshot.identity:
                return self._open_newest()
            snapshot = advance(self, snapshot, manifest)
            looked = time.time()
        if self._mark(snapshot.number) != mark:
            try:
                manifest, mark = self._read(snapshot.number)
            except FileNotFoundError:
                return self._open_newest()
            if manifest.identity != snapshot.identity:
                return self._open_newest()
        # The same clock as file times, and so as pruning: if somebody sets it, both notice.
        if not 0 <= time.time() - confirmed < self.keep_seconds / 3 and self.numbers()[-1] != snapshot.number:
            return self._open_newest()
        self._see(snapshot, looked, mark)
        return snapshot

    def refresh(self, snapshot: Snapshot) -> Snapshot:
        """The newest snapshot: `snapshot` itself if it still is."""
        newest = self.newest()
        return snapshot if newest.identity == snapshot.identity else newest

    def at(self, number: int, identity: str | None = None) -> Snapshot:
        """The snapshot of manifest `number`, which the caller knows to be kept; `NotFound` if it is not there, or is
        another than that of `identity`."""
        known = self._known.snapshot if self._known else None
        if known is not None and known.number == number and known.identity == identity:
            return known
        snapshot = self._at(number, known)
        if identity not in (None, snapshot.identity):
            raise NotFound(f"manifest {number} of {self.root} is another than the one that is asked for: the folder "
                           "was made anew, or an older copy was put back")  # fmt: skip
        return snapshot

    def _at(self, number: int, known: Snapshot | None) -> Snapshot:
        try:
            snapshot = self._replay(number, known)
        except FileNotFoundError as error:
            gone = Path(error.filename).name
            raise NotFound(f"manifest {number} of {self.root} is not kept: {gone} is gone") from None
        if known is None or known.number < number:
            self._see(snapshot, confirmed=0.0, mark=None)  # not known to be the newest
        return snapshot

    def read(self, number: int) -> Manifest:
        """Manifest `number`; FileNotFoundError where there is none, `Damaged` where it is not as it was written."""
        return self._read(number)[0]

    def _read(self, number: int) -> tuple[Manifest, Mark]:
        path = self.manifest_path(number)
        with path.open("rb") as file:
            mark = _mark(os.fstat(file.fileno()))
            manifest = Manifest.decode(file.read(), path.name)
        if manifest.number != number:
            raise Damaged(f"manifest {path.name} says that its number is {manifest.number}")
        return manifest, mark

    def _mark(self, number: int) -> Mark | None:
        try:
            return _mark(os.stat(self._path(number)))  # noqa: PTH116 (pathlib takes three times as long)
        except FileNotFoundError:
            return None

    def numbers(self) -> list[int]:
        """The numbers of all manifests, ascending."""
        with os.scandir(self.manifests) as entries:
            return sorted(int(entry.name.removesuffix(".json")) for entry in entries if entry.name[0] != ".")

    def exists(self, number: int) -> bool:
        return os.path.exists(self._path(number))  # noqa: PTH110 (pathlib takes three times as long)

    def committed_at(self, number: int) -> float:
        """When manifest `number` got its name, in seconds since 1970 by the clock of the file system."""
        return self.manifest_path(number).stat().st_ctime

    def is_recent(self, number: int) -> bool:
        """Whether manifest `number` is the newest, or was replaced so lately that pruning cannot have come to it.

        Pruning begins at `keep_seconds`; half of that leaves room for clocks that are set.
        """
        try:
            return time.time() - self.committed_at(number + 1) < self.keep_seconds / 2
        except FileNotFoundError:
            return self.numbers()[-1] == number

    def manifest_path(self, number: int) -> Path:
        return Path(self._path(number))

    def _path(self, number: int) -> str:
        return f"{self._prefix}{number:012d}.json"

    def catalog(self, ref: CatalogRef) -> Catalog:
        """The catalog that a manifest names; the last few are remembered."""
        catalog = self._catalogs.get(ref)
        if catalog is None:
            data = (self.catalogs / ref.name).read_bytes()
            if len(data) != ref.length or zlib.crc32(data) != ref.checksum:
                raise Damaged(f"catalog {ref.name} is damaged: its {len(data)} bytes are not the {ref.length} written")
            catalog = read_catalog(data)
            self._remember(ref, catalog)
        return catalog

    def held(self) -> set[int]:
        """The numbers of the manifests that somebody holds a lease on."""
        return lease.held(self.leases, time.time())

    def summary(self) -> dict[str, int]:
        """What lies in the folder: manifests and zone files kept, the files' bytes, manifests under lease."""
        sizes = []
        for path in self.state.iterdir():
            with contextlib.suppress(FileNotFoundError):  # collected just now
                sizes.append(path.stat().st_size)
        return {
            "manifests": len(self.numbers()), "files": len(sizes), "bytes": sum(sizes), "leased": len(self.held())
        }  # fmt: skip

    # Committing

    def next(self, snapshot: Snapshot, change: Change, identity: str | None = None) -> Snapshot:
        """Commit `change` as the manifest after `snapshot`, under `identity` if given, and return its snapshot.

        `Fenced` if somebody else has committed; `MergeOutdated` for a merge whose result must be thrown away, with
        nothing committed.  Any other error leaves open whether it is committed: `newest()` tells.
        """
        if self.epoch not in (None, snapshot.epoch):
            raise Fenced(f"this driver's epoch is {self.epoch}, and the database is in epoch {snapshot.epoch}: it has "
                         "been replaced and must stop")  # fmt: skip
        manifest = follow(snapshot, change, snapshot.catalog_ref, identity)
        if change.catalog is not None:
            written = self._write_catalog(manifest.number, manifest.epoch, change.catalog)
            manifest = replace(manifest, catalog=written)
        successor = advance(self, snapshot, manifest)
        looked = time.time()
        self._require_present(snapshot)
        self.commit(manifest)
        self._see(successor, looked, self._mark(manifest.number))
        return successor

    def new_epoch(self, snapshot: Snapshot) -> Snapshot:
        """Become the driver: from now on whoever was it fails to commit.  The caller holds the `DriverLock`."""
        self.epoch = None  # an earlier term of this process is over
        taken = self.next(snapshot, Change("epoch", snapshot.version))
        self.epoch = taken.epoch
        return taken

    def commit(self, manifest: Manifest) -> None:
        """Create the file of `manifest`; the database is at that step when this returns.

        `Fenced` if the number is taken, or was: a driver that slept while its successor went far ahead may find the
        number free again, pruned.
        """
        try:
            self.disk.create(self.manifest_path(manifest.number), manifest.encode())
        except FileExistsError:
            raise self._fenced(manifest) from None
        if self.numbers()[-1] != manifest.number and not self._is_followed(manifest):
            raise self._fenced(manifest)

    def _require_present(self, snapshot: Snapshot) -> None:
        """Raises `Fenced` where the manifest to be followed is not there any more: it is never pruned before it is."""
        known, mark = self._known, self._mark(snapshot.number)
        if mark is not None and known is not None and known.snapshot is snapshot and known.mark == mark:
            return
        with contextlib.suppress(FileNotFoundError):
            if self.read(snapshot.number).identity == snapshot.identity:
                return
        if self.manifests.exists() and self.numbers()[-1:] > [snapshot.number]:
            return  # it was followed, and pruned: committing finds out by whom
        raise Fenced(f"{self.root} is not the database that this driver maintains any more: it was made anew, or an "
                     "older copy was put back; the driver must stop")  # fmt: skip

    def _is_followed(self, manifest: Manifest) -> bool:
        try:
            return self.read(manifest.number + 1).follows == manifest.identity
        except FileNotFoundError:
            return False

    def _fenced(self, manifest: Manifest) -> Fenced:
        newest = self.read(self.numbers()[-1])
        return Fenced(
            f"manifest {manifest.number} of epoch {manifest.epoch} cannot be committed: the database is at manifest "
            f"{newest.number} of epoch {newest.epoch}. This driver has been replaced and must stop"
        )

    def _open_newest(self) -> Snapshot:
        while True:
            looked = time.time()
            # A folder that was there and is gone is for the operating system to name: it was moved or deleted.
            numbers = self.numbers() if self._known is not None or self.manifests.exists() else []
            if not numbers:
                raise NotFound(f"there is no database in {self.root}")
            try:
                snapshot = self._replay(numbers[-1], None)
            except FileNotFoundError as error:
                if self.numbers()[-1] != numbers[-1]:
                    continue  # a long pause: what was the newest has been pruned meanwhile
                missing = Path(error.filename).name
                raise Damaged(f"manifest {missing} of {self.root} is missing, and {numbers[-1]} builds on it") from None
            self._see(snapshot, looked, None)
            return snapshot

    def _see(self, snapshot: Snapshot, confirmed: float, mark: Mark | None) -> None:
        if self._known is not None and self._known.snapshot.files is not snapshot.files:
            close_files_except(self.state, snapshot.files)
        self._known = _Known(snapshot, confirmed, mark)

    def _replay(self, number: int, known: Snapshot | None) -> Snapshot:
        """Manifest `number`'s snapshot, from its checkpoint on, or from `known` on where that lies between."""
        last = self.read(number)
        snapshot = known if known is not None and last.since <= known.number < number else None
        start = last.since if snapshot is None else snapshot.number + 1
        for manifest in (*map(self.read, range(start, number)), last):
            if snapshot is not None and manifest.follows != snapshot.identity:
                if snapshot is known:
                    return self._replay(number, None)
                raise Damaged(f"manifest {manifest.number} of {self.root} does not follow the one before it")
            snapshot = advance(self, snapshot, manifest)
        assert snapshot is not None  # `last` itself is in the loop
        return snapshot

    def _write_catalog(self, number: int, epoch: int, catalog: Catalog) -> CatalogRef:
        data = codec.dumps(catalog)
        name = f"{number:012d}-e{epoch}-{secrets.token_hex(4)}.json"
        self.disk.create(self.catalogs / name, data)
        ref = CatalogRef(name, len(data), zlib.crc32(data))
        self._remember(ref, catalog)
        return ref

    def _remember(self, ref: CatalogRef, catalog: Catalog) -> None:
        newest = list(self._catalogs.items())[-(CATALOGS_REMEMBERED - 1) :]
        self._catalogs = {**dict(newest), ref: catalog}


def _mark(status: os.stat_result) -> Mark:
    return status.st_ino, status.st_ctime_ns
