"""Keeping a generated view: its parts are computed by a program, many in one job."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from viewkeeper.catalog.model import PartView
from viewkeeper.errors import ViewBroken
from viewkeeper.plans.references import Input
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.computing import compute
from viewkeeper.streams.keeping.builds import JOB_PARTS, Build
from viewkeeper.streams.keeping.repairs import Repairs
from viewkeeper.streams.keeping.stage import new_files, pieces_between
from viewkeeper.streams.keeping.upkeep import Hands, Upkeep, ViewFailed
from viewkeeper.streams.part_files import PartWriter, read_part
from viewkeeper.streams.part_index import Range
from viewkeeper.streams.part_program import Shuffled
from viewkeeper.streams.program_of_view import program_of
from viewkeeper.streams.subscripts import UNBOUNDED
from viewkeeper.streams.touched import Touched, union
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.streams.work import Outcome, PartWork, Piece, Place
from viewkeeper.trace.naming import file_name

JOB_ROWS = 4_000_000
"""Rows of the source that one job reads, about, if it computes more than one part."""

REPAIR_PARTS = 4
"""Parts of a first repairing job where what changes in one is carried to the next: most repairs settle soon, and what
the job's first stage reads is read for nothing then.  Each further job takes twice as many."""


class ProgramUpkeep(Upkeep):
    """Keeps a view whose kind has a program."""

    def __init__(self, hands: Hands, view: PartView) -> None:
        super().__init__(hands, view)
        self.program = program_of(self.stage.catalog, view)
        self.optional = self.program.optional
        self.carries = self.program.carry != "none"
        self.is_timed = self.program.is_timed
        self._empty_rows = self.program.empty_rows()

    def inputs(self, part: int) -> tuple[Input, ...]:
        return self.program.inputs

    def named_inputs(self) -> Sequence[Input]:
        return (*self.program.inputs, *self.optional)

    def initial_inputs(self) -> tuple[Input, ...]:
        return self.program.inputs

    def deciding(self, part: int) -> tuple[Input, ...]:
        # Blocks of a window's parts follow from these parts.
        return tuple(each for each in self.program.inputs if each.low.divisor == 1)

    def is_idle(self, part: int) -> bool:
        return self.next_with_input(part, self.program.inputs) > part

    def next_build(self, first: int, last: int, most: int) -> Build:
        computed = list[Range]()
        rows, part = 0, self.next_with_input(first, self.program.inputs)
        while part <= last and len(computed) < most and rows < JOB_ROWS:
            computed.append((part, self.repeated_until(part, last)))
            source = self.stage.index(self.program.inputs[0].object).at(part)
            rows += source.rows if source is not None else 0
            part = self.next_with_input(computed[-1][1] + 1, self.program.inputs)
        # Where there is more for the next job, this one ends with its last part.
        return Build(first, computed[-1][1] if computed and part <= last else last, tuple(computed))

    def compute(self, parts: list[int]) -> Outcome:
        return self._run(parts, None)

    def make_room(self, build: Build) -> None:
        super().make_room(build)
        if self._has_empty_rows:
            self._write_empty_windows(build.quiet)

    def _move_first(self, progress: ViewProgress, first: int) -> Range | None:
        early = super()._move_first(progress, first)
        if self._has_empty_rows and early is not None:
            self._fill_early(*early)
        return early

    def _fill_early(self, first: int, last: int) -> None:
        """The rows of empty windows before what was the first part."""
        filled, part = list[Range](), self.next_with_input(first, self.program.inputs)
        while part <= last:
            filled.append((part, min(last, self.same_until(part))))
            part = self.next_with_input(filled[-1][1] + 1, self.program.inputs)
        quiet = Build(first, last, tuple(filled)).quiet
        self._write_empty_windows(quiet)
        for run in quiet:
            self.stage.touch_run(self.view.id, *run)  # a view may have taken them for parts before the first

    def repair(self, repairs: Repairs) -> None:
        last = (self.progress.next or 0) - 1
        pending, most = self._with_followers(repairs.touched, last), REPAIR_PARTS
        while pending:
            self.hands.require_time()
            parts = self._repairable(min(pending), last, pending, most)
            most = min(2 * most, JOB_PARTS)
            outcome = self._run(parts, {part: pending[part] for part in parts if part in pending})
            while outcome.error is not None and len(parts) > 1:
                parts = parts[: len(parts) // 2]  # one of them fails: those before it are repaired
                outcome = self._run(parts, {part: pending[part] for part in parts if part in pending})
            for part in parts:
                pending.pop(part, None)
            self.keep(outcome, parts[0], repairs)
            carried = self._changed(outcome, parts[-1])
            settled = self.settle_stretch(parts[-1]) if carried is None or len(carried) else parts[-1]
            for part in [part for part in pending if part <= settled]:
                del pending[part]
            follower = self._follower(settled, last)
            if follower is not None and (carried is None or len(carried)):
                pending[follower] = union(pending[follower], carried) if follower in pending else carried

    def _with_followers(self, touched: Mapping[int, Touched], last: int) -> dict[int, Touched]:
        """Carried from row to row, what a part reads comes from another part where the one before it has rows now and
        had none, or the other way round: of every group, whether or not that shows in the part before."""
        found = dict(touched)
        source = self.program.inputs[0].object
        for part in touched if self.program.carry == "row" else ():
            follower = self._follower(part, last)
            if follower is not None and self.stage.had_rows(source, part) != bool(self.stage.pieces(source, part)):
                found[follower] = None
        return found

    @property
    def _has_empty_rows(self) -> bool:
        return self._empty_rows is not None and len(self._empty_rows) > 0

    def _write_empty_windows(self, runs: list[Range]) -> None:
        """The rows of parts whose window is empty: an aggregate without GROUP BY has one there too."""
        if not runs or self._empty_rows is None:
            return
        stage, hands = self.stage, self.hands
        name = file_name(hands.version, hands.epoch, 0, 0, hands.attempt, "batch", "parquet")
        writer = PartWriter(stage.disk, name, self.view.columns, stage.catalog.zone, grouped=True)
        writer.add(runs[0][0], self._empty_rows)
        ref, pieces = writer.finish()
        assert ref is not None
        piece = pieces[runs[0][0]].shared(runs[0][0])
        for first, last in runs:
            stage.put(self.view.id, first, (piece,), last=last)
        stage.files += new_files(self.view.id, [ref], [(runs[0][0], piece), (runs[-1][1], piece)])

    def touched_by(self, input_: Input, part: int, j: int, hashes: Touched) -> Touched:
        """Of late rows in a stream: the groups that they are of; what else changes a source does not say its groups."""
        if not isinstance(self.program, Shuffled):
            return hashes
        late = self.stage.late.get((input_.object, part))
        if late is None or (self.program.carry == "row" and not self.stage.had_rows(input_.object, part)):
            return None  # in a part that had no rows what is carried through it, of all groups, is yet to be written
        rows = read_part(self.stage.disk, late, self.stage.columns[input_.object])
        try:
            prepared = self.program.prepare(part, rows, self._dimension_blocks(j))
        except ViewBroken as broken:
            raise ViewFailed(j, f"part {j}: {broken}") from None
        return np.unique(prepared.hashes)

    def _repairable(self, first: int, last: int, pending: dict[int, Touched], most: int) -> list[int]:
        """What one job may repair from `first` on: what is touched, and what `carry` may reach from there."""
        if self.program.carry == "none":
            return sorted(pending)[:JOB_PARTS]
        reach = {first, *self.next_build(first, last, most).parts}
        runs = self.stage.index(self.view.id).runs(first, max(reach))
        reach.update(run.part for run in runs if run.count == 1)  # equal parts are those of empty windows, and stay
        reach.update(part for part in pending if part <= max(reach))
        return sorted(reach)

    def _follower(self, part: int, last: int) -> int | None:
        """The part after `part` that reads what the program wrote of it; None: there is none, or none is built."""
        if self.program.carry == "none" or part >= last:
            return None
        if self.program.carry == "part":
            return part + 1
        follower = self.next_with_input(part + 1, self.program.inputs[:1])
        return follower if follower <= last else None

    def _changed(self, outcome: Outcome, part: int) -> Touched:
        """The groups whose rows in any output of `part` are others than before."""
        changed: Touched = np.zeros(0, dtype=np.uint64)
        for output in self.program.outputs:
            made = outcome.made.get((output.object, part))
            if made is not None:
                changed = union(changed, made.changed)
        return changed

    # The work

    def _run(self, parts: list[int], touched: dict[int, Touched] | None) -> Outcome:
        hands, catalog = self.hands, self.stage.catalog
        self.require_kept(parts[0])
        with self.reading_dimensions(parts[0]):
            dimensions = {part: self._dimension_pieces(part) for part in parts} if self.program.dimensions else {}
        objects = {each.object for each in (*self.program.inputs, *self.program.optional)} | {
            each.object for each in self.program.outputs
        }
        objects |= set(self.program.dimensions)
        source = self.program.inputs[0].object
        before = self.stage.index(source).previous_with_rows(parts[0]) if self.program.carry == "row" else None
        span = f"part {parts[0]}" if len(parts) == 1 else f"parts {parts[0]} to {parts[-1]}"
        work = PartWork(
            disk=self.stage.disk, version=hands.version, epoch=hands.epoch,
            attempt=hands.attempt, zone=catalog.zone, title=f"viewkeeper: {span} of {self.view.name}",
            program=self.program, parts=tuple(parts),
            columns={id_: self.stage.columns[id_] for id_ in objects},
            pieces=self._readable(parts, before, repair=touched is not None), before=before, touched=touched,
            dimensions=dimensions, empty=self._empty_rows,
        )  # fmt: skip
        started = time.monotonic()
        outcome = compute(hands.executor, work)
        hands.took(self.view.id, len(parts), time.monotonic() - started)
        return outcome

    def _readable(self, parts: list[int], before: int | None, *, repair: bool) -> dict[Place, tuple[Piece, ...]]:
        """The pieces of all that the job may read."""
        found: dict[Place, tuple[Piece, ...]] = {}
        for each in (*self.program.inputs, *self.program.optional):
            done = -UNBOUNDED
            for part in parts:
                low, high = max(each.low.at(part), done + 1), each.high.at(part)
                if low <= high:
                    found.update(pieces_between(self.stage, each.object, low, high))
                    done = high
        own = list(parts) if repair else []
        if self.program.carry == "part" and not self._lost(parts[0]):
            own += [part - 1 for part in (parts if repair else parts[:1])]
        elif before is not None:
            own.append(before)
        for output in self.program.outputs:
            pieces = ((part, self.stage.pieces(output.object, part)) for part in own)
            found.update(((output.object, part), each) for part, each in pieces if each)
        return found

    def _lost(self, part: int) -> bool:
        """Whether what is read where it is there has expired: what was carried cannot be gone on from then."""
        for each in self.program.optional:
            kept, first = self.stage.kept(each.object), self.stage.first(each.object)
            if kept is not None and first is not None and first <= each.high.at(part) and each.low.at(part) < kept:
                return True
        return False

    def _dimension_pieces(self, part: int) -> dict[int, tuple[Piece, ...]]:
        versions = self.hands.dimensions.versions(self.view, self.program.inputs[:1], part)
        return {id_: self.hands.dimensions.pieces(id_, version) for id_, version in versions.items()}

    def _dimension_blocks(self, part: int) -> dict[int, Block]:
        if not self.program.dimensions:
            return {}
        with self.reading_dimensions(part):
            pieces = self._dimension_pieces(part)
        return {id_: read_part(self.stage.disk, each, self.stage.columns[id_]) for id_, each in pieces.items()}
