"""The names that Spark gives to outputs without an alias (`toPrettySQL`), such as `sum(price)` or `(a + 1)`."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from viewkeeper.compiler.source_text import IS_NOT
from viewkeeper.compiler.supported import FUNCTIONS
from viewkeeper.functions.registry import BY_NODE

INFIX: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/",
                                    exp.Mod: "%", exp.EQ: "=", exp.LT: "<", exp.LTE: "<=",
                                    exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>"}  # fmt: skip


class Namer:
    """`literal` answers how a constant node is shown, None for a node that is no constant; `compared` answers how the
    two sides of an infix operator are shown, None for a side that is shown as it is written."""

    def __init__(
        self, literal: Callable[[exp.Expr], str | None],
        compared: Callable[[exp.Expr], tuple[str | None, str | None]],
    ) -> None:  # fmt: skip
        self._literal, self._compared = literal, compared

    def name(self, node: exp.Expr) -> str:
        constant = self._literal(node)
        if constant is not None:
            return constant
        if isinstance(node, exp.Star):
            return "1"  # COUNT(*) is called count(1)
        if isinstance(node, exp.Paren):
            return self.name(node.this)
        if isinstance(node, exp.Column):
            return str(node.name)
        kind = type(node)
        if kind in INFIX:
            left, right = self._compared(node)
            return f"({left or self.name(node.this)} {INFIX[kind]} {right or self.name(node.expression)})"
        if kind in FUNCTIONS:
            arguments = (node.this, *node.args.get("expressions", ()))
            return (
                f"{FUNCTIONS[kind]}({', '.join('1' if isinstance(a, exp.Star) else self.name(a) for a in arguments)})"
            )
        if kind in BY_NODE:
            function = BY_NODE[kind]
            left_out = [str(value) for part, value in function.defaults if node.args.get(part) is None]
            return f"{function.name}({', '.join([*map(self.name, function.arguments(node)), *left_out])})"
        return self._other(node)

    def _other(self, node: exp.Expr) -> str:
        if isinstance(node, (exp.And, exp.Or)):
            return _balanced([self.name(term) for term in node.flatten(unnest=False)], node.key.upper())
        if isinstance(node, exp.Neg):
            return f"(- {self.name(node.this)})"
        if isinstance(node, exp.NEQ):
            return f"(NOT ({self.name(node.this)} = {self.name(node.expression)}))"
        if isinstance(node, exp.Is):
            return f"({self.name(node.this)} IS NULL)"
        if isinstance(node, exp.Subquery):
            return "scalarsubquery()"
        if isinstance(node, exp.Exists):
            return "exists()"
        if isinstance(node, exp.In) and node.args.get("query"):
            return f"({', '.join(map(self.name, node.this.unnest().expressions or [node.this]))} IN (listquery()))"
        if isinstance(node, exp.In):
            return f"({self.name(node.this)} IN ({', '.join(map(self.name, node.expressions))}))"
        if isinstance(node, exp.Between):
            return f"between({', '.join(self.name(node.args[part]) for part in ('this', 'low', 'high'))})"
        if isinstance(node, exp.Not):
            if isinstance(node.this, exp.Is) and IS_NOT in (node._meta or {}):
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
