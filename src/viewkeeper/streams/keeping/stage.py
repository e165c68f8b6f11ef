"""What a round of keeping has made so far, over a snapshot: nothing of it is visible before it is committed.

The round works on copies of the part catalog and of the progress; `RoundStage.change` turns the difference into one
commit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewkeeper.catalog.model import PARTS, REJECTED, Catalog, Column, PartView, Stream
from viewkeeper.streams.part_changes import PartChanges, changes_between
from viewkeeper.streams.part_index import Part, PartIndex, Range, read_index, rows_of
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.touched import Touched, union
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.streams.work import Piece, Place
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.disk import Disk
from viewkeeper.trace.file import ZoneFile
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.receipt import FileRef, Receipt, RunRef
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.snapshot import Change, Snapshot

PENDING = -1
"""Stands for the version, and the time, of the commit to come."""

NO_PARTS = PartIndex()


@dataclass(frozen=True)
class NewFile:
    """A file with rows of `object`, of the parts `low` to `high`."""

    object: int
    ref: FileRef
    rows: int
    low: int
    high: int


class RoundStage:
    """A snapshot and what is to come after it.  Its methods may be called from several threads."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot, self.catalog = snapshot, snapshot.catalog
        self.columns = columns_of(self.catalog)
        self.files: list[NewFile] = []
        self.rejected: list[Rows] = []
        self.dirty: dict[int, dict[int, Touched]] = {}
        self.dirty_runs: dict[int, list[Range]] = {}
        self.late: dict[Place, tuple[Piece, ...]] = {}  # the late rows of a stream's visible parts
        self._before = read_index(snapshot)
        self._indexes: dict[int, PartIndex] = dict(self._before)
        self._progress: dict[int, dict[str, Any]] = {}
        self._lock = threading.RLock()

    @property
    def disk(self) -> Disk:
        """Where the files of parts are."""
        return self.snapshot.storage.disk

    # Parts

    def index(self, object_: int) -> PartIndex:
        """The parts of an object."""
        return self._indexes.get(object_, NO_PARTS)

    def next_with_rows(self, object_: int, part: int) -> int | None:
        """The lowest part from `part` on that has rows."""
        return self.index(object_).next_with_rows(part - 1)

    def had_rows(self, object_: int, part: int) -> bool:
        """Whether a part had rows in the snapshot."""
        found = self._before.get(object_, NO_PARTS).at(part)
        return found is not None and found.rows > 0

    def pieces(self, object_: int, part: int) -> tuple[Piece, ...]:
        """The pieces of a part, none where it is empty."""
        found = self.index(object_).at(part)
        return found.pieces if found is not None else ()

    def put(
        self, object_: int, part: int, pieces: tuple[Piece, ...], *, last: int | None = None,
        dimensions: Mapping[int, int] | None = None, updated: bool = True,
    ) -> None:  # fmt: skip
        """A part (or with `last` a run of equal ones) as it will be; with `updated` its rows are others than before.

        What it had is kept of what is not given: its recorded dimension versions, and its last update.
        """
        with self._lock:
            index = self.index(object_)
            old = index.at(part)
            if dimensions is None:
                dimensions = old.dimensions if old is not None else {}
            stamp = (PENDING, PENDING) if updated or old is None else (old.updated, old.stamp)
            rows = sum(piece.rows for piece in pieces)
            made = Part(part, part if last is None else last, rows, *stamp, pieces, dict(dimensions))
            self._indexes[object_] = index.put(made)

    def repeat(self, object_: int, part: int, last: int) -> None:
        """Parts behind `part` up to `last` get what it has; what it has was made in this round."""
        with self._lock:
            pieces = tuple(piece.shared(part) for piece in self.pieces(object_, part))
            self.put(object_, part, pieces, last=last)
            named = {piece.file for piece in pieces}
            self.files = [replace(file, high=max(file.high, last)) if file.ref.name in named else file
                          for file in self.files]  # fmt: skip

    def remove(self, object_: int, low: int, high: int) -> None:
        """Takes the parts from `low` to `high` out of the part catalog."""
        with self._lock:
            index = self.index(object_)
            if index.first is not None and index.last is not None and index.first <= high and low <= index.last:
                self._indexes[object_] = index.drop(low, high)

    def touch(self, object_: int, part: int, hashes: Touched) -> None:
        """Notes that rows of a part are others than before, in the groups with these hashes."""
        with self._lock:
            parts = self.dirty.setdefault(object_, {})
            parts[part] = union(parts[part], hashes) if part in parts else hashes

    def touch_run(self, object_: int, first: int, last: int) -> None:
        """`touch` of the parts `first` to `last`, in all groups."""
        with self._lock:
            self.dirty_runs.setdefault(object_, []).append((first, last))

    # Progress

    def stream(self, id_: int) -> StreamProgress:
        """How far a stream is."""
        return StreamProgress.from_dict(self._data(id_))

    def view(self, id_: int) -> ViewProgress:
        """How far a part view is."""
        return ViewProgress.from_dict(self._data(id_))

    def set_progress(self, id_: int, progress: StreamProgress | ViewProgress) -> None:
        """How far an object will be."""
        with self._lock:
            if progress != type(progress).from_dict(self._data(id_)):
                self._progress[id_] = progress.to_dict()

    def first(self, id_: int) -> int | None:
        """The first part of a stream, view or helper; None while it has none."""
        return self._progress_of(id_).first

    def next(self, id_: int) -> int | None:
        """The first part that does not exist yet; None while there is none at all."""
        return self._progress_of(id_).next

    def kept(self, id_: int) -> int | None:
        """The lowest part that has not expired."""
        return self._progress_of(id_).kept

    def _progress_of(self, id_: int) -> StreamProgress | ViewProgress:
        item = self.catalog.by_id(id_)
        return self.stream(id_) if isinstance(item, Stream) else self.view(id_)

    def _data(self, id_: int) -> dict[str, Any] | None:
        return self._progress.get(id_, self.snapshot.progress.get(id_))

    def set_kept(self, id_: int, part: int) -> None:
        """Parts before `part` have expired."""
        item = self.catalog.by_id(id_)
        progress: StreamProgress | ViewProgress = self.stream(id_) if isinstance(item, Stream) else self.view(id_)
        self.set_progress(id_, replace(progress, kept=part))

    # The commit

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be committed."""
        return not (self._progress or self.rejected or self.files or self._changed_objects())

    def change(self, storage: Storage, version: int, epoch: int, attempt: int, stamp: int) -> Change:
        """All of it as the change that makes `version`; writes the rows of the part catalog."""
        writer = ZoneFile.writer(storage.disk, file_name(version, epoch, 0, 0, attempt, "batch"))
        changed: dict[int, list[Part]] = {}
        gone: dict[int, list[int]] = {}
        removed: list[RunRef] = []
        for object_ in self._changed_objects():
            index, before = self.index(object_), self._before.get(object_, NO_PARTS)
            parts, gone[object_] = index.difference(before)
            changed[object_] = [replace(part, updated=version, stamp=stamp) if part.updated == PENDING else part
                                for part in parts]  # fmt: skip
            keys = [*(part.part for part in parts), *gone[object_]]
            removed += self._dead_runs(object_, _files(before, keys))
        if changed:
            writer.add(PARTS, rows_of(changed, gone))
        if self.rejected:
            writer.add(REJECTED, Rows.concat(self.rejected))
        receipts = [writer.finish().at(version, version), *(_receipt(file, version) for file in self.files)]
        return Change("parts", version, added=receipts, removed=removed, progress=self._progress)

    def part_changes(self, objects: Iterable[int]) -> PartChanges:
        """What comes to the parts of `objects`, and goes from them."""
        return changes_between(objects, lambda id_: self._before.get(id_, NO_PARTS), self.index, self.kept)

    def _changed_objects(self) -> list[int]:
        return [id_ for id_, index in self._indexes.items() if index is not self._before.get(id_)]

    def _dead_runs(self, object_: int, suspects: set[str]) -> list[RunRef]:
        """The runs among the files `suspects` in which no piece of a part stands any more."""
        return [
            run
            for run in self.snapshot.states.get(object_, ())
            if run.file in suspects and not self._is_named(object_, run)
        ]

    def _is_named(self, object_: int, run: RunRef) -> bool:
        """Whether any piece of a part stands in a run's file; one look suffices, mostly."""
        index = self.index(object_)
        return any(piece.file == run.file for part in index.filled_runs(run.low, run.high)[0].tolist()
                   for piece in self.pieces(object_, part))  # fmt: skip


def _files(index: PartIndex, parts: Iterable[int]) -> set[str]:
    """The files in which pieces of these parts stand."""
    found = (index.at(part) for part in parts)
    return {piece.file for part in found if part is not None for piece in part.pieces}


def columns_of(catalog: Catalog) -> dict[int, tuple[Column, ...]]:
    """The shape of every object that has parts, and of every table and core view."""
    found = {table.id: table.columns for table in catalog.tables} | {view.id: view.columns for view in catalog.views}
    for item in catalog.in_parts:
        found[item.id] = item.columns
        if isinstance(item, PartView):
            found.update({helper.id: helper.columns for helper in item.helpers})
    return found


def pieces_between(stage: RoundStage, object_: int, low: int, high: int) -> dict[Place, tuple[Piece, ...]]:
    """The pieces of all parts with rows from `low` to `high`."""
    return {(object_, part.part): part.pieces for part in stage.index(object_).with_rows(low, high)}


def new_files(object_: int, refs: Sequence[FileRef], pieces: Iterable[tuple[int, Piece]]) -> list[NewFile]:
    """What is to be committed of the files `refs` in which pieces (by part) of one object stand; of a piece that equal
    parts share, the first and the last of them are told."""
    by_file: dict[str, list[tuple[int, Piece]]] = {}
    for part, piece in pieces:
        by_file.setdefault(piece.file, []).append((part, piece))
    found = []
    for ref in refs:
        inside = by_file.get(ref.name)
        if inside:
            parts = [part for part, _ in inside]
            rows = sum(piece.rows for piece in {piece for _, piece in inside})
            found.append(NewFile(object_, ref, rows, min(parts), max(parts)))
    return found


def _receipt(file: NewFile, version: int) -> Receipt:
    run = RunRef(file.object, file.ref.name, 0, file.rows, file.ref.length, file.low, file.high, version, version)
    return Receipt(file.ref, (run,))
