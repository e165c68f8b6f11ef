"""Which rows come first where ORDER BY, min_by or max_by finds several equal: settled in a view, and in the text that
Spark is asked.

The outermost ORDER BY with LIMIT is settled by all outputs.  A window function is settled by the key of the rows that
it is computed of, or by all their columns where they have none; `over.windowed` says so.  min_by and max_by are settled
by the value that they give: of equal ones it is the least, or the greatest.  mode is settled by the least.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from viewkeeper.compiler.bind_over import window_of
from viewkeeper.compiler.source_text import QueryText, Script, offset_of
from viewkeeper.compiler.syntax import query_tokens, tokenize
from viewkeeper.plans.expressions import TextPlace
from viewkeeper.plans.relations import Limit, Relation, Windows, inputs_of
from viewkeeper.plans.subqueries import relations_in
from viewkeeper.plans.value_functions import EXTREMES_BY

_WHOLE = " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"

_ORDERING = (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET)

Edit = tuple[int, int, str]
"""The characters from one offset in a query up to another, and what stands there instead."""


def settled(query: QueryText, relation: Relation, outputs: int) -> str | None:
    """The text of `query`, bound as `relation`, by which Spark breaks ties as the view does; None if there is none."""
    edits: list[Edit] = []
    for each in relations_in(relation):
        if isinstance(each, Windows):
            if each.settled is None:
                return None
            edits += _of_windows(query, dict(each.settled))
    if any(isinstance(each, Limit) for each in inputs_of(relation)):
        edits += _of_limit(query, outputs)
    return _edited(query, [*edits, *_of_query(query)])


def ties_broken(query: QueryText, outputs: int) -> str:
    """The text of `query`, which has so many `outputs`, with all of them as further terms of its own ORDER BY, if LIMIT
    or OFFSET stands behind that: rows that are then still equal are one another's like."""
    return _edited(query, [*_of_limit(query, outputs), *_of_query(query)])


def extremes_settled(text: str) -> str:
    """An expression whose calls of min_by, max_by and mode are settled."""
    for start, end, instead in sorted(_of_extremes(text, tokenize(Script(text))), reverse=True):
        text = text[:start] + instead + text[end:]
    return text


def _of_query(query: QueryText) -> list[Edit]:
    found = _of_extremes(query.source.text, query_tokens(query))
    return [(start - query.start, end - query.start, instead) for start, end, instead in found]


def _of_extremes(text: str, tokens: Sequence[Token]) -> Iterator[Edit]:
    """The second argument of min_by and max_by becomes a struct of both, and rows where it is NULL are left out; mode
    takes the least of several."""
    for i, (token, after) in enumerate(pairwise(tokens)):
        name = token.text.lower()
        if (name not in EXTREMES_BY and name != "mode") or after.token_type != TokenType.L_PAREN:
            continue
        last, first = closing(tokens, i + 1), i + 2 + (tokens[i + 2].token_type in (TokenType.DISTINCT, TokenType.ALL))
        commas = [
            n for n in range(first, last) if tokens[n].token_type == TokenType.COMMA and _depth(tokens, first, n) == 0
        ]
        if token.token_type == TokenType.IDENTIFIER:
            continue
        if name == "mode":
            yield from _of_mode(tokens, first, last, commas)
            continue
        if len(commas) not in (1, 2):
            continue
        value = text[tokens[first].start : tokens[commas[0]].start].strip()
        begin, end = tokens[commas[0] + 1].start, tokens[[*commas, last][1]].start
        there = f"({text[begin:end].strip()}) IS NOT NULL"
        yield begin, begin, "struct("
        yield end, end, f", {value})"
        if [each.text.upper() for each in tokens[last + 1 : last + 4]] == ["FILTER", "(", "WHERE"]:
            begin, end = tokens[last + 4].start, tokens[closing(tokens, last + 2)].start
            yield begin, begin, f"{there} AND ("
            yield end, end, ")"
        else:
            yield tokens[last].end + 1, tokens[last].end + 1, f" FILTER (WHERE {there})"


def _of_mode(tokens: Sequence[Token], first: int, last: int, commas: Sequence[int]) -> Iterator[Edit]:
    if not commas and first < last:
        yield tokens[last].start, tokens[last].start, ", true"
    elif len(commas) == 1 and tokens[commas[0] + 1].text.lower() == "false":
        yield tokens[commas[0] + 1].start, tokens[commas[0] + 1].end + 1, "true"


def _depth(tokens: Sequence[Token], first: int, behind: int) -> int:
    kinds = [token.token_type for token in tokens[first:behind]]
    opened, closed = (TokenType.L_PAREN, TokenType.L_BRACKET), (TokenType.R_PAREN, TokenType.R_BRACKET)
    return sum((kind in opened) - (kind in closed) for kind in kinds)


def _edited(query: QueryText, edits: Sequence[Edit]) -> str:
    text = query.sql
    for start, end, instead in sorted(set(edits), reverse=True):  # rows that are read twice stand in a relation twice
        text = text[:start] + instead + text[end:]
    return text


def _of_limit(query: QueryText, outputs: int) -> list[Edit]:
    depth, order, end = 0, False, None
    tokens = query_tokens(query)
    for i, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        follows = tokens[i + 1].token_type if i + 1 < len(tokens) else None
        if depth == 0 and token.token_type == TokenType.PIPE_GT and follows not in _ORDERING:
            order, end = False, None  # whatever follows has other columns
        elif depth == 0 and token.token_type == TokenType.ORDER_BY:
            order, end = tokens[i + 1].token_type != TokenType.ALL, None
        elif depth == 0 and token.token_type in (TokenType.LIMIT, TokenType.OFFSET) and order and end is None:
            piped = tokens[i - 1].token_type == TokenType.PIPE_GT
            end = (tokens[i - 1] if piped else token).start - query.start
    if end is None:
        return []
    kept = len(query.sql[:end].rstrip())
    return [(kept, end, "".join(f", {i + 1}" for i in range(outputs)) + " ")]


def _of_windows(query: QueryText, terms: dict[TextPlace, str]) -> list[Edit]:
    """`terms` by the places of window functions.  None has others within, so their OVERs stand in their own order."""
    nodes = [node for node in query.tree.find_all(exp.Window) if node.args.get("over")]
    nodes.sort(key=lambda node: offset_of(node) or 0)
    tokens = query_tokens(query)
    overs = [i for i, token in enumerate(tokens) if token.token_type == TokenType.OVER]
    assert len(nodes) == len(overs), "every OVER belongs to a window function"
    edits = []
    for node, over in zip(nodes, overs, strict=True):
        place = query.place(node)
        if place is not None and place in terms:
            edits.append(_of_window(query, tokens, over, node, terms[place]))
    return edits


def _of_window(query: QueryText, tokens: Sequence[Token], over: int, node: exp.Window, terms: str) -> Edit:
    """What stands behind an OVER, or what its name means, with `terms` behind its ORDER BY."""
    parenthesised = tokens[over + 1].token_type == TokenType.L_PAREN
    last = closing(tokens, over + 1) if parenthesised else over + 1
    first, behind = over + 2, last
    if node.args.get("alias") is not None:
        start = offset_of(window_of(node))
        first = next(i for i, token in enumerate(tokens) if token.start == start) + 3  # behind its name, AS and (
        behind = closing(tokens, first - 1)
    depth, ordered, frame = 0, False, behind
    for i in range(first, behind):
        kind = tokens[i].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        ordered = ordered or (depth == 0 and kind == TokenType.ORDER_BY)
        if depth == 0 and kind in (TokenType.ROWS, TokenType.RANGE):
            frame = min(frame, i)
    head = query.source.text[tokens[first - 1].end + 1 : tokens[frame].start].rstrip()
    tail = query.source.text[tokens[frame].start : tokens[behind].start]
    whole = "" if ordered or tail else _WHOLE
    text = f" ({head}{', ' if ordered else ' ORDER BY '}{terms}{whole}{' ' if tail else ''}{tail})"
    return tokens[over].end + 1 - query.start, tokens[last].end + 1 - query.start, text


def closing(tokens: Sequence[Token], opening: int) -> int:
    """The parenthesis that closes the one at `opening`."""
    depth = 0
    for i in range(opening, len(tokens)):
        depth += (tokens[i].token_type == TokenType.L_PAREN) - (tokens[i].token_type == TokenType.R_PAREN)
        if depth == 0:
            return i
    raise AssertionError("parentheses that were read are closed")
