"""Which columns the machine's blocks have: what `prepare` gives, and what the Helper's parts hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import BIGINT, INT, TINYINT, Type
from viewkeeper.plans.expressions import ColumnRef, Expression
from viewkeeper.plans.pattern import PatternMatches, PatternMeasure
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.rewriting import references
from viewkeeper.plans.sums import sum_columns

LIVE, BEST = 1, 2
"""Bits of `role`: a partial match that may go on; the group's answer in this part.  0: kept for PREV alone."""


@dataclass(frozen=True)
class PreparedShape:
    """`prepare`'s columns.

    `source` maps positions in the source to positions here; behind those come the `computed` keys and terms of the
    order; `keys` and `order` are positions; the last column has the variables whose `own` terms a row satisfies,
    variable v as bit v - 1.
    """

    columns: tuple[Column, ...]
    source: dict[int, int]
    computed: tuple[Expression, ...]
    keys: tuple[int, ...]
    order: tuple[int, ...]


def prepared_shape(plan: PatternMatches, columns: Sequence[Column]) -> PreparedShape:
    """All columns of the source, since ties are decided by them; where there are none, only those that are used."""
    kept = sorted(_used(plan)) if plan.single else range(plan.width)
    source = {i: position for position, i in enumerate(kept)}
    shown = [Column(f"c{i}", columns[i].type, columns[i].nullable) for i in kept]
    computed: list[Expression] = []

    def place(expression: Expression) -> int:
        if isinstance(expression, ColumnRef) and expression.index in source:
            return source[expression.index]
        computed.append(expression)
        shown.append(Column(f"e{len(shown)}", expression.type, expression.nullable))
        return len(shown) - 1

    keys = tuple(place(key) for key in plan.keys)
    order = () if plan.single else tuple(place(term.expression) for term in plan.order)
    shown.append(Column("tests", BIGINT, False))
    return PreparedShape(tuple(shown), source, tuple(computed), keys, order)


def _used(plan: PatternMatches) -> set[int]:
    """The source's columns that the machine looks at behind `prepare`."""
    later = [term for variable in plan.variables for term in variable.before + variable.cross]
    later += [measure.argument for measure in plan.measures]
    used = {i for expression in later for i in references(expression) if i < 2 * plan.width}
    used |= {slot.column for slot in plan.slots} | set(plan.previous)
    keys = {key.index for key in plan.keys if isinstance(key, ColumnRef)}
    return {i % plan.width for i in used} | keys


@dataclass(frozen=True)
class HelperShape:
    """The Helper's columns by position: the keys, `role`, `state`, `length` (rows so far), `ages` (of variable v from 2
    on: rows since it began; empty where the plan is not detailed), slots, previous values, and for each measure its
    columns (the last of them the error where it can raise)."""

    columns: tuple[Column, ...]
    keys: range
    role: int
    state: int
    length: int
    ages: range
    slots: range
    previous: range
    measures: tuple[range, ...]


def helper_shape(plan: PatternMatches, columns: Sequence[Column]) -> HelperShape:
    """The shape of the Helper of `plan` over a source of `columns`."""
    shown = [Column(f"key_{i}", key.type, key.nullable) for i, key in enumerate(plan.keys)]
    role = len(shown)
    shown += [Column("role", TINYINT, False), Column("state", INT, False), Column("length", BIGINT, False)]

    def block(more: list[Column]) -> range:
        shown.extend(more)
        return range(len(shown) - len(more), len(shown))

    later = range(2, len(plan.variables) + 1) if plan.detailed else ()
    ages = block([Column(f"age_{v}", BIGINT, False) for v in later])
    slots = block([Column(f"slot_{k}", slot.type) for k, slot in enumerate(plan.slots)])
    previous = block([Column(f"previous_{i}", columns[i].type) for i in plan.previous])
    measures = tuple(
        block([Column(f"measure_{m}_{i}", type_) for i, type_ in enumerate(measure_types(measure))])
        for m, measure in enumerate(plan.measures)
    )
    return HelperShape(tuple(shown), range(role), role, role + 1, role + 2, ages, slots, previous, measures)


def measure_types(measure: PatternMeasure) -> tuple[Type, ...]:
    """The columns of a measure: a count; a sum with the count of values before it; or a value."""
    type_ = measure.argument.type
    types: tuple[Type, ...]
    match measure.function:
        case "count":
            types = (BIGINT,)
        case "sum":
            types = (BIGINT, *sum_columns(type_))
        case _:
            types = (type_,)
    return (*types, BIGINT) if can_raise(measure.argument) else types
