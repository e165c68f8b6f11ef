"""Merging runs, so that a trace stays a short list of them and what is dead goes.

Planning is apart from doing: a plan is plain data, made by the driver from the manifest alone, and done by any process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from viewkeeper.catalog.model import StateSpec
from viewkeeper.trace.arrange import survivors, take_all
from viewkeeper.trace.disk import Disk
from viewkeeper.trace.file import ZoneFile
from viewkeeper.trace.keys import numbers
from viewkeeper.trace.receipt import FileRef, Receipt, RunRef
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.run import Run

FAN_IN = 4  # spans that make a merge, at least
SMALL_FAN_IN = 12  # the same where they hold few rows: then the merge's own job costs more than reading some more runs
SMALL_ROWS = 100_000
RUN_COST = 1000  # rows that a run of its own is worth: reading one more run costs about as much as merging so many rows
TASK_ROWS = 1 << 20  # rows that one task merges, at most, if it merges more than one state


@dataclass(frozen=True)
class Span:
    """All runs of one state that describe the versions `first` to `last`: one for each view server that wrote."""

    first: int
    last: int
    runs: tuple[RunRef, ...]

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.runs)


@dataclass(frozen=True)
class StateMerge:
    """Runs of one state, oldest first, to become one; `oldest`: nothing of the state is older than they are."""

    spec: StateSpec
    runs: tuple[RunRef, ...]
    oldest: bool


@dataclass(frozen=True)
class MergeTask:
    """What one task merges into one file; `files` are those it reads."""

    merges: tuple[StateMerge, ...]
    files: tuple[FileRef, ...]

    @property
    def runs(self) -> tuple[RunRef, ...]:
        """All runs that the result replaces."""
        return tuple(run for merge in self.merges for run in merge.runs)

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.runs)


def plan_merges(
    states: Mapping[int, Sequence[RunRef]],
    specs: Mapping[int, StateSpec],
    files: Mapping[str, FileRef],
    *,
    idle: bool,
    barriers: Sequence[int] = (),
    dirty: Collection[int] = (),
) -> list[MergeTask]:
    """The merges that pay now; with `idle`, also those that only free space.

    A merge never joins versions up to a barrier with later ones.  Files whose named runs are less than half (idle:
    three quarters) of their bytes are emptied.  States in `dirty` hold rows of dropped members: with `idle` and no
    barrier, they are merged whole.
    """
    sparse = _sparse_files(states, files, 3 / 4 if idle else 1 / 2)
    merges = []
    for state, runs in states.items():
        if idle and not barriers and state in dirty:
            merges.append(StateMerge(specs[state], tuple(runs), True))
            continue
        spans = spans_of(runs)
        for start, stop in _segments(spans, sorted(barriers)):
            for begin, end in _windows(spans[start:stop], sparse, idle):
                chosen = tuple(run for span in spans[start + begin : start + end] for run in span.runs)
                merges.append(StateMerge(specs[state], chosen, start + begin == 0))
    return _tasks(merges, files)


def spans_of(runs: Sequence[RunRef]) -> list[Span]:
    """The runs of one state by versions, oldest first."""
    spans: list[Span] = []
    for run in sorted(runs, key=lambda run: (run.first, run.last)):
        if spans and run.first <= spans[-1].last:
            last = spans[-1]
            spans[-1] = Span(last.first, max(last.last, run.last), (*last.runs, run))
        else:
            spans.append(Span(run.first, run.last, (run,)))
    return spans


def _sparse_files(states: Mapping[int, Sequence[RunRef]], files: Mapping[str, FileRef], least: float) -> set[str]:
    """Files of whose bytes less than the share `least` is named."""
    named = dict.fromkeys(files, 0)
    for runs in states.values():
        for run in runs:
            if run.file in named:
                named[run.file] += run.bytes
    return {name for name, size in named.items() if 0 < size < least * files[name].length}


def _segments(spans: Sequence[Span], barriers: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of spans between barriers."""
    cuts = [bisect_left(spans, barrier + 1, key=lambda span: span.first) for barrier in barriers]
    bounds = sorted({0, *cuts, len(spans)})
    return list(zip(bounds, bounds[1:], strict=False))


def _windows(spans: Sequence[Span], sparse: set[str], idle: bool) -> list[tuple[int, int]]:
    """Ranges of neighbouring spans that are to become one run each."""
    sizes = [span.rows for span in spans]
    begin = _tail(sizes)
    if idle and len(spans) > 1:
        # Rows behind the oldest span may each have made a row in it dead.
        begin = min(begin, 0 if 4 * sum(sizes[1:]) >= sizes[0] else 1)
    windows = [] if len(spans) - begin < 2 else [(begin, len(spans))]
    for i, span in enumerate(spans[: begin if windows else len(spans)]):
        scattered = idle and len(span.runs) > 1 and span.rows <= TASK_ROWS
        if scattered or any(run.file in sparse for run in span.runs):
            windows.append((i, i + 1))
    return windows


def _tail(sizes: Sequence[int]) -> int:
    """Where the newest spans begin that are to be merged; len(sizes) if none are.

    Four or more of them (twelve, where they are small), and the oldest of them at most half as large as all newer ones
    together: so the span of a row grows at least threefold when the row, as one of the oldest, is rewritten.  Batches
    of one size are rewritten 3 to 5 times on their way to a thousandfold, and leave at most some two dozen spans.
    """
    begin, newer, rows = len(sizes), 0, 0
    for i in reversed(range(len(sizes))):
        size = sizes[i] + RUN_COST
        rows += sizes[i]
        enough = FAN_IN if rows >= SMALL_ROWS else SMALL_FAN_IN
        if len(sizes) - i >= enough and 2 * size <= newer:
            begin = i
        newer += size
    return begin


def _tasks(merges: Sequence[StateMerge], files: Mapping[str, FileRef]) -> list[MergeTask]:
    tasks: list[list[StateMerge]] = []
    room = 0
    for merge in sorted(merges, key=lambda merge: sum(run.rows for run in merge.runs)):
        rows = sum(run.rows for run in merge.runs)
        if not tasks or rows > room:
            tasks.append([])
            room = TASK_ROWS
        tasks[-1].append(merge)
        room -= rows
    return [MergeTask(tuple(task), _files_of(task, files)) for task in tasks]


def _files_of(merges: Sequence[StateMerge], files: Mapping[str, FileRef]) -> tuple[FileRef, ...]:
    names = {run.file for merge in merges for run in merge.runs}
    return tuple(files[name] for name in sorted(names) if name in files)


def run_merge(disk: Disk, name: str, task: MergeTask, dead_members: Mapping[int, set[int]]) -> Receipt:
    """Write file `name` on `disk`: for each merge of `task` one run, unless nothing remains.

    Rows of the dropped members `dead_members[state id]` go.  All that is read is verified: raises `Damaged`.
    """
    files = {file.name: file for file in task.files}
    writer = ZoneFile.writer(disk, name)
    versions = []
    for merge in task.merges:
        runs = [Run.open(disk, ref, files.get(ref.file)) for ref in merge.runs]
        for run in runs:
            run.verify()
        runs = [run.widened(merge.spec) for run in runs] if merge.spec.added else runs
        words, rows = _merged(merge.spec, runs, merge.oldest, dead_members.get(merge.spec.id, set()))
        if len(words):
            writer.add_sorted(merge.spec, words, rows)
            versions.append((min(ref.first for ref in merge.runs), max(ref.last for ref in merge.runs)))
    receipt = writer.finish()
    placed = [replace(run, first=first, last=last) for run, (first, last) in zip(receipt.runs, versions, strict=True)]
    return replace(receipt, runs=tuple(placed))


def _merged(spec: StateSpec, runs: Sequence[Run], oldest: bool, dead: set[int]) -> tuple[np.ndarray, Rows]:
    words = np.concatenate([run.words for run in runs])
    rows = Rows.concat([run.part(0, len(run), list(range(len(spec.columns)))) for run in runs])
    index, weights = survivors(spec, words, rows.columns, rows.weights)
    kept = np.ones(len(index), dtype=bool)
    if spec.kind == "keyed" and oldest:
        kept &= weights > 0
    if spec.member and dead:
        kept &= ~np.isin(numbers(rows.columns[0])[index], list(dead))
    if not kept.all():
        index, weights = index[kept], weights[kept]
    return words[index], Rows(take_all(rows.columns, index), weights)
