"""What the program of a generated view is: plain computing on blocks, that knows no files and no Spark.

A program is made from a view's plan, in the driver and again in each task.  Its part j is computed in two steps:

1. `prepare`, for each slice of the source's part j apart, in any order and on any worker: filter, expressions,
   pre-aggregation; it gives each row its group's hash.  Only a `Shuffled` program does that; else the source is itself
   grouped (a helper), and its rows have their hashes already.
2. `advance`, once for each view server, on all prepared rows of its interval of the hash: the new part, from them and
   from parts that it reads.  A view server computes many parts one after another.

For a repair the same is done with the rows of the touched groups alone (by hash; groups of equal hash go together):
what `advance` gives replaces the rows of these hashes, and the others stay.  So `advance` must treat each group apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from viewkeeper.catalog.model import Column
from viewkeeper.plans.references import Input
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.shown import ShownParts

Carry = Literal["none", "part", "row"]
"""Whether `advance` reads what the program itself wrote: not at all; of part j - 1; or of the last part before j in
which the source has rows."""


@dataclass(frozen=True)
class Output:
    """An object that the program writes: the view itself, or one of its helpers."""

    object: int
    columns: tuple[Column, ...]


class Past(Protocol):
    """Parts that `advance` may read: those of its inputs, and what it wrote before, of its own interval (in a repair:
    of the touched hashes) only.  Others are refused as a defect: a repair would not know of them."""

    def read(self, object_: int, part: int) -> Block:
        """The rows of a part; empty where it is empty or before the first."""

    def filled(self, object_: int, low: int, high: int) -> Sequence[int]:
        """The parts from `low` to `high` that may have rows, ascending: a long time without rows costs nothing."""

    def last(self, object_: int) -> Block:
        """With `carry` "row": the rows of the own output `object_` in the last part before j in which the source has
        rows."""


class PartProgram(Protocol):
    """How one generated view is computed.  `inputs[0]` is its source, `outputs[0]` the view.

    Part j is computed where any part that `inputs` name for it has rows; else neither step is called, all helpers are
    empty there, and the view is too, or has the rows `PartWork.empty`.  Values can be pickled and compared.
    """

    @property
    def inputs(self) -> tuple[Input, ...]: ...

    @property
    def optional(self) -> tuple[Input, ...]:
        """Read too, but may lie before the first part: they do not move the initial subscript."""

    @property
    def outputs(self) -> tuple[Output, ...]: ...

    @property
    def carry(self) -> Carry: ...

    @property
    def dimensions(self) -> tuple[int, ...]: ...

    @property
    def is_timed(self) -> bool:
        """Whether its rows differ by the part of which the rows that it reads are."""

    def empty_rows(self) -> Block | None:
        """The rows of a part for which no input names rows; None where there are none."""

    def advance(self, part: int, rows: Block, past: Past) -> Mapping[int, Block]:
        """The rows of each output's part, by object id (none given: empty)."""

    def text(self, shown: ShownParts) -> Iterable[str]:
        """What it does, for people, a line for each fact."""


class Shuffled(ABC):
    """What a program is besides whose source has no groups: its rows are prepared, and go to the view servers of their
    groups.  The source of any other is itself grouped."""

    @abstractmethod
    def prepared_columns(self) -> tuple[Column, ...]:
        """The shape of what `prepare` gives."""

    @abstractmethod
    def prepare(self, part: int, rows: Block, dimensions: Mapping[int, Block]) -> Block:
        """A slice of the source's part in the source's declared columns; dimension tables whole, by id, in declared
        columns.  Raises ViewBroken, which names the place, where an expression raises."""


class OfRows:
    """A program whose parts follow from the rows alone: part numbers say nothing, and no rows give none."""

    is_timed = False

    def empty_rows(self) -> Block | None:
        """None."""
        return None


Wanted = Callable[[np.ndarray], np.ndarray]
"""Of hashes (uint64[n]) which are wanted (bool[n])."""


@runtime_checkable
class Dividing(Protocol):
    """What a `Shuffled` program may be besides: it can prepare some groups for less than all."""

    def prepare_some(self, part: int, rows: Block, dimensions: Mapping[int, Block], wanted: Wanted) -> Block:
        """What `prepare` gives, of groups whose hash is wanted."""
