"""Expiry: which old parts may go, and letting them go (paper 003, sections 4.1 and 5.1).

A part stays while late data may still change a view's part that is computed from it, or a view's part to come reads it.
How far back late data reach is said by HORIZON; without one, as far back as rows are kept.  Parts of streams and views
go by age, where EXPIRE AFTER says so; parts of helpers as soon as nothing needs them.
"""

from __future__ import annotations

from viewkeeper.catalog.model import Catalog, PartView, Stream
from viewkeeper.streams.intake.taking import MICROSECONDS, too_late
from viewkeeper.streams.keeping.stage import Stage
from viewkeeper.streams.program import Input
from viewkeeper.streams.programs import program_of
from viewkeeper.streams.subscripts import UNBOUNDED, lowest_at_least
from viewkeeper.streams.viewdf import ViewDFPlan


def expire(stage: Stage) -> None:
    """Takes the parts that may go out of the part catalog, and the copies of dimension tables that none reads."""
    bounds = expirable(stage)
    for item in stage.catalog.parts():
        first, kept = stage.first(item.id), stage.kept(item.id)
        bound = bounds[item.id]
        if first is None or bound <= max(first, first if kept is None else kept):
            continue
        stage.set_kept(item.id, bound)
        for object_ in (item.id, *(each.id for each in item.helpers)) if isinstance(item, PartView) else (item.id,):
            stage.remove(object_, -UNBOUNDED, bound - 1)
    _forget_dimensions(stage)


def expirable(stage: Stage) -> dict[int, int]:
    """For each stream and part view the part before which all may go; -UNBOUNDED: none may."""
    catalog = stage.catalog
    changing = _changing(stage)
    needed = {item.id: stage.next(item.id) or -UNBOUNDED for item in catalog.parts()}
    for view in catalog.part_views:
        start = changing[view.id]
        for each in _all_inputs(catalog, view):
            low = -UNBOUNDED if start == -UNBOUNDED else each.low.at(start)
            needed[each.object] = min(needed[each.object], low)
        # What a part reads of the view's own parts before it, by carry or by its helpers.
        needed[view.id] = min(needed[view.id], start - 1 if start > -UNBOUNDED else start)
    return {item.id: min(needed[item.id], _by_age(stage, item)) for item in catalog.parts()}


def _changing(stage: Stage) -> dict[int, int]:
    """For each stream and view the lowest part that may still change or come; -UNBOUNDED: any may."""
    found: dict[int, int] = {}
    for item in stage.catalog.parts():
        if isinstance(item, Stream):
            found[item.id] = _late_from(stage, item)
            continue
        lowest = stage.next(item.id)
        for each in _all_inputs(stage.catalog, item):
            if each.object != item.id and lowest is not None:
                source = found[each.object]
                lowest = min(lowest, -UNBOUNDED if source == -UNBOUNDED else lowest_at_least(each.high, source))
        redo = stage.view(item.id).redo
        found[item.id] = -UNBOUNDED if lowest is None else min(lowest, lowest if redo is None else redo)
    return found


def _late_from(stage: Stage, stream: Stream) -> int:
    """The lowest part that late rows may still reach."""
    progress = stage.stream(stream.id)
    bound = too_late(stream, progress.watermark)
    if bound is None or progress.next is None:
        return -UNBOUNDED
    return min(bound // (stream.length * MICROSECONDS), progress.next)


def _by_age(stage: Stage, item: Stream | PartView) -> int:
    """The part before which all are older than EXPIRE AFTER says; of helpers, all are."""
    if isinstance(item, PartView) and item.kind == "helper":
        return UNBOUNDED
    if item.expire is None:
        return -UNBOUNDED
    if isinstance(item, Stream):
        watermark = stage.stream(item.id).watermark
        return -UNBOUNDED if watermark is None else (watermark // MICROSECONDS - item.expire) // item.length
    after = stage.next(item.id)
    return -UNBOUNDED if after is None else after - -(-item.expire // item.length)


def _all_inputs(catalog: Catalog, view: PartView) -> tuple[Input, ...]:
    if isinstance(view.plan, ViewDFPlan):
        return tuple(each for query in view.plan.queries for each in query.inputs)
    program = program_of(catalog, view)
    return (*program.inputs, *program.optional)


def _forget_dimensions(stage: Stage) -> None:
    """Lets go of copies that no kept part of a stream, and no rebuilt view, has recorded."""
    used: dict[int, set[int]] = {}
    for view in stage.catalog.part_views:
        for id_ in view.dimensions:
            used.setdefault(id_, set())
        for rebuilt in stage.view(view.id).rebuilt:
            for id_, version in rebuilt.dimensions:
                used.setdefault(id_, set()).add(version)
    for stream in stage.catalog.streams:
        for part in stage.index(stream.id):
            for id_, version in part.dimensions.items():
                if id_ in used:
                    used[id_].add(version)
    for id_, versions in used.items():
        for part in stage.index(id_):
            if part.part not in versions:
                stage.remove(id_, part.part, part.part)
