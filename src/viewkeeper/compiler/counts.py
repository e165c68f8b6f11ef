"""LIMIT and OFFSET: a constant, computed when the query is read."""

from __future__ import annotations

from sqlglot import exp

from viewkeeper.catalog.types import INT
from viewkeeper.compiler.bind_expression import Clause, ExpressionBinder
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.errors import NotSupported
from viewkeeper.evaluation.evaluate import evaluate
from viewkeeper.plans.outside import OutsideCall
from viewkeeper.plans.rewriting import walk
from viewkeeper.plans.subqueries import has_subquery

_NO_AGGREGATES = "an aggregate cannot stand in LIMIT and OFFSET"


def count_of(query: QueryText, binder: ExpressionBinder, select: exp.Expr, part: str) -> int | None:
    """What the `part` limit or offset of `select` says, None where there is none; `binder` has no columns in scope.

    Raises DeclarationError where Spark does: for what is no constant, no INT, or less than 0.
    """
    clause = select.args.get(part)
    if clause is None:
        return None
    bound = binder.bind(clause.expression, Clause(_NO_AGGREGATES))
    count = None
    if bound.type == INT and not has_subquery(bound):
        if any(isinstance(each, OutsideCall) for each in walk(bound)):
            raise query.error(f"{part.upper()} by a call that is not computed here", clause.expression, NotSupported)
        values, errors = evaluate(bound, (), 1)
        count = values[0].as_py() if errors is None else None
    if count is None or count < 0:
        raise query.error(f"{part.upper()} needs a whole number of type INT", clause.expression)
    return int(count)
