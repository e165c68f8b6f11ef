"""What the demo of stores did, and how fast: as a table for a newcomer, and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from rich import box
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class StoresOutcome:
    """The whole run; times in seconds.  `verdict` is that of the check, which reads the stores; `is_same` whether Redis
    holds what its client and Cassandra's give; a lag is from Cassandra's acknowledgement until Redis has the write."""

    orders: int
    written: dict[str, int]
    write_seconds: float
    verdict: str
    rows: int
    is_same: bool
    lag_seconds_p50: float
    lag_seconds_p99: float
    check_seconds: float
    total_seconds: float

    @property
    def ok(self) -> bool:
        """Whether the view is right, here and in Redis."""
        return self.is_same and self.verdict == "right"

    def to_json(self) -> str:
        """All fields, on one line."""
        return json.dumps({**asdict(self), "ok": self.ok})


def show(console: Console, outcome: StoresOutcome) -> None:
    """Prints the outcome for a person."""
    written = outcome.written
    table = Table(box=box.SIMPLE_HEAD, title="\nOne view of three stores, in a fourth", title_justify="left",
                  title_style="bold", show_header=False)  # fmt: skip
    table.add_row("Cassandra", f"{outcome.orders:,} orders adopted; then {written['ordered']:,} came, "
                               f"{written['amended']:,} were amended, {written['cancelled']:,} cancelled")  # fmt: skip
    table.add_row("Kafka", f"{written['products']:,} envelopes that put a product into another category")
    table.add_row("embedded store", f"{written['customers']:,} customers that moved to another nation")
    table.add_row("Redis", f"{outcome.rows:,} rows; a write to Cassandra was there: half within "
                           f"{outcome.lag_seconds_p50:.2f} s, 99% within {outcome.lag_seconds_p99:.2f} s")  # fmt: skip
    table.add_row("checked", f"{outcome.verdict}, in {outcome.check_seconds:.0f} s")
    console.print(table)
    if outcome.ok:
        console.print("\n[bold green]The rows in Redis are what the rows in Cassandra, Kafka and here give.[/]")
    else:
        console.print("\n[bold red]The rows in Redis are not what the rows in Cassandra, Kafka and here give.[/]")
