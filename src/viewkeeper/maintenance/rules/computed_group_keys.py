"""Keys and arguments of a GROUP BY that can raise are columns of its input: what is sent cannot raise."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.expressions import ColumnRef
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import GroupBy, Project, Relation


def _apply(relation: Relation) -> Relation | None:
    if not isinstance(relation, GroupBy):
        return None
    arguments = [call.argument for call in relation.calls if call.argument is not None]
    outputs = (*relation.keys, *arguments)
    if not any(can_raise(e) for e in outputs):
        return None
    names = tuple(f"c{i}" for i in range(len(outputs)))
    computed = [ColumnRef(e.type, e.nullable, e.place, i, f"c{i}") for i, e in enumerate(outputs)]
    rest = iter(computed[len(relation.keys) :])
    calls = tuple(call if call.argument is None else replace(call, argument=next(rest)) for call in relation.calls)
    below = Project(relation.input, outputs, names)
    return replace(relation, input=below, keys=tuple(computed[: len(relation.keys)]), calls=calls)


COMPUTED_GROUP_KEYS = Rule("computed group keys", _apply)
