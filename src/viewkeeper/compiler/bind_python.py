"""Calls of functions of Python's."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.catalog.model import PythonFunction
from viewkeeper.catalog.types import VOID
from viewkeeper.compiler.conversion import Refused
from viewkeeper.compiler.supported import function_refused
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import Expression, TextPlace
from viewkeeper.plans.outside import PythonCall
from viewkeeper.plans.rewriting import references


def no_function(name: str) -> PythonFunction | None:
    """Where there are none."""
    return None


def python_call(
    function: PythonFunction | None, name: str, arguments: Sequence[Expression], place: TextPlace | None
) -> PythonCall:
    """The call of `function`, which is what `name` means; raises Refused where it is none."""
    if function is None:
        raise Refused(function_refused(name), NotSupported)
    if not any(references(each) for each in arguments):
        raise Refused(f"{function.name} is called without columns; write the value itself")
    if any(each.type == VOID for each in arguments):
        raise Refused(f"an argument of {function.name} is NULL and has no type; write CAST(NULL AS ...)")
    return PythonCall(function.returns, True, place, tuple(arguments), function.name, function)
