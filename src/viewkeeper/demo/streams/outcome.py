"""What the demo of streams did, and how fast: as tables for a newcomer, and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table


@dataclass(frozen=True)
class StreamViewOutcome:
    """One view: what became of its parts while measurements came, and whether its rows are what they must be.

    `verdict` is that of the check where there is one, `is_same` whether Spark SQL computes the same from all rows of
    the stream, in `recompute_seconds`.
    """

    name: str
    kind: str
    built: int
    repaired: int
    rows: int
    verdict: str | None
    is_same: bool
    recompute_seconds: float

    @property
    def ok(self) -> bool:
        return self.is_same and self.verdict in (None, "right")


@dataclass(frozen=True)
class StreamOutcome:
    """The whole run; times in seconds, a lag from the sealing of a part to the commit of a view's part made of it."""

    scale: float
    pairs: int
    minutes: int
    rows: int
    late_rows: int
    come_seconds: float
    versions: int
    lag_seconds_p50: float
    lag_seconds_max: float
    check_seconds: float
    total_seconds: float
    views: list[StreamViewOutcome]

    @property
    def ok(self) -> bool:
        """Whether every view is right."""
        return all(view.ok for view in self.views)

    def to_json(self) -> str:
        """All fields, on one line."""
        return json.dumps({**asdict(self), "ok": self.ok})


def show(console: Console, outcome: StreamOutcome) -> None:
    """Prints the outcome for a person."""
    console.print(_views(outcome))
    console.print(_figures(outcome))
    if outcome.ok:
        console.print(f"\n[bold green]All parts of all {len(outcome.views)} views are what Spark computes from the "
                      "whole stream.[/]")  # fmt: skip
    else:
        wrong = ", ".join(view.name for view in outcome.views if not view.ok)
        console.print(f"\n[bold red]Not what Spark computes from the whole stream: {wrong}.[/]")


def _views(outcome: StreamOutcome) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="\nEvery view, all its parts", title_justify="left", title_style="bold")
    table.add_column("view")
    table.add_column("what it is")
    for name in ("built", "repaired", "rows"):
        table.add_column(name, justify="right")
    table.add_column("checked")
    table.add_column("all anew", justify="right")
    for view in outcome.views:
        said = (
            "right" if view.ok else view.verdict if view.verdict not in (None, "right") else "not what Spark computes"
        )
        table.add_row(view.name, escape(view.kind), f"{view.built:,}", f"{view.repaired:,}", f"{view.rows:,}",
                      f"[green]{said}" if view.ok else f"[red]{said}", f"{view.recompute_seconds:.2f} s")  # fmt: skip
    return table


def _figures(outcome: StreamOutcome) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="What came, and how fast it was in", title_justify="left",
                  title_style="bold", show_header=False)  # fmt: skip
    table.add_row("came", f"{outcome.minutes:,} minutes of {outcome.pairs:,} pairs in {outcome.come_seconds:.0f} s: "
                          f"{outcome.rows:,} rows, {outcome.late_rows:,} of them late")  # fmt: skip
    table.add_row("kept", f"{outcome.versions:,} versions, each with all views at one moment of the stream\n"
                          f"from sealed to visible: half within {outcome.lag_seconds_p50:.2f} s, "
                          f"all within {outcome.lag_seconds_max:.2f} s")  # fmt: skip
    table.add_row("repaired", f"{sum(view.repaired for view in outcome.views):,} parts, since late rows changed them")
    table.add_row("checked", f"in {outcome.check_seconds:.0f} s")
    return table
