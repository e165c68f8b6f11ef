"""What a written file holds, as plain data: it travels from tasks to the driver and into manifests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class RunRef:
    """One run: section `section` of `file`, holding `rows` rows of state `state`.

    `low` and `high` are its smallest and greatest sort word; it says what happened to the state in the versions
    `first` to `last`, both inclusive.
    """

    state: int
    file: str
    section: int
    rows: int
    bytes: int
    low: int
    high: int
    first: int
    last: int


@dataclass(frozen=True)
class FileRef:
    """A zone file: its name within the state folder, its length in bytes, and the CRC-32 of its directory (which holds
    the CRC-32 of each section)."""

    name: str
    length: int
    checksum: int


@dataclass(frozen=True)
class Receipt:
    """What one task wrote: at most one file, and its runs; and what it counted (names to numbers)."""

    file: FileRef | None
    runs: tuple[RunRef, ...]
    counters: dict[str, int] = field(default_factory=dict)

    def at(self, first: int, last: int) -> Receipt:
        """The same, for versions `first` to `last`."""
        return replace(self, runs=tuple(replace(run, first=first, last=last) for run in self.runs))
