"""A script's text to statements.  Declarations are read here, token by token; queries by sqlglot."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from decimal import InvalidOperation
from functools import lru_cache
from typing import ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MAX_PRECISION,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    decimal,
)  # fmt: skip
from viewkeeper.compiler.accounting import refuse_unaccounted
from viewkeeper.compiler.source import IS_NOT, QueryText, Source
from viewkeeper.compiler.statements import (
    ColumnDeclaration,
    CreateIndex,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    ExplainCreateView,
    ExplainView,
    Identifier,
    Select,
    Show,
    Statement,
)  # fmt: skip
from viewkeeper.compiler.supported import NO_WITH, refuse_unsupported
from viewkeeper.errors import DeclarationError, NotSupported

_Some = TypeVar("_Some", bound=Statement)


class _Tokenizer(Spark.Tokenizer):
    # SHOW and EXPLAIN are read here, not swallowed whole.
    COMMANDS: ClassVar[set[TokenType]] = set()


class _Parser(Spark.parser_class):  # type: ignore[misc, valid-type]
    def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
        # `x IS NOT NULL` and `NOT x IS NULL` are the same tree; Spark names them differently.
        parsed: exp.Expr | None = super()._parse_is(this)
        if isinstance(parsed, exp.Not):
            parsed.meta[IS_NOT] = True
        return parsed


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class _Parsing(threading.local):
    """A parser a thread: one that reads two queries at once mixes them up."""

    def __init__(self) -> None:
        self.parser = _Parser(dialect="spark")


_parsing = _Parsing()

_TYPES = {
    "BOOLEAN": BOOLEAN, "TINYINT": TINYINT, "BYTE": TINYINT, "SMALLINT": SMALLINT, "SHORT": SMALLINT, "INT": INT,
    "INTEGER": INT, "BIGINT": BIGINT, "LONG": BIGINT, "FLOAT": FLOAT, "REAL": FLOAT, "DOUBLE": DOUBLE,
    "STRING": STRING, "BINARY": BINARY, "DATE": DATE, "TIMESTAMP": TIMESTAMP, "TIMESTAMP_LTZ": TIMESTAMP,
    "TIMESTAMP_NTZ": TIMESTAMP_NTZ,
}  # fmt: skip
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_OTHER_TYPES = {
    "VARCHAR": "use STRING, which has no length", "CHAR": "use STRING, which has no length",
    "TEXT": "use STRING", "DATETIME": "use TIMESTAMP", "ARRAY": "arrays are not supported yet",
    "MAP": "maps are not supported yet", "STRUCT": "structs are not supported yet",
    "INTERVAL": "intervals are not supported yet", "VARIANT": "it is not supported yet",
}  # fmt: skip
_OTHER_STATEMENTS = {
    "ALTER": "drop the table or view and create it again",
    "INSERT": "use db.table(name).put_many(rows)", "UPDATE": "use db.table(name).put(row)",
    "DELETE": "use db.table(name).delete(key)", "MERGE": "use db.table(name).put_many(rows)",
    "TRUNCATE": "delete the rows by key", "REFRESH": "every view is kept up to date by itself",
    "VALUES": "use db.table(name).put_many(rows)",
}  # fmt: skip


def parse_script(text: str) -> list[Statement]:
    """The statements of `text`, which are separated by semicolons.

    Raises DeclarationError where it is no SQL, and NotSupported where it is SQL for which there is no statement here.
    """
    if not isinstance(text, str):
        raise DeclarationError(f"expected SQL text, not {type(text).__name__}")
    return list(_statements(text))


@lru_cache(maxsize=1)
def _statements(text: str) -> tuple[Statement, ...]:
    """The last script is kept: whoever submits a script of thousands of views has often parsed it a moment before."""
    if not text.isascii() and (lone := _LONE_SURROGATE.search(text)):
        raise Source(text).error("this is not SQL: what stands here is no character", lone.start())
    source = Source(text)
    try:
        tokens = _Tokenizer(dialect="spark").tokenize(text)
    except TokenError as problem:
        raise _not_tokens(source, problem) from None
    statements: list[Statement] = []
    first = 0
    for i, token in enumerate([*tokens, None]):
        if token is None or token.token_type == TokenType.SEMICOLON:
            if i > first:
                statements.append(_StatementParser(source, tokens[first:i]).statement())
            first = i + 1
    return tuple(statements)


_INTERNAL = re.compile(r"<Token .*>")
_AT = re.compile(r"(.*) from \d+:(\d+)")


def _not_tokens(source: Source, problem: TokenError) -> DeclarationError:
    """What cannot be cut into words: sqlglot says where the piece at fault begins, but for comments."""
    at = _AT.fullmatch(str(problem.__cause__))
    if at is None:
        return source.error("this is not SQL: a comment that does not end", max(source.text.rfind("/*"), 0))
    return source.error(f"this is not SQL: {at[1]}", int(at[2]))


class _StatementParser:
    """Reads the tokens of one statement from left to right."""

    def __init__(self, source: Source, tokens: Sequence[Token]) -> None:
        self._source, self._tokens, self._next = source, tokens, 0

    def statement(self) -> Statement:
        word = self._peek()
        if word in ("SELECT", "FROM", "("):
            return Select(*self._whole(), self._query())
        if word == "CREATE":
            return self._create()
        if word == "DROP":
            return self._drop()
        if word == "SHOW":
            self._next += 1
            kind = self._one_of("TABLES", "VIEWS")
            return self._ended(Show(*self._whole(), kind))
        if word in ("DESCRIBE", "DESC"):
            self._next += 1
            if self._next + 1 < len(self._tokens):
                self._take("TABLE")
            return self._ended(Describe(*self._whole(), self._identifier("a table, view or index")))
        if word == "EXPLAIN":
            return self._explain()
        if word == "WITH":
            raise self._refusal(NO_WITH)
        if word in _OTHER_STATEMENTS:
            raise self._refusal(f"{word} is not supported yet; {_OTHER_STATEMENTS[word]}")
        raise self._failure("a statement begins with CREATE, DROP, SELECT, SHOW, DESCRIBE or EXPLAIN", expected=False)

    # Statements

    def _create(self) -> Statement:
        self._expect("CREATE")
        if self._peek() == "OR":
            raise self._refusal("CREATE OR REPLACE is not supported yet; DROP the view first")
        if self._peek() in ("TEMPORARY", "TEMP", "GLOBAL", "EXTERNAL", "UNIQUE"):
            raise self._refusal(f"CREATE {self._peek()} is not supported; leave out {self._peek()}")
        if self._take("TABLE"):
            return self._create_table()
        if self._take("INDEX"):
            return self._create_index()
        if self._take("MATERIALIZED"):
            self._expect("VIEW")
        elif not self._take("VIEW"):
            raise self._refusal(f"CREATE {self._peek()} is not supported; there are TABLE, VIEW and INDEX")
        return self._create_view()

    def _create_table(self) -> CreateTable:
        name = self._new_name("a table")
        if self._peek() == "AS":
            raise self._refusal("CREATE TABLE ... AS is not supported; create the table, then put its rows")
        columns: list[ColumnDeclaration] = []
        key: tuple[Identifier, ...] | None = None
        self._expect("(")
        while True:
            if self._peek() in ("PRIMARY KEY", "CONSTRAINT"):
                if self._take("CONSTRAINT"):
                    self._identifier("a constraint")
                self._begin_key(key)
                key = self._identifiers("a key column")
            else:
                columns.append(self._column())
                if self._peek() == "PRIMARY KEY":
                    self._begin_key(key)
                    key = (columns[-1].name,)
                    columns[-1] = self._nullability(columns[-1])
            if not self._take(","):
                break
        self._expect(")")
        if not columns:
            raise self._failure("a table needs columns", expected=False)
        return self._ended(CreateTable(*self._whole(), name, tuple(columns), key or ()), "CREATE TABLE")

    def _column(self) -> ColumnDeclaration:
        return self._nullability(ColumnDeclaration(self._identifier("a column"), self._type(), True))

    def _nullability(self, column: ColumnDeclaration) -> ColumnDeclaration:
        if self._take("NOT"):
            self._expect("NULL")
            return ColumnDeclaration(column.name, column.type, False)
        if self._peek() not in ("", ",", ")", "PRIMARY KEY"):
            raise self._refusal(f"{self._peek()} is not supported in a column; there are NOT NULL and PRIMARY KEY")
        return column

    def _begin_key(self, key: tuple[Identifier, ...] | None) -> None:
        if key is not None:
            raise self._failure("a table has one PRIMARY KEY", expected=False)
        self._expect("PRIMARY KEY")

    def _type(self) -> Type:
        token = self._tokens[self._next] if self._next < len(self._tokens) else None
        word = self._peek()
        self._next += 1
        if word in _TYPES:
            if self._peek() == "(":
                raise self._refusal(f"{word} has no length")
            return _TYPES[word]
        if word in _DECIMALS:
            return self._decimal()
        self._next -= 1
        if token is None or word in (",", ")", "NOT"):
            raise self._failure("a type")
        known = ", ".join(dict.fromkeys(map(str, _TYPES.values())))
        advice = _OTHER_TYPES.get(word, f"there are {known} and DECIMAL")
        raise self._refusal(f"the type {token.text} is not supported; {advice}")

    def _decimal(self) -> Type:
        if not self._take("("):
            return decimal(10, 0)
        precision, scale = self._number(), self._number() if self._take(",") else 0
        if not 1 <= precision <= MAX_PRECISION or scale > precision:
            self._next -= 1
            limits = f"the first number is 1 to {MAX_PRECISION}, the second at most the first"
            raise self._failure(f"DECIMAL({precision},{scale}): {limits}", expected=False)
        self._expect(")")
        return decimal(precision, scale)

    def _number(self) -> int:
        text = self._peek()
        if not text.isdigit():
            raise self._failure("a whole number")
        self._next += 1
        return int(text)

    def _create_index(self) -> CreateIndex:
        name = self._new_name("an index")
        self._expect("ON")
        on = self._identifier("a table or view")
        return self._ended(CreateIndex(*self._whole(), name, on, self._identifiers("a column")), "CREATE INDEX")

    def _create_view(self) -> CreateView:
        name = self._new_name("a view")
        columns = self._identifiers("a column") if self._peek() == "(" else ()
        if self._peek() != "AS":
            raise self._failure("AS and the view's query")
        self._next += 1
        if self._peek() == "WITH":
            raise self._refusal(NO_WITH)
        return CreateView(*self._whole(), name, columns, self._query())

    def _drop(self) -> Drop:
        self._expect("DROP")
        self._take("MATERIALIZED")
        kind = self._one_of("TABLE", "VIEW", "INDEX")
        if_exists = self._take("IF")
        if if_exists:
            self._expect("EXISTS")
        return self._ended(Drop(*self._whole(), kind, self._identifier(f"a {kind.lower()}"), if_exists), "DROP")

    def _explain(self) -> Statement:
        self._expect("EXPLAIN")
        if self._take("VIEW"):
            return self._ended(ExplainView(*self._whole(), self._identifier("a view")))
        if self._peek() != "CREATE":
            raise self._refusal(
                f"EXPLAIN {self._peek()} is not supported; there are EXPLAIN VIEW and EXPLAIN CREATE VIEW"
            )
        text, place = self._whole()
        view = self._create()
        if not isinstance(view, CreateView):
            raise self._failure("only views have a plan to explain", expected=False)
        return ExplainCreateView(text, place, view)

    def _query(self) -> QueryText:
        tokens = self._tokens[self._next :]
        pipe = next((token for token in tokens if token.token_type == TokenType.PIPE_GT), None)
        if pipe is not None:
            raise self._source.error("|> is not supported; write a subquery in FROM", pipe.start, NotSupported)
        if self._peek() not in ("SELECT", "FROM", "(", "VALUES"):
            raise self._failure("a query")
        text = self._source.text
        try:
            trees = _parsing.parser.parse(list(tokens), text)
        except ParseError as problem:
            raise self._not_sql(problem) from None
        except InvalidOperation:  # sqlglot's own reading of a malformed number
            raise self._source.error("this is not SQL: a malformed number", tokens[0].start) from None
        except RecursionError:
            raise self._source.error("the query is nested too deep", tokens[0].start) from None
        except Exception:  # noqa: BLE001 - sqlglot itself stumbles over some texts that are no SQL
            raise self._source.error("this is not SQL", tokens[0].start) from None
        tree = trees[0]
        assert isinstance(tree, exp.Expr)
        query = QueryText(tree, self._source, tokens[0].start, tokens[-1].end + 1)
        refuse_unsupported(query)
        refuse_unaccounted(query, tokens)
        return query

    def _not_sql(self, problem: ParseError) -> DeclarationError:
        details = problem.errors[0] if problem.errors else {}
        message = str(details.get("description") or problem).split(". Line")[0].rstrip(".")
        message = _INTERNAL.sub("something else", message)
        if "Required keyword" in message:
            message = "something is missing"
        near = details.get("highlight") or ""
        line, column = details.get("line"), details.get("col")
        if line is not None and column is not None:
            column = max(1, column - len(near) + 1)
        where = f" near {near}" if near else ""
        return DeclarationError(f"this is not SQL: {message}{where}", line, column)

    # Tokens

    def _peek(self) -> str:
        """The next token in capitals; empty at the end of the statement or for a quoted name or text."""
        if self._next >= len(self._tokens):
            return ""
        token = self._tokens[self._next]
        quoted = token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
        return "" if quoted else " ".join(self._source.text[token.start : token.end + 1].upper().split())

    def _take(self, word: str) -> bool:
        taken = self._peek() == word
        self._next += taken
        return taken

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._failure(word)

    def _one_of(self, *words: str) -> str:
        for word in words:
            if self._take(word):
                return word
        raise self._failure(" or ".join(words))

    def _new_name(self, what: str) -> Identifier:
        if self._peek() == "IF":
            raise self._refusal("IF NOT EXISTS is not supported yet; leave it out")
        return self._identifier(what)

    def _identifier(self, what: str) -> Identifier:
        token = self._tokens[self._next] if self._next < len(self._tokens) else None
        written = self._source.text[token.start : token.end + 1] if token else ""
        quoted = token is not None and token.token_type == TokenType.IDENTIFIER
        if token is None or not (quoted or written.replace("_", "a").isalnum()) or written[0].isdigit():
            raise self._failure(f"the name of {what}")
        if not token.text:
            raise self._failure(f"the name of {what}, which cannot be empty")
        self._next += 1
        if self._peek() == ".":
            raise self._refusal("a name has one part only; leave out what stands before the dot")
        return Identifier(token.text if quoted else written, self._source.place(token.start))

    def _identifiers(self, what: str) -> tuple[Identifier, ...]:
        self._expect("(")
        names = [self._identifier(what)]
        while self._take(","):
            names.append(self._identifier(what))
        self._expect(")")
        return tuple(names)

    def _whole(self) -> tuple[str, tuple[int, int]]:
        first, last = self._tokens[0], self._tokens[-1]
        return self._source.text[first.start : last.end + 1], self._source.place(first.start)

    def _ended(self, statement: _Some, what: str = "") -> _Some:
        if self._next < len(self._tokens):
            if what:
                raise self._refusal(f"{self._peek() or 'this'} is not supported in {what}; leave it out")
            raise self._failure("the end of the statement")
        return statement

    def _failure(self, message: str, expected: bool = True) -> DeclarationError:
        token = self._tokens[min(self._next, len(self._tokens) - 1)]
        offset = token.start if self._next < len(self._tokens) else token.end + 1
        return self._source.error(f"expected {message}" if expected else message, offset)

    def _refusal(self, message: str) -> DeclarationError:
        token = self._tokens[min(self._next, len(self._tokens) - 1)]
        return self._source.error(message, token.start, NotSupported)
