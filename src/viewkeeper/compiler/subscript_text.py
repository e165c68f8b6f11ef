"""The text between the brackets of a part reference: linear integer arithmetic over the view's own variable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import gcd

from viewkeeper.compiler.source_text import Script
from viewkeeper.errors import NotSupported
from viewkeeper.plans.references import Subscript

_TOKEN = re.compile(
    r"(?P<skip>\s+|--[^\n]*|/\*.*?\*/)|(?P<number>\d+)|(?P<range>\.\.)|(?P<name>[^\W\d]\w*)|(?P<sign>[-+*()])", re.S
)
_GREATEST = 2**53
"""Constants beyond it would leave 64 bits when multiplied with a subscript."""


@dataclass(frozen=True)
class _Linear:
    """floor((factor * j + offset) / divisor); `divisor` is 1 where the factor is 0."""

    factor: int
    offset: int
    divisor: int = 1

    @property
    def is_constant(self) -> bool:
        return self.factor == 0

    def reduced(self) -> _Linear:
        """The same function, with the least divisor."""
        if self.is_constant:
            return _Linear(0, self.offset // self.divisor)
        common = gcd(self.factor, self.divisor)
        return _Linear(self.factor // common, self.offset // common, self.divisor // common)


@dataclass(frozen=True)
class _Piece:
    kind: str
    text: str
    at: int


def read_subscript(source: Script, start: int, end: int, variable: str | None) -> tuple[Subscript, Subscript]:
    """The lowest and the highest part that `source.text[start:end]` names: one subscript, or two with `..` between.

    `variable` is the view's own (in any case of letters); None: only constants are admitted.  Raises DeclarationError
    or NotSupported at the place of what is no such subscript.
    """
    reader = _Reader(source, start, end, variable)
    low = high = reader.sum()
    if reader.take(".."):
        high = reader.sum()
    reader.end()
    for side in (low, high):
        if side.factor < 0:
            raise source.error(
                f"a subscript that falls while {variable} rises is not supported; {variable} has a factor of at least "
                "0 in it", start, NotSupported,
            )  # fmt: skip
        if max(side.factor, abs(side.offset), side.divisor) > _GREATEST:
            raise source.error(f"a number beyond {_GREATEST} cannot stand in a subscript", start, NotSupported)
    if (low.factor, low.divisor) == (high.factor, high.divisor) and low.offset > high.offset:
        raise source.error("the range names no part: its end lies before its beginning", start)
    return _subscript(low), _subscript(high)


def _subscript(linear: _Linear) -> Subscript:
    return Subscript(linear.factor, linear.offset, linear.divisor)


class _Reader:
    """Sums of products of factors, from left to right, as SQL reads them."""

    def __init__(self, source: Script, start: int, end: int, variable: str | None) -> None:
        self._source, self._variable, self._end = source, variable, end
        self._pieces = list(self._cut(start, end))
        self._next = 0

    def _cut(self, at: int, end: int) -> list[_Piece]:
        pieces = []
        while at < end:
            found = _TOKEN.match(self._source.text, at, end)
            if found is None:
                raise self._source.error(f"{self._source.text[at]} cannot stand in a subscript; {_ADMITTED}", at,
                                         NotSupported)  # fmt: skip
            if found.lastgroup != "skip":
                pieces.append(_Piece(str(found.lastgroup), found[0], at))
            at = found.end()
        return pieces

    def take(self, text: str) -> bool:
        taken = self._peek() == text
        self._next += taken
        return taken

    def sum(self) -> _Linear:
        left = self._product()
        while self._peek() in ("+", "-"):
            at, minus = self._at(), self._peek() == "-"
            self._next += 1
            right = self._product()
            left = self._added(left, self._times(right, -1, at) if minus else right, at)
        return left

    def end(self) -> None:
        """Refuses whatever is left."""
        if self._next < len(self._pieces):
            raise self._source.error(f"{self._pieces[self._next].text} is out of place in a subscript; {_ADMITTED}",
                                     self._at())  # fmt: skip

    def _product(self) -> _Linear:
        left = self._factor()
        while self._peek() in ("*", "DIV"):
            at, times = self._at(), self._peek() == "*"
            self._next += 1
            right = self._factor()
            left = self._multiplied(left, right, at) if times else self._divided(left, right, at)
        return left

    def _factor(self) -> _Linear:
        at, word = self._at(), self._peek()
        if word in ("-", "+"):
            self._next += 1
            inner = self._factor()
            return self._times(inner, -1, at) if word == "-" else inner
        if word == "(":
            self._next += 1
            inner = self.sum()
            if not self.take(")"):
                raise self._source.error("expected ) in the subscript", self._at())
            return inner
        if self._next >= len(self._pieces):
            raise self._source.error(f"expected a subscript: {_ADMITTED}", at)
        piece = self._pieces[self._next]
        self._next += 1
        if piece.kind == "number":
            return _Linear(0, int(piece.text))
        if piece.kind == "name" and self._variable is not None and word == self._variable.upper():
            return _Linear(1, 0)
        if piece.kind == "name" and word != "DIV":
            there = f"only {self._variable} can" if self._variable else "only constants can"
            raise self._source.error(f"{piece.text} cannot stand in a subscript; {there}", at)
        raise self._source.error(f"{piece.text} is out of place in a subscript; {_ADMITTED}", at)

    def _added(self, left: _Linear, right: _Linear, at: int) -> _Linear:
        if left.is_constant:
            left, right = right, left
        if right.is_constant:
            return _Linear(left.factor, left.offset + right.offset * left.divisor, left.divisor)
        if left.divisor != 1 or right.divisor != 1:
            raise self._source.error("a sum with a DIV in it and another part that depends on "
                                     f"{self._variable} is not supported", at, NotSupported)  # fmt: skip
        return _Linear(left.factor + right.factor, left.offset + right.offset).reduced()

    def _multiplied(self, left: _Linear, right: _Linear, at: int) -> _Linear:
        if left.is_constant:
            left, right = right, left
        if not right.is_constant:
            raise self._source.error(f"{self._variable} times {self._variable} is not supported; {_ADMITTED}", at,
                                     NotSupported)  # fmt: skip
        return self._times(left, right.offset, at)

    def _times(self, value: _Linear, factor: int, at: int) -> _Linear:
        if value.divisor != 1 and factor not in (0, 1):
            raise self._source.error("a multiple of a DIV is not supported", at, NotSupported)
        return _Linear(value.factor * factor, value.offset * factor, value.divisor).reduced()

    def _divided(self, left: _Linear, right: _Linear, at: int) -> _Linear:
        if not right.is_constant or right.offset < 1:
            raise self._source.error("DIV takes a constant of at least 1 in a subscript", at, NotSupported)
        return _Linear(left.factor, left.offset, left.divisor * right.offset).reduced()

    def _peek(self) -> str:
        return self._pieces[self._next].text.upper() if self._next < len(self._pieces) else ""

    def _at(self) -> int:
        return self._pieces[self._next].at if self._next < len(self._pieces) else self._end


_ADMITTED = "there are whole numbers, the view's variable, +, -, *, DIV and parentheses"
