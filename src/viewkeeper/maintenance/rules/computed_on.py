"""What somebody else computes in an outer join's ON is a column of the side that it reads.

Where it reads both sides, it is computed for the pairs that the equalities leave, as an inner join's: a row matches
something where some pair has the columns of it that ON reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viewkeeper.catalog.model import Column
from viewkeeper.maintenance.rules.computed_columns import form_of, reading
from viewkeeper.maintenance.rules.conjuncts import filtered
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.maintenance.stream_columns import as_key
from viewkeeper.plans.expressions import Expression, Literal, comparison, reference_to
from viewkeeper.plans.outside import OutsideCall, outside_call_in
from viewkeeper.plans.relations import ComputedColumn, InnerJoin, OuterJoin, Project, Relation, UnionAll
from viewkeeper.plans.rewriting import conjunction, conjuncts, references, renumber, rewrite, walk


def _apply(relation: Relation) -> Relation | None:
    if not isinstance(relation, OuterJoin) or relation.condition is None:
        return None
    calls = [each for each in walk(relation.condition) if isinstance(each, OutsideCall)]
    if not calls:
        return None
    width = len(relation.left.columns)
    for call in calls:
        if any(outside_call_in(each) is not None for each in call.arguments):
            continue
        if max(references(call)) < width:
            return _of_left(relation, relation.condition, call)
        if min(references(call)) >= width:
            return _of_right(relation, relation.condition, call)
    return _of_pairs(relation, relation.condition)


def _of_left(join: OuterJoin, condition: Expression, call: OutsideCall) -> Relation:
    form, width = form_of(call), len(join.left.columns)
    behind = {i: i if i < width else i + 2 for i in range(width + len(join.right.columns))}
    condition = rewrite(renumber(condition, behind), reading(form, width))
    computed = replace(join, left=ComputedColumn(join.left, form), condition=condition)
    return _shown(computed, join.columns, [behind[i] for i in range(len(join.columns))])


def _of_right(join: OuterJoin, condition: Expression, call: OutsideCall) -> Relation:
    form, width = form_of(call), len(join.left.columns)
    below = renumber(form, {i: i - width for i in references(form)})
    condition = rewrite(condition, reading(form, width + len(join.right.columns)))
    computed = replace(join, right=ComputedColumn(join.right, below), condition=condition)
    return _shown(computed, join.columns, range(len(join.columns)))


def _of_pairs(join: OuterJoin, condition: Expression) -> Relation:
    inner = InnerJoin(join.left, join.right, join.left_keys, join.right_keys, None)
    pairs = filtered(inner, conjuncts(condition))
    width, whole = len(join.left.columns), range(len(inner.columns))
    used = references(condition).union(
        *map(references, join.left_keys), *({i + width for i in references(key)} for key in join.right_keys)
    )
    if join.kind in ("SEMI", "ANTI"):
        return _matching(join.left, pairs, 0, used, join.kind)
    arms = [_shown(pairs, join.columns, whole)]
    if join.kind in ("LEFT", "FULL"):
        alone = _matching(join.left, pairs, 0, used, "ANTI")
        arms.append(_shown(alone, join.columns, [i if i < width else None for i in whole]))
    if join.kind in ("RIGHT", "FULL"):
        alone = _matching(join.right, pairs, width, used, "ANTI")
        arms.append(_shown(alone, join.columns, [i - width if i >= width else None for i in whole]))
    return UnionAll(tuple(arms))


def _matching(side: Relation, pairs: Relation, offset: int, used: set[int], kind: str) -> OuterJoin:
    """The rows of `side`, whose columns stand in `pairs` from `offset` on, that have the columns `used` of some pair,
    or of none; -0.0 and 0.0 are two."""
    read = sorted(i for i in used if offset <= i < offset + len(side.columns))
    found = _shown(pairs, [pairs.columns[i] for i in read], read)
    width = len(side.columns)
    equal = tuple(
        comparison("<=>", as_key(reference_to(pairs.columns[i], i - offset)), as_key(reference_to(column, width + n)))
        for n, (i, column) in enumerate(zip(read, found.columns, strict=True))
    )
    return OuterJoin(side, found, (), (), conjunction(equal), kind)


def _shown(relation: Relation, columns: Sequence[Column], at: Sequence[int | None]) -> Project:
    """The columns `at` of `relation` as `columns`; None is NULL."""
    outputs = tuple(
        Literal(column.type, True, None, None) if i is None else reference_to(column, i)
        for column, i in zip(columns, at, strict=True)
    )
    return Project(relation, outputs, tuple(column.name for column in columns))


COMPUTED_ON = Rule("computed in ON", _apply)
