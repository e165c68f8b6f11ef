"""Dimension tables as parts saw them: copies of base tables and core views at recorded versions.

When a part of a stream is sealed, the last version that changed each dimension table is recorded with it; whatever is
computed or repaired from that part reads the table as of then.  The rows of a recorded version are copied once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from viewkeeper.catalog.model import ERRORS, PartView, Stream, Table, View
from viewkeeper.errors import Error
from viewkeeper.plans.references import Input
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.keeping.stage import RoundStage, new_files
from viewkeeper.streams.part_files import PartWriter
from viewkeeper.streams.subscripts import UNBOUNDED, greatest_at_most
from viewkeeper.streams.view_progress import Rebuilt
from viewkeeper.streams.work import Piece
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.points import reached
from viewkeeper.trace.snapshot import Snapshot


class Unreadable(Error):
    """A core view that cannot be read now."""


class Dimensions:
    """The dimension tables of one round.  Its methods may be called from several threads."""

    def __init__(self, stage: RoundStage, epoch: int, attempt: int) -> None:
        self.stage = stage
        self._lock = threading.RLock()  # each version is copied once, and recorded once
        self._epoch, self._attempt = epoch, attempt

    def of_stream(self, stream: int) -> list[int]:
        """The dimension tables of all views that read a stream, directly or through others."""
        above, found = {stream}, dict[int, None]()
        for view in self.stage.catalog.part_views:
            if above & set(view.reads):
                above.add(view.id)
                found.update(dict.fromkeys(view.dimensions))
        return list(found)

    def record(self, stream: int) -> dict[int, int]:
        """What is to be recorded with a part of `stream` that is sealed now; what cannot be read now is left out."""
        found = {}
        for id_ in self.of_stream(stream):
            with contextlib.suppress(Unreadable):
                found[id_] = self.version_now(id_)
        return found

    def version_now(self, id_: int) -> int:
        """The last version that changed a table or view; its rows are copied if they are not yet."""
        item, snapshot = self._item(id_), self.stage.snapshot
        if isinstance(item, View):
            self._require_whole(item)
        version = max((run.last for run in snapshot.states.get(item.stored.state.id, ())), default=0)
        with self._lock:
            if self.stage.index(id_).at(version) is None:
                self._copy(item, version)
        return version

    def versions(self, view: PartView, inputs: tuple[Input, ...], part: int) -> dict[int, int]:
        """The versions that `part` of a view reads: those with which it was rebuilt, or those recorded with the newest
        part of a stream that it names.

        Of these no copy may be left, where nothing needed them any more: then the part is noted as rebuilt by now's.
        """
        if not view.dimensions:
            return {}
        with self._lock:
            progress, found = self.stage.view(view.id), dict[int, int]()
            for rebuilt in progress.rebuilt:
                if rebuilt.first <= part <= rebuilt.last:
                    found = dict(rebuilt.dimensions)
            stream, newest = self._newest(inputs, part)
            for id_ in set(view.dimensions) - set(found):
                found[id_] = self._recorded(stream, newest, id_)
            lost = [id_ for id_, version in found.items() if self.stage.index(id_).at(version) is None]
            if lost:
                found.update({id_: self.version_now(id_) for id_ in lost})
                made = rebuilt_too(progress.rebuilt, part, part, found)
                self.stage.set_progress(view.id, replace(progress, rebuilt=made))
            return found

    def same_until(self, view: PartView, inputs: tuple[Input, ...], part: int) -> int:
        """A part from `part` on up to which `versions` gives the same, as far as two looks tell."""
        if not view.dimensions:
            return UNBOUNDED
        end = UNBOUNDED
        for rebuilt in self.stage.view(view.id).rebuilt:
            if rebuilt.last >= part:
                end = min(end, rebuilt.last if rebuilt.first <= part else rebuilt.first - 1)
        stream, newest = self._newest(inputs, part)
        found = self.stage.index(stream.id).at(newest)
        if found is None:
            return part
        for each in inputs:
            source = self.stage.catalog.source(each.object)
            end = min(end, greatest_at_most(each.high, (found.last + 1) * stream.length // source.length - 1))
        return max(part, end)

    def pieces(self, id_: int, version: int) -> tuple[Piece, ...]:
        """The copy of a dimension table as of a recorded version."""
        return self.stage.pieces(id_, version)

    def _newest(self, inputs: tuple[Input, ...], part: int) -> tuple[Stream, int]:
        """The newest stream part that is named, directly or below a view's part."""
        found: tuple[int, Stream, int] | None = None
        for each in inputs:
            source = self.stage.catalog.source(each.object)
            end = (each.high.at(part) + 1) * source.length
            stream = self._stream_below(source)
            if found is None or end > found[0]:
                found = (end, stream, end // stream.length - 1)
        assert found is not None, "a view over streams names a part of one"
        return found[1], found[2]

    def _stream_below(self, source: Stream | PartView) -> Stream:
        while isinstance(source, PartView):
            source = self.stage.catalog.source(next(id_ for id_ in source.reads if id_ != source.id))
        return source

    def _recorded(self, stream: Stream, part: int, id_: int) -> int:
        """The recorded version; a part that was sealed before anybody joined with the table gets that of now."""
        found = self.stage.index(stream.id).at(part)
        if found is None:
            return self.version_now(id_)
        version = found.dimensions.get(id_)
        if version is None:
            version = self.version_now(id_)
            self.stage.put(stream.id, found.part, found.pieces, last=found.last,
                           dimensions={**found.dimensions, id_: version}, updated=False)  # fmt: skip
        return version

    def _item(self, id_: int) -> Table | View:
        item = self.stage.catalog.by_id(id_)
        assert isinstance(item, (Table, View)), "a dimension table cannot be dropped while it is used"
        return item

    def _require_whole(self, view: View) -> None:
        """Raises Unreadable where a core view is not filled, stopped, or holds error rows, itself or below."""
        waiting, errors = [view], self.stage.snapshot.trace(ERRORS)
        while waiting:
            item = waiting.pop()
            if item.filled is None:
                raise Unreadable(f"the view {view.name} is still being filled")
            if item.stopped is not None:
                raise Unreadable(f"the view {item.name} is kept up to date no more: {item.stopped}")
            if errors.get([item.id]):
                raise Unreadable(f"the view {item.name} holds error rows; mend what they come from")
            waiting += [below for id_ in item.reads if isinstance(below := self.stage.catalog.by_id(id_), View)]

    def _copy(self, item: Table | View, version: int) -> None:
        stage = self.stage
        name = file_name(stage.snapshot.version + 1, self._epoch, 0, 0, self._attempt, "batch", "parquet")
        writer = PartWriter(stage.disk, name, item.columns, stage.catalog.zone, grouped=False)
        writer.add(version, rows_now(stage, item))
        ref, pieces = writer.finish()
        reached("dimension copied")
        stage.put(item.id, version, tuple(pieces.values()))
        stage.files += new_files(item.id, [] if ref is None else [ref], pieces.items())


def rebuilt_too(
    rebuilt: tuple[Rebuilt, ...], first: int, last: int, versions: Mapping[int, int]
) -> tuple[Rebuilt, ...]:
    """What is known of rebuilt parts, with parts `first` to `last` rebuilt once more: apart, in order, as few as
    possible."""
    kept = [replace(each, last=min(each.last, first - 1)) for each in rebuilt if each.first < first]
    kept.append(Rebuilt(first, last, tuple(sorted(versions.items()))))
    kept += [replace(each, first=max(each.first, last + 1)) for each in rebuilt if each.last > last]
    joined: list[Rebuilt] = []
    for each in sorted(kept, key=lambda each: each.first):
        if joined and (joined[-1].last + 1, joined[-1].dimensions) == (each.first, each.dimensions):
            joined[-1] = replace(joined[-1], last=each.last)
        else:
            joined.append(each)
    return tuple(joined)


def last_change(snapshot: Snapshot, view: PartView) -> int:
    """The last version that changed a dimension table of `view`, or what makes it readable or not."""
    versions, waiting = [0], [snapshot.catalog.by_id(id_) for id_ in view.dimensions]
    while waiting:
        item = waiting.pop()
        if isinstance(item, (Table, View)):
            versions += [run.last for run in snapshot.states.get(item.stored.state.id, ())]
        if isinstance(item, View):
            versions += [item.filled or 0, *(run.last for run in snapshot.states.get(ERRORS.id, ()))]
            waiting += [snapshot.catalog.by_id(id_) for id_ in item.reads]
    return max(versions)


def rows_now(stage: RoundStage, item: Table | View) -> Block:
    """All rows of a table or core view as of the snapshot, in declared columns."""
    rows = stage.snapshot.trace(item.stored.state).scan()
    if item.stored.member is not None:
        rows = rows.filter(rows.columns[0].to_numpy() == item.stored.member)
    if not (rows.weights == 1).all():
        rows = rows.take(np.repeat(np.arange(len(rows)), rows.weights))
    columns = [rows.columns[i] for i in item.stored.order]
    return Block(columns, np.zeros(len(rows), dtype=np.uint64))
