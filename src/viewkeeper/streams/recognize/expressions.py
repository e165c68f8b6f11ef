"""The expressions of MATCH_RECOGNIZE: what FIRST, LAST and PREV name is put aside, the rest bound as in any SELECT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from viewkeeper.catalog.model import Column
from viewkeeper.compiler.accounting import refuse_unaccounted
from viewkeeper.compiler.scope import FromItem, Scope, Unresolved, did_you_mean
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.supported import refuse_unsupported
from viewkeeper.compiler.syntax import syntax_tree
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.relations import Scan

MOST_BACK = 100
"""How many rows PREV, FIRST and LAST may count: PREV's are kept for each group."""


@dataclass(frozen=True)
class Navigation:
    """`function`(`variable`.`column`, `offset`); `column` is * in count(A.*), and empty in CLASSIFIER()."""

    function: str
    variable: str | None
    column: str
    offset: int
    token: Token


_IN_MEASURES = {
    "PREV": "PREV is not supported in MEASURES; give the row before a variable of its own in PATTERN",
    "NEXT": "NEXT is not supported: the next row may not be there yet",
    "MATCH_NUMBER": "MATCH_NUMBER is not supported: late data would renumber every later match; number them when read",
    "RUNNING": "with ONE ROW PER MATCH RUNNING says nothing; leave it out",
    "FINAL": "with ONE ROW PER MATCH FINAL says nothing; leave it out",
}
_IN_DEFINE = {
    "NEXT": "NEXT is not supported: the next row may not be there yet; put its condition on a variable behind",
    "FIRST": "FIRST is not supported in DEFINE; a condition looks at its own row and at rows before it, with PREV",
    "LAST": "LAST is not supported in DEFINE; a condition looks at its own row and at rows before it, with PREV",
    "CLASSIFIER": "CLASSIFIER is not supported in DEFINE; a condition looks at its own row and at rows before it",
    "MATCH_NUMBER": "MATCH_NUMBER is not supported in DEFINE; a condition looks at its own row and at rows before it",
    "RUNNING": "RUNNING is not supported in DEFINE; leave it out",
    "FINAL": "FINAL is not supported in DEFINE; leave it out",
}


class NavigationReader:
    """Puts a plain name in the place of each navigation in a list of tokens; `taken` holds them by that name."""

    def __init__(self, query: QueryText, measures: bool) -> None:
        self._query, self._measures = query, measures
        self._refused = _IN_MEASURES if measures else _IN_DEFINE
        self.taken: dict[str, Navigation] = {}

    def replaced(self, tokens: Sequence[Token]) -> list[Token]:
        """`tokens` with names for navigations; raises for those that are not kept."""
        result: list[Token] = []
        at = 0
        while at < len(tokens):
            word, behind = self._word(tokens, at), self._text(tokens, at + 1)
            called = behind == "(" and self._text(tokens, at - 1) != "."
            if word in self._refused and (called or (word in ("RUNNING", "FINAL") and behind.isidentifier())):
                raise self._error(self._refused[word], tokens[at])
            if called and (word in ("FIRST", "LAST", "CLASSIFIER") if self._measures else word == "PREV"):
                navigation, at = self._navigation(word, tokens, at)
                result.append(self._name(navigation))
            elif called and word == "COUNT" and self._measures and self._text(tokens, at + 4) == "*":
                result += tokens[at : at + 2]
                result.append(self._name(self._of(tokens, at + 2, "*")))
                at += 5
            else:
                result.append(tokens[at])
                at += 1
        return result

    def _navigation(self, function: str, tokens: Sequence[Token], at: int) -> tuple[Navigation, int]:
        """The call that begins at `at`, and where it ends."""
        first, at = tokens[at], at + 2
        if function == "CLASSIFIER":
            if self._text(tokens, at) != ")":
                raise self._error("CLASSIFIER takes no argument", first)
            return Navigation(function, None, "", 0, first), at + 1
        variable = None
        if self._text(tokens, at + 1) == ".":
            variable, at = self._plain(tokens, at, function), at + 2
        column, at = self._plain(tokens, at, function), at + 1
        offset = 1 if function == "PREV" else 0
        if self._text(tokens, at) == ",":
            number = self._text(tokens, at + 1)
            if not number.isdigit() or int(number) > MOST_BACK:
                raise self._error(f"{function} counts rows by a whole number up to {MOST_BACK}", first)
            offset, at = int(number), at + 2
        if self._text(tokens, at) != ")":
            raise self._error(f"{function} takes a column, and how many rows; calculate outside of it", first)
        return Navigation(function, variable, column, offset, first), at + 1

    def _of(self, tokens: Sequence[Token], at: int, column: str) -> Navigation:
        variable = self._plain(tokens, at, "COUNT")
        if self._text(tokens, at + 1) != "." or self._text(tokens, at + 3) != ")":
            raise self._error("COUNT takes *, a variable's .*, or a value", tokens[at])
        return Navigation("STAR", variable, column, 0, tokens[at])

    def _plain(self, tokens: Sequence[Token], at: int, function: str) -> str:
        written = self._text(tokens, at)
        quoted = at < len(tokens) and tokens[at].token_type == TokenType.IDENTIFIER
        if not quoted and not written.isidentifier():
            place = tokens[min(at, len(tokens) - 1)]
            raise self._error(f"{function} takes a column, and how many rows; calculate outside of it", place)
        return tokens[at].text if quoted else written

    def _name(self, navigation: Navigation) -> Token:
        # No name that is typed begins so.
        name = f"\0{len(self.taken)}"
        self.taken[name] = navigation
        first = navigation.token
        return Token(TokenType.VAR, name, first.line, first.col, first.start, first.end)

    def _word(self, tokens: Sequence[Token], at: int) -> str:
        quoted = tokens[at].token_type in (TokenType.IDENTIFIER, TokenType.STRING)
        return "" if quoted else self._text(tokens, at).upper()

    def _text(self, tokens: Sequence[Token], at: int) -> str:
        return self._query.source.text[tokens[at].start : tokens[at].end + 1] if 0 <= at < len(tokens) else ""

    def _error(self, message: str, token: Token) -> DeclarationError:
        return self._query.source.error(message, token.start, NotSupported)


def expression_tree(query: QueryText, tokens: Sequence[Token]) -> exp.Expr:
    """The tree of one value; raises where `tokens` are not one, or hold what no expression may."""
    first = tokens[0]
    select = Token(TokenType.SELECT, "SELECT", first.line, first.col, first.start, first.end)
    whole = [select, *tokens]
    tree = syntax_tree(query.source, whole)
    read = QueryText(tree, query.source, query.start, query.end)
    if not isinstance(tree, exp.Select) or any(value for part, value in tree.args.items() if part != "expressions"):
        raise query.source.error("this is not SQL: one expression is expected here", first.start)
    refuse_unsupported(read)
    refuse_unaccounted(read, whole)
    (value,) = tree.expressions if len(tree.expressions) == 1 else (None,)
    if value is None or isinstance(value, exp.Alias):
        raise query.source.error("this is not SQL: one expression is expected here", first.start)
    return value


Resolve = Callable[[Navigation], tuple[int, Column]]


class VariableScope(Scope):
    """Names in MATCH_RECOGNIZE: columns of any row, those of variables' rows, and navigations.

    `offsets` says from where on the columns of each variable count; those without variable count from 0.
    """

    def __init__(
        self, columns: Sequence[Column], offsets: dict[str, tuple[int, tuple[Column, ...]]],
        navigations: dict[str, Navigation], resolve: Resolve,
    ) -> None:  # fmt: skip
        names = tuple(column.name for column in columns)
        items = [FromItem(name, Scan(0, name, of), names, offset) for name, (offset, of) in offsets.items()]
        super().__init__([FromItem("", Scan(0, "", tuple(columns)), names, 0), *items])
        self._navigations, self._resolve = navigations, resolve

    def resolve(self, name: str, table: str | None) -> tuple[int, Column]:
        if table is None and name in self._navigations:
            return self._resolve(self._navigations[name])
        return super().resolve(name, table)

    def _called(self, table: str | None) -> Sequence[FromItem]:
        if table is None:
            return self.items[:1]
        called = [item for item in self.items[1:] if item.alias.lower() == table.lower()]
        if not called:
            names = [item.alias for item in self.items[1:]]
            raise Unresolved(f"there is no variable {table} in PATTERN" + did_you_mean(table, names))
        return called
