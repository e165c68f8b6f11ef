"""Text to tokens, and the tokens of a query to its syntax tree, by sqlglot."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from decimal import InvalidOperation
from typing import ClassVar

from sqlglot import exp
from sqlglot import parser as parser_module
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokens import Token, TokenType

from viewkeeper.compiler.calls import AGGREGATES, GENERATORS, SCALARS, aggregate_as_written, as_written, signed
from viewkeeper.compiler.lexing import require_one_reading
from viewkeeper.compiler.source_text import IS_CALL, IS_NOT, QueryText, Script
from viewkeeper.compiler.written_out import written_out
from viewkeeper.errors import DeclarationError, NotSupported


class _Tokenizer(Spark.Tokenizer):
    # SHOW and EXPLAIN are read here, not swallowed whole.
    COMMANDS: ClassVar[set[TokenType]] = set()


_SPECIAL = frozenset(("trim", "position", "substring", "substr", "extract"))
"""Functions that may have words between their arguments; sqlglot reads those."""
_AS_WRITTEN = SCALARS | GENERATORS
_WORDS = frozenset((TokenType.FROM, TokenType.FOR, TokenType.IN))


def _positive(parser: Parser) -> exp.Expr | None:
    operand = parser._parse_unary()
    return None if operand is None else signed(operand)


def _negative(parser: Parser) -> exp.Expr | None:
    first = parser._index
    negated = parser.expression(exp.Neg(this=parser._parse_unary()))
    dot = parser._tokens[first].token_type == TokenType.DOT  # .5 is two tokens
    number, behind = parser._tokens[first + dot], parser._tokens[first + dot + 1 : first + dot + 2]
    if number.token_type != TokenType.NUMBER:
        return negated
    suffixed = bool(behind) and behind[0].token_type == TokenType.DCOLON and behind[0].start == number.start
    return _bound_first(negated, suffixed)


def _bound_first(outer: exp.Expr, suffixed: bool = False) -> exp.Expr:
    """`outer` around the literal that its operand begins with, and what stands behind the literal around both.

    Spark has signs of numbers, and types of texts, for parts of the literal: `-1::STRING`, `DATE '...'::TIMESTAMP`.
    A number that is `suffixed`, 1L, is a cast to sqlglot.
    """
    literal = operand = outer.this
    while isinstance(literal, exp.Expr) and not isinstance(literal, exp.Literal):
        literal = literal.this
    if suffixed and isinstance(literal, exp.Literal):
        literal = literal.parent
    if not isinstance(literal, exp.Expr) or literal is operand:
        return outer
    around = literal.parent
    assert around is not None, "it is the operand, or stands below it"
    operand.pop()
    outer.set("this", literal)
    around.set("this", outer)
    return operand


def _parameter(parser: Parser) -> exp.Expr | None:
    """`:name`, with its place, which sqlglot loses."""
    colon = parser._prev
    parsed: exp.Expr | None = Spark.parser_class.PLACEHOLDER_PARSERS[TokenType.COLON](parser)
    if parsed is not None:
        parsed.meta.update(start=colon.start, end=parser._prev.end)
    return parsed


class _NamedParser(Spark.parser_class):  # type: ignore[misc, valid-type]
    UNARY_PARSERS: ClassVar[dict[TokenType, Callable[[Parser], exp.Expr | None]]] = {
        **Spark.parser_class.UNARY_PARSERS, TokenType.PLUS: _positive, TokenType.DASH: _negative,
    }  # fmt: skip

    PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Callable[[Parser], exp.Expr | None]]] = {
        **Spark.parser_class.PLACEHOLDER_PARSERS, TokenType.COLON: _parameter,
    }  # fmt: skip

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
        # `x IS NOT NULL` and `NOT x IS NULL` are the same tree; Spark names them differently.
        parsed: exp.Expr | None = super()._parse_is(this)
        if isinstance(parsed, exp.Not):
            parsed.meta[IS_NOT] = True
        return parsed

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        typed = self._next is not None and self._next.token_type == TokenType.STRING
        parsed: exp.Expr | None = super()._parse_type(parse_interval, fallback_to_identifier)
        return _bound_first(parsed) if typed and type(parsed) is exp.Cast else parsed

    def _parse_cast(self, strict: bool, safe: bool | None = None) -> exp.Expr:
        parsed: exp.Expr = super()._parse_cast(strict, safe)
        parsed.meta[IS_CALL] = True
        return parsed


class _Parser(_NamedParser):
    """Scalar functions stay as they are written."""

    def _parse_function_call(
        self,
        functions: dict[str, Callable[..., exp.Expr]] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        token, first = self._curr, self._index
        name = "" if token is None or token.token_type == TokenType.IDENTIFIER else token.text.lower()
        if anonymous or name not in _AS_WRITTEN or self._next is None or self._next.token_type != TokenType.L_PAREN:
            return super()._parse_function_call(functions, anonymous, optional_parens, any_token)
        special = name in _SPECIAL
        node = super()._parse_function_call(functions, not special, special, True)
        if node is None:
            return None
        marks = tuple(self._words_between(first + 2)) if special else ()
        return as_written(node, name, self._tokens[first + 2].text, marks) or node

    def _words_between(self, first: int) -> Iterator[TokenType]:
        """The words FROM, FOR and IN among the tokens read since `first`, not counting those in parentheses."""
        depth = 0
        for token in self._tokens[first : self._index]:
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if depth == 0 and token.token_type in _WORDS:
                yield token.token_type


class _AggregateParser(_Parser):
    """All aggregates stay as they are written, too."""

    def _parse_function_call(
        self,
        functions: dict[str, Callable[..., exp.Expr]] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        token = self._curr
        name = "" if token is None or token.token_type == TokenType.IDENTIFIER else token.text.lower()
        if name not in AGGREGATES or self._next is None or self._next.token_type != TokenType.L_PAREN:
            return super()._parse_function_call(functions, anonymous, optional_parens, any_token)
        node = super()._parse_function_call(functions, True, False, any_token)
        return None if node is None else aggregate_as_written(node)


class _FaithfulParser(_NamedParser):
    ADD_JOIN_ON_TRUE = False


class _Parsing(threading.local):
    """Parsers a thread: one that reads two queries at once mixes them up."""

    def __init__(self) -> None:
        self.parser = _Parser(dialect="spark")
        self.aggregates = _AggregateParser(dialect="spark")
        self.faithful = _FaithfulParser(dialect="spark")


def require_source(file: str | None) -> None:
    """Raises ImportError where sqlglot's parser, which has been read from `file`, is a compiled one."""
    if file is not None and not file.endswith((".py", ".pyc")):
        raise ImportError(f"sqlglot is compiled here ({file}), and a compiled parser cannot be given Spark's ways; "
                          "uninstall the package sqlglotc, which sqlglot[c] brings")  # fmt: skip


require_source(parser_module.__file__)
_parsing = _Parsing()
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_OTHER_ARGUMENTS = re.compile("The number of provided arguments")
"""How sqlglot begins where a function takes more arguments in Spark than it knows of."""
_INTERNAL = re.compile(r"<Token .*>")
_AT = re.compile(r"(.*) from \d+:(\d+)")


def tokenize(source: Script) -> list[Token]:
    """The tokens of the whole text; raises DeclarationError where it cannot be cut into any, or Spark reads others."""
    if not source.text.isascii() and (lone := _LONE_SURROGATE.search(source.text)):
        raise source.error("this is not SQL: what stands here is no character", lone.start())
    try:
        tokens = list(_Tokenizer(dialect="spark").tokenize(source.text))
    except TokenError as problem:
        raise _not_tokens(source, problem) from None
    require_one_reading(source, tokens)
    return tokens


def query_tokens(query: QueryText) -> list[Token]:
    """The tokens of a query that has been read, with their places in the whole text."""
    return [token for token in tokenize(query.source) if query.start <= token.start < query.end]


def spark_alone(tokens: Sequence[Token]) -> Token | None:
    """Where something begins that Spark's grammar has and sqlglot's has not: `|>`, `>>>`, `X '1F'` with a blank, texts
    of several kinds side by side, `value:field`, a function named by IDENTIFIER(...), INTERVAL of several units, MAX
    RECURSION LEVEL."""
    subscript = 0
    kinds = [*(token.token_type for token in tokens), None, None]
    for i, token in enumerate(tokens):
        kind, after, third = token.token_type, kinds[i + 1], kinds[i + 2]
        subscript += (kind == TokenType.L_BRACKET) - (kind == TokenType.R_BRACKET)
        if kind == TokenType.PIPE_GT or (kind == after == third == TokenType.GT):
            return token
        if after in _OPENING and kind == TokenType.VAR and (token.text.upper(), after) in _CALLED_SO:
            return token
        field = after == TokenType.COLON and kind in _VALUE_ENDS and third in _FIELD_BEGINS and not subscript
        if field and tokens[i + 1].start == token.end + 1:  # else it may be a parameter
            return tokens[i + 1]
        if (kind, after) in _MIXED_TEXTS or (token.text.upper() == "RECURSION" and after == TokenType.VAR):
            return token
        if kind == TokenType.INTERVAL and kinds[i + 2 : i + 5] == _NEXT_UNIT:
            return token
    return None


_MIXED_TEXTS = {(TokenType.RAW_STRING, TokenType.STRING), (TokenType.STRING, TokenType.RAW_STRING)}
_OPENING = (TokenType.STRING, TokenType.L_PAREN)
_CALLED_SO = {("X", TokenType.STRING), ("IDENTIFIER", TokenType.L_PAREN)}
_VALUE_ENDS = (TokenType.R_PAREN, TokenType.VAR, TokenType.R_BRACKET)
_FIELD_BEGINS = (TokenType.VAR, TokenType.L_BRACKET, TokenType.REF)
_NEXT_UNIT = [TokenType.VAR, TokenType.NUMBER, TokenType.VAR]


def syntax_tree(
    source: Script, tokens: Sequence[Token], faithful: bool = False, aggregates: bool = False
) -> exp.Expr:  # fmt: skip
    """The tree of the query that `tokens` (at least one) are; raises DeclarationError where they are none.

    `faithful`: a join without a condition has none in the tree either; else it has ON TRUE.  `aggregates`: they are
    `AggregateFunction`s.
    """
    if (alone := spark_alone(tokens)) is not None:
        if alone.token_type == TokenType.PIPE_GT:
            raise source.error("|> is not supported; write a subquery in FROM", alone.start, NotSupported)
        raise source.error("this is read by Spark alone, in queries; write it otherwise", alone.start, NotSupported)
    try:
        parser = _parsing.faithful if faithful else _parsing.aggregates if aggregates else _parsing.parser
        trees = parser.parse(list(tokens) if faithful else written_out(tokens), source.text)
    except ParseError as problem:
        raise _not_sql(problem) from None
    except InvalidOperation:  # sqlglot's own reading of a malformed number
        raise source.error("this is not SQL: a malformed number", tokens[0].start) from None
    except RecursionError:
        raise source.error("the query is nested too deep", tokens[0].start) from None
    except Exception:  # noqa: BLE001 - sqlglot itself stumbles over some texts that are no SQL
        raise source.error("this is not SQL", tokens[0].start) from None
    tree = trees[0]
    assert isinstance(tree, exp.Expr)
    return tree


def _not_tokens(source: Script, problem: TokenError) -> DeclarationError:
    """What cannot be cut into words: sqlglot says where the piece at fault begins, but for comments."""
    at = _AT.fullmatch(str(problem.__cause__))
    if at is None:
        return source.error("this is not SQL: a comment that does not end", max(source.text.rfind("/*"), 0))
    return source.error(f"this is not SQL: {at[1]}", int(at[2]))


def _not_sql(problem: ParseError) -> DeclarationError:
    details = problem.errors[0] if problem.errors else {}
    message = str(details.get("description") or problem).split(". Line")[0].rstrip(".")
    message = _INTERNAL.sub("something else", message)
    if "Required keyword" in message:
        message = "something is missing"
    near = details.get("highlight") or ""
    line, column = details.get("line"), details.get("col")
    if line is not None and column is not None:
        column = max(1, column - len(near) + 1)
    if _OTHER_ARGUMENTS.match(message):
        return NotSupported("a function has other arguments here than are known; only Spark can read it", line, column)
    where = f" near {near}" if near else ""
    return DeclarationError(f"this is not SQL: {message}{where}", line, column)
