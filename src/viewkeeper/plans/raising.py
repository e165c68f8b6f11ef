"""Which expressions can raise, and what that means for sharing."""

from __future__ import annotations

from viewkeeper.catalog.types import BOOLEAN, INTEGER_BITS, STRING, VOID, Type
from viewkeeper.functions.registry import FUNCTIONS
from viewkeeper.plans.expressions import Arithmetic, Cast, Expression, FunctionCall, Negate, OnlyRow
from viewkeeper.plans.outside import Kept, OutsideCall
from viewkeeper.plans.relations import Filter, GroupBy, OverCall, Project, Relation, expressions_of
from viewkeeper.plans.rewriting import identity, walk
from viewkeeper.plans.subqueries import ScalarSubquery


def can_raise(expression: Expression) -> bool:
    """Whether some row could make the expression raise: integer or decimal arithmetic, / or %, or a function or a cast
    that may, is in it, or a call that somebody else computes."""
    return any(_raises(node) for node in walk(expression))


def call_can_raise(call: OverCall) -> bool:
    """Whether some rows could make a window function raise: a sum may not fit its type."""
    if call.of is None or call.function not in ("sum", "avg"):
        return False
    return call.of.is_decimal or call.of.is_interval or (call.of.is_integer and call.function == "sum")


def _raises(node: Expression) -> bool:
    if isinstance(node, Arithmetic) and node.operator in ("/", "%"):
        return True
    if isinstance(node, ScalarSubquery):
        return _may_have_several_rows(node.query)
    if isinstance(node, FunctionCall):
        function = FUNCTIONS[node.function]
        return function.raises is not None and function.may_raise(node.type)
    if isinstance(node, Cast):
        moment = node.type.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")  # beyond the years TRY_CAST raises, too
        return (moment or not node.tried) and cast_may_raise(node.argument.type, node.type)
    return isinstance(node, (OnlyRow, OutsideCall, Kept)) or (
        isinstance(node, (Arithmetic, Negate)) and not node.type.is_float
    )


def _may_have_several_rows(query: Relation) -> bool:
    """Whether it is not a group of all rows, or what is computed of this group can raise."""
    while isinstance(query, (Filter, Project)):
        if any(map(can_raise, expressions_of(query))):
            return True
        query = query.input
    return not isinstance(query, GroupBy) or bool(query.keys)


def shared_form(expression: Expression) -> Expression:
    """Equal for expressions that can be computed once for several views.

    Places and names count only where a row could raise, since an error row names the place in its view's own text.
    """
    return expression if can_raise(expression) else identity(expression)


_DIGITS = {"BOOLEAN": 1, "TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}


def cast_may_raise(source: Type, target: Type) -> bool:
    """Whether CAST raises for some value."""
    if source.is_nested and target.is_nested:
        return any(cast_may_raise(old, new) for (_, old), (_, new) in zip(source.parts, target.parts, strict=True))
    if source in (VOID, target) or target.is_bytes:
        return False
    if source == STRING:
        return True
    if target == BOOLEAN or target.is_float:
        return False
    if target.is_decimal:
        whole = _DIGITS.get(source.name, source.precision - source.scale)
        return source.scale > target.scale or whole > target.precision - target.scale or source.is_float
    if target.is_integer and (source.is_integer or source == BOOLEAN):
        return INTEGER_BITS.get(source.name, 1) > INTEGER_BITS[target.name]
    return source.is_number or target.is_number
