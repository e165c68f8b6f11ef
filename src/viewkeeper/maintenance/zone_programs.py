"""Programs: the operators that a batch runs, by zone, worked out once from a catalog.

`ZonePrograms(catalog)` is the regular one: DELTA of every table, and what the filled views and indexes need.
`ZonePrograms(catalog, fill)` fills views: the same operators over the whole of the base tables, of which only what
is new is written.  `zones` runs them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

import numpy as np

from viewkeeper.catalog.model import Catalog, Index, StateSpec, Table, View
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.exchange import Exchange


class ZonePrograms:
    """The operators of one kind of batch, by zone."""

    def __init__(self, catalog: Catalog, fill: frozenset[int] | None = None) -> None:
        whole = plan.plan_of(catalog)
        items: list[View | Index] = [*catalog.views, *catalog.indexes]
        filled = {i.id for i in items if i.filled is not None and i.stopped is None}
        active = filled if fill is None else fill
        self._kept = {i.id: i.stored.state.id for i in items if i.id in active}
        roots = set(self._kept.values())
        regular_roots = {i.stored.state.id for i in items if i.id in filled}
        regular = set() if fill is None else plan.needed(whole, _with_states(whole, regular_roots, deltas=True))
        self._set(whole, roots, deltas=fill is None, kept=regular)
        self.catalog = catalog
        self.zone = catalog.zone
        self._views: dict[int, dict[int | None, list[int]]] = {}
        for view in catalog.views:
            if view.id in active:
                self._views.setdefault(view.stored.state.id, {}).setdefault(view.stored.member, []).append(view.id)
        self._pick_members(items, active)
        self._unwritten: set[int] = set()
        self._new_members: np.ndarray | None = None
        if fill is not None:
            self._unwritten = {s.id for o in self.operators.values() if o.id in regular for s in plan.states_of(o)}
            old = {i.stored.member for i in items if i.id in filled} | _picked(whole, regular)
            self._new_members = np.array(sorted(m for m in self._members - old if m is not None), dtype=np.int32)

    @staticmethod
    def of_plan(whole: plan.Plan, zone: str) -> ZonePrograms:
        """A program of all operators of `whole`, for an ad hoc query."""
        program = ZonePrograms(Catalog(zone=zone))
        program._set(whole, None, deltas=True)
        return program

    def _set(
        self, whole: plan.Plan, roots: set[int] | None, *, deltas: bool, kept: Container[int] = ()
    ) -> None:  # fmt: skip
        chosen = whole.operators if roots is None else _with_states(whole, roots, deltas=deltas)
        ids = plan.needed(whole, chosen, kept)
        self.operators = {o.id: o for o in whole.operators if o.id in ids}
        used = {plan.exchange_of(o) for o in self.operators.values()}
        self.exchanges = {x.id: x for x in whole.exchanges if x.id in used}
        self.depth = max((o.zone for o in self.operators.values()), default=1)
        self.tables = frozenset(o.table for o in self.operators.values() if isinstance(o, plan.Delta))
        self.arrivals = [o for o in self.operators.values() if isinstance(o, plan.Arrivals)]
        self.in_parts = frozenset(o.object for o in self.arrivals)
        self._exchanges_from: dict[int, list[Exchange]] = {}
        for item in self.exchanges.values():
            self._exchanges_from.setdefault(item.source, []).append(item)
        self._in_zone: dict[int, list[plan.Operator]] = {}
        for operator in self.operators.values():
            self._in_zone.setdefault(operator.zone, []).append(operator)
        self._users: dict[int, list[plan.Operator]] = {}
        for operator in self.operators.values():
            exchange_id = plan.exchange_of(operator)
            below = plan.inputs(operator) if exchange_id is None else (self.exchanges[exchange_id].source,)
            for id_ in dict.fromkeys(each for each in below if each in self.operators):
                self._users.setdefault(id_, []).append(operator)
        self._dependents: dict[tuple[int, int | None], list[int]] = {}
        self.compiled: dict[int, Any] = {}

    def _pick_members(self, items: Iterable[View | Index], active: Iterable[int]) -> None:
        chosen = set(active)
        self._members: set[int | None] = {i.stored.member for i in items if i.id in chosen}
        self._members |= {o.wanted for o in self.operators.values() if isinstance(o, plan.Pick)}

    def in_zone(self, zone: int) -> list[plan.Operator]:
        """The operators of a zone, inputs before their users."""
        return self._in_zone.get(zone, [])

    def exchanges_from(self, operator: int) -> list[Exchange]:
        """The exchanges that take what `operator` yields."""
        return self._exchanges_from.get(operator, [])

    def member_ids(self) -> list[int]:
        """The members of families that this program keeps, ascending."""
        return sorted(m for m in self._members if m is not None)

    def members(self, operator: plan.Select) -> list[plan.Member]:
        """The members of a family that this program keeps."""
        return [m for m in operator.members if m.id in self._members]

    def users(self, operator: int) -> list[plan.Operator]:
        """The operators that take what `operator` yields."""
        return self._users.get(operator, [])

    def writes(self, spec: StateSpec) -> np.ndarray | None:
        """Of which members the rows of this state are to be written; None: all rows, whoever's they are."""
        if spec.id not in self._unwritten:
            return None
        if spec.member and self._new_members is not None:
            return self._new_members
        return np.zeros(0, dtype=np.int32)

    def dependents(self, operator: int, member: int | None) -> list[int]:
        """The ids of the views that read what `operator` yields for `member` (None: for all)."""
        if (operator, member) not in self._dependents:
            found: dict[int, None] = {}
            for user in self.users(operator):
                if isinstance(user, plan.ViewTable):
                    views = self._views.get(user.state.id, {})
                    chosen = views.get(member, []) if member is not None else [v for vs in views.values() for v in vs]
                    found.update(dict.fromkeys(chosen))
                elif not isinstance(user, plan.Pick):
                    found.update(dict.fromkeys(self.dependents(user.id, member)))
                elif member in (None, user.wanted):
                    found.update(dict.fromkeys(self.dependents(user.id, None)))
            self._dependents[operator, member] = list(found)
        return self._dependents[operator, member]

    def over(self, operator: int) -> set[int]:
        """The ids of the views and indexes whose rows depend on `operator`."""
        seen: set[int] = set()
        waiting = [operator] if operator in self.operators else []
        while waiting:
            id_ = waiting.pop()
            if id_ not in seen:
                seen.add(id_)
                waiting += [user.id for user in self.users(id_)]
        found = {o.state.id for id_ in seen if isinstance(o := self.operators[id_], plan.ViewTable)}
        return {id_ for id_, state in self._kept.items() if state in found}

    def zone_of(self, target: str) -> int:
        """The zone in which a target is worked on."""
        kind, _, number = target.partition(":")
        if kind in ("answer", "memo", "group"):
            return self.operators[int(number)].zone
        return self.exchanges[int(number)].zone if kind == "x" else 1

    def spark_answers(self, zone: int) -> list[plan.SparkAnswer]:
        """The operators of a zone that take what Spark answers."""
        return [operator for operator in self.in_zone(zone) if isinstance(operator, plan.SparkAnswer)]

    def memos(self, zone: int) -> list[plan.Memo]:
        """The operators of a zone that keep what somebody else computes."""
        return [operator for operator in self.in_zone(zone) if isinstance(operator, plan.Memo)]

    def spark_groups(self, zone: int) -> list[plan.SparkGroups]:
        """The operators of a zone that keep what Spark says of groups."""
        return [operator for operator in self.in_zone(zone) if isinstance(operator, plan.SparkGroups)]

    def asking(self, zones: Iterable[int]) -> tuple[int, ...]:
        """Those of `zones` before which Spark is asked."""
        kinds = (self.spark_answers, self.memos, self.spark_groups)
        return tuple(zone for zone in sorted(zones) if any(kind(zone) for kind in kinds))

    def reach(self, ids: Iterable[int]) -> set[int]:
        """The zones that changes of tables, and of what has parts, can touch."""
        return self._over(self._sources(set(ids)))

    def _sources(self, ids: set[int]) -> Iterator[int]:
        """The operators by which rows of the tables, and of what has parts, come in."""
        yield from (o.id for o in self.operators.values() if isinstance(o, plan.Delta) and o.table in ids)
        yield from (o.id for o in self.arrivals if o.object in ids)

    def _over(self, operators: Iterable[int]) -> set[int]:
        """The zones of all that takes what `operators` yield."""
        waiting = list(operators)
        seen: set[int] = set()
        while waiting:
            id_ = waiting.pop()
            if id_ not in seen:
                seen.add(id_)
                waiting += [user.id for user in self.users(id_)]
        return {self.operators[id_].zone for id_ in seen}

    def filled(self) -> set[int]:
        """The zones that a fill from nothing touches: those that rows, constants or answers reach."""
        others = [o.id for o in self.operators.values() if isinstance(o, plan.ConstantRows | plan.SparkAnswer)]
        return {1} | self._over([*others, *self._sources({*self.tables, *self.in_parts})])

    def table(self, id_: int) -> Table:
        item = self.catalog.by_id(id_)
        assert isinstance(item, Table)
        return item


def _with_states(whole: plan.Plan, states: set[int], *, deltas: bool) -> list[plan.Operator]:
    return [
        o for o in whole.operators
        if (isinstance(o, plan.ViewTable) and o.state.id in states) or (deltas and isinstance(o, plan.Delta))
    ]  # fmt: skip


def _picked(whole: plan.Plan, ids: set[int]) -> set[int | None]:
    return {o.wanted for o in whole.operators if isinstance(o, plan.Pick) and o.id in ids}
