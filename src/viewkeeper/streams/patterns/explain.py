"""EXPLAIN of a pattern view: its machine, the ViewDFs that it stands for (paper 003, Algorithms 1 to 3), its size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from viewkeeper.catalog.model import Catalog, Column, PartView
from viewkeeper.plans.expressions import ColumnRef, Expression
from viewkeeper.plans.pattern import PatternAnswer, PatternMatches, PatternMeasure
from viewkeeper.plans.rewriting import rewrite
from viewkeeper.plans.text import expression_text
from viewkeeper.streams.patterns.fsm import Edge, Machine


def explain(catalog: Catalog, view: PartView) -> list[str]:
    """The lines for a pattern view, or for a Helper."""
    helper = catalog.by_id(view.plan.helper) if isinstance(view.plan, PatternAnswer) else view
    assert isinstance(helper, PartView) and isinstance(helper.plan, PatternMatches)
    source = catalog.source(helper.plan.source)
    averaged = set()
    if isinstance(view.plan, PatternAnswer):
        averaged = {
            m for call, m in zip(view.plan.bound.calls, view.plan.measures, strict=True) if call.function == "avg"
        }
    text = _HelperText(helper.plan, helper.name, source.name, source.columns, averaged)
    lines = [f"pattern [{', '.join(v.name + '+' * v.plus for v in helper.plan.variables)}] over {source.name}, "
             f"{text.groups()}, {text.order()}", *text.machine()]  # fmt: skip
    others = [each.name for each in catalog.part_views if each is not view and isinstance(each.plan, PatternAnswer)
              and each.plan.helper == helper.id]  # fmt: skip
    if others:
        lines.append(f"{helper.name} is shared with {', '.join(others)}")
    lines += ["", *text.viewdf(source.length)]
    if isinstance(view.plan, PatternAnswer):
        lines += ["", *_final(view, view.plan, helper, text)]
    return lines


class _HelperText:
    """`averaged` are the measures of which the number of values is shown too."""

    def __init__(
        self, plan: PatternMatches, name: str, source: str, columns: Sequence[Column], averaged: set[int]
    ) -> None:
        self._plan, self._name, self._source, self._columns = plan, name, source, columns
        self._averaged = averaged
        self._machine = Machine(plan)
        self.keys = [key.name if isinstance(key, ColumnRef) else f"key_{i}" for i, key in enumerate(plan.keys)]
        self.measures = [self._measure_name(m, measure) for m, measure in enumerate(plan.measures)]

    def groups(self) -> str:
        """By what rows are grouped."""
        return f"by ({', '.join(map(expression_text, self._plan.keys))})" if self._plan.keys else "all rows one group"

    def order(self) -> str:
        """In which order the rows of a group in a part are taken."""
        if self._plan.single:
            return "one row of a group in a part"
        terms = [] if self._plan.time is None else [self._columns[self._plan.time].name]
        terms += [expression_text(t.expression) + ("" if t.ascending else " DESC")
                  + ("" if t.nulls_first == t.ascending else f" NULLS {'FIRST' if t.nulls_first else 'LAST'}")
                  for t in self._plan.order]  # fmt: skip
        return f"rows of a part in the order of {', '.join([*terms, 'then all columns'])}"

    def machine(self) -> Iterator[str]:
        """States, edges, what is remembered, and what that comes to."""
        machine, plan = self._machine, self._plan
        yield f"states: 0 (begin), {', '.join(self._state(v) for v in range(1, machine.last + 1))} (accepting)"
        for edge in machine.edges:
            yield f"  {edge.source} -> {edge.target} where {self.condition(edge)}"
        remembered = [self._slot_name(k) for k in range(len(plan.slots))]
        remembered += [f"last_{self._columns[i].name}" for i in plan.previous]
        yield f"remembered: {', '.join(remembered) or 'nothing'}"
        for p in range(1, machine.last + 1):
            others = [q for q in range(1, machine.last + 1) if q != p and (p, q) in machine.includes]
            if others:
                yield f"state {p} includes {', '.join(self._inclusion(p, q) for q in others)}"
        yield self._size()
        if plan.limit is not None:
            yield f"a group with more than {plan.limit} partial matches stops the view (LIMIT)"

    def _size(self) -> str:
        machine = self._machine
        why = machine.can_grow
        if why is not None:
            return (f"WARNING: the partial matches of a group can grow without bound: {why}; status shows their "
                    "number, and LIMIT n PARTIAL MATCHES bounds it")  # fmt: skip
        last = machine.last
        kept = range(1, last + 1 if machine.variable(last).plus else last)
        alone = all((p, q) in machine.includes and not machine.shared(p, q) for p in kept for q in kept if p > q)
        if alone and all(not machine.live(p) for p in kept) and not self._machine.plan.detailed:
            return "partial matches: one row a group"
        return "partial matches: a bounded number for each group"

    def _state(self, v: int) -> str:
        variable = self._machine.variable(v)
        return f"{v} ({variable.name}{'+' if variable.plus else ''})"

    def _inclusion(self, p: int, q: int) -> str:
        related = [f"{self._slot_name(k)} {self._plan.slots[k].relation} its own" for k in self._machine.shared(p, q)]
        return f"{q}{' if ' + ' and '.join(related) if related else ''}"

    def _slot_name(self, k: int) -> str:
        slot = self._plan.slots[k]
        name = self._columns[slot.column % self._plan.width].name
        before = "before_" if slot.column >= self._plan.width else ""
        return f"{before}{self._plan.variables[slot.variable - 1].name}_{name}"

    def _measure_name(self, m: int, measure: PatternMeasure) -> str:
        whose = "" if measure.variable == 0 else f"{self._plan.variables[measure.variable - 1].name}_"
        argument = measure.argument
        what = argument.name if isinstance(argument, ColumnRef) and argument.index < self._plan.width else str(m)
        return f"{measure.function}_{whose}{what}"

    # Expressions over New and Prev

    def condition(self, edge: Edge) -> str:
        """What a row must satisfy to take an edge."""
        return " AND ".join(self.over(term) for term in edge.terms) or "TRUE"

    def over(self, expression: Expression) -> str:
        """An expression of the machine, the row called New and what is remembered Prev."""
        width = self._plan.width

        def change(node: Expression) -> Expression | None:
            if not isinstance(node, ColumnRef):
                return None
            if node.index < width:
                return replace(node, name=f"New.{node.name}")
            if node.index < 2 * width:
                return replace(node, name=f"Prev.last_{self._columns[node.index - width].name}")
            return replace(node, name=f"Prev.{self._slot_name(node.index - 2 * width)}")

        return expression_text(rewrite(expression, change))

    # ViewDFs

    def viewdf(self, length: int) -> Iterator[str]:
        """The Helper as a ViewDF, for parts with one row of a group."""
        first = self._machine.edges[0]
        yield f"CREATE VIEW {self._name} AS"
        yield f"INITIALIZE {self._name}[i] AS"
        yield from self._begin(first, "i")
        yield f"UPDATE {self._name}[j] AS"
        yield from self._begin(first, "j")
        for edge in self._machine.edges[1:]:
            yield "  UNION ALL"
            yield from self._follow(edge)
        yield f"PARTITION LENGTH {length}"
        yield "-- of one group's rows with equal state and values remembered only that with the greatest ct stays,"
        yield "-- and none that began after one whose state includes its own"

    def _begin(self, edge: Edge, part: str) -> list[str]:
        source = f"{self._source}[{part}] AS New"
        if self._plan.previous:
            columns = ", ".join([*self.keys, *(f"last_{self._columns[i].name}" for i in self._plan.previous)])
            source += f" LEFT OUTER JOIN (SELECT DISTINCT {columns} FROM {self._name}[{part}-1]) AS Prev {self._on()}"
        return self._select(edge, source, self.condition(edge))

    def _follow(self, edge: Edge) -> list[str]:
        source = f"{self._source}[j] AS New JOIN {self._name}[j-1] AS Prev {self._on()}"
        where = f"Prev.state = {edge.source} AND {self.condition(edge)}"
        return self._select(edge, source, where)

    def _select(self, edge: Edge, source: str, where: str) -> list[str]:
        return [f"  SELECT {', '.join(self._outputs(edge))}", f"    FROM {source}", f"    WHERE {where}"]

    def _on(self) -> str:
        keys = zip(self._plan.keys, self.keys, strict=True)
        return f"ON {' AND '.join(f'{self.over(key)} <=> Prev.{name}' for key, name in keys) or 'TRUE'}"

    def _outputs(self, edge: Edge) -> Iterator[str]:
        yield from (f"{self.over(key)} AS {name}" for key, name in zip(self._plan.keys, self.keys, strict=True))
        for m, (measure, name) in enumerate(zip(self._plan.measures, self.measures, strict=True)):
            yield f"{self._measured(edge, measure, name)} AS {name}"
            if m in self._averaged:
                name = _count_name(name)
                yield f"{self._measured(edge, replace(measure, function='count'), name)} AS {name}"
        yield f"{'Prev.ct + 1' if edge.source else '1'} AS ct"
        for k, slot in enumerate(self._plan.slots):
            if k in self._machine.live(edge.target):
                new = slot.variable == edge.target
                column = self._columns[slot.column % self._plan.width].name
                value = f"Prev.last_{column}" if slot.column >= self._plan.width else f"New.{column}"
                name = self._slot_name(k)
                yield f"{value} AS {name}" if new else f"Prev.{name}"
            else:
                yield f"NULL AS {self._slot_name(k)}"
        yield from (f"New.{self._columns[i].name} AS last_{self._columns[i].name}" for i in self._plan.previous)
        yield f"{edge.target} AS state"

    def _measured(self, edge: Edge, measure: PatternMeasure, name: str) -> str:
        new, old = self.over(measure.argument), f"Prev.{name}"
        begins = edge.source == 0 if measure.variable == 0 else edge.source < measure.variable
        if measure.variable not in (0, edge.target):
            return "NULL" if begins else old
        if measure.function == "count":
            one = f"CASE WHEN {new} IS NULL THEN 0 ELSE 1 END"
            return one if begins else f"{old} + {one}"
        if begins or measure.function == "last":
            return new
        if measure.function == "first":
            return old
        if measure.function == "sum":
            return f"COALESCE({old} + {new}, {old}, {new})"
        return f"{'LEAST' if measure.function == 'min' else 'GREATEST'}({old}, {new})"


def _final(view: PartView, answer: PatternAnswer, helper: PartView, text: _HelperText) -> Iterator[str]:
    """The view as a ViewDF over its Helper (Algorithm 3)."""
    bound = answer.bound
    names = [*text.keys, *("ct" if m < 0 else _read(call.function, text.measures[m])
                           for call, m in zip(bound.calls, answer.measures, strict=True))]  # fmt: skip

    def change(node: Expression) -> Expression | None:
        return replace(node, name=names[node.index]) if isinstance(node, ColumnRef) else None

    outputs = ", ".join(f"{expression_text(rewrite(output, change))} AS {name}"
                        for output, name in zip(bound.outputs, bound.names, strict=True))  # fmt: skip
    assert isinstance(helper.plan, PatternMatches)
    state = len(helper.plan.variables)
    yield f"CREATE VIEW {view.name} AS"
    for word, part in (("INITIALIZE", "i"), ("UPDATE", "j")):
        yield f"{word} {view.name}[{part}] AS"
        yield f"  SELECT {outputs} FROM {helper.name}[{part}] WHERE state = {state}"
    yield f"PARTITION LENGTH {view.length}"
    yield "-- of one group's rows only that with the greatest ct"


def _read(function: str, name: str) -> str:
    return f"({name} / {_count_name(name)})" if function == "avg" else name


def _count_name(name: str) -> str:
    return name.replace("sum_", "count_", 1)
