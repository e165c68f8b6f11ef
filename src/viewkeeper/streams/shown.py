"""What a program says of itself, for people: what it needs to know for that of what stands around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from viewkeeper.plans.references import Input, parts_text

KnownSizes = Callable[[int, Sequence[int]], tuple[float, float] | None]
"""(id, positions of columns) to about how many rows, and how many different values of the columns, a part of a stream
or view holds; None: that is not known."""


@dataclass(frozen=True)
class ShownParts:
    """What things are called, by id; about how large they are; and the seconds that a part of each took lately, as far
    as they are known."""

    names: Mapping[int, str]
    sizes: KnownSizes
    measured: Mapping[int, float]

    def name(self, id_: int) -> str:
        """What people call a stream, a view or a helper."""
        return self.names.get(id_, f"object {id_}")

    def parts(self, input_: Input) -> str:
        """Parts that are read."""
        return parts_text(self.name(input_.object), input_.low, input_.high)
