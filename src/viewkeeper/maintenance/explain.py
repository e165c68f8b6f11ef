"""EXPLAIN: the plan of one view as text, from the same data that runs.

Zones in order; in each the operators with their class (linear, bilinear, by key), the states they write, and the other
views that use the same work.
"""

from __future__ import annotations

from viewkeeper.catalog.model import Catalog, StateSpec, View
from viewkeeper.compiler.bind import BoundView
from viewkeeper.maintenance import declare_tables
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.outside import PythonCall
from viewkeeper.plans.text import listed

_CROSSES = "{}, every row of one side with every row of the other, since no equality ties them: a change costs as many"
_ASKED = "to all rows of what its query reads, whatever a batch changes there"
_COMPUTED = "to Spark, for each value that a batch brings and no row has had, since no kernel knows {}"
_CALLED = "to the Python function {}, for each value that a batch brings and no row has had"
_FALLS_BACK = "{}, to all rows of each key that a batch touches, since {}"


def explain_new_view(catalog: Catalog, bound: BoundView) -> str:
    """The plan that CREATE VIEW would make; nothing is declared."""
    declared = declare_tables.declare_views(catalog, [bound])
    return explain_view(declared, declared.views[-1])


def explain_view(catalog: Catalog, view: View) -> str:
    """The plan by which `view` is kept."""
    whole = plan.plan_of(catalog)
    store = _store(whole, view)
    ids = plan.needed(whole, [store])
    others = _other_views(catalog, whole, view)
    key = ", ".join(view.columns[i].name for i in view.key)
    lines = [f"view {view.name}: key ({key}){'' if view.unique else ', a bag of rows'}"]
    members = {view.stored.member} | {o.wanted for o in whole.operators if isinstance(o, plan.Pick) and o.id in ids}
    shown = plan.Shown.of(whole, members)
    for zone in range(1, store.zone + 1):
        lines.append(f"zone {zone}, keyed by {_zone_keys(whole, ids, zone)}")
        for operator in whole.operators:
            if operator.id in ids and operator.zone == zone:
                lines += _operator(operator, shown, others.get(operator.id, []))
    general: dict[str, list[str]] = {}
    for operator in (o for o in whole.operators if o.id in ids):
        if isinstance(operator, plan.ByKey):
            general.setdefault(operator.function.why, []).append(shown.names[operator.id])
    asked = [shown.names[o.id] for o in whole.operators if o.id in ids and isinstance(o, plan.SparkAnswer)]
    falls = [_FALLS_BACK.format(" and ".join(names), why) for why, names in general.items()]
    falls += [f"{name}, {_ASKED}" for name in asked]
    memos = [o for o in whole.operators if o.id in ids and isinstance(o, plan.Memo)]
    falls += [f"{shown.names[o.id]}, {_computed(o).format(o.call.name)}" for o in memos]
    lines += [f"falls back: {each}" for each in falls or ["nothing"]]
    crossing = [shown.names[o.id] for o in whole.operators if o.id in ids and _crosses(o, shown)]
    if crossing:
        lines.append(f"crosses: {_CROSSES.format(' and '.join(crossing))}")
    return "\n".join(lines)


def _computed(memo: plan.Memo) -> str:
    return _CALLED if isinstance(memo.call, PythonCall) else _COMPUTED


def _crosses(operator: plan.Operator, shown: plan.Shown) -> bool:
    side = shown.operators[operator.left] if isinstance(operator, plan.Join) else None
    return isinstance(side, plan.ReverseJoin) and side.key == 0


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
        return "base key"
    if all(
        isinstance(o, (plan.SparkAnswer, plan.ViewTable)) for o in whole.operators if o.id in ids and o.zone == zone
    ):
        return "row of the answer"
    fed = {plan.exchange_of(o) for o in whole.operators if o.id in ids and o.zone == zone}
    keys = [listed(x.outputs[: x.key]) or "()" for x in whole.exchanges if x.id in fed]
    return " and ".join(dict.fromkeys(f"({key})" if key != "()" else key for key in keys))


def _operator(operator: plan.Operator, shown: plan.Shown, others: list[str]) -> list[str]:
    lines = [f"  {shown.names[operator.id]} [{operator.class_}] {operator.text(shown)}"]
    lines += [f"    state {spec.id}: {_state(spec)}" for spec in plan.states_of(operator)]
    if others:
        more = f" and {len(others) - 5:,} more" if len(others) > 5 else ""
        lines.append(f"    shared with {', '.join(others[:5])}{more}")
    return lines


def _state(spec: StateSpec) -> str:
    key = ", ".join(c.name for c in spec.columns[: spec.key])
    return f"{spec.kind} by ({key}), {len(spec.columns)} columns"
