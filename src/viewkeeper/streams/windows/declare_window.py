"""CREATE VIEW over a stream with WINDOW: from the statement to the view and its helpers, shared where they are alike.

Aggregates go into pieces: what can be subtracted, extremes, and for each argument whose values are needed those values.
A helper is used again by every view that wants no more than it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from viewkeeper.catalog.model import Catalog, Column, HelperParts, HelperPlan, PartView, Stream
from viewkeeper.compiler.accounting import refuse_unaccounted
from viewkeeper.compiler.bind import bind_view_query
from viewkeeper.compiler.bind_window import MORE, WindowBinder, strategy
from viewkeeper.compiler.namespace import Beside
from viewkeeper.compiler.statements import CreateView, CreateWindowView
from viewkeeper.compiler.supported import refuse_unsupported
from viewkeeper.compiler.syntax import query_tokens
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans import window as plans
from viewkeeper.plans.expressions import ColumnRef, Expression, Several
from viewkeeper.plans.raising import shared_form
from viewkeeper.plans.relations import AggregateCall, Filter, GroupBy, InnerJoin, Project, Relation, Scan
from viewkeeper.plans.value_functions import fraction_of
from viewkeeper.plans.window import (
    BLOCKS,
    COUNT,
    CUMULATIVE,
    GREATEST,
    LEAST,
    ROWS,
    RUNNING,
    SQUARES,
    SUM,
    Layout,
    Slot,
    WindowCall,
    WindowPiece,
)
from viewkeeper.streams.shown import KnownSizes
from viewkeeper.streams.windows.cost import NAIVE, Candidate, Sizes, candidates
from viewkeeper.streams.windows.naive import naive_window
from viewkeeper.streams.windows.window_programs import cumulated_layout, level_count

_KINDS: dict[str, tuple[str, ...]] = {
    "count_star": (ROWS,), "count": (COUNT,), "sum": (COUNT, SUM), "avg": (COUNT, SUM), "min": (LEAST,),
    "max": (GREATEST,), "bool_and": (LEAST,), "bool_or": (GREATEST,),
    **dict.fromkeys(("var_pop", "var_samp", "stddev_pop", "stddev_samp"), (COUNT, SUM, SQUARES)),
}  # fmt: skip
"""The slots that each aggregate is read off; those that need all values have none."""

STRATEGIES = (plans.MERGE, RUNNING, CUMULATIVE, BLOCKS, NAIVE)


@dataclass
class _Wanted:
    """Slots of one piece: for each the argument (None: rows), and the kind."""

    slots: list[tuple[Expression | None, str]]
    values: tuple[Expression, ...] = ()

    def add(self, argument: Expression | None, kind: str) -> int:
        wanted = (None if argument is None else shared_form(argument), kind)
        for i, (known, other) in enumerate(self.slots):
            if (None if known is None else shared_form(known), other) == wanted:
                return i
        self.slots.append((argument, kind))
        return len(self.slots) - 1


def declare_window(
    catalog: Catalog, statement: CreateWindowView, source: Stream | PartView, new_id: Callable[[], int],
    known_sizes: KnownSizes | None = None,
) -> list[PartView]:  # fmt: skip
    """The hidden helpers that are not there yet, then the view; `known_sizes(source id, positions of its columns)`
    tells, as far as that is known, about how many rows, and how many different values of the columns, a part of the
    source holds.  Raises DeclarationError or NotSupported, with line and column."""
    window = _window(statement, source)
    refuse_unsupported(statement.query, MORE)
    refuse_unaccounted(statement.query, query_tokens(statement.query))
    relation, aggregate, having, names = _bound(catalog, statement, source)
    _require_one_source(statement, aggregate.input, source)
    asked = strategy(statement.query)
    if asked is not None and asked[0] == NAIVE:
        return [naive_window(statement, source, window, relation.columns, aggregate.calls, new_id)]
    keys = [key.index for key in aggregate.keys if isinstance(key, ColumnRef) and key.index < len(source.columns)]
    found = None if known_sizes is None else known_sizes(source.id, keys)
    declaring = _Declaring(catalog, statement, source, new_id, window, Sizes() if found is None else Sizes(*found))
    return declaring.views(relation, aggregate, having, names)


def _window(statement: CreateWindowView, source: Stream | PartView) -> int:
    parts, rest = divmod(statement.window, source.length)
    if rest or parts < 1:
        whole = max(1, parts) * source.length
        raise DeclarationError(
            f"WINDOW of {statement.window} seconds is no whole number of parts of {source.name}, which are "
            f"{source.length} seconds long; write {whole} or another multiple", *statement.at,
        )  # fmt: skip
    return parts


def _bound(
    catalog: Catalog, statement: CreateWindowView, source: Stream | PartView
) -> tuple[Project, GroupBy, Expression | None, tuple[str, ...]]:
    asked = CreateView(statement.text, statement.place, statement.name, statement.columns, statement.query)
    relation = bind_view_query(Beside(catalog, source), asked, WindowBinder).relation
    assert isinstance(relation, Project)
    below: Relation = relation.input
    having = None
    if isinstance(below, Filter) and isinstance(below.input, GroupBy):
        having, below = below.predicate, below.input
    if not isinstance(below, GroupBy):
        raise statement.query.error(
            "a WINDOW query aggregates: name COUNT, SUM, MIN, MAX or AVG, or leave out WINDOW", statement.query.tree
        )
    return relation, below, having, relation.names


def _require_one_source(statement: CreateWindowView, relation: Relation, source: Stream | PartView) -> None:
    scans = list(_scans(statement, relation))
    if scans.count(source.id) != 1:
        times = "not" if source.id not in scans else f"{scans.count(source.id)} times"
        raise statement.query.error(
            f"{source.name} stands {times} in FROM; a window joins its stream, once, with dimension tables",
            statement.query.tree, NotSupported,
        )  # fmt: skip


def _scans(statement: CreateWindowView, relation: Relation) -> list[int]:
    match relation:
        case Scan():
            return [relation.object]
        case InnerJoin() if relation.left_keys:
            return _scans(statement, relation.left) + _scans(statement, relation.right)
        case Filter() | Project():
            return _scans(statement, relation.input)
    raise statement.query.error(
        "a subquery that aggregates, and a join without an equality between its sides, are not supported below WINDOW; "
        "declare it as a view, and join that",
        statement.query.tree, NotSupported,
    )  # fmt: skip


class _Declaring:
    """One statement while its helpers are looked for and made."""

    def __init__(
        self, catalog: Catalog, statement: CreateWindowView, source: Stream | PartView, new_id: Callable[[], int],
        window: int, sizes: Sizes,
    ) -> None:  # fmt: skip
        self.catalog, self.statement, self.source, self.new_id = catalog, statement, source, new_id
        self.window, self.sizes = window, sizes
        self.made: list[PartView] = []
        self.own: list[HelperParts] = []

    def views(
        self, relation: Project, aggregate: GroupBy, having: Expression | None, names: tuple[str, ...]
    ) -> list[PartView]:
        keys = tuple(Column(n, e.type, e.nullable) for n, e in zip(aggregate.key_names, aggregate.keys, strict=True))
        wanted, calls = self._calls(aggregate.calls)
        hint = self._hint(wanted)
        pieces = self._pieces(aggregate, keys, wanted, hint)
        plan = plans.Window(
            self.source.id, self.window, keys, pieces, calls, having, relation.outputs, relation.columns,
            self.catalog.zone, hint,
        )  # fmt: skip
        helpers = [piece.object for piece in pieces] + [i for piece in pieces for i in piece.levels]
        helpers += [piece.since for piece in pieces if piece.since is not None]
        view = PartView(
            self.new_id(), self.statement.name.name, self.statement.query.sql, relation.columns,
            self.source.length, tuple(dict.fromkeys(helpers)), (), plan, tuple(self.own), fills=True,
            expire=self.statement.expire,
        )  # fmt: skip
        return [*self.made, view]

    def _calls(self, calls: Sequence[AggregateCall]) -> tuple[list[_Wanted], tuple[WindowCall, ...]]:
        """What must be kept, by piece (sums, extremes, then values), and how the calls are read off it."""
        sums, extremes = _Wanted([(None, ROWS)]), _Wanted([])
        values: list[_Wanted] = []
        read: list[tuple[_Wanted, tuple[int, ...], AggregateCall]] = []
        for call in calls:
            kinds = _KINDS.get(call.function)
            if kinds is None:
                piece = _values_piece(values, call)
                read.append((piece, (), call))
                continue
            piece = extremes if kinds[0] in (LEAST, GREATEST) else sums
            slots = tuple(piece.add(None if kind == ROWS else call.argument, kind) for kind in kinds)
            read.append((piece, slots, call))
        only_values = bool(values) and len(sums.slots) == 1 and not any(piece is sums for piece, _, _ in read)
        used = [] if (only_values or (extremes.slots and not any(p is sums for p, _, _ in read))) else [sums]
        pieces = [*used, *([extremes] if extremes.slots else []), *values]
        if not pieces:
            pieces = [sums]
        made = []
        for piece, slots, call in read:
            index = next(i for i, each in enumerate(pieces) if each is piece)
            argument = None if call.argument is None else call.argument.type
            made.append(WindowCall(call.function, index, slots, argument, call.type, call.nullable, call.place))
        return pieces, tuple(made)

    def _hint(self, wanted: list[_Wanted]) -> str | None:
        asked = strategy(self.statement.query)
        if asked is None:
            return None
        name, at = asked
        possible = {c.strategy for piece in wanted for c in self._candidates(_layout((), piece))}
        if name not in possible:
            known = "there is no such strategy" if name not in STRATEGIES else "it cannot compute these aggregates"
            raise self.statement.query.source.error(
                f"STRATEGY({name}): {known}; there is {', '.join(sorted(possible))} here", at
            )
        return name

    def _candidates(self, layout: Layout) -> list[Candidate]:
        return candidates(layout, self.window, level_count(self.window), self.sizes)

    # Helpers

    def _pieces(
        self, aggregate: GroupBy, keys: tuple[Column, ...], wanted: list[_Wanted], hint: str | None
    ) -> tuple[WindowPiece, ...]:
        plain = _Wanted([])
        places: list[list[int]] = []
        for piece in wanted:
            places.append([] if piece.values else [plain.add(*slot) for slot in piece.slots])
        shared = self._helper(aggregate, keys, plain) if plain.slots else None
        pieces = []
        for piece, mine in zip(wanted, places, strict=True):
            helper, slots = self._helper(aggregate, keys, piece) if shared is None or piece.values else shared
            chosen = slots if piece.values else [slots[i] for i in mine]
            assert isinstance(helper.plan, plans.PartAggregate)
            pieces.append(self._piece(helper.id, helper.plan.layout, tuple(chosen), hint))
        return tuple(pieces)

    def _piece(self, helper: int, layout: Layout, slots: tuple[int, ...], hint: str | None) -> WindowPiece:
        pick, mine = layout.pick(slots), layout.only(slots)
        found = [each.strategy for each in self._candidates(mine) if each.strategy != NAIVE]
        chosen = hint if hint in found else next(each for each in found if each != CUMULATIVE)
        piece = WindowPiece(chosen, helper, pick, mine)
        if chosen == RUNNING:
            own = HelperParts(self.new_id(), f"{self.statement.name.name}$running{len(self.own)}", mine.columns)
            self.own.append(own)
            return replace(piece, own=own.id)
        if chosen == CUMULATIVE:
            kept = cumulated_layout(mine)
            return replace(
                piece, since=self._find_or_make(plans.Cumulated(helper, pick, kept, mine, self.window), kept, 1).id
            )
        if chosen == BLOCKS:
            return self._in_blocks(piece)
        return piece

    def _in_blocks(self, piece: WindowPiece) -> WindowPiece:
        levels: list[int] = []
        below, pick = piece.object, piece.pick
        for level in range(1, level_count(self.window) + 1):
            made = self._find_or_make(plans.Halves(below, pick, piece.layout), piece.layout, 2**level)
            below, pick = made.id, tuple(range(len(piece.layout.columns)))
            levels.append(made.id)
        return replace(piece, levels=tuple(levels))

    def _helper(self, aggregate: GroupBy, keys: tuple[Column, ...], wanted: _Wanted) -> tuple[PartView, list[int]]:
        """The helper that has the wanted slots, and where."""
        form = (_form(aggregate.input), tuple(map(shared_form, aggregate.keys)), tuple(map(shared_form, wanted.values)))
        # Helpers that join with dimension tables are not shared: ALTER VIEW ... REBUILD joins those of one view anew.
        for view in [*(each for each in self._helpers() if not each.dimensions), *self.made]:
            known = view.plan
            if not isinstance(known, plans.PartAggregate) or known.source != self.source.id:
                continue
            if (_form(known.input), tuple(map(shared_form, known.keys)), tuple(map(shared_form, known.values))) != form:
                continue
            slots = [_slot_of(known, *slot) for slot in wanted.slots]
            if None not in slots:
                return view, [slot for slot in slots if slot is not None]
        layout = _layout(keys, wanted)
        measures = tuple(_measures(wanted))
        dimensions = tuple(dict.fromkeys(i for i in _scans(self.statement, aggregate.input) if i != self.source.id))
        plan = plans.PartAggregate(
            self.source.id, aggregate.input, aggregate.keys, wanted.values, measures, layout, dimensions,
            self.catalog.zone,
        )  # fmt: skip
        return self._make(plan, layout, self.source.id, 1, dimensions), list(range(len(wanted.slots)))

    def _helpers(self) -> list[PartView]:
        return [view for view in self.catalog.part_views if view.hidden]

    def _find_or_make(self, plan: plans.Halves | plans.Cumulated, layout: Layout, factor: int) -> PartView:
        for view in [*self._helpers(), *self.made]:
            if view.plan == plan and view.length == factor * self.source.length:
                return view
        return self._make(plan, layout, plan.below, factor, ())

    def _make(self, plan: HelperPlan, layout: Layout, reads: int, factor: int, dimensions: tuple[int, ...]) -> PartView:
        id_ = self.new_id()
        view = PartView(
            id_, f"{self.source.name}$helper{id_}", self.statement.query.sql, layout.columns,
            factor * self.source.length, (reads,), dimensions, plan, fills=True,
        )  # fmt: skip
        self.made.append(view)
        return view


def _values_piece(pieces: list[_Wanted], call: AggregateCall) -> _Wanted:
    argument = call.argument
    assert argument is not None and (fraction_of(call.function) is not None or call.function.endswith("_distinct"))
    values = argument.arguments if isinstance(argument, Several) else (argument,)
    for piece in pieces:
        if tuple(map(shared_form, piece.values)) == tuple(map(shared_form, values)):
            return piece
    pieces.append(_Wanted([(None, ROWS)], values))
    return pieces[-1]


def _measures(wanted: _Wanted) -> list[Expression]:
    """The arguments of the slots, each once."""
    found: dict[Expression, Expression] = {}
    for argument, _ in wanted.slots:
        if argument is not None:
            found.setdefault(shared_form(argument), argument)
    return list(found.values())


def _layout(keys: tuple[Column, ...], wanted: _Wanted) -> Layout:
    forms = [shared_form(measure) for measure in _measures(wanted)]
    slots = []
    for argument, kind in wanted.slots:
        if argument is None:
            slots.append(Slot(kind, -1, plans.BIGINT))
        else:
            slots.append(Slot(kind, forms.index(shared_form(argument)), argument.type))
    values = tuple(Column(f"value_{i}", e.type, e.nullable) for i, e in enumerate(wanted.values))
    return Layout(keys, values, tuple(slots))


def _slot_of(plan: plans.PartAggregate, argument: Expression | None, kind: str) -> int | None:
    for i, slot in enumerate(plan.layout.slots):
        if slot.kind != kind:
            continue
        if argument is None or shared_form(plan.measures[slot.measure]) == shared_form(argument):
            return i
    return None


def _form(relation: Any) -> Any:
    """Equal for relations that give the same rows and raise in the same places."""
    if isinstance(relation, Expression):
        return shared_form(relation)
    if isinstance(relation, tuple):
        return tuple(map(_form, relation))
    if isinstance(relation, Project):
        return Project, _form(relation.input), _form(relation.outputs)
    if isinstance(relation, Relation) and is_dataclass(relation):
        return type(relation), *(_form(getattr(relation, field.name)) for field in fields(relation))
    return relation
