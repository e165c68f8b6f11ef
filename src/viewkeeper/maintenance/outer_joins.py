"""Outer, semi and anti joins as operators over two REVERSE-JOINs.

Without a condition beside its equalities such a join is bilinear and by key: the inner join, and the rows whose key the
other side has not.  With one, a row's partners decide together: a function of all rows of the key.
"""

from __future__ import annotations

from collections.abc import Callable

from viewkeeper.maintenance.joined import Joined, Side
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.key_functions import OuterJoinRows
from viewkeeper.plans.relations import OuterJoin
from viewkeeper.plans.rewriting import references, renumber

_ALONE = {"LEFT": (0,), "RIGHT": (1,), "FULL": (0, 1)}
"""The sides of which rows come that meet nothing."""


def by_existence(join: OuterJoin) -> bool:
    """Whether it is enough to know for each key whether the other side has it."""
    return join.condition is None


def outer_join(
    add: Callable[[plan.Operator], int], zone: int, join: OuterJoin, left: Side, right: Side, made: Joined
) -> int:
    """The operator that yields the join's rows, `made` saying which columns."""
    sides = (left.reverse, right.reverse)
    if not by_existence(join):
        function = _function(join, left, right, made)
        return add(plan.ByKey(0, zone, made.columns, False, made.identity, sides, function))
    if join.kind in ("SEMI", "ANTI"):
        anti = join.kind == "ANTI"
        return add(plan.SemiJoin(0, zone, made.columns, False, made.identity, *sides, anti, made.outputs))
    parts = [add(plan.Join(0, zone, made.columns, False, made.identity, *sides, made.outputs))]
    for side in _ALONE[join.kind]:
        outputs = tuple((0 if which == side else 1, position) for which, position in made.outputs)
        one, other = sides[side], sides[1 - side]
        parts.append(add(plan.SemiJoin(0, zone, made.columns, False, made.identity, one, other, True, outputs)))
    return add(plan.Union(0, zone, made.columns, False, made.identity, tuple(parts)))


def _function(join: OuterJoin, left: Side, right: Side, made: Joined) -> OuterJoinRows:
    width = len(join.left.columns)
    used = sorted(references(join.condition)) if join.condition is not None else []
    tested = tuple((0, left.found[i]) if i < width else (1, right.found[i - width]) for i in used)
    condition = join.condition and renumber(join.condition, {i: n for n, i in enumerate(used)})
    return OuterJoinRows(join.kind, condition, tested, made.outputs)
