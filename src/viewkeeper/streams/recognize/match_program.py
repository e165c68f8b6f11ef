"""The program of a MATCH_RECOGNIZE view.

Its own helper holds, of each group, the rows from which a match may still come that is not decided, and the last rows
before the next one that PREV may ask for.  A part adds its rows behind them, gives the matches that are decided now,
and keeps what is left.  Groups without rows in the part are passed on as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Catalog, Column, PartView
from viewkeeper.errors import ViewBroken
from viewkeeper.evaluation.error_codes import format_error
from viewkeeper.evaluation.evaluate import evaluate, predicate
from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.match import MatchPlan
from viewkeeper.plans.references import Input, Subscript
from viewkeeper.plans.rewriting import references
from viewkeeper.plans.text import expression_text, term_text
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_program import Carry, OfRows, Output, Past, Shuffled
from viewkeeper.streams.recognize.arrange import arranged
from viewkeeper.streams.recognize.automaton import Automaton, DecidedMatches
from viewkeeper.streams.recognize.declare_match import TRUTH
from viewkeeper.streams.recognize.slots import Matched, slot_values
from viewkeeper.streams.shown import ShownParts
from viewkeeper.trace.grouping import spread
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import canonical

_MICROSECONDS = 1_000_000


def match_program(catalog: Catalog, view: PartView) -> MatchProgram:
    """The program of a view by MATCH_RECOGNIZE."""
    assert isinstance(view.plan, MatchPlan)
    helper = view.helpers[0] if view.helpers else None
    kept = () if helper is None else helper.columns
    return MatchProgram(view.id, view.name, view.columns, view.reads[0], None if helper is None else helper.id, kept,
                        view.length, catalog.zone, view.plan)  # fmt: skip


@dataclass(frozen=True)
class MatchProgram(OfRows, Shuffled):
    """See `streams.program.PartProgram`; `helper` is the id of the open rows, None where no part needs any."""

    view: int
    name: str
    columns: tuple[Column, ...]
    source: int
    helper: int | None
    helper_columns: tuple[Column, ...]
    length: int
    zone: str
    plan: MatchPlan

    dimensions = ()

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (Input(self.source, Subscript(1, 0), Subscript(1, 0)),)

    @property
    def optional(self) -> tuple[Input, ...]:
        return ()

    @property
    def outputs(self) -> tuple[Output, ...]:
        view = Output(self.view, self.columns)
        return (view,) if self.helper is None else (view, Output(self.helper, self.helper_columns))

    @property
    def carry(self) -> Carry:
        return "none" if self.helper is None else "row"

    @property
    def is_timed(self) -> bool:  # type: ignore[override]
        return self.plan.uses_part_time

    @cached_property
    def automaton(self) -> Automaton:
        """Made once in each process."""
        return Automaton(list(self.plan.positions()), len(self.plan.variables))

    @property
    def _width(self) -> int:
        """How many columns are prepared before the truth."""
        return len(self.plan.columns) - (not self.plan.uses_part_time)

    def prepared_columns(self) -> tuple[Column, ...]:
        return (*self.plan.columns[: self._width], TRUTH)

    def prepare(self, part: int, rows: Block, dimensions: Mapping[int, Block]) -> Block:
        """Adds the truth of the conditions that need no other row."""
        columns = list(rows.columns)
        if self.plan.uses_part_time:
            columns.append(pa.repeat(pa.scalar(part * self.length * _MICROSECONDS, pa.int64()), len(rows)))
        for i in self.plan.partition:
            columns[i] = canonical(columns[i])
        truth = np.zeros(len(rows), dtype=np.int64)
        for variable, condition in enumerate(self.plan.conditions):
            if condition is None:
                truth |= 1 << variable
            elif not self.plan.looks_back(variable):
                truth |= self.holds(condition, dict(enumerate(columns)), len(rows)).astype(np.int64) << variable
        keys = [columns[i] for i in self.plan.partition]
        hashes = hash_columns(keys, len(rows)) if keys else np.zeros(len(rows), dtype=np.uint64)
        return Block([*columns, pa.array(truth)], hashes)

    def advance(self, part: int, rows: Block, past: Past) -> Mapping[int, Block]:
        """The matches that are decided in this part, and the rows that stay open."""
        opened = past.last(self.helper) if self.helper is not None else None
        if not len(rows):
            return {} if opened is None or self.helper is None else {self.helper: opened}
        work = _Part(self, rows, opened)
        found = work.search()
        result = {self.view: work.matches(found)}
        if self.helper is not None:
            result[self.helper] = work.left_open(found)
        return result

    def text(self, shown: ShownParts) -> Iterator[str]:
        """The clause, the states, and what is kept."""
        plan = self.plan
        groups = ", ".join(plan.columns[i].name for i in plan.partition)
        over = f"by ({groups})" if groups else "all rows as one partition, on one view server"
        order = [term_text(plan.columns[each.column].name, each.ascending, each.nulls_first) for each in plan.order]
        yield (f"MATCH_RECOGNIZE over {shown.name(self.source)}, {over}, rows of a part in the order of "
               f"{', '.join([*order, 'then all columns'])}")  # fmt: skip
        pattern = " ".join(element.text(plan.variables) for element in plan.elements)
        yield f"pattern ({pattern}), greedy, after match skip {'past last row' if plan.past else 'to next row'}"
        for variable, condition in zip(plan.variables, plan.conditions, strict=True):
            yield f"  {variable}: {'any row' if condition is None else expression_text(condition)}"
        yield from (f"  {state}" for state in self.automaton.text(plan.variables))
        slots = ", ".join(slot.text(plan.variables) for slot in plan.slots)
        yield f"of each match: {slots or 'its partition columns'}"
        yield "a match is a row of the part in which it is decided: no later row can change it"
        yield from self._kept_text(shown)

    def _kept_text(self, shown: ShownParts) -> Iterator[str]:
        plan, rows = self.plan, self.automaton.count - 1
        if self.helper is None:
            yield "keeps nothing between parts: each row is a match or not by itself"
            return
        kept = ", ".join(plan.columns[i].name for i in plan.kept)
        yield f"keeps in {shown.name(self.helper)}: of each group ({kept}) of"
        still = "  the rows from the first on from which a match may still come"
        endless = [plan.variables[each.variable] for each in plan.elements if each.most is None]
        if endless:
            names = " and ".join(dict.fromkeys(endless))
            yield f"{still}: grows without bound while {names} goes on being satisfied"
            if not plan.past:
                yield "  a match from each of these rows: as many rows of matches as their number squared"
        elif rows:
            yield f"{still}: at most {rows}"
        if plan.depth:
            yield f"  the last {plan.depth} rows, for PREV: of every group there ever was"
        yield "late rows: recomputes the touched groups, until their open rows are as before"

    def value(self, expression: Expression, columns: Mapping[int, pa.Array], length: int) -> pa.Array:
        """The values of an expression over `columns`; raises ViewBroken where a row raises."""
        result, errors = evaluate(expression, _spread_out(columns), length, zone=self.zone)
        self.require_none(errors)
        return result

    def holds(self, condition: Expression, columns: Mapping[int, pa.Array], length: int) -> np.ndarray:
        """Where a condition is TRUE; raises as `value`."""
        holds, errors = predicate(condition, _spread_out(columns), length, zone=self.zone)
        self.require_none(errors)
        return holds

    def require_none(self, errors: np.ndarray | None) -> None:
        """Raises ViewBroken, which names the first of `errors`."""
        if errors is not None and errors.any():
            raise ViewBroken(f"the view {self.name} raises {format_error(int(errors[errors != 0][0]))}")


def _spread_out(columns: Mapping[int, pa.Array]) -> list[pa.Array]:
    """A list in which each column stands at its position; what an expression does not read is left empty."""
    nothing = pa.nulls(0)
    result = [nothing] * (max(columns, default=-1) + 1)
    for position, column in columns.items():
        result[position] = column
    return result


class _Part:
    """One part's rows behind the open ones, group after group, in order; groups without new rows are set apart."""

    def __init__(self, program: MatchProgram, rows: Block, opened: Block | None) -> None:
        self._program, self._plan = program, program.plan
        self._new, self._opened = rows, opened
        kept = self._plan.kept
        sources = [rows.columns[i] for i in (*kept, -1)]
        hashes, places = rows.hashes, np.zeros(0, dtype=np.int64)
        if opened is not None and len(opened):
            sources = [pa.concat_arrays(pair) for pair in zip(opened.columns[:-1], sources, strict=True)]
            hashes, places = np.concatenate([opened.hashes, hashes]), opened.columns[-1].to_numpy()
        keys = [sources[kept.index(i)] for i in self._plan.partition]
        groups = arranged(hashes, keys, places, rows.columns[:-1], self._plan.order)
        self._arrange(groups.order, groups.starts, sources, hashes, places)

    def _arrange(
        self, order: np.ndarray, starts: np.ndarray, sources: Sequence[pa.Array], hashes: np.ndarray, places: np.ndarray
    ) -> None:  # fmt: skip
        """Takes the groups that have new rows; the others go to `untouched`."""
        before = len(places)
        lengths = np.diff(starts, append=len(order))
        active = np.logical_or.reduceat(order >= before, starts)
        self.untouched: Block | None = None
        if not active.all():
            assert self._opened is not None
            self.untouched = self._opened.take(order[spread(starts[~active], lengths[~active])])
            order = order[spread(starts[active], lengths[active])]
            lengths = lengths[active]
            starts = np.cumsum(lengths) - lengths
        index = pa.array(order)
        *columns, truth = (column.take(index) for column in sources)
        self._columns = dict(zip(self._plan.kept, columns, strict=True))
        self._hashes, self._starts, self._lengths = hashes[order], starts, lengths
        self._group = np.repeat(np.arange(len(starts)), lengths)
        self._is_new = order >= before
        self._in_part = order[self._is_new] - before
        self._truth = truth.to_numpy().copy()
        if self._plan.depth:
            self._look_back()

    def _look_back(self) -> None:
        """Adds the truth of the conditions with PREV to the new rows."""
        rows = np.flatnonzero(self._is_new)
        first = self._starts[self._group[rows]]
        width = len(self._plan.columns)
        columns: dict[int, pa.Array] = {}
        for i, previous in enumerate(self._plan.previous):
            at = rows - previous.rows
            index = pa.array(np.maximum(at, 0), mask=at < first)
            columns[width + i] = self._columns[previous.column].take(index)
        index = pa.array(self._in_part)
        for variable, condition in enumerate(self._plan.conditions):
            if condition is None or not self._plan.looks_back(variable):
                continue
            for i in references(condition) - columns.keys():
                columns[i] = self._new.columns[i].take(index)
            holds = self._program.holds(condition, columns, len(rows))
            self._truth[rows] |= holds.astype(np.int64) << variable

    def search(self) -> DecidedMatches:
        """The matches that are decided."""
        return self._program.automaton.search(self._truth.astype(np.uint64), self._starts, self._plan.past)

    def matches(self, found: DecidedMatches) -> Block:
        """The view's rows."""
        plan, program = self._plan, self._program
        variables = program.automaton.variables[found.labels]
        matched = Matched(spread(found.firsts, found.lengths), variables, found.lengths)
        values, errors = slot_values(plan.slots, self._columns, matched, plan.variables, program.value)
        program.require_none(errors)
        index = pa.array(found.firsts)
        match = [*(self._columns[i].take(index) for i in plan.partition), *values]
        hashes = self._hashes[found.firsts]
        if plan.predicate is not None:
            keep = program.holds(plan.predicate, dict(enumerate(match)), len(hashes))
            block = Block(match, hashes).filter(keep)
            match, hashes = block.columns, block.hashes
        columns = dict(enumerate(match))
        return Block([program.value(output, columns, len(hashes)) for output in plan.outputs], hashes)

    def left_open(self, found: DecidedMatches) -> Block:
        """The rows that the next part needs."""
        ends = self._starts + self._lengths
        from_ = np.maximum(np.minimum(found.open, ends - self._plan.depth), self._starts)
        counts = ends - from_
        rows = spread(from_, counts)
        places = rows - np.repeat(found.open, counts)
        index = pa.array(rows)
        kept = np.where(places < 0, 0, self._truth[rows])
        columns = [*(column.take(index) for column in self._columns.values()), pa.array(kept), pa.array(places)]
        block = Block(columns, self._hashes[rows])
        return block if self.untouched is None else Block.concat([self.untouched, block])
