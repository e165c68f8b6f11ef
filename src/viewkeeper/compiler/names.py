"""The names that Spark gives to outputs without an alias (`toPrettySQL`), such as `sum(price)` or `(a + 1)`."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from viewkeeper.compiler.bind_over import WINDOW_FUNCTIONS, call_name, function_of, over_name
from viewkeeper.compiler.calls import (
    CONVERSIONS,
    OPERATORS,
    AggregateFunction,
    ScalarCall,
    SortedCall,
    is_negated,
    operands,
)
from viewkeeper.compiler.intervals import WrittenInterval
from viewkeeper.compiler.source_text import IS_NOT
from viewkeeper.compiler.supported import FUNCTIONS, cast_type
from viewkeeper.functions.registry import BY_NAME

INFIX: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/",
                                    exp.Mod: "%", exp.EQ: "=", exp.LT: "<", exp.LTE: "<=",
                                    exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>"}  # fmt: skip


_SHOWN: dict[str, Callable[[list[str]], str]] = {
    "if": lambda a: f"(IF({', '.join(a)}))", "isnull": lambda a: f"({a[0]} IS NULL)",
    "isnotnull": lambda a: f"({a[0]} IS NOT NULL)", "extract": lambda a: f"extract({a[0]} FROM {a[1]})",
    "datepart": lambda a: f"datepart({a[0]} FROM {a[1]})",
}  # fmt: skip
"""How Spark writes calls of functions that are other expressions, where it is not the name and the arguments."""


_SHOWN_AS = {"array_agg": "collect_list"}
"""Aggregates that Spark shows by another name."""

_SHIFTS: dict[type[exp.Expr], str] = {exp.BitwiseLeftShift: "<<", exp.BitwiseRightShift: ">>"}


class Namer:
    """`literal` answers how a constant node is shown, None for a node that is no constant; `compared` answers how the
    two sides of an infix operator are shown, None for a side that is shown as it is written; `column` how a column is
    within others."""

    def __init__(
        self, literal: Callable[[exp.Expr], str | None],
        compared: Callable[[exp.Expr], tuple[str | None, str | None]], column: Callable[[exp.Expr], str],
    ) -> None:  # fmt: skip
        self._literal, self._compared, self._column = literal, compared, column

    def name(self, node: exp.Expr) -> str:
        constant = self._literal(node)
        if constant is not None:
            return constant
        if isinstance(node, exp.Star):
            return "1"  # COUNT(*) is called count(1)
        if isinstance(node, exp.Paren):
            return self.name(node.this)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Dot):
            return f"{self.name(node.this)}.{node.expression.name}"
        if isinstance(node, exp.Bracket):
            return f"{self.name(node.this)}[{', '.join(map(self.name, node.expressions))}]"
        if isinstance(node, exp.Alias):
            return f"{self.name(node.this)} AS {node.alias}"
        kind = type(node)
        if kind in INFIX:
            left, right = self._compared(node)
            if left is not None and right is None and kind in (exp.Add, exp.Sub):
                return left
            return f"({left or self.name(node.this)} {INFIX[kind]} {right or self.name(node.expression)})"
        if kind is exp.Filter:
            return f"{self.name(node.this)} FILTER (WHERE {self.name(node.expression.this)})"
        if kind in FUNCTIONS and isinstance(node.this, exp.Distinct):
            return f"{FUNCTIONS[kind]}(DISTINCT {', '.join(map(self.name, node.this.expressions))})"
        if kind in FUNCTIONS:
            arguments = (node.this, *node.args.get("expressions", ()))
            return (
                f"{FUNCTIONS[kind]}({', '.join('1' if isinstance(a, exp.Star) else self.name(a) for a in arguments)})"
            )
        if isinstance(node, exp.WithinGroup):
            term = node.expression.expressions[0]
            if node.this.name in ("listagg", "string_agg"):
                listed, once = node.this.expressions, ""
                if isinstance(listed[0], exp.Distinct):
                    listed, once = listed[0].expressions, "DISTINCT "
                given = once + ", ".join([*map(self.name, listed), "NULL"][:2])
                order = "DESC NULLS LAST" if term.args.get("desc") else "ASC NULLS FIRST"
                return f"listagg({given}) WITHIN GROUP (ORDER BY {self.name(term.this)} {order})"
            turned = bool(term.args.get("desc")) != (node.this.name == "mode")  # which Spark shows the other way round
            return f"{self.name(node.this)} WITHIN GROUP (ORDER BY {self.name(term.this)}{' DESC' if turned else ''})"
        if isinstance(node, AggregateFunction):
            distinct = next((each for each in node.expressions if isinstance(each, exp.Distinct)), None)
            listed = ", ".join(map(self.name, (distinct or node).expressions))
            if node.name == "mode" and len(node.expressions) == 2:
                value, least = node.expressions
                name = self.name(value)
                return f"mode({name})" if least == exp.false() else f"mode() WITHIN GROUP (ORDER BY {name} DESC)"
            listed += ", 1" * (node.name == "percentile")  # how often each value counts
            return f"{_SHOWN_AS.get(node.name, node.name)}({'' if distinct is None else 'DISTINCT '}{listed})"
        if isinstance(node, (ScalarCall, SortedCall)):
            return self._call(node.name, node.expressions)
        if isinstance(node, exp.Anonymous):
            return self._call(node.name, node.expressions)
        if kind in OPERATORS or kind is exp.Escape:
            shown = self._operator(node)
            return f"(NOT {shown})" if is_negated(node) else shown
        if isinstance(node, (exp.Grouping, exp.GroupingId)):
            return self._call("grouping" if isinstance(node, exp.Grouping) else "grouping_id", node.expressions)
        return self._other(node)

    def _windowed(self, node: exp.Window) -> str:
        """The call of a window function."""
        function = function_of(node)
        if type(function) in WINDOW_FUNCTIONS:
            return call_name(function, isinstance(node.this, exp.IgnoreNulls), self.name)
        return self.name(node.this)

    def _operator(self, node: exp.Expr) -> str:
        if type(node) in _SHIFTS:
            return f"({self.name(node.this)} {_SHIFTS[type(node)]} {self.name(node.expression)})"
        return self._call(OPERATORS[type(node.this if isinstance(node, exp.Escape) else node)], operands(node))

    def _call(self, name: str, written: list[exp.Expr]) -> str:
        arguments = list(map(self.name, written))
        if name in _SHOWN:
            return _SHOWN[name](arguments)
        if name in CONVERSIONS and not name.startswith("to_"):
            return arguments[0]
        function = BY_NAME.get(name)
        if function is None:
            return f"{name}({', '.join(arguments)})"
        left_out = function.defaults[len(arguments) - (function.most - len(function.defaults)) :]
        return function.shown(name, [*arguments, *map(str, left_out)])

    def _other(self, node: exp.Expr) -> str:
        if isinstance(node, (exp.And, exp.Or)):
            return _balanced([self.name(term) for term in node.flatten(unnest=False)], node.key.upper())
        if isinstance(node, exp.Neg):
            return f"(- {self.name(node.this)})"
        if isinstance(node, (exp.Cast, exp.TryCast)):
            if node.args["to"].args.get("nested"):  # to an array, struct or map: Spark does not show it
                return self.name(node.this)
            tried = "TRY_" if node.args.get("safe") else ""
            return f"{tried}CAST({self.name(node.this)} AS {cast_type(node.args['to'])})"
        if isinstance(node, exp.NEQ):
            return f"(NOT ({self.name(node.this)} = {self.name(node.expression)}))"
        if isinstance(node, exp.Is):
            if isinstance(node.expression, exp.Boolean):
                return f"({self.name(node.this)} <=> {self.name(node.expression)})"
            return f"({self.name(node.this)} IS NULL)"
        if isinstance(node, exp.Window):
            return over_name(self._windowed(node), node, self.name)
        if isinstance(node, exp.Subquery):
            return "scalarsubquery()"
        if isinstance(node, exp.Exists):
            return "exists()"
        if isinstance(node, exp.In) and node.args.get("query"):
            return f"({', '.join(map(self.name, node.this.unnest().expressions or [node.this]))} IN (listquery()))"
        if isinstance(node, exp.Interval):
            return WrittenInterval(node).name
        if isinstance(node, exp.In):
            return f"({self.name(node.this)} IN ({', '.join(map(self.name, node.expressions))}))"
        if isinstance(node, exp.Between):
            return f"between({', '.join(self.name(node.args[part]) for part in ('this', 'low', 'high'))})"
        if isinstance(node, exp.Not):
            if (
                isinstance(node.this, exp.Is)
                and IS_NOT in (node._meta or {})
                and not isinstance(node.this.expression, exp.Boolean)
            ):
                return f"({self.name(node.this.this)} IS NOT NULL)"
            return f"(NOT {self.name(node.this)})"
        assert isinstance(node, exp.Case), type(node)
        operand = f"({self.name(node.this)} = {{}})" if node.this else "{}"
        branches = [
            f"WHEN {operand.format(self.name(b.this))} THEN {self.name(b.args['true'])}" for b in node.args["ifs"]
        ]
        otherwise = [f"ELSE {self.name(node.args['default'])}"] if node.args.get("default") else []
        return " ".join(["CASE", *branches, *otherwise, "END"])


def _balanced(terms: list[str], operator: str) -> str:
    # Spark's parser makes a balanced tree of a long AND or OR.
    if len(terms) == 1:
        return terms[0]
    middle = 1 if len(terms) == 2 else (len(terms) - 1) // 2 + 1
    return f"({_balanced(terms[:middle], operator)} {operator} {_balanced(terms[middle:], operator)})"
