"""By key: any function of all rows that its inputs hold of a key, computed for the touched keys before and after.

The general fallback for what is neither linear nor bilinear, and the reference that quicker operators
are compared with in tests.  A batch costs the rows of the keys that it touches; for functions with a reach, those of
them that a changed row reaches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from viewkeeper.maintenance.operators import first_rows, group_values, outer_join, window_rows
from viewkeeper.maintenance.operators.keyed_rows import KeyAnswer, KeyedRows, consolidated, touched
from viewkeeper.maintenance.operators.reached import reached
from viewkeeper.maintenance.task import Arrived, Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.key_functions import FirstRows, OuterJoinRows, ValuesOfGroup, WindowRows
from viewkeeper.plans.reach import reach_in
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import with_null
from viewkeeper.trace.rows import Rows


@dataclass(frozen=True)
class _Function:
    """What a class of functions computes of some keys' rows (one `KeyedRows` an input), and of the rows of an input
    whose key has a NULL, where these are answered one by one."""

    compute: Callable[[Any, list[KeyedRows], plan.ByKey, str], KeyAnswer]
    alone: Callable[[Any, int, Rows, plan.ByKey], Rows | None] | None


_FUNCTIONS: dict[type, _Function] = {
    OuterJoinRows: _Function(outer_join.compute, outer_join.alone), FirstRows: _Function(first_rows.compute, None),
    WindowRows: _Function(window_rows.compute, None), ValuesOfGroup: _Function(group_values.compute, None),
}  # fmt: skip


def run(operator: plan.ByKey, task: Task) -> None:
    """The function's rows of the touched keys: those before with their weights turned, and those after."""
    arrived = [task.sides.get(input_) for input_ in operator.inputs]
    if all(side is None for side in arrived):
        return
    function = _FUNCTIONS[type(operator.function)]
    parts: list[Rows] = []
    if function.alone is not None:
        for number, side in enumerate(arrived):
            rows = None if side is None else function.alone(operator.function, number, _unknown(side), operator)
            parts += [] if rows is None else [rows]
    keys, _ = touched(arrived, nulls=function.alone is None)
    if len(keys):
        before, after = [], []
        for input_, side in zip(operator.inputs, arrived, strict=True):
            reverse = task.program.operators[input_]
            assert isinstance(reverse, plan.ReverseJoin)
            trace = task.context.trace(reverse.state)
            if side is None or side.arranged is None:
                unchanged = keys.rows_of(trace)
                states = unchanged, unchanged
            elif (reach := reach_in(operator.function, reverse.state)) is not None:
                states = reached(reach, operator.function, trace, side.arranged, keys, task.program.zone)
            else:
                states = keys.rows_of(trace), keys.rows_of(trace.with_rows(side.arranged))
            before.append(states[0])
            after.append(states[1])
        for sign, state in ((-1, before), (1, after)):
            answer = function.compute(operator.function, state, operator, task.program.zone)
            parts.append(Rows(answer.rows.columns, sign * answer.rows.weights))
            if answer.errors is not None:
                wrong = Rows(answer.raised.columns, sign * answer.raised.weights)
                task.raised(operator, operator, wrong, answer.errors)
    rows = Rows.concat(parts) if parts else None
    if rows is not None and len(rows):
        # What the function says before and after is mostly the same, and none of the others' business.
        task.streams[operator.id] = consolidated(rows, hash_columns(rows.columns, len(rows)))[1]


def _unknown(side: Arrived) -> Rows:
    """The rows of a side whose key has a NULL."""
    return side.rows.filter(with_null(side.rows.columns[: side.key], len(side.rows)))
