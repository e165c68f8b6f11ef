"""EXPLAIN of a view over streams: what each of the programs that keep it, or its query, says of itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from viewkeeper.catalog.model import Catalog, PartView, kind_of
from viewkeeper.maintenance.explained import quoted
from viewkeeper.plans.viewdf import QueryPlan
from viewkeeper.streams.declare_streams import Known, Nothing
from viewkeeper.streams.program_of_view import program_of
from viewkeeper.streams.query_text import query_text
from viewkeeper.streams.shown import ShownParts

Measured = Mapping[int, float]
"""What a part of a view, or of a helper, took last: seconds, by id."""


def explain(catalog: Catalog, view: PartView, known: Known | None = None, measured: Measured | None = None) -> str:
    """How `view` is kept, a line for each fact, and then each helper that it reads; with costs, as far as sizes are
    `known` and costs were `measured`."""
    names = {each.id: each.name for each in (*catalog.objects, *view.helpers, view)}
    shown = ShownParts(names, (known or Nothing()).sizes, measured or {})
    below = _helpers_below(catalog)
    lines = [f"view {_headline(view, shown)}", *_text(catalog, view, shown)]
    for helper in catalog.part_views:
        if helper.id not in below.get(view.id, ()):
            continue
        sharing = [each.name for each in catalog.part_views
                   if not each.hidden and each.id != view.id and helper.id in below[each.id]]  # fmt: skip
        if sharing:
            lines.append(f"shares {helper.name} with {', '.join(sharing)}")
        lines += [f"{_headline(helper, shown)}", *(f"  {line}" for line in _text(catalog, helper, shown))]
    return "\n".join(lines)


def picture(catalog: Catalog, view: PartView) -> str:
    """A flowchart of what `view` is made from (Mermaid): its helpers, and what they and it read."""
    objects = {each.id: each for each in catalog.objects}
    lines, seen, waiting = ["flowchart TD"], {view.id}, [view]
    while waiting:
        each = waiting.pop()
        lines.append(f"  o{each.id}[{quoted(each.name, each.plan.title)}]")
        for id_ in dict.fromkeys([*each.reads, *each.dimensions]):
            below = objects[id_]
            lines.append(f"  o{id_} --> o{each.id}")
            if id_ in seen:
                continue
            seen.add(id_)
            if isinstance(below, PartView) and below.hidden:
                waiting.append(below)
            else:
                lines.append(f"  o{id_}[{quoted(below.name, kind_of(below))}]")
    return "\n".join(lines)


def _headline(view: PartView, shown: ShownParts) -> str:
    took = f", {shown.measured[view.id]:.3g} s each (the mean of the last works)" if view.id in shown.measured else ""
    return f"{view.name}: {view.plan.title}, parts of {view.length} seconds{took}"


def _text(catalog: Catalog, view: PartView, shown: ShownParts) -> Iterable[str]:
    if isinstance(view.plan, QueryPlan):
        return query_text(view, view.plan, shown)
    return program_of(catalog, view).text(shown)


def _helpers_below(catalog: Catalog) -> dict[int, set[int]]:
    """For each view the hidden helpers that it reads, and those that they read."""
    below: dict[int, set[int]] = {}
    hidden = {view.id for view in catalog.part_views if view.hidden}
    for view in catalog.part_views:
        read = hidden.intersection(view.reads)
        below[view.id] = read.union(*(below[id_] for id_ in read))
    return below
