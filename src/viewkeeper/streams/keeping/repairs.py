"""What late data have a view compute anew, as data: found first, then done.

Which parts late data touch follows from the references (paper 003, section 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from viewkeeper.plans.references import Input
from viewkeeper.streams.keeping.stage import RoundStage
from viewkeeper.streams.keeping.stretches import stretches
from viewkeeper.streams.part_index import Range
from viewkeeper.streams.subscripts import naming
from viewkeeper.streams.touched import Touched, union
from viewkeeper.streams.view_progress import ViewProgress

FEW_PARTS = 1_000
"""So many parts that one dirty part touches are gone through one by one, each for the groups that changed."""


@dataclass(frozen=True)
class Repairs:
    """`touched`: the parts to be computed anew, with the groups that may change (None: all).  `alike`: for some of them
    the last of the parts that are as it is, and will be: they get what it gets."""

    touched: Mapping[int, Touched]
    alike: Mapping[int, int]

    @property
    def lowest(self) -> int | None:
        """The first part that is touched."""
        return min(self.touched, default=None)


class Reading(Protocol):
    """What is asked of a view: see `upkeep.Upkeep`."""

    stage: RoundStage
    optional: tuple[Input, ...]

    @property
    def progress(self) -> ViewProgress: ...
    @property
    def written(self) -> tuple[int, ...]: ...
    def inputs(self, part: int) -> tuple[Input, ...]: ...
    def named_inputs(self) -> Sequence[Input]: ...
    def is_idle(self, part: int) -> bool: ...
    def same_until(self, part: int) -> int: ...
    def touched_by(self, input_: Input, part: int, j: int, hashes: Touched) -> Touched: ...


def plan_repairs(view: Reading, early: Range | None = None) -> Repairs:
    """The built parts that read what has changed, those to be done anew, and `early`: parts that lay before the view's
    first one until now."""
    progress, stage, touched = view.progress, view.stage, dict[int, Touched]()
    runs = [] if early is None else [early]
    assert progress.first is not None and progress.next is not None
    first, last = max(progress.first, progress.kept or progress.first), progress.next - 1
    for each in view.named_inputs():
        for low, high in stage.dirty_runs.get(each.object, ()):
            low, high = naming(each.low, each.high, low, high)
            runs.append((max(low, first), min(high, last)))
        for part, hashes in stage.dirty.get(each.object, {}).items():
            low, high = naming(each.low, each.high, part, part)
            low, high = max(low, first), min(high, last)
            if high - low >= FEW_PARTS:
                runs.append((low, high))
                continue
            for j in range(low, high + 1):
                if each in (*view.inputs(j), *view.optional):
                    mine = view.touched_by(each, part, j, hashes)
                    touched[j] = union(touched[j], mine) if j in touched else mine
    if progress.redo is not None:
        runs.append((max(progress.redo, first), last))
    worth = dict(_worth_repair(view, runs))
    return Repairs(touched | dict.fromkeys(worth), worth)


def _worth_repair(view: Reading, runs: list[Range]) -> Iterator[Range]:
    """Stretches of parts that are the same and will be, of those that may have rows, ascending."""
    for first, last in stretches(view.stage, view.written, view.same_until, _joined(runs)):
        has_rows = any(view.stage.pieces(object_, first) for object_ in view.written)
        if has_rows or not view.is_idle(first):
            yield first, last


def _joined(runs: Iterable[Range]) -> list[Range]:
    """The same parts, each once, ascending."""
    found: list[Range] = []
    for first, last in sorted(run for run in runs if run[0] <= run[1]):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found
