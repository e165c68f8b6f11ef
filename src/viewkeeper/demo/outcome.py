"""What the demo did, and how fast: as tables for a newcomer, and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class ViewOutcome:
    """One view: its kind, its rows, whether Spark's answer is the same, and what that answer takes (seconds)."""

    name: str
    kind: str
    rows: int
    verdict: str
    recompute_seconds: float

    @property
    def ok(self) -> bool:
        return self.verdict == "right"


@dataclass(frozen=True)
class DemoOutcome:
    """The whole run; times in seconds, `writer` and `reader` as these processes told them."""

    scale: float
    rows: int
    change_seconds: float
    operations: int
    versions: int
    lag_seconds_max: float
    check_seconds: float
    total_seconds: float
    writer: dict[str, Any]
    reader: dict[str, Any]
    views: list[ViewOutcome]

    @property
    def ok(self) -> bool:
        """Whether every view is right."""
        return all(view.ok for view in self.views)

    @property
    def recompute_seconds(self) -> float:
        """All views once."""
        return sum(view.recompute_seconds for view in self.views)

    def to_json(self) -> str:
        """All fields, on one line."""
        return json.dumps({**asdict(self), "ok": self.ok, "recompute_seconds": self.recompute_seconds})


def show(console: Console, outcome: DemoOutcome) -> None:
    """Prints the outcome for a person."""
    console.print(_views(outcome))
    console.print(_figures(outcome))
    if outcome.ok:
        console.print(f"\n[bold green]All {len(outcome.views)} views are what Spark computes from the base tables.[/]")
    else:
        wrong = ", ".join(view.name for view in outcome.views if not view.ok)
        console.print(f"\n[bold red]Not what Spark computes from the base tables: {wrong}.[/]")


def _views(outcome: DemoOutcome) -> Table:
    title = "\nEvery view after all changes, and how long Spark needs to compute it anew"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", show_footer=True)
    table.add_column("view", "together")
    table.add_column("what it is")
    table.add_column("rows", f"{sum(view.rows for view in outcome.views):,}", justify="right")
    table.add_column("checked")
    table.add_column("Spark needs", f"{outcome.recompute_seconds:.2f} s", justify="right")
    for view in outcome.views:
        verdict = "[green]right" if view.ok else f"[red]{view.verdict}"
        table.add_row(view.name, view.kind, f"{view.rows:,}", verdict, f"{view.recompute_seconds:.2f} s")
    return table


def _figures(outcome: DemoOutcome) -> Table:
    writer, reader, views = outcome.writer, outcome.reader, len(outcome.views)
    table = Table(box=box.SIMPLE_HEAD, title="What was done, and how fast", title_justify="left", title_style="bold",
                  show_header=False)  # fmt: skip
    table.add_row(
        "written",
        f"{outcome.operations:,} operations in {outcome.change_seconds:.0f} s, "
        f"{outcome.operations / outcome.change_seconds:,.0f} a second, by one process\n"
        f"{writer['received']:,} orders received, {writer['amended']:,} changed, "
        f"{writer['cancelled']:,} cancelled",
    )
    table.add_row(
        "maintained",
        f"{outcome.versions:,} versions, each with all {views} views at one moment\n"
        f"never more than {outcome.lag_seconds_max:.1f} s behind",
    )
    table.add_row(
        "read",
        f"{reader['reads']:,} reads by key: half within {reader['read_us_p50']:.0f} µs, "
        f"99% within {reader['read_us_p99']:.0f} µs\n"
        f"{reader['own_writes']:,} own writes seen: half within {reader['fresh_s_p50']:.2f} s, "
        f"all within {reader['fresh_s_max']:.2f} s\n"
        f"{reader['agreed']:,} looks at two views of one version: all totals agreed",
    )
    table.add_row("checked", f"base tables row by row, each view against Spark: {outcome.check_seconds:.0f} s")
    table.add_row(
        "without it",
        f"{views} views computed {outcome.versions:,} times by Spark: "
        f"{_duration(outcome.versions * outcome.recompute_seconds)}",
    )
    return table


def _duration(seconds: float) -> str:
    """In words a person would choose."""
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
