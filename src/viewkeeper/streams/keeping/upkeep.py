"""One view in one round: which of its parts can be built, which must be repaired, and having it done.

The initial subscript, NEXT and what a part waits for are those of paper 003, section 4.1; which parts late data touch
follows from the references (4.3).  A view's parts are computed in order; the round goes through views in the order in
which they read each other.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from viewkeeper.catalog.model import PartView
from viewkeeper.errors import Error
from viewkeeper.plans.references import Input
from viewkeeper.plans.viewdf import QueryPlan, ViewDFPlan
from viewkeeper.streams.keeping.builds import JOB_PARTS, Build
from viewkeeper.streams.keeping.dimensions import Dimensions, Unreadable, last_change, rebuilt_too
from viewkeeper.streams.keeping.repairs import Repairs, plan_repairs
from viewkeeper.streams.keeping.stage import RoundStage, new_files
from viewkeeper.streams.keeping.stretches import are_equal, reads_same_until
from viewkeeper.streams.part_index import Range
from viewkeeper.streams.subscripts import UNBOUNDED, greatest_at_most, lowest_at_least
from viewkeeper.streams.touched import Touched
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.streams.work import Outcome, PartExecutor, Piece
from viewkeeper.trace.points import reached

SLICE_SECONDS = 30.0
"""After so long building a round commits what it has, and goes on in the next, even where it began in step."""


class Stopped(Error):
    """Whoever keeps the streams is to end: what the round has is not to be committed."""


class ViewFailed(Error):
    """The query of a view failed at part `part`; `unreadable`: since a dimension table could not be read."""

    def __init__(self, part: int, reason: str, *, unreadable: bool = False) -> None:
        super().__init__(reason)
        self.part, self.unreadable = part, unreadable


@dataclass
class Hands:
    """What all views of a round share: the stage, who runs jobs, the names of files to come, the time that is left."""

    stage: RoundStage
    executor: PartExecutor
    dimensions: Dimensions
    epoch: int
    attempt: int
    seconds: dict[int, list[float]]
    deadline: float
    stop: threading.Event = field(default_factory=threading.Event)
    more: bool = False

    def is_over(self, behind: bool) -> bool:
        """Whether a view should be built no further in this round: then there is more to do."""
        late = time.monotonic() - self.deadline
        over = self.stop.is_set() or late > (0 if behind else SLICE_SECONDS)
        self.more = self.more or over
        return over

    def require_time(self) -> None:
        """Raises Stopped where the round is to end."""
        if self.stop.is_set():
            raise Stopped("streams are kept no further")

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
        self._parts_most = JOB_PARTS

    @property
    def progress(self) -> ViewProgress:
        """How far the view is, in this round."""
        return self.stage.view(self.view.id)

    def _is_behind(self) -> bool:
        """Whether it lacked parts before this round already: then it may go on in the next."""
        before = ViewProgress.from_dict(self.stage.snapshot.progress.get(self.view.id)).next
        for id_ in self.view.reads:
            at = self.stage.snapshot.progress.get(id_)
            if at is None or at["next"] is None:
                continue
            length = self.stage.catalog.source(id_).length
            if before is None or (before + 1) * self.view.length <= at["next"] * length:
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

    is_timed = False
    """Whether rows differ by the part of which the rows that are read are."""

    carries = False
    """Whether parts are computed from earlier parts of the view itself."""

    @abstractmethod
    def deciding(self, part: int) -> tuple[Input, ...]:
        """Of what a part reads that from which all else follows, its own view apart."""

    @abstractmethod
    def is_idle(self, part: int) -> bool:
        """Whether a part is certainly empty from what it reads."""

    def next_definition(self, part: int) -> int:
        """The first part behind `part` that is computed by another definition; UNBOUNDED: none."""
        return UNBOUNDED

    @abstractmethod
    def initial_inputs(self) -> tuple[Input, ...]:
        """What must have a first part, and what the initial part must not read from before it."""

    @abstractmethod
    def next_build(self, first: int, last: int, most: int) -> Build:
        """What can be built from `first` to at most `last` at once, without knowing what comes of it; at most `most`
        parts are computed."""

    @abstractmethod
    def compute(self, parts: list[int]) -> Outcome:
        """Computes new parts, ascending.  Raises ViewFailed."""

    @abstractmethod
    def repair(self, repairs: Repairs) -> None:
        """Computes the touched parts, and what follows from them, anew.  Raises ViewFailed."""

    # One round

    def run(self) -> None:
        """Repairs, then builds all that can be built; a view whose query fails is stale, and keeps what it has."""
        try:
            self._require_sound_sources()
            early = self._settle_first()
            if self.progress.first is None:
                return
            self._renew()
            self._repair(plan_repairs(self, early))
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
            source = self.stage.catalog.by_id(id_)
            if isinstance(source, PartView) and self.stage.view(id_).stale is not None:
                reason = self.stage.view(id_).stale
                name = source.name if not source.hidden else "its helper"
                said = reason if source.hidden else f"{name}, which it reads, is stale: {reason}"
                built = self.progress.first is not None and self.progress.next is not None
                lowest = plan_repairs(self).lowest if built else None
                raise ViewFailed(UNBOUNDED if lowest is None else lowest, str(said))

    def _settle_first(self) -> Range | None:
        """Finds the initial subscript; there is none yet while a source has no part.  The parts before what it was."""
        progress = self.progress
        if progress.first is not None and (not self.view.fills or isinstance(self.view.plan, ViewDFPlan)):
            return None
        first = -UNBOUNDED if self.view.first is None else self.view.first
        for each in self.initial_inputs():
            start = self.stage.kept(each.object) if self.view.fills else None
            start = self.stage.first(each.object) if start is None else start
            if start is None or self.stage.next(each.object) is None:
                return None
            first = max(first, lowest_at_least(each.low, start))
        if progress.first is not None and first >= progress.first:
            return None  # what was settled moves only back
        return self._move_first(progress, first)

    def _move_first(self, progress: ViewProgress, first: int) -> Range | None:
        """The initial subscript is found, or earlier than it was, since a source's first part is: then the parts that
        are now the first ones, which are empty as yet."""
        old, after = progress.first, progress.next
        if old is None or after is None or after == old:  # nothing is built yet
            self.stage.set_progress(self.view.id, replace(progress, first=first, next=first))
            return None
        self.stage.set_progress(self.view.id, replace(progress, first=first))
        self.mark_empty(first, old - 1)
        return first, old - 1

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

    def _repair(self, repairs: Repairs) -> None:
        if repairs.touched:
            self.repair(repairs)
            reached("part repaired")
        if self.progress.redo is not None:
            self.stage.set_progress(self.view.id, replace(self.progress, redo=None))

    @property
    def written(self) -> tuple[int, ...]:
        """The ids of all that the view's parts are written to."""
        return (self.view.id, *(helper.id for helper in self.view.helpers))

    def touched_by(self, input_: Input, part: int, j: int, hashes: Touched) -> Touched:
        """Which groups of part j may change when these groups of a part of `input_` have."""
        return hashes

    def _build(self) -> None:
        progress = self.progress
        assert progress.next is not None
        while progress.next <= (last := self.greatest(progress.next)):
            self.require_kept(progress.next)
            upto = self._build_next(progress.next, last)
            progress = replace(self.progress, next=upto)
            self.stage.set_progress(self.view.id, progress)
            if self.hands.is_over(self.is_behind):
                return

    def _build_next(self, first: int, last: int) -> int:
        """Builds parts from `first` on; returns the part after the last one.  What they turn out to be may say that
        more are equal."""
        build = self.next_build(first, last, self._parts_most)
        outcome = self.compute(build.parts) if build.parts else Outcome()
        if outcome.error is not None and build.parts[-1] > first:
            # One of them fails: those before it are built.
            self._parts_most = max(1, len(build.parts) // 2)
            if build.parts[0] == first:
                return self._build_next(first, last)
            build, outcome = Build(first, build.parts[0] - 1), Outcome()
        self.require_made(outcome, first)
        self.make_room(build)
        self.keep(outcome, first)
        for part, until in build.computed:
            self.repeat(part, until)
        if not self.carries or build.last not in build.parts[-1:]:
            return build.last + 1
        end = self.equal_until(build.last, last)
        self.repeat(build.last, end)
        return end + 1

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

    def same_until(self, part: int) -> int:
        """The last part from `part` on of which all is the same from which a part is computed, its own view apart."""
        inputs = self.deciding(part)
        ends = [reads_same_until(self.stage, each, part, self.is_timed) for each in inputs]
        ends.append(self.hands.dimensions.same_until(self.view, inputs, part))
        return max(part, min(*ends, self.next_definition(part) - 1))

    def repeated_until(self, part: int, last: int) -> int:
        """The last part from `part` on that is as it is, whatever it turns out to be."""
        if self.carries:
            return part
        with self.reading_dimensions(part):
            # Which versions it reads is settled first: where they are gone it reads others than the parts behind it.
            self.hands.dimensions.versions(self.view, self.deciding(part), part)
        return min(last, self.same_until(part))

    def equal_until(self, part: int, last: int) -> int:
        """The last part from `part` on, and at most `last`, that must be as `part` is.  Of a view that reads itself
        that shows where two parts in succession came out the same, from the same."""
        end = min(last, self.same_until(part))
        if end == part or not self.carries:
            return end
        if self.same_until(part - 1) < part:
            return part
        return end if all(self._equal(object_, part - 1, part) for object_ in self.written) else part

    def repeat(self, part: int, last: int) -> None:
        """Parts behind `part`, which was made in this round, up to `last` are as it is."""
        for object_ in self.written if part < last else ():
            self.stage.repeat(object_, part, last)

    def settle_stretch(self, part: int) -> int:
        """After the repair of `part` of a view that reads itself: the part up to which nothing more is to be computed,
        since all that were alike become as it is."""
        ends = [self.stage.index(object_).alike_until(part + 1) for object_ in self.written]
        end = min([(self.progress.next or 0) - 1, *(end for end in ends if end is not None)])
        end = self.equal_until(part, end) if self.carries and part < end else part
        if end > part and not all(self._equal(object_, part, part + 1) for object_ in self.written):
            self.repeat(part, end)
            for object_ in self.written:
                self.stage.touch_run(object_, part + 1, end)
            return end
        return part

    def _equal(self, object_: int, part: int, other: int) -> bool:
        return are_equal(self.stage, object_, part, other, grouped=not isinstance(self.view.plan, QueryPlan))

    # Results

    def make_room(self, build: Build) -> None:
        """All parts of `build` exist, with the rows that they have without being computed."""
        self.mark_empty(build.first, build.last)

    def mark_empty(self, first: int, last: int) -> None:
        """Parts `first` to `last` exist, and have no rows."""
        if first <= last:
            for object_ in self.written:
                self.stage.put(object_, first, (), last=last)

    def keep(self, outcome: Outcome, part: int, repairs: Repairs | None = None) -> None:
        """Takes over what a work made, over parts that exist already; raises ViewFailed where it failed."""
        self.require_made(outcome, part)
        fresh: dict[int, list[tuple[int, Piece]]] = {}
        for (object_, at), made in outcome.made.items():
            if made.is_same or (repairs is None and not made.pieces):
                continue
            self.stage.put(object_, at, made.pieces)
            if repairs is not None:
                self.stage.touch(object_, at, made.changed)
            fresh.setdefault(object_, []).extend((at, piece) for piece in made.pieces)
        for object_, pieces in fresh.items():
            self.stage.files += new_files(object_, outcome.files, pieces)
        if repairs is not None and not self.carries:
            for (object_, at), made in outcome.made.items():
                last = repairs.alike.get(at, at)
                if not made.is_same and last > at:
                    self.stage.repeat(object_, at, last)
                    self.stage.touch_run(object_, at + 1, last)

    def require_made(self, outcome: Outcome, part: int) -> None:
        """Raises ViewFailed where a work, whose only part was `part` in the end, failed."""
        if outcome.error is not None:
            raise ViewFailed(part, f"part {part}: {outcome.error}")

    def name(self, object_: int) -> str:
        """What a user calls an object."""
        item = self.stage.catalog.by_id(object_)
        return item.name if item is not None else f"object {object_}"
