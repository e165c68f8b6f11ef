"""EXPLAIN of a MATCH_RECOGNIZE view: its machine, and what it keeps of the rows before."""

from __future__ import annotations

from collections.abc import Iterator

from viewkeeper.catalog.model import Catalog, PartView
from viewkeeper.plans.match import MatchElement, MatchPlan, MatchSlot
from viewkeeper.plans.text import expression_text


def explain(catalog: Catalog, view: PartView) -> list[str]:
    """The lines for `view`."""
    plan = view.plan
    assert isinstance(plan, MatchPlan)
    source = catalog.by_id(view.reads[0])
    name = source.name if source is not None else f"#{view.reads[0]}"
    groups = ", ".join(plan.columns[i].name for i in plan.partition)
    over = f"by ({groups})" if groups else "all rows as one partition, on one view server"
    pattern = " ".join(_element(plan, element) for element in plan.elements)
    lines = [
        f"MATCH_RECOGNIZE over {name}, {over}, rows of a part {_order(plan)}",
        f"pattern ({pattern}), greedy, after match skip {'past last row' if plan.past else 'to next row'}",
        *(f"  {variable}: {_condition(plan, i)}" for i, variable in enumerate(plan.variables)),
        *_machine(plan),
        f"of each match: {', '.join(_slot(plan, slot) for slot in plan.slots) or 'its partition columns'}",
        "a match is a row of the part in which it is decided: no later row can change it",
    ]
    return [*lines, *_kept(view, plan)]


def _order(plan: MatchPlan) -> str:
    terms = []
    for term in plan.order:
        direction = "" if term.ascending else " DESC"
        usual = term.nulls_first == term.ascending
        nulls = "" if usual else f" NULLS {'FIRST' if term.nulls_first else 'LAST'}"
        terms.append(f"{plan.columns[term.column].name}{direction}{nulls}")
    return f"in the order of {', '.join([*terms, 'then all columns'])}"


def _element(plan: MatchPlan, element: MatchElement) -> str:
    signs = {(1, 1): "", (0, None): "*", (1, None): "+", (0, 1): "?"}
    most = "" if element.most is None else element.most
    sign = signs.get((element.least, element.most), f"{{{element.least},{most}}}")
    return plan.variables[element.variable] + sign


def _condition(plan: MatchPlan, variable: int) -> str:
    condition = plan.conditions[variable]
    return "any row" if condition is None else expression_text(condition)


def _machine(plan: MatchPlan) -> Iterator[str]:
    """The states, 0 before a match and k behind position k, and by which variables they are left, preferred first."""
    positions = list(plan.positions())
    for state in range(len(positions)):
        goes = [state] if state and positions[state - 1][1] else []
        for after in range(state + 1, len(positions) + 1):
            goes.append(after)
            if not positions[after - 1][2]:
                break
        edges = ", ".join(f"{plan.variables[positions[to - 1][0]]} -> {to}" for to in goes)
        yield f"  state {state}: {edges}"
    yield f"  state {len(positions)}: accepts"


def _slot(plan: MatchPlan, slot: MatchSlot) -> str:
    of = "" if slot.variable is None else f" of {plan.variables[slot.variable]}"
    argument = "*" if slot.function == "count_star" else ""
    if slot.argument is not None:
        argument = expression_text(slot.argument)
    offset = f", {slot.offset}" if slot.offset else ""
    return f"{slot.function.removesuffix('_star')}({argument}{offset}){of}"


def _kept(view: PartView, plan: MatchPlan) -> Iterator[str]:
    if not view.helpers:
        yield "keeps nothing between parts: each row is a match or not by itself"
        return
    columns = ", ".join(plan.columns[i].name for i in plan.kept)
    yield f"keeps in {view.helpers[0].name}: of each group ({columns}) of"
    rows = len(list(plan.positions())) - 1
    endless = [plan.variables[e.variable] for e in plan.elements if e.most is None]
    if endless:
        names = " and ".join(dict.fromkeys(endless))
        yield (f"  the rows from the first on from which a match may still come: grows without bound while {names} "
               "goes on being satisfied")  # fmt: skip
        if not plan.past:
            yield "  a match from each of these rows: as many rows of matches as their number squared"
    elif rows:
        yield f"  the rows from the first on from which a match may still come: at most {rows}"
    if plan.depth:
        yield f"  the last {plan.depth} rows, for PREV: of every group there ever was"
    yield "late rows: recomputes the touched groups, until their open rows are as before"
