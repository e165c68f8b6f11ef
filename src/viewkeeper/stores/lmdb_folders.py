"""Folders with LMDB environments: opened once a process and shared, opened anew after a fork; the size of their maps;
LMDB's errors in words."""

from __future__ import annotations

import errno
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from viewkeeper.errors import Error, StorageError
from viewkeeper.permissions import file_rights, settle_file
from viewkeeper.stores.forks import forks
from viewkeeper.stores.locks import WriterLock

MAP_BYTES = 1 << 35
"""The least map.  It is address space only, of which a process has 128 TiB; the file is as long as its data."""
_MAP_BYTES_LEAST = 1 << 28
_READERS_MAX = 1024
_TABLES_MAX = 6


class MapTooSmall(Error):
    """The map of an environment must be enlarged (`enlarge`), then what failed can be done again."""


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


class LmdbFolder(ABC):
    """The open files of one folder; `users` have taken it from `OpenFolders`.

    LMDB's environments must not be used in a forked child, only closed, and closing them ends the parent's transactions
    that were open at the fork: so there may be none.  Whoever begins a transaction calls `reopen` first where `pid` is
    not that of this process.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.users = folder, 0
        self.pid = os.getpid()
        self._open_files()

    @abstractmethod
    def _open_files(self) -> None:
        """Opens everything."""

    @abstractmethod
    def close_files(self) -> None:
        """Closes everything."""

    @abstractmethod
    def is_there(self) -> bool:
        """Whether the files that are open are still those in the folder."""

    def reopen(self, in_use: bool = False) -> None:
        """Opens the files anew in a forked child; `in_use`: transactions were open that do not keep forks out."""
        if in_use or forks.interrupted:
            raise Error(f"{self.folder} was being read when this process was forked; start the process with 'spawn', "
                        "or fork when no scan is open")  # fmt: skip
        self.close_files()
        self.pid = os.getpid()
        self._open_files()


_Folder = TypeVar("_Folder", bound=LmdbFolder)


class OpenFolders(dict[Path, _Folder]):
    """The folders of one kind that this process has open."""

    def take(self, folder: Path, opened: Callable[[Path], _Folder]) -> _Folder:
        """The files of a folder (resolved), for one user more."""
        with forks.kept_out(), forks.opening:
            found = self.get(folder)
            if found is None or not found.is_there():  # whoever has the deleted ones open keeps them
                found = self[folder] = opened(folder)
            found.users += 1
            return found

    def give_back(self, taken: _Folder) -> None:
        """For one user less; the last one closes the files."""
        with forks.kept_out(), forks.opening:
            taken.users -= 1
            if taken.users == 0:
                if self.get(taken.folder) is taken:
                    del self[taken.folder]
                taken.close_files()


def open_environment(folder: Path, sync: bool) -> Any:
    """An LMDB environment; the caller sees to it that a process opens a folder once."""
    file = folder / "data.mdb"
    map_bytes, rights = MAP_BYTES, file_rights(folder)
    while file.exists() and map_bytes < 2 * file.stat().st_size:
        map_bytes *= 2
    while map_bytes > _MAP_BYTES_LEAST and not _has_room(2 * map_bytes):
        map_bytes >>= 1  # as much again is left for the work
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


def _has_room(size: int) -> bool:
    """Whether this process has so much address space left (`ulimit -v`)."""
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ).close()
    except OSError:
        return False
    return True


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
