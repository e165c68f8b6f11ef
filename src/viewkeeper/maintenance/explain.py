"""EXPLAIN: the plan of one view as text, from the same data that runs.

Zones in order; in each the operators with their class (linear, bilinear, by key), the states they write, and the other
views that use the same work.
"""

from __future__ import annotations

from collections.abc import Iterable

from viewkeeper.catalog.model import Catalog, StateSpec, View
from viewkeeper.compiler.bind import bind_view
from viewkeeper.compiler.statements import CreateView
from viewkeeper.maintenance import declare
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.expressions import (
    And,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    ColumnRef,
    Compare,
    Expression,
    FunctionCall,
    In,
    IsNull,
    Literal,
    Negate,
    Not,
    Or,
)

CLASSES = {
    plan.Delta: "by key", plan.Select: "linear", plan.Pick: "linear", plan.Aggregate: "by key",
    plan.ReverseJoin: "linear", plan.Join: "bilinear", plan.SemiJoin: "by key",
    plan.Union: "linear", plan.ByKey: "by key", plan.Store: "linear",
    plan.Source: "linear",
}  # fmt: skip
TITLES = {
    plan.Delta: "DELTA", plan.Select: "SELECT", plan.Pick: "PICK", plan.PreAggregate: "PRE-AGGREGATION",
    plan.Aggregate: "AGGREGATE", plan.ReverseJoin: "REVERSE-JOIN", plan.Join: "JOIN",
    plan.SemiJoin: "SEMI JOIN", plan.Union: "UNION", plan.ByKey: "BY KEY",
    plan.Store: "VIEW TABLE",
}  # fmt: skip


_FALLS_BACK = "{}, to all rows of each key that a batch touches, since more than the key decides what matches"


def explain_new_view(catalog: Catalog, statement: CreateView) -> str:
    """The plan that CREATE VIEW would make; nothing is declared."""
    bound = bind_view(catalog, statement)
    declared = declare.declare_views(catalog, [bound])
    return explain_view(declared, declared.views[-1])


def explain_view(catalog: Catalog, view: View) -> str:
    """The plan by which `view` is kept."""
    whole: plan.Plan = catalog.plan
    store = _store(whole, view)
    ids = plan.needed(whole, [store])
    others = _other_views(catalog, whole, view)
    key = ", ".join(view.columns[i].name for i in view.key)
    lines = [f"view {view.name}: key ({key}){'' if view.unique else ', a bag of rows'}"]
    names = {o.id: f"{TITLES[type(o)]} {o.id}" for o in whole.operators}
    exchanges = {x.id: x for x in whole.exchanges}
    arguments = {o.id: [expression_text(exchanges[o.exchange].outputs[r.argument]) for r in o.running]
                 for o in whole.operators if isinstance(o, plan.PreAggregate)}  # fmt: skip
    members = {view.stored.member} | {o.wanted for o in whole.operators if isinstance(o, plan.Pick) and o.id in ids}
    for zone in range(1, store.zone + 1):
        lines.append(f"zone {zone}, keyed by {_zone_keys(whole, ids, zone)}")
        for operator in whole.operators:
            if operator.id in ids and operator.zone == zone:
                lines += _operator(operator, names, exchanges, members, arguments, others.get(operator.id, []))
    general = [names[o.id] for o in whole.operators if o.id in ids and isinstance(o, plan.ByKey)]
    lines.append(f"falls back: {_FALLS_BACK.format(' and '.join(general)) if general else 'nothing'}")
    return "\n".join(lines)


def _store(whole: plan.Plan, view: View) -> plan.Store:
    return next(o for o in whole.operators if isinstance(o, plan.Store) and o.state.id == view.stored.state.id)


def _other_views(catalog: Catalog, whole: plan.Plan, view: View) -> dict[int, list[str]]:
    """For each operator the names of the other views that need it."""
    stores = {o.state.id: o for o in whole.operators if isinstance(o, plan.Store)}
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
    fed = {plan.exchange_of(o) for o in whole.operators if o.id in ids and o.zone == zone}
    keys = [_list(x.outputs[: x.key]) or "()" for x in whole.exchanges if x.id in fed]
    return " and ".join(dict.fromkeys(f"({key})" if key != "()" else key for key in keys))


def _operator(
    operator: plan.Operator, names: dict[int, str], exchanges: dict[int, plan.Exchange], members: set[int | None],
    arguments: dict[int, list[str]], others: list[str],
) -> list[str]:  # fmt: skip
    class_ = CLASSES.get(type(operator))
    if isinstance(operator, plan.PreAggregate):
        class_ = "by key" if any(r.ordered for r in operator.running) else "linear"
    lines = [f"  {names[operator.id]} [{class_}] {_what(operator, names, exchanges, members, arguments)}".rstrip()]
    lines += [f"    state {spec.id}: {_state(spec)}" for spec in plan.states_of(operator)]
    if others:
        more = f" and {len(others) - 5:,} more" if len(others) > 5 else ""
        lines.append(f"    shared with {', '.join(others[:5])}{more}")
    return lines


def _what(
    operator: plan.Operator, names: dict[int, str], exchanges: dict[int, plan.Exchange], members: set[int | None],
    arguments: dict[int, list[str]],
) -> str:  # fmt: skip
    if isinstance(operator, plan.Delta):
        return f"of {operator.name}"
    if isinstance(operator, plan.Select):
        where = f" where {expression_text(operator.predicate)}" if operator.predicate is not None else ""
        mine = [m.predicate for m in operator.members if m.id in members]
        where += "".join(f" where {expression_text(p)}" for p in mine)
        family = f", one of a family of {len(operator.members):,} selections" if len(operator.members) > 1 else ""
        return f"{_list(operator.outputs)} from {names[operator.input]}{where}{family}"
    if isinstance(operator, plan.Pick):
        return f"one view of {names[operator.input]}"
    if isinstance(operator, (plan.PreAggregate, plan.ReverseJoin)):
        exchange = exchanges[operator.exchange]
        summed = ", summed up before it is sent" if exchange.partial is not None else ""
        return f"of {names[exchange.source]} by ({_list(exchange.outputs[: exchange.key])}){summed}"
    if isinstance(operator, plan.Aggregate):
        calls = ", ".join(_call(call, arguments[operator.input]) for call in operator.calls)
        return f"{calls or 'the keys'} from {names[operator.input]}"
    if isinstance(operator, plan.Join):
        return f"{names[operator.left]} with {names[operator.right]}"
    if isinstance(operator, plan.SemiJoin):
        which = "has not" if operator.anti else "has"
        return f"{names[operator.left]} where {names[operator.right]} {which} the key"
    if isinstance(operator, plan.Union):
        return "of " + " and ".join(names[id_] for id_ in operator.inputs)
    if isinstance(operator, plan.ByKey):
        return _function(operator.function, *(names[id_] for id_ in operator.inputs))
    assert isinstance(operator, plan.Store)
    return f"of {names[operator.input]}"


def _function(function: plan.KeyFunction, left: str, right: str) -> str:
    assert isinstance(function, plan.OuterJoinRows)
    where = f" where {expression_text(function.condition)}" if function.condition is not None else ""
    return f"{function.kind} JOIN of {left} with {right}{where}"


def _call(call: plan.Call, arguments: list[str]) -> str:
    return "count(*)" if call.argument is None else f"{call.function}({arguments[call.argument]})"


def _state(spec: StateSpec) -> str:
    key = ", ".join(c.name for c in spec.columns[: spec.key])
    return f"{spec.kind} by ({key}), {len(spec.columns)} columns"


def _list(expressions: Iterable[Expression]) -> str:
    return ", ".join(expression_text(e) for e in expressions)


def expression_text(expression: Expression) -> str:
    """An expression as SQL, for people; columns without a name show their position."""
    text = expression_text
    match expression:
        case ColumnRef():
            return expression.name or f"#{expression.index}"
        case Literal():
            return _literal_text(expression)
        case Compare() | Arithmetic():
            return f"({text(expression.left)} {expression.operator} {text(expression.right)})"
        case IsNull():
            return f"({text(expression.argument)} IS NULL)"
        case Not():
            return f"(NOT {text(expression.argument)})"
        case And() | Or():
            word = " AND " if isinstance(expression, And) else " OR "
            return f"({word.join(text(a) for a in expression.arguments)})"
        case In():
            return f"({text(expression.argument)} IN ({_list(expression.options)}))"
        case Case():
            branches = " ".join(f"WHEN {text(c)} THEN {text(v)}" for c, v in expression.branches)
            return f"CASE {branches} ELSE {text(expression.otherwise)} END"
        case Coalesce():
            return f"coalesce({_list(expression.arguments)})"
        case Negate():
            return f"(- {text(expression.argument)})"
        case FunctionCall():
            return f"{expression.function}({_list(expression.arguments)})"
        case Cast():
            return f"cast({text(expression.argument)} AS {expression.type})"
        case _:
            raise TypeError(f"an expression without a text: {type(expression).__name__}")


def _literal_text(literal: Literal) -> str:
    value = literal.value
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if literal.type.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        return f"{literal.type} '{value}'"
    return "'" + value.replace("'", "\\'") + "'" if isinstance(value, str) else str(value)
