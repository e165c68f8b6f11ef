"""What several rules ask of conjuncts and of the sides of a join."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import Filter, InnerJoin, OuterJoin, Relation
from viewkeeper.plans.rewriting import conjunction, references, renumber


def filtered(relation: Relation, conjuncts: Sequence[Expression]) -> Relation:
    """The rows of `relation` that meet all conjuncts; itself where there are none."""
    predicate = conjunction(tuple(conjuncts))
    return relation if predicate is None else Filter(relation, predicate)


def keys_can_raise(join: InnerJoin | OuterJoin) -> bool:
    """Whether some row of either side could make a join key raise."""
    return any(can_raise(key) for key in (*join.left_keys, *join.right_keys))


def by_side(
    conjuncts: Iterable[Expression], width: int, *, left: bool = True, right: bool = True, blocked: bool = False
) -> tuple[list[Expression], list[Expression], list[Expression]]:
    """The conjuncts that can be tested on the left rows alone, on the right rows alone (over their own columns), and
    the rest; `width` is the number of left columns, `left` and `right` say which sides take any.

    With `blocked` none moves; and none moves past a conjunct that can raise.
    """
    ours: list[Expression] = []
    theirs: list[Expression] = []
    rest: list[Expression] = []
    for test in conjuncts:
        blocked = blocked or can_raise(test)
        used = references(test)
        if left and not blocked and used and max(used) < width:
            ours.append(test)
        elif right and not blocked and used and min(used) >= width:
            theirs.append(renumber(test, {i: i - width for i in used}))
        else:
            rest.append(test)
    return ours, theirs, rest
