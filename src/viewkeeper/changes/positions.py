"""Positions in the logs: what is said of them, a batch's end (`Cut`) and a writer's own writes (`Token`).

What a position is, is said here, and only the functions here count or compare.  A log of the embedded store is called
by its node's number, and a position in it is the sequence of the last operation before it; sequences are dense.  A log
of a table in an outside store is called `<table id>/<part>` (`log_of`); a position in it is a whole number too, which
grows along the log, and what it means is the store's own (docs/decisions/094-outside-stores.md).

Beside a position stands the running hash of the log up to there, in hexadecimal digits: sequences alone come again
where an older copy of the store is put back and written to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import quote, unquote

from viewkeeper.errors import InputError

_Value = TypeVar("_Value")
_PART = re.compile(r"([0-9]+(?:/[^:,]+)?):([0-9]+)(?::([0-9a-f]{32}))?")

LogName = int | str
"""A node of the embedded store, or the log of a table in an outside store."""

Positions = Mapping[LogName, int]
"""A place in all logs; those without one are at their beginning."""

Hashes = Mapping[LogName, str]
"""What tells one log from another that has come in its place: 32 hexadecimal digits a log, those of the running hash at
a position, or of an outside log's identity."""


def log_of(table: int, part: str) -> str:
    """The name of the log `part` of a table in an outside store."""
    return f"{table}/{quote(part, safe='')}"


def logs_of(table: int, by_part: Mapping[str, _Value]) -> dict[LogName, _Value]:
    """What is said of each part of the log of a table in an outside store, by log."""
    return {log_of(table, part): value for part, value in by_part.items()}


def by_part(table: int, by_log: Mapping[LogName, _Value]) -> dict[str, _Value]:
    """The inverse of `logs_of`: what is said of the logs of that table, by part."""
    return {part_of(log): value for log, value in by_log.items() if isinstance(log, str) and table_of(log) == table}


def table_of(log: LogName) -> int | None:
    """The id of the table in an outside store that `log` is of; None for a node."""
    return int(log.partition("/")[0]) if isinstance(log, str) else None


def part_of(log: str) -> str:
    """The inverse of `log_of`, of the part."""
    return unquote(log.partition("/")[2])


def log_name(text: str) -> LogName:
    """The log that `str(log)` gives."""
    return text if "/" in text else int(text)


def of_nodes(by_log: Mapping[LogName, _Value]) -> dict[LogName, _Value]:
    """What is said of the embedded store's logs."""
    return {log: value for log, value in by_log.items() if isinstance(log, int)}


def in_order(logs: Iterable[LogName]) -> list[LogName]:
    """Nodes by their number, then the logs of tables in outside stores."""
    return sorted(logs, key=lambda log: (isinstance(log, str), log if isinstance(log, int) else 0, str(log)))


def is_reached(goal: Positions, at: Positions) -> bool:
    """Whether what lies before `goal` lies before `at`."""
    return all(at.get(node, 0) >= sequence for node, sequence in goal.items())


def operations_between(after: Positions, upto: Positions) -> int:
    """How many operations lie behind `after` and not behind `upto`, about: exact where logs have no gaps."""
    return sum(max(0, sequence - after.get(node, 0)) for node, sequence in upto.items())


def earlier(one: Positions, other: Positions) -> dict[LogName, int]:
    """The greatest positions that both have reached."""
    return {node: min(sequence, other.get(node, 0)) for node, sequence in one.items()}


class LogPlace(Enum):
    """What a log holds at a position: what was read there, something else, nothing yet, or nothing any more."""

    SAME = "same"
    OTHER = "other"
    BEYOND = "beyond"
    TRIMMED = "trimmed"


@dataclass(frozen=True)
class Cut:
    """A range of the logs: what a batch holds.

    It begins behind `after` and ends at `positions`, the last sequences in it; `operations` is their number, `stamp`
    the greatest stamp (microseconds) among the last entries, and `backlog` says that the logs hold more.
    `hashes_after` and `hashes` are the running hashes at both ends; a missing one stands for any.
    """

    positions: dict[LogName, int]
    operations: int
    stamp: int
    backlog: bool
    hashes: dict[LogName, str] = field(default_factory=dict)
    after: Positions = field(default_factory=dict)
    hashes_after: Hashes = field(default_factory=dict)

    @staticmethod
    def between(after: Positions, upto: Positions) -> Cut:
        """All that lies behind `after` up to `upto`, of any log that has ends of entries there."""
        return Cut(dict(upto), operations_between(after, upto), 0, False, after=after)


class Token:
    """The caller's own writes: the greatest sequence written on each node it wrote to, and the running hash there.

    Immutable; `a | b` covers both; `str(token)` travels to other processes and `Token.parse` reads it there.
    """

    __slots__ = ("hashes", "positions")

    def __init__(self, positions: Positions | None = None, hashes: Hashes | None = None) -> None:
        given = positions or {}
        self.positions: Positions = MappingProxyType({log: given[log] for log in in_order(given)})
        self.hashes: Hashes = MappingProxyType(dict(hashes or {}))

    def covered_by(self, positions: Positions) -> bool:
        """Whether everything written is at or before `positions`, in logs that nobody replaced."""
        return is_reached(self.positions, positions)

    def missing(self, positions: Positions) -> str:
        """What of it is not at or before `positions`, in words."""
        return ", ".join(f"{'node' if isinstance(log, int) else 'log'} {log} at {positions.get(log, 0)} of {sequence}"
                         for log, sequence in self.positions.items() if positions.get(log, 0) < sequence)  # fmt: skip

    def __or__(self, other: Token) -> Token:
        positions, hashes = dict(self.positions), dict(self.hashes)
        for node, sequence in other.positions.items():
            if sequence >= positions.get(node, 0):
                positions[node] = sequence
                hashes[node] = other.hashes.get(node, "")
        return Token(positions, {node: hash_ for node, hash_ in hashes.items() if hash_})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token) and (self.positions, self.hashes) == (other.positions, other.hashes)

    def __hash__(self) -> int:
        return hash(tuple(self.positions.items()))

    def __str__(self) -> str:
        parts = ((node, sequence, self.hashes.get(node)) for node, sequence in self.positions.items())
        return ",".join(f"{node}:{sequence}" + (f":{hash_}" if hash_ else "") for node, sequence, hash_ in parts)

    def __repr__(self) -> str:
        return f"Token.parse({str(self)!r})"

    @staticmethod
    def parse(text: str) -> Token:
        """The inverse of `str(token)`; raises InputError on anything else."""
        found = [_PART.fullmatch(part) for part in text.split(",") if part]
        if None in found:
            raise InputError(f"{text!r} is not a token; expected what str() of a put's result gives")
        parts = [match.groups() for match in found if match is not None]
        return Token({log_name(log): int(sequence) for log, sequence, _ in parts},
                     {log_name(log): hash_ for log, _, hash_ in parts if hash_})  # fmt: skip
