"""One immutable, sorted run of a trace, in a memory-mapped file or in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable
from functools import cached_property
from threading import Lock
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import StateSpec
from viewkeeper.catalog.types import physical_type
from viewkeeper.errors import Damaged
from viewkeeper.trace.arrange import arrange
from viewkeeper.trace.disk import Disk
from viewkeeper.trace.file import ZoneFile, offset_table
from viewkeeper.trace.keys import number_type, numbers, offsets
from viewkeeper.trace.receipt import FileRef, RunRef
from viewkeeper.trace.rows import Rows, constant

FILES_OPEN_MAX = 1 << 14
"""A file takes one of the 65,530 maps that Linux gives to a process."""

_MANY = 2000  # keys from which the offset table beats a plain binary search, in a run of more rows than that


class Run:
    """Rows sorted by `words`, with the offset table on their top bits.

    `columns` are the state's, in its order; `stored_weights` is None where all weights are 1.  `ref` is None for a
    run in memory.  `passed` is what was found to lie before a row, (row, that), by what it is and where its key begins.
    """

    def __init__(
        self,
        words: np.ndarray,
        stored_weights: np.ndarray | None,
        bits: int,
        table: np.ndarray,
        columns: Callable[[], list[pa.Array]],
        ref: RunRef | None = None,
        file: ZoneFile | None = None,
    ) -> None:
        self.words, self.stored_weights, self.ref, self.file = words, stored_weights, ref, file
        self.bits, self.table, self._columns = bits, table, columns
        self.low, self.high = int(words[0]), int(words[-1])
        self._widened: dict[int, Run] = {}
        self.passed: dict[tuple[Hashable, int], tuple[int, Any]] = {}

    @staticmethod
    def open(disk: Disk, ref: RunRef, file: FileRef | None = None) -> Run:
        """The run `ref` on `disk`; open runs are shared within the process.

        `file` is what the manifest says of the file.  Raises `Damaged`, or FileNotFoundError.
        """
        return _OPEN.run(disk, ref, file)

    @staticmethod
    def of(spec: StateSpec, rows: Rows) -> Run | None:
        """A run in memory, of rows in any order; None if nothing remains of them."""
        words, arranged = arrange(spec, rows)
        if not len(words):
            return None
        bits, table = offset_table(words)
        return Run(words, arranged.weights, bits, table, lambda: arranged.columns)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def columns(self) -> list[pa.Array]:
        return self._columns()

    def widened(self, spec: StateSpec) -> Run:
        """The run with the columns that `spec` has got since it was written."""
        missing = len(spec.columns) - len(self.columns)
        if missing <= 0:
            return self
        found = self._widened.get(missing)
        if found is None:
            added = [(physical_type(column.type), value) for column, value in
                     zip(spec.columns[-missing:], spec.added[-missing:], strict=True)]  # fmt: skip
            found = self._widened[missing] = Run(
                self.words, self.stored_weights, self.bits, self.table,
                lambda: [*self.columns, *(constant(type_, value, len(self)) for type_, value in added)],
                self.ref, self.file,
            )  # fmt: skip
        return found

    @property
    def bytes(self) -> int:
        """Bytes in the file, 0 for a run in memory."""
        return self.ref.bytes if self.ref else 0

    def verify(self) -> None:
        """Check every byte against the file's checksums; raises `Damaged`."""
        if self.file is not None and self.ref is not None:
            self.file.verify(self.ref.section)

    def weights(self, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """int64: the weights of `rows` (all, by default)."""
        if self.stored_weights is None:
            return np.ones(len(self.words[rows]), dtype=np.int64)
        return self.stored_weights[rows].astype(np.int64)

    def part(self, start: int, stop: int, columns: list[int]) -> Rows:
        """The rows [start, stop), without a copy of their columns."""
        chosen = [self.columns[i].slice(start, stop - start) for i in columns]
        return Rows(chosen, self.weights(slice(start, stop)))

    def positions(self, words: np.ndarray) -> np.ndarray:
        """int64: for each of `words`, ascending and at most `high`, the first row whose word is not smaller."""
        if not _MANY <= len(words) <= len(self):
            return np.searchsorted(self.words, words)
        at = self.table[(words >> np.uint64(64 - self.bits)).astype(np.int64)].astype(np.int64)
        behind = np.flatnonzero(self.words[at] < words)
        for _ in range(16):
            if not len(behind):
                return at
            at[behind] += 1
            behind = behind[self.words[at[behind]] < words[behind]]
        at[behind] = np.searchsorted(self.words, words[behind])
        return at

    @cached_property
    def point(self) -> RowsInPython:
        """Access to single rows from plain Python."""
        return RowsInPython(self)


class RowsInPython:
    """Single rows of a run in plain Python: memoryviews, because NumPy takes a microsecond for each element."""

    def __init__(self, run: Run) -> None:
        self.low, self.high, self.size = run.low, run.high, len(run)
        self.words = run.words.data
        self._table, self._shift = run.table.data, 64 - run.bits
        self.columns = [_reader(column) for column in run.columns]
        self.weights = None if run.stored_weights is None else run.stored_weights.data

    def position(self, word: int) -> int:
        """The first row whose word is not smaller than `word`."""
        top = word >> self._shift
        return bisect_left(self.words, word, self._table[top], self._table[top + 1])

    def weight(self, row: int) -> int:
        return 1 if self.weights is None else self.weights[row]

    def row(self, row: int) -> tuple[object, ...]:
        """All columns of a row, as physical values."""
        return tuple([read(row) for read in self.columns])


def _reader(column: pa.Array) -> Callable[[int], object]:
    """Reads one value of a column, None for NULL."""
    if column.null_count or pa.types.is_decimal128(column.type):
        return lambda row: column[row].as_py()
    if number_type(column.type) is not None:
        return numbers(column).data.__getitem__
    ends, text = offsets(column).data, memoryview(column.buffers()[2] or b"")
    if pa.types.is_large_string(column.type):
        return lambda row: str(text[ends[row] : ends[row + 1]], "utf-8")
    return lambda row: bytes(text[ends[row] : ends[row + 1]])


class RunHolder(Protocol):
    """Whoever remembers open runs."""

    def let_go(self) -> None:
        """Forgets them: too many files are open.  Runs in use stay readable."""


_holders: WeakSet[RunHolder] = WeakSet()
_holding = Lock()


def hold(holder: RunHolder) -> None:
    """Tells that `holder` remembers open runs, and is to be told when there are too many."""
    with _holding:
        _holders.add(holder)


class _OpenFiles:
    """The files and runs that this process has open, by disk and name; at most `FILES_OPEN_MAX` files."""

    def __init__(self) -> None:
        self._files: dict[tuple[Disk, str], tuple[ZoneFile, dict[int, Run]]] = {}
        self._lock = Lock()

    def run(self, disk: Disk, ref: RunRef, file: FileRef | None) -> Run:
        with self._lock:
            opened = self._files.get((disk, ref.file))
            if opened is None or (file is not None and file != opened[0].ref):
                if len(self._files) >= FILES_OPEN_MAX:
                    self._let_go()
                opened = self._files[disk, ref.file] = (ZoneFile(disk, ref.file, file), {})
            zone, runs = opened
            run = runs.get(ref.section)
            if run is None or run.ref != ref:
                run = runs[ref.section] = _from_file(zone, ref)
            return run

    def _let_go(self) -> None:
        with _holding:
            holders = list(_holders)
        for holder in holders:
            holder.let_go()
        self._files.clear()

    def keep(self, disk: Disk, names: Collection[str]) -> None:
        with self._lock:
            for key in [key for key in self._files if key[0] == disk and key[1] not in names]:
                del self._files[key]


_OPEN = _OpenFiles()


def close_files_except(disk: Disk, names: Collection[str]) -> None:
    """Let go of the open files of `disk` that are not in `names`; runs in use stay readable."""
    _OPEN.keep(disk, names)


def _from_file(zone: ZoneFile, ref: RunRef) -> Run:
    section = zone.sections[ref.section] if ref.section < len(zone.sections) else None
    if section is None or (section.state, section.rows) != (ref.state, ref.rows):
        raise Damaged(f"{zone.name}: section {ref.section} is not the run of state {ref.state} that was asked for")
    parts = section.parts
    return Run(
        zone.numbers(parts["words"]),
        zone.numbers(parts["weights"]) if "weights" in parts else None,
        section.bits,
        zone.numbers(parts["table"]),
        lambda: [zone.array(section, part) for part in section.columns],
        ref,
        zone,
    )
