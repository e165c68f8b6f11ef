"""Shared work: operators, exchanges and states found by what they do, made only where they are not there yet.

A state that exists is never widened, since its rows are written; within one declaration a new one may still be.
What no view needs but such as have stopped is kept up to date no more, and is shared with nobody (`Current`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from viewkeeper.catalog.model import Catalog, Column, Index, StateSpec, View
from viewkeeper.catalog.types import BIGINT, INT
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.exchange import Exchange
from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.kept_calls import KeptCall, Running
from viewkeeper.plans.key_functions import OuterJoinRows
from viewkeeper.plans.order_dependence import plain_name
from viewkeeper.plans.product_sums import PRODUCTS
from viewkeeper.plans.raising import shared_form

MEMBER = Column("member", INT, False)


@dataclass(frozen=True)
class Current:
    """The operators, and the members of families, whose state is kept up to date, or will be from a fill on."""

    operators: frozenset[int]
    members: frozenset[int | None]

    @staticmethod
    def of(catalog: Catalog) -> Current | None:
        """Those of `catalog`; None: all."""
        items: list[View | Index] = [*catalog.views, *catalog.indexes]
        if all(item.stopped is None for item in items):
            return None
        whole = plan.plan_of(catalog)
        kept = [item.stored for item in items if item.stopped is None]
        roots = {stored.state.id for stored in kept}
        stores = [o for o in whole.operators if isinstance(o, plan.ViewTable) and o.state.id in roots]
        ids = plan.needed(whole, [*stores, *(o for o in whole.operators if isinstance(o, plan.Delta))])
        picked = {o.wanted for o in whole.operators if isinstance(o, plan.Pick) and o.id in ids}
        return Current(frozenset(ids), frozenset({stored.member for stored in kept} | picked))


@dataclass(frozen=True)
class WantedArgument:
    """What is wanted of one argument of a GROUP BY: `functions`, and the sums of its products with the arguments
    `products` (by their numbers)."""

    argument: Expression
    functions: set[str]
    products: set[int]

    def running(self, number: int, places: Sequence[int]) -> Running:
        """What is to be kept of it, argument `number`; `places` are where arguments stand in the exchange."""
        names = {plain_name(function) for function in self.functions}
        summed = bool(names & {"sum", "avg", *PRODUCTS})
        products = tuple(places[i] for i in sorted(self.products))
        return Running(places[number], self.argument.type, summed, "min" in names, "max" in names, None, products)


class SharedPlan:
    """A plan that grows; ids go on from `next_id`.  Shared is what is `current` (None: all), and what is made here."""

    def __init__(self, old: plan.Plan, next_id: int, current: Current | None = None) -> None:
        self.next_id = next_id
        self._stale = frozenset(o.id for o in old.operators if current and o.id not in current.operators)
        self._current = current
        self.operators: dict[int, plan.Operator] = {o.id: o for o in old.operators}
        self.exchanges: dict[int, Exchange] = {x.id: x for x in old.exchanges}
        self._dropped = old.dropped
        self._fresh: set[int] = set()
        self.stores = {o.state.id: o for o in old.operators if isinstance(o, plan.ViewTable)}
        self.deltas = {o.table: o.id for o in old.operators if isinstance(o, plan.Delta)}
        self._known: dict[Any, int] = {_form(o): o.id for o in self._shared()}

    def built(self) -> plan.Plan:
        """The plan as it now stands."""
        return plan.Plan(tuple(self.operators.values()), tuple(self.exchanges.values()), self._dropped)

    def _shared(self) -> Iterator[plan.Operator]:
        """The operators that may be built on."""
        return (operator for operator in self.operators.values() if operator.id not in self._stale)

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def add(self, operator: plan.Operator) -> int:
        """`operator` (its id is 0), or the one of the same form that is there already."""
        form = _form(operator)
        if form not in self._known:
            id_ = self.new_id()
            self._known[form] = id_
            self._fresh.add(id_)
            operator = replace(operator, id=id_)
            self.operators[id_] = operator
            if isinstance(operator, plan.ViewTable):
                self.stores[operator.state.id] = operator
            if isinstance(operator, plan.Delta):
                self.deltas[operator.table] = id_
        return self._known[form]

    def covering_reverse_join(
        self, exchange: int, key: int, places: list[int], zone: int, order: Sequence[tuple[int, bool, bool]] = ()
    ) -> int:
        """The REVERSE-JOIN that keeps the exchange's outputs `places`, the rows of a key in `order` (of outputs)."""
        wanted = dict.fromkeys([*range(key), *places])
        for operator in self._shared():
            if isinstance(operator, plan.ReverseJoin) and operator.exchange == exchange:
                if [(operator.outputs[i], *how) for i, *how in operator.state.order] != list(order):
                    continue
                if wanted.keys() <= set(operator.outputs):
                    return operator.id
                if operator.id in self._fresh:
                    more = tuple(w for w in wanted if w not in operator.outputs)
                    self.operators[operator.id] = self._reverse_join_of(operator, operator.outputs + more)
                    return operator.id
        stands = {place: i for i, place in enumerate(wanted)}
        placed = tuple((stands[place], ascending, nulls_first) for place, ascending, nulls_first in order)
        state = StateSpec(self.new_id(), "weighted", (), key, order=placed)
        empty = plan.ReverseJoin(0, zone, (), False, (), exchange, key, (), state)
        operator = replace(self._reverse_join_of(empty, tuple(wanted)), id=self.new_id())
        self.operators[operator.id] = operator
        self._fresh.add(operator.id)
        return operator.id

    def _reverse_join_of(self, operator: plan.ReverseJoin, outputs: tuple[int, ...]) -> plan.ReverseJoin:
        shipped = self.exchanges[operator.exchange].outputs
        columns = tuple(Column(f"c{i}", shipped[o].type, shipped[o].nullable) for i, o in enumerate(outputs))
        return replace(operator, columns=columns, outputs=outputs, state=replace(operator.state, columns=columns))

    def pre_aggregate(
        self,
        source: int,
        zone: int,
        keys: tuple[Expression, ...],
        wanted: list[WantedArgument],
    ) -> int:
        linear = not any(each.functions & {"min", "max"} for each in wanted)
        shared = self._find_exchange(source, zone, keys)
        if linear and shared is None and (zone > 2 or not keys):
            return self._partial_pre_aggregate(source, zone, keys, wanted)
        exchange, places = self.rows_exchange(source, zone, keys, [each.argument for each in wanted])
        running = [each.running(i, places) for i, each in enumerate(wanted)]
        for operator in self._shared():
            if isinstance(operator, plan.PreAggregate) and operator.exchange == exchange:
                merged = _widened(operator.running, running)
                if merged == operator.running:
                    return operator.id
                if operator.id in self._fresh:
                    self.operators[operator.id] = self._with_running(operator, merged)
                    return operator.id
        return self._new_pre_aggregate(exchange, tuple(running))

    def _partial_pre_aggregate(
        self,
        source: int,
        zone: int,
        keys: tuple[Expression, ...],
        wanted: list[WantedArgument],
    ) -> int:
        arguments = [each.argument for each in wanted]
        places = range(len(keys), len(keys) + len(wanted))
        partial = tuple(each.running(i, places) for i, each in enumerate(wanted))
        form = (source, zone, len(keys), tuple(shared_form(e) for e in (*keys, *arguments)), partial)
        for operator in self._shared():
            if isinstance(operator, plan.PreAggregate):
                exchange = self.exchanges[operator.exchange]
                outputs = tuple(shared_form(e) for e in exchange.outputs)
                if (exchange.source, exchange.zone, exchange.key, outputs, exchange.partial) == form:
                    return operator.id
        id_ = self.new_id()
        member = self.operators[source].member
        self.exchanges[id_] = Exchange(
            id_, source, zone, len(keys), (*keys, *arguments), member, partial
        )  # fmt: skip
        return self._new_pre_aggregate(id_, partial)

    def _new_pre_aggregate(self, exchange: int, running: tuple[Running, ...]) -> int:
        shipped = self.exchanges[exchange]
        key = shipped.key + shipped.member
        state = StateSpec(self.new_id(), "keyed", (), key, shipped.member)
        operator = plan.PreAggregate(
            self.new_id(), shipped.zone, (), shipped.member, (), exchange, shipped.key, (), state, shipped.key == 0
        )
        self.operators[operator.id] = self._with_running(operator, running)
        self._fresh.add(operator.id)
        return operator.id

    def _with_running(self, operator: plan.PreAggregate, running: tuple[Running, ...]) -> plan.PreAggregate:
        shipped = self.exchanges[operator.exchange]
        member = (MEMBER,) if shipped.member else ()
        keys = member + tuple(Column(f"k{i}", e.type, e.nullable) for i, e in enumerate(shipped.outputs[: shipped.key]))
        given = []
        columns = [*keys, Column("rows", BIGINT, False)]
        for n, item in enumerate(running):
            ordered = item.ordered
            if ordered is None and (item.smallest or item.greatest):
                value = Column("value", item.type, False)
                ordered = StateSpec(self.new_id(), "ordered", (*keys, value), len(keys) + 1, shipped.member)
            given.append(replace(item, ordered=ordered))
            columns.append(Column(f"n{n}", BIGINT, False))
            columns += [Column(f"s{n}_{i}", t) for i, t in enumerate(item.linear)]
            columns += [Column(f"min{n}", item.type)] * item.smallest + [Column(f"max{n}", item.type)] * item.greatest
        state = replace(operator.state, columns=tuple(columns))
        return replace(operator, columns=tuple(columns), running=tuple(given), state=state)

    def _find_exchange(self, source: int, zone: int, keys: tuple[Expression, ...]) -> Exchange | None:
        form = tuple(shared_form(k) for k in keys)
        for exchange in self.exchanges.values():
            if (exchange.source, exchange.zone, exchange.key) == (source, zone, len(keys)) and (
                exchange.partial is None and tuple(shared_form(k) for k in exchange.outputs[: len(keys)]) == form
            ):
                return exchange
        return None

    def rows_exchange(
        self, source: int, zone: int, keys: tuple[Expression, ...], wanted: list[Expression]
    ) -> tuple[int, list[int]]:
        """The exchange that ships `keys` and `wanted`, and where each of `wanted` stands among its outputs."""
        exchange = self._find_exchange(source, zone, keys)
        if exchange is None:
            exchange = Exchange(self.new_id(), source, zone, len(keys), tuple(keys), self.operators[source].member)
        at = {shared_form(e): i for i, e in reversed(list(enumerate(exchange.outputs)))}
        outputs = list(exchange.outputs)
        for expression in wanted:
            if shared_form(expression) not in at:
                at[shared_form(expression)] = len(outputs)
                outputs.append(expression)
        self.exchanges[exchange.id] = replace(exchange, outputs=tuple(outputs))
        return exchange.id, [at[shared_form(e)] for e in wanted]


def _form(operator: plan.Operator) -> Any:
    """What makes two operators the same work."""
    if isinstance(operator, (plan.PreAggregate, plan.ReverseJoin)):
        return operator.id  # found by what they cover, not by form
    parts: list[Any] = [type(operator).__name__]
    for field in fields(operator):
        value = getattr(operator, field.name)
        if field.name in ("id", "members", "columns", "identity"):
            continue
        if isinstance(value, StateSpec):
            value = (value.kind, value.key)
        elif isinstance(value, OuterJoinRows):
            value = (value.kind, value.condition and shared_form(value.condition), value.tested, value.outputs)
        elif isinstance(value, Expression):
            value = shared_form(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Expression):
            value = tuple(shared_form(e) for e in value)
        elif isinstance(value, tuple) and value and isinstance(value[0], KeptCall):
            value = tuple((c.function, c.argument, c.type) for c in value)
        parts.append(value)
    return tuple(parts)


def _widened(have: tuple[Running, ...], wanted: list[Running]) -> tuple[Running, ...]:
    """`have` with all that is `wanted`; the order of what is there stays."""
    merged = {r.argument: r for r in have}
    for item in wanted:
        old = merged.get(item.argument)
        if old is None:
            merged[item.argument] = item
        else:
            merged[item.argument] = replace(
                old, sum=old.sum or item.sum, smallest=old.smallest or item.smallest,
                greatest=old.greatest or item.greatest,
                products=tuple(dict.fromkeys(old.products + item.products)),
            )  # fmt: skip
    return tuple(merged.values())
