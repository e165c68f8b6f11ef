"""What the states of a view hold, or are to be expected to hold, and what a change of one row reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from viewkeeper.catalog.model import StateSpec
from viewkeeper.catalog.types import physical_type
from viewkeeper.maintenance.explained import ExplainedState
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.reach import reach_by_key
from viewkeeper.plans.shown import Shown

StoredSizes = Mapping[int, tuple[int, int]]
"""Stored rows and bytes of states, and of what has parts, by id."""

_TEXT_BYTES, _WEIGHT_BYTES = 24, 8
"""What a text takes, and a row beside its columns, where nothing is known."""


class Estimates:
    """Of the operators `order` of a plan, inputs before their users: how many rows come out of each once it is filled.

    A guess from the sizes of the tables alone: a condition keeps every row, a join gives as many rows as its greater
    side has, a group is a row.  What is stored is counted, and not guessed; without `sizes` nothing is.
    """

    def __init__(self, whole: plan.Plan, order: Sequence[plan.Operator], sizes: StoredSizes | None) -> None:
        self._sources = {x.id: x.source for x in whole.exchanges}
        self._sizes = sizes or {}
        self._rows: dict[int, int | None] = {}
        for operator in order:
            self._rows[operator.id] = None if sizes is None else self._of(operator)

    def state(self, operator: plan.Operator, spec: StateSpec) -> ExplainedState:
        """`spec`, which `operator` writes, with what it holds."""
        key = tuple(column.name for column in spec.columns[: spec.key])
        stored = self._sizes.get(spec.id)
        if stored is not None:
            return ExplainedState(spec.id, spec.kind, key, len(spec.columns), *stored)
        rows = self._rows[operator.id]
        size = None if rows is None else rows * _width(spec)
        return ExplainedState(spec.id, spec.kind, key, len(spec.columns), rows, size, rows is not None)

    def _of(self, operator: plan.Operator) -> int | None:
        if isinstance(operator, plan.Delta):
            stored = self._sizes.get(operator.state.id)
            return None if stored is None else stored[0]
        if isinstance(operator, plan.Arrivals):
            return self._sizes.get(operator.object, (None,))[0]
        if isinstance(operator, plan.ConstantRows):
            return len(operator.rows)
        if isinstance(operator, plan.SparkAnswer):
            return None
        rows = [self._rows.get(id_) for id_ in self.inputs(operator)]
        known = [each for each in rows if each is not None]
        if len(known) < len(rows) or not rows:
            return None
        if isinstance(operator, plan.Join):
            return max(known)
        return known[0] if isinstance(operator, plan.SemiJoin) else sum(known)

    def inputs(self, operator: plan.Operator) -> tuple[int, ...]:
        """The operators whose rows `operator` takes, of its own zone or through an exchange."""
        exchange = plan.exchange_of(operator)
        return plan.inputs(operator) if exchange is None else (self._sources[exchange],)


def crosses(operator: plan.Operator, shown: Shown) -> bool:
    """Whether it is a join without any equality."""
    side = shown.operators[operator.left] if isinstance(operator, plan.Join) else None
    return isinstance(side, plan.ReverseJoin) and side.key == 0


def costs(order: Sequence[plan.Operator], estimates: Estimates, shown: Shown) -> dict[str, str]:
    """For each table, or stream, what one row of it that changes makes the operators read, besides itself."""
    found: dict[str, str] = {}
    for source in order:
        if isinstance(source, plan.Delta | plan.Arrivals):
            changed = {source.id}
            reads: list[str] = []
            for operator in order:
                below = changed.intersection(estimates.inputs(operator))
                if below:
                    changed.add(operator.id)
                    reads += _reads(operator, below, shown)
            found[source.name] = "; ".join(dict.fromkeys(reads)) or "nothing else"
    return found


def _reads(operator: plan.Operator, changed: Iterable[int], shown: Shown) -> list[str]:
    """What `operator` reads for a row that came out of `changed`."""
    name = shown.names[operator.id]
    match operator:
        case plan.Join():
            sides = {operator.left: operator.right, operator.right: operator.left}
            which = "every row" if crosses(operator, shown) else "its partners"
            return [f"{which} in {shown.names[sides[side]]}" for side in changed]
        case plan.SemiJoin():
            return [f"the rows of its key in {shown.names[operator.left]} and {shown.names[operator.right]}"]
        case plan.PreAggregate():
            ordered = any(running.ordered for running in operator.running)
            return [f"its group in {name}" + ", and its least or greatest values" * ordered]
        case plan.ByKey():
            reach = reach_by_key(operator, shown.operators)
            if reach is not None:
                return [reach.text(shown.names[operator.inputs[0]])]
            return [f"all rows of its key in {' and '.join(shown.names[id_] for id_ in operator.inputs)}"]
        case plan.SparkAnswer():
            return [f"all that {name} is asked of, by Spark"]
        case plan.SparkGroups():
            return [f"all rows of its group in {shown.names[operator.input]}, by Spark"]
        case plan.Memo():
            return [f"what {name} keeps of its value, or asks, where the value is new"]
    return []


def _width(spec: StateSpec) -> int:
    """The bytes of a row."""
    total = _WEIGHT_BYTES
    for column in spec.columns:
        arrow = physical_type(column.type)
        fixed = pa.types.is_primitive(arrow) or pa.types.is_decimal(arrow)
        total += max(1, arrow.bit_width // 8) if fixed else _TEXT_BYTES
    return total
