"""Reads MATCH_RECOGNIZE ( ... ), which sqlglot's Spark dialect does not know, token by token; nothing is passed over.

Expressions stay tokens here: `expressions.py` reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokens import Token

from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.statements import Identifier
from viewkeeper.compiler.syntax import query_tokens
from viewkeeper.compiler.token_reader import TokenReader
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import TextPlace
from viewkeeper.streams.recognize.automaton import MOST_POSITIONS

Tokens = tuple[Token, ...]


@dataclass(frozen=True)
class OrderItem:
    """A column in ORDER BY; NULLs stand first where ascending, as in Spark, if nothing else is said."""

    column: Identifier
    ascending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Quantified:
    """A variable in PATTERN with how many rows it takes (`most` None: any number)."""

    variable: Identifier
    least: int
    most: int | None


@dataclass(frozen=True)
class MatchClause:
    """`outer` are the query's tokens without the clause, `place` is where the clause begins."""

    outer: Tokens
    source: Identifier
    place: TextPlace
    partition: tuple[Identifier, ...]
    order: tuple[OrderItem, ...]
    measures: tuple[tuple[Identifier, Tokens], ...]
    past: bool
    elements: tuple[Quantified, ...]
    definitions: tuple[tuple[Identifier, Tokens], ...]


def read_clause(query: QueryText) -> MatchClause:
    """The clause in `query`; raises DeclarationError, or NotSupported for what is not kept, with its place."""
    return _ClauseReader(query, query_tokens(query)).clause()


_SKIPS = "AFTER MATCH SKIP TO {} is not supported; there are PAST LAST ROW and TO NEXT ROW"
_ALTERNATION = (
    "| (one or the other) is not supported in PATTERN; use one variable with OR in its condition, or a view for each"
)
_GROUPED = (
    "a quantifier behind parentheses is not supported in PATTERN; write the variables out as often as they may stand"
)
_EXCLUSION = "{- -} is not supported in PATTERN; leave out of MEASURES what is not wanted"
_RELUCTANT = (
    "a reluctant quantifier ({}?) is not supported; leave out the ?, and let the variables' conditions exclude each "
    "other"
)
_ENDS = (
    "the pattern ends in {}, which takes as many rows as it can: how many is not decided until the next row of the "
    "partition comes, and that may never be; end with a variable that takes one row, such as one for the row behind"
)


_NEXT_CLAUSE = {"ONE": "ROW", "ALL": "ROWS", "AFTER": "MATCH", "PATTERN": "("}
"""Words by which a clause behind MEASURES begins, and what stands behind them."""


class _ClauseReader(TokenReader):
    def __init__(self, query: QueryText, tokens: Sequence[Token]) -> None:
        super().__init__(query.source, tokens)
        self._query = query

    def clause(self) -> MatchClause:
        first, name = self._begin()
        self._expect("(")
        partition = self._names() if self._take("PARTITION BY") else ()
        if self._peek() != "ORDER BY":
            raise self._failure("ORDER BY and the stream's time")
        self._next += 1
        order = self._order()
        measures = self._measures() if self._take("MEASURES") else ()
        self._rows_per_match()
        past = self._skip()
        if self._peek() != "PATTERN":
            self._refuse_other()
        self._expect("PATTERN")
        elements = self._pattern()
        if self._peek() in ("SUBSET", "WITHIN"):
            raise self._refusal(f"{self._peek()} is not supported in MATCH_RECOGNIZE; leave it out")
        definitions = self._definitions() if self._take("DEFINE") else ()
        self._expect(")")
        outer = (*self._tokens[:first], *self._tokens[self._next :])
        while self._next < len(self._tokens):
            if self._peek() == "MATCH_RECOGNIZE":
                raise self._refusal("a query has one MATCH_RECOGNIZE; make a view of each")
            self._next += 1
        place = self._source.place(self._tokens[first].start)
        return MatchClause(outer, name, place, partition, order, measures, past, elements, definitions)

    def _begin(self) -> tuple[int, Identifier]:
        """The number of the token MATCH_RECOGNIZE, which is read, and the name before it."""
        while self._peek() != "MATCH_RECOGNIZE":
            if self._next == len(self._tokens):
                raise self._query.error("there is no MATCH_RECOGNIZE in the query", self._query.tree)
            self._next += 1
        first = self._next
        self._next = max(0, first - 2)
        if not self._take("FROM"):
            self._next = first
            raise self._refusal("MATCH_RECOGNIZE stands behind FROM and the name of one stream or view")
        name = self._identifier("a stream or view")
        self._next = first + 1
        return first, name

    def _names(self) -> tuple[Identifier, ...]:
        names = [self._identifier("a column")]
        while self._take(","):
            names.append(self._identifier("a column"))
        return tuple(names)

    def _order(self) -> tuple[OrderItem, ...]:
        items = []
        while True:
            column = self._identifier("a column")
            ascending = not self._take("DESC")
            if ascending:
                self._take("ASC")
            nulls_first = ascending
            if self._take("NULLS"):
                nulls_first = self._one_of("FIRST", "LAST") == "FIRST"
            items.append(OrderItem(column, ascending, nulls_first))
            if not self._take(","):
                return tuple(items)

    def _measures(self) -> tuple[tuple[Identifier, Tokens], ...]:
        measures = []
        while True:
            tokens = self._expression(("AS", ","))
            if self._peek() != "AS":
                raise self._failure("AS and the measure's name")
            self._next += 1
            measures.append((self._identifier("a measure"), tokens))
            if not self._take(","):
                return tuple(measures)

    def _definitions(self) -> tuple[tuple[Identifier, Tokens], ...]:
        definitions = []
        while True:
            variable = self._identifier("a variable of PATTERN")
            if self._peek() != "AS":
                raise self._failure("AS and the variable's condition")
            self._next += 1
            definitions.append((variable, self._expression((",",))))
            if not self._take(","):
                return tuple(definitions)

    def _expression(self, ends: tuple[str, ...]) -> Tokens:
        """The tokens up to one of `ends` or a closing parenthesis that is not opened among them."""
        first, depth = self._next, 0
        while self._next < len(self._tokens):
            word = self._peek()
            if depth == 0 and (word in ends or word == ")" or self._begins_clause(word)):
                break
            depth += (word == "(") - (word == ")")
            self._next += 1
        if self._next == first:
            raise self._failure("an expression")
        return tuple(self._tokens[first : self._next])

    def _begins_clause(self, word: str) -> bool:
        """Whether the next clause begins: its words may be names of columns elsewhere."""
        if word not in _NEXT_CLAUSE:
            return False
        self._next += 1
        begins = self._peek() == _NEXT_CLAUSE[word]
        self._next -= 1
        return begins

    def _rows_per_match(self) -> None:
        if self._peek() == "ALL":
            raise self._refusal("ALL ROWS PER MATCH is not supported; there is ONE ROW PER MATCH, with MEASURES")
        if self._take("ONE"):
            for word in ("ROW", "PER", "MATCH"):
                self._expect(word)

    def _skip(self) -> bool:
        if not self._take("AFTER"):
            return True
        self._expect("MATCH")
        self._expect("SKIP")
        if self._take("PAST"):
            self._expect("LAST")
            self._expect("ROW")
            return True
        self._expect("TO")
        if self._peek() != "NEXT":
            raise self._refusal(_SKIPS.format(self._peek() or "a variable"))
        self._next += 1
        self._expect("ROW")
        return False

    def _refuse_other(self) -> None:
        word = self._peek()
        if word in ("INITIAL", "SEEK", "SUBSET", "WITHIN", "SHOW", "OMIT", "RUNNING", "FINAL"):
            raise self._refusal(f"{word} is not supported in MATCH_RECOGNIZE; leave it out")
        if word in ("PARTITION BY", "ORDER BY", "MEASURES", "ONE", "ALL", "AFTER", "DEFINE"):
            order = "PARTITION BY, ORDER BY, MEASURES, ONE ROW PER MATCH, AFTER MATCH SKIP, PATTERN, DEFINE"
            raise self._failure(f"{word} is out of place; the order is {order}", expected=False)

    # PATTERN

    def _pattern(self) -> tuple[Quantified, ...]:
        elements: list[Quantified] = []
        first = self._next
        self._group(elements)
        places = sum(e.least if e.most is None and e.least else e.most or 1 for e in elements)
        if places > MOST_POSITIONS:
            self._next = first
            raise self._refusal(f"PATTERN is {places} variables long with {{n,m}} written out; at most "
                                f"{MOST_POSITIONS} are kept")  # fmt: skip
        if not any(e.least for e in elements):
            self._next = first
            raise self._refusal("the pattern can match without any row; at least one variable must take a row")
        last = elements[-1]
        if last.least != last.most:
            raise NotSupported(_ENDS.format(_written(last)), *last.variable.place)
        return tuple(elements)

    def _group(self, elements: list[Quantified]) -> None:
        self._expect("(")
        if self._peek() == ")":
            raise self._failure("a variable; a pattern without any can match without a row", expected=False)
        while not self._take(")"):
            word = self._peek()
            if word == "(":
                self._group(elements)
                if self._peek() in ("*", "+", "?", "{"):
                    raise self._refusal(_GROUPED)
            elif word in ("|", "||"):
                raise self._refusal(_ALTERNATION)
            elif word in ("^", "$"):
                raise self._refusal(f"{word} is not supported in PATTERN: a stream has no fixed first or last row")
            elif word == "{":
                raise self._refusal(_EXCLUSION)
            else:
                self._element(elements)

    def _element(self, elements: list[Quantified]) -> None:
        variable = self._identifier("a variable of the pattern")
        if self._peek() == "(":
            self._next -= 1
            raise self._refusal(f"{variable} (...) is not supported in PATTERN; write the variables out in order")
        least: int = 1
        most: int | None = 1
        start = self._next
        sign = self._peek()
        if sign in ("*", "+", "?", "??"):
            self._next += 1
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1), "??": (0, 1)}[sign]
        elif self._take("{"):
            least, most = self._times()
        if sign == "??" or (self._next > start and self._peek() == "?"):
            self._next -= sign == "??"
            raise self._refusal(_RELUCTANT.format("{n,m}" if sign == "{" else sign[0]))
        if self._next > start and self._peek() in ("*", "+", "{"):
            raise self._failure("one quantifier for each variable", expected=False)
        elements.append(Quantified(variable, least, most))

    def _times(self) -> tuple[int, int | None]:
        first = self._next
        if self._peek() == "-":
            raise self._refusal(_EXCLUSION)
        least = self._number() if self._peek() != "," else 0
        most: int | None = least
        if self._take(","):
            most = self._number() if self._peek() != "}" else None
        self._expect("}")
        if most is not None and not max(1, least) <= most:
            self._next = first
            raise self._failure("{n,m} takes n to m rows: m is at least 1 and at least n", expected=False)
        return least, most


def _written(element: Quantified) -> str:
    signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    most = "" if element.most is None else element.most
    return f"{element.variable}{signs.get((element.least, element.most), f'{{{element.least},{most}}}')}"
