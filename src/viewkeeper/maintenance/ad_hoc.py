"""Ad hoc queries: a relation over given rows, once.

The same operators as in maintenance, over changes from nothing: a SELECT answers with the types, sums and errors that
the same query has as a view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from viewkeeper.catalog.model import Catalog, StateSpec, Table
from viewkeeper.catalog.types import physical_type
from viewkeeper.errors import QueryRaises, ViewBroken
from viewkeeper.functions.python_calls import FunctionUnfit
from viewkeeper.maintenance.builder import PlanBuilder
from viewkeeper.maintenance.operators.memo import NewValues, by_python, target, unknown
from viewkeeper.maintenance.rules.rewriter import rewritten
from viewkeeper.maintenance.task import Sent
from viewkeeper.maintenance.zone_programs import ZonePrograms
from viewkeeper.maintenance.zones import run_zone
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.outside import PythonCall
from viewkeeper.plans.relations import Relation
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.trace import GREATEST_WORD, Trace


class _Collected:
    """A context in one process: nothing is kept, and what is sent waits for its zone."""

    seed = True
    owned = 0, GREATEST_WORD

    def __init__(self) -> None:
        self.inbox: dict[str, list[Sent]] = {}

    def trace(self, spec: StateSpec) -> Trace:
        return Trace(spec, [])

    def write(self, spec: StateSpec, rows: Rows) -> None:
        pass

    def send(self, target: str, rows: Rows, hashes: np.ndarray) -> None:
        self.inbox.setdefault(target, []).append(Sent(rows, hashes))

    def reject(self, table: Table, operations: Rows, reasons: Sequence[str]) -> None:
        raise AssertionError("a query has no operations")

    def count(self, name: str, number: int) -> None:
        pass


def _said(call: PythonCall, new: NewValues, zone: str) -> Sent:
    try:
        return by_python(call, new, zone)
    except FunctionUnfit as unfit:
        raise ViewBroken(str(unfit)) from unfit


def run_query(relation: Relation, scan: Callable[[int], Rows], zone: str = "UTC") -> Rows:
    """The rows of `relation`, in physical types, with positive weights.

    `scan(object id)` gives the rows of a table or view in declared column order.  Raises ViewBroken where a row raises.
    """
    builder = PlanBuilder(Catalog(), sources=True)
    stream = builder.lower(rewritten(relation, zone)[0], range(len(relation.columns)), family=False)
    program = ZonePrograms.of_plan(builder.built(), zone)
    context = _Collected()
    for operator in program.operators.values():
        if isinstance(operator, plan.GivenRows):
            rows = scan(operator.object)
            context.send(f"delta:{operator.object}", rows, np.zeros(len(rows), dtype=np.uint64))
    result: Rows | None = None
    for number in range(1, program.depth + 1):
        inbox = {target: sent for target, sent in context.inbox.items() if program.zone_of(target) == number}
        context.seed = number == 1
        for memo in program.memos(number):
            sent = inbox.get(f"x:{memo.exchange}")
            assert isinstance(memo.call, PythonCall), "Spark is asked for whole queries here"
            if sent:
                new = unknown(memo, program.exchanges[memo.exchange], sent, Trace(memo.state, []), zone)
                inbox[target(memo)] = [_said(memo.call, new, zone)]
        task = run_zone(program, number, inbox, context)
        result = task.streams.get(stream.operator, result)
        if task.error is not None:
            raise QueryRaises(f"the query raises {task.error}")
    if result is None:
        return Rows.empty([physical_type(column.type) for column in relation.columns])
    member = program.operators[stream.operator].member
    return result.select([stream.positions[i] + member for i in range(len(relation.columns))])
