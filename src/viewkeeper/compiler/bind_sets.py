"""UNION, INTERSECT, EXCEPT, VALUES and DISTINCT over bound rows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import VOID
from viewkeeper.compiler.coercion import common_type_of_all
from viewkeeper.compiler.conversion import Refused, converted, to_common
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import Expression, Literal, reference_to
from viewkeeper.plans.relations import Constants, GroupBy, Project, Relation, SetOperation, UnionAll

_ONE_ROW = Constants(((),), ())


def set_operation(query: QueryText, node: exp.SetOperation, left: Relation, right: Relation, zone: str) -> Relation:
    """UNION, INTERSECT or EXCEPT of two queries: by position, each column of Spark's common type."""
    if len(left.columns) != len(right.columns):
        message = f"{node.key.upper()} of {len(left.columns)} and of {len(right.columns)} columns"
        raise query.error(message, node.expression)
    targets = []
    for a, b in zip(left.columns, right.columns, strict=True):
        target = common_type_of_all([a.type, b.type])
        if target is None:
            message = f"the columns {a.name} of {a.type} and {b.name} of {b.type} do not go together"
            raise query.error(message, node.expression)
        targets.append(target)
    names = tuple(column.name for column in left.columns)
    sides = []
    for side in (left, right):
        columns = tuple(reference_to(c, i, query.place(node)) for i, c in enumerate(side.columns))
        try:
            outputs = tuple(converted(c, t, zone) for c, t in zip(columns, targets, strict=True))
        except Refused as refused:
            raise query.error(str(refused), node, refused.kind) from None
        same = outputs == columns and names == tuple(c.name for c in side.columns)
        sides.append(side if same else Project(side, outputs, names))
    if not isinstance(node, exp.Union):
        return SetOperation(node.key.upper(), not node.args.get("distinct"), sides[0], sides[1])
    rows = UnionAll((sides[0], sides[1]))
    return distinct(rows) if node.args.get("distinct") else rows


def distinct(rows: Relation) -> Project:
    """Each row once: one row for each group of equal ones."""
    columns = tuple(reference_to(c, i) for i, c in enumerate(rows.columns))
    names = tuple(c.name for c in rows.columns)
    return Project(GroupBy(rows, columns, names, (), ()), columns, names)


def values(
    query: QueryText, node: exp.Values, rows: Sequence[Sequence[Expression]], zone: str, typed: bool = True
) -> Relation:  # fmt: skip
    """The rows of VALUES, each column of the common type of all its values, which `typed` must not be VOID."""
    width = len(rows[0])
    for row, written in zip(rows, node.expressions, strict=True):
        if len(row) != width:
            raise query.error(f"VALUES has rows of {width} and of {len(row)} values", written)
    try:
        columns = [to_common(list(column), "VALUES", zone) for column in zip(*rows, strict=True)]
    except Refused as refused:
        raise query.error(str(refused), node, refused.kind) from None
    names = tuple(f"col{i + 1}" for i in range(width))
    if typed and any(column[0].type == VOID for column in columns):
        raise query.error("a column of VALUES is always NULL and has no type", node, NotSupported)
    made = list(zip(*columns, strict=True))
    if all(isinstance(value, Literal) for row in made for value in row):
        described = tuple(Column(n, c[0].type, any(v.nullable for v in c)) for n, c in zip(names, columns, strict=True))
        return Constants(tuple(made), described)
    each = tuple(Project(_ONE_ROW, row, names) for row in made)
    return each[0] if len(each) == 1 else UnionAll(each)
