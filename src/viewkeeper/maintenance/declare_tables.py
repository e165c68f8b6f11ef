"""Declarations: a catalog and what is declared give a new catalog, its maintenance plan included.

Nothing here looks at names: who calls has made sure that a name is free, or that nobody uses what is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from viewkeeper.catalog.model import (
    ERRORS,
    PARTS,
    REJECTED,
    Catalog,
    Column,
    Index,
    StateSpec,
    Stored,
    Table,
    View,
)
from viewkeeper.catalog.outside_store import TIMESTAMPED
from viewkeeper.catalog.types import BIGINT
from viewkeeper.compiler.bind import BoundTable, BoundView
from viewkeeper.maintenance.builder import PlanBuilder
from viewkeeper.maintenance.rules.rewriter import rewritten
from viewkeeper.maintenance.sharing import MEMBER
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.cell_states import CellStates
from viewkeeper.plans.outside import SparkInput
from viewkeeper.plans.relations import Scan

ROW_ID = Column("row id", BIGINT, False)


def declare_table(catalog: Catalog, name: str, bound: BoundTable) -> Catalog:
    """`catalog` with a base table, and its DELTA."""
    builder, columns, key = PlanBuilder(catalog), bound.columns, bound.key
    id_ = builder.new_id()
    order = list(key) + [i for i in range(len(columns)) if i not in key]
    held = tuple(columns[i] for i in order) if key else (ROW_ID, *columns)
    together = 0 if bound.outside is None else bound.outside.partition([columns[i].name for i in key])
    state = StateSpec(builder.new_id(), "keyed", held, max(1, len(key)), together=together)
    places = tuple(order.index(i) for i in range(len(columns))) if key else tuple(range(1, len(columns) + 1))
    table = Table(
        id_, name, columns, key, Stored(state, places), bound.details, comment=bound.comment, outside=bound.outside
    )
    identity = ((name, tuple((columns[i].name, i) for i in key) or ((ROW_ID.name, len(columns)),)),)
    required = tuple(i for i, c in enumerate(columns) if not c.nullable and i not in key)
    stream = columns if key else (*columns, ROW_ID)
    cells = None if bound.outside is None else _cells(builder, state, TIMESTAMPED.get(bound.outside.kind))
    builder.add(plan.Delta(0, 1, stream, False, identity, id_, name, key or (len(columns),), required, state, cells))
    return _with(catalog, builder, table)


def _cells(builder: PlanBuilder, state: StateSpec, ties: str | None) -> CellStates | None:
    """What is kept beside the rows where the store keeps a timestamp with each cell."""
    if ties is None:
        return None
    key, partition = state.columns[: state.key], state.columns[: state.together]
    times = [Column(name, BIGINT, False)
             for name in ("deleted", "made", *(column.name for column in state.columns[state.key :]))]  # fmt: skip
    stamps = StateSpec(builder.new_id(), "keyed", (*key, *times), state.key, together=state.together)
    if not partition:
        return CellStates(ties, stamps, None)
    ends = [replace(column, nullable=True) for column in key[state.together :]]
    numbers = [Column(name, BIGINT, False) for name in ("from columns", "from", "to columns", "to", "deleted")]
    columns = (*partition, *ends, *ends, *numbers)
    return CellStates(ties, stamps, StateSpec(builder.new_id(), "keyed", columns, len(columns),
                                                   together=state.together))  # fmt: skip


def declare_views(catalog: Catalog, views: Sequence[BoundView]) -> Catalog:
    """`catalog` with `views`, which are not filled yet.  Those of one call share all the work they can."""
    builder = PlanBuilder(catalog)
    made = [_view(builder, view, catalog.zone) for view in views]
    # What was widened for a later view of this call has its final shape only now.
    shapes = {o.state.id: o.state for o in builder.operators.values() if isinstance(o, plan.ViewTable)}
    made = [replace(v, stored=replace(v.stored, state=shapes[v.stored.state.id])) for v in made]
    claimed = [view.target for view in views if view.target is not None]
    targets = tuple(dict.fromkeys([*catalog.targets, *claimed]))
    return replace(_with(catalog, builder, *made), targets=targets)


def _view(builder: PlanBuilder, view: BoundView, zone: str) -> View:
    builder.written = view.written
    builder.forgets, builder.lost = view.forgets, dict(view.lost)
    stream = builder.lower(rewritten(view.relation, zone)[0], range(len(view.columns)), family=True)
    operator = builder.operators[stream.operator]
    order = list(view.key) + [i for i in range(len(view.columns)) if i not in view.key]
    keyed = view.unique and _one_row_a_key(builder, operator)
    stored = _store(builder, stream.operator, [stream.positions[i] for i in order], view, order, keyed=keyed)
    member = builder.last_member if operator.member else None
    return View(
        builder.new_id(), view.name, view.sql, view.columns, view.key, view.unique, view.reads,
        replace(stored, member=member),
        asked=view.asked, written=view.written, forgets=view.forgets, target=view.target,
    )  # fmt: skip


def _store(
    builder: PlanBuilder, input_: int, positions: list[int], view: BoundView, order: list[int], *, keyed: bool
) -> Stored:
    operator = builder.operators[input_]
    member = int(operator.member)
    columns = (MEMBER,) * member + tuple(replace(view.columns[i], name=f"c{i}") for i in order)
    key = member + (len(view.key) if view.unique else len(order))
    state = StateSpec(builder.new_id(), "keyed" if keyed else "weighted", columns, key, bool(member))
    places = tuple([0] * member + [p + member for p in positions])
    id_ = builder.add(plan.ViewTable(0, operator.zone, columns, operator.member, (), input_, places, state))
    store = builder.operators[id_]
    assert isinstance(store, plan.ViewTable)
    return Stored(store.state, tuple(order.index(i) + member for i in range(len(order))))


def _one_row_a_key(builder: PlanBuilder, operator: plan.Operator) -> bool:
    """Whether in a batch one view server yields all rows of a view key: at most one that goes and one that comes."""
    while isinstance(operator, (plan.Select, plan.Pick)):
        operator = builder.operators[operator.input]
    return isinstance(operator, (plan.Delta, plan.Aggregate))


def declare_index(catalog: Catalog, name: str, on: int, columns: tuple[int, ...]) -> Catalog:
    """`catalog` with an index on the table or view `on`, by `columns`, not filled yet."""
    builder = PlanBuilder(catalog)
    item = catalog.by_id(on)
    assert isinstance(item, (Table, View))
    stream = builder.lower(Scan(on, item.name, item.columns), range(len(item.columns)), family=False)
    order = list(columns) + [i for i in range(len(item.columns)) if i not in columns]
    shape = BoundView(name, "", Scan(on, item.name, item.columns), item.columns, columns, True, (on,))
    stored = _store(builder, stream.operator, [stream.positions[i] for i in order], shape, order, keyed=False)
    index = Index(builder.new_id(), name, on, columns, stored)
    return _with(catalog, builder, index)


def mark_filled(catalog: Catalog, ids: Collection[int], version: int) -> Catalog:
    """`catalog` in which the views and indexes `ids` can be read from `version` on."""
    items: list[View | Index] = [*catalog.views, *catalog.indexes]
    return catalog.changing(replace(item, filled=version) for item in items if item.id in ids)


def rename(catalog: Catalog, item: Table | View, name: str) -> Catalog:
    """`catalog` in which a table or view that nothing reads is called `name`."""
    renamed, whole = catalog.changing([replace(item, name=name)]), plan.plan_of(catalog)
    operators = tuple(
        replace(o, name=name, identity=((name, o.identity[0][1]),)) if isinstance(o, plan.Delta) and o.table == item.id
        else o for o in whole.operators
    )  # fmt: skip
    return replace(renamed, plan=replace(whole, operators=operators))


def alter(catalog: Catalog, table: Table) -> Catalog:
    """`catalog` with `table`, which has got other columns: its DELTA yields them, and what reads it goes on.

    Where columns came its indexes are made anew, to be filled.
    """
    whole, state, old = plan.plan_of(catalog), table.stored.state, catalog.by_id(table.id)
    assert isinstance(old, Table)
    required = tuple(i for i, at in enumerate(table.given)
                     if at is not None and at not in table.key and at < len(table.columns)
                     and not table.columns[at].nullable)  # fmt: skip

    def altered(operator: plan.Operator) -> plan.Operator:
        if isinstance(operator, plan.Delta) and operator.table == table.id:
            return replace(operator, columns=_yielded(operator, table), required=required, state=state)
        if isinstance(operator, plan.SparkAnswer):
            return replace(operator, inputs=tuple(_with_state(each, state) for each in operator.inputs))
        return operator

    changed = replace(catalog.changing([table]), plan=replace(whole, operators=tuple(map(altered, whole.operators))))
    kept = [i for i, place in enumerate(old.stored.order) if place in table.stored.order]
    for index in [each for each in catalog.indexes if each.on == table.id]:
        columns = tuple(map(kept.index, index.columns))
        if len(table.columns) > len(kept):
            changed = declare_index(drop(changed, [index.id]), index.name, table.id, columns)
        else:
            stored = replace(index.stored, order=tuple(index.stored.order[i] for i in kept))
            changed = changed.changing([replace(index, columns=columns, stored=stored)])
    return changed


def _yielded(delta: plan.Delta, table: Table) -> tuple[Column, ...]:
    """The columns that the DELTA of `table` yields: those of the table, its row id, and what was dropped since."""
    columns = []
    for i, at in enumerate(table.given):
        if at is None:
            columns.append(replace(delta.columns[i], nullable=True))
        else:
            columns.append(table.columns[at] if at < len(table.columns) else ROW_ID)
    return tuple(columns)


def _with_state(read: SparkInput, state: StateSpec) -> SparkInput:
    same = read.stored.state.id == state.id
    return replace(read, stored=replace(read.stored, state=state)) if same else read


def rename_column(catalog: Catalog, table: Table, i: int, name: str) -> Catalog:
    """`catalog` in which column `i` of `table`, which no view reads, is called `name`."""
    columns = tuple(replace(column, name=name) if at == i else column for at, column in enumerate(table.columns))
    return alter(catalog, replace(table, columns=columns))


def stop(catalog: Catalog, ids: Collection[int], reason: str) -> Catalog:
    """`catalog` in which the views and indexes `ids`, and those over them, are kept no more: their program failed."""
    over = set(ids)
    for view in catalog.views:  # a view stands behind those it reads
        if over & set(view.reads):
            over.add(view.id)
    stopped: list[View | Index] = [view for view in catalog.views if view.id in over]
    stopped += [index for index in catalog.indexes if index.id in over or index.on in over]
    return catalog.changing(replace(item, stopped=item.stopped or reason) for item in stopped)


def drop(catalog: Catalog, ids: Collection[int]) -> Catalog:
    """`catalog` without the tables, views and indexes `ids`, and without the work that only they needed."""
    left = catalog.without(ids)
    old = plan.plan_of(catalog)
    roots = {item.stored.state.id for item in left.whole}
    live = plan.needed(old, [o for o in old.operators if {s.id for s in plan.states_of(o)} & roots])
    picked = {(o.input, o.wanted) for o in old.operators if isinstance(o, plan.Pick) and o.id in live}
    used = {(s.stored.state.id, s.stored.member) for s in left.whole}
    gone: list[tuple[int, int]] = []
    kept: list[plan.Operator] = []
    below = _families(old)
    for operator in old.operators:
        if operator.id not in live:
            continue
        if isinstance(operator, plan.Select) and operator.members:
            states = [s for o in old.operators if below.get(o.id) == operator.id for s in plan.states_of(o)]
            stays = [m for m in operator.members if _member_used(old, below, operator.id, m.id, used, picked)]
            dead = {m.id for m in operator.members} - {m.id for m in stays}
            gone += [(s.id, m) for s in states for m in sorted(dead)]
            operator = replace(operator, members=tuple(stays))
        kept.append(operator)
    exchanges = {plan.exchange_of(o) for o in kept}
    alive = {s.id for o in kept for s in plan.states_of(o)}
    dropped = tuple((s, m) for s, m in (*old.dropped, *gone) if s in alive)
    new = plan.Plan(tuple(kept), tuple(x for x in old.exchanges if x.id in exchanges), dropped)
    return replace(left, plan=new)


def _families(whole: plan.Plan) -> dict[int, int]:
    """For each operator with a member column, the family's Select."""
    sources = {x.id: x.source for x in whole.exchanges}
    found: dict[int, int] = {}
    for operator in whole.operators:
        if isinstance(operator, plan.Select) and operator.members:
            found[operator.id] = operator.id
        elif operator.member:
            exchange = plan.exchange_of(operator)
            below = sources[exchange] if exchange is not None else plan.inputs(operator)[0]
            found[operator.id] = found[below]
    return found


def _member_used(
    whole: plan.Plan, below: dict[int, int], family: int, member: int, used: set[tuple[int, int | None]],
    picked: set[tuple[int, int]],
) -> bool:  # fmt: skip
    return any(
        (isinstance(o, plan.ViewTable) and (o.state.id, member) in used) or (o.id, member) in picked
        for o in whole.operators
        if below.get(o.id) == family
    )


def dead_members(catalog: Catalog) -> dict[int, set[int]]:
    """For each state, the members whose rows merges leave out, since their views were dropped."""
    dead: dict[int, set[int]] = {}
    for state, member in plan.plan_of(catalog).dropped:
        dead.setdefault(state, set()).add(member)
    return dead


def states(catalog: Catalog) -> dict[int, StateSpec]:
    """All states that the catalog's plan writes, by id."""
    found = [ERRORS, REJECTED, PARTS, *(s for o in plan.plan_of(catalog).operators for s in plan.states_of(o))]
    return {spec.id: spec for spec in found}


def _with(catalog: Catalog, builder: PlanBuilder, *new: Table | View | Index) -> Catalog:
    return replace(catalog.adding(*new), plan=builder.built(), next_id=builder.next_id)
