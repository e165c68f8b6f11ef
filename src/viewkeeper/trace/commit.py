"""Storage: the chain of manifests of one database, how it grows by one and how a process reads its end.

`docs/commit.md` explains the protocol and why it holds.
"""

from __future__ import annotations

import contextlib
import secrets
import time
import zlib
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from viewkeeper.catalog import codec
from viewkeeper.catalog.model import Catalog
from viewkeeper.errors import Damaged, Fenced, NotFound
from viewkeeper.plans import read_catalog
from viewkeeper.trace import lease
from viewkeeper.trace.disk import CATALOGS, MANIFESTS, STATE, TRIES, Disk, FolderMark, Taken, Unknown, create_own
from viewkeeper.trace.manifest import CatalogRef, Manifest
from viewkeeper.trace.run import close_files_except
from viewkeeper.trace.snapshot import Change, Snapshot, advance, follow

CATALOGS_REMEMBERED = 4
GLANCE_SECONDS = 0.001
"""So long the file of the newest manifest is taken to be the one that was read; whether there is a newer one is looked
at every time."""


SETTLED_SECONDS = 0.05
"""So long a folder has to have been as it is before its mark tells it from what it becomes: the times that a file
system gives go by ticks of up to ten milliseconds, and two changes within one look alike."""


class _Known(NamedTuple):
    """The newest snapshot seen, when it was known to be the newest, and the marks of its manifest (`Status.mark`) and
    of the folder of manifests then."""

    snapshot: Snapshot
    confirmed: float
    mark: Hashable
    folder: FolderMark | None = None


class Storage:
    """One database on `disk`.  Any number of processes read; one, the driver, commits.

    `root` is its folder on this machine, where its store and its locks are.  A replaced manifest, and the files it
    names, stay at least `keep_seconds`.
    """

    def __init__(self, root: Path, disk: Disk, keep_seconds: float = 60.0) -> None:
        self.root, self.disk, self.keep_seconds = Path(root), disk, keep_seconds
        self.epoch: int | None = None  # the one taken by this process, once it is the driver
        # Threads share these two without a lock: both are replaced, never changed.
        self._known: _Known | None = None
        self._catalogs: dict[CatalogRef, Catalog] = {}
        self._unsettled: Manifest | None = None

    def another(self) -> Storage:
        """The same database for another user: nothing is known of it yet, and its driver is not this one."""
        return Storage(self.root, self.disk, self.keep_seconds)

    def initialise(self, catalog: Catalog) -> Snapshot:
        """Make the database, at version 0; if it is there already (another process was first), its newest snapshot."""
        self.disk.make_folders()
        if not self.numbers():
            first = Manifest(number=1, version=0, epoch=1, kind="epoch", database=secrets.token_hex(8),
                             identity=secrets.token_hex(8), follows="", since=1, positions={}, stamp=0,
                             catalog=self._write_catalog(1, 1, catalog))  # fmt: skip
            with contextlib.suppress(Fenced):
                self.commit(first)
        return self.newest()

    # Reading

    def newest(self) -> Snapshot:
        """The snapshot of the newest manifest.  Exact, and in microseconds when nothing is new.

        A manifest is the newest if the next number does not exist; but that may have come and been pruned.  It is kept
        for `keep_seconds` after it was replaced, so whoever looks more often than that cannot miss it, and whoever
        does not lists the folder.  And the file at hand must still be the one that was read (GLANCE_SECONDS ago at
        most): the folder may have been made anew, or an older copy put back.  Where the folder itself is as it was
        then, none of that has happened.
        """
        if self._known is None:
            return self._open_newest()
        snapshot, confirmed, mark, known_folder = self._known
        folder = self.disk.folder_mark(MANIFESTS)
        if folder is not None and folder == known_folder:
            return snapshot
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
        if mark is None or self._mark(snapshot.number) != mark:
            try:
                manifest, mark = self._read(snapshot.number)
            except FileNotFoundError:
                return self._open_newest()
            if manifest.identity != snapshot.identity:
                return self._open_newest()
        # The same clock as file times, and so as pruning: if somebody sets it, both notice.
        if not 0 <= time.time() - confirmed < self.keep_seconds / 3 and self.numbers()[-1] != snapshot.number:
            return self._open_newest()
        settled = folder is not None and looked - folder.changed > SETTLED_SECONDS
        self._see(snapshot, looked, mark, folder if settled else None)
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

    def _read(self, number: int) -> tuple[Manifest, Hashable]:
        name = manifest_name(number)
        # In this order: where it is replaced in between, the mark is that of what was there, and it is read again.
        mark = self.disk.stat(name).mark
        manifest = Manifest.decode(self.disk.read(name), name.rpartition("/")[2])
        if manifest.number != number:
            raise Damaged(f"manifest {number:012d}.json says that its number is {manifest.number}")
        return manifest, mark

    def _mark(self, number: int) -> Hashable:
        try:
            return self.disk.stat(manifest_name(number)).mark
        except FileNotFoundError:
            return None

    def numbers(self) -> list[int]:
        """The numbers of all manifests, ascending."""
        return [int(name.removesuffix(".json")) for name in self.disk.list(MANIFESTS)]

    def exists(self, number: int) -> bool:
        return self.disk.exists(manifest_name(number))

    def committed_at(self, number: int) -> float:
        """When manifest `number` got its name, in seconds since 1970 by the clock of the disk."""
        return self.disk.stat(manifest_name(number)).time

    def is_recent(self, number: int) -> bool:
        """Whether manifest `number` is the newest, or was replaced so lately that pruning cannot have come to it.

        Pruning begins at `keep_seconds`; half of that leaves room for clocks that are set.
        """
        try:
            return time.time() - self.committed_at(number + 1) < self.keep_seconds / 2
        except FileNotFoundError:
            return self.numbers()[-1] == number

    def catalog(self, ref: CatalogRef) -> Catalog:
        """The catalog that a manifest names; the last few are remembered."""
        catalog = self._catalogs.get(ref)
        if catalog is None:
            data = self.disk.read(f"{CATALOGS}/{ref.name}")
            if len(data) != ref.length or zlib.crc32(data) != ref.checksum:
                raise Damaged(f"catalog {ref.name} is damaged: its {len(data)} bytes are not the {ref.length} written")
            catalog = read_catalog(data)
            self._remember(ref, catalog)
        return catalog

    def held(self) -> set[int]:
        """The numbers of the manifests that somebody holds a lease on."""
        return lease.held(self.disk, time.time())

    def summary(self) -> dict[str, int]:
        """What lies in the folder: manifests and zone files kept, the files' bytes, manifests under lease."""
        sizes = []
        for name in self.disk.list(STATE):
            with contextlib.suppress(FileNotFoundError):  # collected just now
                sizes.append(self.disk.stat(f"{STATE}/{name}").bytes)
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
        """Become the driver: from now on whoever was it fails to commit.  The caller holds the driver's `Lock`.

        What the driver before has committed meanwhile is followed; `Fenced` where its epoch is not below this one's.
        """
        self.epoch, self._unsettled = None, None  # an earlier term of this process is over
        while True:
            try:
                taken = self.next(snapshot, Change("epoch", snapshot.version))
            except Fenced:
                newest = self.newest()
                if newest.number <= snapshot.number or (newest.database, newest.epoch) != (
                    snapshot.database, snapshot.epoch
                ):  # fmt: skip
                    raise
                snapshot = newest
            else:
                self.epoch = taken.epoch
                return taken

    def commit(self, manifest: Manifest) -> None:
        """Create the file of `manifest`; the database is at that step when this returns.

        `Fenced` if the number is taken by another, or was: a driver that slept while its successor went far ahead may
        find the number free again, or the file that took it gone.  Where nobody can tell whether it is there the
        OSError says so, and `settle` has to be called before anything that it names is deleted.
        """
        name, data = manifest_name(manifest.number), manifest.encode()
        asked, self._unsettled = self._unsettled, manifest
        try:
            outcome = self.disk.create(name, data)
        except OSError:
            self._unsettled = asked  # this call has made nothing
            raise
        for _ in range(TRIES - 1):
            if not isinstance(outcome, Unknown):
                break
            outcome = self.disk.create(name, data)
        if isinstance(outcome, Unknown):
            raise outcome.reason
        fenced = isinstance(outcome, Taken) and not self._is_there(manifest)
        if not fenced:
            fenced = self.numbers()[-1] != manifest.number and not self._is_followed(manifest)
        self._unsettled = None
        if fenced:
            raise self._fenced(manifest)

    def settle(self) -> Snapshot:
        """The newest snapshot, once it is certain whether the last commit is in: one that may be is created again."""
        if self._unsettled is not None:
            self.commit(self._unsettled)
        return self.newest()

    def _require_present(self, snapshot: Snapshot) -> None:
        """Raises `Fenced` where the manifest to be followed is not there any more: it is never pruned before it is."""
        known, mark = self._known, self._mark(snapshot.number)
        if mark is not None and known is not None and known.snapshot is snapshot and known.mark == mark:
            return
        with contextlib.suppress(FileNotFoundError):
            if self._is_there(snapshot):
                return
            if self.numbers()[-1:] > [snapshot.number]:
                return  # it was followed, and pruned: committing finds out by whom
        raise Fenced(f"{self.root} is not the database that this driver maintains any more: it was made anew, or an "
                     "older copy was put back; the driver must stop")  # fmt: skip

    def _is_there(self, manifest: Manifest | Snapshot) -> bool:
        """Whether it is this one that has its number, and not another."""
        try:
            return self.read(manifest.number).identity == manifest.identity
        except FileNotFoundError:
            return False

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
            try:
                numbers = self.numbers()
            except FileNotFoundError:
                if self._known is not None:
                    raise  # a folder that was there and is gone is for the operating system to name
                numbers = []
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

    def _see(
        self, snapshot: Snapshot, confirmed: float, mark: Hashable, folder: FolderMark | None = None
    ) -> None:  # fmt: skip
        if self._known is not None and self._known.snapshot.files is not snapshot.files:
            close_files_except(self.disk, snapshot.files)
        self._known = _Known(snapshot, confirmed, mark, folder)

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
        create_own(self.disk, f"{CATALOGS}/{name}", data)
        ref = CatalogRef(name, len(data), zlib.crc32(data))
        self._remember(ref, catalog)
        return ref

    def _remember(self, ref: CatalogRef, catalog: Catalog) -> None:
        newest = list(self._catalogs.items())[-(CATALOGS_REMEMBERED - 1) :]
        self._catalogs = {**dict(newest), ref: catalog}


def manifest_name(number: int) -> str:
    """Where manifest `number` is."""
    return f"{MANIFESTS}/{number:012d}.json"
