"""Nothing that is written may be lost: every token of a query must be accounted for by its syntax tree.

sqlglot forgives much: it drops a comma with nothing behind it, a `+` in front of a value, a dot before a name, and it
supplies a THEN, an AND or an IS that is missing.  Spark does not.  So the tokens that give a query its structure are
counted, in the text and in the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

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
    exp.Union: (T.UNION,), exp.Intersect: (T.INTERSECT,), exp.Except: (T.EXCEPT,),
    exp.Exists: (T.L_PAREN, T.R_PAREN), exp.Tuple: (T.L_PAREN, T.R_PAREN),
    exp.Qualify: (T.QUALIFY,),
    **dict.fromkeys(WINDOW_FUNCTIONS, (T.L_PAREN, T.R_PAREN)),
    exp.BitwiseLeftShift: (T.LT, T.LT), exp.BitwiseRightShift: (T.GT, T.GT),
    **dict.fromkeys((exp.Filter, exp.Anonymous, exp.Quantile, exp.Median, exp.LogicalAnd, exp.LogicalOr, exp.Variance,
                     exp.VariancePop, exp.Stddev, exp.StddevPop, exp.StddevSamp),
                    (T.L_PAREN, T.R_PAREN)),
    **dict.fromkeys((exp.Rollup, exp.Cube, exp.GroupingSets, exp.Grouping, exp.GroupingId), (T.L_PAREN, T.R_PAREN)),
}  # fmt: skip

_COUNTED = {type_ for types in _OWN.values() for type_ in types} | {
    T.COMMA, T.DOT, T.ON, T.JOIN, T.ELSE, T.DISTINCT, T.USING, T.NATURAL, T.WINDOW, T.PARTITION_BY,
}  # fmt: skip


def refuse_unaccounted(query: QueryText, tokens: Sequence[Token]) -> None:
    """Raises DeclarationError where `tokens`, those of the query, are not what its tree is made of."""
    tokens = written_out(tokens)
    structure = list(_structure(query, tokens))
    _refuse_disorder(query, structure)
    written = Counter(token.token_type for token in structure)
    nodes = query.tree.walk(prune=lambda node: isinstance(node, exp.Hint))  # a hint is one token
    read = Counter(type_ for node in nodes for type_ in _tokens_of(query, node))
    bare = max(0, written[T.JOIN] - read[T.JOIN])  # a JOIN without ON and a comma in FROM are one to sqlglot
    read[T.JOIN] += bare
    read[T.COMMA] -= bare
    loose = Counter(type_ for node in query.tree.walk() for type_ in _loose_tokens_of(node))
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


def _structure(query: QueryText, tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens that count; refuses those that stand where nothing can."""
    before: Token | None = None
    names_windows = any(select.args.get("windows") for select in query.tree.find_all(exp.Select))
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


def _tokens_of(query: QueryText, node: exp.Expr) -> Iterator[TokenType]:
    if isinstance(node, exp.In) and node.args.get("query"):
        yield T.IN  # the parentheses are the subquery's
        return
    if IS_SIGN in (node._meta or {}):
        yield T.PLUS
        return
    yield from _OWN.get(type(node), ())
    if type(node) in (exp.Window, exp.WindowSpec, exp.Select):
        yield from _tokens_of_windows(node)
    items = 0
    if isinstance(node, _LISTS):
        items = len(node.expressions)
    elif type(node) in WINDOW_FUNCTIONS:
        items = sum(node.args.get(part) is not None for part in ("this", "offset", "default"))
    elif isinstance(node, ScalarCall):
        marks = node.meta.get(MARKS, ())
        items = len(node.expressions) - len(marks)
        yield from marks
    elif isinstance(node, (exp.Cast, exp.TryCast)) and IS_CALL in (node._meta or {}):
        yield from (T.L_PAREN, T.R_PAREN)
    elif node.args.get("negate"):
        yield T.NOT
    elif isinstance(node, exp.DataType) and node.args.get("nested"):
        items = len(node.expressions)
        yield from (T.LT, T.GT)
    elif isinstance(node, exp.DataType) and node.expressions and node.parent and not number_suffix(query, node.parent):
        items = len(node.expressions)
        yield from (T.L_PAREN, T.R_PAREN)
    elif isinstance(node, exp.Quantile):
        items = 2
    elif isinstance(node, (exp.Coalesce, exp.Count)):
        items = 1 + len(node.expressions)
    elif isinstance(node, exp.TableAlias) and node.args.get("columns"):
        items = len(node.args["columns"])
        yield from () if isinstance(node.parent, exp.Lateral) and node.parent.args["view"] else (T.L_PAREN, T.R_PAREN)
    elif isinstance(node, exp.Column):
        yield from (T.DOT for part in ("table", "db", "catalog") if node.args.get(part))
    elif isinstance(node, exp.Dot):
        yield T.DOT
    elif isinstance(node, exp.Case) and node.args.get("default"):
        yield T.ELSE
    elif isinstance(node, exp.Join):
        yield T.COMMA if node.args.get("kind") == "CROSS" else T.JOIN
        if node.args.get("on"):
            yield T.ON
        if node.args.get("method") == "NATURAL":
            yield T.NATURAL
        items = len(node.args.get("using") or ())
        if items:
            yield from (T.USING, T.L_PAREN, T.R_PAREN)
    for _ in range(items - 1):
        yield T.COMMA


_LISTS = (exp.Select, exp.Group, exp.Order, exp.In, exp.Distinct, exp.Anonymous, exp.With, exp.Values, exp.Tuple,
          exp.Rollup, exp.Cube, exp.GroupingSets, exp.Grouping, exp.GroupingId, AggregateFunction,
          GeneratorCall, SortedCall, exp.Aliases)  # fmt: skip


def _tokens_of_windows(node: exp.Expr) -> Iterator[TokenType]:
    """What the WINDOW clause, OVER (...) or a frame is made of besides."""
    if isinstance(node, exp.WindowSpec):
        yield from (T.BETWEEN, T.AND) if node.args.get("end") is not None else ()
    elif isinstance(node, exp.Select):
        named = len(node.args.get("windows") or ())
        yield from (T.WINDOW, *[T.COMMA] * (named - 1)) if named else ()
    else:
        listed = len(node.args.get("partition_by") or ())
        yield from (T.PARTITION_BY, *[T.COMMA] * (listed - 1)) if listed else ()
        yield from (T.L_PAREN, T.R_PAREN) if node.args.get("alias") is None else ()


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
