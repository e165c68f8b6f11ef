"""The LMDB environments of one folder: one a node, opened once a process and shared, reopened after a fork.

<root>/nodes/<n>/   an environment with six tables: log (sequence -> entry), rows (table id and key -> row),
                    equal (table id and hash of a row of a table without key -> row ids), intent (stores/intents.py),
                    layout (table id -> the number of the newest layout of its rows), steps
                    (stores/source_steps.py); and its write lock (stores/locks.py)
<root>/stamp        words that all processes map (stores/words.py)
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from viewkeeper.errors import Error, InputError, StorageError
from viewkeeper.interrupts import uninterrupted
from viewkeeper.permissions import make_folder, make_root, open_shared
from viewkeeper.stores import intents
from viewkeeper.stores.contract import require_durability
from viewkeeper.stores.forks import forks
from viewkeeper.stores.intents import Intent, NodePart
from viewkeeper.stores.lmdb_folders import LmdbFolder, MapTooSmall, OpenFolders, enlarge, translated
from viewkeeper.stores.locks import WriterLock
from viewkeeper.stores.node import Node, Tail
from viewkeeper.stores.words import NodeWords, StampWord, file_bytes
from viewkeeper.trace.points import reached

_ENLARGING_WAITS_SECONDS = 60.0

_Given = TypeVar("_Given")

HeldLocks = list[tuple[WriterLock, FileIO]]
"""Write locks that are held, each with what holds it."""

Redo = Callable[[int, Node, Any, Intent, NodePart], None]
"""Does the part of an intent that is a node's, in a write transaction on the node."""


class Transactions(dict[int, Any]):
    """Write transactions on some nodes.  Who writes on several of them says what in `intent`."""

    intent: Intent | None = None
    decided = False  # Whether the first of several commits is in.


class Nodes(LmdbFolder):
    """All nodes of one folder.  Get it by `Nodes.open`; close it as often as it was opened."""

    def __init__(self, root: Path, nodes: int | None, durability: str | None) -> None:
        self.root, self.durability = root, durability or "sync"
        self._scans: list[int] = []  # The threads that began those that are open.
        self._redo: Redo | None = None
        self.locks: list[WriterLock] = []
        self.count = _make_folders(root, nodes)
        super().__init__(root)

    def _open_files(self) -> None:
        sync = self.durability == "sync"
        self.stamps = StampWord(self.root / "stamp")
        self.words = [NodeWords(self.stamps, number) for number in range(self.count)]
        self._nodes: list[Node] = []
        try:
            with translated(self.root):
                self.locks = [WriterLock(self._folder(number) / "writer.lock", words.lock)
                              for number, words in enumerate(self.words)]  # fmt: skip
                for number in range(self.count):
                    self._nodes.append(Node(self._folder(number), sync, self.locks[number]))
                self.stamps.raise_to(max(node.greatest_stamp() for node in self._nodes))
                for node in self._nodes:
                    node.environment.reader_check()
        except BaseException:
            self.close_files()
            raise

    def _folder(self, number: int) -> Path:
        return self.root / "nodes" / str(number)

    @staticmethod
    def open(root: Path, nodes: int | None = None, durability: str | None = None) -> Nodes:
        """The nodes in `root`, made if absent (`nodes` of them, default 2); None takes what is there.

        Raises InputError if the folder has another number of nodes, or is open in this process with another durability.
        """
        require_durability(durability)
        root = root.resolve()
        found = _open.take(root, lambda root: _opened(root, nodes, durability))
        try:
            if nodes not in (None, found.count):
                raise InputError(f"{root} has {found.count} nodes, fixed when it was made; asked for {nodes}")
            if durability not in (None, found.durability):
                raise InputError(f"{root} is open in this process with durability={found.durability!r}; close it first")
        except InputError:
            found.close()
            raise
        return found

    def close(self) -> None:
        """Give it back; the last of its users closes the files."""
        _open.give_back(self)

    def is_there(self) -> bool:
        return all(node.file.is_there() for node in self._nodes)

    @property
    def nodes(self) -> list[Node]:
        """The nodes in order, usable in this process."""
        if self.pid != os.getpid():
            self.reopen(in_use=bool(self._scans))
        return self._nodes

    def _begin(self, number: int, write: bool = False, buffers: bool = False) -> Any:
        node = self.nodes[number]
        node.file.require_there()
        return node.environment.begin(write=write, buffers=buffers)

    def close_files(self) -> None:
        for node in self._nodes:
            node.environment.close()
        for lock in self.locks:
            lock.close()
        self.stamps.close()

    # Writing

    def write(self, numbers: Sequence[int], do: Callable[[Transactions], _Given]) -> _Given:
        """What `do` gives, done in write transactions on the nodes `numbers`: all of it or, where it raises, nothing.

        All locks are taken, in node order, before it begins.  Where it writes on several nodes it says what in the
        `intent` of the transactions that it is given.  It is called again where a map was too small.
        """
        numbers = sorted(numbers)
        while True:
            begun = Transactions()
            try:
                with uninterrupted(), translated(self.root), forks.kept_out():
                    held: HeldLocks = []
                    try:
                        self._take(numbers, held)
                        for number in numbers:
                            begun[number] = self._begin(number, write=True)
                        given = do(begun)
                        self._commit(begun)
                    finally:
                        for txn in begun.values():
                            txn.abort()  # Does nothing once it is committed.
                        _release(held)
                return given
            except MapTooSmall as error:
                if begun.decided:
                    self._finish_own(begun, error)
                    return given
                self._enlarge(numbers)
            except Error as error:
                if not begun.decided:
                    raise
                self._finish_own(begun, error)
                return given

    def _take(self, numbers: Sequence[int], held: HeldLocks) -> None:
        """Take the write locks of nodes, given in order; first finish what a dead call has left on any of them.

        The caller releases what is `held`, also where this raises.
        """
        _ = self.nodes  # A forked child opens all of them anew.
        while True:
            for number in numbers:
                lock = self.locks[number]
                held.append((lock, lock.take()))
            for number in numbers:
                first = self.words[number].unfinished
                if first is not None:
                    break
            else:
                return
            _release(held)  # Its other nodes may come before those held here.
            self._finish(first, number)

    def _commit(self, begun: Transactions) -> None:
        intent = begun.intent
        if intent is None or len(intent.parts) < 2:
            for txn in begun.values():
                txn.commit()  # At most one of them has written anything.
            return
        first, *others = sorted(intent.parts)
        intents.write(self.nodes[first], begun[first], intent)
        for number in intent.parts:
            self.words[number].unfinished = first
        reached("call prepared")
        begun[first].commit()
        begun.decided = True
        for number in others:
            reached("between nodes")
            begun[number].commit()
        reached("call written")
        for number in intent.parts:
            self.words[number].unfinished = None

    def _finish(self, first: int, seen: int) -> None:
        """Finish the call whose intent node `first` holds, where it died; `seen` is a node whose word names it."""
        while True:
            try:
                with uninterrupted(), translated(self.root), forks.kept_out(), ExitStack() as locks:
                    node = self.nodes[first]
                    with self._begin(first) as txn:
                        numbers = sorted({first, seen, *intents.tails(node, txn)})
                    for number in numbers:
                        locks.callback(self.locks[number].release, self.locks[number].take())
                    with self._begin(first) as txn:
                        intent = intents.read(node, txn)
                    if intent is not None and not set(intent.parts) <= set(numbers):
                        continue  # Another call came in between.
                    if intent is not None:
                        for number, part in sorted(intent.parts.items()):
                            self._do_part(number, intent, part)
                    for number in numbers:
                        if self.words[number].unfinished == first:
                            self.words[number].unfinished = None
                    return
            except MapTooSmall:
                self._enlarge(range(self.count))

    def _do_part(self, number: int, intent: Intent, part: NodePart) -> None:
        """Do a part, if it is still to be done: nobody writes on a node before what is unfinished there is finished."""
        node = self.nodes[number]
        txn = self._begin(number, write=True)
        try:
            if node.tail(txn) == part.tail:
                assert self._redo is not None, "only a store takes locks"
                self._redo(number, node, txn, intent, part)
            reached("part done")
            txn.commit()
        finally:
            txn.abort()

    def _finish_own(self, begun: Transactions, error: Error) -> None:
        """Finish a call of this process whose first commit is in, and a later one was not possible."""
        assert begun.intent is not None, "only calls over several nodes are finished later"
        first, *others = sorted(begun.intent.parts)
        try:
            self._finish(first, first)
        except Error as again:
            raise Error(
                f"{self.root}: could not commit on all of the nodes {first}, {', '.join(map(str, others))} ({error}), "
                f"but node {first} holds the whole call: it counts as written, and whoever next writes or reads there "
                "finishes it; see to the disk, and do not write it again"
            ) from again

    def finish_dead_calls(self, redo: Redo) -> None:
        """Finish calls that a power loss cut, and with them the words that would tell of them; to be called at opening.

        `redo` does the parts, from now on too.
        """
        self._redo = redo
        for first, node in enumerate(self.nodes):
            with self.reading(first) as txn:
                tails = intents.tails(node, txn)
            for number, tail in tails.items():
                if self.words[number].unfinished is None and self._end(number) == tail:
                    self._finish(first, number)

    def _end(self, number: int) -> Tail:
        with self.reading(number) as txn:
            return self.nodes[number].tail(txn)

    def clear_intents(self) -> None:
        """Free the room that the intents of finished calls take."""
        for first, node in enumerate(self.nodes):
            with self.reading(first) as txn:
                held = bool(intents.tails(node, txn))
            if held:  # Once the lock is held, it is finished.
                self.write([first], partial(intents.clear, node, first))

    def _enlarge(self, numbers: Sequence[int]) -> None:
        """Enlarge the maps of nodes, for which no transaction of this process may be open."""
        deadline = time.monotonic() + _ENLARGING_WAITS_SECONDS
        while True:
            with forks.alone():
                if not self._scans:
                    for number in numbers:
                        enlarge(self.nodes[number].environment)
                    return
            if threading.get_ident() in self._scans or time.monotonic() > deadline:
                raise Error(f"{self.root}: the store has outgrown its map, enlarged only while this process "
                            "reads no table from end to end: end the scan, then try again")  # fmt: skip
            time.sleep(0.01)

    # Reading

    @contextmanager
    def reading(self, number: int, buffers: bool = False) -> Iterator[Any]:
        """A read transaction on one node.  With `buffers` what it gives is not copied."""
        with translated(self.root), forks.kept_out(), self._begin_reading(number, buffers) as txn:
            yield txn

    def _begin_reading(self, number: int, buffers: bool) -> Any:
        try:
            return self._begin(number, buffers=buffers)
        except lmdb.MapResizedError:
            self._enlarge([number])
            return self._begin(number, buffers=buffers)

    @contextmanager
    def reading_at_one_moment(self, buffers: bool = False) -> Iterator[list[Any]]:
        """Read transactions on all nodes that see one moment: they begin while no write is under way on any node.

        With `buffers` what they give is not copied, but points into LMDB's memory (slow for small values).
        """
        with translated(self.root), ExitStack() as stack:
            while True:
                try:
                    with uninterrupted(), translated(self.root), forks.kept_out(), ExitStack() as locks:
                        held: HeldLocks = []
                        locks.callback(_release, held)
                        self._take(range(self.count), held)
                        snapshots = [stack.enter_context(self._begin(n, buffers=buffers)) for n in range(self.count)]
                        stack.callback(self._scan_ends, threading.get_ident())
                        self._scans.append(threading.get_ident())
                    break
                except MapTooSmall:
                    stack.close()
                    self._enlarge(range(self.count))
            yield snapshots

    def _scan_ends(self, thread: int) -> None:
        if thread in self._scans:  # Else Ctrl-C came before it was counted.
            self._scans.remove(thread)

    def reader_check(self) -> int:
        """Free what killed readers hold (else files grow without bound); how many there were."""
        return sum(node.environment.reader_check() for node in self.nodes)


_open: OpenFolders[Nodes] = OpenFolders()


def _release(held: HeldLocks) -> None:
    while held:
        lock, file = held.pop()
        lock.release(file)


def _opened(root: Path, nodes: int | None, durability: str | None) -> Nodes:
    try:
        return Nodes(root, nodes, durability)
    except StorageError as error:
        raise StorageError(f"{error}; this process has {len(_open)} databases open") from error


def _make_folders(root: Path, nodes: int | None) -> int:
    """Make the stamp file and the nodes' folders where they are absent; the number of nodes."""
    if not root.exists():
        make_root(root)
    folder = root / "nodes"
    with os.fdopen(open_shared(root / "stamp"), "r+b") as stamp:
        fcntl.flock(stamp, fcntl.LOCK_EX)  # Not lockf: closing this file would drop lockf locks held on it elsewhere.
        if not folder.exists():
            half_made = root / "nodes.new"
            make_folder(half_made)
            for number in range(nodes or 2):
                make_folder(half_made / str(number))
            half_made.rename(folder)
        count = sum(1 for child in folder.iterdir() if child.name.isdecimal())
        if stamp.seek(0, os.SEEK_END) < file_bytes(count):
            stamp.truncate(file_bytes(count))
    return count
