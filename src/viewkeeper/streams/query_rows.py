"""The rows that a query's FROM and WHERE leave of one slice of a part, dimension tables joined as they were for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.errors import ViewBroken
from viewkeeper.evaluation.error_codes import format_error
from viewkeeper.evaluation.evaluate import evaluate, predicate
from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.relations import Filter, InnerJoin, Project, Relation, Scan
from viewkeeper.streams.blocks import Block
from viewkeeper.trace.grouping import spread, stable_argsort
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import canonical, equal_rows, with_null

Columns = tuple[list[pa.Array], int]
"""Physical columns and their length."""


def rows_of(relation: Relation, tables: Mapping[int, Block], zone: str) -> Columns:
    """The rows of scans, filters, projections and joins; `tables` has the rows of each scan, by its object's id.

    Raises ViewBroken at the first row for which an expression raises.
    """
    match relation:
        case Scan():
            block = tables[relation.object]
            return block.columns, len(block)
        case Filter():
            return filtered(relation.predicate, *rows_of(relation.input, tables, zone), zone)
        case Project():
            columns, length = rows_of(relation.input, tables, zone)
            return computed(relation.outputs, columns, length, zone), length
        case InnerJoin():
            left, right = rows_of(relation.left, tables, zone), rows_of(relation.right, tables, zone)
            return _joined(relation, left, right, zone)
    raise AssertionError(f"no rows of {type(relation).__name__}")


def computed(outputs: Sequence[Expression], columns: Sequence[pa.Array], length: int, zone: str) -> list[pa.Array]:
    """The values of expressions, a column each."""
    results = []
    for output in outputs:
        values, errors = evaluate(output, columns, length, zone=zone)
        _raise_first(errors)
        results.append(values)
    return results


def filtered(condition: Expression, columns: list[pa.Array], length: int, zone: str) -> Columns:
    """The rows where the condition is TRUE."""
    keep, errors = predicate(condition, columns, length, zone=zone)
    _raise_first(errors)
    if keep.all():
        return columns, length
    chosen = np.flatnonzero(keep)
    index = pa.array(chosen)
    return [column.take(index) for column in columns], len(chosen)


def _raise_first(errors: np.ndarray | None) -> None:
    if errors is not None and errors.any():
        raise ViewBroken(f"{format_error(int(errors[errors != 0][0]))} in a row of its source")


def _joined(join: InnerJoin, left: Columns, right: Columns, zone: str) -> Columns:
    (left_columns, left_length), (right_columns, right_length) = left, right
    left_keys = [canonical(c) for c in computed(join.left_keys, left_columns, left_length, zone)]
    right_keys = [canonical(c) for c in computed(join.right_keys, right_columns, right_length, zone)]
    hashes, other = hash_columns(left_keys, left_length), hash_columns(right_keys, right_length)
    order = stable_argsort(other)
    ranked = other[order]
    null = with_null(left_keys, left_length)
    low, high = np.searchsorted(ranked, hashes, "left"), np.searchsorted(ranked, hashes, "right")
    low[null] = 0
    high[null] = 0
    mine = np.repeat(np.arange(left_length), high - low)
    theirs = order[spread(low, high - low)]
    mine_index, theirs_index = pa.array(mine), pa.array(theirs)
    equal = equal_rows([k.take(mine_index) for k in left_keys], [k.take(theirs_index) for k in right_keys])
    if not equal.all():
        mine_index, theirs_index = pa.array(mine[equal]), pa.array(theirs[equal])
    columns = [*(c.take(mine_index) for c in left_columns), *(c.take(theirs_index) for c in right_columns)]
    length = len(mine_index)
    return (columns, length) if join.residual is None else filtered(join.residual, columns, length, zone)
