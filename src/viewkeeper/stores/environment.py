"""The LMDB environments of one folder: one a node, opened once a process and shared, reopened after a fork.

<root>/nodes/<n>/   an environment with three tables: log (sequence -> entry), rows (table id and key -> row),
                    equal (table id and hash of a row of a table without key -> row ids)
<root>/stamp        the greatest stamp given on any node, 8 bytes that all processes map
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import lmdb

from viewkeeper.changes import entries
from viewkeeper.errors import Error, InputError
from viewkeeper.permissions import file_rights, make_folder, make_root, open_shared, settle_file

SEQUENCE = struct.Struct(">Q")
_STAMP = struct.Struct("<q")
_MAP_BYTES = 1 << 40
"""Reserved once, since growing a map breaks other processes; sparse: the file is as long as its data."""
_READERS_MAX = 1024
_FORK_WAITS_SECONDS = 10
DURABILITIES = ("sync", "process")

_open: dict[Path, Nodes] = {}


def require_durability(durability: str | None) -> None:
    """Raises InputError where there is no such durability; None is the one that is there, or the default."""
    if durability not in (None, *DURABILITIES):
        raise InputError(f"durability={durability!r}: expected one of {', '.join(DURABILITIES)}")


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

    def __init__(self, folder: Path, sync: bool) -> None:
        self.environment = open_environment(folder, sync)
        self.file = OpenFile(folder)
        self.log = self.environment.open_db(b"log")
        self.rows = self.environment.open_db(b"rows")
        self.equal = self.environment.open_db(b"equal", dupsort=True, dupfixed=True)

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


class Nodes:
    """All nodes of one folder.  Get it by `Nodes.open`; close it as often as it was opened."""

    def __init__(self, root: Path, nodes: int | None, durability: str | None) -> None:
        self.root, self.durability, self.users, self._scans = root, durability or "sync", 0, 0
        self.count = _make_folders(root, nodes)
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        sync = self.durability == "sync"
        self._nodes = [Node(self.root / "nodes" / str(n), sync) for n in range(self.count)]
        self.reader_check()
        self.stamps = StampWord(self.root / "stamp")
        self.stamps.raise_to(max(node.greatest_stamp() for node in self._nodes))

    @staticmethod
    def open(root: Path, nodes: int | None = None, durability: str | None = None) -> Nodes:
        """The nodes in `root`, made if absent (`nodes` of them, default 2); None takes what is there.

        Raises InputError if the folder has another number of nodes, or is open in this process with another durability.
        """
        require_durability(durability)
        root = root.resolve()
        with forks.kept_out(), forks.opening:
            found = _open.get(root)
            if found is None or not found.is_there():  # whoever has the deleted ones open keeps them
                found = _open[root] = Nodes(root, nodes, durability)
            if nodes not in (None, found.count):
                raise InputError(f"{root} has {found.count} nodes, fixed when it was made; asked for {nodes}")
            if durability not in (None, found.durability):
                raise InputError(f"{root} is open in this process with durability={found.durability!r}; close it first")
            found.users += 1
            return found

    def close(self) -> None:
        """Give it back; the last of its users closes the files."""
        with forks.kept_out(), forks.opening:
            self.users -= 1
            if self.users == 0:
                if _open.get(self.root) is self:
                    del _open[self.root]
                self._close_files()

    def is_there(self) -> bool:
        """Whether the files that are open are still those in the folder."""
        return all(node.file.is_there() for node in self._nodes)

    @property
    def nodes(self) -> list[Node]:
        """The nodes in order, usable in this process."""
        if self._pid != os.getpid():
            self._reopen()
        return self._nodes

    def _begin(self, number: int, write: bool = False, buffers: bool = False) -> Any:
        node = self.nodes[number]
        node.file.require_there()
        return node.environment.begin(write=write, buffers=buffers)

    def _reopen(self) -> None:
        """Open the files anew in a forked child.  LMDB's environments must not be used there, only closed, and closing
        ends the parent's transactions that were open at the fork: there may be none."""
        if self._scans or forks.interrupted:
            raise Error(f"{self.root} was being read when this process was forked; start the process with 'spawn', "
                        "or fork when no scan is open")  # fmt: skip
        self._close_files()
        self._start()

    def _close_files(self) -> None:
        for node in self._nodes:
            node.environment.close()
        self.stamps.close()

    @contextmanager
    def writing(self, numbers: Sequence[int]) -> Iterator[dict[int, Any]]:
        """Write transactions on the nodes `numbers`: all locks are taken, in node order, before the first commit.

        Commits when the block ends, aborts when it raises.
        """
        with translated(self.root), forks.kept_out(), ExitStack() as locks:
            begun: dict[int, Any] = {}
            for number in sorted(numbers):
                begun[number] = self._begin(number, write=True)
                locks.callback(begun[number].abort)  # Does nothing once it is committed.
            yield begun
            for number, txn in begun.items():
                try:
                    txn.commit()
                except lmdb.Error as error:
                    done = [str(node) for node in begun if node < number]
                    if not done:
                        raise
                    raise Error(
                        f"{self.root}: node {number} could not commit: {error}; what this call writes on node "
                        f"{', '.join(done)} is written, the rest is not: see to the disk, then write it again"
                    ) from error

    @contextmanager
    def reading(self, number: int, buffers: bool = False) -> Iterator[Any]:
        """A read transaction on one node.  With `buffers` what it gives is not copied."""
        with translated(self.root), forks.kept_out(), self._begin(number, buffers=buffers) as txn:
            yield txn

    @contextmanager
    def reading_at_one_moment(self, buffers: bool = False) -> Iterator[list[Any]]:
        """Read transactions on all nodes that see one moment: they begin while no write is under way on any node.

        With `buffers` what they give is not copied, but points into LMDB's memory (slow for small values).
        """
        with translated(self.root), ExitStack() as stack:
            with forks.kept_out(), ExitStack() as locks:
                for number in range(self.count):
                    locks.callback(self._begin(number, write=True).abort)
                snapshots = [stack.enter_context(self._begin(n, buffers=buffers)) for n in range(self.count)]
                stack.callback(self._scan_ends)
                self._scans += 1
            yield snapshots

    def _scan_ends(self) -> None:
        with forks.kept_out():
            self._scans -= 1

    def reader_check(self) -> int:
        """Free what killed readers hold (else files grow without bound); how many there were."""
        return sum(node.environment.reader_check() for node in self.nodes)


class StampWord:
    """The greatest stamp given in this database: one word that all processes share."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("r+b")
        self._word = mmap.mmap(self._file.fileno(), _STAMP.size)
        self._lock = threading.Lock()

    def next(self, at_least: int = 0) -> int:
        """A stamp greater than any given before, so that a batch can end between any two writes: wall-clock
        microseconds, or one more than the greatest where the clock is behind."""
        return self._rise(1, max(time.time_ns() // 1000, at_least))

    def raise_to(self, stamp: int) -> None:
        """`stamp` was given: those to come are greater."""
        self._rise(0, stamp)

    def _rise(self, step: int, least: int) -> int:
        with self._lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                stamp = max(_STAMP.unpack(self._word[:])[0] + step, least)
                self._word[:] = _STAMP.pack(stamp)
                return stamp
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        self._word.close()
        self._file.close()


def _make_folders(root: Path, nodes: int | None) -> int:
    """Make the stamp file and the nodes' folders where they are absent; the number of nodes."""
    if not root.exists():
        make_root(root)
    folder = root / "nodes"
    with os.fdopen(open_shared(root / "stamp"), "r+b") as stamp:
        fcntl.flock(stamp, fcntl.LOCK_EX)  # Not lockf: closing this file would drop lockf locks held on it elsewhere.
        if stamp.seek(0, os.SEEK_END) < _STAMP.size:
            stamp.truncate(_STAMP.size)
        if not folder.exists():
            half_made = root / "nodes.new"
            make_folder(half_made)
            for number in range(nodes or 2):
                make_folder(half_made / str(number))
            half_made.rename(folder)
    return sum(1 for child in folder.iterdir() if child.name.isdecimal())


def open_environment(folder: Path, sync: bool) -> Any:
    """An LMDB environment of at most three tables; the caller sees to it that a process opens a folder once."""
    map_bytes, rights = _MAP_BYTES, file_rights(folder)
    while True:
        try:
            opened = lmdb.open(
                str(folder), map_size=map_bytes, max_dbs=3, max_readers=_READERS_MAX, sync=sync, mode=rights
            )
            for name in ("data.mdb", "lock.mdb"):
                settle_file(folder / name)
            return opened
        except (lmdb.MemoryError, MemoryError):
            map_bytes >>= 2
            if map_bytes < 1 << 30:
                raise


@contextmanager
def translated(root: Path) -> Iterator[None]:
    """What LMDB raises, as an Error that names the folder."""
    try:
        yield
    except lmdb.MapFullError as error:
        raise Error(f"{root}: the store is full ({_MAP_BYTES >> 30} GiB); trim the logs or delete rows") from error
    except lmdb.Error as error:
        raise Error(f"{root}: the embedded store failed: {error}") from error


class Forks:
    """Keeps forks and the short transactions of other threads apart."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._undone = 0
        self._waiting = 0  # Forks that wait: no thread begins anything before them, else they might wait for ever.
        self._own = threading.local()
        self.opening = threading.Lock()  # A folder is opened, and closed, by one thread at a time; no fork meanwhile.
        self.interrupted = False  # In a child: other threads' transactions were open at the fork after all.

    @contextmanager
    def kept_out(self) -> Iterator[None]:
        """No fork happens within this block."""
        within = getattr(self._own, "undone", 0)
        with self._changed:
            if not within:  # Else a fork waits for this very thread.
                self._changed.wait_for(lambda: not self._waiting)
            self._undone += 1
        self._own.undone = within + 1
        try:
            yield
        finally:
            self._own.undone = within
            with self._changed:
                self._undone -= 1
                self._changed.notify_all()

    def before(self) -> None:
        self._changed.acquire()
        self._waiting += 1
        self._changed.wait_for(lambda: not self._undone, timeout=_FORK_WAITS_SECONDS)

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
