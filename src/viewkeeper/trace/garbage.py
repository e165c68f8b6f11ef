"""Garbage: which manifests are kept, and deleting every file that none of them names.

Kept are the newest manifest, those under lease, and those replaced less than `keep_seconds` ago; and of the others
what these need to be read: the chain from their checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from viewkeeper.errors import Fenced
from viewkeeper.trace import lease
from viewkeeper.trace.commit import Storage, manifest_name
from viewkeeper.trace.disk import CATALOGS, STATE
from viewkeeper.trace.manifest import Manifest
from viewkeeper.trace.naming import parse_file_name
from viewkeeper.trace.snapshot import Snapshot

LEFTOVER_SECONDS = 3600
"""From this age on a file without its final name is one that a killed process left."""


@dataclass(frozen=True)
class Collected:
    """What a collection deleted: manifests, zone files, and the bytes of the latter.  `oldest` is the oldest manifest
    that is kept: what logs hold behind it somebody may still want to read."""

    manifests: int
    files: int
    bytes: int
    oldest: Manifest


def collect(storage: Storage, snapshot: Snapshot, running: Collection[int], now: float) -> Collected:
    """Prune manifests and delete what no kept one names.  Only the driver calls it, and holds the driver lock.

    `snapshot` is the newest in the driver's eyes; `now` is in seconds since 1970.  `running` are the attempts (see
    `FileName`) of this epoch whose files may still be committed.  It may change meanwhile, if an attempt is in it from
    before its first file until after its commit.
    """
    if (newest := storage.newest()).epoch != snapshot.epoch:
        raise Fenced(f"this driver's epoch is {snapshot.epoch}, and the database is in epoch {newest.epoch}")
    # In this order: a file seen here whose attempt is not running after it is either in a manifest listed after that,
    # or will never be.
    disk = storage.disk
    candidates = [name for name in disk.list(STATE) if _may_go(name, snapshot.epoch, running)]
    kept, pruned = _prune(storage, now)
    catalogs, files = _named(storage, kept)
    garbage = [f"{STATE}/{name}" for name in candidates if name not in files]
    size = sum(disk.stat(name).bytes for name in garbage)
    disk.delete(garbage)
    # A catalog is written before its manifest: one of a number yet to come is not garbage.
    disk.delete([f"{CATALOGS}/{name}" for name in disk.list(CATALOGS)
                 if name not in catalogs and int(name.partition("-")[0]) <= kept[-1]])  # fmt: skip
    _sweep(storage, now)
    return Collected(pruned, len(garbage), size, storage.read(kept[0]))


def named_files(storage: Storage, now: float) -> tuple[set[str], Manifest]:
    """The files that kept manifests name, and the oldest of these manifests."""
    kept, _ = _kept(storage, storage.numbers(), storage.held(), now)
    return _named(storage, kept)[1], storage.read(kept[0])


def _may_go(name: str, epoch: int, running: Collection[int]) -> bool:
    parsed = parse_file_name(name)
    if parsed is None:
        return False
    return parsed.epoch < epoch or (parsed.epoch == epoch and parsed.attempt not in running)


def _prune(storage: Storage, now: float) -> tuple[list[int], int]:
    """The kept manifests, ascending, and how many others were deleted."""
    numbers = storage.numbers()
    # After the numbers: a lease that is missed here was written when its manifest was no longer recent, and the reader
    # finds that out (`Storage.is_recent`).
    kept, needed = _kept(storage, numbers, storage.held(), now)
    doomed = [manifest_name(number) for number in numbers if number not in needed]
    # Before any zone file: a power failure must not bring a manifest back without its files.
    storage.disk.delete(doomed, lasting=True)
    return kept, len(doomed)


def _kept(storage: Storage, numbers: list[int], leased: set[int], now: float) -> tuple[list[int], set[int]]:
    """The manifests that are kept, ascending, and all that are needed to read them."""
    wanted = [number for number, successor in pairwise(numbers)
              if number in leased or now - storage.committed_at(successor) < storage.keep_seconds]  # fmt: skip
    present, kept, needed = set(numbers), [], set[int]()
    for number in (*wanted, numbers[-1]):
        chain = {number}
        if number - 1 not in needed:
            chain.update(range(storage.read(number).since, number))
        # What a replaced driver committed where the chain was pruned cannot be read, by anybody.
        if chain <= present:
            kept.append(number)
            needed |= chain
    return kept, needed


def _named(storage: Storage, kept: list[int]) -> tuple[set[str], set[str]]:
    """The catalogs and the zone files that the `kept` manifests name."""
    catalogs, files = set(), set()
    for first, last in _ranges(kept):
        held: set[str] = set()
        for number in range(storage.read(first).since, last + 1):
            manifest = storage.read(number)
            held.update(file.name for file in manifest.files_added)
            if number <= first:
                held.difference_update(manifest.files_removed)
            if number >= first:
                catalogs.add(manifest.catalog.name)
        files |= held
    return catalogs, files


def _ranges(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as ranges without gaps, both ends inclusive."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def _sweep(storage: Storage, now: float) -> None:
    """Delete what killed processes left: leases long run out, and files that never got their final names."""
    disk = storage.disk
    disk.delete([name for name, _, expiry in lease.notes(disk) if now - expiry > storage.keep_seconds])
    disk.sweep(now - LEFTOVER_SECONDS)
