"""What a join of two REVERSE-JOINs yields: which columns of which side, and where they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from viewkeeper.catalog.model import Column
from viewkeeper.plans import maintenance as plan


@dataclass(frozen=True)
class Side:
    """A REVERSE-JOIN; where each wanted column of the relation stands in its state; the identity's positions there;
    and whether its rows may be missing in the join's."""

    reverse: int
    found: Mapping[int, int]
    names: plan.Identity
    optional: bool = False


@dataclass(frozen=True)
class Joined:
    """`outputs` are (side, position in its state), `columns` what they are; the relation's column i is output
    `positions[i]`, the right side's columns numbered behind the left's."""

    outputs: tuple[tuple[int, int], ...]
    columns: tuple[Column, ...]
    positions: dict[int, int]
    identity: plan.Identity


def joined(operators: Mapping[int, plan.Operator], sides: Sequence[Side], width: int) -> Joined:
    """The outputs of a join of `sides`, the left relation having `width` columns (of one side: its own rows)."""
    outputs: list[tuple[int, int]] = []
    positions: dict[int, int] = {}
    columns: list[Column] = []
    identity: plan.Identity = ()
    for number, side in enumerate(sides):
        state = operators[side.reverse].columns
        state = tuple(replace(c, nullable=True) for c in state) if side.optional else state
        for column, position in side.found.items():
            positions[column + number * width] = len(outputs)
            outputs.append((number, position))
            columns.append(state[position])
        for table, key in side.names:
            identity += ((table, tuple((name, len(outputs) + i) for i, (name, _) in enumerate(key))),)
            outputs.extend((number, position) for _, position in key)
            columns.extend(state[position] for _, position in key)
    return Joined(tuple(outputs), tuple(columns), positions, identity)
