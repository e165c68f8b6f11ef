"""Calls of functions of Python's."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.catalog.model import PythonFunction
from viewkeeper.catalog.types import VOID
from viewkeeper.compiler.conversion import Refused
from viewkeeper.compiler.supported import function_refused
from viewkeeper.errors import DeclarationError, NotSupported, reason_of
from viewkeeper.plans.expressions import ColumnRef, Expression, OuterColumn, TextPlace
from viewkeeper.plans.outside import PythonCall
from viewkeeper.plans.rewriting import walk
from viewkeeper.plans.subqueries import Subquery


def no_function(name: str) -> PythonFunction | None:
    """Where there are none."""
    return None


def python_call(
    function: PythonFunction | None, name: str, arguments: Sequence[Expression], place: TextPlace | None
) -> PythonCall:
    """The call of `function`, which is what `name` means; raises Refused where it is none."""
    if function is None:
        raise Refused(function_refused(name), NotSupported)
    if not any(isinstance(node, ColumnRef | OuterColumn | Subquery) for each in arguments for node in walk(each)):
        raise Refused(f"{function.name} is called without columns; write the value itself")
    if any(each.type == VOID for each in arguments):
        raise Refused(f"an argument of {function.name} is NULL and has no type; write CAST(NULL AS ...)")
    return PythonCall(function.returns, True, place, tuple(arguments), function.name, function)


def left_to_spark(name: str, refused: DeclarationError) -> str:
    """What is said of the function `name` in a query of which our own operators have `refused` some part."""
    what = f"{name} is a Python function, which Spark does not know, and only Spark has the rest"
    return f"{what}: {reason_of(refused)}; put the one into a view over the other"
