"""An aggregate of DISTINCT values is one of the groups of a GROUP BY the values beside the keys.

Where a GROUP BY has several kinds of calls, of distinct values of one thing, of another, and of all rows, each kind is
computed by itself, and their rows are joined by the keys: all have the same groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viewkeeper.catalog.types import BOOLEAN, INT
from viewkeeper.maintenance.rules.null_safe_keys import Pair, never_null
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.expressions import ColumnRef, Expression, IsNull, Literal, Several, reference_to, unless_null
from viewkeeper.plans.relations import GroupBy, InnerJoin, Project, Relation
from viewkeeper.plans.rewriting import identity

_DISTINCT = "_distinct"


def _apply(relation: Relation) -> Relation | None:
    if not isinstance(relation, GroupBy) or not any(call.function.endswith(_DISTINCT) for call in relation.calls):
        return None
    kinds: dict[Expression | None, list[int]] = {}
    for i, call in enumerate(relation.calls):
        of = identity(call.argument) if call.argument is not None and call.function.endswith(_DISTINCT) else None
        kinds.setdefault(of, []).append(i)
    width = len(relation.keys)
    whole: Relation | None = None
    places: dict[int, int] = {}
    for of, chosen in kinds.items():
        part = of_all(relation, chosen) if of is None else _of_distinct(relation, chosen)
        begin = width + (0 if whole is None else len(whole.columns))
        places.update({call: begin + n for n, call in enumerate(chosen)})
        whole = part if whole is None else joined_by_keys(whole, part, width)
    assert whole is not None
    wanted = [*range(width), *(places[i] for i in range(len(relation.calls)))]
    outputs = tuple(column_of(whole, i) for i in wanted)
    return Project(whole, outputs, relation.key_names + relation.call_names)


def of_all(relation: GroupBy, chosen: list[int]) -> GroupBy:
    """The GROUP BY with the chosen calls only."""
    calls = tuple(relation.calls[i] for i in chosen)
    return replace(relation, calls=calls, call_names=tuple(relation.call_names[i] for i in chosen))


def _of_distinct(relation: GroupBy, chosen: list[int]) -> GroupBy:
    argument = relation.calls[chosen[0]].argument
    assert argument is not None
    values = argument.arguments if isinstance(argument, Several) else (argument,)
    width = len(relation.keys)
    names = tuple(f"k{i}" for i in range(width)) + tuple(f"v{i}" for i in range(len(values)))
    below = GroupBy(relation.input, relation.keys + values, names, (), ())
    found = tuple(column_of(below, width + i) for i in range(len(values)))
    one = Literal(INT, False, None, 1)
    value = unless_null(found, one) if len(found) > 1 else found[0]
    calls = tuple(
        replace(relation.calls[i], function=relation.calls[i].function.removesuffix(_DISTINCT), argument=value)
        for i in chosen
    )
    keys = tuple(column_of(below, i) for i in range(width))
    return GroupBy(below, keys, relation.key_names, calls, tuple(relation.call_names[i] for i in chosen))


def joined_by_keys(left: Relation, right: GroupBy, width: int) -> InnerJoin:
    """Two relations whose first `width` columns are the keys of the same groups."""
    return joined_to_groups(left, range(width), right)


def joined_to_groups(left: Relation, keys: Sequence[int], right: Relation) -> InnerJoin:
    """Rows with that of the group in which they are by their columns `keys`; its first columns are these keys."""
    pairs: list[Pair] = []
    for i, key in enumerate(keys):
        ours, theirs = column_of(left, key), column_of(right, i)
        if ours.nullable and theirs.nullable:
            pairs.append((never_null(ours), never_null(theirs)))
            pairs.append((IsNull(BOOLEAN, False, ours.place, ours), IsNull(BOOLEAN, False, theirs.place, theirs)))
        else:
            pairs.append((ours, theirs))
    return InnerJoin(left, right, tuple(mine for mine, _ in pairs), tuple(other for _, other in pairs), None)


def column_of(relation: Relation, position: int) -> ColumnRef:
    """Its column there."""
    column = relation.columns[position]
    return reference_to(column, position)


DISTINCT_AGGREGATES = Rule("distinct aggregates", _apply)
