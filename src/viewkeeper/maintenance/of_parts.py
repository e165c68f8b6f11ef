"""Streams as inputs: the operators by which their rows come in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from viewkeeper.catalog.model import InParts, StateSpec, Stored, Stream
from viewkeeper.compiler.namespace import PART_TIMESTAMP
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.outside import SparkInput


def arrivals(item: InParts, forgets: bool, lost: int | None, *, timed: bool = False) -> plan.Arrivals:
    """The rows of a stream, of which those of parts before `lost` are gone."""
    identity = ((item.name, ((item.columns[item.time].name, item.time),)),) if isinstance(item, Stream) else ()
    columns = (*item.columns, PART_TIMESTAMP) if timed else item.columns
    return plan.Arrivals(0, 1, columns, False, identity, item.id, item.name, timed, forgets, None if forgets else lost)


def kept_rows(
    name: str, item: InParts, input_: int, new_id: int, add: Callable[[plan.Operator], plan.Operator]
) -> SparkInput:
    """What `input_` yields, kept as a state that Spark can read."""
    places = tuple(range(len(item.columns)))
    columns = tuple(replace(column, name=f"c{i}") for i, column in enumerate(item.columns))
    state = StateSpec(new_id, "weighted", columns, len(columns))
    store = add(plan.ViewTable(0, 1, columns, False, (), input_, places, state))
    assert isinstance(store, plan.ViewTable)
    return SparkInput(name, store.id, item.columns, Stored(store.state, places))
