"""An aggregate that needs all values of a group is computed by key, and the others beside it, joined by the keys.

Without keys there is a row also where there are no rows: what is computed of all values is then NULL, beside a count.
"""

from __future__ import annotations

from viewkeeper.catalog.types import BIGINT, BOOLEAN
from viewkeeper.maintenance.rules.distinct_aggregates import column_of, joined_by_keys, of_all
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.expressions import Literal
from viewkeeper.plans.relations import AggregateCall, GroupBy, OuterJoin, Project, Relation
from viewkeeper.plans.value_functions import needs_all_values


def _apply(relation: Relation) -> Relation | None:
    if not isinstance(relation, GroupBy):
        return None
    by_key = [i for i, call in enumerate(relation.calls) if needs_all_values(call.function)]
    others = [i for i in range(len(relation.calls)) if i not in by_key]
    if not by_key or (relation.keys and not others):
        return None
    width = len(relation.keys)
    plain, whole = of_all(relation, others), of_all(relation, by_key)
    if relation.keys:
        joined: Relation = joined_by_keys(plain, whole, width)
        behind = len(plain.columns) + width
    else:
        if not others:
            plain = GroupBy(plain.input, (), (), (AggregateCall("count_star", None, BIGINT, False, None),), ("n",))
        true = Literal(BOOLEAN, False, None, True)
        whole = GroupBy(whole.input, (true,), ("k",), whole.calls, whole.call_names)
        joined = OuterJoin(plain, whole, (true,), (column_of(whole, 0),), None, "LEFT")
        behind = len(plain.columns) + 1
    places = {call: width + n for n, call in enumerate(others)} | {call: behind + n for n, call in enumerate(by_key)}
    wanted = [*range(width), *(places[i] for i in range(len(relation.calls)))]
    return Project(joined, tuple(column_of(joined, i) for i in wanted), relation.key_names + relation.call_names)


AGGREGATES_OF_ALL_VALUES = Rule("aggregates of all values", _apply)
