"""Relations to operators: where a query meets what is already kept, it shares it.

`PlanBuilder.lower` walks a relation from its root and answers with a `Lowered`: the operator that yields its rows.  Two
views that need the same DELTA, exchange, PRE-AGGREGATION or REVERSE-JOIN get the same one (`sharing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from viewkeeper.catalog.model import Catalog, Column, InParts, StateSpec, Table, View
from viewkeeper.catalog.types import STRING
from viewkeeper.maintenance.asked_groups import asked_groups, met_keys
from viewkeeper.maintenance.joined import Side, joined
from viewkeeper.maintenance.of_parts import arrivals, kept_rows
from viewkeeper.maintenance.outer_joins import outer_join
from viewkeeper.maintenance.sharing import MEMBER, Current, SharedPlan, WantedArgument
from viewkeeper.maintenance.stream_columns import as_key, column_of, shifted, with_identity
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.expressions import ColumnRef, Expression, Several, reference_to, unless_null
from viewkeeper.plans.kept_calls import KeptCall
from viewkeeper.plans.key_functions import FirstRows, OrderedBy, ValueCall, ValuesOfGroup, WindowRows, placed_call
from viewkeeper.plans.outside import OutsideCall, SparkInput
from viewkeeper.plans.product_sums import PRODUCTS
from viewkeeper.plans.raising import call_can_raise, can_raise, shared_form
from viewkeeper.plans.reach import reach_of_calls
from viewkeeper.plans.relations import (
    AggregateCall,
    AskedGroups,
    ComputedColumn,
    Constants,
    Explode,
    Filter,
    GroupBy,
    InnerJoin,
    Limit,
    Order,
    OuterJoin,
    Project,
    Relation,
    Repeat,
    Scan,
    SparkQuery,
    UnionAll,
    Windows,
)
from viewkeeper.plans.rewriting import references, renumber
from viewkeeper.plans.value_functions import needs_all_values


@dataclass(frozen=True)
class Lowered:
    """The operator that yields a relation's rows; the relation's column i is the stream's `positions[i]`, the member
    column not counted."""

    operator: int
    positions: dict[int, int]


class PlanBuilder(SharedPlan):
    """Extends a plan.  With `sources`, every scanned object is a `GivenRows` (for ad hoc queries).

    `forgets` and `lost` are those of the view that is lowered (`BoundView`).
    """

    def __init__(self, catalog: Catalog, *, sources: bool = False) -> None:
        old = plan.Plan() if sources else plan.plan_of(catalog)
        super().__init__(old, catalog.next_id, None if sources else Current.of(catalog))
        self._catalog = catalog
        self._sources = sources
        self._members: dict[int, dict[Expression, int]] = {}
        self.last_member: int | None = None
        self.written: int | None = None  # Up to when the query to be lowered sees what the catalog has.
        self.forgets = False
        self.lost: Mapping[int, int] = {}

    # --- relations ---------------------------------------------------------------------------------------------

    def lower(self, relation: Relation, needed: Iterable[int], *, family: bool, identify: bool = False) -> Lowered:
        """The stream of `relation`'s columns `needed`.

        `family`: a filter may become a member of a family.  `identify`: keep the columns that name the base rows, since
        something above can raise.
        """
        if isinstance(relation, Scan):
            return self._lower_scan(relation, set(needed))
        if isinstance(relation, GroupBy):
            return self._lower_aggregate(relation, family=family)
        if isinstance(relation, Constants):
            return self._all_of(plan.ConstantRows(0, 1, relation.columns, False, (), relation.rows))
        if isinstance(relation, UnionAll):
            return self._lower_union(relation, sorted(needed))
        if isinstance(relation, Repeat):
            return self._lower_repeat(relation, set(needed))
        if isinstance(relation, Explode):
            return self._lower_explode(relation, set(needed), identify=identify)
        if isinstance(relation, SparkQuery):
            return self._lower_spark(relation)
        if isinstance(relation, Limit):
            return self._lower_limit(relation)
        if isinstance(relation, Windows):
            return self._lower_windows(relation, set(needed), identify=identify)
        if isinstance(relation, ComputedColumn):
            return self._lower_computed(relation, set(needed), identify=identify)
        if isinstance(relation, AskedGroups):
            return self._lower_asked(relation)
        outputs, predicate = None, None
        if isinstance(relation, Project):
            outputs, relation = relation.outputs, relation.input
        if isinstance(relation, Filter):
            predicate, relation = relation.predicate, relation.input
        if outputs is None:
            outputs = tuple(reference_to(c, i) for i, c in enumerate(relation.columns))
        # An output that can raise is computed as the query is written, whether or not anything above needs it.
        computed = set(needed) | {i for i, e in enumerate(outputs) if can_raise(e)}
        return self._lower_linear(
            relation, predicate, {i: outputs[i] for i in sorted(computed)}, family=family, identify=identify
        )

    def _lower_scan(self, scan: Scan, needed: set[int]) -> Lowered:
        if self._sources:
            return self._all_of(plan.GivenRows(0, 1, scan.columns, False, (), scan.object))
        item = self._catalog.by_id(scan.object)
        if isinstance(item, InParts):
            timed = len(item.columns) in needed
            return self._all_of(arrivals(item, self.forgets, self.lost.get(item.id), timed=timed))
        if isinstance(item, Table):
            places = {place: at for at, place in enumerate(item.yielded)}
            return Lowered(self.deltas[item.id], {i: places[place] for i, place in enumerate(item.stored.order)})
        assert isinstance(item, View), f"object {scan.object} is neither a table nor a view"
        store = self.stores[item.stored.state.id]
        positions = {i: store.positions[column] for i, column in enumerate(item.stored.order)}
        if item.stored.member is None:
            return Lowered(store.input, positions)
        family = self.operators[store.input]
        identity = tuple((t, tuple((c, p - 1) for c, p in key)) for t, key in family.identity)
        pick = plan.Pick(0, family.zone, family.columns[1:], False, identity, store.input, item.stored.member)
        return Lowered(self.add(pick), {i: p - 1 for i, p in positions.items()})

    def _all_of(self, operator: plan.Operator) -> Lowered:
        """An operator whose columns are the relation's."""
        return Lowered(self.add(operator), {i: i for i in range(len(operator.columns))})

    def _lower_spark(self, query: SparkQuery) -> Lowered:
        """A query that Spark answers, over the states of what it reads."""
        inputs = tuple(self._spark_input(name, id_) for name, id_ in query.objects)
        zone = 1 + max([1, *(self.operators[each.operator].zone for each in inputs)])
        columns = tuple(replace(column, name=f"c{i}") for i, column in enumerate(query.columns))
        held = (*columns, Column("error", STRING))
        state = StateSpec(self.new_id(), "weighted", held, len(held))
        operator = plan.SparkAnswer(0, zone, columns, False, (), query.sql, inputs, state, query.reason)
        return Lowered(self.add(operator), {i: i for i in range(len(columns))})

    def _spark_input(self, name: str, id_: int) -> SparkInput:
        item = self._catalog.by_id(id_)
        if isinstance(item, Table):
            seen = item if self.written is None else item.seen_at(self.written)
            return SparkInput(name, self.deltas[id_], seen.columns, seen.stored)
        if isinstance(item, InParts):
            came = self.add(arrivals(item, self.forgets, self.lost.get(item.id)))
            return kept_rows(name, item, came, self.new_id(), lambda each: self.operators[self.add(each)])
        assert isinstance(item, View), f"object {id_} is neither a table nor a view"
        return SparkInput(name, self.stores[item.stored.state.id].id, item.columns, item.stored)

    def _lower_linear(
        self,
        below: Relation,
        predicate: Expression | None,
        outputs: dict[int, Expression],
        *,
        family: bool,
        identify: bool,
    ) -> Lowered:
        raising = any(can_raise(e) for e in outputs.values()) or (predicate is not None and can_raise(predicate))
        needed = set().union(*(references(e) for e in outputs.values()))
        needed |= references(predicate) if predicate is not None else set()
        if isinstance(below, OuterJoin):
            stream = self._lower_outer_join(below, needed, identify=identify or raising)
        elif isinstance(below, InnerJoin):
            stream = self._lower_join(below, needed, identify=identify or raising)
        else:
            stream = self.lower(below, needed, family=family, identify=identify or raising)
        if predicate is None and all(isinstance(e, ColumnRef) for e in outputs.values()):
            return Lowered(stream.operator, {i: stream.positions[e.index] for i, e in outputs.items()})  # type: ignore[attr-defined]
        columns = tuple(renumber(e, stream.positions) for e in outputs.values())
        condition = renumber(predicate, stream.positions) if predicate is not None else None
        operator = self._select(stream.operator, condition, columns, family=family, identify=identify)
        return Lowered(operator, {i: n for n, i in enumerate(outputs)})

    def _select(
        self,
        input_: int,
        predicate: Expression | None,
        outputs: tuple[Expression, ...],
        *,
        family: bool,
        identify: bool,
    ) -> int:
        below = self.operators[input_]
        outputs, identity = with_identity(below, outputs, identify)
        columns = tuple(Column(f"c{i}", e.type, e.nullable) for i, e in enumerate(outputs))
        if not family or below.member or predicate is None:
            member = (MEMBER,) if below.member else ()
            names = shifted(identity, len(member))
            return self.add(
                plan.Select(0, below.zone, member + columns, below.member, names, input_, predicate, outputs)
            )
        identity = shifted(identity, 1)
        # Found by its form without members: one operator serves them all.
        id_ = self.add(plan.Select(0, below.zone, (MEMBER, *columns), True, identity, input_, None, outputs))
        if id_ not in self._members:
            self._members[id_] = self._members_of(id_)
        form = shared_form(predicate)
        if form not in self._members[id_]:
            self._members[id_][form] = self.new_id()
            select = self.operators[id_]
            assert isinstance(select, plan.Select)
            member_ = plan.Member(self._members[id_][form], predicate)
            self.operators[id_] = replace(select, members=(*select.members, member_))
        self.last_member = self._members[id_][form]
        return id_

    def _members_of(self, id_: int) -> dict[Expression, int]:
        select = self.operators[id_]
        assert isinstance(select, plan.Select)
        current = self._current
        return {shared_form(m.predicate): m.id for m in select.members if not current or m.id in current.members}

    # --- unions --------------------------------------------------------------------------------------------------

    def _lower_union(self, relation: UnionAll, needed: list[int]) -> Lowered:
        """All streams in the zone of the last one, with the needed columns in one order."""
        streams = [self.lower(each, needed, family=False) for each in relation.inputs]
        zone = max(self.operators[stream.operator].zone for stream in streams)
        columns = tuple(replace(relation.columns[i], name=f"c{n}") for n, i in enumerate(needed))
        inputs = tuple(self._moved(self._in_order(stream, needed), columns, zone) for stream in streams)
        id_ = self.add(plan.Union(0, zone, columns, False, (), inputs))
        return Lowered(id_, {i: n for n, i in enumerate(needed)})

    def _in_order(self, stream: Lowered, needed: list[int]) -> int:
        """An operator that yields the stream's `needed` columns alone, in this order."""
        below = self.operators[stream.operator]
        if [stream.positions[i] for i in needed] == list(range(len(below.columns))):
            return stream.operator
        outputs = tuple(column_of(below, stream.positions[i]) for i in needed)
        return self._select(stream.operator, None, outputs, family=False, identify=False)

    def _moved(self, id_: int, columns: tuple[Column, ...], zone: int) -> int:
        """The rows of an operator in `zone`, spread by all that they hold."""
        source = self.operators[id_]
        if source.zone == zone:
            return id_
        exchange, _ = self.rows_exchange(id_, zone, tuple(column_of(source, i) for i in range(len(columns))), [])
        return self.add(plan.Moved(0, zone, columns, False, (), exchange))

    def _lower_repeat(self, relation: Repeat, needed: set[int]) -> Lowered:
        stream = self.lower(relation.input, needed | references(relation.times), family=False)
        below = self.operators[stream.operator]
        times = renumber(relation.times, stream.positions)
        id_ = self.add(plan.Repeated(0, below.zone, below.columns, False, (), stream.operator, times))
        return Lowered(id_, stream.positions)

    def _lower_explode(self, relation: Explode, needed: set[int], *, identify: bool) -> Lowered:
        width = len(relation.input.columns)
        kept = sorted(i for i in needed if i < width)
        stream = self.lower(relation.input, {*kept, relation.index}, family=False, identify=identify)
        below = self.operators[stream.operator]
        names = [p for _, key in below.identity for _, p in key] if identify else []
        outputs = tuple(dict.fromkeys([*(stream.positions[i] for i in kept), *names]))
        at = {p: n for n, p in enumerate(outputs)}
        identity = tuple((t, tuple((n, at[p]) for n, p in key)) for t, key in below.identity if identify)
        made = [*(below.columns[p + below.member] for p in outputs), *relation.columns[width:]]
        columns = tuple(replace(column, name=f"c{n}") for n, column in enumerate(made))
        array = stream.positions[relation.index]
        id_ = self.add(plan.Exploded(0, below.zone, columns, False, identity, below.id, array, relation.outer, outputs))
        found = {i: at[stream.positions[i]] for i in kept}
        return Lowered(id_, found | {width: len(outputs), width + 1: len(outputs) + 1})

    def _lower_computed(self, relation: ComputedColumn, needed: set[int], *, identify: bool) -> Lowered:
        """A MEMO of the call, by all that it reads, and its rows with what it says."""
        assert isinstance(relation.call, OutsideCall)
        width, read = len(relation.input.columns), sorted(references(relation.call))
        wanted = sorted({i for i in needed if i < width} | set(read))
        stream = self.lower(relation.input, wanted, family=False, identify=identify)
        source = self.operators[stream.operator]
        zone = source.zone + 1
        columns = [column_of(source, stream.positions[i]) for i in wanted]
        base = source.identity
        if self._sources and not base:
            base = (("row", tuple((relation.input.columns[i].name, stream.positions[i]) for i in wanted)),)
        names = [column_of(source, p) for _, key in base for _, p in key] if identify else []
        keys = tuple(as_key(columns[wanted.index(i)]) for i in read)
        exchange, places = self.rows_exchange(stream.operator, zone, keys, [*columns, *names])
        call = renumber(relation.call, dict(zip(wanted, places, strict=False)))
        assert isinstance(call, OutsideCall)
        value, error = relation.columns[width:]
        key = tuple(Column(f"k{i}", e.type, e.nullable) for i, e in enumerate(keys))
        state = StateSpec(self.new_id(), "weighted", (*key, value, error), len(key))
        memo = self.add(plan.Memo(0, zone, (), False, (), exchange, call, state))
        outputs = tuple(dict.fromkeys(places))
        shipped = self.exchanges[exchange].outputs
        given = tuple(Column(f"c{n}", shipped[i].type, shipped[i].nullable) for n, i in enumerate(outputs))
        stands = {p: outputs.index(places[len(wanted) + n]) for n, p in enumerate(e.index for e in names)}
        identity = tuple((t, tuple((name, stands[p]) for name, p in each)) for t, each in base if identify)
        id_ = self.add(plan.Recall(0, zone, (*given, value, error), False, identity, memo, outputs))
        found = {column: outputs.index(place) for column, place in zip(wanted, places, strict=False)}
        return Lowered(id_, found | {width: len(outputs), width + 1: len(outputs) + 1})

    # --- joins ---------------------------------------------------------------------------------------------------

    def _lower_join(self, join: InnerJoin, needed: set[int], *, identify: bool) -> Lowered:
        """An inner join, over both sides' REVERSE-JOINs."""
        assert join.residual is None, "a rule makes it a filter"
        width = len(join.left.columns)
        streams = (
            self._side(join.left, join.left_keys, {i for i in needed if i < width}, identify=identify),
            self._side(join.right, join.right_keys, {i - width for i in needed if i >= width}, identify=identify),
        )
        zone = 1 + max(self.operators[stream.operator].zone for stream, _, _ in streams)
        left, right = (self._reverse_join(*side, zone, identify) for side in streams)
        made = joined(self.operators, (left, right), width)
        operator = plan.Join(0, zone, made.columns, False, made.identity, left.reverse, right.reverse, made.outputs)
        return Lowered(self.add(operator), made.positions)

    def _lower_outer_join(self, join: OuterJoin, needed: set[int], *, identify: bool) -> Lowered:
        """An outer, semi or anti join, over both sides' REVERSE-JOINs."""
        width = len(join.left.columns)
        raising = join.condition is not None and can_raise(join.condition)
        wanted = needed | (references(join.condition) if join.condition is not None else set())
        identify = identify or raising
        streams = (
            self._side(join.left, join.left_keys, {i for i in wanted if i < width}, identify=identify),
            self._side(join.right, join.right_keys, {i - width for i in wanted if i >= width}, identify=identify),
        )
        zone = 1 + max(self.operators[stream.operator].zone for stream, _, _ in streams)
        left, right = (self._reverse_join(*side, zone, identify) for side in streams)
        left = replace(left, optional=join.kind in ("RIGHT", "FULL"))
        right = replace(right, optional=join.kind in ("LEFT", "FULL"))
        one_sided = join.kind in ("SEMI", "ANTI")
        made = joined(self.operators, (left,) if one_sided else (left, right), width)
        return Lowered(outer_join(self.add, zone, join, left, right, made), made.positions)

    def _side(
        self, relation: Relation, keys: tuple[Expression, ...], wanted: set[int], *, identify: bool
    ) -> tuple[Lowered, tuple[Expression, ...], set[int]]:
        """One side's stream, its keys over the stream, and the side's columns that are wanted."""
        needed = wanted | set().union(*(references(key) for key in keys))
        stream = self.lower(relation, needed, family=False, identify=identify)
        return stream, tuple(renumber(key, stream.positions) for key in keys), wanted

    def _reverse_join(
        self, stream: Lowered, keys: tuple[Expression, ...], wanted: set[int], zone: int, identify: bool,
        order: Sequence[Order] = (),
    ) -> Side:  # fmt: skip
        """One side of a join: its REVERSE-JOIN keeps the wanted columns, and those that name its base rows."""
        source = self.operators[stream.operator]
        carried = {column: column_of(source, stream.positions[column]) for column in sorted(wanted)}
        identity_columns = {p: column_of(source, p) for _, key in source.identity for _, p in key} if identify else {}
        exchange, places = self.rows_exchange(
            stream.operator, zone, keys, [*carried.values(), *identity_columns.values()]
        )
        stands = dict(zip(carried, places, strict=False))
        by = [(stands[term.index], term.ascending, term.nulls_first) for term in order]
        id_ = self.covering_reverse_join(exchange, len(keys), places, zone, by)
        reverse = self.operators[id_]
        assert isinstance(reverse, plan.ReverseJoin)
        at = {output: i for i, output in enumerate(reverse.outputs)}
        found = {column: at[place] for column, place in zip(carried, places, strict=False)}
        names: plan.Identity = ()
        if identify:
            stands = dict(zip(identity_columns, places[len(carried) :], strict=True))
            names = tuple((t, tuple((name, at[stands[p]]) for name, p in key)) for t, key in source.identity)
        return Side(id_, found, names)

    def _lower_limit(self, relation: Limit) -> Lowered:
        """The first rows of all: one key, over a REVERSE-JOIN of all rows."""
        stream, _, _ = self._side(relation.input, (), set(range(len(relation.columns))), identify=False)
        zone = 1 + self.operators[stream.operator].zone
        every = set(range(len(relation.columns)))
        order = () if relation.limit is None else relation.order
        side = self._reverse_join(stream, (), every, zone, identify=False, order=order)
        terms = tuple(OrderedBy(side.found[o.index], o.ascending, o.nulls_first) for o in relation.order)
        outputs = tuple(side.found[i] for i in range(len(relation.columns)))
        function = FirstRows(terms, relation.limit, relation.offset, outputs)
        columns = tuple(replace(column, name=f"c{i}") for i, column in enumerate(relation.columns))
        return self._all_of(plan.ByKey(0, zone, columns, False, (), (side.reverse,), function))

    def _lower_windows(self, relation: Windows, needed: set[int], *, identify: bool) -> Lowered:
        """Window functions: all rows of a partition, over a REVERSE-JOIN by what it is made by."""
        width, columns = len(relation.input.columns), relation.input.columns
        identify = identify or any(map(call_can_raise, relation.calls))
        shown = {i for i in needed if i < width}
        used = set[int]().union(*(call.columns for call in relation.calls))
        partition = [reference_to(columns[i], i) for i in relation.partition]
        stream = self._side(relation.input, met_keys(partition), shown | used, identify=identify)
        zone = 1 + self.operators[stream[0].operator].zone
        reach = reach_of_calls(relation.calls, relation.first)
        side = self._reverse_join(*stream, zone, identify, () if reach is None else reach.order)
        made = joined(self.operators, (replace(side, found={i: side.found[i] for i in sorted(shown)}),), width)
        function = WindowRows(
            tuple(position for _, position in made.outputs),
            tuple(placed_call(call, side.found) for call in relation.calls),
            relation.first,
        )
        behind = tuple(Column(call.function, call.type, call.nullable) for call in relation.calls)
        named = tuple(replace(column, name=f"c{i}") for i, column in enumerate(made.columns + behind))
        id_ = self.add(plan.ByKey(0, zone, named, False, made.identity, (side.reverse,), function))
        calls = {width + i: len(made.outputs) + i for i in range(len(behind))}
        return Lowered(id_, made.positions | calls)

    # --- aggregates ----------------------------------------------------------------------------------------------

    def _lower_aggregate(self, relation: GroupBy, *, family: bool) -> Lowered:
        if any(needs_all_values(call.function) for call in relation.calls):
            return self._lower_values(relation)
        keys, below = relation.keys, relation.input
        arguments = {i: arguments_of(call) for i, call in enumerate(relation.calls)}
        needed = set().union(*(references(e) for e in (*keys, *(e for each in arguments.values() for e in each))))
        stream = self.lower(below, needed, family=family)
        source = self.operators[stream.operator]
        keys = tuple(renumber(k, stream.positions) for k in keys)
        # Calls over one argument share what runs for it: arguments are compared by what they are over the stream.
        bound = {i: [renumber(e, stream.positions) for e in each] for i, each in arguments.items()}
        form = {i: [shared_form(e) for e in each] for i, each in bound.items()}
        numbers: dict[Expression, int] = {}
        wanted: list[WantedArgument] = []
        for i, call in enumerate(relation.calls):
            for one, expression in zip(form[i], bound[i], strict=True):
                if one not in numbers:
                    numbers[one] = len(wanted)
                    wanted.append(WantedArgument(expression, set(), set()))
                wanted[numbers[one]].functions.add(call.function)
            for a, b in PRODUCTS.get(call.function, ()):
                wanted[numbers[form[i][a]]].products.add(numbers[form[i][b]])
        pre = self.pre_aggregate(stream.operator, source.zone + 1, keys, wanted)
        running = self.operators[pre]
        assert isinstance(running, plan.PreAggregate)
        shipped = self.exchanges[running.exchange].outputs
        slot = {shared_form(shipped[r.argument]): i for i, r in enumerate(running.running)}
        made = []
        for call, forms in zip(relation.calls, form.values(), strict=True):
            first, second, *_ = [*(slot[each] for each in forms), None, None]
            made.append(KeptCall(call.function, first, call.type, call.place, second))
        member = (MEMBER,) if source.member else ()
        identity = (("group", tuple((n, i + len(member)) for i, n in enumerate(relation.key_names))),)
        id_ = self.add(
            plan.Aggregate(0, running.zone, member + relation.columns, source.member, identity, pre, tuple(made))
        )
        return Lowered(id_, {i: i for i in range(len(relation.columns))})

    def _lower_asked(self, relation: AskedGroups) -> Lowered:
        """Groups that Spark is asked about."""
        needed = set[int]().union(*map(references, (*relation.keys, *relation.calls)))
        stream = self.lower(relation.input, needed, family=False)
        id_ = asked_groups(self, relation, stream.operator, stream.positions)
        return Lowered(id_, {i: i for i in range(len(relation.columns))})

    def _lower_values(self, relation: GroupBy) -> Lowered:
        """Aggregates of all values of a group, over a REVERSE-JOIN by what it is grouped by."""
        arguments = [call.argument for call in relation.calls if call.argument is not None]
        needed = set().union(*(references(e) for e in (*relation.keys, *arguments)))
        stream = self.lower(relation.input, needed, family=False)
        zone = 1 + self.operators[stream.operator].zone
        keys = [renumber(key, stream.positions) for key in relation.keys]
        values = [renumber(argument, stream.positions) for argument in arguments]
        met = met_keys(keys)
        exchange, places = self.rows_exchange(stream.operator, zone, met, [*keys, *values])
        id_ = self.covering_reverse_join(exchange, len(met), places, zone)
        reverse = self.operators[id_]
        assert isinstance(reverse, plan.ReverseJoin)
        at = [reverse.outputs.index(place) for place in places]
        calls = zip(relation.calls, values, at[len(keys) :], strict=True)
        function = ValuesOfGroup(tuple(at[: len(keys)]), tuple(ValueCall(c.function, i, e.type) for c, e, i in calls))
        identity = (("group", tuple((name, i) for i, name in enumerate(relation.key_names))),)
        return self._all_of(plan.ByKey(0, zone, relation.columns, False, identity, (id_,), function))


def arguments_of(call: AggregateCall) -> list[Expression]:
    """What runs for a call: of pairs each of the two values, where the other is no NULL."""
    if isinstance(call.argument, Several):
        return [
            unless_null(others, each) if others else each
            for i, each in enumerate(call.argument.arguments)
            for others in [[o for k, o in enumerate(call.argument.arguments) if k != i and o.nullable]]
        ]
    return [] if call.argument is None else [call.argument]
