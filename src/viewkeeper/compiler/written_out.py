"""What Spark reads and sqlglot does not, written out in tokens that both read alike.

| written                            | read as                          |
|------------------------------------|----------------------------------|
| `TABLE t` where a query can stand  | `SELECT * FROM t`                |
| `GROUP BY a, b WITH ROLLUP`, `CUBE` | `GROUP BY ROLLUP (a, b)`, `CUBE` |
| `LIMIT ALL`                        | nothing                          |
| `INTERVAL -3 DAY`                  | the sign is the number's         |
| `a !> b`, `a !< b`                 | `a <= b`, `a >= b`               |
| `OVER (DISTRIBUTE BY a SORT BY b)` | `OVER (PARTITION BY a ORDER BY b)` |
| `window(...)`                      | a name, and no clause            |
| `VARCHAR(n)`, `CHAR(n)` in a cast  | `STRING`, as Spark casts         |

Tokens that are put in stand where that stands for which they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokens import Token, TokenType

T = TokenType

_SHORTER = frozenset((T.TABLE, T.ALL, T.VARCHAR, T.CHAR, T.WINDOW, T.WITH, T.INTERVAL, T.NOT, T.OVER))
"""What stands in all that is written otherwise in Spark's way."""

_COMPARED = {T.GT: (T.LTE, "<="), T.LT: (T.GTE, ">=")}
_IN_WINDOWS = {T.DISTRIBUTE_BY: (T.PARTITION_BY, "PARTITION BY"), T.CLUSTER_BY: (T.PARTITION_BY, "PARTITION BY"),
               T.SORT_BY: (T.ORDER_BY, "ORDER BY")}  # fmt: skip

_BEFORE_QUERY = {T.ALIAS, T.L_PAREN, T.R_PAREN, T.UNION, T.INTERSECT, T.EXCEPT, T.ALL, T.DISTINCT}


def written_out(tokens: Sequence[Token]) -> list[Token]:
    """The tokens of a query with what is written otherwise in Spark's way written out; those of others as they are."""
    if _SHORTER.isdisjoint(token.token_type for token in tokens):
        return list(tokens)
    made: list[Token] = []
    behind = 0  # what is written out already
    for i, token in enumerate(tokens):
        if i < behind:
            continue
        kind, after = token.token_type, _kind(tokens, i + 1)
        if kind == T.TABLE and after in (T.VAR, T.IDENTIFIER) and (i == 0 or _kind(tokens, i - 1) in _BEFORE_QUERY):
            made += [_at(token, T.SELECT, "SELECT"), _at(token, T.STAR, "*"), _at(token, T.FROM, "FROM")]
        elif kind == T.LIMIT and after == T.ALL:
            behind = i + 2
        elif kind in (T.DASH, T.PLUS) and after == T.NUMBER and i and _kind(tokens, i - 1) == T.INTERVAL:
            sign, number = "-" * (kind == T.DASH), tokens[i + 1]
            made.append(Token(T.NUMBER, sign + number.text, token.line, token.col, token.start, number.end))
            behind = i + 2
        elif kind == T.NOT and token.text == "!" and after in _COMPARED and tokens[i + 1].start == token.end + 1:
            made.append(_at(token, *_COMPARED[after]))
            behind = i + 2
        elif kind in _IN_WINDOWS and _in_window(made):
            made.append(_at(token, *_IN_WINDOWS[kind]))
        elif _is_text_type(tokens, i):
            made.append(_at(token, T.TEXT, "STRING"))
            behind = i + 4
        elif kind == T.WINDOW and after == T.L_PAREN:
            made.append(_at(token, T.VAR, token.text))
        elif kind == T.WITH and after in (T.ROLLUP, T.CUBE) and (group := _group_by(made)) is not None:
            sets = tokens[i + 1]
            made[group + 1 : group + 1] = [sets, _at(sets, T.L_PAREN, "(")]
            made.append(_at(sets, T.R_PAREN, ")"))
        elif not (kind in (T.ROLLUP, T.CUBE) and i and _kind(tokens, i - 1) == T.WITH and _group_by(made) is not None):
            made.append(token)
    return made


def _is_text_type(tokens: Sequence[Token], i: int) -> bool:
    """Whether VARCHAR(n) or CHAR(n) stands here, which is a type; char(n) can be a call."""
    if _kind(tokens, i) not in (T.VARCHAR, T.CHAR):
        return False
    before = _kind(tokens, i - 1) if i else None
    length = [_kind(tokens, place) for place in range(i + 1, i + 4)]
    return before in (T.ALIAS, T.DCOLON) and length == [T.L_PAREN, T.NUMBER, T.R_PAREN]


def _group_by(tokens: Sequence[Token]) -> int | None:
    """Where the GROUP BY stands whose list ends here."""
    depth = 0
    for i in range(len(tokens) - 1, -1, -1):
        kind = tokens[i].token_type
        depth += (kind == T.R_PAREN) - (kind == T.L_PAREN)
        if depth < 0 or (depth == 0 and kind == T.SELECT):
            return None
        if depth == 0 and kind == T.GROUP_BY:
            return i
    return None


def _in_window(tokens: Sequence[Token]) -> bool:
    """Whether what follows stands in the parentheses behind an OVER."""
    depth = 0
    for i in range(len(tokens) - 1, 0, -1):
        depth += (tokens[i].token_type == T.R_PAREN) - (tokens[i].token_type == T.L_PAREN)
        if depth < 0:
            return tokens[i - 1].token_type == T.OVER
    return False


def _kind(tokens: Sequence[Token], i: int) -> TokenType | None:
    return tokens[i].token_type if i < len(tokens) else None


def _at(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end)
