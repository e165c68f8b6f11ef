"""One node's LMDB environment and its tables; and what all LMDB environments here have in common: the size of their
maps, and LMDB's errors in words."""

from __future__ import annotations

import errno
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import lmdb

from viewkeeper.changes import entries
from viewkeeper.errors import Error, StorageError
from viewkeeper.permissions import file_rights, settle_file
from viewkeeper.stores.locks import WriterLock

SEQUENCE = struct.Struct(">Q")
MAP_BYTES = 1 << 35
"""The least map.  It is address space only, of which a process has 128 TiB; the file is as long as its data."""
_MAP_BYTES_LEAST = 1 << 28
_READERS_MAX = 1024
_TABLES_MAX = 4


class MapTooSmall(Error):
    """The map of an environment must be enlarged (`enlarge`), then what failed can be done again."""


class Tail(NamedTuple):
    """The end of a node's log: its last sequence (0 where it is empty), and the running hash of all of it."""

    sequence: int
    hash: bytes


class OpenFile:
    """Which file an environment has open: while it is open, no other file has its inode."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, str(folder / "data.mdb")
        self._inode = self._now()

    def is_there(self) -> bool:
        """Whether it still is what is found in the folder."""
        return self._now() == self._inode

    def require_there(self) -> None:
        """Raises Error where it is not: whatever is written would be lost with the deleted file."""
        if self._now() != self._inode:
            raise Error(f"{self._folder} was deleted, or another copy was put in its place, while it was open; close "
                        "the database and connect again")  # fmt: skip

    def _now(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)  # noqa: PTH116 (pathlib takes three times as long)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino


class Node:
    """One environment and its tables."""

    def __init__(self, folder: Path, sync: bool, lock: WriterLock) -> None:
        self.environment = open_environment(folder, sync)
        self.file = OpenFile(folder)
        once_per_row = {"dupsort": True, "dupfixed": True}
        tables = {b"log": {}, b"rows": {}, b"equal": once_per_row, b"intent": {}}
        self.log, self.rows, self.equal, self.intent = open_tables(self.environment, lock, tables)

    def end(self, txn: Any) -> int:
        """The last sequence in the log; 0 where it is empty."""
        return self.tail(txn).sequence

    def tail(self, txn: Any) -> Tail:
        """Where the log ends, which the next entry follows."""
        cursor = txn.cursor(self.log)
        if not cursor.last():
            return Tail(0, entries.EMPTY_LOG)
        key, entry = cursor.item()
        counted = entries.count_and_stamp(entry)
        return Tail(int(SEQUENCE.unpack(key)[0]) + (counted[0] if counted else 1) - 1, entries.running_hash(entry))

    def greatest_stamp(self) -> int:
        """The stamp of the log's last entry that is sound; 0 where there is none."""
        with self.environment.begin() as txn:
            for entry in txn.cursor(self.log).iterprev(keys=False, values=True) if self.end(txn) else ():
                counted = entries.count_and_stamp(entry, checked=True)
                if counted:
                    return counted[1]
        return 0


def open_environment(folder: Path, sync: bool) -> Any:
    """An LMDB environment; the caller sees to it that a process opens a folder once."""
    file = folder / "data.mdb"
    map_bytes, rights = MAP_BYTES, file_rights(folder)
    while file.exists() and map_bytes < 2 * file.stat().st_size:
        map_bytes *= 2
    while True:
        try:
            opened = lmdb.open(
                str(folder), map_size=map_bytes, max_dbs=_TABLES_MAX, max_readers=_READERS_MAX, sync=sync, mode=rights
            )
            for name in ("data.mdb", "lock.mdb"):
                settle_file(folder / name)
            return opened
        except (lmdb.MemoryError, MemoryError) as error:
            map_bytes >>= 2
            if map_bytes < _MAP_BYTES_LEAST:
                raise StorageError(f"{folder}: this process has no address space left to map the store; close "
                                   "databases that are not used, or raise `ulimit -v`") from error  # fmt: skip


def open_tables(environment: Any, lock: WriterLock, tables: Mapping[bytes, Mapping[str, bool]]) -> list[Any]:
    """The tables of an environment, given by name and options, made where they are absent.

    LMDB gives handles of tables to whoever has its write lock, so for a moment `lock` is taken.
    """
    held = lock.take()
    try:
        return [environment.open_db(name, **options) for name, options in tables.items()]
    finally:
        lock.release(held)


def half_full(environment: Any) -> bool:
    """Whether the data of an environment takes more than half of its map."""
    info = environment.info()
    return bool(2 * info["last_pgno"] * mmap.PAGESIZE > info["map_size"])


def enlarge(environment: Any) -> None:
    """A greater map, or one as great as another process has made it.

    No transaction of this process may be open: to be called within `forks.alone`.
    """
    before = environment.info()["map_size"]
    environment.set_mapsize(0)  # What another process has made it.
    if environment.info()["map_size"] <= before:
        environment.set_mapsize(2 * before)


@contextmanager
def translated(root: Path) -> Iterator[None]:
    """What LMDB raises, as an Error that names the folder."""
    try:
        yield
    except (lmdb.MapFullError, lmdb.MapResizedError) as error:
        raise MapTooSmall(f"{root}: the store has outgrown its map; try again") from error
    except lmdb.Error as error:
        if _number(error) in (errno.EMFILE, errno.ENFILE):
            raise StorageError(f"{root}: too many files are open in this process; close databases that are not used, "
                               "or raise `ulimit -n`") from error  # fmt: skip
        if _number(error) in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise StorageError(f"{root}: the disk is full or fails: {error}; make room on it, then try "
                               "again") from error  # fmt: skip
        raise Error(f"{root}: the embedded store failed: {error}") from error


def _number(error: lmdb.Error) -> int:
    return int(getattr(error, "code", 0) or 0)
