"""The program of a Helper: part j of its matches from part j of the source and its own part j - 1 (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.evaluation.evaluate import evaluate, predicate
from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.pattern import PatternMatches
from viewkeeper.plans.references import Input, Subscript
from viewkeeper.plans.rewriting import conjunction, references
from viewkeeper.plans.text import expression_text, listed, term_text
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_program import Carry, OfRows, Output, Past, Shuffled
from viewkeeper.streams.patterns.block_shapes import LIVE, HelperShape, PreparedShape, helper_shape, prepared_shape
from viewkeeper.streams.patterns.crossing import Crossing
from viewkeeper.streams.patterns.faults import raise_first
from viewkeeper.streams.patterns.fsm import Machine
from viewkeeper.streams.patterns.matches import BEGIN, GROUP, PARENT, Choice, Matches
from viewkeeper.streams.patterns.sequences import Sequences
from viewkeeper.streams.patterns.simulation import Simulation
from viewkeeper.streams.patterns.writing import helper_block
from viewkeeper.streams.shown import ShownParts
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import canonical

SAME_PART = Subscript(1, 0)
_FILTER_BITS = 22


@dataclass(frozen=True)
class MatchesProgram(OfRows, Shuffled):
    """Keeps the partial matches of each group, and its answer in each part.

    `columns` are the source's; `view` is named in errors.  `dominance` False keeps matches that others make needless
    (answers are the same).
    """

    plan: PatternMatches
    helper: int
    view: str
    columns: tuple[Column, ...]
    zone: str = "UTC"
    dominance: bool = True
    optional: tuple[Input, ...] = ()
    carry: Carry = "part"
    dimensions: tuple[int, ...] = ()

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        return (Input(self.plan.source, SAME_PART, SAME_PART),)

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        return (Output(self.helper, self._shape.columns),)

    @cached_property
    def _machine(self) -> Machine:
        return Machine(self.plan)

    @cached_property
    def _prepared(self) -> PreparedShape:
        return prepared_shape(self.plan, self.columns)

    @cached_property
    def _shape(self) -> HelperShape:
        return helper_shape(self.plan, self.columns)

    def prepared_columns(self) -> tuple[Column, ...]:
        """The shape of what `prepare` gives."""
        return self._prepared.columns

    def prepare(self, part: int, rows: Block, dimensions: Mapping[int, Block]) -> Block:
        """A slice of the source with the tests that need one row alone.

        A row that passes none ends its group's matches; it can be left out only where no other row of its group is in
        the part, and no PREV looks at it.
        """
        tests = np.zeros(len(rows), np.int64)
        for v, variable in enumerate(self.plan.variables):
            tests |= self._passes(variable.own, rows).astype(np.int64) << v
        if self.plan.single and not self.plan.previous:
            rows, tests = rows.filter(tests != 0), tests[tests != 0]
        shape = self._prepared
        prepared = [rows.columns[i] for i in shape.source]
        prepared += [self._computed(term, rows) for term in shape.computed]
        keys = [canonical(prepared[i]) for i in shape.keys]
        return Block([*prepared, pa.array(tests)], hash_columns(keys, len(rows)))

    def _passes(self, terms: Sequence[Expression], rows: Block) -> np.ndarray:
        condition = conjunction(tuple(terms))
        if condition is None:
            return np.ones(len(rows), np.bool_)
        found, errors = predicate(condition, rows.columns, len(rows), zone=self.zone)
        raise_first(errors, self.view)
        return found

    def _computed(self, term: Expression, rows: Block) -> pa.Array:
        values, errors = evaluate(term, rows.columns, len(rows), zone=self.zone)
        raise_first(errors, self.view)
        return values

    def advance(self, part: int, rows: Block, past: Past) -> Mapping[int, Block]:
        """The Helper's part."""
        rows = self._worth_taking(rows)
        if not len(rows):
            return {}
        sequences = Sequences(self.plan, self._prepared, rows)
        old = past.read(self.helper, part - 1)
        group = sequences.follow(old, self._shape)
        self._test_before(sequences)
        crossing = Crossing(self.plan, sequences, [old.columns[i] for i in self._shape.slots], self.zone, self.view)
        simulation = Simulation(self._machine, sequences, crossing, self.view, self.dominance)
        found = simulation.run(self._begin(simulation.choice, sequences, old, group))
        return {self.helper: helper_block(simulation.choice, self._shape, sequences, old, found, self.zone)}

    def text(self, shown: ShownParts) -> Iterator[str]:
        """The pattern, its machine, and what is kept of each match."""
        plan, names = self.plan, [column.name for column in self.columns]
        groups = f"by ({listed(plan.keys)})" if plan.keys else "all rows one group"
        pattern = ", ".join(variable.name + "+" * variable.plus for variable in plan.variables)
        yield f"pattern [{pattern}] over {shown.name(plan.source)}, {groups}, {self._order_text(names)}"
        yield from self._machine.text(names)
        measures = (measure.text(plan.variables) for measure in plan.measures)
        yield f"kept of each match: {', '.join(['its number of rows', *measures])}"
        if plan.limit is not None:
            yield f"a group with more than {plan.limit} partial matches stops the view (LIMIT)"

    def _order_text(self, names: Sequence[str]) -> str:
        plan = self.plan
        if plan.single:
            return "one row of a group in a part"
        terms = [] if plan.time is None else [names[plan.time]]
        terms += [term_text(expression_text(t.expression), t.ascending, t.nulls_first) for t in plan.order]
        return f"rows of a part in the order of {', '.join([*terms, 'then all columns'])}"

    def _worth_taking(self, rows: Block) -> Block:
        """Without most rows of groups in which no row passes any test, unless PREV needs them."""
        if self.plan.previous or not len(rows):
            return rows
        passing = rows.columns[-1].to_numpy() != 0
        if passing.all():
            return rows
        # By some bits of the hash: what is kept in error does no harm.
        bits = (rows.hashes & np.uint64((1 << _FILTER_BITS) - 1)).astype(np.int64)
        seen = np.zeros(1 << _FILTER_BITS, np.bool_)
        seen[bits[passing]] = True
        return rows.filter(seen[bits])

    def _test_before(self, rows: Sequences) -> None:
        """Tests the terms with PREV of the rows that pass the others."""
        for v, variable in enumerate(self.plan.variables, 1):
            condition = conjunction(variable.before)
            if condition is None:
                continue
            places = np.flatnonzero(rows.tests[v])
            columns: list[pa.Array | None] = [None] * (2 * self.plan.width)
            for i in references(condition):
                columns[i] = rows.column(i).take(pa.array(places))
            found, errors = predicate(condition, columns, len(places), zone=self.zone)
            raise_first(errors, self.view)
            rows.tests[v][places] = found

    def _begin(self, choice: Choice, rows: Sequences, old: Block, group: np.ndarray) -> list[Matches | None]:
        """The partial matches of the part before whose groups have rows here, by state."""
        shape = self._shape
        blocks: list[Matches | None] = [None] * (self._machine.last + 1)
        live = (old.columns[shape.role].to_numpy() & LIVE != 0) & (group >= 0)
        states = old.columns[shape.state].to_numpy()
        length = old.columns[shape.length].to_numpy()
        for state in range(1, self._machine.last + 1):
            places = np.flatnonzero(live & (states == state))
            if not len(places):
                continue
            here = group[places]
            table = np.zeros((choice.height, len(places)), np.int64)
            table[GROUP], table[PARENT] = here, places
            table[BEGIN] = rows.first[here] - length[places]
            for v, column in enumerate(shape.ages[: state - 1], 2):
                table[BEGIN + v - 1] = rows.first[here] - old.columns[column].to_numpy()[places]
            table[choice.remembered :] = rows.count + places
            if (here[1:] < here[:-1]).any():
                table = table[:, np.argsort(here, kind="stable")]
            blocks[state] = table
        return blocks
