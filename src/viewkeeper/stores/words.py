"""The words that all processes with one store open share: a file that each of them maps.

<root>/stamp   the greatest stamp given (8 bytes), then four words (8 bytes each) a node: the process that holds its
               write lock or held it last; since when (microseconds since 1970); whether somebody has waited for it for
               long; and 1 + the first node of a call over several nodes that may be unfinished on this one, else 0
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
import time
from pathlib import Path

from viewkeeper.permissions import open_shared

_STAMP = struct.Struct("<q")
_HOLDER = struct.Struct("<qq")
_WORD = struct.Struct("<q")
_LOCK_BYTES = _HOLDER.size + _WORD.size
_NODE_BYTES = _LOCK_BYTES + _WORD.size


class StampWord:
    """The greatest stamp given in this database: the first of the shared words."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("r+b")
        self.page = mmap.mmap(self._file.fileno(), 0)
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
                stamp = max(_STAMP.unpack_from(self.page)[0] + step, least)
                _STAMP.pack_into(self.page, 0, stamp)
                return int(stamp)
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        self.page.close()
        self._file.close()


class LockWords:
    """Who holds a write lock and since when, written by the holder so that others can name it; and whether there is
    somebody who has waited for long, so that those who come later let that one go first (no more than a hint)."""

    def __init__(self, page: mmap.mmap, at: int) -> None:
        self._page, self._at = page, at

    def write(self) -> None:
        """This process holds it, from now on."""
        _HOLDER.pack_into(self._page, self._at, os.getpid(), time.time_ns() // 1000)

    def read(self) -> tuple[int, float]:
        """The process, and the wall-clock second; (0, 0.0) where nobody has held it yet."""
        pid, since = _HOLDER.unpack_from(self._page, self._at)
        return pid, since / 1e6

    @property
    def waited_for_long(self) -> bool:
        return self._page[self._at + _HOLDER.size] != 0

    @waited_for_long.setter
    def waited_for_long(self, value: bool) -> None:
        self._page[self._at + _HOLDER.size] = value


def lock_page(file: Path) -> mmap.mmap:
    """A page of its own for one `LockWords`, in `file`, which is made where it is absent."""
    with os.fdopen(open_shared(file), "r+b") as opened:
        if opened.seek(0, os.SEEK_END) < _LOCK_BYTES:
            opened.truncate(_LOCK_BYTES)
        return mmap.mmap(opened.fileno(), _LOCK_BYTES)


class NodeWords:
    """The words of one node."""

    def __init__(self, stamps: StampWord, number: int) -> None:
        at = file_bytes(number)
        self.lock = LockWords(stamps.page, at)
        self._page, self._at = stamps.page, at + _LOCK_BYTES

    @property
    def unfinished(self) -> int | None:
        """The first node of a call that may be unfinished on this one.  Written and judged under the node's lock."""
        word: int = _WORD.unpack_from(self._page, self._at)[0]
        return word - 1 if word else None

    @unfinished.setter
    def unfinished(self, first: int | None) -> None:
        _WORD.pack_into(self._page, self._at, 0 if first is None else first + 1)


def file_bytes(nodes: int) -> int:
    """The length of the file for so many nodes."""
    return _STAMP.size + nodes * _NODE_BYTES
