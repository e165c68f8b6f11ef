"""What is declared of outside stores: where a table is, and where a view's rows are written to."""

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
