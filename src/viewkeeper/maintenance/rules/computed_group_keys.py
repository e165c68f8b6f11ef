"""Keys and arguments of a GROUP BY that can raise are columns of its input: what is sent cannot raise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.expressions import Expression, Several, computed_at
from viewkeeper.plans.outside import SparkAggregate
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import AggregateCall, GroupBy, Project, Relation


def _apply(relation: Relation) -> Relation | None:
    if not isinstance(relation, GroupBy):
        return None
    arguments = [part for call in relation.calls for part in _parts(call)]
    outputs = (*relation.keys, *arguments)
    if not any(can_raise(e) for e in outputs):
        return None
    names = tuple(f"c{i}" for i in range(len(outputs)))
    computed = [computed_at(i, f"c{i}", e) for i, e in enumerate(outputs)]
    rest = iter(computed[len(relation.keys) :])
    calls = tuple(_over(call, [next(rest) for _ in _parts(call)]) for call in relation.calls)
    below = Project(relation.input, outputs, names)
    return replace(relation, input=below, keys=tuple(computed[: len(relation.keys)]), calls=calls)


def _parts(call: AggregateCall) -> tuple[Expression, ...]:
    """What is computed for a call."""
    if isinstance(call.argument, (Several, SparkAggregate)):
        return call.argument.arguments
    return () if call.argument is None else (call.argument,)


def _over(call: AggregateCall, parts: Sequence[Expression]) -> AggregateCall:
    if isinstance(call.argument, (Several, SparkAggregate)):
        return replace(call, argument=replace(call.argument, arguments=tuple(parts)))
    return replace(call, argument=parts[0]) if parts else call


COMPUTED_GROUP_KEYS = Rule("computed group keys", _apply)
