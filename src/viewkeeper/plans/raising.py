"""Which expressions can raise, and what that means for sharing."""

from __future__ import annotations

from viewkeeper.functions.registry import FUNCTIONS
from viewkeeper.plans.expressions import Arithmetic, Expression, FunctionCall, Negate
from viewkeeper.plans.rewriting import identity, walk


def can_raise(expression: Expression) -> bool:
    """Whether some row could make the expression raise: integer or decimal arithmetic, / or %, or a function that may,
    is in it."""
    return any(_raises(node) for node in walk(expression))


def _raises(node: Expression) -> bool:
    if isinstance(node, Arithmetic) and node.operator in ("/", "%"):
        return True
    if isinstance(node, FunctionCall):
        return FUNCTIONS[node.function].may_raise(node.type)
    return isinstance(node, (Arithmetic, Negate)) and not node.type.is_float


def shared_form(expression: Expression) -> Expression:
    """Equal for expressions that can be computed once for several views.

    Places and names count only where a row could raise, since an error row names the place in its view's own text.
    """
    return expression if can_raise(expression) else identity(expression)
