"""INSERT, UPDATE, DELETE and MERGE, token by token.

Each is read as the query that it is made of, whose tokens are those of the statement in another order: so all that is
said of queries, what is admitted in them and where an error is, holds for these too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from viewkeeper.compiler.parse_streams import QUERY_WORDS, StreamReader
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.statements import (
    Delete,
    Identifier,
    Insert,
    Merge,
    MergeClause,
    MergeRows,
    Update,
)
from viewkeeper.compiler.syntax import syntax_tree
from viewkeeper.compiler.written_anew import Snippet, WrittenAnew, pieces, value_pieces
from viewkeeper.errors import NotSupported

TARGET = "\0target"
"""What the table that is changed is called in the query that a statement is read as."""

DEFAULT = "\0default"
"""What a value is called in such a query that is the default of its column."""

MATCHED, NOT_MATCHED, BY_SOURCE = "MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"
"""The kinds of a MERGE's clauses."""

_ACTIONS = {MATCHED: ("UPDATE", "DELETE"), NOT_MATCHED: ("INSERT",), BY_SOURCE: ("UPDATE", "DELETE")}
_JOINS = {MATCHED: (), NOT_MATCHED: (TokenType.LEFT, TokenType.ANTI), BY_SOURCE: (TokenType.LEFT, TokenType.ANTI)}
_OPENING, _CLOSING = ("(", "CASE"), (")", "END")

T = TokenType


class ChangeReader(StreamReader):
    """Reads the statements that change rows of a table."""

    def _insert(self) -> Insert:
        self._expect("INSERT")
        if self._peek() == "OVERWRITE":
            raise self._refusal("INSERT OVERWRITE is not supported; there is INSERT INTO")
        self._expect("INTO")
        self._take("TABLE")
        table = self._identifier("a table")
        columns: tuple[Identifier, ...] = ()
        by_name = False
        if self._peek() == "(" and not self._query_in_parentheses():
            columns = self._identifiers("a column")
        elif self._take("BY"):
            self._expect("NAME")
            by_name = True
        if self._peek() not in QUERY_WORDS:
            raise self._failure("VALUES or a query")
        if self._peek() == "VALUES":
            self._tokens = [*self._tokens[: self._next], *self._defaults(self._tokens[self._next :])]
        tokens, refused = self._tokens[self._next :], None
        try:
            query, parts = self._select()
        except NotSupported:
            (query, refused), parts = self._plain_query(tokens), None
        if parts is not None:
            raise self._source.error("parts of streams cannot be inserted yet", query.start, NotSupported)
        return Insert(*self._whole(), table, query, columns, by_name, refused)

    def _query_in_parentheses(self) -> bool:
        """Whether what follows is a query, and no list of columns."""
        behind = self._tokens[self._next + 1 : self._next + 2]
        return bool(behind) and behind[0].text.upper() in QUERY_WORDS

    def _update(self) -> Update:
        self._expect("UPDATE")
        table, target = self._target()
        self._expect("SET")
        assigned, values = self._assignments(("WHERE",))
        return Update(*self._whole(), table, *self._query_of(values, target, target, self._where()), assigned)

    def _delete(self) -> Delete:
        self._expect("DELETE")
        self._expect("FROM")
        table, target = self._target()
        one = [self._unwritten(T.NULL, "NULL")]
        return Delete(*self._whole(), table, *self._query_of([one], target, target, self._where()))

    def _where(self) -> list[Token]:
        """WHERE and its condition, to the statement's end."""
        if self._next == len(self._tokens):
            return []
        if self._peek() != "WHERE":
            raise self._failure("WHERE or the end of the statement")
        self._next += 1
        where = [self._tokens[self._next - 1], *self._in_parentheses(self._until((), "a condition"))]
        if self._next < len(self._tokens):
            raise self._failure("the end of the statement")
        return where

    def _merge(self) -> Merge:
        self._expect("MERGE")
        self._expect("INTO")
        table, target = self._target()
        self._expect("USING")
        source = self._until(("ON",), "a table, view or query in parentheses")
        self._expect("ON")
        condition = self._until(("WHEN",), "a condition")
        written: dict[str, list[tuple[MergeClause, list[list[Token]]]]] = {}
        while self._take("WHEN"):
            clause, values = self._clause(self._name_of(source))
            before = written.setdefault(clause.kind, [])
            if before and not before[-1][0].conditional:
                raise self._source.error(f"only the last WHEN {clause.kind} can be without AND and a condition",
                                         self._source.offset(clause.place))  # fmt: skip
            before.append((clause, values))
        if self._next < len(self._tokens) or not written:
            raise self._failure("WHEN MATCHED, WHEN NOT MATCHED or WHEN NOT MATCHED BY SOURCE")
        rows = []
        for kind, clauses in written.items():
            first, second = (source, target) if kind == NOT_MATCHED else (target, source)
            join = [*(self._unwritten(word, word.name) for word in _JOINS[kind]), self._unwritten(T.JOIN, "JOIN")]
            from_ = [*first, *join, *second, self._unwritten(T.ON, "ON"), *self._in_parentheses(condition)]
            values = [value for _, each in clauses for value in each]
            query = self._query_of(values or [[self._unwritten(T.NULL, "NULL")]], from_, target, [])
            rows.append(MergeRows(kind, *query, tuple(clause for clause, _ in clauses)))
        return Merge(*self._whole(), table, tuple(rows))

    def _name_of(self, source: Sequence[Token]) -> Token | None:
        """The name by which the columns of a MERGE's source are called, if it has one."""
        last = source[-1]
        return None if last.token_type == T.R_PAREN else last

    def _clause(self, source: Token | None) -> tuple[MergeClause, list[list[Token]]]:
        """What stands behind WHEN, and its condition and values."""
        place = self._source.place(self._tokens[self._next - 1].start)
        kind = NOT_MATCHED if self._take("NOT") else MATCHED
        self._expect("MATCHED")
        matched = self._tokens[self._next - 1]
        if kind == NOT_MATCHED and self._take("BY"):
            kind = BY_SOURCE if self._one_of("SOURCE", "TARGET") == "SOURCE" else NOT_MATCHED
        conditional = self._take("AND")
        values = []
        if conditional:
            alias = self._unwritten(T.VAR, "\0condition", matched)
            condition = self._in_parentheses(self._until(("THEN",), "a condition"))
            values = [[*condition, *self._alias(alias)]]
        self._expect("THEN")
        action = self._one_of(*_ACTIONS[kind])
        columns: tuple[Identifier, ...] | None = ()
        if action == "UPDATE":
            self._expect("SET")
        if action != "DELETE" and self._peek() == "*":
            if kind == BY_SOURCE:
                raise self._failure("column = value: there is no row of the source")
            star = self._tokens[self._next]
            self._next += 1
            columns = None
            if kind == MATCHED and source is None:
                raise self._source.error("name the source, with AS, for UPDATE SET *", star.start)
            of_source = [source, self._unwritten(T.DOT, ".")] if kind == MATCHED and source is not None else []
            values.append([*of_source, star])
        elif action == "UPDATE":
            columns, assigned = self._assignments(("WHEN",))
            values += assigned
        elif action == "INSERT":
            columns = self._identifiers("a column")
            self._expect("VALUES")
            values += self._listed(columns)
        return MergeClause(kind, conditional, action, columns, place), values

    def _listed(self, columns: Sequence[Identifier]) -> list[list[Token]]:
        """A value for each of `columns`, in parentheses."""
        opening = self._next
        self._expect("(")
        values: list[list[Token]] = []
        while not values or self._take(","):
            values.append(self._until((",", ")"), "a value"))
        self._expect(")")
        if len(values) != len(columns):
            self._next = opening
            raise self._failure(f"{len(columns)} values are named, and there are {len(values)}", expected=False)
        return [self._named(value, column) for value, column in zip(values, columns, strict=True)]

    def _assignments(self, ends: tuple[str, ...]) -> tuple[tuple[Identifier, ...], list[list[Token]]]:
        """`column = value, ...`, up to one of the words `ends` or the statement's end."""
        assigned: list[Identifier] = []
        values: list[list[Token]] = []
        while not values or self._take(","):
            if self._next + 1 < len(self._tokens) and self._tokens[self._next + 1].token_type == T.DOT:
                self._next += 2  # the table's name or alias, which says nothing new
            assigned.append(self._identifier("a column"))
            self._expect("=")
            values.append(self._named(self._until((",", *ends), "a value"), assigned[-1]))
        return tuple(assigned), values

    def _named(self, value: Sequence[Token], column: Identifier) -> list[Token]:
        """`value` with an alias, as some subqueries need: one that nobody can write, where the column's name stands."""
        start = self._source.offset(column.place)
        quoted = self._source.text[start] == "`"
        line, place = column.place
        default = len(value) == 1 and _is_default(value[0])
        name = DEFAULT if default else f"\0{column}"
        alias = Token(T.VAR, name, line, place, start, start if quoted else start + len(column.name) - 1)
        written = [self._unwritten(T.NULL, "NULL", value[0])] if default else self._in_parentheses(value)
        return [*written, *self._alias(alias)]

    def _alias(self, name: Token) -> list[Token]:
        return [self._unwritten(T.ALIAS, "AS", name), name]

    def _defaults(self, tokens: Sequence[Token]) -> Iterator[Token]:
        """`tokens` of VALUES with the name `DEFAULT` in place of each DEFAULT that is a value of a row."""
        depth = 0
        for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
            depth += (token.token_type == T.L_PAREN) - (token.token_type == T.R_PAREN)
            alone = all(each is None or each.text in ("(", ",", ")") for each in (before, after))
            given = depth == 1 and alone and _is_default(token)
            yield self._unwritten(T.VAR, DEFAULT, token) if given else token

    def _target(self) -> tuple[Identifier, list[Token]]:
        """The table to be changed, and the tokens that stand for it in FROM."""
        at = self._tokens[self._next : self._next + 1]
        table = self._identifier("a table")
        tokens = [Token(T.VAR, TARGET, at[0].line, at[0].col, at[0].start, at[0].end)]
        if self._next < len(self._tokens) and self._peek() not in ("SET", "WHERE", "USING"):
            if self._peek() == "AS":
                tokens.append(self._tokens[self._next])
                self._next += 1
            alias = self._tokens[self._next : self._next + 1]
            self._identifier("an alias")
            tokens += alias
        return table, tokens

    def _query_of(
        self, values: Sequence[Sequence[Token]], from_: Sequence[Token], target: Sequence[Token], where: Sequence[Token]
    ) -> tuple[QueryText, WrittenAnew]:
        """`SELECT values FROM ... WHERE ...`, for our own operators and for Spark; `target` is what stands in FROM for
        the table that is changed."""
        behind = [self._unwritten(T.FROM, "FROM"), *from_, *where]
        query, refused = self._read(values, behind)
        rows: QueryText | None = query
        if refused is not None:
            without, none = self._read([[self._unwritten(T.NULL, "NULL")]], behind)
            rows = without if none is None else None
        listed: list[Snippet] = []
        for i, value in enumerate(values):
            listed += [(",", value[0].start)] if i else []
            listed += value_pieces(self._source, self._tokens, value)
        name = self._source.text[target[-1].start : target[-1].end + 1]
        alias = [] if len(target) > 1 else [self._unwritten(T.ALIAS, f"AS {name}", target[0])]
        at = next((i + 1 for i, token in enumerate(behind) if token is target[0]), 0)
        text = pieces(self._source, self._tokens, [*behind[:at], *alias, *behind[at:]])
        return query, WrittenAnew(tuple(listed), tuple(text), name, refused, rows)

    def _read(
        self, values: Sequence[Sequence[Token]], behind: Sequence[Token]
    ) -> tuple[QueryText, NotSupported | None]:  # fmt: skip
        """A query of tokens, and what in it our own operators do not know, if that can be seen already."""
        tokens = [self._unwritten(T.SELECT, "SELECT")]
        for i, value in enumerate(values):
            tokens += [self._unwritten(T.COMMA, ",", value[0])] if i else []
            tokens += value
        tokens += behind
        refused = None
        try:
            tree = self._admitted_tree(self._source, tokens)
        except NotSupported as error:
            tree, refused = syntax_tree(self._source, tokens), error
        assert isinstance(tree, exp.Select), "values in parentheses, of rows that are joined"
        return QueryText(tree, self._source, self._tokens[0].start, self._tokens[-1].end + 1), refused

    def _in_parentheses(self, tokens: Sequence[Token]) -> list[Token]:
        return [self._unwritten(T.L_PAREN, "(", tokens[0]), *tokens, self._unwritten(T.R_PAREN, ")", tokens[-1])]

    def _until(self, ends: Sequence[str], what: str) -> list[Token]:
        """The tokens up to one of the words `ends` that stands in no parentheses and no CASE; at least one."""
        first, depth = self._next, 0
        while self._next < len(self._tokens):
            word = self._peek()
            if not depth and (word in ends or word == ")"):
                break
            depth += (word in _OPENING) - (word in _CLOSING)
            self._next += 1
        if self._next == first:
            raise self._failure(what)
        return list(self._tokens[first : self._next])

    def _unwritten(self, kind: TokenType, text: str, at: Token | None = None) -> Token:
        """A token that is not written, where `at` stands."""
        place = at or self._tokens[0]
        return Token(kind, text, place.line, place.col, place.start, place.end)


def _is_default(token: Token) -> bool:
    return token.token_type != T.IDENTIFIER and token.text.upper() == "DEFAULT"
