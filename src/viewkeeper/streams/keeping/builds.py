"""What is built of a view next, as data: found first, then done."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.streams.part_index import Range

JOB_PARTS = 256
"""Parts that one job computes, at most."""


@dataclass(frozen=True)
class Build:
    """The parts `first` to `last`, next to each other.  `computed` are those that must be computed, ascending, each
    with the last of the parts that will be as it is, whatever that is; all others read no rows."""

    first: int
    last: int
    computed: tuple[Range, ...] = ()

    @property
    def parts(self) -> list[int]:
        """Those that must be computed."""
        return [part for part, _ in self.computed]

    @property
    def quiet(self) -> list[Range]:
        """Those that read no rows."""
        starts = [self.first, *(end + 1 for _, end in self.computed)]
        ends = [*(part - 1 for part in self.parts), self.last]
        return [(start, end) for start, end in zip(starts, ends, strict=True) if start <= end]
