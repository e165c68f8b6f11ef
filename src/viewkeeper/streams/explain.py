"""EXPLAIN of a view over streams: what its parts are made of, which of them late rows touch, where it begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd

from sqlglot import exp

from viewkeeper.catalog.model import Catalog, PartPlan, PartView
from viewkeeper.compiler.parse_streams import AnyView
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.syntax import syntax_tree, tokenize
from viewkeeper.plans.match import MatchPlan
from viewkeeper.plans.pattern import PatternAnswer, PatternMatches
from viewkeeper.plans.references import Subscript
from viewkeeper.plans.viewdf import NamedInput, PlainPlan, PlannedQuery, QueryPlan, ViewDFPlan
from viewkeeper.plans.window import Window
from viewkeeper.streams.analyst import Analyst
from viewkeeper.streams.declare_streams import Known, Nothing, declare_view
from viewkeeper.streams.emptiness import Emptiness
from viewkeeper.streams.patterns.explain import explain as explain_pattern
from viewkeeper.streams.recognize.explain import explain as explain_match
from viewkeeper.streams.windows.explain import explain as explain_window

_TITLES: dict[type[PartPlan], str] = {
    ViewDFPlan: "a ViewDF", PlainPlan: "plain", PatternAnswer: "a pattern", Window: "a sliding window",
    MatchPlan: "MATCH_RECOGNIZE",
}  # fmt: skip


def explain_new_view(catalog: Catalog, statement: AnyView, analyst: Analyst, known: Known) -> str:
    """The plan that CREATE VIEW would make; nothing is declared."""
    declared = declare_view(catalog, statement, analyst, known)
    return explain(declared, declared.part_views[-1], known)


Measured = Mapping[int, float]
"""What a part of a view, or of a helper, took last: seconds, by id."""


def explain(catalog: Catalog, view: PartView, known: Known | None = None, measured: Measured | None = None) -> str:
    """How `view` is kept, a line for each fact; with costs, as far as sizes are `known` and costs were `measured`."""
    title = "a hidden helper" if view.hidden else _TITLES[type(view.plan)]
    lines = [f"view {view.name}: {title}, parts of {view.length} seconds"]
    if isinstance(view.plan, QueryPlan):
        lines += _queries(catalog, view, view.plan)
    else:
        lines += _generated(catalog, view, known or Nothing(), measured or {})
    return "\n".join(lines)


def _generated(catalog: Catalog, view: PartView, known: Known, measured: Measured) -> list[str]:
    match view.plan:
        case PatternAnswer() | PatternMatches():
            return explain_pattern(catalog, view)
        case MatchPlan():
            return explain_match(catalog, view)
        case _:
            return explain_window(catalog, view, known.sizes, measured)


def _queries(catalog: Catalog, view: PartView, plan: QueryPlan) -> Iterator[str]:
    if isinstance(plan, PlainPlan):
        yield f"part j reads {_reads(catalog, view, plan.update, 'j')}"
        if plan.update.relation is None:
            yield "computed by Spark SQL, one query a part"
        else:
            yield "computed by viewkeeper's own operators; by Spark SQL where a part has very many rows"
    else:
        yield f"INITIALIZE: part i reads {_reads(catalog, view, plan.initialize, 'i')}"
        yield f"UPDATE: part j reads {_reads(catalog, view, plan.update, 'j')}"
    yield f"begins with {_beginning(catalog, view, plan)}"
    for old in plan.earlier:
        yield f"parts before {old.until} were made by an older definition: {_reads(catalog, view, old.update, 'j')}"
    dimensions = [item.name for id_ in view.dimensions if (item := catalog.by_id(id_)) is not None]
    if dimensions:
        yield (f"joins with {', '.join(dimensions)}, as recorded with the newest stream part that is read; changes of "
               "them change no built part")  # fmt: skip
    if timed := _timed(plan):
        yield f"PART_TIMESTAMP, the time at which a part begins, is computed for {timed}"
    yield from _late(catalog, view, plan.update)


def _beginning(catalog: Catalog, view: PartView, plan: QueryPlan) -> str:
    if view.first is not None:
        return f"part {view.first}: the smallest newest part of its sources when it was declared"
    text = "the lowest part that names no part before a source's first"
    sources = dict.fromkeys(_name(catalog, view, part.object) for part in plan.initialize.parts)
    if view.fills:
        return f"{text}, and is filled from there on"
    return f"{text}, once {' and '.join(sources)} {'has a part' if len(sources) == 1 else 'have parts'}"


def _reads(catalog: Catalog, view: PartView, planned: PlannedQuery, variable: str) -> str:
    aliases = _aliases(planned)
    return ", ".join(_reference(catalog, view, part, variable, aliases) for part in planned.parts)


def _reference(catalog: Catalog, view: PartView, part: NamedInput, variable: str, aliases: dict[str, str]) -> str:
    name = _name(catalog, view, part.object)
    low, high = subscript_text(part.low, variable), subscript_text(part.high, variable)
    alias = aliases.get(part.name, name)
    written = f"{name}[{low}]" if low == high else f"{name}[{low}..{high}]"
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


def _late(catalog: Catalog, view: PartView, planned: PlannedQuery) -> Iterator[str]:
    """Which parts late rows touch, and whether that ends."""
    own = [part for part in planned.parts if part.object == view.id]
    for part in planned.parts:
        if part.object == view.id:
            continue
        source = _name(catalog, view, part.object)
        if part.high.factor == 0 or part.low.factor == 0:
            yield f"late rows in a part of {source} that is named touch part j for as long as it is named"
            continue
        first, last = subscript_text(_lowest(part.high), "p"), subscript_text(_greatest(part.low), "p")
        touched = f"part {first}" if first == last else f"parts {first} to {last}"
        yield f"late rows in {source}[p] touch {touched}" + (", and what follows from it" if own else "")
    if not own:
        return
    names = ", ".join(dict.fromkeys(_reference(catalog, view, part, "j", {}) for part in own))
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


def subscript_text(subscript: Subscript, variable: str) -> str:
    """A subscript as one would write it."""
    common = gcd(subscript.factor, subscript.divisor)
    factor, offset, divisor = subscript.factor // common, subscript.offset // common, subscript.divisor // common
    if factor == 0:
        return str(offset // divisor)
    text = variable if factor == 1 else f"{variable}*{factor}"
    text += f"{offset:+d}" if offset else ""
    if divisor == 1:
        return text
    return f"({text}) DIV {divisor}" if text != variable else f"{variable} DIV {divisor}"


def _name(catalog: Catalog, view: PartView, id_: int) -> str:
    if id_ == view.id:
        return view.name
    item = catalog.by_id(id_)
    return item.name if item is not None else f"object {id_}"
