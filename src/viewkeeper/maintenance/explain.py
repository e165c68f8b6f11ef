"""EXPLAIN: the plan of one view, from the same data that runs.

Zones in order; in each the operators with their class (linear, bilinear, by key), the states they write, and the other
views that use the same work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from viewkeeper.catalog.model import Catalog, View
from viewkeeper.compiler.bind import BoundView
from viewkeeper.maintenance import declare_tables
from viewkeeper.maintenance.estimates import Estimates, StoredSizes, costs, crosses
from viewkeeper.maintenance.explained import Explained, ExplainedOperator, sized
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.outside import PythonCall
from viewkeeper.plans.reach import reach_by_key
from viewkeeper.plans.shown import Shown
from viewkeeper.plans.text import listed

_CROSSES = "{}, every row of one side with every row of the other, since no equality ties them: a change costs as many"
_ASKED = "to all rows of what its query reads, whatever a batch changes there"
_COMPUTED = "to Spark, for each value that a batch brings and no row has had, since no kernel knows {}"
_CALLED = "to the Python function {}, for each value that a batch brings and no row has had"
_OF_GROUPS = "{}, to Spark, over all rows of each group that a batch touches, since no kernel knows {}"
_FALLS_BACK = "{}, to all rows of each key that a batch touches, since {}"


def explain_new_view(catalog: Catalog, bound: BoundView, sizes: StoredSizes | None = None) -> Explained:
    """The plan that CREATE VIEW would make; nothing is declared."""
    declared = declare_tables.declare_views(catalog, [bound])
    return explained(declared, declared.views[-1], sizes)


def explain_view(catalog: Catalog, view: View) -> str:
    """The plan by which `view` is kept, as text, without sizes and costs."""
    return explained(catalog, view).text()


def explained(catalog: Catalog, view: View, sizes: StoredSizes | None = None) -> Explained:
    """The plan by which `view` is kept; what a change reads, and what states hold, where `sizes` are given."""
    whole = plan.plan_of(catalog)
    store = _store(whole, view)
    ids = plan.needed(whole, [store])
    order = [o for o in whole.operators if o.id in ids]
    members = {view.stored.member} | {o.wanted for o in order if isinstance(o, plan.Pick)}
    shown = Shown.of(whole.operators, whole.exchanges, members)
    others = _other_views(catalog, whole, view)
    estimates = Estimates(whole, order, sizes)
    operators = tuple(
        ExplainedOperator(
            o.id, shown.names[o.id], o.zone, o.class_, _way(o), o.text(shown), estimates.inputs(o),
            tuple(estimates.state(o, spec) for spec in plan.states_of(o)), tuple(others.get(o.id, ())),
        )
        for zone in range(1, store.zone + 1) for o in order if o.zone == zone
    )  # fmt: skip
    crossing = [shown.names[o.id] for o in order if crosses(o, shown)]
    return Explained(
        view.name,
        tuple(view.columns[i].name for i in view.key),
        view.unique,
        tuple(_zone_keys(whole, ids, zone) for zone in range(1, store.zone + 1)),
        operators,
        tuple(_keeps(order, estimates)),
        tuple(_falls_back(order, shown)),
        (_CROSSES.format(" and ".join(crossing)),) if crossing else (),
        {} if sizes is None else costs(order, estimates, shown),
        "" if view.target is None else str(view.target),
    )


def _keeps(order: Sequence[plan.Operator], estimates: Estimates) -> Iterator[str]:
    """What is kept of each stream, and of each view over streams, by all that takes its rows."""
    for source in order:
        if isinstance(source, plan.Arrivals):
            above = {source.id}
            for operator in order:
                if above.intersection(estimates.inputs(operator)):
                    above.add(operator.id)
            states = [estimates.state(o, spec) for o in order if o.id in above for spec in plan.states_of(o)]
            rows, size = _sum([state.rows for state in states]), _sum([state.bytes for state in states])
            yield (f"of {source.name} it keeps {len(states)} state{'s' * (len(states) != 1)}"
                   f"{sized(rows, size, any(s.estimated for s in states))}; rows of expired parts "
                   f"{'go' if source.forgets else 'stay'}")  # fmt: skip


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _falls_back(order: Sequence[plan.Operator], shown: Shown) -> Iterator[str]:
    """What is not computed from the changed rows alone, and why."""
    general: dict[str, list[str]] = {}
    for operator in order:
        if isinstance(operator, plan.ByKey) and reach_by_key(operator, shown.operators) is None:
            general.setdefault(operator.function.why, []).append(shown.names[operator.id])
    yield from (_FALLS_BACK.format(" and ".join(names), why) for why, names in general.items())
    yield from (f"{shown.names[o.id]}, {_ASKED}" for o in order if isinstance(o, plan.SparkAnswer))
    groups = [o for o in order if isinstance(o, plan.SparkGroups)]
    yield from (_OF_GROUPS.format(shown.names[o.id], _listed(call.name for call in o.calls)) for o in groups)
    memos = [o for o in order if isinstance(o, plan.Memo)]
    yield from (f"{shown.names[o.id]}, {_computed(o).format(o.call.name)}" for o in memos)


def _listed(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(names))


def _computed(memo: plan.Memo) -> str:
    return _CALLED if isinstance(memo.call, PythonCall) else _COMPUTED


def _way(operator: plan.Operator) -> str:
    """Who computes it, and of what."""
    if isinstance(operator, plan.SparkAnswer):
        return "Spark, of all rows"
    if isinstance(operator, plan.SparkGroups):
        return "Spark, of the touched groups"
    if isinstance(operator, plan.Memo):
        return f"{'Python' if isinstance(operator.call, PythonCall) else 'Spark'}, of new values"
    return "native"


def _store(whole: plan.Plan, view: View) -> plan.ViewTable:
    return next(o for o in whole.operators if isinstance(o, plan.ViewTable) and o.state.id == view.stored.state.id)


def _other_views(catalog: Catalog, whole: plan.Plan, view: View) -> dict[int, list[str]]:
    """For each operator the names of the other views that need it."""
    stores = {o.state.id: o for o in whole.operators if isinstance(o, plan.ViewTable)}
    found: dict[int, list[str]] = {}
    needs: dict[int, set[int]] = {}
    for other in catalog.views:
        state = other.stored.state.id
        if other.id == view.id:
            continue
        if state not in needs:
            needs[state] = plan.needed(whole, [stores[state]])
        for id_ in needs[state]:
            found.setdefault(id_, []).append(other.name)
    return found


def _zone_keys(whole: plan.Plan, ids: set[int], zone: int) -> str:
    if zone == 1:
        return "row" if any(isinstance(o, plan.Arrivals) for o in whole.operators if o.id in ids) else "base key"
    if all(
        isinstance(o, (plan.SparkAnswer, plan.ViewTable)) for o in whole.operators if o.id in ids and o.zone == zone
    ):
        return "row of the answer"
    fed = {plan.exchange_of(o) for o in whole.operators if o.id in ids and o.zone == zone}
    keys = [listed(x.outputs[: x.key]) or "()" for x in whole.exchanges if x.id in fed]
    return " and ".join(dict.fromkeys(f"({key})" if key != "()" else key for key in keys))
