"""Which rows a LIMIT takes, where ORDER BY finds several equal: all outputs settle it, in a view and for Spark."""

from __future__ import annotations

from sqlglot.tokens import TokenType

from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.syntax import query_tokens


def ties_broken(query: QueryText, outputs: int) -> str:
    """The text of `query`, which has so many `outputs`, with all of them as further terms of its own ORDER BY, if LIMIT
    or OFFSET stands behind that: rows that are then still equal are one another's like."""
    tokens = query_tokens(query)
    depth, order, end = 0, False, None
    for token in tokens:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.token_type == TokenType.ORDER_BY:
            order, end = True, None
        elif depth == 0 and token.token_type in (TokenType.LIMIT, TokenType.OFFSET) and order and end is None:
            end = token.start - query.start
    if end is None:
        return query.sql
    terms = "".join(f", {i + 1}" for i in range(outputs))
    return f"{query.sql[:end].rstrip()}{terms} {query.sql[end:]}"
