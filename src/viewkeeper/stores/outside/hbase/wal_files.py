"""The files of HBase's write-ahead logs: which there are, whose they are, and what stands in a piece of one.

A *part* is the log of one region server from its start to its end: `host,port,start code`, and `/1`, `/2` ... behind it
for each 24.8 days of its life (`SPAN`): so the time at which a file was begun, in milliseconds since the beginning of
the part, and a place in it (4 bytes each) are one number, a position.  A server that comes back is another part.

A file is in `WALs` while its server writes it, and in `oldWALs` under the same name then, until HBase deletes it there.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from viewkeeper.stores.outside.hbase.wal import Entries, LogUnreadable, first_entry, walk, without_trailer

OFFSET_BITS = 32
CLOSED = (1 << OFFSET_BITS) - 1
"""A place in a file: behind its end, and nothing comes behind it in its part."""

SPAN = 1 << 31
"""Milliseconds of a server's life that are one part."""

CHUNK_BYTES = 8 * 1024 * 1024
MARKS = 64
"""So many places of a file, at which entries begin, are remembered."""

_NAME = re.compile(r"(?P<log>(?P<server>.+?%2C\d+%2C(?P<start>\d+))(?:\..+)?)\.(?P<time>\d+)")
_TRIES = 5


class LogFileGone(Exception):
    """A file that is not there any more; the message is its name."""


class LogFile(NamedTuple):
    """`begun` is when, in milliseconds since 1970; `time` is its place in `part`; `archived`: nobody writes it."""

    begun: int
    name: str
    part: str
    time: int
    path: str
    archived: bool


def position(time: int, offset: int) -> int:
    """A position in a part."""
    return time << OFFSET_BITS | offset


def placed(position_: int) -> tuple[int, int]:
    """The inverse: a file's time, and a place in it."""
    return position_ >> OFFSET_BITS, position_ & CLOSED


@dataclass(frozen=True)
class Log:
    """The files of one region server from its start on, the oldest first; `alive`: it may write more."""

    files: Sequence[LogFile]
    alive: bool


def listed(root: Path) -> list[Log]:
    """The logs that are there now.  Raises FileNotFoundError where `root` is no folder of HBase's."""
    for _ in range(_TRIES - 1):
        try:
            return _listed(root)
        except _Moved:
            continue
    return _listed(root)


class _Moved(FileNotFoundError):
    """A folder that was there a moment ago: its files are in another one now."""


def _listed(root: Path) -> list[Log]:
    """Live logs first: a file that moves meanwhile is found where it is then."""
    paths: dict[str, tuple[str, bool]] = {}
    alive: set[str] = set()
    folders = _folders(root)
    for folder in folders:
        alive.add(Path(folder).name.removesuffix("-splitting"))
        try:
            paths |= {each.name: (str(each), False) for each in Path(folder).iterdir()}
        except FileNotFoundError as gone:
            raise _Moved(folder) from gone
    paths |= {name: (path, True) for name, path in _archived(root / "oldWALs")}
    if _folders(root) != folders:
        raise _Moved(root / "WALs")
    logs: dict[tuple[str, str], list[LogFile]] = {}
    for name, (path, archived) in paths.items():
        found = _NAME.fullmatch(name)
        if found is None:  # of the catalog's own table (.meta), of procedures, of the master
            continue
        log, begun = unquote(found["log"]), int(found["time"])
        span, time = divmod(begun - int(found["start"]), SPAN)
        part = log + (f"/{span}" if span else "")
        logs.setdefault((log, unquote(found["server"])), []).append(LogFile(begun, name, part, time, path, archived))
    return [Log(sorted(files), server in alive) for (_, server), files in logs.items()]


def _folders(root: Path) -> set[str]:
    with os.scandir(root / "WALs") as servers:
        return {each.path for each in servers if each.is_dir()}


def _archived(folder: Path) -> Iterator[tuple[str, str]]:
    """Old logs, which may stand in a folder a server (hbase.separate.oldlogdir.by.regionserver)."""
    if not folder.exists():
        return
    with os.scandir(folder) as entries:
        for each in entries:
            if each.is_dir():
                yield from ((inner.name, str(inner)) for inner in Path(each.path).iterdir())
            else:
                yield each.name, each.path


@dataclass
class _Scan:
    """How far a file has been looked at: where an entry begins next, 0 before any; where the table's last one ended."""

    at: int = 0
    last: int = 0


@dataclass
class LogFiles:
    """The logs in the folder `root`, for one table, whose name in the logs is `table`.

    Methods raise LogUnreadable, with the file's name, where one cannot be read, LogFileGone where it is gone.
    """

    root: Path
    table: bytes
    logs: Sequence[Log] = ()
    """As they were when last looked at."""
    cells: int = 1
    """Of the table, in `scanned` bytes: at first it is taken that there is one in 200."""
    scanned: int = 200
    _scans: dict[str, _Scan] = field(default_factory=dict)
    _marks: dict[str, list[int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> dict[str, int]:
        """The end of each part: behind the table's last entry in its newest file; `CLOSED` where no more will come."""
        for _ in range(_TRIES - 1):
            try:
                return self._look()
            except LogFileGone:
                continue
        return self._look()

    def _look(self) -> dict[str, int]:
        self.logs = listed(self.root)
        ends: dict[str, int] = {}
        scans: dict[str, _Scan] = {}
        for log in self.logs:
            newest = self._newest(log.files, scans) if log.alive else None
            for file in log.files:
                ends[file.part] = position(file.time, CLOSED)
                if file is newest:
                    ends[file.part] = position(file.time, scans[file.name].last)
                    break
        self._scans = scans
        return ends

    def _newest(self, files: Sequence[LogFile], scans: dict[str, _Scan]) -> LogFile:
        """The file to which entries come.  While the next one is made they still do to the one before it: that is done
        when there are some behind it, or it is closed."""
        for before, file in reversed(list(zip((None, *files), files, strict=False))):
            scan = scans[file.name] = self._scans.get(file.name) or _Scan()
            with _Opened(file) as opened:
                self._scan(opened, scan)
            if scan.at or before is None or before.archived:
                return file
            with _Opened(before) as opened:
                if opened.closed:
                    return file
        raise AssertionError("the first has none before it")

    def _scan(self, opened: _Opened, scan: _Scan) -> None:
        for found, base, at in opened.chunks(scan.at, opened.size, self.table):
            self.cells += len(found.cells)
            self.scanned += at - base
            scan.at = at if at > opened.begin else 0
            scan.last = base + found.ends[-1] if found.ends else scan.last

    def pieces(self, part: str, after: int, upto: int) -> Iterator[tuple[bytes, Entries]]:
        """The table's entries behind `after` and not behind `upto`, with the bytes in which they are."""
        first, last = placed(after)[0], placed(upto)[0]
        for file in self._between(part, first, last, after > 0):
            low = placed(after)[1] if file.time == first else 0
            high = placed(upto)[1] if file.time == last else CLOSED
            yield from self._piece(file, low, high)

    def _between(self, part: str, first: int, last: int, begun: bool) -> list[LogFile]:
        files = [file for log in listed(self.root) for file in log.files
                 if file.part == part and first <= file.time <= last]  # fmt: skip
        times = {file.time for file in files}
        for time in ({first} if begun else set()) | {last}:
            if time not in times:
                raise LogFileGone(f"the file of {part} that was begun {time} ms after its start")
        return files

    def _piece(self, file: LogFile, low: int, high: int) -> Iterator[tuple[bytes, Entries]]:
        with _Opened(self._there(file)) as opened:
            if high != CLOSED and opened.size < high:
                raise LogFileGone(f"{file.name}, from byte {opened.size} on,")
            at = self._mark_before(file.name, low)
            for _, _, behind in opened.chunks(at, low, None):
                at = behind
            for found, _, behind in opened.chunks(at, min(high, opened.size), self.table):
                at = behind
                if found.ends:
                    yield opened.data, found
            self._remember(file.name, at)

    def _mark_before(self, name: str, low: int) -> int:
        """A place not behind `low` at which an entry begins, 0 where none is known."""
        with self._lock:
            return max((mark for mark in self._marks.get(name, ()) if mark <= low), default=0)

    def _remember(self, name: str, at: int) -> None:
        with self._lock:
            self._marks[name] = [*self._marks.pop(name, ())[-MARKS:], at]
            while len(self._marks) > MARKS:
                del self._marks[next(iter(self._marks))]

    def _there(self, file: LogFile) -> LogFile:
        """The file where it is now."""
        if Path(file.path).exists():
            return file
        for log in listed(self.root):
            for each in log.files:
                if each.name == file.name:
                    return each
        raise LogFileGone(file.name)

    def operations(self, low: int, high: int) -> int:
        """About how many cells of the table so many bytes hold."""
        return max(1, (high - low) * self.cells // self.scanned) if high > low else 0

    def sizes(self, after: int, upto: int, part: str | None = None) -> list[tuple[LogFile, int, int]]:
        """The files between two positions, and from where to where in each; of all parts where none is said."""
        (first, low), (last, high) = placed(after), placed(upto)
        found = []
        for file in (file for log in self.logs for file in log.files if part in (None, file.part)):
            if first <= file.time <= last:
                begin, end = low if file.time == first else 0, high if file.time == last else CLOSED
                found.append((file, begin, end if end != CLOSED else max(begin, _size(file))))
        return found


def _size(file: LogFile) -> int:
    try:
        return Path(file.path).stat().st_size
    except FileNotFoundError:
        return 0


class _Opened:
    """A file that is open: it can be read even when it has been moved."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self.data = b""
        try:
            self._descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise LogFileGone(file.name) from None

    def __enter__(self) -> _Opened:
        try:
            self._read_ends()
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def _read_ends(self) -> None:
        """Where its entries begin (`begin`) and end at present (`size`), and whether no more will come (`closed`)."""
        size = os.fstat(self._descriptor).st_size
        self.size = without_trailer(os.pread(self._descriptor, 8, max(0, size - 8)), size)
        self.closed = self.size < size
        if self.size >= CLOSED:
            raise LogUnreadable(f"{self._file.name}: it has {size} bytes, and files up to 4 GB are read")
        try:
            begin = first_entry(os.pread(self._descriptor, 64 * 1024, 0))
        except LogUnreadable as why:
            raise LogUnreadable(f"{self._file.name}: {why}") from None
        self.begin = self.size if begin is None else begin

    def chunks(self, at: int, upto: int, table: bytes | None) -> Iterator[tuple[Entries, int, int]]:
        """The entries of `table` from `at` on, where one begins, that end by `upto`, so many bytes (`data`) at a time;
        with the place of these in the file, and where the last entry in them ends."""
        at, length = max(at, self.begin), CHUNK_BYTES
        while at < upto:
            self.data = os.pread(self._descriptor, min(length, upto - at), at)
            found = Entries()
            try:
                behind = walk(self.data, 0, table, found)
            except LogUnreadable as why:
                raise LogUnreadable(f"{self._file.name}, byte {at}: {why}") from None
            yield found, at, at + behind
            if at + len(self.data) >= upto or not self.data:
                return
            length = CHUNK_BYTES if behind else 2 * length  # an entry may be greater
            at += behind
