"""MEASURES: what is to be computed of each match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot.tokens import Token

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import STRING
from viewkeeper.compiler.aggregates import UngroupedCall
from viewkeeper.compiler.bind_expression import Clause, ExpressionBinder
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import ColumnRef, Expression, reference_to
from viewkeeper.plans.match import MatchElement, MatchSlot
from viewkeeper.plans.rewriting import rewrite, walk
from viewkeeper.streams.recognize.expressions import Navigation, NavigationReader, VariableScope, expression_tree

_NESTED = "FIRST, LAST and CLASSIFIER cannot stand inside an aggregate"
_MIXED = "an aggregate is over the rows of one variable, or of the whole match; split it"


class MeasureBinder:
    """Binds measures one after another; `slots` are what they are made of.

    A bound measure is over the values of a match: the partition columns, then the slots.
    """

    def __init__(
        self, query: QueryText, columns: tuple[Column, ...], variables: Sequence[str],
        elements: Sequence[MatchElement], partition: Sequence[int], zone: str,
    ) -> None:  # fmt: skip
        self._query, self._columns, self._partition, self._zone = query, columns, partition, zone
        self._variables = {name.lower(): i for i, name in enumerate(variables)}
        sure = {element.variable for element in elements if element.least}
        self._sure = [i in sure for i in range(len(variables))]
        size = len(columns)
        self._offsets = {
            name: (size * (1 + i), tuple(replace(c, nullable=c.nullable or i not in sure) for c in columns))
            for i, name in enumerate(variables)
        }
        self._behind = size * (1 + len(variables))
        self._navigations: list[Navigation] = []
        self._slots: dict[tuple[str, int | None, Expression | None, int], MatchSlot] = {}

    @property
    def slots(self) -> tuple[MatchSlot, ...]:
        return tuple(self._slots.values())

    def keys(self) -> list[Expression]:
        """The partition columns as values of a match."""
        columns = [self._columns[i] for i in self._partition]
        return [reference_to(column, i) for i, column in enumerate(columns)]

    def bind(self, tokens: Sequence[Token]) -> Expression:
        """One measure."""
        reader = NavigationReader(self._query, measures=True)
        tree = expression_tree(self._query, reader.replaced(tokens))
        scope = VariableScope(self._columns, self._offsets, reader.taken, self._navigated)
        bound = ExpressionBinder(self._query, scope, self._zone).bind(tree, Clause())
        return rewrite(bound, self._change)

    def _navigated(self, navigation: Navigation) -> tuple[int, Column]:
        self._navigations.append(navigation)
        at = self._behind + len(self._navigations) - 1
        if navigation.function == "CLASSIFIER":
            return at, Column("classifier", STRING, False)
        if navigation.column == "*":
            self._variable(navigation)
            return at, Column("*", STRING, True)
        column = self._column(navigation)
        sure = navigation.variable is None or self._sure[self._variable(navigation) or 0]
        nullable = column[1].nullable or not sure or navigation.offset > 0
        return at, Column(column[1].name, column[1].type, nullable)

    def _variable(self, navigation: Navigation) -> int | None:
        if navigation.variable is None:
            return None
        at = self._variables.get(navigation.variable.lower())
        if at is None:
            message = f"there is no variable {navigation.variable} in PATTERN"
            raise self._query.source.error(message, navigation.token.start)
        return at

    def _column(self, navigation: Navigation) -> tuple[int, Column]:
        for i, column in enumerate(self._columns):
            if column.name.lower() == navigation.column.lower():
                return i, column
        raise self._query.source.error(f"there is no column {navigation.column}", navigation.token.start)

    def _change(self, node: Expression) -> Expression | None:
        if isinstance(node, UngroupedCall):
            return self._aggregate(node)
        if not isinstance(node, ColumnRef):
            return None
        if node.index < self._behind:
            return self._slot("last", *self._of_row(node), 0, node)
        navigation = self._navigations[node.index - self._behind]
        if navigation.function == "CLASSIFIER":
            return self._slot("classifier", None, None, 0, node)
        if navigation.function == "STAR":
            raise self._query.error_at("a variable's .* can stand in COUNT only", node.place)
        at, column = self._column(navigation)
        argument = reference_to(column, at)
        return self._slot(navigation.function.lower(), self._variable(navigation), argument, navigation.offset, node)

    def _of_row(self, node: ColumnRef) -> tuple[int | None, Expression]:
        """Whose row a column is of, and the column of that row."""
        variable, at = divmod(node.index, len(self._columns))
        column = self._columns[at]
        return variable - 1 if variable else None, reference_to(column, at)

    def _aggregate(self, call: UngroupedCall) -> Expression:
        if call.argument is None:
            return self._slot("count_star", None, None, 0, call)
        argument = call.argument
        if isinstance(argument, ColumnRef) and argument.index >= self._behind:
            navigation = self._navigations[argument.index - self._behind]
            if navigation.function == "STAR" and call.function == "count":
                return self._slot("count_star", self._variable(navigation), None, 0, call)
        variables: set[int | None] = set()
        for node in walk(argument):
            if isinstance(node, ColumnRef) and node.index >= self._behind:
                raise self._error(_NESTED, call)
            if isinstance(node, ColumnRef):
                variables.add(self._of_row(node)[0])
        if len(variables) > 1:
            raise self._error(_MIXED, call)

        def change(node: Expression) -> Expression | None:
            return self._of_row(node)[1] if isinstance(node, ColumnRef) else None

        variable = variables.pop() if variables else None
        return self._slot(call.function, variable, rewrite(argument, change), 0, call)

    def _error(self, message: str, call: UngroupedCall) -> Exception:
        error = self._query.error_at(message, call.place)
        return NotSupported(str(error).rsplit(" (line", 1)[0], error.line, error.column)

    def _slot(
        self, function: str, variable: int | None, argument: Expression | None, offset: int, node: Expression
    ) -> Expression:
        slot = MatchSlot(function, variable, argument, offset, node.type, node.nullable, node.place)
        key = (function, variable, argument, offset)
        self._slots.setdefault(key, slot)
        at = len(self._partition) + list(self._slots).index(key)
        return ColumnRef(node.type, node.nullable, node.place, at, _text(slot))


def _text(slot: MatchSlot) -> str:
    column = slot.argument.name if isinstance(slot.argument, ColumnRef) else ""
    return f"{slot.function}({column})"
