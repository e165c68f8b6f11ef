"""MEMO: what somebody else says to a call, computed once for each value of its arguments.

An answer is kept with the number of rows that have the value, and is there for as long as there are any: what is said
of a row that goes is what was said when it came, and never computed again.  Linear: a changed row costs itself.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.evaluation.error_codes import FUNCTION_RAISED, pack_error
from viewkeeper.evaluation.evaluate import evaluate
from viewkeeper.functions.python_calls import answered
from viewkeeper.maintenance.operators.keyed_rows import KeyedRows, TouchedKeys
from viewkeeper.maintenance.task import Arrived, Sent, Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.exchange import Exchange
from viewkeeper.plans.outside import PythonCall
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.trace import Trace

log = logging.getLogger("viewkeeper")


def target(operator: plan.Memo) -> str:
    """Where answers to what `unknown` has found are sent: rows of the state."""
    return f"memo:{operator.id}"


@dataclass(frozen=True)
class NewValues:
    """Values that arrived and that a MEMO knows nothing of yet: hashes, the columns of the key, those of the call's
    arguments, and where these raised (packed errors, 0: nowhere)."""

    hashes: np.ndarray
    key: list[pa.Array]
    arguments: list[pa.Array]
    errors: np.ndarray

    def __len__(self) -> int:
        return len(self.hashes)

    def answered(self, values: pa.Array, errors: np.ndarray) -> Sent:
        """The rows of the state by which the MEMO gets to know them."""
        return Sent(Rows([*self.key, values, pa.array(errors)], np.ones(len(self), np.int64)), self.hashes)


def unknown(operator: plan.Memo, exchange: Exchange, sent: Sequence[Sent], trace: Trace, zone: str) -> NewValues:
    """What of the rows `sent` through `exchange` the state `trace` knows nothing of, each value once."""
    rows, hashes = Rows.concat([each.rows for each in sent]), np.concatenate([each.hashes for each in sent])
    arrived = Arrived(rows, hashes, exchange.key)
    _, at = _known(arrived, trace)
    new = np.flatnonzero(at < 0)
    firsts = arrived.rows.take(arrived.groups.firsts[new]).columns
    arguments, errors = [], np.zeros(len(new), np.int64)
    for argument in operator.call.arguments:
        values, raised = evaluate(argument, firsts, len(new), zone=zone)
        arguments.append(values)
        errors = errors if raised is None else np.where(errors != 0, errors, raised)
    key = [column.take(pa.array(new)) for column in arrived.group_keys]
    return NewValues(arrived.group_hashes[new], key, arguments, errors)


def by_python(call: PythonCall, new: NewValues, zone: str) -> Sent:
    """What a function of Python's says to `new`; raises FunctionUnfit where it says nothing that could be kept."""
    types = [argument.type for argument in call.arguments]
    values, raised = answered(call.function, new.arguments, types, new.errors != 0, zone)
    errors = new.errors.copy()
    errors[list(raised)] = pack_error(FUNCTION_RAISED, None)
    if raised:
        log.warning(
            "%s raises for %s new values, for one of them: %s", call.name, len(raised), next(iter(raised.values()))
        )
    return new.answered(values, errors)


def run(operator: plan.Memo, task: Task) -> None:
    """Leaves what is known of each row for the RECALLs of this zone, and counts the rows of each value."""
    arrived = task.arrived(task.program.exchanges[operator.exchange])
    if arrived is None:
        return
    trace = task.context.trace(operator.state)
    given = task.inbox.get(target(operator))
    if given:
        trace = trace.with_rows(Rows.concat([each.rows for each in given]))
    known, at = _known(arrived, trace)
    assert (at >= 0).all(), "whoever runs the zones has asked for what is unknown"
    answers = [column.take(pa.array(at)) for column in known.rows.columns[operator.state.key :]]
    group = np.empty(len(arrived.rows), np.int64)
    group[arrived.groups.order] = arrived.group_of
    task.answers[operator.id] = [column.take(pa.array(group)) for column in answers]
    more = np.add.reduceat(arrived.sorted_weights, arrived.groups.starts)
    task.write(operator.state, Rows([*arrived.group_keys, *answers], more).filter(more != 0))


def _known(arrived: Arrived, trace: Trace) -> tuple[KeyedRows, np.ndarray]:
    """The answers that `trace` has for values that arrived, and for each of these which it is (-1: none)."""
    known = TouchedKeys(arrived.group_hashes, arrived.group_keys).rows_of(trace)
    at = np.full(len(arrived.group_hashes), -1)
    at[known.key] = np.arange(len(known))
    return known, at
