"""The program of a pattern view: its rows from the answers that its Helper's part holds (paper 003, Algorithm 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.errors import ViewBroken
from viewkeeper.evaluation.error_codes import format_error
from viewkeeper.evaluation.evaluate import evaluate
from viewkeeper.maintenance.totals import sum_or_average
from viewkeeper.plans.pattern import PatternAnswer, PatternCall, PatternMatches
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.references import Input, Subscript
from viewkeeper.plans.text import outputs_text
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_program import Carry, OfRows, Output, Past
from viewkeeper.streams.patterns.block_shapes import BEST, helper_shape
from viewkeeper.streams.patterns.faults import group_text
from viewkeeper.streams.shown import ShownParts


@dataclass(frozen=True)
class AnswerProgram(OfRows):
    """Gives a row for each group whose pattern is matched in the part.  `matches` is the Helper's plan, `columns` are
    the columns of the Helper's source."""

    plan: PatternAnswer
    matches: PatternMatches
    view: int
    name: str
    columns: tuple[Column, ...]
    zone: str = "UTC"
    optional: tuple[Input, ...] = ()
    carry: Carry = "none"
    dimensions: tuple[int, ...] = ()

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        return (Input(self.plan.helper, Subscript(1, 0), Subscript(1, 0)),)

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        return (Output(self.view, self.plan.bound.columns),)

    def advance(self, part: int, rows: Block, past: Past) -> Mapping[int, Block]:
        """The view's part from the Helper's."""
        shape = helper_shape(self.matches, self.columns)
        best = rows.filter(rows.columns[shape.role].to_numpy() & BEST != 0)
        keys = [best.columns[i] for i in shape.keys]
        inputs = list(keys)
        for call, m in zip(self.plan.bound.calls, self.plan.measures, strict=True):
            columns = [best.columns[i] for i in shape.measures[m]] if m >= 0 else [best.columns[shape.length]]
            inputs.append(self._value(call, columns, keys))
        outputs = []
        for output in self.plan.bound.outputs:
            values, errors = evaluate(output, inputs, len(best), zone=self.zone)
            self._check(errors, keys)
            outputs.append(values)
        return {self.view: Block(outputs, best.hashes)}

    def text(self, shown: ShownParts) -> Iterator[str]:
        """Which matches it shows, and what of them."""
        yield f"a row for each group: of its matches that end in {shown.parts(self.inputs[0])}, the longest"
        yield f"outputs: {outputs_text(self.plan.bound.outputs, self.plan.bound.names)}"

    def _value(self, call: PatternCall, columns: list[pa.Array], keys: list[pa.Array]) -> pa.Array:
        argument = call.argument
        if argument is None:
            return columns[0]
        if can_raise(argument):
            self._check(columns[-1].to_numpy(), keys)
            columns = columns[:-1]
        if call.function not in ("sum", "avg"):
            return columns[0]
        counts = columns[0].to_numpy()
        values, errors = sum_or_average(call.function, columns[1:], counts, argument.type, call.type, call.place)
        self._check(errors, keys)
        return values

    def _check(self, errors: np.ndarray | None, keys: list[pa.Array]) -> None:
        if errors is None or not errors.any():
            return
        row = int(np.flatnonzero(errors)[0])
        group = group_text(keys, [key.type for key in self.matches.keys], row)
        raise ViewBroken(f"{self.name}, group {group}: {format_error(int(errors[row]))}; mend the data or the query")
