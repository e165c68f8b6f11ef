"""Reading a statement token by token: words, names, types, and what is said where something else stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from sqlglot.tokens import Token, TokenType

from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECLARED_TEXTS,
    DOUBLE,
    FLOAT,
    INT,
    INTERVALS,
    MAX_PRECISION,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    array_of,
    as_held,
    decimal,
    map_of,
    struct_of,
)  # fmt: skip
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.statements import ColumnDeclaration, Identifier, Statement
from viewkeeper.compiler.syntax import tokenize
from viewkeeper.errors import DeclarationError, NotSupported

_Some = TypeVar("_Some", bound=Statement)

_TYPES = {
    "BOOLEAN": BOOLEAN, "TINYINT": TINYINT, "BYTE": TINYINT, "SMALLINT": SMALLINT, "SHORT": SMALLINT, "INT": INT,
    "INTEGER": INT, "BIGINT": BIGINT, "LONG": BIGINT, "FLOAT": FLOAT, "REAL": FLOAT, "DOUBLE": DOUBLE,
    "STRING": STRING, "BINARY": BINARY, "DATE": DATE, "TIMESTAMP": TIMESTAMP, "TIMESTAMP_LTZ": TIMESTAMP,
    "TIMESTAMP_NTZ": TIMESTAMP_NTZ,
}  # fmt: skip
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_OTHER_TYPES = {
    "VARCHAR": "use STRING (VARCHAR(n) is a type of columns)", "CHAR": "use STRING (CHAR(n) is a type of columns)",
    "TEXT": "use STRING", "DATETIME": "use TIMESTAMP",
    "VARIANT": "it is not supported yet",
}  # fmt: skip


def read_type(text: str) -> Type:
    """The type that `text` is, as `str` writes it."""
    source = Script(text)
    return TokenReader(source, tokenize(source))._type()


class TokenReader:
    """Reads the tokens of one statement from left to right."""

    def __init__(self, source: Script, tokens: Sequence[Token]) -> None:
        self._source, self._tokens, self._next = source, tokens, 0
        self._if_absent: Identifier | None = None
        self._texts: tuple[str, ...] = ()

    def _column(self) -> ColumnDeclaration:
        name = self._identifier("a column")
        type_, declared = self._declared_type()
        return self._nullability(ColumnDeclaration(name, type_, True, declared=declared))

    def _nullability(self, column: ColumnDeclaration) -> ColumnDeclaration:
        if self._take("NOT"):
            self._expect("NULL")
            return replace(column, nullable=False)
        if self._peek() not in ("", ",", ")", "PRIMARY KEY"):
            raise self._refusal(f"{self._peek()} is not supported in a column of a stream; there is NOT NULL")
        return column

    def _declared_type(self) -> tuple[Type, Type | None]:
        """The type of a column, and as it is declared where it says how long texts are (`Column.declared`)."""
        self._texts = DECLARED_TEXTS
        declared = self._type()
        self._texts = ()
        held = as_held(declared)
        return held, None if held == declared else declared

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
        if (name := "CHAR" if word == "CHARACTER" else word) in self._texts:
            return self._text_type(name)
        if word in ("ARRAY", "MAP", "STRUCT"):
            return self._nested(word)
        if word == "INTERVAL":
            return self._interval_type()
        self._next -= 1
        if token is None or word in (",", ")", "NOT"):
            raise self._failure("a type")
        known = ", ".join(dict.fromkeys(map(str, _TYPES.values())))
        advice = _OTHER_TYPES.get(word, f"there are {known}, DECIMAL, INTERVAL, ARRAY, MAP and STRUCT")
        raise self._refusal(f"the type {token.text} is not supported; {advice}")

    def _text_type(self, name: str) -> Type:
        self._expect("(")
        length = self._number()
        if length < 1:
            self._next -= 1
            raise self._failure(f"{name}({length}): the length is at least 1", expected=False)
        self._expect(")")
        return Type(name, length)

    def _nested(self, word: str) -> Type:
        self._expect("<")
        if word == "STRUCT":
            type_ = struct_of(self._struct_fields())
        elif word == "ARRAY":
            type_ = array_of(self._type())
        else:
            key = self._type()
            if key.has_map:
                self._next -= 1
                raise self._failure(f"the key of a map cannot be of type {key}", expected=False)
            self._expect(",")
            type_ = map_of(key, self._type())
        self._expect(">")
        return type_

    def _struct_fields(self) -> list[tuple[str, Type]]:
        fields: list[tuple[str, Type]] = []
        while not fields or self._take(","):
            name = self._identifier("a field").name
            if any(name.lower() == other.lower() for other, _ in fields):
                self._next -= 1
                raise self._failure(f"two fields are called {name}", expected=False)
            self._take(":")
            fields.append((name, self._type()))
        return fields

    def _interval_type(self) -> Type:
        start, last = self._next, self._peek()
        self._next += 1
        if self._take("TO"):
            last = f"{last} TO {self._peek()}"
            self._next += 1
        if f"INTERVAL {last}" not in INTERVALS:
            self._next = start
            raise self._failure("the fields of the interval, one of YEAR TO MONTH, or first and last of DAY, HOUR, "
                                "MINUTE, SECOND, as in INTERVAL DAY TO SECOND")  # fmt: skip
        return Type(f"INTERVAL {last}")

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
        """The name of what is created; where IF NOT EXISTS stands before it, `_if_absent` is it too."""
        absent = self._take("IF")
        if absent:
            self._expect("NOT")
            self._expect("EXISTS")
        name = self._identifier(what)
        self._if_absent = name if absent else None
        return name

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
