"""One version of a database, opened for reading."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from viewkeeper.catalog.model import ERRORS, Catalog, Index, InParts, PartView, Stream, Table, View
from viewkeeper.errors import NotFound, NotReady, ViewBroken
from viewkeeper.pipeline.note import read_note
from viewkeeper.pipeline.status import adoption, progress
from viewkeeper.streams.part_index import PartIndex, read_index
from viewkeeper.streams.readers import parts_below
from viewkeeper.trace.commit import Snapshot
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.run import hold
from viewkeeper.trace.trace import Trace
from viewkeeper.views.parts_at_version import Parts
from viewkeeper.views.shape import Shape


class Readable(NamedTuple):
    """What a read by key needs, found once a version."""

    shape: Shape
    trace: Trace
    broken: str | None


class Version:
    """What one manifest says.  Shapes are taken over from the version before as long as the catalog is the same, so
    that a commit costs a reader only the opening of new runs."""

    def __init__(self, snapshot: Snapshot, before: Version | None = None) -> None:
        self.snapshot = snapshot
        self.catalog: Catalog = snapshot.catalog
        same = before is not None and before.catalog is self.catalog
        self._shapes: dict[tuple[str, str | None], Shape] = before._shapes if before and same else {}
        self._readable: dict[tuple[str, str | None], Readable] = {}
        hold(self)
        self._parts: dict[int, Parts] = {}

    def let_go(self) -> None:
        """Forgets the traces that were found, since too many files are open."""
        self._readable.clear()

    @property
    def number(self) -> int:
        """The version that this is."""
        return self.snapshot.version

    def shape(self, name: str, index: str | None = None) -> Shape:
        """How `name` is read; raises NotFound, or NotReady while it is being filled."""
        found = self._shapes.get((name, index))
        if found is None:
            of = self._find(name)
            way = self._index(of, index) if index is not None else None
            if isinstance(of, Table) and of.outside is not None and of.outside.adopted is None:
                raise NotReady(f"{of.name} {adoption(of)}; db.catch_up() waits for it")
            for part in (of, way):
                if isinstance(part, (View, Index)) and part.filled is None:
                    done = progress(read_note(self.snapshot.storage.disk), part.id)
                    raise NotReady(f"{part.name} {done}; db.catch_up() waits for it")
            found = self._shapes[name, index] = Shape(of, way, self.catalog.zone)
        return found

    def readable(self, name: str, index: str | None = None) -> Readable:
        """What `get` needs to read `name`."""
        found = self._readable.get((name, index))
        if found is None:
            shape = self.shape(name, index)
            trace = self.snapshot.trace(shape.stored.state)
            found = self._readable[name, index] = Readable(shape, trace, self.broken(shape.of) or self._stopped(index))
        return found

    def rows(self, shape: Shape, allow_stale: bool = False) -> Rows:
        """All rows, with the shown columns in their order, physical; equal rows are one row with a weight."""
        require_whole(self.broken(shape.of), allow_stale)
        return shape.shown(self.snapshot.trace(shape.stored.state).scan())

    def broken(self, of: Table | View) -> str | None:
        """Why `of` cannot be read: it is stopped, or it or a view below it has an error row; None where all is well."""
        if isinstance(of, Table):
            return None
        if of.stopped is not None:
            return f"{of.name} is kept up to date no more: {of.stopped}; drop it and create it anew"
        for below in map(self.catalog.by_id, parts_below(self.catalog, [of.id]) if self.catalog.part_views else ()):
            if isinstance(below, PartView) and (stale := self.parts_of(below).stale) is not None:
                return f"{stale}; {of.name} reads it"
        if not self.snapshot.states.get(ERRORS.id):
            return None
        errors = self.snapshot.trace(ERRORS)
        for view in self._lineage(of):
            rows = errors.get([view.id])
            if rows:
                _, code, place, row = rows[0][0]
                more = sum(weight for _, weight in rows) - 1
                via = "" if view is of else f", which {of.name} reads,"
                return (f"{view.name}{via} has {code} at {place} for {row}" + (f" and {more} more" if more else "")
                        + f"; mend or delete what it comes from, and {of.name} is whole again")  # fmt: skip
        return None

    def _stopped(self, index: str | None) -> str | None:
        """Why the index called `index` cannot be read by."""
        found = None if index is None else self.catalog.find(index)
        if not isinstance(found, Index) or found.stopped is None:
            return None
        return f"the index {found.name} is kept up to date no more: {found.stopped}; drop it and create it anew"

    def _lineage(self, view: View) -> Iterator[View]:
        seen, stack = {view.id}, [view]
        while stack:
            item = stack.pop()
            yield item
            for below in (self.catalog.by_id(id_) for id_ in item.reads):
                if isinstance(below, View) and below.id not in seen:
                    seen.add(below.id)
                    stack.append(below)

    def parts_named(self, name: str) -> Parts:
        """The parts of the stream, or view over streams, called `name`; raises NotFound."""
        found = self.catalog.find(name)
        if not isinstance(found, InParts):
            said = "is neither a stream nor a view over streams" if found else "does not exist"
            way = {Table: "table", View: "view"}.get(type(found))
            list_ = "SHOW STREAMS and SHOW VIEWS list what there is"
            raise NotFound(f"{name!r} {said}; " + (f"read it with db.{way}({name!r})" if way else list_))
        return self.parts_of(found)

    def parts_of(self, of: Stream | PartView) -> Parts:
        """The parts of a stream or view of this version's catalog."""
        found = self._parts.get(of.id)
        if found is None:
            found = self._parts[of.id] = Parts(self.snapshot, of, self._indexes.get(of.id) or PartIndex())
        return found

    @cached_property
    def _indexes(self) -> Mapping[int, PartIndex]:
        return read_index(self.snapshot)

    def view(self, name: str) -> View:
        """The view called `name`; raises NotFound."""
        found = self.catalog.find(name)
        if not isinstance(found, View):
            if isinstance(found, InParts):
                raise NotFound(f"{name!r} is a stream, not a view; read it with db.stream({name!r})")
            what = f"{name!r} is not a view" if found else f"the view {name!r} does not exist"
            raise NotFound(f"{what}; SHOW VIEWS lists all")
        return found

    def _find(self, name: str) -> Table | View:
        found = self.catalog.find(name)
        if not isinstance(found, (Table, View)):
            raise NotFound(f"there is no table or view {name!r}; SHOW TABLES and SHOW VIEWS list what there is")
        return found

    def _index(self, of: Table | View, name: str) -> Index:
        found = self.catalog.find(name)
        if not isinstance(found, Index) or found.on != of.id:
            known = ", ".join(index.name for index in self.catalog.indexes if index.on == of.id) or "none"
            raise NotFound(f"{of.name} has no index {name!r}; it has: {known}")
        return found


def require_whole(broken: str | None, allow_stale: bool) -> None:
    """Raises ViewBroken with the reason `broken`, if there is one; with `allow_stale`, warns instead."""
    if broken is not None:
        if not allow_stale:
            raise ViewBroken(broken)
        warnings.warn(broken, stacklevel=4)
