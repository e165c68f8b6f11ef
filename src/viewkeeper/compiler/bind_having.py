"""HAVING: what its names mean, beside columns and aliases that are called alike."""

from __future__ import annotations

from sqlglot import exp

from viewkeeper.catalog.types import Type
from viewkeeper.compiler.aggregates import Grouping
from viewkeeper.compiler.bind_expression import Clause, ExpressionBinder
from viewkeeper.compiler.bind_over import has_window
from viewkeeper.compiler.coercion import cannot_fail
from viewkeeper.compiler.grouping_sets import has_sets
from viewkeeper.compiler.scope import Unresolved
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import Cast, ColumnRef, Expression
from viewkeeper.plans.rewriting import walk

_TWO_TYPES = "{} is an alias here, and a column of another type in FROM; give the output another alias"


def having_of(
    query: QueryText,
    binder: ExpressionBinder,
    select: exp.Select,
    grouping: Grouping,
    aliases: dict[str, list[Expression]],
) -> Expression | None:
    """The condition that HAVING says, if there is one; `aliases` are those of the SELECT list, in small letters."""
    having = select.args.get("having")
    if having is None:
        return None
    if has_sets(select.args.get("group")):
        _refuse_qualified(query, having)
    # A name in HAVING is first a column that is grouped by, then an alias (in ORDER BY the other way round).
    free = {name: bound for name, bound in aliases.items() if not _is_grouped(binder, grouping, name)}
    _refuse_two_types(query, binder, having.this, free)
    bound = binder.predicate(having.this, Clause(outputs=free), "HAVING")
    if has_window(bound):
        raise query.error("a window function cannot stand in HAVING; write QUALIFY", having)
    return bound


def _refuse_qualified(query: QueryText, having: exp.Expr) -> None:
    # Behind ROLLUP and its kin Spark finds such a name only where it has no aggregate to add to the outputs.
    for node in having.find_all(exp.Column):
        if node.args.get("table") and node.find_ancestor(exp.AggFunc, exp.Having) is having:
            message = f"in HAVING beside ROLLUP, CUBE or GROUPING SETS {node.name} stands without its table's name"
            raise query.error(message, node, NotSupported)


def _refuse_two_types(
    query: QueryText, binder: ExpressionBinder, having: exp.Expr, free: dict[str, list[Expression]]
) -> None:
    # Spark first takes an alias in HAVING for the column of FROM that has its name, if there is one, and converts
    # both sides of an operator for that; then the alias takes the column's place, and the conversions stay.
    doubtful: dict[int, exp.Column] = {}
    for node in having.find_all(exp.Column):
        inside = node.find_ancestor(exp.AggFunc, exp.Query)
        if node.args.get("table") or not isinstance(inside, exp.Select) or node.name.lower() not in free:
            continue
        try:
            index, column = binder.scope.resolve(node.name, None)
        except Unresolved:
            continue
        types = {output.type for output in free[node.name.lower()]} - {column.type}
        if any(not _is_wider(column.type, type_) for type_ in types):
            raise query.error(_TWO_TYPES.format(node.name), node)
        if types:
            doubtful[index] = node
    if doubtful:
        names = {node.name.lower() for node in doubtful.values()}
        others = Clause(outputs={name: bound for name, bound in free.items() if name not in names})
        for cast in walk(binder.bind(having, others)):
            if isinstance(cast, Cast) and isinstance(cast.argument, ColumnRef) and cast.argument.index in doubtful:
                node = doubtful[cast.argument.index]
                raise query.error(_TWO_TYPES.format(node.name), node)


def _is_grouped(binder: ExpressionBinder, grouping: Grouping, name: str) -> bool:
    try:
        index, _ = binder.scope.resolve(name, None)
    except Unresolved:
        return False
    return index in grouping.columns


def _is_wider(column: Type, output: Type) -> bool:
    """Whether comparing and calculating with either is the same as long as neither is converted."""
    both_integers = column.is_integer and output.is_integer
    both_decimals = column.is_decimal and output.is_decimal and column.scale == output.scale
    return (both_integers or both_decimals) and cannot_fail(column, output)
