"""A script's text to statements.  Declarations are read here, token by token; queries by sqlglot."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from sqlglot.tokens import TokenType

from viewkeeper.compiler.parse_streams import QUERY_WORDS, AnyView
from viewkeeper.compiler.parse_tables import TableReader
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.statements import (
    CreateIfAbsent,
    CreateIndex,
    Describe,
    Drop,
    ExplainCreateView,
    ExplainQuery,
    ExplainView,
    ReplaceView,
    SelectStatement,
    Show,
    Statement,
)
from viewkeeper.compiler.syntax import tokenize
from viewkeeper.errors import DeclarationError

EXPLAIN_FORMATS = ("TEXT", "JSON", "MERMAID")

_OTHER_STATEMENTS = {
    "TRUNCATE": "DELETE FROM the table", "REFRESH": "every view is kept up to date by itself",
}  # fmt: skip


def parse_script(text: str, parameters: Mapping[str, object] | None = None) -> list[Statement]:
    """The statements of `text`, which are separated by semicolons; `parameters` are the values of `:name` there.

    Raises DeclarationError where it is no SQL, and NotSupported where it is SQL for which there is no statement here.
    """
    if not isinstance(text, str):
        raise DeclarationError(f"expected SQL text, not {type(text).__name__}")
    if parameters:
        return list(_read(Script(text, parameters)))
    return list(_statements(text))


@lru_cache(maxsize=1)
def _statements(text: str) -> tuple[Statement, ...]:
    """The last script is kept: whoever submits a script of thousands of views has often parsed it a moment before."""
    return _read(Script(text))


def _read(source: Script) -> tuple[Statement, ...]:
    tokens = tokenize(source)
    statements: list[Statement] = []
    first = 0
    for i, token in enumerate([*tokens, None]):
        if token is None or token.token_type == TokenType.SEMICOLON:
            if i > first:
                statements.append(_StatementParser(source, tokens[first:i]).statement())
            first = i + 1
    return tuple(statements)


class _StatementParser(TableReader):
    """Reads the tokens of one statement from left to right."""

    def statement(self) -> Statement:
        word = self._peek()
        if word in QUERY_WORDS:
            return SelectStatement(*self._whole(), *self._select())
        if word == "CREATE":
            made = self._create()
            return made if self._if_absent is None else CreateIfAbsent(*self._whole(), self._if_absent, made)
        if word == "DROP":
            return self._drop()
        if word == "ALTER":
            return self._alter()
        if word == "SHOW":
            self._next += 1
            kind = self._one_of("TABLES", "VIEWS", "STREAMS", "FUNCTIONS")
            return self._ended(Show(*self._whole(), kind))
        if word in ("DESCRIBE", "DESC"):
            self._next += 1
            if self._next + 1 < len(self._tokens):
                self._take("TABLE")
            return self._ended(Describe(*self._whole(), self._identifier("a table, view, index or stream")))
        if word == "EXPLAIN":
            return self._explain()
        if word == "INSERT":
            return self._insert()
        if word == "UPDATE":
            return self._update()
        if word == "DELETE":
            return self._delete()
        if word == "MERGE":
            return self._merge()
        if word == "COMMENT":
            return self._comment()
        if word in _OTHER_STATEMENTS:
            raise self._refusal(f"{word} is not supported yet; {_OTHER_STATEMENTS[word]}")
        raise self._failure(
            "a statement begins with CREATE, ALTER, DROP, COMMENT, INSERT, UPDATE, DELETE, MERGE, SELECT, SHOW, "
            "DESCRIBE or EXPLAIN",
            expected=False,
        )

    # Statements

    def _create(self) -> Statement:
        self._expect("CREATE")
        if self._take("OR"):
            self._expect("REPLACE")
            return self._replace_view()
        if self._peek() in ("TEMPORARY", "TEMP", "GLOBAL", "EXTERNAL", "UNIQUE"):
            raise self._refusal(f"CREATE {self._peek()} is not supported; leave out {self._peek()}")
        if self._take("TABLE"):
            return self._create_table()
        if self._take("INDEX"):
            return self._create_index()
        if self._take("STREAM"):
            return self._create_stream()
        if self._take("MATERIALIZED"):
            self._expect("VIEW")
        elif not self._take("VIEW"):
            raise self._refusal(f"CREATE {self._peek()} is not supported; there are TABLE, VIEW, INDEX and STREAM")
        return self._create_view()

    def _replace_view(self) -> ReplaceView:
        self._take("MATERIALIZED")
        if not self._take("VIEW"):
            raise self._refusal(f"CREATE OR REPLACE {self._peek()} is not supported; there is CREATE OR REPLACE VIEW")
        view = self._create_view(replacing=True)
        if self._if_absent is not None:
            raise self._source.error("this is not SQL: OR REPLACE and IF NOT EXISTS say different things",
                                     self._source.offset(self._if_absent.place))  # fmt: skip
        return ReplaceView(*self._whole(), view)

    def _create_index(self) -> CreateIndex:
        name = self._new_name("an index")
        self._expect("ON")
        on = self._identifier("a table or view")
        return self._ended(CreateIndex(*self._whole(), name, on, self._identifiers("a column")), "CREATE INDEX")

    def _drop(self) -> Drop:
        self._expect("DROP")
        self._take("MATERIALIZED")
        kind = self._one_of("TABLE", "VIEW", "INDEX", "STREAM", "FUNCTION")
        if_exists = self._take("IF")
        if if_exists:
            self._expect("EXISTS")
        name = self._identifier(f"a {kind.lower()}")
        cascade = self._take("CASCADE")
        if not cascade:
            self._take("RESTRICT")
        return self._ended(Drop(*self._whole(), kind, name, if_exists, cascade), "DROP")

    def _explain(self) -> Statement:
        self._expect("EXPLAIN")
        format_ = self._one_of(*EXPLAIN_FORMATS) if self._peek() in EXPLAIN_FORMATS else "TEXT"
        if self._take("VIEW"):
            return self._ended(ExplainView(*self._whole(), self._identifier("a view"), format_))
        text, place = self._whole()
        if self._peek() in QUERY_WORDS and format_ == "TEXT":
            return ExplainQuery(text, place, SelectStatement(text, place, *self._select()))
        if self._peek() != "CREATE":
            kind = "" if format_ == "TEXT" else f"{format_} "
            raise self._refusal(f"EXPLAIN {kind}{self._peek()} is not supported; there are EXPLAIN VIEW and EXPLAIN "
                                "CREATE VIEW, with TEXT, JSON or MERMAID behind EXPLAIN, and EXPLAIN SELECT"
            )  # fmt: skip
        self._tokens, self._next = self._tokens[self._next :], 0
        view = self._create()
        if not isinstance(view, AnyView):
            raise self._failure("only views have a plan to explain", expected=False)
        return ExplainCreateView(text, place, view, format_)
