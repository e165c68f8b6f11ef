"""What is computed of all rows of a key (`maintenance.ByKey`).  Plain data, part of the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.types import Type
from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.raising import call_can_raise
from viewkeeper.plans.relations import Order, OverCall
from viewkeeper.plans.text import expression_text


@stored
@dataclass(frozen=True)
class KeyFunction:
    """A function of all rows of a key: the root of all.  `why` says why it takes all of them."""

    why: ClassVar[str]

    def text(self, inputs: Sequence[str]) -> str:
        """What it does to inputs that are called so, for people."""
        raise NotImplementedError


@stored
@dataclass(frozen=True)
class OuterJoinRows(KeyFunction):
    """LEFT, RIGHT, FULL, SEMI or ANTI join of two inputs.  `condition` is over the columns `tested`; these and
    `outputs` are (side, position in its state), the outputs of SEMI and ANTI all of side 0."""

    kind: str
    condition: Expression | None
    tested: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]

    why = "more than the key decides what matches"

    def text(self, inputs: Sequence[str]) -> str:
        where = f" where {expression_text(self.condition)}" if self.condition is not None else ""
        return f"{self.kind} JOIN of {' with '.join(inputs)}{where}"


@stored
@dataclass(frozen=True)
class OrderedBy:
    """One term of an order: a position in a state."""

    position: int
    ascending: bool
    nulls_first: bool


@stored
@dataclass(frozen=True)
class FirstRows(KeyFunction):
    """Of the rows of each key, in the order of `terms`, those behind the first `offset`, `limit` of them (None: all);
    `outputs` are positions in the state."""

    terms: tuple[OrderedBy, ...]
    limit: int | None
    offset: int
    outputs: tuple[int, ...]

    why = "which rows come first depends on all of them"

    def text(self, inputs: Sequence[str]) -> str:
        behind = f" behind the first {self.offset:,}" if self.offset else ""
        return f"{'all' if self.limit is None else f'the first {self.limit:,}'} rows of {inputs[0]}{behind}, in order"


@stored
@dataclass(frozen=True)
class WindowRows(KeyFunction):
    """Each row of the key with the values of window functions behind its columns `outputs`; positions in `outputs` and
    `calls` are those of the state.  With `first`, (number of a call, n), only rows for which the call is at most n."""

    outputs: tuple[int, ...]
    calls: tuple[OverCall, ...]
    first: tuple[int, int] | None

    why = "what stands around a row depends on all of them"

    def text(self, inputs: Sequence[str]) -> str:
        names = ", ".join(dict.fromkeys(call.function for call in self.calls))
        first = "" if self.first is None else f", where {self.calls[self.first[0]].function} <= {self.first[1]:,}"
        return f"{names} over the rows of {inputs[0]}, in order{first}"


@stored
@dataclass(frozen=True)
class ValueCall:
    """An aggregate of all values of a group (`plans.value_functions`): its argument's position in the state, and its
    type."""

    function: str
    argument: int
    of: Type


@stored
@dataclass(frozen=True)
class ValuesOfGroup(KeyFunction):
    """The rows of one GROUP BY: the keys (positions in the state), then `calls`."""

    keys: tuple[int, ...]
    calls: tuple[ValueCall, ...]

    why = "what stands where in their order depends on all of them"

    def text(self, inputs: Sequence[str]) -> str:
        return f"{', '.join(dict.fromkeys(call.function for call in self.calls))} of the values of {inputs[0]}"


def placed_call(call: OverCall, at: Mapping[int, int]) -> OverCall:
    """`call` over a state that holds the input's column i at `at[i]`.  Its place counts where it could raise, only."""

    def moved(order: tuple[Order, ...]) -> tuple[Order, ...]:
        return tuple(replace(term, index=at[term.index]) for term in order)

    place = call.place if call_can_raise(call) else None
    arguments = tuple(at[i] for i in call.arguments)
    low, high = (None if bound is None else at[bound] for bound in call.bounds)
    order, ties = moved(call.order), moved(call.ties)
    return replace(call, arguments=arguments, order=order, ties=ties, bounds=(low, high), place=place)
