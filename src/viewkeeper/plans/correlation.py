"""What ties a subquery to the query around it, taken out of it.

`uncorrelated` gives a relation that is handed nothing, with the conditions under which its rows are those that the
subquery has for a row of the query around: equalities, which a join is made by, and others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from viewkeeper.catalog.types import BIGINT
from viewkeeper.plans.expressions import (
    Coalesce,
    ColumnRef,
    Compare,
    Expression,
    Literal,
    OuterColumn,
    TextPlace,
    computed_at,
    reference_to,
)
from viewkeeper.plans.outside import SparkAggregate
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import (
    AggregateCall,
    Filter,
    GroupBy,
    InnerJoin,
    OuterJoin,
    Project,
    Relation,
    expressions_of,
    inputs_of,
)
from viewkeeper.plans.rewriting import conjunction, conjuncts, references, renumber, rewrite, walk
from viewkeeper.plans.subqueries import InSubquery, ScalarSubquery, Subquery, has_subquery, relations_in

_RAISES = "something in it can raise, for rows that nobody may ask for"


class Correlated(Exception):
    """A subquery whose tie to the query around it cannot be taken out: the reason, and where it stands."""

    def __init__(self, reason: str, place: TextPlace | None = None) -> None:
        super().__init__(reason)
        self.place = place


@dataclass(frozen=True)
class Uncorrelated:
    """`relation`'s first columns are the subquery's.  Its row belongs to a row around where `keys` (one side over what
    is handed in, one over `relation`) are equal and `conditions` (over both) hold."""

    relation: Relation
    keys: tuple[tuple[Expression, Expression], ...] = ()
    conditions: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class GroupOfAll:
    """A subquery that aggregates without GROUP BY: `outputs` over the groups of `calls`, and conditions (of HAVING)
    without which there is none; both are over the calls, and may name what is handed in."""

    calls: GroupBy
    rows: Uncorrelated
    outputs: tuple[Expression, ...]
    tests: tuple[Expression, ...]


def is_outer(expression: Expression) -> bool:
    """Whether `expression` uses what the query around hands in."""
    return any(isinstance(node, OuterColumn) for node in walk(expression))


def uncorrelated(query: Relation) -> Uncorrelated:
    """`query` without its ties; raises Correlated."""
    if not is_correlated(query):
        return Uncorrelated(query)
    for each in relations_in(query):
        for expression in expressions_of(each):
            if can_raise(expression):
                raise Correlated(_RAISES, expression.place)
    return _pulled(query)


def is_correlated(query: Relation) -> bool:
    """Whether `query` itself, or a subquery in it, uses what the query around hands in."""
    return any(map(is_outer, expressions_of(query))) or any(map(is_correlated, inputs_of(query)))


def group_of_all(query: Relation) -> GroupOfAll | None:
    """`query` as a group of all rows, None where it is none; raises Correlated."""
    chain: list[Filter | Project] = []
    while isinstance(query, (Filter, Project)):
        chain.append(query)
        query = query.input
    if not isinstance(query, GroupBy) or query.keys:
        return None
    rows = uncorrelated(query.input)
    for call in query.calls if rows.keys else ():
        if call.argument is not None and can_raise(call.argument):
            raise Correlated(_RAISES, call.place)
    if rows.conditions:
        raise Correlated("what it aggregates is tied to the query around by more than equalities",
                         next((c.place for c in rows.conditions), None))  # fmt: skip
    outputs: tuple[Expression, ...] = tuple(reference_to(c, i) for i, c in enumerate(query.columns))
    tests: tuple[Expression, ...] = ()
    for each in reversed(chain):
        if isinstance(each, Filter):
            tests += tuple(placed(term, outputs) for term in conjuncts(each.predicate))
        else:
            outputs = tuple(placed(output, outputs) for output in each.outputs)
    return GroupOfAll(query, rows, outputs, tests)


def placed(expression: Expression, columns: Sequence[Expression]) -> Expression:
    """`expression` with `columns` in place of the columns that it names."""
    return rewrite(expression, lambda node: columns[node.index] if isinstance(node, ColumnRef) else None)


def handed(expression: Expression, outer: Sequence[Expression]) -> Expression:
    """`expression` with what is handed in, `outer`, in place of the names for it."""
    return rewrite(expression, lambda node: outer[node.index] if isinstance(node, OuterColumn) else None)


def require_separable(subquery: Subquery, *, condition: bool, negated: bool = False, tested: bool = False) -> None:
    """Raises Correlated where `subquery` cannot become a join.  `condition`: it is a conjunct of a WHERE, or
    (`negated`) NOT it is one; else its value is needed: only for such a conjunct, by AND, OR and NOT, where `tested`.
    """
    _require_in_where(subquery.query)
    group = group_of_all(subquery.query)
    if group is not None and (subquery.outer or isinstance(subquery, ScalarSubquery)):
        for i, call in enumerate(group.calls.calls if group.rows.keys else ()):
            if to_be_asked_of_none(call):
                continue
            of_empty_group(group.calls, ColumnRef(call.type, call.nullable, call.place, i, call.function), i)
        return
    conditions = uncorrelated(subquery.query).conditions
    place = conditions[0].place if conditions else None
    if conditions and not condition:
        reason = "it is tied to the query around by more than equalities, and is no condition of its own in WHERE"
        raise Correlated(reason, place)
    if not isinstance(subquery, InSubquery):
        return
    if not condition and any(map(can_raise, subquery.arguments)):
        raise Correlated("what is looked for can raise, and IN is no condition of its own in WHERE", subquery.place)
    nulls = may_be_null(subquery)
    if nulls and not (condition or tested):
        # Its existence join knows no NULL.
        raise Correlated("NULLs may decide, and Spark takes what is not known for FALSE in a value", subquery.place)
    if nulls and (negated or not condition):
        if len(subquery.arguments) > 1:
            raise Correlated("IN is of several values, of which one may be NULL", subquery.place)
        if conditions:
            raise Correlated("it is tied to the query around by more than equalities, and NULLs may decide", place)


def _require_in_where(query: Relation) -> None:
    """Spark takes names of the query around in WHERE, HAVING and ON only."""
    if isinstance(query, (Project, GroupBy)):
        for expression in filter(is_outer, expressions_of(query)):
            raise Correlated("the query around is named outside WHERE and HAVING", expression.place)
    for below in inputs_of(query):
        _require_in_where(below)


def may_be_null(subquery: InSubquery) -> bool:
    """Whether NULLs may decide it."""
    return any(e.nullable for e in subquery.arguments) or any(c.nullable for c in subquery.query.columns)


_KNOWN_OF_NONE = frozenset(("approx_count_distinct", "kurtosis", "skewness"))
"""Aggregates of Spark's that give 0 of no rows where they are never NULL, and else NULL."""


def to_be_asked_of_none(call: AggregateCall) -> bool:
    """Whether only Spark can say what `call` gives of no rows."""
    asked = call.argument
    return isinstance(asked, SparkAggregate) and asked.name.lower() not in _KNOWN_OF_NONE


def of_empty_group(group: GroupBy, column: ColumnRef, number: int) -> Expression:
    """`column`, which a call of `group` gives, with what the call gives of no rows where there was no group."""
    call = group.calls[number]
    assert not to_be_asked_of_none(call), "of no rows Spark says itself what it gives"
    if call.nullable:
        return replace(column, nullable=True)
    if call.type != BIGINT:
        raise Correlated(f"{call.function} of no rows is not known here", call.place)
    zero = Literal(BIGINT, False, call.place, 0)
    return Coalesce(BIGINT, False, call.place, (replace(column, nullable=True), zero))


def _pulled(relation: Relation) -> Uncorrelated:
    if not is_correlated(relation):
        return Uncorrelated(relation)
    match relation:
        case Filter():
            return _of_filter(relation)
        case Project():
            return _of_project(relation)
        case GroupBy():
            return _of_group(relation)
        case InnerJoin():
            return _of_join(relation)
        case OuterJoin() if relation.kind in ("LEFT", "SEMI", "ANTI") and not is_correlated(relation.right):
            return _of_outer_join(relation)
    raise Correlated("it is tied to the query around below an outer join or a set operation")


def _of_filter(relation: Filter) -> Uncorrelated:
    below = _pulled(relation.input)
    keys, conditions, rest = list(below.keys), list(below.conditions), []
    for term in conjuncts(relation.predicate):
        if not is_outer(term):
            rest.append(term)
            continue
        if has_subquery(term):
            raise Correlated("a subquery in it is tied to the query around, two levels up", term.place)
        pair = _pair(term)
        if pair is not None:
            keys.append(pair)
        else:
            conditions.append(term)
    predicate = conjunction(tuple(rest))
    kept = below.relation if predicate is None else Filter(below.relation, predicate)
    return Uncorrelated(kept, tuple(keys), tuple(conditions))


def _pair(term: Expression) -> tuple[Expression, Expression] | None:
    """The sides (around, here) of an equality of both."""
    if not isinstance(term, Compare) or term.operator != "=":
        return None
    for around, here in ((term.left, term.right), (term.right, term.left)):
        if not references(around) and is_outer(around) and references(here) and not is_outer(here):
            return around, here
    return None


def _of_project(relation: Project) -> Uncorrelated:
    below = _pulled(relation.input)
    outputs, names = list(relation.outputs), list(relation.names)
    at = {output.index: i for i, output in reversed(list(enumerate(outputs))) if isinstance(output, ColumnRef)}
    columns = below.relation.columns
    for index in sorted(_named(below)):
        if index not in at:
            at[index] = len(outputs)
            outputs.append(reference_to(columns[index], index))
            names.append(columns[index].name)
    return _renumbered(Project(below.relation, tuple(outputs), tuple(names)), below, at)


def _of_group(relation: GroupBy) -> Uncorrelated:
    below = _pulled(relation.input)
    if not relation.keys:
        raise Correlated("an aggregate without GROUP BY in it is tied to the query around")
    if below.conditions:
        raise Correlated("what it aggregates is tied to the query around by more than equalities",
                         next((c.place for c in below.conditions), None))  # fmt: skip
    # The groups of one row around are those with its keys.
    more = tuple(here for _, here in below.keys)
    names = tuple(f"key{i}" for i in range(len(more)))
    grouped = replace(relation, input=below.relation, keys=relation.keys + more, key_names=relation.key_names + names)
    width, calls = len(relation.keys), len(relation.calls)
    columns = grouped.columns
    order = [*range(width), *range(width + len(more), width + len(more) + calls), *range(width, width + len(more))]
    outputs = tuple(reference_to(columns[i], i) for i in order)
    keys = tuple(
        (around, computed_at(width + calls + i, f"key{i}", here)) for i, (around, here) in enumerate(below.keys)
    )
    return Uncorrelated(Project(grouped, outputs, tuple(columns[i].name for i in order)), keys)


def _of_join(relation: InnerJoin) -> Uncorrelated:
    if any(map(is_outer, (*relation.left_keys, *relation.right_keys))):
        raise Correlated("a join in it is by what the query around hands in", relation.left_keys[0].place)
    left, right = _pulled(relation.left), _pulled(relation.right)
    width, more = len(relation.left.columns), len(left.relation.columns)
    ours = {i: i for i in range(width)} | {width + i: more + i for i in range(len(relation.right.columns))}
    residual = relation.residual and renumber(relation.residual, ours)
    terms = conjuncts(residual) if residual is not None else ()
    inner = conjunction(tuple(term for term in terms if not is_outer(term)))
    joined = InnerJoin(left.relation, right.relation, relation.left_keys, relation.right_keys, inner)
    moved = {i: more + i for i in range(len(right.relation.columns))}
    both = Uncorrelated(
        joined, left.keys + tuple((around, renumber(here, moved)) for around, here in right.keys),
        left.conditions + tuple(renumber(c, moved) for c in right.conditions) + tuple(filter(is_outer, terms)),
    )  # fmt: skip
    if more == width:
        return both
    return _shown_first(both, [ours[i] for i in range(len(ours))])


def _of_outer_join(relation: OuterJoin) -> Uncorrelated:
    own = (*relation.left_keys, *relation.right_keys, *((relation.condition,) if relation.condition else ()))
    if any(map(is_outer, own)):
        raise Correlated("an outer join in it is by what the query around hands in", own[0].place)
    left = _pulled(relation.left)
    width, more = len(relation.left.columns), len(left.relation.columns)
    ours = {i: i for i in range(width)} | {width + i: more + i for i in range(len(relation.right.columns))}
    condition = relation.condition and renumber(relation.condition, ours)
    joined = replace(relation, left=left.relation, condition=condition)
    both = Uncorrelated(joined, left.keys, left.conditions)
    return both if more == width else _shown_first(both, [ours[i] for i in range(len(relation.columns))])


def _shown_first(rows: Uncorrelated, first: Sequence[int]) -> Uncorrelated:
    """The same rows with their columns `first` in front."""
    columns = rows.relation.columns
    order = [*first, *(i for i in range(len(columns)) if i not in first)]
    outputs = tuple(reference_to(columns[i], i) for i in order)
    project = Project(rows.relation, outputs, tuple(columns[i].name for i in order))
    return _renumbered(project, rows, {index: i for i, index in enumerate(order)})


def _named(rows: Uncorrelated) -> set[int]:
    """The columns that the ties name."""
    return set().union(*(references(here) for _, here in rows.keys), *map(references, rows.conditions))


def _renumbered(relation: Relation, rows: Uncorrelated, at: Mapping[int, int]) -> Uncorrelated:
    keys = tuple((around, renumber(here, at)) for around, here in rows.keys)
    return Uncorrelated(relation, keys, tuple(renumber(condition, at) for condition in rows.conditions))
