"""What a PRE-AGGREGATION keeps of its arguments, and aggregates over that."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.model import StateSpec
from viewkeeper.catalog.types import BINARY, Type
from viewkeeper.plans.expressions import TextPlace
from viewkeeper.plans.sums import sum_columns


@stored
@dataclass(frozen=True)
class Running:
    """What a PRE-AGGREGATION keeps of one argument (`argument`: position among the exchange's outputs).

    Always how many are not NULL; `sum`, `smallest`, `greatest` where wanted, and the sums of its `products` with other
    arguments or itself (positions of these).  `ordered` is the state of all values, by group and in order, that MIN and
    MAX are searched in.
    """

    argument: int
    type: Type
    sum: bool
    smallest: bool
    greatest: bool
    ordered: StateSpec | None
    products: tuple[int, ...] = ()

    @property
    def sums(self) -> tuple[Type, ...]:
        """The types of the columns of the sum, if there is one."""
        return sum_columns(self.type) if self.sum else ()

    @property
    def linear(self) -> tuple[Type, ...]:
        """The types of the columns of all that is added up: the sum, then the sums of products."""
        return self.sums + (BINARY,) * len(self.products)


@stored
@dataclass(frozen=True)
class KeptCall:
    """One aggregate: `function` over the PRE-AGGREGATION's `running[argument]` (None: count(*)), of two values also
    over `running[second]`."""

    function: str
    argument: int | None
    type: Type
    place: TextPlace | None
    second: int | None = None
