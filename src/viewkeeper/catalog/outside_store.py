"""What is declared of outside stores: where a table is, and where a view's rows are written to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viewkeeper.catalog.codec import stored
from viewkeeper.errors import InputError

GREATEST, LAST = "greatest", "last"
TIMESTAMPED = {"cassandra": GREATEST, "hbase": LAST}
"""The kinds of stores that keep a timestamp with each cell, and what is in a cell that two writes of one time have
given a value: the greatest one, by the bytes of the store, or the last one."""

PARTITION_KEY = "partition_key"
"""The option that names the columns of the partition key, where they are not the first column of the primary key."""

NEVER = -(2**63)
"""The timestamp of what is not there."""


@stored
@dataclass(frozen=True)
class OutsideStore:
    """Where a table is that is in an outside store: the store's `kind`, and its OPTIONS as they are declared, names in
    small letters.

    It is adopted in three steps (pipeline/adopting.py), each with the version that it came with, None before.
    `followed`: it is known where its logs are read from.  `scanned`: its rows are in, and the logs are read; `goal` is
    where they ended when the last row had been read.  `adopted`: the logs have been read up to there, and the table can
    be.  `begun`: when it was known where its logs are read from (seconds since 1970).
    """

    kind: str
    options: tuple[tuple[str, str], ...]
    followed: int | None = None
    scanned: int | None = None
    goal: tuple[tuple[str, int], ...] = ()
    adopted: int | None = None
    begun: float | None = None

    def partition(self, key: Sequence[str]) -> int:
        """How many of the columns `key` of a primary key are the partition key, in whose rows the store may delete
        ranges of keys; 0: it has no such deletions.

        Raises InputError where OPTIONS name others than the first columns.
        """
        if TIMESTAMPED.get(self.kind) != GREATEST:
            return 0
        said = dict(self.options).get(PARTITION_KEY)
        if said is None:
            return 1 if len(key) > 1 else 0
        names = [name.strip().lower() for name in said.split(",")]
        if names != [name.lower() for name in key[: len(names)]]:
            raise InputError(f"OPTIONS ({PARTITION_KEY} '{said}'): expected the first columns of the primary key, "
                             f"{', '.join(key)}, in their order")  # fmt: skip
        return len(names) if len(names) < len(key) else 0


@stored
@dataclass(frozen=True)
class Target:
    """An outside store that a view's rows are written to, too: its `kind`, and its OPTIONS, names in small letters; no
    secret is among them."""

    kind: str
    options: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        options = ", ".join(f"{name} '{value}'" for name, value in self.options)
        return f"{self.kind} ({options})"
