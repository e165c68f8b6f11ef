"""Window functions, taken out of the expressions in which they stand: one relation for each PARTITION BY."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewkeeper.compiler.asked_over import asked_over
from viewkeeper.compiler.bind_over import WindowedCall
from viewkeeper.plans.expressions import ColumnRef, Expression, TextPlace, reference_to
from viewkeeper.plans.outside import BY_SPARK
from viewkeeper.plans.reach import reach_of_calls
from viewkeeper.plans.relations import (
    Order,
    OverCall,
    Project,
    Relation,
    Windows,
    tells_equals_apart,
)
from viewkeeper.plans.rewriting import identity, rewrite, walk

_Alike = dict[Expression, list[WindowedCall]]
"""Calls that say the same, by what they are."""


def windowed(
    input_: Relation, key: tuple[int, ...] | None, expressions: Sequence[Expression], named: Callable[[int], str | None]
) -> tuple[Relation, list[Expression]]:
    """`input_` with the window functions in `expressions` computed, and these over its columns.

    `key` tells the rows of `input_` apart (None: rows may be equal); `named` says how a column is written in the query,
    None where it cannot be.
    """
    return _Windowing(input_, key, named).of(expressions)


class _Windowing:
    def __init__(self, input_: Relation, key: tuple[int, ...] | None, named: Callable[[int], str | None]) -> None:
        self._input, self._key, self._named = input_, key, named
        self._columns: list[Expression] = [reference_to(c, i) for i, c in enumerate(input_.columns)]
        self._at: dict[Expression, int] = {}

    def of(self, expressions: Sequence[Expression]) -> tuple[Relation, list[Expression]]:
        calls = [node for each in expressions for node in walk(each) if isinstance(node, WindowedCall)]
        groups: dict[tuple[int, ...], _Alike] = {}
        asked = [call for call in calls if call.function == BY_SPARK]
        for call in (each for each in calls if each.function != BY_SPARK):
            for part in (*call.order, *call.arguments, *filter(None, call.bounds)):
                self._position(part)
            partition = tuple(dict.fromkeys(map(self._position, call.partition)))
            groups.setdefault(partition, {}).setdefault(identity(call), []).append(call)
        by_spark: dict[tuple[int, ...], dict[Expression, WindowedCall]] = {}
        for call in asked:
            for part in call.order:
                self._position(part)
            partition = tuple(dict.fromkeys(map(self._position, call.partition)))
            by_spark.setdefault(partition, {}).setdefault(identity(call), call)
        relation = self._input
        if len(self._columns) > len(relation.columns):
            names = [column.name for column in relation.columns]
            names += [f"over {i}" for i in range(len(names), len(self._columns))]
            relation = Project(relation, tuple(self._columns), tuple(names))
        found: dict[Expression, ColumnRef] = {}
        for partition, alike in groups.items():
            for some in self._by_order(relation, partition, alike):
                width = len(relation.columns)
                for i, (form, (first, *_)) in enumerate(some.items()):
                    found[form] = ColumnRef(first.type, first.nullable, first.place, width + i, first.name)
                relation = self._windows(relation, partition, list(some.values()))
        for partition, calls_of in by_spark.items():
            width = len(relation.columns)
            for i, (form, call) in enumerate(calls_of.items()):
                found[form] = ColumnRef(call.type, call.nullable, call.place, width + i, call.name)
            ordered = [(call, self._order(call)) for call in calls_of.values()]
            relation = asked_over(relation, partition, self._key, ordered)
        return relation, [rewrite(each, lambda node: _taken(node, found)) for each in expressions]

    def _position(self, expression: Expression) -> int:
        """The column that `expression` is, beside those of the input if it is computed."""
        if isinstance(expression, ColumnRef):
            return expression.index
        form = identity(expression)
        if form not in self._at:
            self._at[form] = len(self._columns)
            self._columns.append(expression)
        return self._at[form]

    def _by_order(self, below: Relation, partition: tuple[int, ...], alike: _Alike) -> list[_Alike]:
        """The calls of one partition, those of each order apart if a change reaches some rows only in all of them: each
        order is to have a state of its own.

        What moves few rows comes first, since the others are computed over it; numbers of rows come last, where a
        condition that leaves the first rows only finds them.  Rows without a key stay together: ties are settled by
        all that a row is, and more of it would be what other windows say.
        """
        apart: dict[tuple[Order, ...], _Alike] = {}
        rank: dict[tuple[Order, ...], int] = {}
        for form, places in alike.items():
            call = self._call(below, partition, places[0])
            reach = reach_of_calls([call], None)
            if reach is None or self._key is None:
                return [alike]
            apart.setdefault(call.order, {})[form] = places
            numbers = call.function in ("row_number", "rank", "dense_rank")
            rank[call.order] = max(rank.get(call.order, 0), reach.onwards + numbers)
        return [apart[order] for order in sorted(apart, key=rank.__getitem__)]

    def _windows(self, below: Relation, partition: tuple[int, ...], alike: list[list[WindowedCall]]) -> Windows:
        calls, settled = [], []
        for places in alike:
            call = self._call(below, partition, places[0])
            calls.append(call)
            settled += [(each.place, self._settled(below, call)) for each in places if call.ties]
        known: tuple[tuple[TextPlace, str], ...] | None = tuple(
            (place, text) for place, text in settled if place is not None and text is not None
        )
        if known is not None and len(known) < len(settled):
            known = None
        return Windows(below, partition, tuple(calls), tuple(each.name for each, *_ in alike), known)

    def _order(self, call: WindowedCall) -> tuple[Order, ...]:
        terms = zip(call.order, call.form.terms, strict=True)
        return tuple(Order(self._position(each), *term) for each, term in terms)

    def _call(self, below: Relation, partition: tuple[int, ...], call: WindowedCall) -> OverCall:
        form = call.form
        order = self._order(call)
        arguments = tuple(map(self._position, call.arguments))
        low, high = (None if bound is None else self._position(bound) for bound in call.bounds)
        fixed = {*partition, *(term.index for term in order)}
        ties: tuple[Order, ...] = ()
        if tells_equals_apart(call.function, form.frame) and not (self._key is not None and set(self._key) <= fixed):
            # What has no key is told apart by all of it, what other windows say of it included.
            own = (*range(len(self._input.columns)), *range(len(self._columns), len(below.columns)))
            ties = tuple(Order(i, True, True) for i in (own if self._key is None else self._key) if i not in fixed)
        of = call.arguments[0].type if call.arguments else None
        return OverCall(call.function, arguments, of, form.number, form.ignore_nulls, order, ties, form.frame,
                        call.type, call.nullable, call.place, (low, high))  # fmt: skip

    def _settled(self, below: Relation, call: OverCall) -> str | None:
        """Further terms for the ORDER BY of `call` with which Spark breaks ties as we do; None where none do."""
        names = [self._named(term.index) if term.index < len(self._input.columns) else None for term in call.ties]
        known = [name for name in names if name is not None]
        of_values = call.function in ("first_value", "last_value", "nth_value")
        if len(known) < len(names) or (of_values and call.frame.unit == "RANGE"):
            return None  # with further terms a RANGE frame would be another one
        return ", ".join(known)


def _taken(node: Expression, found: dict[Expression, ColumnRef]) -> Expression | None:
    return found[identity(node)] if isinstance(node, WindowedCall) else None
