"""Lengths of time in declarations: whole seconds, `60 MINUTES`, `INTERVAL '1' HOUR`, `INTERVAL '1 02' DAY TO HOUR`."""

from __future__ import annotations

import re

from sqlglot.tokens import Token, TokenType

from viewkeeper.compiler.token_reader import TokenReader
from viewkeeper.errors import NotSupported

_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": 86_400, "WEEK": 604_800}
UNITS = _UNITS | {f"{unit}S": seconds for unit, seconds in _UNITS.items()}
"""Seconds in each unit of fixed length, as it may be written."""

_NOT_FIXED = ("MONTH", "MONTHS", "YEAR", "YEARS", "QUARTER", "QUARTERS")
_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_PAIR = re.compile(r"\s*([+-]?\d+)\s*([A-Za-z]+)\s*")

GREATEST_SECONDS = 10_000 * 365 * 86_400
"""No length exceeds Spark's calendar; so subscripts and times always fit 64 bits."""


class LengthReader(TokenReader):
    """Reads lengths, too."""

    def _length(self, what: str, least: int = 1) -> int:
        """The seconds of the length that stands next: `what` is for messages."""
        first = self._next
        if self._take("INTERVAL"):
            seconds = self._interval()
        else:
            seconds = self._number_of_seconds()
            seconds *= self._unit(required=False)
        if not least <= seconds <= GREATEST_SECONDS:
            self._next = first
            limits = f"at least {least} second{'s' * (least != 1)}" if seconds < least else "at most 10,000 years"
            raise self._failure(f"{what} is {limits} long", expected=False)
        return seconds

    def _number_of_seconds(self) -> int:
        word = self._peek()
        if not (word.isascii() and word.isdigit()):
            raise self._failure("a length: whole seconds, 60 MINUTES, or an INTERVAL of fixed length")
        return self._number()

    def _unit(self, required: bool) -> int:
        word = self._peek()
        if word in UNITS:
            self._next += 1
            return UNITS[word]
        if word in _NOT_FIXED:
            raise self._refusal(f"a {word.rstrip('S').lower()} has no fixed length; write it in DAYS or WEEKS")
        if required:
            raise self._failure("SECONDS, MINUTES, HOURS, DAYS or WEEKS")
        return 1

    def _interval(self) -> int:
        """What stands behind the word INTERVAL: numbers with units, or one text."""
        token = self._tokens[self._next] if self._next < len(self._tokens) else None
        if token is not None and token.token_type == TokenType.STRING:
            return self._interval_text(token)
        seconds = self._number_of_seconds() * self._unit(required=True)
        while self._peek().isdigit():
            seconds += self._number() * self._unit(required=True)
        return seconds

    def _interval_text(self, token: Token) -> int:
        self._next += 1
        text = token.text.strip()
        unit = self._peek()
        if unit not in UNITS and unit not in _NOT_FIXED:
            return self._pairs(token, text)
        if self._next + 1 < len(self._tokens) and self._word_at(self._next + 1) == "TO":
            return self._fields(token, text)
        seconds = self._unit(required=True)
        if not re.fullmatch(r"[+-]?\d+", text):
            raise self._not_whole(token)
        return int(text) * seconds

    def _pairs(self, token: Token, text: str) -> int:
        """`2 hours 30 minutes`."""
        seconds, at = 0, 0
        while at < len(text):
            pair = _PAIR.match(text, at)
            if pair is None:
                raise self._not_whole(token)
            unit = pair[2].upper()
            if unit in _NOT_FIXED:
                message = f"a {unit.rstrip('S').lower()} has no fixed length; write it in DAYS or WEEKS"
                raise self._source.error(message, token.start, NotSupported)
            if unit not in UNITS:
                raise self._not_whole(token)
            seconds += int(pair[1]) * UNITS[unit]
            at = pair.end()
        if not text:
            raise self._not_whole(token)
        return seconds

    def _fields(self, token: Token, text: str) -> int:
        """`'1 02:03:04' DAY TO SECOND`."""
        first, last = self._word_at(self._next), self._word_at(self._next + 2)
        if first in _NOT_FIXED:
            self._unit(required=True)
        if first not in _FIELDS or last not in _FIELDS or _FIELDS.index(last) <= _FIELDS.index(first):
            raise self._failure("DAY TO SECOND, or a shorter span of DAY, HOUR, MINUTE, SECOND")
        self._next += 3
        fields = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
        shape = "".join((" +" if field == "HOUR" else ":") * (i > 0) + r"(\d+)" for i, field in enumerate(fields))
        found = re.fullmatch(r"([+-]?)" + shape, text)
        if found is None:
            raise self._not_whole(token)
        seconds = sum(int(n) * _UNITS[field] for n, field in zip(found.groups()[1:], fields, strict=True))
        return -seconds if found[1] == "-" else seconds

    def _not_whole(self, token: Token) -> Exception:
        return self._source.error(f"'{token.text}' is not an interval of whole seconds", token.start)

    def _word_at(self, index: int) -> str:
        token = self._tokens[index] if index < len(self._tokens) else None
        return "" if token is None or token.token_type == TokenType.STRING else token.text.upper()
