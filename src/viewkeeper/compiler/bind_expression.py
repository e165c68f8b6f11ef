"""Syntax trees of expressions to typed, bound expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import InvalidOperation

from sqlglot import exp

from viewkeeper.catalog.model import PythonFunction
from viewkeeper.catalog.types import BINARY, BOOLEAN, DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ, VOID, Type
from viewkeeper.compiler import bind_subquery, fields, literals
from viewkeeper.compiler.aggregate_functions import aggregate
from viewkeeper.compiler.aggregates import call, counted_together, distinct_call, filtered_call
from viewkeeper.compiler.bind_over import windowed_call
from viewkeeper.compiler.bind_python import no_function, python_call
from viewkeeper.compiler.calls import (
    CONVERSIONS,
    OPERATORS,
    AggregateFunction,
    ScalarCall,
    SortedCall,
    is_negated,
    operands,
)
from viewkeeper.compiler.comparing import between, comparison_of, listed
from viewkeeper.compiler.conversion import (
    TURNED,
    Refused,
    arithmetic,
    cast_to,
    compared,
    converted,
    to_common,
    whole_number,
)  # fmt: skip
from viewkeeper.compiler.forms import bound_call, negated
from viewkeeper.compiler.grouping_sets import mark
from viewkeeper.compiler.intervals import WrittenInterval, interval, timed
from viewkeeper.compiler.names import INFIX, Namer
from viewkeeper.compiler.outer import Outer
from viewkeeper.compiler.scope import Scope, Unresolved
from viewkeeper.compiler.source_text import QueryText, raw_text
from viewkeeper.compiler.supported import (
    FUNCTIONS,
    cast_type,
    is_unknown,
    number_suffix,
    typed_literal,
)
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.expressions import (
    And,
    Case,
    Coalesce,
    Expression,
    IsNull,
    Literal,
    Not,
    Or,
    TextPlace,
)  # fmt: skip
from viewkeeper.plans.relations import Relation
from viewkeeper.plans.subqueries import has_subquery

MAX_DEPTH = 100
"""Expressions are walked by recursion here and wherever they are used; AND, OR and IN of any length are one level."""

_IN_ANOTHER = "an aggregate cannot stand inside another; put the inner one into a subquery in FROM"
_TYPES = {"DATE": DATE, "TIMESTAMP": TIMESTAMP, "TIMESTAMP_NTZ": TIMESTAMP_NTZ}


@dataclass(frozen=True)
class Clause:
    """Where an expression stands: `no_aggregates` says why an aggregate cannot stand there, None where it can;
    `outputs` are the SELECT list's aliases (in small letters) that a name may mean there before any column, `before`
    those that it may mean if it is no column.  `windows`: whether a window function can stand there;
    `over`: whether what stands there is one, so that other aggregates may stand in it."""

    no_aggregates: str | None = None
    outputs: Mapping[str, list[Expression]] | None = None
    before: Mapping[str, list[Expression]] | None = None
    windows: bool = False
    over: bool = False


_SHOWN = Clause(windows=True)


class ExpressionBinder:
    """Binds expressions over the columns of `scope`.  An aggregate becomes a `Call` node.

    `outer` is the query around, where there is one; `subquery` binds a query within; `functions` are Python's.
    """

    def __init__(
        self, query: QueryText, scope: Scope, zone: str, outer: Outer | None = None,
        subquery: Callable[[exp.Expr, Outer], Relation] | None = None,
        functions: Callable[[str], PythonFunction | None] = no_function,
    ) -> None:  # fmt: skip
        self.query, self.scope, self.zone = query, scope, zone
        self._outer, self._bind_subquery, self._functions = outer, subquery, functions
        self._namer = Namer(self._shown, self._shown_sides, lambda node: fields.shown(scope, node))
        self._depth = 0

    def name(self, node: exp.Expr) -> str:
        """Spark's name for an output without alias; that of a cast of a column is the column's."""
        column = node.unnest()
        if isinstance(column, (exp.Cast, exp.TryCast)) and fields.is_plain(self.scope, column.this.unnest()):
            column = column.this.unnest()
        return fields.last_name(column) or self._namer.name(node)

    def predicate(self, node: exp.Expr, clause: Clause, what: str) -> Expression:
        """The condition of WHERE, ON, HAVING or WHEN."""
        bound = self.bind(node, clause)
        if bound.type != BOOLEAN:
            raise self.query.error(f"{what} needs a condition, not a value of type {bound.type}", node)
        return bound

    def bind(self, node: exp.Expr, clause: Clause) -> Expression:
        literal = self._literal(node)
        if literal is not None:
            return literal
        if self._depth == MAX_DEPTH:
            raise self.query.error(f"the expression is nested more than {MAX_DEPTH} levels deep", node, NotSupported)
        self._depth += 1
        try:
            return _BINDERS[type(node)](self, node, clause)
        except Refused as refused:
            raise self.query.error(str(refused), node, refused.kind) from None
        finally:
            self._depth -= 1

    def _place(self, node: exp.Expr) -> TextPlace | None:
        return self.query.place(node)

    # Constants

    def _literal(self, node: exp.Expr) -> Literal | None:
        value = self._constant(node)
        return None if value is None else Literal(value[0], value[1] is None, self._place(node), value[1])

    def _constant(self, node: exp.Expr) -> tuple[Type, object] | None:
        if isinstance(node, exp.Neg):
            return self._number(node.this, "-")
        if isinstance(node, exp.Literal):
            return (STRING, self._string(node)) if node.is_string else self._number(node)
        if isinstance(node, (exp.TryCast, exp.Cast)):
            type_ = typed_literal(node)
            return self._number(node) if type_ is None else (_TYPES[type_], self._moment(node, type_))
        if isinstance(node, exp.Placeholder):
            return self._parameter(node)
        if isinstance(node, exp.Null):
            return VOID, None
        if isinstance(node, exp.Boolean):
            return BOOLEAN, bool(node.this)
        if isinstance(node, exp.RawString):
            return STRING, str(node.this)
        if isinstance(node, (exp.HexString, exp.Concat)):
            return (BINARY, self._bytes(node)) if isinstance(node, exp.HexString) else (STRING, self._string(node))
        return None

    def _parameter(self, node: exp.Expr) -> tuple[Type, object]:
        try:
            return literals.given(self.query.source.parameters[node.name], self.zone)
        except ValueError as reason:
            raise self.query.error(f"the parameter :{node.name}: {reason}", node) from None

    def _number(self, node: exp.Expr, sign: str = "") -> tuple[Type, object] | None:
        suffix = number_suffix(self.query, node) or ""
        digits = node.this if suffix else node
        if not isinstance(digits, exp.Literal) or (digits.is_string and suffix != "BD"):
            return None
        try:
            return literals.number(sign + digits.name, suffix)
        except (ValueError, InvalidOperation) as reason:
            raise self.query.error(str(reason), node) from None

    def _string(self, node: exp.Expr) -> str:
        first = node.expressions[0] if isinstance(node, exp.Concat) else node
        if not raw_text(self.query.source, first):
            return str(node.this)
        value, pieces = literals.strings(self.query.source.text, first.meta["start"])
        if isinstance(node, exp.Concat) and pieces == 0:
            raise self.query.error("texts of different kinds side by side; write one text", node)
        return value

    def _bytes(self, node: exp.Expr) -> bytes:
        if raw_text(self.query.source, node)[:1] == "0":
            raise self.query.error("there are no hexadecimal numbers; write X'...' for bytes", node)
        digits = str(node.this)
        return bytes.fromhex("0" * (len(digits) % 2) + digits)

    def _moment(self, node: exp.Expr, type_: str) -> object:
        try:
            return literals.convert(self._string(node.this), STRING, _TYPES[type_], self.zone)
        except ValueError as reason:
            raise self.query.error(str(reason), node) from None

    def _shown(self, node: exp.Expr) -> str | None:
        value = self._constant(node)
        return None if value is None else literals.shown(value[1], value[0], self.zone)

    def _shown_sides(self, node: exp.Expr) -> tuple[str | None, str | None]:
        """Of an infix operator's sides, those that Spark shows as the whole numbers that it compares instead; of a sum
        of a date or time and something else, the whole of it, first; of a product, the interval first."""
        operator, left, right = INFIX[type(node)], node.this, node.expression
        if operator in ("+", "-"):
            return self._shown_date(node, operator), None
        if operator == "*" and self.bind(right, _SHOWN).type.is_interval:
            return self.name(right), self.name(left)
        return self._shown_whole(operator, left, right), self._shown_whole(TURNED.get(operator, ""), right, left)

    def _shown_date(self, node: exp.Expr, operator: str) -> str | None:
        left, right = node.this, node.expression
        types = [self.bind(side, _SHOWN).type for side in (left, right)]
        if types[0].is_interval and not types[1].is_interval:
            left, right, types = right, left, types[::-1]
        if not types[1].is_interval or types[0].is_interval:
            if DATE not in types or not any(type_.is_integer for type_ in types):
                return None
            date, count = (left, right) if types[0] == DATE else (right, left)
            return f"date_{'add' if operator == '+' else 'sub'}({self.name(date)}, {self.name(count)})"
        interval = WrittenInterval(right).name if isinstance(right, exp.Interval) else self.name(right)
        if types[0] != DATE or types[1].name != "INTERVAL DAY":
            return f"{self._namer.name(left)} {operator} {interval}"
        days = f"extractansiintervaldays({interval})"
        return f"date_add({self._namer.name(left)}, {days if operator == '+' else f'(- {days})'})"

    def _shown_whole(self, operator: str, side: exp.Expr, other: exp.Expr) -> str | None:
        constant = self._constant(side.unnest()) if operator in TURNED else None
        if constant is None or not constant[0].is_decimal or not self.bind(other, _SHOWN).type.is_integer:
            return None
        try:
            return str(whole_number(operator, *constant))
        except Refused:
            return None  # binding it says so

    # Names

    def _column(self, node: exp.Expr, clause: Clause) -> Expression:
        if isinstance(node.this, exp.Star):
            return self._star(node, clause)
        name, table = node.name, node.args.get("table")
        outside = self.query.outside
        if outside is not None and name in outside.texts:
            return outside.bound(self.query, node, lambda column: self.bind(column, clause))
        if clause.outputs and table is None and name.lower() in clause.outputs:
            meant = clause.outputs[name.lower()]
            if len(meant) > 1:
                raise self.query.error(f"{name} is ambiguous: {len(meant)} outputs have that name", node)
            return meant[0]
        try:
            return fields.reference(self.scope, node, self._place(node))
        except Unresolved as problem:
            elsewhere = None if problem.several else self._elsewhere(node, clause)
            if elsewhere is None:
                kind = NotSupported if fields.is_sparks(self.scope, node) else DeclarationError
                raise self.query.error(str(problem), node, kind) from None
            return elsewhere

    def _elsewhere(self, node: exp.Expr, clause: Clause) -> Expression | None:
        """What a name means that is no column here: an output before, or a column of the query around."""
        name, *more = fields.dotted(node)
        meant = ((more and clause.outputs) or clause.before or {}).get(name.lower(), [])
        if len(meant) > 1:
            raise self.query.error(f"{name} is ambiguous: {len(meant)} outputs before have that name", node)
        if meant and (not more or meant[0].type.is_nested):
            return fields.with_fields(meant[0], more, self._place(node))
        return self._outer.column(node, self._place(node)) if self._outer is not None else None

    def lookup(self, node: exp.Expr) -> Expression | None:
        """What a name in a subquery means for the rows here; None for nothing."""
        try:
            return fields.reference(self.scope, node, self._place(node))
        except Unresolved as problem:
            if problem.several:
                raise self.query.error(str(problem), node) from None
            return self._outer.column(node, self._place(node)) if self._outer is not None else None

    def _field(self, node: exp.Expr, clause: Clause) -> Expression:
        return fields.field(self.bind(node.this, clause), node.expression.name, self._place(node))

    def _item(self, node: exp.Expr, clause: Clause) -> Expression:
        value, *index = (self.bind(each, clause) for each in (node.this, *node.expressions))
        if len(index) != 1:
            raise Refused("[] takes one value")
        return fields.item(value, index[0], self._place(node), self.zone)

    def _star(self, node: exp.Expr, clause: Clause) -> Expression:
        kind = NotSupported if isinstance(node.parent, exp.Func) else DeclarationError  # Spark has it in any call
        raise self.query.error("* can stand in a SELECT list, alone or as table.*, and in COUNT(*) only", node, kind)

    # Operators

    def _paren(self, node: exp.Expr, clause: Clause) -> Expression:
        return self.bind(node.this, clause)

    def _infix(self, node: exp.Expr, clause: Clause) -> Expression:
        left, right = self.bind(node.this, clause), self.bind(node.expression, clause)
        operator = INFIX[type(node)]
        if operator not in ("+", "-", "*", "/", "%"):
            return comparison_of(operator, left, right, self._place(node), self.zone)
        found = timed(operator, left, right, self._place(node), self.zone)
        return found or arithmetic(operator, left, right, self._place(node), self.zone)

    def _interval(self, node: exp.Expr, clause: Clause) -> Expression:
        return interval(node, self._place(node))

    def _not_equal(self, node: exp.Expr, clause: Clause) -> Expression:
        left, right = self.bind(node.this, clause), self.bind(node.expression, clause)
        return comparison_of("<>", left, right, self._place(node), self.zone)

    def _connected(self, node: exp.Expr, clause: Clause) -> Expression:
        kind = And if isinstance(node, exp.And) else Or
        terms: list[Expression] = []
        for term in node.flatten():
            bound = self._truth(term, clause, node.key.upper())
            terms += bound.arguments if isinstance(bound, kind) else [bound]
        return kind(BOOLEAN, any(term.nullable for term in terms), self._place(node), tuple(terms))

    def _not(self, node: exp.Expr, clause: Clause) -> Expression:
        argument = self._truth(node.this, clause, "NOT")
        return Not(BOOLEAN, argument.nullable, self._place(node), argument)

    def _truth(self, node: exp.Expr, clause: Clause, what: str) -> Expression:
        bound = self.bind(node, clause)
        if bound.type == VOID:
            return converted(bound, BOOLEAN, self.zone)
        if bound.type != BOOLEAN:
            raise self.query.error(f"{what} needs conditions, not a value of type {bound.type}", node)
        return bound

    def _is(self, node: exp.Expr, clause: Clause) -> Expression:
        if isinstance(node.expression, exp.Boolean):
            sides = (self._truth(node.this, clause, "IS"), self.bind(node.expression, clause))
            return compared("<=>", *sides, self._place(node), self.zone)
        if is_unknown(node):
            return IsNull(BOOLEAN, False, self._place(node), self._truth(node.this, clause, "IS"))
        return IsNull(BOOLEAN, False, self._place(node), self.bind(node.this, clause))

    def _negate(self, node: exp.Expr, clause: Clause) -> Expression:
        return negated(self.bind(node.this, clause), self._place(node), self.zone)

    def _queried(self, node: exp.Expr) -> tuple[Relation, list[Expression]]:
        """A subquery's rows, and what it is handed in."""
        if self._bind_subquery is None:
            raise Refused("a subquery is not supported here; write a join", NotSupported)
        outer = Outer(self.lookup)
        return self._bind_subquery(node, outer), outer.values

    def _subquery(self, node: exp.Expr, clause: Clause) -> Expression:
        return bind_subquery.scalar(*self._queried(node), self._place(node))

    def _exists(self, node: exp.Expr, clause: Clause) -> Expression:
        return bind_subquery.exists(*self._queried(bind_subquery.asked_for_rows(node.this)), self._place(node))

    def _in(self, node: exp.Expr, clause: Clause) -> Expression:
        query = node.args.get("query")
        if query is not None:
            given = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
            arguments = [self.bind(part, clause) for part in given]
            return bind_subquery.member(arguments, *self._queried(query), self._place(node), self.zone)
        if not node.expressions:
            raise Refused("IN needs at least one value")
        parts = [self.bind(part, clause) for part in (node.this, *node.expressions)]
        return listed(parts, self._place(node), self.zone)

    def _between(self, node: exp.Expr, clause: Clause) -> Expression:
        value, low, high = (self.bind(node.args[part], clause) for part in ("this", "low", "high"))
        return between(value, low, high, self._place(node), self.zone)

    def _case(self, node: exp.Expr, clause: Clause) -> Expression:
        operand = self.bind(node.this, clause) if node.this else None
        conditions = [self._when(branch.this, operand, clause) for branch in node.args["ifs"]]
        values = [self.bind(branch.args["true"], clause) for branch in node.args["ifs"]]
        default = node.args.get("default")
        values.append(self.bind(default, clause) if default else Literal(VOID, True, self._place(node), None))
        *values, otherwise = to_common(values, "CASE", self.zone)
        branches = tuple(zip(conditions, values, strict=True))
        nullable = any(value.nullable for value in (*values, otherwise))
        return Case(otherwise.type, nullable, self._place(node), branches, otherwise)

    def _when(self, node: exp.Expr, operand: Expression | None, clause: Clause) -> Expression:
        if operand is None:
            return self.predicate(node, clause, "WHEN")
        return comparison_of("=", operand, self.bind(node, clause), self._place(node), self.zone)

    def _coalesce(self, node: exp.Expr, clause: Clause) -> Expression:
        parts = [self.bind(part, clause) for part in (node.this, *node.expressions)]
        arguments = to_common(parts, "COALESCE", self.zone)
        nullable = all(argument.nullable for argument in arguments)
        return Coalesce(arguments[0].type, nullable, self._place(node), tuple(arguments))

    def _function(self, node: exp.Expr, clause: Clause) -> Expression:
        arguments = [self.bind(argument.unalias(), clause) for argument in node.expressions]
        if node.name == "struct":
            arguments = fields.struct_arguments(node.expressions, arguments, self._place(node))
        if node.name not in CONVERSIONS:
            return bound_call(node.name, arguments, self._place(node), self.zone)
        if len(arguments) != 1:
            raise Refused(f"{node.name} takes one value here; write CAST(... AS ...)", NotSupported)
        return cast_to(arguments[0], CONVERSIONS[node.name], self._place(node))

    def _python(self, node: exp.Expr, clause: Clause) -> Expression:
        function = self._functions(node.name)
        arguments = [self.bind(each, clause) for each in node.expressions] if function is not None else []
        return python_call(function, node.name, arguments, self._place(node))

    def _operator(self, node: exp.Expr, clause: Clause) -> Expression:
        name = OPERATORS[type(node.this if isinstance(node, exp.Escape) else node)]
        arguments = [self.bind(argument, clause) for argument in operands(node)]
        bound = bound_call(name, arguments, self._place(node), self.zone)
        return Not(BOOLEAN, bound.nullable, self._place(node), bound) if is_negated(node) else bound

    def _cast(self, node: exp.Expr, clause: Clause) -> Expression:
        target = cast_type(node.args["to"])
        if target is None:
            raise Refused(f"there is no cast to {node.args['to'].sql(dialect='spark')} yet", NotSupported)
        return cast_to(self.bind(node.this, clause), target, self._place(node), bool(node.args.get("safe")))

    def _aggregate(self, node: exp.Expr, clause: Clause) -> Expression:
        if clause.no_aggregates:
            raise Refused(clause.no_aggregates)
        function = FUNCTIONS[type(node)]
        inside = Clause() if clause.over else Clause(_IN_ANOTHER)
        if isinstance(node.this, exp.Distinct):
            arguments = [self.bind(each, inside) for each in node.this.expressions]
            return distinct_call(function, arguments, self.name(node), self._place(node), self.zone)
        star = isinstance(node.this, exp.Star)
        if not star and node.this is None:
            raise Refused(f"{function.upper()} needs an argument")
        if node.args.get("expressions"):
            counted = [self.bind(each, inside) for each in (node.this, *node.expressions)]
            return counted_together(counted, self.name(node), self._place(node))
        argument = None if star else self.bind(node.this, inside)
        return call(function, argument, self.name(node), self._place(node), self.zone)

    def _further_aggregate(self, node: exp.Expr, clause: Clause) -> Expression:
        if clause.no_aggregates:
            raise Refused(clause.no_aggregates)
        inside = Clause() if clause.over else Clause(_IN_ANOTHER)
        return aggregate(node, lambda each: self.bind(each, inside), self.name(node), self._place(node), self.zone)

    def _filtered(self, node: exp.Expr, clause: Clause) -> Expression:
        if clause.no_aggregates:
            raise Refused(clause.no_aggregates)
        inside = Clause("an aggregate cannot stand in FILTER (WHERE ...); put the condition into HAVING")
        condition = self.predicate(node.expression.this, inside, "FILTER (WHERE ...)")
        return filtered_call(self.bind(node.this, clause), condition, self.name(node))

    def _window(self, node: exp.Expr, clause: Clause) -> Expression:
        assert isinstance(node, exp.Window)
        if not clause.windows:
            raise Refused("a window function can stand in SELECT and QUALIFY, and not within another", NotSupported)
        inside = replace(clause, windows=False, before=None)
        own = replace(inside, over=True)

        def bind(each: exp.Expr) -> Expression:
            return self.bind(each, own if each is node.this else inside)

        bound = windowed_call(node, bind, self._place(node), self.name(node), self.zone)
        if any(has_subquery(part) for part in bound.children()):
            raise Refused("a subquery within a window function is not supported yet; write a join", NotSupported)
        return bound

    def _mark(self, node: exp.Expr, clause: Clause) -> Expression:
        if clause.no_aggregates:
            raise Refused(clause.no_aggregates)
        keys = [self.bind(each, clause) for each in node.expressions]
        function = "grouping" if isinstance(node, exp.Grouping) else "grouping_id"
        return mark(function, keys, self.name(node), self._place(node))


_Bind = Callable[[ExpressionBinder, exp.Expr, Clause], Expression]
_BINDERS: dict[type[exp.Expr], _Bind] = {
    **dict.fromkeys(INFIX, ExpressionBinder._infix),
    **dict.fromkeys((AggregateFunction, SortedCall, exp.WithinGroup), ExpressionBinder._further_aggregate),
    **dict.fromkeys(FUNCTIONS, ExpressionBinder._aggregate), ScalarCall: ExpressionBinder._function,
    **dict.fromkeys(OPERATORS, ExpressionBinder._operator), exp.Escape: ExpressionBinder._operator,
    exp.Anonymous: ExpressionBinder._python, exp.Column: ExpressionBinder._column,
    exp.Star: ExpressionBinder._star, exp.Paren: ExpressionBinder._paren, exp.Dot: ExpressionBinder._field,
    exp.Bracket: ExpressionBinder._item,
    exp.NEQ: ExpressionBinder._not_equal, exp.And: ExpressionBinder._connected, exp.Or: ExpressionBinder._connected,
    exp.Not: ExpressionBinder._not, exp.Is: ExpressionBinder._is, exp.Neg: ExpressionBinder._negate,
    exp.In: ExpressionBinder._in, exp.Between: ExpressionBinder._between, exp.Case: ExpressionBinder._case,
    exp.Coalesce: ExpressionBinder._coalesce, exp.Subquery: ExpressionBinder._subquery,
    exp.Exists: ExpressionBinder._exists, exp.Filter: ExpressionBinder._filtered, exp.Window: ExpressionBinder._window,
    exp.Grouping: ExpressionBinder._mark, exp.GroupingId: ExpressionBinder._mark,
    exp.Interval: ExpressionBinder._interval, exp.Cast: ExpressionBinder._cast, exp.TryCast: ExpressionBinder._cast,
}  # fmt: skip
