"""A text with its parameters filled in, as far as they are words: what is read, and runs, in place of what was typed.

Spark's grammar has places where a number, a text or a name stands, and no value: `LIMIT :k` and `GROUP BY :k` mean a
count and a place, `INTERVAL :n DAY` a text, `IDENTIFIER(:t)` a name.  Whole numbers are therefore filled in wherever
they stand, and a `?` becomes `:_n`; all other values stay values (`literals.given`), and get into no text but that of
what is declared, where they are kept as constants.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

import numpy as np

from viewkeeper.catalog.types import STRING
from viewkeeper.compiler import literals
from viewkeeper.compiler.lexing import Lexeme, lexemes, parameters_in
from viewkeeper.compiler.part_references import quoted
from viewkeeper.compiler.source_text import Script, moved
from viewkeeper.compiler.supported import RESERVED
from viewkeeper.errors import DeclarationError, InputError, QueryRaises
from viewkeeper.plans.expressions import TextPlace

_PART = r"(?:`(?:[^`]|``)+`|\w*[^\W\d]\w*)"
_NAME, _PARTS = re.compile(rf"{_PART}(?:\.{_PART})*"), re.compile(_PART)


@dataclass(frozen=True)
class FilledIn:
    """The `text` that stands for what was `typed`, and the values of `:name` in it."""

    typed: str
    text: str
    parameters: Mapping[str, object]
    _edits: Sequence[_Edit] = field(default=(), repr=False)

    @contextmanager
    def told(self) -> Iterator[None]:
        """What is raised within says places in `text`, and behind it places in what was typed."""
        try:
            yield
        except (DeclarationError, QueryRaises) as error:
            if self._edits:
                moved(error, self._place)
            raise

    def _place(self, place: TextPlace) -> TextPlace:
        """Where in what was typed a place in the text is."""
        offset, starts, longer = Script(self.text).offset(place), list[int](), 0
        for edit in self._edits:
            starts.append(edit.start + longer)
            longer += len(edit.words) - (edit.end - edit.start)
        last = bisect_right(starts, offset) - 1
        if last >= 0:
            behind = offset - starts[last] - len(self._edits[last].words)
            offset = self._edits[last].start if behind < 0 else self._edits[last].end + behind
        return Script(self.typed).place(offset)


def filled_in(text: str, args: object = None, named: Mapping[str, object] | None = None) -> FilledIn:
    """`text` with its parameters: `args` are a list of the values of its `?`, or names and values like `named`.

    Raises DeclarationError where they are not those that stand in the text, InputError where `args` is neither.
    """
    if not isinstance(text, str):
        raise DeclarationError(f"expected SQL text, not {type(text).__name__}")
    given = _given(args, named or {})
    if given is None and "identifier" not in text.lower():
        return FilledIn(text, text, {})
    marks = _Marks(text, given)
    edits = list(marks.edits())
    made, done = "", 0
    for edit in edits:
        made += text[done : edit.start] + edit.words
        done = edit.end
    return FilledIn(text, made + text[done:], marks.values, edits)


_Given = Mapping[str, object] | Sequence[object] | None


def _given(args: object, named: Mapping[str, object]) -> _Given:
    if args is None:
        return named or None
    if named:
        raise InputError("parameters are named, or stand in args, a list with the value of each ?: not both")
    if isinstance(args, list | tuple):
        return args
    if isinstance(args, Mapping) and all(isinstance(name, str) for name in args):
        return args
    raise InputError(f"args={args!r}: write a list with the value of each ? in the text, or a dict of names and "
                     "values; a parameter needs another name")  # fmt: skip


@dataclass(frozen=True)
class _Edit:
    """Characters `start` to `end` (exclusive) of the typed text, and the `words` in their place."""

    start: int
    end: int
    words: str


@dataclass(frozen=True)
class _Mark:
    """The parameter `name` in words `first` to `behind` (exclusive)."""

    name: str
    first: int
    behind: int
    value: object


class _Marks:
    """The parameters in `text`, which have the `values`, and calls of IDENTIFIER."""

    def __init__(self, text: str, given: _Given) -> None:
        self._text, self._source, self._words = text, Script(text), list(lexemes(text))
        self._marks = self._named(given or {}) if isinstance(given, Mapping | None) else self._by_place(given)
        self.values = given if isinstance(given, Mapping) else {m.name: m.value for m in self._marks.values()}

    def edits(self) -> Iterator[_Edit]:
        """What is written in place of what, from left to right."""
        i, sampled, declares = 0, 0, False
        while i < len(self._words):
            sampled = self._within("TABLESAMPLE", i, sampled)
            declares = self._declares(i) if self._begins(i) else declares
            called = self._identifier(i) if self._word(i) == "IDENTIFIER" else None
            mark = self._marks.get(i)
            if called is not None:
                yield self._edit(i, called[1], called[0])
                i = called[1]
            elif mark is not None:
                as_text = bool(sampled) or self._word(i - 1) in ("INTERVAL", "ESCAPE")
                try:
                    words = _written(mark.value, as_text, declares)
                except ValueError as reason:
                    at = self._words[i].start
                    raise self._source.error(f"the parameter :{mark.name}: {reason}", at) from None
                yield self._edit(i, mark.behind, f":{mark.name}" if words is None else words)
                i = mark.behind
            else:
                i += 1

    def _within(self, clause: str, i: int, depth: int) -> int:
        """How many parentheses behind the word `clause` are open at word `i`, if `depth` are at the word before."""
        if depth or self._word(i - 1) == clause:
            depth += {"(": 1, ")": -1}.get(self._word(i), 0)
        return depth

    def _begins(self, i: int) -> bool:
        return i == 0 or self._word(i - 1) == ";"

    def _declares(self, i: int) -> bool:
        """Whether the statement that begins with word `i` declares something."""
        words = [self._word(j) for j in range(i, i + 3)]
        return words[0] in ("CREATE", "ALTER") or (words[0] == "EXPLAIN" and "CREATE" in words)

    def _edit(self, first: int, behind: int, words: str) -> _Edit:
        """`words` in place of some, and blanks where they would become one with those around."""
        start, end = self._words[first].start, self._words[behind - 1].end
        before, after = self._text[max(start - 1, 0) : start], self._text[end : end + 1]
        return _Edit(start, end, " " * _joins(before) + words + " " * _joins(after))

    def _word(self, i: int) -> str:
        """Word or sign `i` in capitals; empty where there is none, or it is a text or in backticks."""
        word = self._words[i] if 0 <= i < len(self._words) else None
        return self._text[word.start : word.end].upper() if word and word.kind in ("word", "sign") else ""

    def _name(self, i: int) -> str | None:
        """The name of a parameter that begins with word `i`; `value:field` is none."""
        kind = self._words[i + 1].kind if self._word(i) == ":" and i + 1 < len(self._words) else ""
        if kind not in ("word", "quoted"):
            return None
        before = self._words[i - 1] if i else None
        if before is not None and before.end == self._words[i].start and self._is_value(before, self._word(i - 1)):
            return None
        if kind == "quoted":
            message = "the name of a parameter is a word without backticks here, as in :name"
            raise self._source.error(message, self._words[i].start)
        return self._text[self._words[i + 1].start : self._words[i + 1].end]

    def _is_value(self, ended: Lexeme, word: str) -> bool:
        return word in (")", "]") or (ended.kind in ("word", "quoted") and word not in RESERVED)

    def _by_place(self, values: Sequence[object]) -> dict[int, _Mark]:
        for i in range(len(self._words)):
            if values and (name := self._name(i)) is not None:
                raise self._source.error(f"values are given by place, and :{name} is a parameter by name; write ?",
                                         self._words[i].start)  # fmt: skip
        places = list(self._places())
        if len(values) != len(places):
            at = self._words[places[len(values)]].start if len(values) < len(places) else None
            raise self._source.error(f"the text has {len(places)} ?, and {len(values)} values are given", at)
        for i, value in zip(places, values, strict=True):
            try:
                literals.given(value, "UTC")
            except ValueError as reason:
                raise self._source.error(f"the value of this ?: {reason}", self._words[i].start) from None
        return {i: _Mark(f"_{number}", i, i + 1, value)
                for number, (i, value) in enumerate(zip(places, values, strict=True), 1)}  # fmt: skip

    def _named(self, values: Mapping[str, object]) -> dict[int, _Mark]:
        named = [(i, self._name(i)) for i in range(len(self._words))] if values else []
        standing = parameters_in(self._text)
        for name in values:
            if name not in standing:
                message = f"the parameter {name} is given a value, and :{name} does not stand in the text"
                raise DeclarationError(message)
        for i in self._places() if values else ():
            raise self._source.error("values are given by name, and ? is a parameter by place; write :name",
                                     self._words[i].start)  # fmt: skip
        return {i: _Mark(name, i, i + 2, values[name]) for i, name in named if name is not None and name in values}

    def _places(self) -> Iterator[int]:
        """The words `?`, but for those in a PATTERN, where it means that something may be there or not."""
        depth = 0
        for i in range(len(self._words)):
            depth = self._within("PATTERN", i, depth)
            if not depth and self._word(i) == "?":
                yield i

    def _identifier(self, i: int) -> tuple[str, int] | None:
        """What the IDENTIFIER(...) names that begins with word `i`, and the word behind it; None where that is no text
        as it stands, or a part of a name, which Spark does not take."""
        at, text = i + 2, ""
        if self._word(i - 1) == "." or self._word(i + 1) != "(":
            return None
        while True:
            part = self._text_at(at)
            if part is None:
                return None
            text += part[0]
            at = part[1] + 1
            if self._word(part[1]) == ")":
                break
            if self._word(part[1]) != "||":
                return None
        if self._word(at) == ".":
            return None
        if not _NAME.fullmatch(text):
            message = f"{text!r} is no name; a name that is no word stands in backticks, within the quotes too"
            raise self._source.error(message, self._words[i].start)
        # Before a parenthesis it may be a function's, which is a word like any other.
        is_plain = self._word(at) == "(" and text.isascii() and text.isidentifier()
        return text if is_plain else ".".join(map(_in_backticks, _PARTS.findall(text))), at

    def _text_at(self, i: int) -> tuple[str, int] | None:
        """The text that word `i` begins, and the word behind it."""
        if (mark := self._marks.get(i)) is not None:
            if not isinstance(mark.value, str):
                message = f"IDENTIFIER takes a text, and is given {mark.value!r}"
                raise self._source.error(message, self._words[i].start)
            return mark.value, mark.behind
        word = self._words[i] if i < len(self._words) else None
        if word is None or word.kind not in ("string", "raw"):
            return None
        if word.kind == "raw":
            return self._text[word.start + 2 : word.end - 1], i + 1
        text, pieces = literals.strings(self._text, word.start)
        return text, i + pieces


def _joins(character: str) -> bool:
    return character != "" and (character.isalnum() or character in "_.:-")


def _in_backticks(name: str) -> str:
    return name if name.startswith("`") else quoted(name)


def _written(value: object, as_text: bool, kept: bool) -> str | None:
    """`value` as words that mean the same where it stands, `as_text` where no value can, or `kept` with what is
    declared; None where it is to stay a value."""
    number = value.item() if isinstance(value, np.integer | np.floating) else value
    if as_text and isinstance(number, int | float | Decimal | str):
        is_digits = not isinstance(number, str) and number >= 0
        return f"{Decimal(str(number)):f}" if is_digits else literals.written(STRING, str(number))
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return str(number)
    if not kept:
        return None
    if isinstance(number, datetime) and number.tzinfo is None:
        return f"TIMESTAMP_LTZ '{number.isoformat(sep=' ')}'"  # of the database's zone
    words = literals.written(*literals.given(number, "UTC"))
    return f"({words})" if words.startswith("-") else words
