"""By what a view is read: the view key.

Grouping: the grouping columns.  Selection and projection: the key of what they read, if all of it is still there.
Inner join: both keys, less a side that is joined by its whole key.  SEMI and ANTI join: the left key; LEFT (RIGHT)
join: that side's key, where the other side is joined by its whole key.  INTERSECT and EXCEPT without ALL: all columns,
each row once.  Anything else: all columns, with multiplicity.
"""

from __future__ import annotations

from viewkeeper.catalog.model import Table, View
from viewkeeper.compiler.coercion import is_injective
from viewkeeper.compiler.namespace import Namespace
from viewkeeper.plans.expressions import Cast, ColumnRef, Expression
from viewkeeper.plans.relations import (
    AskedOver,
    Constants,
    Explode,
    Filter,
    GroupBy,
    InnerJoin,
    Limit,
    OuterJoin,
    Project,
    Relation,
    Scan,
    SetOperation,
    SparkQuery,
    UnionAll,
    Windows,
)


def view_key(relation: Relation, names: Namespace) -> tuple[tuple[int, ...], bool]:
    """The positions of the key among the relation's columns, and whether it tells rows apart."""
    key = _key(relation, names)
    return (tuple(range(len(relation.columns))), False) if key is None else (key, True)


def _key(relation: Relation, names: Namespace) -> tuple[int, ...] | None:
    """Positions that tell the rows of `relation` apart, None where rows may be equal."""
    match relation:
        case Scan():
            item = names.by_id(relation.object)
            if isinstance(item, Table):
                return item.key or None
            return item.key if isinstance(item, View) and item.unique else None
        case Constants():
            return () if len(relation.rows) == 1 else None
        case UnionAll():
            return None
        case Explode():
            key = _key(relation.input, names)
            return None if key is None else (*key, len(relation.input.columns))
        case SetOperation():
            return None if relation.all else tuple(range(len(relation.columns)))
        case SparkQuery():
            return None
        case Filter() | Limit() | Windows() | AskedOver():
            return _key(relation.input, names)
        case GroupBy():
            return tuple(range(len(relation.keys)))
        case Project():
            return _through(relation, _key(relation.input, names))
        case InnerJoin():
            return _of_join(relation, _key(relation.left, names), _key(relation.right, names))
        case OuterJoin():
            return _of_outer_join(relation, names)
    raise AssertionError(f"no view key for {type(relation).__name__}")


def _through(project: Project, key: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if key is None:
        return None
    outputs: dict[int, int] = {}
    for i, output in enumerate(project.outputs):
        if isinstance(output, ColumnRef):
            outputs.setdefault(output.index, i)
    return tuple(outputs[i] for i in key) if all(i in outputs for i in key) else None


def _of_join(join: InnerJoin, left: tuple[int, ...] | None, right: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if left is None or right is None:
        return None
    shifted = tuple(i + len(join.left.columns) for i in right)
    if set(right) <= _joined_columns(join.right_keys):
        return left
    return shifted if set(left) <= _joined_columns(join.left_keys) else left + shifted


def _of_outer_join(join: OuterJoin, names: Namespace) -> tuple[int, ...] | None:
    """The key of the side whose every row comes once: all its rows do in SEMI and ANTI, and in LEFT (RIGHT) where each
    meets one row of the other side at most."""
    left, right = _key(join.left, names), _key(join.right, names)
    if join.kind in ("SEMI", "ANTI"):
        return left
    if left is None or right is None:
        return None
    if join.kind == "LEFT" and set(right) <= _joined_columns(join.right_keys):
        return left
    if join.kind == "RIGHT" and set(left) <= _joined_columns(join.left_keys):
        return tuple(i + len(join.left.columns) for i in right)
    return None


def _joined_columns(keys: tuple[Expression, ...]) -> set[int]:
    """The columns that a join compares as they are, or converted so that different values stay different."""
    columns = set()
    for key in keys:
        column = key.argument if isinstance(key, Cast) and is_injective(key.argument.type, key.type) else key
        if isinstance(column, ColumnRef):
            columns.add(column.index)
    return columns
