"""Aggregates: their result types, and taking them out of the expressions in which they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from viewkeeper.catalog.types import BIGINT, DAY_TIME, DOUBLE, INT, STRING, VOID, YEAR_MONTH, Type
from viewkeeper.compiler.coercion import bounded_decimal
from viewkeeper.compiler.conversion import Refused, converted
from viewkeeper.compiler.grouping_sets import Mark, SetsOfKeys, marks_in
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import (
    Case,
    ColumnRef,
    Expression,
    Literal,
    Several,
    TextPlace,
    computed_at,
    unless_null,  # fmt: skip
)
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import AggregateCall, GroupBy, Relation
from viewkeeper.plans.rewriting import identity, rewrite, walk


@dataclass(frozen=True)
class UngroupedCall(Expression):
    """An aggregate within an expression, before `Grouping` takes it out."""

    function: str
    argument: Expression | None
    name: str = field(compare=False)


def call(function: str, argument: Expression | None, name: str, place: TextPlace | None, zone: str) -> UngroupedCall:
    """`function(argument)`, typed as Spark types it; `argument` is None for COUNT(*)."""
    if function == "count":
        if argument is None or (isinstance(argument, Literal) and argument.value is not None):
            return UngroupedCall(BIGINT, False, place, "count_star", None, name)
        return UngroupedCall(BIGINT, False, place, "count", argument, name)
    if argument is None:
        raise Refused(f"{function.upper()}(*) is not an aggregate; name the column")
    if function in ("min", "max"):
        return UngroupedCall(argument.type, True, place, function, argument, name)
    if argument.type in (VOID, STRING):
        argument = converted(argument, DOUBLE, zone)
    if not (argument.type.is_number or argument.type.is_interval):
        raise Refused(f"{function.upper()} needs a number, not {argument.type}")
    result = _sum_type(argument.type) if function == "sum" else _average_type(argument.type)
    return UngroupedCall(result, True, place, function, argument, name)


def distinct_call(
    function: str, arguments: Sequence[Expression], name: str, place: TextPlace | None, zone: str
) -> UngroupedCall:
    """`function(DISTINCT arguments)`, of several for COUNT only."""
    first, *more = arguments
    if more and function != "count":
        raise Refused(f"{function.upper()} takes one argument")
    if more and any(map(can_raise, arguments)):
        raise Refused("COUNT(DISTINCT ...) of several values of which one can raise is not supported yet", NotSupported)
    if function == "count":
        argument = together(arguments, place) if more else first
        return UngroupedCall(BIGINT, False, place, "count_distinct", argument, name)
    plain = call(function, first, name, place, zone)
    return plain if function in ("min", "max") else replace(plain, function=f"{function}_distinct")


def together(arguments: Sequence[Expression], place: TextPlace | None) -> Several:
    """Several values as one, of which rows have all or none."""
    return Several(arguments[0].type, True, place, tuple(arguments))


def counted_together(arguments: Sequence[Expression], name: str, place: TextPlace | None) -> UngroupedCall:
    """COUNT of several values, of which none is NULL; as in Spark, the others are not looked at behind one that is."""
    return UngroupedCall(BIGINT, False, place, "count", unless_null(arguments, Literal(INT, False, place, 1)), name)


def filtered_call(bound: Expression, condition: Expression, name: str) -> UngroupedCall:
    """`bound FILTER (WHERE condition)`: a CASE in the argument, since every aggregate here passes over NULL."""
    if not isinstance(bound, UngroupedCall):
        raise Refused("FILTER (WHERE ...) stands behind an aggregate")
    if bound.function == "count_star":
        one = only_where(condition, Literal(INT, False, bound.place, 1))
        return replace(bound, function="count", argument=one, name=name)
    argument = bound.argument
    assert argument is not None
    if isinstance(argument, Several):
        argument = replace(argument, arguments=tuple(only_where(condition, each) for each in argument.arguments))
    else:
        argument = only_where(condition, argument)
    return replace(bound, argument=argument, name=name)


def only_where(condition: Expression, value: Expression) -> Expression:
    """`value` where `condition` holds, else NULL."""
    otherwise = Literal(value.type, True, condition.place, None)
    return Case(value.type, True, condition.place, ((condition, value),), otherwise)


def _sum_type(type_: Type) -> Type:
    if type_.is_decimal:
        return bounded_decimal(type_.precision + 10, type_.scale)
    if type_.is_interval:
        return type_
    return BIGINT if type_.is_integer else DOUBLE


def _average_type(type_: Type) -> Type:
    if type_.is_interval:
        return YEAR_MONTH if type_.is_month_interval else DAY_TIME
    return bounded_decimal(type_.precision + 4, type_.scale + 4) if type_.is_decimal else DOUBLE


def has_call(expression: Expression) -> bool:
    return any(isinstance(node, UngroupedCall) for node in walk(expression))


class NotGrouped(Exception):
    """A column that is neither grouped by nor inside an aggregate."""

    def __init__(self, column: ColumnRef) -> None:
        super().__init__(column.name)
        self.column = column


class Grouping:
    """The grouping of one query: `over` turns an expression over the input rows into one over the groups.

    `sets`: what ROLLUP and its kin group by in turn, each some of the keys.
    """

    def __init__(
        self, keys: Sequence[Expression], key_names: Sequence[str], sets: Sequence[Sequence[Expression]] = ()
    ) -> None:  # fmt: skip
        self._keys: dict[Expression, tuple[Expression, str]] = {}
        for key, name in zip(keys, key_names, strict=True):
            self._keys.setdefault(identity(key), (key, name))
        self._positions = {key: i for i, key in enumerate(self._keys)}
        self._calls: dict[Expression, UngroupedCall] = {}
        self._sets = tuple(frozenset(self._positions[identity(key)] for key in each) for each in sets)
        self._marks: dict[Expression, Mark] = {}

    def note(self, expressions: Iterable[Expression]) -> None:
        """Takes notice of the marks in all that `over` will be given; raises Refused for one that says nothing."""
        self._marks = {identity(each): each for each in marks_in(expressions)}
        for each in self._marks.values():
            if not self._sets:
                raise Refused(f"{each.name} stands with ROLLUP, CUBE or GROUPING SETS only")
            self._by_sets().places(each)

    @property
    def columns(self) -> set[int]:
        """The positions of the input's columns that are keys as they are."""
        return {key.index for key, _ in self._keys.values() if isinstance(key, ColumnRef)}

    def over(self, expression: Expression) -> Expression:
        """`expression` over the columns of `relation`; raises NotGrouped."""
        return rewrite(expression, self._change)

    def written(self, of_input: Callable[[int], str | None]) -> Callable[[int], str | None]:
        """How a column of `relation` is written, as `of_input` says it of the input's: keys that are plain columns."""
        keys = list(self._keys)

        def of(position: int) -> str | None:
            key = keys[position] if position < len(keys) else None
            return of_input(key.index) if isinstance(key, ColumnRef) else None

        return of

    def relation(self, input_: Relation) -> GroupBy:
        """The aggregate with all calls that `over` has met."""
        keys, names = zip(*self._keys.values(), strict=True) if self._keys else ((), ())
        return GroupBy(input_, keys, names, *self._aggregates())

    def relations(self, input_: Relation) -> Relation:
        """The same by each set of keys, if there are sets."""
        return self._by_sets().relation(input_, *self._aggregates()) if self._sets else self.relation(input_)

    def _aggregates(self) -> tuple[tuple[AggregateCall, ...], tuple[str, ...]]:
        found = self._calls.values()
        calls = (AggregateCall(c.function, c.argument, c.type, c.nullable, c.place) for c in found)
        return tuple(calls), tuple(c.name for c in found)

    def _by_sets(self) -> SetsOfKeys:
        keys, names = zip(*self._keys.values(), strict=True)
        return SetsOfKeys(keys, names, self._sets, tuple(self._marks.values()))

    def _change(self, node: Expression) -> Expression | None:
        form = identity(node)
        if form in self._positions:
            _, name = self._keys[form]
            at = self._positions[form]
            return computed_at(at, name, node)
        if isinstance(node, UngroupedCall):
            first = self._calls.setdefault(form, node)
            index = len(self._keys) + len(self._marks) + list(self._calls).index(form)
            return ColumnRef(node.type, node.nullable, node.place, index, first.name)
        if isinstance(node, Mark):
            index = len(self._keys) + list(self._marks).index(form)
            return ColumnRef(node.type, False, node.place, index, node.name)
        if isinstance(node, ColumnRef):
            raise NotGrouped(node)
        return None
