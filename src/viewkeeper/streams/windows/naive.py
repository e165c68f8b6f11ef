"""STRATEGY(naive): each part of a window view is computed from the rows of the whole window, by Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot.tokens import TokenType

from viewkeeper.catalog.model import Column, PartView, Stream
from viewkeeper.compiler.part_references import read_view_query
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.statements import CreateWindowView
from viewkeeper.compiler.syntax import query_tokens
from viewkeeper.errors import NotSupported
from viewkeeper.plans.references import Subscript
from viewkeeper.plans.relations import AggregateCall
from viewkeeper.plans.viewdf import NamedInput, PlainPlan, PlannedQuery
from viewkeeper.streams.bind_viewdf import timed


def naive_window(
    statement: CreateWindowView, source: Stream | PartView, window: int, columns: tuple[Column, ...],
    calls: Sequence[AggregateCall], new_id: Callable[[], int],
) -> PartView:  # fmt: skip
    """The view whose part j is the query over parts j - window + 1 to j; its `columns` are those of the window view.

    Raises NotSupported where it would not have the same rows: a query joins all its rows at one version of a dimension
    table, and Spark's sums of DOUBLEs depend on their order.
    """
    query = statement.query
    written = query_tokens(query)
    hint = next(token for token in written if token.token_type == TokenType.HINT)
    text = query.source.text
    blank = "".join(character if character == "\n" else " " for character in text[hint.start : hint.end + 1])
    without = Script(text[: hint.start] + blank + text[hint.end + 1 :])
    read = read_view_query(without, [token for token in written if token is not hint], "j").query
    if len(read.references) > 1:
        message = ("STRATEGY(naive): rows of a window are joined each at its own part's version of a table, which a "
                   "query over the whole window cannot do")  # fmt: skip
        raise query.source.error(message, hint.start, NotSupported)
    for call in calls:
        argument = call.argument
        if argument is not None and argument.type.name in ("DOUBLE", "FLOAT") and call.function in _INEXACT:
            raise query.source.error(f"STRATEGY(naive): {call.function.upper()} in floating point is exact here, and "
                                     "Spark's own is not", hint.start, NotSupported)  # fmt: skip
    low, high = Subscript(1, 1 - window), Subscript(1, 0)
    (reference,) = read.references
    read = replace(read, references=(replace(reference, low=low, high=high),))
    planned = PlannedQuery(read, (NamedInput(reference.name, source.id, low, high),), (), timed(read, {reference.name}))
    return PartView(
        new_id(), statement.name.name, query.sql, columns, source.length, (source.id,), (),
        PlainPlan(planned, planned), fills=True, expire=statement.expire,
    )  # fmt: skip


_INEXACT = {"sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp"}
