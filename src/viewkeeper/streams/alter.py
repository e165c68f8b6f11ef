"""Streams and the views over them, altered and dropped: from a catalog to the next one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from viewkeeper.catalog.model import Catalog, Column, Index, InParts, PartView, Stream, Table, View
from viewkeeper.compiler.scope import did_you_mean, listed
from viewkeeper.compiler.statements import AlterView, CreateView, Drop, Identifier, RebuildView
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.inputs import inputs
from viewkeeper.plans.match import MatchPlan
from viewkeeper.plans.viewdf import Earlier, QueryPlan
from viewkeeper.streams.analyst import Analyst, NotByRows
from viewkeeper.streams.bind_plain import sources_in
from viewkeeper.streams.declare_streams import Known, declare_view, is_over_parts, new_views
from viewkeeper.streams.readers import made_of
from viewkeeper.streams.subscripts import lowest_at_least


@dataclass(frozen=True)
class Altered:
    """The new catalog; `redo` says from which part on a view (by its id) is to be computed anew, `renew` from which on
    with the dimension tables of now."""

    catalog: Catalog
    redo: dict[int, int] = field(default_factory=dict)
    renew: dict[int, int] = field(default_factory=dict)


def alter_view(catalog: Catalog, statement: AlterView, analyst: Analyst, known: Known) -> Altered:
    """The catalog in which a view has another definition; raises DeclarationError."""
    name, new = statement.view.name, statement.view
    old = _view(catalog, name, "ALTER VIEW ... AS")
    if isinstance(new, CreateView) and not is_over_parts(catalog, new):
        raise NotSupported(f"{old.name} is kept part by part, and its new query reads no stream, nor a view over one; "
                           "drop the view and create it again", *name.place)  # fmt: skip
    if isinstance(new, CreateView) and any(source is old for source, _ in sources_in(catalog, new.query.tree)):
        raise DeclarationError(f"{old.name} cannot be made of itself", *name.place)
    others = catalog.without({old.id})
    try:
        (*helpers, view) = new_views(others, new, analyst, known, _Ids(old.id, catalog.next_id))
    except NotByRows:
        raise NotSupported(f"{old.name} is kept part by part, and its new query takes rows of all parts together; "
                           "drop the view and create it again", *name.place) from None  # fmt: skip
    if helpers or not (isinstance(view.plan, QueryPlan) and isinstance(old.plan, QueryPlan)):
        return _replaced_whole(catalog, statement, old, analyst, known)
    _refuse_cycle(catalog, old, view, name)
    view, redo = _succeeding(catalog, statement, old, view, known)
    if redo is not None:
        _require_kept(catalog, view, redo, name, known)
    return Altered(_in_order(catalog.changing([view])), {} if redo is None else {old.id: redo})


class _Ids:
    """The old id for the view itself, new ones for all else."""

    def __init__(self, first: int, next_: int) -> None:
        self._ids = [first]
        self._next = next_

    def __call__(self) -> int:
        if self._ids:
            return self._ids.pop()
        self._next += 1
        return self._next - 1


def _replaced_whole(catalog: Catalog, statement: AlterView, old: PartView, analyst: Analyst, known: Known) -> Altered:
    """A view by PATTERN, WINDOW or MATCH_RECOGNIZE is filled from the oldest kept part: it is another view."""
    name = statement.view.name
    if statement.since is not None:
        raise NotSupported("a view by PATTERN, WINDOW or MATCH_RECOGNIZE is always filled from the oldest part that is "
                           "kept; leave out FROM", *name.place)  # fmt: skip
    users = users_of_parts(catalog, {old.id})
    if users:
        raise NotSupported(f"{old.name} is read by {listed(users)}, and a view by PATTERN, WINDOW or MATCH_RECOGNIZE "
                           "gets all its parts anew; drop what reads it first", *name.place)  # fmt: skip
    return Altered(declare_view(_without(catalog, {old.id}), statement.view, analyst, known))


def _succeeding(
    catalog: Catalog, statement: AlterView, old: PartView, new: PartView, known: Known
) -> tuple[PartView, int | None]:
    """The view with its new queries, and the old ones for older parts; and from which part on to compute anew."""
    name = statement.view.name
    newest, oldest = known.newest(old.id), known.oldest(old.id)
    if newest is None or oldest is None:
        if users_of_parts(catalog, {old.id}):
            new = replace(new, columns=_same_columns(catalog, old, new, name))
        return new, None
    if new.length != old.length:
        raise NotSupported(f"parts of {old.name} are {old.length} seconds long; drop the view and create it again to "
                           "give it others", *name.place)  # fmt: skip
    assert isinstance(old.plan, QueryPlan) and isinstance(new.plan, QueryPlan)
    since = newest + 1 if statement.since is None else statement.since
    columns = _same_columns(catalog, old, new, name)
    earlier: tuple[Earlier, ...] = ()
    if since > oldest:
        kept = tuple(each for each in old.plan.earlier if oldest < each.until < since)
        before = next((each for each in old.plan.earlier if since <= each.until), old.plan)  # of part since - 1
        earlier = (*kept, Earlier(since, before.initialize, before.update))
    plan = replace(new.plan, earlier=earlier)
    reads = tuple(dict.fromkeys(part.object for query in plan.queries for part in query.parts if part.object != old.id))
    dimensions = tuple(dict.fromkeys(table.object for query in plan.queries for table in query.tables))
    view = replace(new, columns=columns, plan=plan, reads=reads, dimensions=dimensions, first=old.first,
                   fills=old.fills)  # fmt: skip
    return view, since if since <= newest else None


def _same_columns(catalog: Catalog, old: PartView, new: PartView, name: Identifier) -> tuple[Column, ...]:
    """Columns that both definitions have: what is stored, and what others read, stays what it is."""
    advice = "a view that has parts keeps its columns: drop it and create it again"
    for one, other in zip(old.columns, new.columns, strict=False):
        if (one.name.lower(), one.type) != (other.name.lower(), other.type):
            raise DeclarationError(f"the column {one.name} {one.type} of {old.name} would become {other.name} "
                                   f"{other.type}; {advice}", *name.place)  # fmt: skip
    if len(old.columns) != len(new.columns):
        raise DeclarationError(f"{old.name} has {len(old.columns)} columns, and its new definition "
                               f"{len(new.columns)}; {advice}", *name.place)  # fmt: skip
    columns = tuple(replace(one, nullable=one.nullable or other.nullable)
                    for one, other in zip(old.columns, new.columns, strict=True))  # fmt: skip
    loose = [one.name for one, both in zip(old.columns, columns, strict=True) if one.nullable != both.nullable]
    users = users_of_parts(catalog, {old.id})
    if loose and users:
        raise DeclarationError(f"the column {loose[0]} of {old.name} was never NULL, and {listed(users)} relies on "
                               "that; COALESCE it", *name.place)  # fmt: skip
    return columns


def rebuild_view(catalog: Catalog, statement: RebuildView, known: Known) -> Altered:
    """ALTER VIEW ... REBUILD FROM: the catalog stays as it is; raises DeclarationError.

    A view that is stale may be rebuilt from the part on at which it stands: that part's dimension tables may be why.
    Where hidden helpers join with the dimension tables, it is their parts that are joined anew.
    """
    view = _view(catalog, statement.name, "REBUILD")
    newest, failing = known.newest(view.id), known.failing(view.id)
    last = newest if failing is None else failing
    if last is None or last < statement.since:
        there = "no part yet" if newest is None else f"parts up to {newest} only"
        raise DeclarationError(f"{view.name} has {there}: there is nothing to rebuild from part {statement.since} on",
                               *statement.name.place)  # fmt: skip
    made_of = [view, *_helpers_below(catalog, view)]
    for each in made_of:
        _require_kept(catalog, each, statement.since, statement.name, known)
    joining = {each.id: statement.since for each in made_of if each.dimensions}
    return Altered(catalog, {view.id: statement.since} | joining, joining)


def _require_kept(catalog: Catalog, view: PartView, since: int, name: Identifier, known: Known) -> None:
    """Raises DeclarationError where part `since` of a view, which is to be computed anew, reads what has expired."""
    lost, carried = known.lost(view.id), known.carried(view.id)
    least = since if lost is None else max(since, lost)
    for each in inputs(view):
        bound = known.lost(each.object)
        if bound is not None and each.object != view.id:
            least = max(least, lowest_at_least(each.low, bound))
    if isinstance(view.plan, MatchPlan) and carried is not None:
        least = max(least, carried + 1)
    if least > since:
        what = "its sources' parts have" if lost is None or lost <= since else "it has"
        raise DeclarationError(f"part {since} of {view.name} cannot be computed anew, since {what} expired; the first "
                               f"that can is {least}", *name.place)  # fmt: skip


def _helpers_below(catalog: Catalog, view: PartView) -> list[PartView]:
    """The hidden helpers that a view is made of."""
    found, waiting = dict[int, PartView](), list(view.reads)
    while waiting:
        below = catalog.by_id(waiting.pop())
        if isinstance(below, PartView) and below.hidden and below.id not in found:
            found[below.id] = below
            waiting += below.reads
    return list(found.values())


def _view(catalog: Catalog, name: Identifier, what: str) -> PartView:
    found = catalog.find(name.name)
    if isinstance(found, PartView) and not found.hidden:
        return found
    if isinstance(found, Stream):
        raise DeclarationError(f"{found.name} is a stream; {what} is for views", *name.place)
    if isinstance(found, (Table, View, Index)):
        raise NotSupported(f"{found.name} is not kept part by part, so {what} is not supported for it; drop it and "
                           "create it again", *name.place)  # fmt: skip
    names = [view.name for view in catalog.part_views if not view.hidden]
    raise DeclarationError(f"there is no view {name}" + did_you_mean(name.name, names), *name.place)


def drop(catalog: Catalog, statement: Drop) -> tuple[Catalog, str]:
    """The catalog without a stream or a view over streams (which is there), and its name as declared; with a view go
    the helpers that nothing else needs.  Raises DeclarationError where others read it."""
    name = statement.name
    found = catalog.find(name.name)
    assert isinstance(found, InParts)
    kind = "STREAM" if isinstance(found, Stream) else "VIEW"
    if isinstance(found, PartView) and found.hidden:
        users = users_of_parts(catalog, {found.id})
        raise DeclarationError(f"{found.name} is a hidden helper of {listed(users)}, and goes with what needs it",
                               *name.place)  # fmt: skip
    if kind != statement.kind:
        raise DeclarationError(f"{found.name} is a {kind.lower()}; use DROP {kind} {found.name}", *name.place)
    users = users_of_parts(catalog, {found.id})
    if users:
        message = f"{found.name} is used by {listed(users)}; drop what uses it first, or DROP ... CASCADE all of it"
        raise DeclarationError(message, *name.place)
    return _without(catalog, {found.id}), found.name


def users_of_dimension(catalog: Catalog, id_: int) -> list[str]:
    """The views over streams that join with a table or core view."""
    names = [view.name for view in catalog.part_views if id_ in view.dimensions and not view.hidden]
    return names + users_of_parts(catalog, {view.id for view in catalog.part_views
                                    if id_ in view.dimensions and view.hidden})  # fmt: skip


def users_of_parts(catalog: Catalog, ids: Collection[int]) -> list[str]:
    """The views that read one of `ids`; for a hidden helper that does, those that need the helper."""
    reached, names = set(ids), list[str]()
    for view in catalog.part_views:
        if reached & set(view.reads) and view.id not in ids:
            if view.hidden:
                reached.add(view.id)
            else:
                names.append(view.name)
    return names + [view.name for view in catalog.views if reached & set(view.reads)]


def _without(catalog: Catalog, ids: set[int]) -> Catalog:
    """The catalog without the streams and views `ids`, nor helpers that only they needed."""
    gone = set(ids)
    for view in reversed(catalog.part_views):
        if view.hidden and not any(view.id in other.reads for other in catalog.part_views if other.id not in gone):
            gone.add(view.id)
    return catalog.without(gone)


def _refuse_cycle(catalog: Catalog, old: PartView, new: PartView, name: Identifier) -> None:
    for id_ in (*new.reads, *new.dimensions):
        if id_ != old.id and old.id in made_of(catalog, [id_]):
            known = next(each.name for each in catalog.objects if each.id == id_)
            raise DeclarationError(f"{known} is made of {old.name}, so {old.name} cannot be made of {known}",
                                   *name.place)  # fmt: skip


def _in_order(catalog: Catalog) -> Catalog:
    """The catalog with each view over streams behind those it reads, and all else as it stands."""
    placed = {stream.id for stream in catalog.streams}
    waiting, ordered = list(catalog.part_views), list[PartView]()
    while waiting:
        view = next(each for each in waiting if placed >= set(each.reads))
        waiting.remove(view)
        placed.add(view.id)
        ordered.append(view)
    others = (item for item in catalog.objects if not isinstance(item, PartView))
    return replace(catalog, objects=(*others, *ordered))
