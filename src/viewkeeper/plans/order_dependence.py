"""Which aggregates Spark answers differently when their rows come in another order."""

from __future__ import annotations

from viewkeeper.catalog.types import Type
from viewkeeper.plans.product_sums import PRODUCTS
from viewkeeper.plans.relations import AggregateCall, GroupBy, Relation, Windows
from viewkeeper.plans.subqueries import relations_in


def is_order_dependent(call: AggregateCall) -> bool:
    """Whether Spark's value of `call` may depend on the order of rows."""
    return call.argument is not None and _is_inexact(plain_name(call.function), call.argument.type)


def plain_name(function: str) -> str:
    """An aggregate without what says DISTINCT, or that it is NULL where it overflows."""
    return function.removesuffix("_distinct").removeprefix("try_")


def _is_inexact(function: str, of: Type) -> bool:
    exact = function not in PRODUCTS and not (function in ("sum", "avg") and of.is_float)
    return not exact or (function == "avg" and of.is_integer)


def needs_exact(relation: Relation) -> bool:
    """Whether Spark is not the judge of this query."""
    return any(
        (isinstance(each, GroupBy) and any(is_order_dependent(call) for call in each.calls))
        or (isinstance(each, Windows) and any(call.of and _is_inexact(call.function, call.of) for call in each.calls))
        for each in relations_in(relation)
    )
