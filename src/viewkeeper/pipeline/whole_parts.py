"""Views that read streams, and views over them, as a whole: what had expired when they were declared.

Such a view has the rows of all parts that were kept when it was declared, and of all that came since; without FORGET
EXPIRED they stay.  So what is declared later, when more has expired, shares nothing with it, and cannot be filled
through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from viewkeeper.catalog.model import Catalog, InParts, View
from viewkeeper.compiler.bind import BoundView
from viewkeeper.compiler.part_references import quoted
from viewkeeper.compiler.statements import CreateView, Identifier
from viewkeeper.errors import DeclarationError
from viewkeeper.plans import maintenance as plan
from viewkeeper.streams.declare_streams import Known, Nothing
from viewkeeper.streams.readers import parts_below


def with_parts_of(catalog: Catalog, bound: BoundView, statement: CreateView, known: Known) -> BoundView:
    """`bound` with what of the streams that it reads has expired; raises DeclarationError where it would read what has
    through a view."""
    if not catalog.streams:
        return bound
    require_fillable(catalog, bound.reads, statement.name, known)
    read = [id_ for id_ in bound.reads if isinstance(catalog.by_id(id_), InParts)]
    lost = tuple((id_, part) for id_ in read if (part := known.lost(id_)) is not None)
    return replace(bound, forgets=statement.forgets, lost=lost)


def require_fillable(catalog: Catalog, ids: Iterable[int], name: Identifier, known: Known) -> None:
    """Raises DeclarationError where one of `ids`, which `name` is to be built on, has rows that are nowhere else."""
    for id_ in ids:
        item = catalog.by_id(id_)
        if isinstance(item, View) and parts_below(catalog, [id_]):
            for source in arrivals_below(catalog, item):
                if not source.forgets and known.lost(source.object) != source.since:
                    message = (f"{item.name} has rows of parts of {source.name} that have expired, so {name} cannot be "
                               f"filled through it: read {source.name} itself, or create {item.name} anew with FORGET "
                               "EXPIRED")  # fmt: skip
                    raise DeclarationError(message, *name.place)


def arrivals_below(catalog: Catalog, view: View) -> Iterator[plan.Arrivals]:
    """By what rows of parts come into `view`, itself or through others."""
    whole = plan.plan_of(catalog)
    store = [o for o in whole.operators if isinstance(o, plan.ViewTable) and o.state.id == view.stored.state.id]
    ids = plan.needed(whole, store)
    return (o for o in whole.operators if isinstance(o, plan.Arrivals) and o.id in ids)


def declaration_of(view: View) -> str:
    """CREATE VIEW as it would declare `view` again."""
    columns = ", ".join(quoted(column.name) for column in view.columns)
    return f"CREATE VIEW {quoted(view.name)} ({columns}) AS {view.sql}{' FORGET EXPIRED' * view.forgets}"


class LostAsDeclared(Nothing):
    """What had expired when the views that wait to be filled were declared: since then nothing of it could."""

    def __init__(self, catalog: Catalog) -> None:
        self._lost: dict[int, int] = {}
        for source in plan.plan_of(catalog).operators:
            if isinstance(source, plan.Arrivals) and source.since is not None:
                self._lost[source.object] = max(source.since, self._lost.get(source.object, source.since))

    def lost(self, id_: int) -> int | None:
        """The part before which all had expired, None where none had."""
        return self._lost.get(id_)
