"""Groups that Spark is asked about, as an operator over the REVERSE-JOIN that keeps their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from viewkeeper.catalog.model import Column, StateSpec
from viewkeeper.catalog.types import BOOLEAN
from viewkeeper.maintenance.rules.null_safe_keys import never_null
from viewkeeper.maintenance.sharing import SharedPlan
from viewkeeper.maintenance.stream_columns import as_key
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.expressions import ColumnRef, Expression, IsNull
from viewkeeper.plans.outside import SparkAggregate
from viewkeeper.plans.relations import AskedGroups
from viewkeeper.plans.rewriting import identity, renumber


def asked_groups(shared: SharedPlan, relation: AskedGroups, source: int, positions: Mapping[int, int]) -> int:
    """The operator whose columns are the relation's, over what `source` yields: the input's column i stands at
    `positions[i]`."""
    zone = 1 + shared.operators[source].zone
    keys = [renumber(key, positions) for key in relation.keys]
    calls = [renumber(call, positions) for call in relation.calls]
    arguments = [argument for call in calls for argument in call.arguments]  # type: ignore[attr-defined]
    # Floats stand there by their bits too, so that no two rows are taken for one that Spark could tell apart.
    bits = [as_key(argument) for argument in arguments]
    met = met_keys(keys)
    exchange, places = shared.rows_exchange(source, zone, met, [*keys, *arguments, *bits])
    id_ = shared.covering_reverse_join(exchange, len(met), places, zone)
    reverse = shared.operators[id_]
    assert isinstance(reverse, plan.ReverseJoin)
    at = [reverse.outputs.index(place) for place in places]
    read = iter(zip(arguments, at[len(keys) :], strict=False))
    given = []
    for call in calls:
        assert isinstance(call, SparkAggregate)
        stand = [next(read) for _ in call.arguments]
        over = tuple(ColumnRef(e.type, e.nullable, None, i, "") for e, i in stand)
        given.append(identity(replace(call, arguments=over)))
    columns = tuple(replace(column, name=f"c{i}") for i, column in enumerate(relation.columns))
    held = (*(Column(f"k{i}", e.type, e.nullable) for i, e in enumerate(met)), *columns)
    state = StateSpec(shared.new_id(), "weighted", held, len(met))
    named = (("group", tuple((name, i) for i, name in enumerate(relation.key_names))),)
    return shared.add(
        plan.SparkGroups(0, zone, columns, False, named, id_, tuple(at[: len(keys)]), tuple(given), state, not keys)  # type: ignore[arg-type]
    )


def met_keys(keys: Iterable[Expression]) -> tuple[Expression, ...]:
    """Keys of a REVERSE-JOIN by which NULL meets NULL: rows with NULL in a key of one are nobody's partners."""
    both = ([never_null(key), IsNull(BOOLEAN, False, None, key)] if key.nullable else [key] for key in keys)
    return tuple(part for each in both for part in each)
