"""Where arrays, structs and maps may stand in what our own operators keep: where it matters only whether two are equal.

They are held as bytes (`catalog.nested`), whose order is not that of the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from viewkeeper.catalog.types import VOID, Type
from viewkeeper.errors import NotSupported
from viewkeeper.functions.registry import FUNCTIONS
from viewkeeper.plans.expressions import Case, Cast, Coalesce, Compare, Expression, FunctionCall, IsNull, TextPlace
from viewkeeper.plans.outside import BY_SPARK, SparkAggregate, SparkCall
from viewkeeper.plans.relations import (
    GroupBy,
    InnerJoin,
    Limit,
    OuterJoin,
    Relation,
    SetOperation,
    Windows,
)
from viewkeeper.plans.subqueries import MadeFrom
from viewkeeper.plans.value_functions import EXTREMES_BY, is_list

_PASSING = (Case, Cast, Coalesce, IsNull, SparkCall, SparkAggregate)
_EQUALITIES = ("=", "<>", "<=>")


def refuse_nested(parts: MadeFrom) -> None:
    """Raises NotSupported where more is asked of an array, struct or map than what can be said here."""
    for column in parts.relations[0].columns:
        if column.type.parts and _has_nothing(column.type):
            raise NotSupported(f"the output {column.name} is of type {column.type}; write a CAST to a type")
    refuse_nested_within(parts)


def refuse_nested_within(parts: MadeFrom) -> None:
    """`refuse_nested`, whatever comes out: of a query that another may read or not."""
    for node in parts.expressions:
        _refuse_within(node)
    for each in parts.relations:
        for type_, place in _ordered(each):
            if type_.is_nested:
                raise _refusal(f"an order of values of type {type_} is not supported yet", place)
        for type_, place in _told_apart(each):
            if type_.has_map:
                raise _refusal(f"rows cannot be told apart by a value of type {type_}", place)


def _has_nothing(type_: Type) -> bool:
    return type_ == VOID or any(_has_nothing(part) for _, part in type_.parts)


def _refuse_within(node: Expression) -> None:
    nested = [child.type for child in node.children() if child.type.is_nested]
    passed_on = isinstance(node, _PASSING) or (isinstance(node, FunctionCall) and FUNCTIONS[node.function].nested)
    if not nested or passed_on:
        return
    if not isinstance(node, Compare) or node.operator not in _EQUALITIES or any(type_.has_map for type_ in nested):
        raise _refusal(f"this is not supported yet for a value of type {nested[0]}", node.place)


def _ordered(relation: Relation) -> Iterator[tuple[Type, TextPlace | None]]:
    """Values of which one comes before another, and where that is asked."""
    if isinstance(relation, GroupBy):
        for call in relation.calls:
            free = call.function in ("count", "count_distinct", BY_SPARK, *EXTREMES_BY) or is_list(call.function)
            if call.argument is not None and not free:
                yield call.argument.type, call.place
    elif isinstance(relation, Limit):
        yield from ((column.type, None) for column in relation.columns)
    elif isinstance(relation, Windows):
        columns = relation.input.columns
        for over in relation.calls:
            orders = [*over.order, *over.ties]
            yield from ((columns[order.index].type, over.place) for order in orders)
            free = over.function in ("count", *EXTREMES_BY)
            yield from ((columns[i].type, over.place) for i in over.arguments if not free)


def _told_apart(relation: Relation) -> Iterator[tuple[Type, TextPlace | None]]:
    """Values by which rows are told to be of one kind, and where."""
    keys: Sequence[Expression] = ()
    if isinstance(relation, GroupBy):
        counted = (call.argument for call in relation.calls if call.function not in ("count", BY_SPARK))
        keys = (*relation.keys, *(argument for argument in counted if argument is not None))
    elif isinstance(relation, InnerJoin | OuterJoin):
        keys = (*relation.left_keys, *relation.right_keys)
    elif isinstance(relation, SetOperation):
        yield from ((column.type, None) for column in relation.columns)
    elif isinstance(relation, Windows):
        yield from ((relation.input.columns[i].type, None) for i in relation.partition)
    yield from ((key.type, key.place) for key in keys)


def _refusal(message: str, place: TextPlace | None) -> NotSupported:
    return NotSupported(message, *(place or (None, None)))
