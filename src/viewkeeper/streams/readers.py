"""Who reads streams, and views over them, as a whole: views that are not kept part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from viewkeeper.catalog.model import Catalog, Index, InParts, PartView, View


def parts_below(catalog: Catalog, ids: Iterable[int]) -> frozenset[int]:
    """The ids of the streams and views over them that the views `ids` read, themselves or through others."""
    found = _reached(catalog, ids, lambda item: item.reads if isinstance(item, View) else ())
    return frozenset(id_ for id_ in found if isinstance(catalog.by_id(id_), InParts))


def made_of(catalog: Catalog, ids: Iterable[int]) -> frozenset[int]:
    """The ids of all that `ids` are made of, themselves included."""
    return _reached(catalog, ids, _read_by)


def _read_by(item: object) -> Iterable[int]:
    if isinstance(item, PartView):
        return (*item.reads, *item.dimensions)
    return item.reads if isinstance(item, View) else ()


def _reached(catalog: Catalog, ids: Iterable[int], read_by: Callable[[object], Iterable[int]]) -> frozenset[int]:
    """`ids`, and what these read by `read_by`, themselves or through others."""
    seen: set[int] = set()
    waiting = list(ids)
    while waiting:
        id_ = waiting.pop()
        if id_ not in seen:
            seen.add(id_)
            waiting += read_by(catalog.by_id(id_))
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
