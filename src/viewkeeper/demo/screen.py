"""What is shown while orders change: a live picture on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from rich import box
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from viewkeeper.database import Database
from viewkeeper.demo.process import Process
from viewkeeper.demo.watch import Watch
from viewkeeper.pipeline.maintain import Maintenance

LOOK_SECONDS = 0.25
LINE_SECONDS = 5.0
HEIGHT = 13
SEGMENTS = "segment_revenue"


def show_changes(
    console: Console, db: Database, maintenance: Maintenance, writer: Process, reader: Process, seconds: float
) -> Watch:
    """Lets the processes begin, and shows for so many seconds how the views follow; what was seen.

    Raises what ended the pipeline or one of the processes.
    """
    watch = Watch(db)
    picture = _Picture(db, watch, writer, reader, seconds)
    writer.begin()
    reader.begin()
    with Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else nullcontext() as live:
        next_show = 0.0
        while watch.seconds < seconds:
            if live is not None:
                live.update(picture.whole(), refresh=True)
            elif watch.seconds >= next_show:
                console.print(picture.line(), soft_wrap=True)
                next_show += LINE_SECONDS
            maintenance.wait(LOOK_SECONDS)
            writer.require_alive()
            reader.require_alive()
            watch.look()
    return watch


class _Picture:
    """The state of the demo, drawn."""

    def __init__(self, db: Database, watch: Watch, writer: Process, reader: Process, seconds: float) -> None:
        self._db, self._watch, self._writer, self._reader, self._seconds = db, watch, writer, reader, seconds
        self._begin = {row["c_mktsegment"]: row["revenue"] for row in db.view(SEGMENTS).rows()}

    def whole(self) -> RenderableType:
        """For a terminal."""
        both = Columns([Panel.fit(self._figures(), title="what is going on", height=HEIGHT),
                        Panel.fit(self._rows(), title="two of the views, at one version", height=HEIGHT)])  # fmt: skip
        head = Table.grid(padding=(0, 1))
        head.add_row("Orders come, change and go", self._bar(),
                     f"{self._watch.seconds:.0f} of {self._seconds:.0f} s, Ctrl-C stops")  # fmt: skip
        return Group("", head, both)

    def line(self) -> str:
        """For a log: the same in one line."""
        sample, book = self._watch.samples[-1], self._db.view("order_book").get()
        return (f"  {self._watch.seconds:3.0f} s: {self._watch.operations:,} operations in the views, "
                f"{self._watch.rate():,.0f}/s; lag {sample.written - sample.kept:,} operations, "
                f"{sample.lag_seconds:.1f} s; version {sample.version}; {self._reader.latest['reads']:,} reads by key; "
                f"{book['orders']:,} orders worth {book['total']:,}")  # fmt: skip

    def _bar(self) -> ProgressBar:
        return ProgressBar(total=self._seconds, completed=self._watch.seconds, width=20)

    def _figures(self) -> Table:
        sample, writer, reader = self._watch.samples[-1], self._writer.latest, self._reader.latest
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim")
        table.add_column(justify="right")
        table.add_column()
        table.add_row("orders received", f"{writer['received']:,}", "with their items")
        table.add_row("orders changed", f"{writer['amended']:,}", "and one item of each")
        table.add_row("orders cancelled", f"{writer['cancelled']:,}", "with their items")
        table.add_row("")
        table.add_row("operations", f"[bold]{self._watch.operations:,}", f"in the views, {self._watch.rate():,.0f}/s")
        table.add_row("lag", f"[bold]{sample.written - sample.kept:,}", f"operations, {sample.lag_seconds:.2f} s")
        table.add_row("version", f"[bold]{sample.version}", f"{self._watch.versions} since the start")
        table.add_row("")
        table.add_row("reads by key", f"{reader['reads']:,}", _reads(reader))
        table.add_row("own writes seen", f"{reader['own_writes']:,}", _fresh(reader))
        table.add_row("totals compared", f"{reader['agreed']:,}", "all agree between two views")
        return table

    def _rows(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False)
        table.add_column("segment_revenue")
        table.add_column("revenue", justify="right")
        table.add_column("since the start", justify="right")
        with self._db.snapshot() as snapshot:
            segments = sorted(snapshot.view(SEGMENTS).rows(), key=lambda row: row["c_mktsegment"])
            book = snapshot.view("order_book").get()
        for row in segments:
            change = row["revenue"] - self._begin.get(row["c_mktsegment"], 0)
            colour = "green" if change >= 0 else "red"
            table.add_row(row["c_mktsegment"].lower(), f"{row['revenue']:,.2f}", f"[{colour}]{change:+,.2f}")
        table.add_row("")
        table.add_row("[bold]order_book", "[bold]total", "[bold]orders")
        table.add_row("all orders", f"{book['total']:,.2f}", f"{book['orders']:,}")
        return table


def _reads(reader: Mapping[str, Any]) -> str:
    return f"half < {reader['read_us_p50']:.0f} µs, 99% < {reader['read_us_p99']:.0f} µs" if reader["reads"] else ""


def _fresh(reader: Mapping[str, Any]) -> str:
    return f"half < {reader['fresh_s_p50']:.2f} s, all < {reader['fresh_s_max']:.2f} s" if reader["own_writes"] else ""
