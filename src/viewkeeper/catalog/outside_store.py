"""What is declared of a table that is in an outside store, and how far its adoption is."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.codec import stored


@stored
@dataclass(frozen=True)
class OutsideStore:
    """Where a table is that is in an outside store: the store's `kind`, and its OPTIONS as they are declared, names in
    small letters.

    It is adopted in three steps (pipeline/adopting.py), each with the version that it came with, None before.
    `followed`: it is known where its logs are read from.  `scanned`: its rows are in, and the logs are read; `goal` is
    where they ended when the last row had been read.  `adopted`: the logs have been read up to there, and the table can
    be.
    """

    kind: str
    options: tuple[tuple[str, str], ...]
    followed: int | None = None
    scanned: int | None = None
    goal: tuple[tuple[str, int], ...] = ()
    adopted: int | None = None
