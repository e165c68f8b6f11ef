"""Whether all that can be built is built, as the progress of streams and views tells (paper 003, 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viewkeeper.catalog.model import Catalog, PartView, Stream
from viewkeeper.plans.inputs import inputs
from viewkeeper.streams.keeping.dimensions import last_change
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.subscripts import lowest_at_least
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.trace.snapshot import Snapshot

Progresses = Mapping[int, dict[str, Any]]


def is_settled(catalog: Catalog, progresses: Progresses) -> bool:
    """Whether every view that is not stale has all parts that can be built from those that exist."""
    for view in catalog.part_views:
        progress = ViewProgress.from_dict(progresses.get(view.id))
        if progress.stale is None and (progress.redo is not None or can_build(catalog, view, progresses)):
            return False
    return True


def may_be_mended(snapshot: Snapshot) -> bool:
    """Whether a view is stale since it could not read a dimension table, which has changed meanwhile."""
    for view in snapshot.catalog.part_views:
        tried = ViewProgress.from_dict(snapshot.progress.get(view.id)).tried
        if tried is not None and last_change(snapshot, view) > tried:
            return True
    return False


def can_build(catalog: Catalog, view: PartView, progresses: Progresses) -> bool:
    """Whether all that the next part of `view` reads exists."""
    part = _next_part(catalog, view, progresses)
    if part is None:
        return False
    first = ViewProgress.from_dict(progresses.get(view.id)).first
    for each in inputs(view, initial=first is None or part == first):
        after = _progress(catalog, each.object, progresses).next
        if each.object != view.id and (after is None or each.high.at(part) >= after):
            return False
    return True


def _next_part(catalog: Catalog, view: PartView, progresses: Progresses) -> int | None:
    """NEXT of a view; None while that is not settled, since a source has no part."""
    progress = ViewProgress.from_dict(progresses.get(view.id))
    if progress.next is not None:
        return progress.next
    first = view.first
    for each in inputs(view, initial=True):
        start = _progress(catalog, each.object, progresses).first
        if start is None:
            return None
        lowest = lowest_at_least(each.low, start)
        first = lowest if first is None else max(first, lowest)
    return first


def _progress(catalog: Catalog, id_: int, progresses: Progresses) -> StreamProgress | ViewProgress:
    data = progresses.get(id_)
    item = catalog.by_id(id_)
    return StreamProgress.from_dict(data) if isinstance(item, Stream) else ViewProgress.from_dict(data)
