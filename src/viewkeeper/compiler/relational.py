"""What is admitted besides where rows are kept by the core's operators: in views over tables, and in SELECT."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from viewkeeper.compiler.bind_over import FUNCTION_PARTS, WINDOW_FUNCTIONS, function_of
from viewkeeper.compiler.calls import AggregateFunction, GeneratorCall, SortedCall
from viewkeeper.compiler.source_text import QueryText, written_name
from viewkeeper.compiler.supported import (
    ADMITTED,
    FUNCTIONS,
    NOT_DETERMINISTIC,
    cast_type,
    function_refused,
    is_all,
    typed_literal,
)
from viewkeeper.errors import NotSupported

_SET_OPERATION = frozenset(("this", "expression", "distinct", "order", "limit", "offset", "with_"))

RELATIONAL: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: ADMITTED[exp.Select] | {"distinct", "with_", "windows", "qualify", "laterals"},
    exp.Distinct: frozenset(("expressions",)), exp.Filter: frozenset(("this", "expression")),
    exp.Join: ADMITTED[exp.Join] | {"side", "using", "method"}, exp.Group: ADMITTED[exp.Group] | {"all"},
    exp.With: frozenset(("expressions",)), exp.CTE: frozenset(("this", "alias")), exp.Union: _SET_OPERATION,
    exp.Intersect: _SET_OPERATION, exp.Except: _SET_OPERATION, exp.Values: frozenset(("expressions", "alias")),
    exp.Tuple: frozenset(("expressions",)), exp.Exists: frozenset(("this",)), exp.In: ADMITTED[exp.In] | {"query"},
    exp.Subquery: ADMITTED[exp.Subquery], exp.Qualify: frozenset(("this",)),
    exp.Window: frozenset(("this", "partition_by", "order", "spec", "alias", "over")),
    exp.WindowSpec: frozenset(("kind", "start", "start_side", "end", "end_side")),
    exp.IgnoreNulls: frozenset(("this",)), exp.RespectNulls: frozenset(("this",)), **FUNCTION_PARTS,
    exp.WithinGroup: frozenset(("this", "expression")),
    exp.Count: ADMITTED[exp.Count] | {"expressions"}, AggregateFunction: frozenset(("this", "expressions")),
    **dict.fromkeys((exp.Anonymous, exp.Bracket, exp.Aliases, GeneratorCall, SortedCall),
                    frozenset(("this", "expressions"))),
    exp.Dot: frozenset(("this", "expression")), exp.Column: ADMITTED[exp.Column] | {"db", "catalog"},
    exp.DataType: ADMITTED[exp.DataType] | {"nested"}, exp.ColumnDef: frozenset(("this", "kind")),
    exp.Lateral: frozenset(("this", "view", "outer", "alias")),
    **dict.fromkeys((exp.Rollup, exp.Cube, exp.GroupingSets, exp.Grouping, exp.GroupingId),
                    frozenset(("expressions",))),
}  # fmt: skip

_NULLS_INSIDE = re.compile(r"\b(IGNORE|RESPECT)\s+NULLS\s*\)", re.IGNORECASE)
_QUERIES = (exp.Select, exp.Subquery, exp.SetOperation, exp.Values)


def with_values(tree: exp.Expr, tokens: Sequence[Token]) -> exp.Expr:
    """`tree`, that of `tokens`, where VALUES in parentheses is itself, not the `SELECT * FROM` it that sqlglot makes of
    it."""
    if all(token.token_type != TokenType.VALUES for token in tokens):
        return tree
    for node in list(tree.find_all(exp.Select)):
        from_ = node.args.get("from_")
        values = from_.this if from_ is not None else None
        if isinstance(values, exp.Values) and values.alias == "_values" and not _is_written(values.args["alias"].this):
            values.set("alias", None)
            if node is tree:
                return values
            node.replace(values)
    return tree


def _is_written(name: exp.Expr) -> bool:
    return "start" in (name._meta or {})


def _check_join(query: QueryText, node: exp.Expr) -> None:
    side, kind = node.args.get("side") or "", node.args.get("kind") or ""
    if (side, kind) not in _JOINS:
        raise query.error(f"this is not SQL: there is no {side} {kind} JOIN".replace("  ", " "), node)
    method = node.args.get("method") or ""
    if method not in ("", "NATURAL"):
        raise query.error(f"{method} JOIN is not supported; leave out {method}", node, NotSupported)
    if (method or node.args.get("using")) and kind == "CROSS":
        raise query.error("this is not SQL: a CROSS JOIN has no condition", node)


_JOINS = {("", ""), ("", "INNER"), ("", "CROSS"), *((side, kind) for side in ("", "LEFT") for kind in ("SEMI", "ANTI")),
          *((side, kind) for side in ("LEFT", "RIGHT", "FULL") for kind in ("", "OUTER"))}  # fmt: skip


def _check_subquery(query: QueryText, node: exp.Expr) -> None:
    if not isinstance(node.this, _QUERIES):
        message = "a join in parentheses is not supported yet; leave out the parentheses"
        raise query.error(message, node, NotSupported)


def _check_query(query: QueryText, node: exp.Expr) -> None:
    around: tuple[type[exp.Expr], ...] = (exp.Subquery, exp.CTE, exp.SetOperation, exp.Exists)
    if isinstance(node, exp.Values):
        around += (exp.From, exp.Join)
    if node.parent is not None and not isinstance(node.parent, around):
        raise query.error("a subquery stands in parentheses", node, NotSupported)


def _check_tuple(query: QueryText, node: exp.Expr) -> None:
    if isinstance(node.parent, (exp.Values, exp.Rollup, exp.Cube, exp.GroupingSets)):
        return
    if isinstance(node.parent, exp.In) and node.parent.args.get("query"):
        return
    raise query.error("rows of several values are not supported yet; compare each value", node, NotSupported)


def _check_group(query: QueryText, node: exp.Expr) -> None:
    if bool(node.expressions) == bool(node.args.get("all")):
        raise query.error("this is not SQL: GROUP BY names what it groups by, or ALL", node)


def _check_window(query: QueryText, node: exp.Expr) -> None:
    if node.arg_key == "windows":
        return
    assert isinstance(node, exp.Window)
    if type(function_of(node)) not in (*WINDOW_FUNCTIONS, *FUNCTIONS, AggregateFunction):
        raise query.error("OVER stands behind a window function or an aggregate", node, NotSupported)


def _check_windowed(query: QueryText, node: exp.Expr) -> None:
    around = node.parent
    if isinstance(around, (exp.IgnoreNulls, exp.RespectNulls)):
        around = around.parent
        if _NULLS_INSIDE.search(query.sql):  # the same tree to sqlglot
            raise query.error("IGNORE NULLS and RESPECT NULLS stand behind the parentheses", node, NotSupported)
    if not isinstance(around, exp.Window):
        raise query.error(f"{written_name(query, node)} needs OVER (...)", node, NotSupported)


def _check_call(query: QueryText, node: exp.Expr) -> None:
    """A function that only the catalog may know: the binder asks it."""
    plain = not any(isinstance(each, (exp.Distinct, exp.Order)) for each in node.expressions)
    if not plain or node.name.lower() in NOT_DETERMINISTIC or isinstance(node.parent, exp.Filter):
        raise query.error(function_refused(node.name), node, NotSupported)


def _check_order(query: QueryText, node: exp.Expr) -> None:
    if not node.expressions or not isinstance(
        node.parent, (exp.Select, exp.SetOperation, exp.Values, exp.Window, exp.WithinGroup)
    ):
        raise query.error("this is not SQL: ORDER BY names what it orders by", node)
    if any(map(is_all, node.expressions)) and (len(node.expressions) > 1 or isinstance(node.parent, exp.Window)):
        raise query.error("ALL stands alone in an ORDER BY, and means all outputs", node, NotSupported)


def _check_generator(query: QueryText, node: exp.Expr) -> None:
    around = node.parent.parent if isinstance(node.parent, (exp.Alias, exp.Aliases)) else node.parent
    if not isinstance(around, (exp.Select, exp.Lateral)) or (node.parent is around and node.arg_key == "from_"):
        raise query.error(f"{node.name} stands alone in a SELECT list, or behind LATERAL", node, NotSupported)


def _check_names(query: QueryText, node: exp.Expr) -> None:
    if not isinstance(node.this, GeneratorCall) or not isinstance(node.parent, exp.Select):
        raise query.error("several names for one column are not supported", node, NotSupported)


def _check_lateral(query: QueryText, node: exp.Expr) -> None:
    stands = node.arg_key == "laterals" or isinstance(node.parent, exp.Join)
    if not stands or not isinstance(node.this, GeneratorCall):
        raise query.error("LATERAL is not supported like this yet", node, NotSupported)


def _check_qualify(query: QueryText, node: exp.Expr) -> None:
    over = {id(function_of(window)) for window in node.find_all(exp.Window)}
    for call in node.find_all(AggregateFunction, *FUNCTIONS, exp.AggFunc):
        if id(call) not in over and type(call) not in (exp.Coalesce, *WINDOW_FUNCTIONS):
            message = "an aggregate cannot stand in QUALIFY; put it into the SELECT list, and name it here"
            raise query.error(message, call, NotSupported)


def _check_field(query: QueryText, node: exp.Expr) -> None:
    if isinstance(node.expression, exp.Func):
        raise query.error("a function has a name of one part here", node, NotSupported)


def _check_cast(query: QueryText, node: exp.Expr) -> None:
    written = type(node) is exp.Cast and not node._meta and isinstance(node.this, exp.Literal)
    if written and node.this.is_string and typed_literal(node) is None and cast_type(node.args["to"]) is not None:
        raise query.error("there is no literal of this type; write CAST(... AS the type)", node, NotSupported)


CHECKS: dict[type[exp.Expr], Callable[[QueryText, exp.Expr], None]] = {
    exp.Join: _check_join, exp.Subquery: _check_subquery, exp.Select: _check_query, exp.Values: _check_query,
    exp.Union: _check_query, exp.Intersect: _check_query, exp.Except: _check_query, exp.Tuple: _check_tuple,
    exp.Group: _check_group, exp.Window: _check_window, exp.Order: _check_order,
    exp.Anonymous: _check_call, GeneratorCall: _check_generator, exp.Lateral: _check_lateral,
    exp.Aliases: _check_names, exp.Qualify: _check_qualify, exp.Dot: _check_field, exp.Cast: _check_cast,
    **dict.fromkeys(WINDOW_FUNCTIONS, _check_windowed),
}  # fmt: skip
"""How what `RELATIONAL` admits is checked further."""
