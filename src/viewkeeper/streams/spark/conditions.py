"""What a query asks of PART_TIMESTAMP alone, so that other parts need not be read.

A conjunct of WHERE is not understood but cut out as it stands; Spark tries it on the parts (`parts_left`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from viewkeeper.streams.spark.hidden_names import Item, Scopes, span

TextSpan = tuple[int, int]

_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}
_BEHIND = {"GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "QUALIFY", "WINDOW", "UNION",
           "EXCEPT", "MINUS", "INTERSECT", "LATERAL", "AGGREGATE"}  # fmt: skip


def conditions(
    tree: exp.Expr, tokens: Sequence[Token], scopes: Scopes
) -> Mapping[str, tuple[str, tuple[TextSpan, ...]]]:
    """For each table: what it is called, and where conjuncts stand that name its PART_TIMESTAMP and nothing else.

    Each such table stands once in the query, so what its own SELECT asks of it holds for the whole.
    """
    found: dict[str, tuple[str, tuple[TextSpan, ...]]] = {}
    for where in tree.find_all(exp.Where):
        select = where.parent
        columns = list(where.find_all(exp.Column))
        if not isinstance(select, exp.Select) or not all((column.this._meta or {}).get("start") for column in columns):
            continue
        own = {item.alias: item for item in scopes.items(select) if item.timed}
        for start, end in _conjuncts(tokens, _first_token(tokens, where)):
            within = [column for column in columns if start <= span(column.this)[0] < end]
            meant = {_own_item(column, own, scopes) for column in within}
            if len(meant) == 1 and (item := meant.pop()) is not None and not _has_query(tokens, start, end):
                before = found.get(item.timed or "", ("", ()))[1]
                found[item.timed or ""] = item.node.alias_or_name, (*before, (start, end))
    return found


def _own_item(column: exp.Column, own: Mapping[str, Item], scopes: Scopes) -> Item | None:
    """The table of this SELECT whose PART_TIMESTAMP `column` is; None where it is anything else."""
    item = scopes.meant(column) if scopes.is_hidden(column) else None
    return item if item is not None and own.get(item.alias) == item else None


def _first_token(tokens: Sequence[Token], where: exp.Where) -> int:
    """The number of the token behind this WHERE; that of no token where it is not found."""
    starts = [span(column.this)[0] for column in where.find_all(exp.Column)]
    inner = sum(1 for _ in where.find_all(exp.Where)) - 1
    if not starts or inner:
        return len(tokens)
    before = [i for i, token in enumerate(tokens) if token.token_type == TokenType.WHERE and token.start < min(starts)]
    return before[-1] + 1 if before else len(tokens)


def _conjuncts(tokens: Sequence[Token], first: int) -> Iterator[TextSpan]:
    """Where the conjuncts from token `first` on stand, to the end of their clause; none where an OR joins them."""
    found: list[TextSpan] = []
    depth = between = 0
    begin = last = first
    for i in range(first, len(tokens)):
        kind, text = tokens[i].token_type, tokens[i].text.upper().split(" ")[0]
        if depth == 0 and (kind in _CLOSE or text in _BEHIND or kind == TokenType.SEMICOLON):
            break
        depth += (kind in _OPEN) - (kind in _CLOSE)
        if depth == 0 and kind in (TokenType.OR, TokenType.XOR):
            return
        if depth == 0 and kind == TokenType.BETWEEN:
            between += 1
        elif depth == 0 and kind == TokenType.AND and between:
            between -= 1
        elif depth == 0 and kind == TokenType.AND:
            found.append((tokens[begin].start, tokens[i - 1].end + 1))
            begin = i + 1
        last = i
    if begin <= last < len(tokens):
        found.append((tokens[begin].start, tokens[last].end + 1))
    yield from found


def _has_query(tokens: Sequence[Token], start: int, end: int) -> bool:
    return any(token.token_type == TokenType.SELECT for token in tokens if start <= token.start < end)
