"""Expiry: which old parts may go, and letting them go (paper 003, sections 4.1 and 5.1).

A part stays while late data may still change a view's part that is computed from it, or a view's part to come reads it.
How far back late data reach is said by HORIZON, or by EXPIRE AFTER where there is none; without either, as far back as
rows are kept.  Parts of streams and views go by age, where EXPIRE AFTER says so; parts of hidden helpers, and what
programs keep for themselves, as soon as nothing needs them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewkeeper.catalog.model import Catalog, PartView, Stream
from viewkeeper.plans.references import Input
from viewkeeper.plans.viewdf import QueryPlan
from viewkeeper.streams.intake.taking import MICROSECONDS, too_late
from viewkeeper.streams.keeping.stage import RoundStage
from viewkeeper.streams.part_program import Carry
from viewkeeper.streams.program_of_view import program_of
from viewkeeper.streams.readers import fills_from
from viewkeeper.streams.subscripts import UNBOUNDED, lowest_at_least
from viewkeeper.trace.points import reached


@dataclass
class Needs:
    """By id: `changing` is the lowest part of a stream or view that may still change or come, `parts` the lowest one
    that is needed for that, `carried` the same of what a view's program keeps beside it; `dimensions` is the time
    (seconds) from which on the parts of streams need the versions of a dimension table that are recorded with them.
    -UNBOUNDED: all are needed."""

    changing: dict[int, int]
    parts: dict[int, int]
    carried: dict[int, int]
    dimensions: dict[int, int]


def expire(stage: RoundStage) -> None:
    """Takes the parts that may go out of the part catalog, and the copies of dimension tables that none reads."""
    needs, filling = needs_of(stage), fills_from(stage.catalog)
    for item in stage.catalog.in_parts:
        first, kept = stage.first(item.id), stage.kept(item.id)
        if first is None or item.id in filling:
            continue
        bound = min(needs.parts[item.id], _by_age(stage, item))
        if bound > max(first, first if kept is None else kept):
            stage.set_kept(item.id, bound)
            stage.remove(item.id, -UNBOUNDED, bound - 1)
        if isinstance(item, PartView):
            _let_go_of_own(stage, item, needs.carried[item.id], needs.changing[item.id])
    _forget_dimensions(stage, needs)
    if not stage.is_empty:
        reached("parts expired")


def needs_of(stage: RoundStage) -> Needs:
    """What must stay, of everything."""
    catalog = stage.catalog
    needs = Needs(_changing(stage), {}, {}, {})
    for item in catalog.in_parts:
        after, late = stage.next(item.id), needs.changing[item.id] if isinstance(item, Stream) else UNBOUNDED
        needs.parts[item.id] = -UNBOUNDED if after is None else min(after, late)
    for view in catalog.part_views:
        start = needs.changing[view.id]
        inputs, carry = _inputs(catalog, view)
        for each in inputs:
            low = -UNBOUNDED if start == -UNBOUNDED else each.low.at(start)
            needs.parts[each.object] = min(needs.parts[each.object], low)
        needs.carried[view.id] = _carried(stage, inputs, start, carry)
        if carry != "none":
            needs.parts[view.id] = min(needs.parts[view.id], needs.carried[view.id])
        if carry == "row":
            needs.parts[inputs[0].object] = min(needs.parts[inputs[0].object], needs.carried[view.id])
        _need_dimensions(needs, catalog, view, inputs, start)
    return needs


def _carried(stage: RoundStage, inputs: tuple[Input, ...], start: int, carry: Carry) -> int:
    """The lowest own part that part `start` is computed from."""
    if start == -UNBOUNDED or carry == "none":
        return start
    if carry == "part":
        return start - 1
    before = stage.index(inputs[0].object).previous_with_rows(start)
    return start if before is None else before


def _need_dimensions(needs: Needs, catalog: Catalog, view: PartView, inputs: tuple[Input, ...], start: int) -> None:
    since = -UNBOUNDED
    if start > -UNBOUNDED:
        read = [(each, catalog.source(each.object).length) for each in inputs if each.object != view.id]
        since = min((each.low.at(start) * length for each, length in read), default=since)
    for id_ in view.dimensions:
        needs.dimensions[id_] = min(since, needs.dimensions.get(id_, since))


def _changing(stage: RoundStage) -> dict[int, int]:
    """For each stream and view the lowest part that may still change or come; -UNBOUNDED: any may."""
    found: dict[int, int] = {}
    for item in stage.catalog.in_parts:
        if isinstance(item, Stream):
            found[item.id] = _late_from(stage, item)
            continue
        lowest = stage.next(item.id)
        for each in _inputs(stage.catalog, item)[0]:
            if each.object != item.id and lowest is not None:
                source = found[each.object]
                lowest = min(lowest, -UNBOUNDED if source == -UNBOUNDED else lowest_at_least(each.high, source))
        progress = stage.view(item.id)
        waiting = [part for part in (progress.redo, progress.renew) if part is not None]
        found[item.id] = -UNBOUNDED if lowest is None else min([lowest, *waiting])
    return found


def _late_from(stage: RoundStage, stream: Stream) -> int:
    """The lowest part that late rows may still reach."""
    progress = stage.stream(stream.id)
    bound = too_late(stream, progress.watermark)
    if bound is None or progress.next is None:
        return -UNBOUNDED
    return min(bound // (stream.length * MICROSECONDS), progress.next)


def _by_age(stage: RoundStage, item: Stream | PartView) -> int:
    """The part before which all are older than EXPIRE AFTER says; of helpers, all are."""
    if isinstance(item, PartView) and item.hidden:
        return UNBOUNDED
    if item.expire is None:
        return -UNBOUNDED
    if isinstance(item, Stream):
        watermark = stage.stream(item.id).watermark
        return -UNBOUNDED if watermark is None else (watermark // MICROSECONDS - item.expire) // item.length
    after = stage.next(item.id)
    return -UNBOUNDED if after is None else after - -(-item.expire // item.length)


def _inputs(catalog: Catalog, view: PartView) -> tuple[tuple[Input, ...], Carry]:
    """What any part of a view reads, and what it carries."""
    if isinstance(view.plan, QueryPlan):
        return tuple(each for query in view.plan.queries for each in query.inputs), "none"
    program = program_of(catalog, view)
    return (*program.inputs, *program.optional), program.carry


def _let_go_of_own(stage: RoundStage, view: PartView, bound: int, changing: int) -> None:
    """What a view's program keeps beside it goes, and what is known of rebuilt parts that are no more."""
    progress = stage.view(view.id)
    if view.helpers and bound > -UNBOUNDED and (progress.carried is None or progress.carried < bound):
        for helper in view.helpers:
            stage.remove(helper.id, -UNBOUNDED, bound - 1)
        progress = replace(progress, carried=bound)
    if progress.kept is not None and progress.rebuilt:
        there = tuple(each for each in progress.rebuilt if each.last >= min(progress.kept, changing))
        progress = replace(progress, rebuilt=there)
    stage.set_progress(view.id, progress)


def _forget_dimensions(stage: RoundStage, needs: Needs) -> None:
    """Lets go of the copies of dimension tables that no part will be computed from again."""
    used: dict[int, set[int]] = {id_: set() for id_ in needs.dimensions}
    for view in stage.catalog.part_views:
        for rebuilt in stage.view(view.id).rebuilt:
            if rebuilt.last >= needs.changing[view.id]:
                for id_, version in rebuilt.dimensions:
                    used.setdefault(id_, set()).add(version)
    for id_, since in needs.dimensions.items():
        for stream in stage.catalog.streams:
            recorded = stage.index(stream.id).recorded(since // stream.length)
            used[id_].update(each[id_] for each in recorded if id_ in each)
    for id_, versions in used.items():
        for part in stage.index(id_):
            if part.part not in versions:
                stage.remove(id_, part.part, part.part)
