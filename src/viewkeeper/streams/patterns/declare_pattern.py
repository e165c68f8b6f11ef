"""A bound pattern query to plans: the Helper's (a new one, or one that is there already), and the view's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from viewkeeper.catalog.model import Catalog, PartView, Stream
from viewkeeper.compiler.bind_pattern import bind_pattern
from viewkeeper.compiler.statements import CreatePatternView
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import ColumnRef, Expression
from viewkeeper.plans.pattern import (
    BoundPattern,
    PatternAnswer,
    PatternCall,
    PatternMatches,
    PatternMeasure,
    PatternOrder,
    PatternSlot,
    PatternVariable,
)  # fmt: skip
from viewkeeper.plans.raising import shared_form
from viewkeeper.plans.rewriting import references, renumber, walk
from viewkeeper.streams.patterns.block_shapes import helper_shape
from viewkeeper.streams.patterns.fsm import relation_of

_MEASURES = {"count": "count", "sum": "sum", "avg": "sum", "min": "min", "max": "max", "first": "first", "last": "last"}


def declare_pattern(
    catalog: Catalog, statement: CreatePatternView, source: Stream | PartView, new_id: Callable[[], int]
) -> list[PartView]:
    """The views that `statement` makes: its Helper, if none that is there will do, and the view itself, last.

    `source` is what its FROM names.  Raises DeclarationError or NotSupported with the place.
    """
    time = source.time if isinstance(source, Stream) else None
    bound = bind_pattern(statement, source.columns, time, catalog.zone)
    single = _is_single(source, bound)
    if time is None and not bound.order and not single:
        message = (f"a part of {source.name} may hold several rows of a group; say by ORDER BY in which order the "
                   "pattern takes them")  # fmt: skip
        tree = statement.query.tree
        raise statement.query.error(message, tree.args.get("from_") or tree, NotSupported)
    matches = _matches(bound, source.id, single, statement.limit)
    known = _shared(catalog, matches)
    views = []
    if known is None:
        id_ = new_id()
        columns = helper_shape(matches, source.columns).columns
        name = _free_name(catalog, f"{statement.name.name}__matches")
        known = PartView(id_, name, statement.query.sql, columns, source.length, (source.id,), (), matches,
                         fills=True)  # fmt: skip
        views.append(known)
    assert isinstance(known.plan, PatternMatches)
    answer = PatternAnswer(known.id, bound, _measures_of(bound.calls, known.plan), _unique(bound))
    view = PartView(new_id(), statement.name.name, bound.sql, bound.columns, source.length, (known.id,), (),
                    answer, fills=True, expire=statement.expire)  # fmt: skip
    return [*views, view]


def _free_name(catalog: Catalog, wanted: str) -> str:
    """A name that no other hidden view has: a shared Helper outlives the view for which it was made."""
    name, number = wanted, 1
    while catalog.find(name) is not None:
        number += 1
        name = f"{wanted}_{number}"
    return name


def _is_single(source: Stream | PartView, bound: BoundPattern) -> bool:
    """Whether a part of the source has at most one row of a group, as far as its plan says."""
    unique = getattr(source.plan, "unique", None) if isinstance(source, PartView) else None
    keys = {key.index for key in bound.keys if isinstance(key, ColumnRef)}
    return unique is not None and set(unique) <= keys


def _unique(bound: BoundPattern) -> tuple[int, ...] | None:
    """The positions of the grouping columns among the outputs; None if one is missing."""
    places = {output.index: i for i, output in reversed(list(enumerate(bound.outputs)))
              if isinstance(output, ColumnRef)}  # fmt: skip
    wanted = range(len(bound.keys))
    return tuple(places[i] for i in wanted) if all(i in places for i in wanted) else None


def _matches(bound: BoundPattern, source: int, single: bool, limit: int | None) -> PatternMatches:
    width, first_slot = bound.width, 2 * bound.width
    places = sorted({(c.earlier, i - first_slot) for c in bound.conditions for i in references(c.predicate)
                     if i >= first_slot})  # fmt: skip
    number = {place: first_slot + k for k, place in enumerate(places)}
    own: dict[int, list[Expression]] = {}
    before: dict[int, list[Expression]] = {}
    cross: dict[int, list[Expression]] = {}
    until: dict[tuple[int, int], int] = {}
    for condition in bound.conditions:
        read = references(condition.predicate)
        remembered = [(condition.earlier, i - first_slot) for i in read if i >= first_slot]
        for place in remembered:
            until[place] = max(until.get(place, 0), condition.owner)
        position = {i: i for i in read if i < first_slot}
        position |= {first_slot + column: number[earlier, column] for earlier, column in remembered}
        kind = cross if remembered else before if any(i >= width for i in read) else own
        kind.setdefault(condition.owner, []).append(renumber(condition.predicate, position))
    variables = tuple(
        PatternVariable(name, plus, tuple(own.get(v, ())), tuple(before.get(v, ())), tuple(cross.get(v, ())))
        for v, (name, plus) in enumerate(zip(bound.variables, bound.plus, strict=True), 1)
    )
    slots = tuple(_slot(bound, place, k, until[place], variables) for k, place in enumerate(places))
    measures = _measures(bound.calls)
    used = [term for variable in variables for term in variable.before + variable.cross]
    used += [measure.argument for measure in measures]
    previous = {i - width for term in used for i in references(term) if width <= i < first_slot}
    previous |= {slot.column - width for slot in slots if slot.column >= width}
    order = () if single else bound.order
    detailed = any(measure.variable for measure in measures)
    return PatternMatches(source, width, variables, bound.keys, order, bound.time, single, slots,
                          tuple(sorted(previous)), measures, detailed, limit)  # fmt: skip


def _slot(
    bound: BoundPattern, place: tuple[int, int], k: int, until: int, variables: Sequence[PatternVariable]
) -> PatternSlot:
    variable, column = place
    first_slot = 2 * bound.width
    uses = [term for each in variables for term in each.cross if first_slot + k in references(term)]
    type_ = next(node.type for term in uses for node in walk(term)
                 if isinstance(node, ColumnRef) and node.index == first_slot + k)  # fmt: skip
    return PatternSlot(variable, column, until, type_, relation_of(k, uses, first_slot))


def _measures(calls: Sequence[PatternCall]) -> tuple[PatternMeasure, ...]:
    """What the calls need, each thing once."""
    found: dict[object, PatternMeasure] = {}
    for call in calls:
        if call.argument is not None:
            measure = _measure(call)
            found.setdefault(_same(measure), measure)
    return tuple(found.values())


def _measure(call: PatternCall) -> PatternMeasure:
    assert call.argument is not None
    return PatternMeasure(_MEASURES[call.function], call.variable, call.argument)


def _same(measure: PatternMeasure) -> object:
    return measure.function, measure.variable, shared_form(measure.argument)


def _measures_of(calls: Sequence[PatternCall], matches: PatternMatches) -> tuple[int, ...]:
    places = {_same(measure): m for m, measure in enumerate(matches.measures)}
    return tuple(-1 if call.argument is None else places[_same(_measure(call))] for call in calls)


def _shared(catalog: Catalog, matches: PatternMatches) -> PartView | None:
    """A Helper that finds the same matches and keeps all that is needed."""
    wanted = {_same(measure) for measure in matches.measures}
    for view in catalog.part_views:
        there = view.plan
        if (
            isinstance(there, PatternMatches) and _form(there) == _form(matches)
            and set(matches.previous) <= set(there.previous) and wanted <= {_same(m) for m in there.measures}
        ):  # fmt: skip
            return view
    return None


def _form(matches: PatternMatches) -> PatternMatches:
    """Equal for two plans that find the same matches: without measures, names and places that say nothing."""
    variables = tuple(
        PatternVariable("", v.plus, _forms(v.own), _forms(v.before), _forms(v.cross)) for v in matches.variables
    )
    order = tuple(PatternOrder(shared_form(o.expression), o.ascending, o.nulls_first) for o in matches.order)
    return replace(matches, variables=variables, keys=_forms(matches.keys), order=order, measures=(), previous=(),
                   detailed=False)  # fmt: skip


def _forms(expressions: Sequence[Expression]) -> tuple[Expression, ...]:
    return tuple(map(shared_form, expressions))
