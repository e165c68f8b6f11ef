"""One view in one round: which of its parts can be built, which must be repaired, and having it done.

The initial subscript, NEXT and what a part waits for are those of paper 003, section 4.1; which parts late data touch
follows from the references (4.3).  A view's parts are computed in order; the round goes through views in the order in
which they read each other.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from viewkeeper.catalog.model import PartView
from viewkeeper.errors import Error
from viewkeeper.streams.keeping.dimensions import Dimensions, Unreadable, last_change, rebuilt_too
from viewkeeper.streams.keeping.stage import Stage, Touched, new_files, union
from viewkeeper.streams.program import Input
from viewkeeper.streams.subscripts import UNBOUNDED, greatest_at_most, lowest_at_least, naming
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.streams.work import Outcome, Piece, Runner
from viewkeeper.trace.points import reached


class ViewFailed(Error):
    """The query of a view failed at part `part`; `unreadable`: since a dimension table could not be read."""

    def __init__(self, part: int, reason: str, *, unreadable: bool = False) -> None:
        super().__init__(reason)
        self.part, self.unreadable = part, unreadable


@dataclass
class Hands:
    """What all views of a round share: the stage, who runs works, the names of files to come, the time that is left."""

    stage: Stage
    runner: Runner
    dimensions: Dimensions
    epoch: int
    attempt: int
    seconds: dict[int, list[float]]
    deadline: float

    @property
    def version(self) -> int:
        """The version to come, as file names tell it."""
        return self.stage.snapshot.version + 1

    def took(self, view: int, parts: int, seconds: float) -> None:
        """Keeps what the last works of a view took, a part, for EXPLAIN."""
        times = self.seconds.setdefault(view, [])
        times.append(seconds / parts)
        del times[:-20]


class Upkeep(ABC):
    """Keeps one view; how its parts are computed is in the two subclasses."""

    def __init__(self, hands: Hands, view: PartView) -> None:
        self.hands, self.stage, self.view = hands, hands.stage, view
        self.is_behind = self._is_behind()

    @property
    def progress(self) -> ViewProgress:
        """How far the view is, in this round."""
        return self.stage.view(self.view.id)

    def _is_behind(self) -> bool:
        """Whether it lacked parts before this round already: then it may go on in the next."""
        before = ViewProgress.from_dict(self.stage.snapshot.progress.get(self.view.id)).next
        for id_ in self.view.reads:
            at = self.stage.snapshot.progress.get(id_)
            source = self.stage.catalog.parts_by_id(id_)
            if at is None or at["next"] is None or source is None:
                continue
            if before is None or (before + 1) * self.view.length <= at["next"] * source.length:
                return True
        return False

    # What the subclasses know

    @abstractmethod
    def inputs(self, part: int) -> tuple[Input, ...]:
        """What a part reads, the view's own parts included."""

    optional: tuple[Input, ...] = ()
    """Further parts that are read where they exist."""

    @abstractmethod
    def named_inputs(self) -> Sequence[Input]:
        """What any part reads."""

    def next_definition(self, part: int) -> int:
        """The first part behind `part` that is computed by another definition; UNBOUNDED: none."""
        return UNBOUNDED

    @abstractmethod
    def initial_inputs(self) -> tuple[Input, ...]:
        """What must have a first part, and what the initial part must not read from before it."""

    @abstractmethod
    def build(self, first: int, last: int) -> int:
        """Builds parts from `first` to at most `last`, in order; returns the part after the last one built.  Raises
        ViewFailed; what was built before stays."""

    @abstractmethod
    def repair(self, touched: dict[int, Touched]) -> None:
        """Computes the parts `touched`, and what follows from them, anew.  Raises ViewFailed."""

    # One round

    def run(self) -> None:
        """Repairs, then builds all that can be built; a view whose query fails is stale, and keeps what it has."""
        try:
            self._require_sound_sources()
            if self._settle_first() is None:
                return
            self._renew()
            self._repair()
            self._build()
        except ViewFailed as failed:
            self._fail(failed)
            return
        if self.progress.stale is not None:
            self.stage.set_progress(self.view.id, replace(self.progress, stale=None, tried=None))

    def _fail(self, failed: ViewFailed) -> None:
        progress = self.progress
        upto, redo = failed.part if progress.next is None else progress.next, progress.redo
        if failed.part < upto:
            redo = failed.part if redo is None else min(failed.part, redo)
        tried = last_change(self.stage.snapshot, self.view) if failed.unreadable else None
        self.stage.set_progress(self.view.id, replace(progress, stale=str(failed), redo=redo, tried=tried))

    def _require_sound_sources(self) -> None:
        for id_ in self.view.reads:
            source = self.stage.catalog.parts_by_id(id_)
            if isinstance(source, PartView) and self.stage.view(id_).stale is not None:
                reason = self.stage.view(id_).stale
                name = source.name if source.kind != "helper" else "its helper"
                said = reason if source.kind == "helper" else f"{name}, which it reads, is stale: {reason}"
                dirty = [lowest for lowest in (self._lowest_touched(),) if lowest is not None]
                raise ViewFailed(min(dirty, default=UNBOUNDED), str(said))

    def _settle_first(self) -> int | None:
        """The initial subscript; None while a source has no part."""
        progress = self.progress
        if progress.first is not None and (not self.view.fills or self.view.kind == "viewdf"):
            return progress.first
        first = -UNBOUNDED if self.view.first is None else self.view.first
        for each in self.initial_inputs():
            start = self.stage.kept(each.object) if self.view.fills else None
            start = self.stage.first(each.object) if start is None else start
            if start is None or self.stage.next(each.object) is None:
                return progress.first
            first = max(first, lowest_at_least(each.low, start))
        if progress.first is not None and first >= progress.first:
            return progress.first  # what was settled moves only back
        self._move_first(progress, first)
        return first

    def _move_first(self, progress: ViewProgress, first: int) -> None:
        """The initial subscript is found, or earlier than it was, since a source's first part is."""
        old, after = progress.first, progress.next
        if old is None or after is None or after == old:  # nothing is built yet
            self.stage.set_progress(self.view.id, replace(progress, first=first, next=first))
            return
        self.stage.set_progress(self.view.id, replace(progress, first=first))
        self.mark_empty(first, old - 1)
        self._early = dict.fromkeys(self._with_input(first, old - 1))

    _early: dict[int, Touched] | None = None

    def _renew(self) -> None:
        """Has parts from `renew` on, as far as what they read is sealed by now, read the dimension tables of now."""
        progress, dimensions = self.progress, self.hands.dimensions
        if progress.renew is None or progress.next is None:
            return
        first, last = progress.renew, max(progress.next - 1, self.greatest(progress.next))
        with self.reading_dimensions(first):
            versions = {id_: dimensions.version_now(id_) for id_ in self.view.dimensions}
        rebuilt = rebuilt_too(progress.rebuilt, first, last, versions) if first <= last else progress.rebuilt
        self.stage.set_progress(self.view.id, replace(progress, rebuilt=rebuilt, renew=None))

    @contextmanager
    def reading_dimensions(self, part: int) -> Iterator[None]:
        """Part `part` fails where a dimension table cannot be read."""
        try:
            yield
        except Unreadable as problem:
            raise ViewFailed(part, f"part {part}: {problem}", unreadable=True) from None

    def _repair(self) -> None:
        touched = self._touched()
        if touched:
            self.repair(touched)
            reached("part repaired")
        if self.progress.redo is not None:
            self.stage.set_progress(self.view.id, replace(self.progress, redo=None))

    def _touched(self) -> dict[int, Touched]:
        """The built parts that read what has changed (and those to be done anew), with the groups that changed."""
        progress, touched = self.progress, dict(self._early or {})
        assert progress.first is not None and progress.next is not None
        last = progress.next - 1
        for each in self.named_inputs():
            for part, hashes in self.stage.dirty.get(each.object, {}).items():
                low, high = naming(each.low, each.high, part, part)
                for j in range(max(low, progress.first, progress.kept or progress.first), min(high, last) + 1):
                    if each in (*self.inputs(j), *self.optional):
                        mine = self.touched_by(each, part, j, hashes)
                        touched[j] = union(touched[j], mine) if j in touched else mine
        if progress.redo is not None:
            start = max(progress.redo, progress.first, progress.kept or progress.first)
            touched.update(dict.fromkeys([*self._with_input(start, last), *self._with_rows(start, last)]))
        return touched

    def _lowest_touched(self) -> int | None:
        if self.progress.first is None or self.progress.next is None:
            return None
        return min(self._touched(), default=None)

    def touched_by(self, input_: Input, part: int, j: int, hashes: Touched) -> Touched:
        """Which groups of part j may change when these groups of a part of `input_` have."""
        return hashes

    def _build(self) -> None:
        progress = self.progress
        assert progress.next is not None
        while progress.next <= (last := self.greatest(progress.next)):
            self.require_kept(progress.next)
            upto = self.build(progress.next, last)
            progress = replace(self.progress, next=upto)
            self.stage.set_progress(self.view.id, progress)
            if self.is_behind and time.monotonic() > self.hands.deadline:
                return

    def require_kept(self, part: int) -> None:
        """Raises ViewFailed where a part that `part` reads has expired."""
        for each in self.inputs(part):
            kept, first = self.stage.kept(each.object), self.stage.first(each.object)
            if kept is None or first is None:
                continue
            low, high = max(each.low.at(part), first), each.high.at(part)
            if low <= high and low < kept:
                raise ViewFailed(part, f"part {part} reads part {low} of {self.name(each.object)}, which has expired")

    # What follows from the inputs

    def greatest(self, part: int) -> int:
        """The greatest part that can be built now, as far as the inputs of `part` tell."""
        greatest = UNBOUNDED
        for each in self.inputs(part):
            if each.object != self.view.id:
                after = self.stage.next(each.object)
                greatest = min(greatest, -UNBOUNDED if after is None else greatest_at_most(each.high, after - 1))
        if greatest >= UNBOUNDED:
            raise ViewFailed(part, "no part that it reads moves on with its own: it would have parts without end")
        if self.inputs(part) != self.inputs(part + 1):
            return min(greatest, part)
        return min(greatest, self.next_definition(part) - 1)

    def next_with_input(self, part: int, inputs: Collection[Input]) -> int:
        """The lowest part from `part` on for which any of `inputs` names a part with rows; UNBOUNDED: none."""
        lowest = UNBOUNDED
        for each in inputs:
            source = self.stage.next_with_rows(each.object, each.low.at(part))
            if source is not None:
                lowest = min(lowest, max(part, lowest_at_least(each.high, source)))
        return lowest

    def _with_input(self, first: int, last: int) -> Iterator[int]:
        """The parts from `first` to `last` for which an input has rows, or that follow on such a part."""
        part = self.next_with_input(first, self.named_inputs())
        while part <= last:
            yield part
            part = self.next_with_input(part + 1, self.named_inputs())

    def _with_rows(self, first: int, last: int) -> Iterator[int]:
        for part in self.stage.index(self.view.id).with_rows(first, last):
            yield part.part

    # Results

    def mark_empty(self, first: int, last: int) -> None:
        """Parts `first` to `last` exist, and have no rows."""
        if first <= last:
            for object_ in (self.view.id, *(helper.id for helper in self.view.helpers)):
                self.stage.put(object_, first, (), last=last)

    def keep(self, outcome: Outcome, part: int, *, repair: bool) -> None:
        """Takes over what a work made, over parts that exist already; raises ViewFailed where it failed."""
        self.require_made(outcome, part)
        fresh: dict[int, list[tuple[int, Piece]]] = {}
        for (object_, at), made in outcome.made.items():
            if made.is_same or (not repair and not made.pieces):
                continue
            self.stage.put(object_, at, made.pieces)
            if repair:
                self.stage.touch(object_, at, made.changed)
            fresh.setdefault(object_, []).extend((at, piece) for piece in made.pieces)
        for object_, pieces in fresh.items():
            self.stage.files += new_files(object_, outcome.files, pieces)

    def require_made(self, outcome: Outcome, part: int) -> None:
        """Raises ViewFailed where a work, whose only part was `part` in the end, failed."""
        if outcome.error is not None:
            raise ViewFailed(part, f"part {part}: {outcome.error}")

    def name(self, object_: int) -> str:
        """What a user calls an object."""
        item = self.stage.catalog.parts_by_id(object_)
        return item.name if item is not None else f"object {object_}"
