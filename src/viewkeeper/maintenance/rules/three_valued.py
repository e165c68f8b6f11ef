"""What decides an IN (SELECT ...) besides a match: whether the subquery has rows, and whether it has NULLs."""

from __future__ import annotations

from viewkeeper.catalog.types import BIGINT, BOOLEAN
from viewkeeper.maintenance.rules.subquery_terms import is_positive
from viewkeeper.plans.correlation import Uncorrelated, handed
from viewkeeper.plans.expressions import Coalesce, ColumnRef, Expression, Literal, comparison, reference_to
from viewkeeper.plans.relations import AggregateCall, GroupBy, InnerJoin, OuterJoin, Project, Relation


def with_rows_and_nulls(
    left: Relation, rows: Uncorrelated, outer: tuple[Expression, ...]
) -> tuple[Relation, Expression, Expression]:
    """`left` with two columns: whether `rows` has any row for it, and any whose first column is NULL."""
    assert not rows.conditions, "the compiler refuses it"
    first = rows.relation.columns[0]
    column = ColumnRef(first.type, first.nullable, None, 0, first.name)
    calls = (
        AggregateCall("count_star", None, BIGINT, False, None),
        AggregateCall("count", column, BIGINT, False, None),
    )
    keys = tuple(here for _, here in rows.keys)
    names = tuple(f"key{i}" for i in range(len(keys)))
    grouped = GroupBy(rows.relation, keys, names, calls, ("rows", "values"))
    shown = [reference_to(c, i) for i, c in enumerate(grouped.columns)]
    # As truth values, so that nothing changes where only the numbers do.
    tests = (is_positive(shown[-2]), comparison(">", shown[-2], shown[-1]))
    right = Project(grouped, (*shown[:-2], *tests), (*names, "has rows", "has nulls"))
    at = len(left.columns) + len(keys)
    found = [ColumnRef(BOOLEAN, bool(keys), None, at + i, name) for i, name in enumerate(("has rows", "has nulls"))]
    if not keys:
        return InnerJoin(left, right, (), (), None), found[0], found[1]
    lefts = tuple(handed(around, outer) for around, _ in rows.keys)
    no = Literal(BOOLEAN, False, None, False)
    known = [Coalesce(BOOLEAN, False, None, (each, no)) for each in found]
    return OuterJoin(left, right, lefts, tuple(shown[: len(keys)]), None, "LEFT"), known[0], known[1]
