"""Nothing that is written may be lost: every token of a query must be accounted for by its syntax tree.

sqlglot forgives much: it drops a comma with nothing behind it, a `+` in front of a value, a dot before a name, and it
supplies a THEN, an AND or an IS that is missing.  Spark does not.  So the tokens that give a query its structure are
counted, in the text and in the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from viewkeeper.compiler.bind_over import WINDOW_FUNCTIONS
from viewkeeper.compiler.calls import IS_SIGN, MARKS, AggregateFunction, GeneratorCall, ScalarCall, SortedCall
from viewkeeper.compiler.source_text import IS_CALL, QueryText
from viewkeeper.compiler.supported import FUNCTIONS, number_suffix
from viewkeeper.compiler.written_out import written_out
from viewkeeper.errors import DeclarationError, NotSupported

T = TokenType

_OWN: dict[type[exp.Expr], tuple[TokenType, ...]] = {
    exp.Select: (T.SELECT,), exp.From: (T.FROM,), exp.Where: (T.WHERE,), exp.Having: (T.HAVING,),
    exp.Group: (T.GROUP_BY,), exp.Order: (T.ORDER_BY,), exp.Limit: (T.LIMIT,), exp.Offset: (T.OFFSET,),
    exp.Paren: (T.L_PAREN, T.R_PAREN), exp.Subquery: (T.L_PAREN, T.R_PAREN),
    exp.In: (T.IN, T.L_PAREN, T.R_PAREN), exp.Between: (T.BETWEEN, T.AND), exp.Case: (T.CASE, T.END),
    exp.If: (T.WHEN, T.THEN), exp.Is: (T.IS,), exp.Not: (T.NOT,), exp.And: (T.AND,), exp.Or: (T.OR,),
    exp.EQ: (T.EQ,), exp.NEQ: (T.NEQ,), exp.LT: (T.LT,), exp.LTE: (T.LTE,), exp.GT: (T.GT,), exp.GTE: (T.GTE,),
    exp.NullSafeEQ: (T.NULLSAFE_EQ,), exp.Add: (T.PLUS,), exp.Sub: (T.DASH,), exp.Neg: (T.DASH,),
    exp.Mul: (T.STAR,), exp.Div: (T.SLASH,), exp.Mod: (T.MOD,), exp.Star: (T.STAR,),
    **dict.fromkeys(FUNCTIONS, (T.L_PAREN, T.R_PAREN)), ScalarCall: (T.L_PAREN, T.R_PAREN),
    GeneratorCall: (T.L_PAREN, T.R_PAREN), SortedCall: (T.L_PAREN, T.R_PAREN), exp.Aliases: (T.L_PAREN, T.R_PAREN),
    AggregateFunction: (T.L_PAREN, T.R_PAREN), exp.WithinGroup: (T.L_PAREN, T.R_PAREN),
    exp.Distinct: (T.DISTINCT,), exp.With: (T.WITH,), exp.CTE: (T.L_PAREN, T.R_PAREN), exp.Values: (T.VALUES,),
    exp.Dot: (T.DOT,), exp.Union: (T.UNION,), exp.Intersect: (T.INTERSECT,), exp.Except: (T.EXCEPT,),
    exp.Exists: (T.L_PAREN, T.R_PAREN), exp.Tuple: (T.L_PAREN, T.R_PAREN),
    exp.Qualify: (T.QUALIFY,),
    **dict.fromkeys(WINDOW_FUNCTIONS, (T.L_PAREN, T.R_PAREN)),
    exp.BitwiseLeftShift: (T.LT, T.LT), exp.BitwiseRightShift: (T.GT, T.GT),
    **dict.fromkeys((exp.Filter, exp.Anonymous, exp.Median, exp.LogicalAnd, exp.LogicalOr, exp.Variance,
                     exp.VariancePop, exp.Stddev, exp.StddevPop, exp.StddevSamp),
                    (T.L_PAREN, T.R_PAREN)), exp.Quantile: (T.L_PAREN, T.COMMA, T.R_PAREN),
    **dict.fromkeys((exp.Rollup, exp.Cube, exp.GroupingSets, exp.Grouping, exp.GroupingId), (T.L_PAREN, T.R_PAREN)),
}  # fmt: skip

_COUNTED = {type_ for types in _OWN.values() for type_ in types} | {
    T.COMMA, T.DOT, T.ON, T.JOIN, T.ELSE, T.DISTINCT, T.USING, T.NATURAL, T.WINDOW, T.PARTITION_BY,
}  # fmt: skip


def refuse_unaccounted(query: QueryText, tokens: Sequence[Token]) -> None:
    """Raises DeclarationError where `tokens`, those of the query, are not what its tree is made of."""
    tokens = written_out(tokens)
    nodes = list(query.tree.bfs(prune=lambda node: isinstance(node, exp.Hint)))  # a hint is one token
    names_windows = any(node.args.get("windows") for node in nodes if type(node) is exp.Select)
    structure = list(_structure(query, tokens, names_windows))
    _refuse_disorder(query, structure)
    written = Counter(token.token_type for token in structure)
    read = Counter(type_ for node in nodes for type_ in _tokens_of(query, node))
    bare = max(0, written[T.JOIN] - read[T.JOIN])  # a JOIN without ON and a comma in FROM are one to sqlglot
    read[T.JOIN] += bare
    read[T.COMMA] -= bare
    loose = Counter(type_ for node in nodes if type(node) in _LOOSE for type_ in _loose_tokens_of(node))
    for type_, most in loose.items():  # these may stand there or not
        read[type_] += max(-most, min(most, written[type_] - read[type_]))
    for token in tokens:
        if token.token_type in _COUNTED and written[token.token_type] > read[token.token_type]:
            said = f"this is not SQL: {_text(query, token)} is out of place"
            kind = NotSupported if token.token_type in (T.L_PAREN, T.R_PAREN) else DeclarationError  # as in VARCHAR(9)
            raise query.source.error(said, _last(tokens, token), kind)
    for type_ in _COUNTED - {T.ON}:  # a JOIN without ON has one to sqlglot
        if written[type_] < read[type_]:
            if type_ in (T.L_PAREN, T.R_PAREN):  # sqlglot adds them where its reading needs them
                message = "it is not plain what belongs together; put conditions into parentheses"
                raise query.source.error(message, query.start, NotSupported)
            raise query.source.error(f"this is not SQL: {type_.name.replace('_', ' ')} is missing", query.start)


def _structure(query: QueryText, tokens: Sequence[Token], names_windows: bool) -> Iterator[Token]:
    """The tokens that count; refuses those that stand where nothing can."""
    before: Token | None = None
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        kind = token.token_type
        opens = before is None or before.token_type in (T.SELECT, T.COMMA, T.L_PAREN, T.ALL)
        if kind == T.ALIAS and (opens or after is None or after.token_type in _AFTER_OUTPUT):
            raise query.source.error("this is not SQL: AS stands between a value and its name", token.start)
        if kind == T.ON and (after is None or after.token_type in _AFTER_OUTPUT | {T.JOIN, T.INNER, T.CROSS}):
            raise query.source.error("this is not SQL: a condition is missing behind ON", token.start)
        if kind == T.NOT and after is not None and after.token_type == T.IS:
            raise query.source.error("this is not SQL: NOT stands behind IS", token.start)
        inside = (before and before.token_type == T.IS) or (after and after.token_type in (T.IN, T.BETWEEN))
        if kind == T.NOT and inside and _text(query, token) == "!":
            raise query.source.error("this is not SQL: write NOT here, ! stands before a condition", token.start)
        number = kind == T.DOT and after is not None and after.token_type == T.NUMBER  # .5 is two tokens
        if number and after and after.start != token.end + 1:
            raise query.source.error("this is not SQL: a number in pieces", token.start)
        named = before is not None and before.token_type in (T.ALIAS, T.DOT)  # keywords are names there
        named = named or (kind == T.WINDOW and not names_windows)
        if kind in _COUNTED and not number and not (named and kind not in _PUNCTUATION):
            yield token
        before = token


_CLAUSES = {
    T.FROM: 1, T.JOIN: 2, T.WHERE: 4, T.GROUP_BY: 5, T.HAVING: 6, T.WINDOW: 7, T.QUALIFY: 7,
    T.ORDER_BY: 8, T.LIMIT: 9, T.OFFSET: 10,
}  # fmt: skip
_SELECT_BEHIND_FROM = 3
_WITHOUT_COMMA = {_CLAUSES[kind] for kind in (T.WHERE, T.HAVING, T.LIMIT, T.OFFSET)}


def _refuse_disorder(query: QueryText, structure: Sequence[Token]) -> None:
    """sqlglot takes the clauses of a SELECT in any order, and a comma in WHERE for one in FROM."""
    reached = [0]  # in each pair of parentheses that is open, the clause
    for token in structure:
        kind = token.token_type
        if kind in (T.UNION, T.INTERSECT, T.EXCEPT):
            reached[-1] = 0
        clause = _SELECT_BEHIND_FROM if kind == T.SELECT and reached[-1] else _CLAUSES.get(kind, 0)
        if kind == T.L_PAREN:
            reached.append(0)
        elif kind == T.R_PAREN and len(reached) > 1:
            reached.pop()
        elif 0 < clause < reached[-1] or (kind == T.COMMA and reached[-1] in _WITHOUT_COMMA):
            raise query.source.error(f"this is not SQL: {_text(query, token)} is out of place", token.start)
        reached[-1] = max(reached[-1], clause)


_PUNCTUATION = {T.COMMA, T.DOT, T.L_PAREN, T.R_PAREN, T.STAR, T.SLASH, T.MOD, T.PLUS, T.DASH, T.EQ, T.NEQ, T.LT, T.LTE,
                T.GT, T.GTE}  # fmt: skip
_AFTER_OUTPUT = {T.COMMA, T.R_PAREN, T.FROM, T.WHERE, T.GROUP_BY, T.HAVING, T.ORDER_BY, T.LIMIT}


def _tokens_of(query: QueryText, node: exp.Expr) -> list[TokenType]:
    kind = type(node)
    if kind is exp.In and node.args.get("query"):
        return [T.IN]  # the parentheses are the subquery's
    if IS_SIGN in (node._meta or ()):
        return [T.PLUS]
    found = [*_OWN.get(kind, ())]
    if kind in _LISTS:
        found += _commas(len(node.expressions))
    if kind in _MORE:
        found += _MORE[kind](query, node)
    return found


def _commas(items: int) -> list[TokenType]:
    return [T.COMMA] * (items - 1)


_LISTS = frozenset((
    exp.Select, exp.Group, exp.Order, exp.In, exp.Distinct, exp.Anonymous, exp.With, exp.Values, exp.Tuple, exp.Rollup,
    exp.Cube, exp.GroupingSets, exp.Grouping, exp.GroupingId, AggregateFunction, GeneratorCall, SortedCall, exp.Aliases,
))  # fmt: skip


def _of_window_function(query: QueryText, node: exp.Expr) -> list[TokenType]:
    return _commas(sum(node.args.get(part) is not None for part in ("this", "offset", "default")))


def _of_scalar_call(query: QueryText, node: exp.Expr) -> list[TokenType]:
    marks = node.meta.get(MARKS, ())
    return [*marks, *_commas(len(node.expressions) - len(marks))]


def _of_cast(query: QueryText, node: exp.Expr) -> list[TokenType]:
    return [T.L_PAREN, T.R_PAREN] if IS_CALL in (node._meta or ()) else []


def _of_negated(query: QueryText, node: exp.Expr) -> list[TokenType]:
    return [T.NOT] if node.args.get("negate") else []


def _of_type(query: QueryText, node: exp.Expr) -> list[TokenType]:
    if node.args.get("nested"):
        return [T.LT, T.GT, *_commas(len(node.expressions))]
    if node.expressions and node.parent and not number_suffix(query, node.parent):
        return [T.L_PAREN, T.R_PAREN, *_commas(len(node.expressions))]
    return []


def _of_one_and_more(query: QueryText, node: exp.Expr) -> list[TokenType]:
    return _commas(1 + len(node.expressions))


def _of_table_alias(query: QueryText, node: exp.Expr) -> list[TokenType]:
    columns = node.args.get("columns")
    if not columns:
        return []
    of_view = isinstance(node.parent, exp.Lateral) and node.parent.args["view"]
    return [*(() if of_view else (T.L_PAREN, T.R_PAREN)), *_commas(len(columns))]


def _of_column(query: QueryText, node: exp.Expr) -> list[TokenType]:
    return [T.DOT for part in ("table", "db", "catalog") if node.args.get(part)]


def _of_case(query: QueryText, node: exp.Expr) -> list[TokenType]:
    return [T.ELSE] if node.args.get("default") else []


def _of_join(query: QueryText, node: exp.Expr) -> list[TokenType]:
    found = [T.COMMA if node.args.get("kind") == "CROSS" else T.JOIN]
    if node.args.get("on"):
        found.append(T.ON)
    if node.args.get("method") == "NATURAL":
        found.append(T.NATURAL)
    if using := node.args.get("using"):
        found += [T.USING, T.L_PAREN, T.R_PAREN, *_commas(len(using))]
    return found


def _of_frame(query: QueryText, node: exp.Expr) -> list[TokenType]:
    return [T.BETWEEN, T.AND] if node.args.get("end") is not None else []


def _of_named_windows(query: QueryText, node: exp.Expr) -> list[TokenType]:
    windows = node.args.get("windows")
    return [T.WINDOW, *_commas(len(windows))] if windows else []


def _of_window(query: QueryText, node: exp.Expr) -> list[TokenType]:
    by = node.args.get("partition_by")
    partition = [T.PARTITION_BY, *_commas(len(by))] if by else []
    return partition if node.args.get("alias") is not None else [*partition, T.L_PAREN, T.R_PAREN]


_MORE: dict[type[exp.Expr], Callable[[QueryText, exp.Expr], list[TokenType]]] = {
    **dict.fromkeys(WINDOW_FUNCTIONS, _of_window_function), ScalarCall: _of_scalar_call,
    **dict.fromkeys((exp.Cast, exp.TryCast), _of_cast), exp.DataType: _of_type,
    **dict.fromkeys((exp.Coalesce, exp.Count), _of_one_and_more), exp.TableAlias: _of_table_alias,
    exp.Column: _of_column, exp.Case: _of_case, exp.Join: _of_join, exp.WindowSpec: _of_frame,
    exp.Select: _of_named_windows, exp.Window: _of_window,
    **dict.fromkeys((exp.Is, exp.Like, exp.ILike), _of_negated),
}  # fmt: skip
"""What a node is made of besides, by what is set in it."""


_LOOSE = frozenset((exp.Values, exp.Tuple, exp.Union, exp.Intersect, exp.Except, exp.Window, exp.IgnoreNulls))


def _loose_tokens_of(node: exp.Expr) -> Iterator[TokenType]:
    """What may be written, or may not, and makes the same tree: parentheses around the values of VALUES, and those that
    sqlglot puts around an INTERSECT, which binds closer; those around a window's name; DISTINCT behind UNION; what says
    IGNORE NULLS as an argument."""
    of_values = isinstance(node, exp.Values) or isinstance(node.parent, exp.Values)
    of_intersect = isinstance(node, exp.Intersect) and isinstance(node.parent, exp.Subquery)
    names_window = isinstance(node, exp.Window) and node.args.get("alias") is not None
    if isinstance(node, exp.IgnoreNulls):
        yield T.COMMA
    if (of_values and isinstance(node, (exp.Values, exp.Tuple))) or of_intersect or names_window:
        yield from (T.L_PAREN, T.R_PAREN)
    if isinstance(node, exp.SetOperation) and node.args.get("distinct"):
        yield T.DISTINCT


def _text(query: QueryText, token: Token) -> str:
    return query.source.text[token.start : token.end + 1]


def _last(tokens: Sequence[Token], token: Token) -> int:
    """Where the last token of that type stands: a guess, for which of them is too many cannot be known."""
    return max(each.start for each in tokens if each.token_type == token.token_type)
