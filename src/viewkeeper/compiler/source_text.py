"""Where things stand in the text that a user typed."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from sqlglot import exp

from viewkeeper.errors import DeclarationError, QueryRaises
from viewkeeper.plans.expressions import Expression, TextPlace

IS_NOT = "is_not"
"""The mark in the meta of a syntax tree's NOT that was written `IS NOT`."""


IS_CALL = "is_call"
"""The mark in the meta of a cast that was written `CAST(...)`, and not with `::`."""


UNREAD = exp.Command(this="")
"""In place of the tree of a query that nobody but Spark reads."""

_PLACE = re.compile(r" \(line (\d+), column (\d+)\)")


def moved(error: DeclarationError | QueryRaises, move: Callable[[TextPlace], TextPlace]) -> None:
    """Gives `error` another place, where it says one."""
    at = _PLACE.search(str(error))
    if at is not None:
        line, column = move((int(at[1]), int(at[2])))
        error.args = (_PLACE.sub(f" (line {line}, column {column})", str(error), count=1),)
        if isinstance(error, DeclarationError):
            error.line, error.column = line, column


@dataclass(frozen=True)
class Script:
    """The whole text given to `parse_script`; offsets count characters from 0, places are (line, column) from 1.
    `parameters` are the values of what is written `:name` there."""

    text: str
    parameters: Mapping[str, object] = field(default_factory=dict, hash=False)

    def place(self, offset: int) -> TextPlace:
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def offset(self, place: TextPlace) -> int:
        """The inverse of `place`; what lies beyond the text is its end."""
        line, column = place
        if line > len(self._line_starts):
            return len(self.text)
        return min(self._line_starts[line - 1] + column - 1, len(self.text))

    def error(
        self, message: str, offset: int | None, kind: type[DeclarationError] = DeclarationError
    ) -> DeclarationError:
        """An error pointing at `offset`."""
        return kind(message, *(self.place(offset) if offset is not None else ()))

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(i + 1 for i, character in enumerate(self.text) if character == "\n")]


class CallsTakenOut(Protocol):
    """What `outside_calls` has put names for, in the tree of a query."""

    @property
    def texts(self) -> Mapping[str, object]:
        """The names."""

    def bound(self, query: QueryText, node: exp.Expr, bind: Callable[[exp.Expr], Expression]) -> Expression:
        """What the name `node` stands for; `bind` binds the columns in it."""


@dataclass(frozen=True)
class QueryText:
    """A parsed query: its syntax tree and where it stands in the source (characters `start` to `end`); `outside` are
    the calls that names in the tree stand for, where there are any."""

    tree: exp.Expr
    source: Script
    start: int
    end: int
    outside: CallsTakenOut | None = None

    @property
    def sql(self) -> str:
        return self.source.text[self.start : self.end]

    def place(self, node: exp.Expr) -> TextPlace | None:
        """The place of `node` within this query's own text, so that equal queries have equal places."""
        offset = offset_of(node)
        if offset is None:
            return None
        line, column = self.source.place(offset)
        first_line, first_column = self._first
        return line - first_line + 1, column - first_column + 1 if line == first_line else column

    def error(self, message: str, node: exp.Expr, kind: type[DeclarationError] = DeclarationError) -> DeclarationError:
        """An error pointing at `node` (or at what is nearest to it and has a place) in the whole source."""
        here: exp.Expr | None = node
        while here is not None and offset_of(here) is None:
            here = here.parent
        return self.source.error(message, self.start if here is None else offset_of(here), kind)

    def error_at(self, message: str, place: TextPlace | None) -> DeclarationError:
        """An error pointing at a place that `place` has given."""
        return DeclarationError(message, *self.in_source(place or (1, 1)))

    def in_source(self, place: TextPlace) -> TextPlace:
        """The place in the whole source of one that `place` has given."""
        line, column = place
        first_line, first_column = self._first
        return first_line + line - 1, column + first_column - 1 if line == 1 else column

    @cached_property
    def _first(self) -> TextPlace:
        return self.source.place(self.start)


@contextmanager
def placed(query: QueryText) -> Iterator[None]:
    """A QueryRaises raised within says a place within the text of `query`, and behind it one in the whole source."""
    try:
        yield
    except QueryRaises as error:
        moved(error, query.in_source)
        raise


def offset_of(node: exp.Expr) -> int | None:
    """Where `node` begins: its own position, or else that of the first thing below it that has one."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        own = (here._meta or {}).get("start")
        if own is not None:
            return int(own)
        if isinstance(here, exp.Column):  # sqlglot keeps the name before what stands in front of it
            waiting.append(next(here.args[part] for part in ("catalog", "db", "table", "this") if here.args.get(part)))
        else:
            waiting.extend(reversed(list(here.iter_expressions())))
    return None


def written_name(query: QueryText, node: exp.Expr) -> str:
    """The name of a function as it was typed; of some sqlglot loses it, then it is what stands before the arguments."""
    offset = offset_of(node)
    found = (
        None if offset is None else re.search(r"(\w+)\s*\([\s(]*$", query.source.text[max(0, offset - 200) : offset])
    )
    return raw_text(query.source, node) or (found.group(1) if found else "")


def raw_text(source: Script, node: exp.Expr) -> str:
    """What was typed for a single token (a name, a literal, a function's name); empty where sqlglot lost its place."""
    meta = node._meta or {}
    return source.text[meta["start"] : meta["end"] + 1] if "start" in meta else ""
