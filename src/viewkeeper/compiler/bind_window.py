"""What a WINDOW query may say beyond the core: more aggregates, and a hint."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokens import TokenType

from viewkeeper.catalog.types import BOOLEAN, DOUBLE, STRING, VOID
from viewkeeper.compiler.aggregates import UngroupedCall
from viewkeeper.compiler.bind_expression import Clause, ExpressionBinder
from viewkeeper.compiler.bind_select import SelectBinder
from viewkeeper.compiler.conversion import Refused, converted
from viewkeeper.compiler.names import Namer
from viewkeeper.compiler.outer import Outer
from viewkeeper.compiler.scope import Scope
from viewkeeper.compiler.source_text import QueryText, raw_text
from viewkeeper.compiler.supported import ADMITTED
from viewkeeper.compiler.syntax import query_tokens
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.relations import Relation
from viewkeeper.plans.value_functions import percentile_name

MORE: dict[type[exp.Expr], frozenset[str]] = {
    kind: frozenset(parts.split())
    for kind, parts in {
        exp.LogicalAnd: "this", exp.LogicalOr: "this", exp.Anonymous: "this expressions", exp.Any: "this",
        exp.VariancePop: "this", exp.Variance: "this", exp.StddevPop: "this", exp.StddevSamp: "this",
        exp.Stddev: "this", exp.Median: "this", exp.Quantile: "this quantile", exp.Distinct: "expressions",
        exp.Filter: "this expression", exp.Hint: "expressions",
    }.items()
} | {exp.Select: ADMITTED[exp.Select] | {"hint"}}  # fmt: skip
"""What `supported.refuse_unsupported` admits in a WINDOW query besides."""

AGGREGATES = {
    "bool_and": "bool_and", "every": "bool_and", "bool_or": "bool_or", "some": "bool_or", "any": "bool_or",
    "var_pop": "var_pop", "var_samp": "var_samp", "variance": "var_samp", "stddev_pop": "stddev_pop",
    "stddev_samp": "stddev_samp", "stddev": "stddev_samp", "std": "stddev_samp", "median": "percentile",
    "percentile": "percentile",
}  # fmt: skip
"""Names as written, and the aggregate that each means."""

DISTINCT = ("count", "sum", "avg", "min", "max")


def strategy(query: QueryText) -> tuple[str, int] | None:
    """The strategy that a hint `/*+ STRATEGY(name) */` asks for, in small letters, and the offset of the hint."""
    found = list(query.tree.find_all(exp.Hint))
    if not found:
        return None
    hint = found[0]
    at = next(token.start for token in query_tokens(query) if token.token_type == TokenType.HINT)
    one = hint.expressions[0] if len(hint.expressions) == 1 and len(found) == 1 else None
    arguments = one.expressions if isinstance(one, exp.Anonymous) and one.name.upper() == "STRATEGY" else []
    if len(arguments) != 1 or not isinstance(arguments[0], exp.Column) or hint.parent is not query.tree:
        raise query.source.error("the only hint here is one /*+ STRATEGY(name) */ behind the first SELECT", at)
    return arguments[0].name.lower(), at


def written_name(query: QueryText, node: exp.Expr) -> str:
    """The name in small letters by which an aggregate beyond the core is called."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    if isinstance(node, exp.Any):
        return "any"
    return "percentile" if isinstance(node, exp.Quantile) else raw_text(query.source, node).lower()


class _WindowNamer(Namer):
    """Spark's names of what is here beyond the core."""

    def __init__(self, inner: Namer, query: QueryText) -> None:
        super().__init__(inner._literal, inner._compared, inner._column)
        self._query = query

    def name(self, node: exp.Expr) -> str:
        if type(node) not in MORE or isinstance(node, (exp.Hint, exp.Select, exp.Filter)):
            return super().name(node)
        name = written_name(self._query, node)
        if isinstance(node, exp.Quantile):
            return f"{name}({self.name(node.this)}, {self.name(node.args['quantile'])}, 1)"
        arguments = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
        return f"{name}({', '.join(map(self.name, arguments))})"


class WindowExpressionBinder(ExpressionBinder):
    """Binds the aggregates of `MORE` too."""

    def __init__(
        self, query: QueryText, scope: Scope, zone: str, outer: Outer | None = None,
        subquery: Callable[[exp.Expr, Outer], Relation] | None = None, _functions: object = None,
    ) -> None:  # fmt: skip
        super().__init__(query, scope, zone, outer, subquery)
        self._namer = _WindowNamer(self._namer, query)

    def bind(self, node: exp.Expr, clause: Clause) -> Expression:
        try:
            if isinstance(node, exp.Distinct):
                raise Refused("DISTINCT is supported in COUNT, SUM, AVG, MIN and MAX only", NotSupported)
            if type(node) in MORE and not isinstance(node, exp.Filter):
                return self._further(node, clause)
        except Refused as refused:
            raise self.query.error(str(refused), node, refused.kind) from None
        return super().bind(node, clause)

    def _argument(self, node: exp.Expr, clause: Clause) -> Expression:
        if clause.no_aggregates:
            raise Refused(clause.no_aggregates)
        inside = Clause("an aggregate cannot stand inside another; put the inner one into a view of its own")
        return self.bind(node, inside)

    def _further(self, node: exp.Expr, clause: Clause) -> Expression:
        name = written_name(self.query, node)
        function = AGGREGATES.get(name)
        if function is None:
            raise Refused(
                f"the function {name} is not supported in a window; besides COUNT, SUM, MIN, MAX and AVG there are "
                f"{', '.join(AGGREGATES)}", NotSupported,
            )  # fmt: skip
        arguments = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
        if len(arguments) != 1 or arguments[0] is None or isinstance(arguments[0], exp.Star):
            raise Refused(f"{name} takes one argument")
        argument, place = self._argument(arguments[0], clause), self._place(node)
        if function in ("bool_and", "bool_or"):
            if argument.type == VOID:
                argument = converted(argument, BOOLEAN, self.zone)
            if argument.type != BOOLEAN:
                raise Refused(f"{name} needs a condition, not a value of type {argument.type}")
            return UngroupedCall(BOOLEAN, True, place, function, argument, self.name(node))
        if function == "percentile" and argument.type.is_number:
            return UngroupedCall(DOUBLE, True, place, self._percentile(node), argument, self.name(node))
        if argument.type != VOID and argument.type != STRING and not argument.type.is_number:
            raise Refused(f"{name} needs a number, not {argument.type}")
        argument = converted(argument, DOUBLE, self.zone)
        if function == "percentile":
            function = self._percentile(node)
        return UngroupedCall(DOUBLE, True, place, function, argument, self.name(node))

    def _percentile(self, node: exp.Expr) -> str:
        """The name of the aggregate, with its fraction."""
        if not isinstance(node, exp.Quantile):
            return percentile_name(0.5)
        written = node.args.get("quantile")
        literal = None if written is None else self._literal(written)
        value = None if literal is None else literal.value
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)) or not 0 <= value <= 1:
            raise Refused("PERCENTILE needs one constant from 0 to 1 behind the value; call it once for each")
        return percentile_name(float(value))


class WindowBinder(SelectBinder):
    """Binds the SELECT of a WINDOW query."""

    expressions: ClassVar[type[ExpressionBinder]] = WindowExpressionBinder
