"""What a view that is a query says of itself, for people: what it reads, its beginning, which parts late rows touch."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from viewkeeper.catalog.model import PartView
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.syntax import syntax_tree, tokenize
from viewkeeper.plans.references import Subscript, parts_text
from viewkeeper.plans.viewdf import NamedInput, PlainPlan, PlannedQuery, QueryPlan
from viewkeeper.streams.emptiness import Emptiness
from viewkeeper.streams.shown import ShownParts


def query_text(view: PartView, plan: QueryPlan, shown: ShownParts) -> Iterator[str]:
    """How `view` is kept by `plan`, a line for each fact."""
    if isinstance(plan, PlainPlan):
        yield f"part j reads {_reads(plan.update, 'j', shown)}"
        if plan.update.relation is None:
            yield "computed by Spark SQL, one query a part"
        else:
            yield "computed by viewkeeper's own operators; by Spark SQL where a part has very many rows"
    else:
        yield f"INITIALIZE: part i reads {_reads(plan.initialize, 'i', shown)}"
        yield f"UPDATE: part j reads {_reads(plan.update, 'j', shown)}"
    yield f"begins with {_beginning(view, plan, shown)}"
    for old in plan.earlier:
        yield f"parts before {old.until} were made by an older definition: {_reads(old.update, 'j', shown)}"
    if view.dimensions:
        names = ", ".join(map(shown.name, view.dimensions))
        yield (f"joins with {names}, as recorded with the newest stream part that is read; changes of them change no "
               "built part")  # fmt: skip
    if timed := _timed(plan):
        yield f"PART_TIMESTAMP, the time at which a part begins, is computed for {timed}"
    yield from _late(view, plan.update, shown)


def _beginning(view: PartView, plan: QueryPlan, shown: ShownParts) -> str:
    if view.first is not None:
        return f"part {view.first}: the smallest newest part of its sources when it was declared"
    text = "the lowest part that names no part before a source's first"
    if view.fills:
        return f"{text}, and is filled from there on"
    sources = dict.fromkeys(shown.name(part.object) for part in plan.initialize.parts)
    return f"{text}, once {' and '.join(sources)} {'has a part' if len(sources) == 1 else 'have parts'}"


def _reads(planned: PlannedQuery, variable: str, shown: ShownParts) -> str:
    aliases = _aliases(planned)
    return ", ".join(_reference(part, variable, aliases, shown) for part in planned.parts)


def _reference(part: NamedInput, variable: str, aliases: dict[str, str], shown: ShownParts) -> str:
    name = shown.name(part.object)
    alias, written = aliases.get(part.name, name), parts_text(name, part.low, part.high, variable)
    return written if alias.lower() == name.lower() else f"{written} as {alias}"


def _aliases(planned: PlannedQuery) -> dict[str, str]:
    source = Script(planned.query.sql)
    return {table.name: table.alias_or_name for table in syntax_tree(source, tokenize(source)).find_all(exp.Table)}


def _timed(plan: QueryPlan) -> str:
    found: dict[str, None] = {}
    for planned in (plan.initialize, plan.update):
        aliases = _aliases(planned)
        found.update(dict.fromkeys(aliases.get(name, name) for name in planned.timed))
    return ", ".join(found)


def _late(view: PartView, planned: PlannedQuery, shown: ShownParts) -> Iterator[str]:
    """Which parts late rows touch, and whether that ends."""
    own = [part for part in planned.parts if part.object == view.id]
    for part in planned.parts:
        if part.object == view.id:
            continue
        source = shown.name(part.object)
        if part.high.factor == 0 or part.low.factor == 0:
            yield f"late rows in a part of {source} that is named touch part j for as long as it is named"
            continue
        first, last = _lowest(part.high).text("p"), _greatest(part.low).text("p")
        touched = f"part {first}" if first == last else f"parts {first} to {last}"
        yield f"late rows in {source}[p] touch {touched}" + (", and what follows from it" if own else "")
    if not own:
        return
    names = ", ".join(dict.fromkeys(parts_text(view.name, part.low, part.high) for part in own))
    others = frozenset(part.name for part in planned.parts if part.object != view.id)
    if Emptiness.of(planned.query)(others):
        yield (f"note: part j reads {names}; a repair goes on through later parts until one comes out as it was, at "
               "the latest where the sources have no rows")  # fmt: skip
    else:
        yield (f"warning: part j reads {names} and hands rows on even where the sources have none: one late row may "
               "touch every later part, and such a repair may never end before the newest one")  # fmt: skip


def _lowest(high: Subscript) -> Subscript:
    """The lowest j whose `high` is at least p, as a subscript over p."""
    return Subscript(high.divisor, high.factor - 1 - high.offset, high.factor)


def _greatest(low: Subscript) -> Subscript:
    """The greatest j whose `low` is at most p, as a subscript over p."""
    return Subscript(low.divisor, low.divisor - 1 - low.offset, low.factor)
