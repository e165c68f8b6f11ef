"""Who reads streams, and views over them, as a whole: views that are not kept part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from viewkeeper.catalog.model import Catalog, Index, InParts, PartView, View


def parts_below(catalog: Catalog, ids: Iterable[int]) -> frozenset[int]:
    """The ids of the streams and views over them that the views `ids` read, themselves or through others."""
    seen: set[int] = set()
    waiting = list(ids)
    while waiting:
        id_ = waiting.pop()
        item = catalog.by_id(id_)
        if id_ not in seen and isinstance(item, View):
            waiting += item.reads
        seen.add(id_)
    return frozenset(id_ for id_ in seen if isinstance(catalog.by_id(id_), InParts))


def made_of(catalog: Catalog, ids: Iterable[int]) -> frozenset[int]:
    """The ids of all that `ids` are made of, themselves included."""
    seen: set[int] = set()
    waiting = list(ids)
    while waiting:
        id_ = waiting.pop()
        item = catalog.by_id(id_)
        if id_ not in seen and isinstance(item, View | PartView):
            waiting += [*item.reads, *(item.dimensions if isinstance(item, PartView) else ())]
        seen.add(id_)
    return frozenset(seen)


def fills_from(catalog: Catalog) -> frozenset[int]:
    """The ids of those from which views or indexes are being filled: none of their parts expires meanwhile."""
    if not catalog.streams:
        return frozenset()
    return parts_below(catalog, _being_filled(catalog))


def _being_filled(catalog: Catalog) -> Iterator[int]:
    items: list[View | Index] = [*catalog.views, *catalog.indexes]
    for item in items:
        if item.filled is None and item.stopped is None:
            yield item.on if isinstance(item, Index) else item.id
