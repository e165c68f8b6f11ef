"""The statements about streams and the views over them, token by token (paper 003, sections 2, 4.1 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from viewkeeper.catalog.outside_store import Target
from viewkeeper.compiler.accounting import refuse_unaccounted
from viewkeeper.compiler.lengths import LengthReader
from viewkeeper.compiler.part_references import PartText, has_brackets, quoted, read_query, read_view_query
from viewkeeper.compiler.relational import CHECKS, RELATIONAL, with_values
from viewkeeper.compiler.source_text import UNREAD, QueryText, Script
from viewkeeper.compiler.statements import (
    AlterView,
    ColumnDeclaration,
    CreateMatchView,
    CreatePatternView,
    CreateStream,
    CreateView,
    CreateViewDF,
    CreateWindowView,
    Identifier,
    RebuildView,
    Rename,
    Statement,
)
from viewkeeper.compiler.store_options import OptionsReader
from viewkeeper.compiler.supported import refuse_unsupported
from viewkeeper.compiler.syntax import syntax_tree
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.references import PartQuery

QUERY_WORDS = ("SELECT", "FROM", "(", "VALUES", "WITH", "TABLE")
"""What a query begins with."""

AnyView = CreateView | CreateViewDF | CreatePatternView | CreateWindowView | CreateMatchView

_CHOICES = "write INITIALIZE and UPDATE to say which parts a part is made of, or name it without a subscript"


class StreamReader(OptionsReader):
    """Reads CREATE STREAM, every kind of view, and ALTER VIEW."""

    def _create_stream(self) -> CreateStream:
        name = self._new_name("a stream")
        self._expect("(")
        columns: list[ColumnDeclaration] = []
        while not columns or self._take(","):
            if self._peek() in ("PRIMARY KEY", "CONSTRAINT"):
                raise self._refusal("a stream has no key: its rows are a bag; leave out PRIMARY KEY")
            columns.append(self._column())
            if self._peek() == "PRIMARY KEY":
                raise self._refusal("a stream has no key: its rows are a bag; leave out PRIMARY KEY")
        self._expect(")")
        using, source = self._written_to()
        self._expect("TIMESTAMP")
        self._expect("BY")
        time = self._identifier("the column that has a row's time")
        self._expect("PARTITION")
        self._expect("LENGTH")
        length = self._length("PARTITION LENGTH")
        limits: dict[str, int] = {}
        while self._peek() in ("LATENESS", "HORIZON", "IDLE", "MAX", "EXPIRE"):
            at, word = self._next, self._peek()
            self._next += 1
            if word == "MAX":
                self._expect("AHEAD")
            elif word == "EXPIRE":
                self._expect("AFTER")
            if word in limits:
                self._next = at
                raise self._failure(f"{word} stands twice", expected=False)
            limits[word] = self._length(word, 1 if word in ("IDLE", "EXPIRE") else 0)
        ahead = limits.get("MAX", 86_400)
        made = CreateStream(*self._whole(), name, tuple(columns), time, length, limits.get("LATENESS", 0),
                            limits.get("HORIZON"), limits.get("IDLE"), ahead, limits.get("EXPIRE"), using,
                            () if source is None else source.options)  # fmt: skip
        return self._ended(made, "CREATE STREAM")

    def _create_view(self, replacing: bool = False) -> AnyView:
        """Behind CREATE [MATERIALIZED] VIEW."""
        name = self._new_name("a view")
        behind = self._tokens[self._next].start if self._next < len(self._tokens) else self._end()
        columns = self._identifiers("a column") if self._peek() == "(" else ()
        using, target = self._written_to()
        if self._peek() != "AS":
            raise self._failure("AS and the view's query")
        self._next += 1
        plain = self._if_absent is None and not replacing
        view = self._definition(name, columns, self._whole()[0] if plain else self._as_created(name, behind))
        if using is None:
            return view
        if not isinstance(view, CreateView):
            raise NotSupported(f"{name} is kept part by part: such views are not written to other stores yet; leave "
                               "out USING, or declare a view over tables", *using.place)  # fmt: skip
        return replace(view, target=target, using=using)

    def _written_to(self) -> tuple[Identifier | None, Target | None]:
        """USING kind OPTIONS (...), if it stands next."""
        if not self._take("USING"):
            return None, None
        using = self._identifier("a kind of store")
        options = self._store_options() if self._take("OPTIONS") else ()
        return using, Target(using.name.lower(), options)

    def _alter(self) -> Statement:
        self._expect("ALTER")
        self._take("MATERIALIZED")
        kind = self._peek()
        if kind not in ("TABLE", "VIEW"):
            raise self._refusal(
                f"ALTER {kind} is not supported yet; what is no table or view is dropped and created again"
            )
        self._next += 1
        name = self._identifier(f"a {kind.lower()}")
        if kind == "TABLE":
            return self._alter_table(name)
        text, place = self._whole()
        if self._take("RENAME"):
            self._expect("TO")
            return self._ended(Rename(text, place, kind, name, self._identifier("the new name")))
        if self._take("REBUILD"):
            self._expect("FROM")
            return self._ended(RebuildView(text, place, name, self._signed_number()))
        since = self._signed_number() if self._take("FROM") else None
        behind = self._tokens[self._next].start if self._next < len(self._tokens) else self._end()
        columns = self._identifiers("a column") if self._peek() == "(" else ()
        if self._peek() != "AS":
            raise self._failure("REBUILD FROM, or [FROM i] AS and the view's new definition")
        self._next += 1
        view = self._definition(name, columns, self._as_created(name, behind))
        return AlterView(text, place, view, since)

    def _alter_table(self, name: Identifier) -> Statement:
        """Behind ALTER TABLE and its name."""
        raise NotImplementedError

    def _as_created(self, name: Identifier, behind: int) -> str:
        """The text of a view's definition, whatever stands before its name: what it says from `behind` on."""
        return f"CREATE VIEW {quoted(name.name)} {self._source.text[behind : self._end()]}"

    def _definition(self, name: Identifier, columns: tuple[Identifier, ...], text: str) -> AnyView:
        """What stands behind AS; `text` is the whole CREATE VIEW."""
        place = self._source.place(self._tokens[0].start)
        if self._peek() == "INITIALIZE":
            if columns:
                message = "the names of the columns are those of INITIALIZE; leave out this list"
                raise DeclarationError(message, *columns[0].place)
            return self._viewdf(name, text, place)
        if self._peek() == "UPDATE":
            raise self._failure("INITIALIZE view[i] AS and the query of the first part, before UPDATE")
        forgets = self._cut_forgetting()
        expire = self._cut_expiry()
        tokens = self._tokens[self._next :]
        limit, tokens = self._cut_limit(tokens)
        pattern, window = _pattern_at(tokens), _window_at(tokens)
        matching = next((i for i, (token, after) in enumerate(pairwise(tokens))
                         if after.token_type == TokenType.L_PAREN and _is(self._source, token, "MATCH_RECOGNIZE")),
                        None)  # fmt: skip
        found = [i for i in (pattern, window, matching) if i is not None]
        if forgets is not None and found:
            raise self._source.error("a view by PATTERN, WINDOW or MATCH_RECOGNIZE is kept part by part, and its parts "
                                     "stay; leave out FORGET EXPIRED", forgets.start)  # fmt: skip
        if len(found) > 1:
            raise self._source.error("a view has one of PATTERN, WINDOW and MATCH_RECOGNIZE; declare one view over the "
                                     "other", tokens[max(found)].start, NotSupported)  # fmt: skip
        if limit is not None and pattern is None:
            raise self._source.error("only a view with PATTERN has partial matches; leave out LIMIT",
                                     self._tokens[self._next + len(tokens)].start)  # fmt: skip
        if pattern is not None:
            variables, cut = self._variables(tokens, pattern)
            query = self._cut_query(tokens, pattern, cut)
            return CreatePatternView(text, place, name, columns, query, variables, limit, expire)
        if window is not None:
            seconds, cut = self._window(tokens, window)
            at = self._source.place(tokens[window].start)
            query = self._cut_query(tokens, window, cut)
            return CreateWindowView(text, place, name, columns, query, seconds, at, expire)
        if matching is not None:
            return CreateMatchView(text, place, name, columns, self._match_query(tokens, matching), expire)
        query, refused = self._plain_query(tokens)
        return CreateView(text, place, name, columns, query, expire, refused, forgets is not None)

    # Queries

    def _plain_query(self, tokens: Sequence[Token]) -> tuple[QueryText, NotSupported | None]:
        """The query of a view without clauses of its own, and what in it is not kept incrementally, if anything."""
        if has_brackets(tokens):
            parts = read_query(self._source, tokens, syntax_tree).query
            if parts.references:
                message = f"{parts.references[0].target} cannot have a subscript here; {_CHOICES}"
                raise NotSupported(message, *parts.references[0].place)
        try:
            return self._admitted(tokens), None
        except NotSupported as refused:
            return QueryText(self._tree_or_none(tokens), self._source, tokens[0].start, tokens[-1].end + 1), refused

    def _tree_or_none(self, tokens: Sequence[Token]) -> exp.Expr:
        """The tree of a query; what stands for none where nobody but Spark reads it."""
        try:
            return syntax_tree(self._source, tokens)
        except NotSupported:
            return UNREAD.copy()

    def _select(self) -> tuple[QueryText, PartQuery | None]:
        """A query that reads, with the parts that it names."""
        tokens = self._tokens[self._next :]
        self._require_query()
        for at, word in ((_pattern_at(tokens), "PATTERN"), (_window_at(tokens), "WINDOW")):
            if at is not None:
                raise self._source.error(f"{word} stands in CREATE VIEW only; declare a view, then read it",
                                         tokens[at].start, NotSupported)  # fmt: skip
        if not has_brackets(tokens):
            return self._admitted(tokens), None
        text = read_query(self._source, tokens, self._admitted_tree)
        query = QueryText(text.tree, self._source, tokens[0].start, tokens[-1].end + 1)
        return query, text.query if text.query.references else None

    def _admitted(self, tokens: Sequence[Token]) -> QueryText:
        """A query of the SQL that is kept incrementally: all else in it is refused."""
        self._require_query()
        return QueryText(self._admitted_tree(self._source, tokens), self._source, tokens[0].start, tokens[-1].end + 1)

    def _admitted_tree(self, source: Script, tokens: Sequence[Token]) -> exp.Expr:
        tree = with_values(syntax_tree(source, tokens, aggregates=True), tokens)
        query = QueryText(tree, source, tokens[0].start, tokens[-1].end + 1)
        refuse_unsupported(query, RELATIONAL, CHECKS)
        refuse_unaccounted(query, tokens)
        return query.tree

    def _require_query(self) -> None:
        if self._peek() not in QUERY_WORDS:
            raise self._failure("a query")

    def _cut_query(self, tokens: Sequence[Token], first: int, behind: int) -> QueryText:
        """The query without the tokens `first` to `behind` (exclusive), read but not yet judged.

        In its source spaces stand for them, so that places are what they are, and its text is a query by itself.
        """
        self._require_query()
        start, end = tokens[0].start, tokens[-1].end + 1
        if first == 0:
            raise self._source.error("expected a query", start)
        text, (low, high) = self._source.text, (tokens[first].start, tokens[behind - 1].end + 1)
        blank = "".join(character if character == "\n" else " " for character in text[low:high])
        source = Script(text[:low] + blank + text[high:])
        if behind == len(tokens):
            end = tokens[first - 1].end + 1
        return QueryText(syntax_tree(source, [*tokens[:first], *tokens[behind:]]), source, start, end)

    def _match_query(self, tokens: Sequence[Token], at: int) -> QueryText:
        """MATCH_RECOGNIZE is no word of Spark's, but sqlglot's own grammar has it."""
        self._require_query()
        token = tokens[at]
        word = Token(TokenType.MATCH_RECOGNIZE, token.text, token.line, token.col, token.start, token.end)
        tree = syntax_tree(self._source, [*tokens[:at], word, *tokens[at + 1 :]])
        return QueryText(tree, self._source, tokens[0].start, tokens[-1].end + 1)

    # ViewDF

    def _viewdf(self, name: Identifier, text: str, place: tuple[int, int]) -> CreateViewDF:
        initialize_at = self._tokens[self._next]
        self._next += 1
        first = self._part_name(name, "INITIALIZE")
        update = self._find_update(initialize_at)
        starts = [self._start(self._next, "INITIALIZE")]
        initialize = self._part_query(self._next, update, first)
        self._next = update + 1
        self._take("VIEW")  # as in one of the paper's examples
        second = self._part_name(name, "UPDATE")
        partition = self._find_partition()
        starts.append(self._start(self._next, "UPDATE"))
        body = self._part_query(self._next, partition, second)
        self._next = partition + 2
        length = self._length("PARTITION LENGTH")
        backfill = self._take("BACKFILL")
        expire = None
        if self._take("EXPIRE"):
            self._expect("AFTER")
            expire = self._length("EXPIRE AFTER")
        made = CreateViewDF(text, place, name, initialize.query, body.query, length, backfill, expire,
                            (starts[0], starts[1]))  # fmt: skip
        return self._ended(made, "CREATE VIEW ... UPDATE")

    def _part_name(self, view: Identifier, what: str) -> str:
        """Behind INITIALIZE or UPDATE: `view[j] AS`; gives the variable."""
        at = self._next
        name = self._identifier("the view")
        if name.name.lower() != view.name.lower():
            self._next = at
            raise self._failure(f"{what} names {name}, but the view is {view}", expected=False)
        self._expect("[")
        variable = self._identifier("the variable for the view's part, such as [j]")
        if variable.name.upper() == "DIV" or not variable.name.replace("_", "a").isalnum():
            raise DeclarationError(f"{variable} cannot be the variable; take a letter, such as j", *variable.place)
        self._expect("]")
        self._expect("AS")
        return variable.name

    def _start(self, index: int, what: str) -> tuple[int, int]:
        if index >= len(self._tokens):
            raise self._failure(f"the query of {what}")
        return self._source.place(self._tokens[index].start)

    def _find_update(self, initialize: Token) -> int:
        for i in self._outside_parentheses(self._next):
            named = i + 1 + (self._word(i + 1) == "VIEW" and _kind(self._tokens, i + 3) == TokenType.L_BRACKET)
            if self._word(i) == "UPDATE" and _kind(self._tokens, named + 1) == TokenType.L_BRACKET:
                return i
        raise self._source.error("INITIALIZE needs an UPDATE: the query for the parts behind the first one",
                                 initialize.start)  # fmt: skip

    def _find_partition(self) -> int:
        found = [i for i in self._outside_parentheses(self._next)
                 if self._word(i) == "PARTITION" and self._word(i + 1) == "LENGTH"]  # fmt: skip
        if not found:
            self._next = len(self._tokens)
            raise self._failure("PARTITION LENGTH and the time span of a part")
        return found[-1]

    def _outside_parentheses(self, first: int) -> list[int]:
        depth, found = 0, []
        for i in range(first, len(self._tokens)):
            kind = self._tokens[i].token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if depth == 0:
                found.append(i)
        return found

    def _part_query(self, first: int, end: int, variable: str) -> PartText:
        tokens = self._tokens[first:end]
        if not tokens or self._word(first) not in ("SELECT", "FROM", "(", "WITH", "VALUES"):
            self._next = first
            raise self._failure("a query")
        return read_view_query(self._source, tokens, variable)

    # Clauses

    def _cut_forgetting(self) -> Token | None:
        """Takes FORGET EXPIRED from the end of the statement; where it stands, None where it does not."""
        at = len(self._tokens) - 2
        if at <= self._next or (self._word(at), self._word(at + 1)) != ("FORGET", "EXPIRED"):
            return None
        found = self._tokens[at]
        self._tokens = self._tokens[:at]
        return found

    def _cut_expiry(self) -> int | None:
        """Takes EXPIRE AFTER from the end of the statement."""
        first = self._next
        for at in range(len(self._tokens) - 3, first, -1):
            if self._word(at) != "EXPIRE" or self._word(at + 1) != "AFTER":
                continue
            length = self._word(at + 2)
            if length == "INTERVAL" or length.isdigit():
                self._next = at + 2
                expire = self._length("EXPIRE AFTER")
                if self._next < len(self._tokens):
                    raise self._failure("the end of the statement behind EXPIRE AFTER")
                self._tokens, self._next = self._tokens[:at], first
                return expire
        return None

    def _cut_limit(self, tokens: Sequence[Token]) -> tuple[int | None, Sequence[Token]]:
        """LIMIT n PARTIAL MATCHES, at the end of the statement."""
        words = [_text(self._source, token) for token in tokens[-4:]]
        if len(words) < 4 or words[0] != "LIMIT" or words[2:] != ["PARTIAL", "MATCHES"]:
            return None, tokens
        if not words[1].isdigit() or int(words[1]) < 1:
            message = "LIMIT ... PARTIAL MATCHES takes a whole number of at least 1"
            raise self._source.error(message, tokens[-3].start)
        return int(words[1]), tokens[:-4]

    def _variables(self, tokens: Sequence[Token], at: int) -> tuple[tuple[tuple[Identifier, bool], ...], int]:
        """The variables of `PATTERN [a, b+]`, and the number of the token behind it."""
        reader = LengthReader(self._source, tokens)
        reader._next = at + 2
        variables: list[tuple[Identifier, bool]] = []
        while not variables or reader._take(","):
            name = reader._identifier("a variable of the pattern")
            if name.name.lower() in (known.name.lower() for known, _ in variables):
                raise DeclarationError(f"the variable {name} stands twice in PATTERN", *name.place)
            variables.append((name, reader._take("+")))
            if reader._peek() in ("*", "?", "{", "|", "("):
                raise reader._refusal(f"{reader._peek()} is not supported in PATTERN, where a variable may have a + "
                                      "only; MATCH_RECOGNIZE has more")  # fmt: skip
        reader._expect("]")
        return tuple(variables), reader._next

    def _window(self, tokens: Sequence[Token], at: int) -> tuple[int, int]:
        """The seconds of `[WINDOW 60 MINUTES]`, and the number of the token behind it."""
        reader = LengthReader(self._source, tokens)
        bracket = tokens[at].token_type == TokenType.L_BRACKET
        reader._next = at + 1 + bracket
        seconds = reader._length("WINDOW")
        if bracket:
            reader._expect("]")
        return seconds, reader._next

    # Tokens

    def _signed_number(self) -> int:
        sign = -1 if self._take("-") else 1
        return sign * self._number()

    def _word(self, index: int) -> str:
        """Token `index` in capitals; empty behind the end and for what is quoted."""
        return _text(self._source, self._tokens[index]) if index < len(self._tokens) else ""

    def _end(self) -> int:
        return self._tokens[-1].end + 1


def _pattern_at(tokens: Sequence[Token]) -> int | None:
    """Where PATTERN [ stands, which is no stream called pattern."""
    for i in range(1, len(tokens) - 1):
        if tokens[i + 1].token_type == TokenType.L_BRACKET and tokens[i].text.upper() == "PATTERN":
            named = tokens[i - 1].token_type in _BEFORE_NAME or tokens[i].token_type == TokenType.IDENTIFIER
            if not named:
                return i
    return None


def _window_at(tokens: Sequence[Token]) -> int | None:
    """Where WINDOW and a length stand, with the bracket before it; a named window of Spark's has a name there."""
    for i in range(1, len(tokens) - 1):
        after = tokens[i + 1]
        if tokens[i].token_type == TokenType.WINDOW and after.token_type in (TokenType.NUMBER, TokenType.INTERVAL):
            return i - (tokens[i - 1].token_type == TokenType.L_BRACKET)
    return None


_BEFORE_NAME = {TokenType.FROM, TokenType.JOIN, TokenType.COMMA, TokenType.DOT, TokenType.ALIAS, TokenType.SELECT}


def _kind(tokens: Sequence[Token], index: int) -> TokenType | None:
    return tokens[index].token_type if index < len(tokens) else None


def _is(source: Script, token: Token, word: str) -> bool:
    return _text(source, token) == word


def _text(source: Script, token: Token) -> str:
    if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
        return ""
    return source.text[token.start : token.end + 1].upper()
