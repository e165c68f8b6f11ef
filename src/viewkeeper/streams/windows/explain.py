"""EXPLAIN of a window view: the ViewDFs that its programs amount to, and what each strategy would cost."""

from __future__ import annotations

from collections.abc import Mapping

from viewkeeper.catalog.model import Catalog, PartView
from viewkeeper.plans import window as plans
from viewkeeper.plans.relations import Filter, InnerJoin, Project, Relation, Scan
from viewkeeper.plans.text import expression_text
from viewkeeper.plans.window import BLOCKS, CUMULATIVE, GREATEST, LEAST, RUNNING, Layout, PartAggregate, WindowPiece
from viewkeeper.streams.windows.cost import NAIVE, Sizes, candidates
from viewkeeper.streams.windows.declare_window import KnownSizes
from viewkeeper.streams.windows.window_programs import level_count

_STATES = {LEAST: "min", GREATEST: "max"}


def explain(
    catalog: Catalog, view: PartView, known_sizes: KnownSizes | None = None,
    measured: Mapping[int, float] | None = None,
) -> list[str]:  # fmt: skip
    """Lines about `view`, a window view or a helper of one; `known_sizes` as for `declare_window`, and `measured`: the
    seconds that a part of each object took last, by id, as far as they are known."""
    plan, measured = view.plan, measured or {}
    if not isinstance(plan, plans.Window):
        return _helper(catalog, view, measured)
    source = _name(catalog, plan.source)
    lines = [f"over {plan.window} parts of {source}, sliding by part{_took(measured, view.id)}"]
    for helper in _below(catalog, view):
        lines += _helper(catalog, helper, measured)
    for i, piece in enumerate(plan.pieces):
        lines += _piece(catalog, view, plan, i, piece)
    lines += _view_text(catalog, view, plan)
    sizes = _sizes(catalog, view, plan, known_sizes)
    for piece in plan.pieces:
        lines += _candidates(plan, piece, sizes, measured.get(view.id))
    shared = _shared(catalog, view)
    lines += [f"  shares {name} with {', '.join(others)}" for name, others in shared.items()]
    return lines


def _sizes(catalog: Catalog, view: PartView, plan: plans.Window, known_sizes: KnownSizes | None) -> Sizes:
    """Of the source's parts; groups as its pre-aggregate has them."""
    if known_sizes is None:
        return Sizes()
    source = known_sizes(plan.source, [])
    helper = next((each for each in _below(catalog, view) if isinstance(each.plan, PartAggregate)), None)
    groups = None if helper is None else known_sizes(helper.id, [])
    return Sizes() if source is None or groups is None else Sizes(source[0], groups[0])


def _below(catalog: Catalog, view: PartView) -> list[PartView]:
    """The helpers of a view, and theirs, each behind those it reads."""
    wanted = {view.id}
    for each in reversed(catalog.part_views):
        if each.id in wanted:
            wanted |= {i for i in each.reads if _is_helper(catalog, i)}
    return [each for each in catalog.part_views if each.id in wanted - {view.id}]


def _is_helper(catalog: Catalog, id_: int) -> bool:
    found = catalog.by_id(id_)
    return isinstance(found, PartView) and found.hidden


def _shared(catalog: Catalog, view: PartView) -> dict[str, list[str]]:
    users: dict[int, list[str]] = {}
    for other in catalog.part_views:
        if isinstance(other.plan, plans.Window) and other.id != view.id:
            for helper in _below(catalog, other):
                users.setdefault(helper.id, []).append(other.name)
    return {helper.name: users[helper.id] for helper in _below(catalog, view) if helper.id in users}


def _name(catalog: Catalog, id_: int) -> str:
    found = catalog.by_id(id_) or catalog.by_id(id_)
    return found.name if found is not None else f"object {id_}"


def _took(measured: Mapping[int, float], id_: int) -> str:
    return f" (last part: {measured[id_]:.3g} s)" if id_ in measured else ""


def _helper(catalog: Catalog, view: PartView, measured: Mapping[int, float]) -> list[str]:
    plan, name = view.plan, view.name
    assert isinstance(plan, (PartAggregate, plans.Halves, plans.Cumulated))
    keys = ", ".join(column.name for column in (*plan.layout.keys, *plan.layout.values))
    group = f" GROUP BY {keys}" if keys else ""
    took = _took(measured, view.id)
    if isinstance(plan, PartAggregate):
        keys = ", ".join(map(expression_text, (*plan.keys, *plan.values)))
        group = f" GROUP BY {keys}" if keys else ""
        return [
            f"  UPDATE {name}[j] AS SELECT {', '.join(_made(plan))} FROM {_from(plan.input, plan.source)}{group} "
            f"PARTITION LENGTH {view.length}{took}"
        ]
    below = _name(catalog, plan.below)
    merged = ", ".join([keys] * bool(keys) + _merged(plan.layout))
    if isinstance(plan, plans.Halves):
        return [f"  UPDATE {name}[j] AS SELECT {merged} FROM {below}[2*j..2*j+1]{group} PARTITION LENGTH "
                f"{view.length}{took}"]  # fmt: skip
    return [f"  UPDATE {name}[j] AS SELECT {merged} FROM ({below}[j] UNION ALL {name}[j-1]){group} PARTITION LENGTH "
            f"{view.length}{took} -- a late row touches every later part"]  # fmt: skip


def _made(plan: PartAggregate) -> list[str]:
    texts = [expression_text(each) for each in (*plan.keys, *plan.values)]
    for slot in plan.layout.slots:
        if slot.measure < 0:
            texts.append("count(*) AS rows")
        else:
            argument = expression_text(plan.measures[slot.measure])
            if slot.kind == plans.SQUARES:
                argument = f"{argument} * {argument}"
            function = _STATES.get(slot.kind) or ("count" if slot.kind == plans.COUNT else "sum")
            texts.append(f"{function}({argument}) AS {slot.kind}_{slot.measure}")
    return texts


def _merged(layout: Layout) -> list[str]:
    names = [slot.kind if slot.measure < 0 else f"{slot.kind}_{slot.measure}" for slot in layout.slots]
    return [
        f"{_STATES.get(slot.kind, 'sum')}({name}) AS {name}" for slot, name in zip(layout.slots, names, strict=True)
    ]


def _from(relation: Relation, source: int) -> str:
    match relation:
        case Scan():
            return f"{relation.name}[j]" if relation.object == source else f"{relation.name} as recorded for j"
        case Filter():
            return f"{_from(relation.input, source)} WHERE {expression_text(relation.predicate)}"
        case Project():
            outputs = ", ".join(map(expression_text, relation.outputs))
            return f"(SELECT {outputs} FROM {_from(relation.input, source)})"
        case InnerJoin():
            pairs = zip(relation.left_keys, relation.right_keys, strict=True)
            on = " AND ".join(f"{expression_text(a)} = {expression_text(b)}" for a, b in pairs)
            rest = f" AND {expression_text(relation.residual)}" if relation.residual is not None else ""
            return f"{_from(relation.left, source)} JOIN {_from(relation.right, source)} ON {on}{rest}"
    return type(relation).__name__


def _piece(catalog: Catalog, view: PartView, plan: plans.Window, i: int, piece: WindowPiece) -> list[str]:
    """How one piece of the window is had, as a ViewDF."""
    helper = _name(catalog, piece.object)
    keys = ", ".join(column.name for column in (*piece.layout.keys, *piece.layout.values))
    group = f" GROUP BY {keys}" if keys else ""
    merged, w = ", ".join([keys] * bool(keys) + _merged(piece.layout)), plan.window
    whole = f"{helper}[j-{w - 1}..j]" if w > 1 else f"{helper}[j]"
    if piece.strategy == RUNNING:
        own = next(each.name for each in view.helpers if each.id == piece.own)
        source = f"({own}[j-1] UNION ALL {helper}[j] UNION ALL -1 * {helper}[j-{w}])"
        return [f"  UPDATE {own}[j] AS SELECT {merged} FROM {source}{group} HAVING sum(rows) > 0"]
    if piece.strategy == CUMULATIVE:
        since = _name(catalog, piece.since or 0)
        source = f"({since}[j] UNION ALL -1 * {since}[j-{w}])"
        return [f"  piece {i}: SELECT {merged} FROM {source}{group} HAVING sum(rows) > 0"]
    if piece.strategy == BLOCKS:
        levels = ", ".join([helper, *(_name(catalog, level) for level in piece.levels)])
        return [f"  piece {i}: SELECT {merged} FROM {whole}{group}, taken from the fewest blocks of {levels}"]
    return [f"  piece {i}: SELECT {merged} FROM {whole}{group}"]


def _view_text(catalog: Catalog, view: PartView, plan: plans.Window) -> list[str]:
    outputs = ", ".join(
        f"{expression_text(output)} AS {column.name}" for output, column in zip(plan.outputs, plan.columns, strict=True)
    )
    having = f" HAVING {expression_text(plan.having)}" if plan.having is not None else ""
    return [f"  UPDATE {view.name}[j] AS SELECT {outputs} FROM the pieces{having} PARTITION LENGTH {view.length}"]


def _candidates(plan: plans.Window, piece: WindowPiece, sizes: Sizes, measured: float | None) -> list[str]:
    kinds = ", ".join(dict.fromkeys(slot.kind for slot in piece.layout.slots))
    what = f"values of {', '.join(c.name for c in piece.layout.values)}" if piece.layout.values else kinds
    lines = [f"  strategies for {what}, with about {sizes.rows:.3g} rows and {sizes.groups:.3g} groups a part:"]
    for each in candidates(piece.layout, plan.window, level_count(plan.window), sizes):
        chosen = each.strategy == piece.strategy
        mark = "*" if chosen else " "
        last = f", last measured {measured:.3g} s" if chosen and measured is not None else ""
        forced = " (by hint)" if chosen and plan.hint == piece.strategy else ""
        more = "" if each.strategy != NAIVE else ", with the rows aggregated again"
        lines.append(f"  {mark} {each.strategy}{forced}: about {each.seconds:.3g} s a part{last}; {each.note}{more}")
    return lines
