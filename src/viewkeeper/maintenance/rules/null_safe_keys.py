"""`<=>` between the sides of a join is two equalities: of the values, some value in place of NULL, and of being NULL.

Where one side cannot be NULL it is an equality.  An inner join that has keys already tests it as a filter.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from typing import Any

from viewkeeper.catalog.types import BOOLEAN, INTERVALS, Type
from viewkeeper.maintenance.rules.conjuncts import filtered, keys_can_raise
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.expressions import Coalesce, Compare, Expression, IsNull, Literal
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import Filter, InnerJoin, OuterJoin, Relation
from viewkeeper.plans.rewriting import conjunction, conjuncts, references, renumber

_SOME: dict[str, Any] = {
    "BOOLEAN": False, "FLOAT": 0.0, "DOUBLE": 0.0, "STRING": "", "DATE": datetime.date(1970, 1, 1),
    "TIMESTAMP": datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), "TIMESTAMP_NTZ": datetime.datetime(1970, 1, 1),
    **{name: 0 if Type(name).is_month_interval else datetime.timedelta() for name in INTERVALS},
    **dict.fromkeys(("BINARY", "ARRAY", "STRUCT", "MAP"), b""),
}  # fmt: skip

Pair = tuple[Expression, Expression]


def _apply(relation: Relation) -> Relation | None:
    if isinstance(relation, OuterJoin) and relation.condition is not None:
        pairs, rest = _pairs(conjuncts(relation.condition), relation)
        if not pairs or keys_can_raise(relation):
            return None
        left, right = _with_keys(relation, pairs)
        return replace(relation, left_keys=left, right_keys=right, condition=conjunction(rest))
    join = relation.input if isinstance(relation, Filter) else None
    if not isinstance(join, InnerJoin) or join.left_keys or join.residual is not None:
        return None
    assert isinstance(relation, Filter)
    pairs, rest = _pairs(conjuncts(relation.predicate), join)
    if not pairs:
        return None
    left, right = _with_keys(join, pairs)
    return filtered(replace(join, left_keys=left, right_keys=right), rest)


def _pairs(tests: tuple[Expression, ...], join: InnerJoin | OuterJoin) -> tuple[list[Pair], tuple[Expression, ...]]:
    """The sides of each `<=>` (of an inner join without keys: of each `=` too) between both sides, and the other tests;
    nothing moves past what can raise."""
    width = len(join.left.columns)
    wanted = ("<=>", "=") if isinstance(join, InnerJoin) else ("<=>",)
    pairs: list[Pair] = []
    rest: list[Expression] = []
    for i, test in enumerate(tests):
        if can_raise(test):
            return pairs, (*rest, *tests[i:])
        pair = _sides(test, width) if isinstance(test, Compare) and test.operator in wanted else None
        if pair is None:
            rest.append(test)
        elif isinstance(test, Compare) and test.operator == "<=>" and pair[0].nullable and pair[1].nullable:
            nulls = [IsNull(BOOLEAN, False, side.place, side) for side in pair]
            pairs += [(never_null(pair[0]), never_null(pair[1])), (nulls[0], nulls[1])]
        else:
            pairs.append(pair)
    return pairs, tuple(rest)


def _sides(test: Compare, width: int) -> Pair | None:
    """The sides of a comparison over the left and over the right of a join."""
    for left, right in ((test.left, test.right), (test.right, test.left)):
        here, there = references(left), references(right)
        if here and there and max(here) < width <= min(there):
            return left, renumber(right, {i: i - width for i in there})
    return None


def _with_keys(join: InnerJoin | OuterJoin, pairs: list[Pair]) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    lefts, rights = (tuple(pair[side] for pair in pairs) for side in (0, 1))
    return join.left_keys + lefts, join.right_keys + rights


def never_null(side: Expression) -> Expression:
    """`side`, with some value in place of NULL."""
    some = Literal(side.type, False, side.place, _some(side.type))
    return Coalesce(side.type, False, side.place, (side, some))


def _some(type_: Type) -> Any:
    """Any value of the type."""
    if type_.is_decimal:
        return Decimal(0).scaleb(-type_.scale)
    return 0 if type_.is_integer else _SOME[type_.name]


NULL_SAFE_KEYS = Rule("null safe keys", _apply)
