"""Join keys that can raise are columns of their side, computed below the join: what is sent cannot raise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.expressions import Expression, computed_at, reference_to
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import InnerJoin, OuterJoin, Project, Relation
from viewkeeper.plans.rewriting import renumber


def _apply(relation: Relation) -> Relation | None:
    if not isinstance(relation, (InnerJoin, OuterJoin)):
        return None
    left, left_keys = _computed(relation.left, relation.left_keys)
    right, right_keys = _computed(relation.right, relation.right_keys)
    if left is relation.left and right is relation.right:
        return None
    width, new_width = len(relation.left.columns), len(left.columns)
    places = {i: i if i < width else i - width + new_width for i in range(width + len(relation.right.columns))}
    moved: InnerJoin | OuterJoin
    if isinstance(relation, InnerJoin):
        residual = relation.residual and renumber(relation.residual, places)
        moved = replace(relation, left=left, right=right, left_keys=left_keys, right_keys=right_keys, residual=residual)
    else:
        condition = relation.condition and renumber(relation.condition, places)
        moved = replace(
            relation, left=left, right=right, left_keys=left_keys, right_keys=right_keys, condition=condition
        )
    outputs = tuple(reference_to(column, places[i]) for i, column in enumerate(relation.columns))
    return Project(moved, outputs, tuple(column.name for column in relation.columns))


def _computed(side: Relation, keys: Sequence[Expression]) -> tuple[Relation, tuple[Expression, ...]]:
    if not any(can_raise(key) for key in keys):
        return side, tuple(keys)
    columns = tuple(reference_to(c, i) for i, c in enumerate(side.columns))
    names = tuple(c.name for c in side.columns) + tuple(f"key{i}" for i in range(len(keys)))
    computed = tuple(computed_at(len(columns) + i, f"key{i}", key) for i, key in enumerate(keys))
    return Project(side, (*columns, *keys), names), computed


COMPUTED_JOIN_KEYS = Rule("computed join keys", _apply)
