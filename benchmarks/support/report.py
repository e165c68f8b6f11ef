"""What an experiment found: figures beside their targets, tables, and on what they were measured."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from benchmarks.support.machine import describe
from viewkeeper.commands.output import console, print_json


@dataclass(frozen=True)
class Figure:
    """One measured number; `target` is a bound and `met` whether it is kept, both None where nothing is promised."""

    name: str
    value: float
    unit: str
    target: str | None = None
    met: bool | None = None


@dataclass(frozen=True)
class Series:
    """Several measurements of one kind, as a table."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[Any]] = field(default_factory=list)

    def add(self, *row: Any) -> None:
        """One more row."""
        self.rows.append(row)


class BenchReport:
    """Filled by an experiment while it runs.  `durability`: what is synced, in words."""

    def __init__(self, name: str, size: str, durability: str) -> None:
        self.name, self.size, self.durability = name, size, durability
        self.machine = describe()
        self.figures: list[Figure] = []
        self.series: list[Series] = []
        self.notes: list[str] = []

    def figure(
        self, name: str, value: float, unit: str, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        """Adds a figure, with its bound where something is promised."""
        target = met = None
        if at_most is not None:
            target, met = f"at most {number(at_most)}", value <= at_most
        elif at_least is not None:
            target, met = f"at least {number(at_least)}", value >= at_least
        self.figures.append(Figure(name, float(value), unit, target, None if met is None else bool(met)))

    def table(self, title: str, *columns: str) -> Series:
        """A new table, to which the experiment adds rows."""
        self.series.append(Series(title, columns))
        return self.series[-1]

    def note(self, text: str) -> None:
        """What a reader must know to understand the figures."""
        self.notes.append(text)

    def print(self, as_json: bool) -> None:
        """The whole report on standard output."""
        if as_json:
            print_json({"name": self.name, "size": self.size, "durability": self.durability, "machine": self.machine,
                        "figures": [asdict(figure) for figure in self.figures],
                        "tables": [asdict(series) for series in self.series], "notes": self.notes})  # fmt: skip
            return
        out = console()
        out.print(f"bench {self.name}: {self.size}")
        out.print(f"machine: {', '.join(f'{name} {value}' for name, value in self.machine.items())}")
        out.print(f"durability: {self.durability}")
        for series in self.series:
            table = Table(*series.columns, title=series.title, title_justify="left")
            for row in series.rows:
                table.add_row(*(number(cell) if isinstance(cell, (int, float)) else str(cell) for cell in row))
            out.print(table)
        if self.figures:
            table = Table("figure", "measured", "target", "", title="figures", title_justify="left")
            for figure in self.figures:
                verdict = "" if figure.met is None else "met" if figure.met else "MISSED"
                table.add_row(figure.name, f"{number(figure.value)} {figure.unit}", figure.target or "", verdict)
            out.print(table)
        for note in self.notes:
            out.print(f"- {note}")


def number(value: float) -> str:
    """Three digits, or all of a whole number."""
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def say(text: str) -> None:
    """Tells on standard error what is being done."""
    print(f"bench: {text}", file=sys.stderr, flush=True)
