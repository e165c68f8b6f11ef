"""Queries with calls that no kernel of ours knows: each such call is taken out of the query's text, and somebody else
says what it gives; the rest is bound as ever.

Which calls these are is found by trying: where the binder refuses something, the innermost call around it is taken out,
as one of each row by itself, then as an aggregate, with FILTER and the like behind it; then, if it cannot be, the one
around that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import VOID
from viewkeeper.compiler.accounting import refuse_unaccounted
from viewkeeper.compiler.calls import ScalarCall, has_unit, lists
from viewkeeper.compiler.part_references import quoted
from viewkeeper.compiler.relational import CHECKS, RELATIONAL, with_values
from viewkeeper.compiler.source_text import QueryText, Script
from viewkeeper.compiler.supported import refuse_unsupported
from viewkeeper.compiler.syntax import query_tokens, syntax_tree
from viewkeeper.compiler.ties import closing, extremes_settled
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.expressions import Expression, TextPlace, as_column, declared_of
from viewkeeper.plans.outside import BY_SPARK, SparkAggregate, SparkCall

Typed = Callable[[str, tuple[Column, ...], bool, bool], Column]
"""What an expression over columns gives, or an aggregate (the first True) of them; raises DeclarationError where it
cannot be said, does not follow from each row alone, or from the rows together: whatever their order, or in one (the
second True)."""

Bound = TypeVar("Bound")

CallSpan = tuple[int, int]
"""The first and the last token of a call."""


@dataclass(frozen=True)
class OutsideCalls:
    """The calls that were taken out of a query, by the names that stand for them, and which of these are aggregates;
    `typed` says what they give, `version` is that of who will compute them."""

    texts: Mapping[str, Sequence[Token]]
    aggregates: Collection[str]
    typed: Typed
    version: str

    def bound(
        self, query: QueryText, node: exp.Expr, bind: Callable[[exp.Expr], Expression]
    ) -> SparkCall | SparkAggregate:  # fmt: skip
        """The call for which the name `node` stands; `bind` binds the columns in it."""
        tokens = self.texts[node.name]
        arguments: list[Expression] = []
        pieces: list[tuple[int, int, str]] = []
        for column in _columns(query.source, tokens):
            try:
                argument = bind(column)
            except DeclarationError as refused:
                raise query.error(str(refused), node, NotSupported) from None
            if argument.type == VOID:
                raise query.error("NULL has no type", node, NotSupported)
            if argument not in arguments:
                arguments.append(argument)
            name = quoted(_name(arguments.index(argument), argument))
            if _names_field(column, tokens):  # which is called as the column is
                name += f" AS {quoted(column.name)}"
            pieces.append((*_ends(column), name))
        if not arguments:
            raise query.error("a call without columns", node, NotSupported)
        text, start = query.source.text[tokens[0].start : tokens[-1].end + 1], tokens[0].start
        for first, behind, name in sorted(pieces, reverse=True):
            text = text[: first - start] + name + text[behind - start :]
        if node.name in self.aggregates:
            text = extremes_settled(text)
        try:
            columns = tuple(map(column_of, range(len(arguments)), arguments))
            given = self.typed(text, columns, node.name in self.aggregates, _stands_in_order(node, tokens))
        except DeclarationError as refused:
            raise query.error(str(refused), node, NotSupported) from None
        place: TextPlace | None = query.place(node)
        kind = SparkAggregate if node.name in self.aggregates else SparkCall
        return kind(given.type, given.nullable, place, tuple(arguments), tokens[0].text, text, self.version, columns)


def column_of(number: int, argument: Expression) -> Column:
    """The column that argument `number` of a call is to Spark."""
    return as_column(_name(number, argument), argument)


def _name(number: int, argument: Expression) -> str:
    """It says the type, so that one text has one meaning."""
    return f"{number} {declared_of(argument) or argument.type}"


def bind_with_outside_calls(query: QueryText, typed: Typed, version: str, bind: Callable[[QueryText], Bound]) -> Bound:
    """What `bind` makes of `query`, where it refuses some calls as they stand.

    Raises NotSupported, as `bind` does, where something else is refused, or a call is none that can be taken out.
    """
    tokens = query_tokens(query)
    calls = _calls(tokens)
    out: dict[CallSpan, bool] = {}
    while True:
        try:
            return bind(_without(query, tokens, out, typed, version))
        except NotSupported as refused:
            at = None if refused.line is None or refused.column is None else (refused.line, refused.column)
            found = None if at is None else _next(tokens, calls, out, query.source.offset(at))
            if found is None:
                raise
            (first, last), aggregate = found
            out = {span: of for span, of in out.items() if not first <= span[0] <= last} | {(first, last): aggregate}


def _without(
    query: QueryText, tokens: Sequence[Token], out: Mapping[CallSpan, bool], typed: Typed, version: str
) -> QueryText:
    """The query with a name in place of each call of `out`, of an aggregate as the argument of one."""
    texts: dict[str, Sequence[Token]] = {}
    aggregates: set[str] = set()
    kept: list[Token] = []
    at = 0
    for (first, last), aggregate in sorted(out.items()):
        kept += tokens[at:first]
        name, here = f"outside call {len(texts)}", tokens[first]
        written = [(TokenType.VAR, name)]
        if aggregate:
            written = [(TokenType.VAR, BY_SPARK), (TokenType.L_PAREN, "("), *written, (TokenType.R_PAREN, ")")]
            aggregates.add(name)
        kept += [Token(kind, text, here.line, here.col, here.start, here.end) for kind, text in written]
        texts[name] = tokens[first : last + 1]
        at = last + 1
    kept += tokens[at:]
    tree = with_values(syntax_tree(query.source, kept, aggregates=True), kept)
    changed = replace(query, tree=tree, outside=OutsideCalls(texts, aggregates, typed, version))
    refuse_unsupported(changed, RELATIONAL, CHECKS)
    refuse_unaccounted(changed, kept)
    return changed


def _calls(tokens: Sequence[Token]) -> list[CallSpan]:
    """All that looks like a call, inner ones before those around them."""
    found: list[CallSpan] = []
    open_: list[int] = []
    for i, token in enumerate(tokens):
        if token.token_type == TokenType.L_PAREN:
            open_.append(i)
        elif token.token_type == TokenType.R_PAREN and open_:
            first = open_.pop() - 1
            if first >= 0 and tokens[first].text.replace("_", "a").isalnum() and not _is_syntax(tokens, first):
                found.append((first, _behind_fields(tokens, i)))
    return found


def _is_syntax(tokens: Sequence[Token], at: int) -> bool:
    """Whether the word `at` before a parenthesis is no function's; `filter` and `exists` may be."""
    word = tokens[at].text.upper()
    if word == "FILTER":
        return at > 0 and tokens[at - 1].token_type == TokenType.R_PAREN
    if word == "EXISTS":
        return tokens[at + 2].token_type in _BEGINS_QUERY
    return word in _SYNTAX


_BEGINS_QUERY = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.FROM, TokenType.TABLE, TokenType.L_PAREN)


def _behind_fields(tokens: Sequence[Token], last: int) -> int:
    """Where a call ends that `last` closes: behind the fields that are taken of a struct."""
    while [token.token_type for token in tokens[last + 1 : last + 3]] == [TokenType.DOT, TokenType.VAR]:
        last += 2
    return last


_SYNTAX = frozenset(
    (
        "ALL", "AND", "ANY", "AS", "BETWEEN", "BY", "CASE", "DISTINCT", "ELSE", "EXCEPT", "FROM", "GROUP", "HAVING",
        "IN", "INTERSECT", "JOIN", "LATERAL", "MINUS", "NOT", "ON", "OR", "OVER", "SELECT", "SOME", "THEN", "UNION",
        "USING", "VALUES", "WHEN", "WHERE",
    )
)  # fmt: skip


def _next(
    tokens: Sequence[Token], calls: Sequence[CallSpan], out: Mapping[CallSpan, bool], at: int
) -> tuple[CallSpan, bool] | None:
    """What to take out, and whether as an aggregate, where the character `at` was refused: what is out there already,
    as an aggregate; else the innermost call around that holds more than those that are out."""
    for (first, last), aggregate in out.items():
        if tokens[first].start == at and not aggregate:
            return (first, _behind(tokens, last)), True
    for first, last in calls:
        taken = any(a <= first and last <= b for a, b in out)
        if not taken and tokens[first].start <= at <= tokens[last].end:
            behind = _behind(tokens, last)
            over = tokens[behind + 1].text.upper() == "OVER" if behind + 1 < len(tokens) else False
            return (first, behind), over or behind > last
    return None


def _behind(tokens: Sequence[Token], last: int) -> int:
    """Where a call of an aggregate ends that `last` closes: behind WITHIN GROUP (...) and FILTER (...)."""
    for words in (("WITHIN", "GROUP", "("), ("FILTER", "(")):
        if tuple(token.text.upper() for token in tokens[last + 1 : last + 1 + len(words)]) == words:
            last = closing(tokens, last + len(words))
    return last


_OF_ROWS = ("window", "session_window")
"""To Spark these are operators of a query: a row without a time goes, one in several windows comes more often."""


def _columns(source: Script, tokens: Sequence[Token]) -> list[exp.Column]:
    """The names in a call that are columns, and not parameters of lambda functions."""
    select = Token(TokenType.SELECT, "SELECT", start=tokens[0].start, end=tokens[0].start)
    tree = syntax_tree(source, [select, *tokens])
    units = {id(call.expressions[0]) for call in tree.find_all(ScalarCall) if has_unit(call)}
    columns = [column for column in tree.find_all(exp.Column) if id(column) not in units]
    if any(token.text.lower() == "arrays_zip" for token in tokens):
        raise source.error("a call that names fields as columns are called", tokens[0].start, NotSupported)
    asks = any(isinstance(each.this, exp.Query) for each in tree.find_all(exp.Exists))
    if asks or tree.find(exp.Star, exp.Subquery) or any(token.text.lower() in _OF_ROWS for token in tokens):
        raise source.error("rows, and not a value, in a call", tokens[0].start, NotSupported)
    return columns


def _stands_in_order(node: exp.Expr, tokens: Sequence[Token]) -> bool:
    """Whether the aggregate for which the name `node` stands lists values, OVER rows: in the order of these."""
    call = node.parent
    return call is not None and isinstance(call.parent, exp.Window) and lists(tokens[0].text)


def _names_field(column: exp.Column, tokens: Sequence[Token]) -> bool:
    """Whether it stands in struct(...) without a name of its own."""
    behind = next((token.text for token in tokens if token.start >= _ends(column)[1]), "")
    call = column.parent
    return isinstance(call, ScalarCall) and call.name == "struct" and behind in (",", ")")


def _ends(column: exp.Column) -> tuple[int, int]:
    """Where a column's name begins in the text, what stands before its dot included, and where it has ended."""
    parts = [part.meta for name in ("catalog", "db", "table", "this") if (part := column.args.get(name)) is not None]
    return parts[0]["start"], parts[-1]["end"] + 1
