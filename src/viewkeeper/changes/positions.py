"""Positions in the logs, `{node: sequence}`: a batch's end (`Cut`) and a writer's own writes (`Token`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from viewkeeper.errors import InputError


@dataclass(frozen=True)
class Cut:
    """Where a batch ends.

    `positions` are the last sequences in it, `operations` their number behind the batch before, `stamp` the greatest
    stamp (microseconds) among the last entries, and `backlog` says that the logs hold more.
    """

    positions: dict[int, int]
    operations: int
    stamp: int
    backlog: bool


class Token:
    """The caller's own writes: the greatest sequence written on each node it wrote to.

    Immutable; `a | b` covers both; `str(token)` travels to other processes and `Token.parse` reads it there.
    """

    __slots__ = ("positions",)

    def __init__(self, positions: Mapping[int, int] | None = None) -> None:
        self.positions = MappingProxyType(dict(sorted((positions or {}).items())))

    def covered_by(self, positions: Mapping[int, int]) -> bool:
        """Whether everything written is at or before `positions`."""
        return all(positions.get(node, 0) >= sequence for node, sequence in self.positions.items())

    def __or__(self, other: Token) -> Token:
        nodes = self.positions.keys() | other.positions.keys()
        return Token({node: max(self.positions.get(node, 0), other.positions.get(node, 0)) for node in nodes})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token) and self.positions == other.positions

    def __hash__(self) -> int:
        return hash(tuple(self.positions.items()))

    def __str__(self) -> str:
        return ",".join(f"{node}:{sequence}" for node, sequence in self.positions.items())

    def __repr__(self) -> str:
        return f"Token.parse({str(self)!r})"

    @staticmethod
    def parse(text: str) -> Token:
        """The inverse of `str(token)`; raises InputError on anything else."""
        try:
            return Token(
                {int(node): int(sequence) for node, sequence in (part.split(":") for part in text.split(",") if part)}
            )
        except ValueError:
            raise InputError(f"{text!r} is not a token; expected what str() of a put's result gives") from None
