"""The rules in order, and their use on a whole relation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from viewkeeper.evaluation import constant_folding
from viewkeeper.maintenance.rules.aggregates_of_all_values import AGGREGATES_OF_ALL_VALUES
from viewkeeper.maintenance.rules.common_conjuncts import COMMON_CONJUNCTS
from viewkeeper.maintenance.rules.computed_columns import COMPUTED_COLUMNS
from viewkeeper.maintenance.rules.computed_group_keys import COMPUTED_GROUP_KEYS
from viewkeeper.maintenance.rules.computed_join_keys import COMPUTED_JOIN_KEYS
from viewkeeper.maintenance.rules.computed_on import COMPUTED_ON
from viewkeeper.maintenance.rules.distinct_aggregates import DISTINCT_AGGREGATES
from viewkeeper.maintenance.rules.exists_as_semi_join import EXISTS_AS_SEMI_JOIN
from viewkeeper.maintenance.rules.first_of_partitions import FIRST_OF_PARTITIONS
from viewkeeper.maintenance.rules.in_as_semi_join import IN_AS_SEMI_JOIN
from viewkeeper.maintenance.rules.inner_join_residual import INNER_JOIN_RESIDUAL
from viewkeeper.maintenance.rules.not_in_as_anti_join import NOT_IN_AS_ANTI_JOIN
from viewkeeper.maintenance.rules.null_safe_keys import NULL_SAFE_KEYS
from viewkeeper.maintenance.rules.on_below_outer_join import ON_BELOW_OUTER_JOIN
from viewkeeper.maintenance.rules.outer_join_as_inner import OUTER_JOIN_AS_INNER
from viewkeeper.maintenance.rules.set_operation_as_counts import SET_OPERATION_AS_COUNTS
from viewkeeper.maintenance.rules.spark_aggregates import SPARK_AGGREGATES
from viewkeeper.maintenance.rules.subquery_as_column import SUBQUERY_AS_COLUMN
from viewkeeper.maintenance.rules.where_below_join import WHERE_BELOW_JOIN
from viewkeeper.maintenance.rules.where_below_outer_join import WHERE_BELOW_OUTER_JOIN
from viewkeeper.plans.expressions import operands
from viewkeeper.plans.relations import Relation, UnionAll

RULES = (
    SET_OPERATION_AS_COUNTS, COMMON_CONJUNCTS, INNER_JOIN_RESIDUAL, OUTER_JOIN_AS_INNER, WHERE_BELOW_JOIN,
    WHERE_BELOW_OUTER_JOIN, EXISTS_AS_SEMI_JOIN, IN_AS_SEMI_JOIN, NOT_IN_AS_ANTI_JOIN, SUBQUERY_AS_COLUMN,
    ON_BELOW_OUTER_JOIN, NULL_SAFE_KEYS, COMPUTED_JOIN_KEYS, COMPUTED_GROUP_KEYS, DISTINCT_AGGREGATES,
    AGGREGATES_OF_ALL_VALUES, SPARK_AGGREGATES, COMPUTED_ON, COMPUTED_COLUMNS, FIRST_OF_PARTITIONS,
)  # fmt: skip
"""Tried in this order at each relation, from the root on, until none applies there; then below.  A conjunct must know
what kind of join it stands above before it moves, and moves before subqueries become joins, and before keys that raise
are computed below the join."""


def rewritten(relation: Relation, zone: str) -> tuple[Relation, tuple[str, ...]]:
    """What `relation` becomes, and the names of the rules that were applied, in this order.

    Constants come first, since most rules ask what can raise.  `zone` is the database's time zone.
    """
    constants = constant_folding.folded(relation, zone)
    used = [] if constants is relation else [constant_folding.NAME]
    return _rewritten(constants, used), tuple(used)


def _rewritten(relation: Relation, used: list[str]) -> Relation:
    found = True
    while found:
        found = False
        for rule in RULES:
            answer = rule.apply(relation)
            if answer is not None:
                relation, found = answer, True
                used.append(rule.name)
                break
    changed: dict[str, Any] = {}
    for name in operands(type(relation)):
        below = getattr(relation, name)
        if isinstance(below, Relation) and (new := _rewritten(below, used)) is not below:
            changed[name] = new
    if isinstance(relation, UnionAll):
        changed["inputs"] = tuple(_rewritten(input_, used) for input_ in relation.inputs)
    return replace(relation, **changed) if changed else relation  # type: ignore[type-var]
