"""Are streams, and the views over them, right?  Each kept part of a view is computed again from what it reads.

A view is judged over the stored rows of what it reads, which is checked too, and its own earlier parts: so all of them
together follow from the streams' rows.  Hidden helpers are not looked at: a view made by way of them is judged over the
stream or view that stands in its FROM.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Catalog, InParts, PartView, Stream
from viewkeeper.catalog.time_zones import to_utc
from viewkeeper.checker.check import Judge
from viewkeeper.checker.compare import Comparison, Difference, canonical_floats, compare, within
from viewkeeper.checker.part_evidence import PART, PartsEvidence, in_batches, schema_of
from viewkeeper.checker.part_histories import MatchParts, PatternParts
from viewkeeper.checker.part_queries import QueryParts, Recomputer
from viewkeeper.checker.part_sql import AT_ONCE, Recomputed
from viewkeeper.checker.part_windows import WindowParts
from viewkeeper.checker.report import NOT_JUDGED, Report
from viewkeeper.errors import NotFound
from viewkeeper.plans.match import MatchPlan
from viewkeeper.plans.pattern import PatternAnswer
from viewkeeper.plans.viewdf import QueryPlan, ViewDFPlan
from viewkeeper.plans.window import Window

CheckProgress = Callable[[str, int, int], None]
"""Told which view is checked, up to which part, and which is the last."""

_SHOWN = 20
_NEAR = 1e-9


def check_parts(
    evidence: PartsEvidence, names: Iterable[str] | None, judge: Judge | None, progress: CheckProgress | None = None
) -> list[Report]:
    """Checks the streams and views over streams called `names` (None: all), and those that they read; lower ones come
    first.  Without a judge nothing is asked of Spark: what only it can answer is not judged."""
    reports: dict[int, Report] = {}
    for item in _with_lower(evidence.catalog, names):
        checked = _Checked(evidence, item, progress)
        if isinstance(item, Stream):
            checked.check_stream(item)
        else:
            wrong = [reports[id_] for id_ in _below(evidence.catalog, item)
                     if reports[id_].verdict in ("wrong", "base wrong")]  # fmt: skip
            checked.check_view(item, judge, wrong)
        reports[item.id] = checked.report()
    return list(reports.values())


def _with_lower(catalog: Catalog, names: Iterable[str] | None) -> list[Stream | PartView]:
    shown = [item for item in catalog.in_parts if isinstance(item, Stream) or not item.hidden]
    if names is None:
        return shown
    wanted: set[int] = set()
    waiting = []
    for name in names:
        item = catalog.find(name)
        if not isinstance(item, InParts) or item not in shown:
            raise NotFound(f"there is no view or stream {name}")
        waiting.append(item.id)
    while waiting:
        id_ = waiting.pop()
        if id_ not in wanted:
            wanted.add(id_)
            waiting += _below(catalog, catalog.source(id_))
    return [item for item in shown if item.id in wanted]


def _below(catalog: Catalog, item: Stream | PartView) -> set[int]:
    """What a view reads, by way of its helpers too."""
    found: set[int] = set()
    for id_ in item.reads if isinstance(item, PartView) else ():
        source = catalog.source(id_)
        if id_ != item.id:
            found |= _below(catalog, source) if _is_helper(source) else {id_}
    return found


def _is_helper(item: Stream | PartView) -> bool:
    return isinstance(item, PartView) and item.hidden


class _Checked:
    """The check of one stream or view, while it goes on."""

    def __init__(self, evidence: PartsEvidence, of: Stream | PartView, progress: CheckProgress | None) -> None:
        self._evidence, self._of, self._progress = evidence, of, progress
        self._started = time.perf_counter()
        self._counts = evidence.counts(of)
        self._parts = evidence.built(of)
        self._judges: set[str] = set()
        self._problems: list[str] = []
        self._unjudged: dict[str, list[int]] = {}
        self._different = 0
        self._shown: list[Difference] = []
        self._base_wrong = False

    def report(self) -> Report:
        """What was found."""
        left_out = sum(map(len, self._unjudged.values()))
        judged = len(self._parts) - left_out
        verdict = NOT_JUDGED if left_out and not judged else "right"
        if self._problems:
            verdict = "base wrong" if self._base_wrong else "wrong"
        stale = self._evidence.stale(self._of) if isinstance(self._of, PartView) else None
        return Report(
            self._of.name, self._evidence.version, verdict, ", ".join(sorted(self._judges)) or "none",
            self._evidence.rows_in(self._of), time.perf_counter() - self._started,
            "; ".join(self._problems), self._different, self._shown, parts=judged,
            unjudged=[_named(parts, why) for why, parts in self._unjudged.items()], stale=stale or "",
        )  # fmt: skip

    # A stream

    def check_stream(self, stream: Stream) -> None:
        """Whether each row lies in its part's span of time."""
        self._judges.add("its times")
        for some in in_batches(self._sound(), AT_ONCE):
            table, subscripts = self._marked(some)
            times = table.column(stream.time).cast(pa.int64()).to_numpy()
            if stream.columns[stream.time].type.name == "TIMESTAMP_NTZ":
                times = to_utc(times, self._evidence.catalog.zone)
            wrong = np.flatnonzero(times // (stream.length * 1_000_000) != subscripts)
            self._different += len(wrong)
            for i in wrong[: _SHOWN - len(self._shown)].tolist():
                row = {PART: int(subscripts[i]), **table.drop_columns([PART]).slice(i, 1).to_pylist()[0]}
                self._shown.append(Difference(row, 0, 1))
            self._tell(some[-1])
        if self._different:
            self._problems.append(f"{self._different} rows do not lie in the time of their part")

    def _sound(self) -> list[int]:
        """The parts with rows, as many as the part catalog says."""
        for part, (rows, stored) in self._counts.items():
            if rows != stored:
                self._problems.append(f"{self._of.name}[{part}] has {stored} rows, and the part catalog says {rows}")
        return [part for part, (rows, stored) in self._counts.items() if rows == stored]

    def _marked(self, parts: Sequence[int]) -> tuple[pa.Table, np.ndarray]:
        """Rows of parts; that their file says the same of which part they are is checked."""
        table, subscripts = self._evidence.numbered(self._of, parts)
        other = np.flatnonzero(table[PART].to_numpy() != subscripts)
        if len(other):
            part, marked = int(subscripts[other[0]]), table[PART][int(other[0])].as_py()
            self._problems.append(f"{len(other)} rows are not of the part in which they stand: in "
                                  f"{self._of.name}[{part}] stands one of part {marked}")  # fmt: skip
        return table, subscripts

    # A view

    def check_view(self, view: PartView, judge: Judge | None, wrong_below: Sequence[Report]) -> None:
        """Whether each part is what it should be."""
        if wrong_below:
            self._base_wrong = True
            self._problems += [f"{report.view} below it is {report.verdict}" for report in wrong_below]
            return
        self._unsound = self._counts.keys() - set(self._sound())
        parts = self._settled(view)
        for recomputed in _recomputer(self._evidence, judge, view).recompute(parts):
            self._compare(view, recomputed)
        if self._different:
            self._problems.append(f"the view is not its query's answer: {self._different} rows differ")

    def _settled(self, view: PartView) -> range:
        """The parts that follow from what is stored now; those behind wait to be computed anew."""
        redo = [part for part in (self._evidence.redo(view),) if part is not None]
        for helper in _helpers(self._evidence.catalog, view):
            part = self._evidence.redo(helper)
            redo += [] if part is None else [part * helper.length // view.length]
        stop = min([self._parts.stop, *(max(part, self._parts.start) for part in redo)])
        waiting = range(stop, self._parts.stop)
        if waiting:
            self._leave_out(waiting, "they wait to be computed anew")
        return range(self._parts.start, stop)

    def _compare(self, view: PartView, recomputed: Recomputed) -> None:
        if not recomputed.parts:
            return
        for part, why in recomputed.unjudged.items():
            self._leave_out([part], why)
        for part, why in recomputed.failed.items():
            self._problems.append(f"{view.name}[{part}] is there, and its query raises {why}")
        if recomputed.judge != "none":
            self._judges.add(recomputed.judge)
        left_out = recomputed.unjudged.keys() | recomputed.failed.keys()
        there = [part for part in self._there(view, recomputed.parts)
                 if part not in left_out and part not in self._unsound]  # fmt: skip
        table, subscripts = self._marked(there)
        found = table.drop_columns([PART]).add_column(0, pa.field(PART, pa.int64(), False), pa.array(subscripts))
        zone = self._evidence.catalog.zone
        comparison = compared(recomputed.rows, found.cast(schema_of(view, zone)), _inexact(view, recomputed.judge))
        if comparison.shape:
            self._problems.append(comparison.shape)
        self._different += comparison.rows
        self._shown += comparison.differing[: _SHOWN - len(self._shown)]
        self._tell(max(recomputed.parts))

    def _there(self, view: PartView, parts: Sequence[int]) -> Iterator[int]:
        """Those of `parts` that have rows."""
        if isinstance(parts, range):
            yield from self._evidence.with_rows(view, parts[0], parts[-1])
            return
        runs = self._evidence.runs(view, min(parts), max(parts))
        starts = [first for first, _ in runs]
        for part in sorted(parts):
            at = bisect_right(starts, part) - 1
            if at >= 0 and part <= runs[at][1]:
                yield part

    def _leave_out(self, parts: Iterable[int], why: str) -> None:
        self._unjudged.setdefault(why, []).extend(parts)

    def _tell(self, part: int) -> None:
        if self._progress is not None:
            self._progress(self._of.name, part, self._parts.stop - 1)


def _recomputer(evidence: PartsEvidence, judge: Judge | None, view: PartView) -> Recomputer:
    match view.plan:
        case QueryPlan():
            return QueryParts(evidence, judge, view)
        case Window():
            return WindowParts(evidence, judge, view)
        case PatternAnswer():
            return PatternParts(evidence, view)
        case MatchPlan():
            return MatchParts(evidence, view)
    raise TypeError(f"{view.name} is kept by {type(view.plan).__name__}, of which nothing is known here")


def _helpers(catalog: Catalog, view: PartView) -> Iterator[PartView]:
    """The hidden views by way of which a view is kept."""
    for id_ in view.reads:
        source = catalog.source(id_)
        if isinstance(source, PartView) and source.hidden:
            yield source
            yield from _helpers(catalog, source)


def _inexact(view: PartView, judge: str) -> list[str]:
    """The columns in which Spark, asked again, may give another value, since it adds in another order."""
    if not isinstance(view.plan, ViewDFPlan) or judge != "spark":
        return []
    return [column.name for column in view.columns if column.type.is_float]


def compared(expected: pa.Table, found: pa.Table, inexact: Sequence[str]) -> Comparison:
    """As bags both ways; where floats are `inexact`, to nine digits."""
    comparison = compare(expected, found)
    if comparison.equal or comparison.shape or not inexact or len(expected) != len(found):
        return comparison
    if any(_specials(expected[name]) != _specials(found[name]) for name in inexact):
        return comparison
    slack = {name: (np.abs(expected[name].to_numpy()) * _NEAR).tolist() for name in inexact}
    near = within(expected, found, slack)
    return near if near.equal else comparison


def _specials(column: pa.ChunkedArray) -> Mapping[str, int]:
    """How often NaN and each infinity stand in a column."""
    values = [str(value) for value in canonical_floats(column).drop_null().to_pylist() if not np.isfinite(value)]
    return {value: values.count(value) for value in set(values)}


def _named(parts: Sequence[int], why: str) -> str:
    if len(parts) == 1:
        return f"part {parts[0]}: {why}"
    return f"{len(parts)} parts, {min(parts)} to {max(parts)}: {why}"
