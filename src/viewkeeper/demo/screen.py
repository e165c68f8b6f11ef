"""What is shown while orders change: a live picture on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from viewkeeper.database import Database
from viewkeeper.demo.process import Process
from viewkeeper.demo.watch import Watch

LOOK_SECONDS = 0.25
LINE_SECONDS = 5.0
SEGMENTS = "segment_revenue"


def show_changes(console: Console, db: Database, writer: Process, reader: Process, seconds: float) -> Watch:
    """Shows for so many seconds how the views follow the writer; what was seen."""
    watch = Watch(db)
    picture = _Picture(db, watch, writer, reader, seconds)
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            _every(LOOK_SECONDS, watch, (writer, reader), seconds,
                   lambda: live.update(picture.whole(), refresh=True))  # fmt: skip
    else:
        _every(LINE_SECONDS, watch, (writer, reader), seconds, lambda: console.print(picture.line()))
    return watch


def _every(
    pause: float, watch: Watch, processes: tuple[Process, ...], seconds: float, show: Callable[[], None]
) -> None:
    end, next_show = time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        watch.look()
        for process in processes:
            process.require_alive()
        if time.monotonic() >= next_show:
            show()
            next_show = time.monotonic() + pause
        time.sleep(LOOK_SECONDS)


class _Picture:
    """The state of the demo, drawn."""

    def __init__(self, db: Database, watch: Watch, writer: Process, reader: Process, seconds: float) -> None:
        self._db, self._watch, self._writer, self._reader, self._seconds = db, watch, writer, reader, seconds
        self._begin = {row["c_mktsegment"]: row["revenue"] for row in db.view(SEGMENTS).rows()}

    def whole(self) -> RenderableType:
        """For a terminal."""
        both = Table.grid(padding=(0, 1))
        both.add_row(Panel(self._figures(), title="pipeline and readers", padding=(0, 1)),
                     Panel(self._rows(), title="views, at one version", padding=(0, 1)))  # fmt: skip
        head = Table.grid(padding=(0, 1))
        head.add_row("Orders come in, change and are cancelled", self._bar(),
                     f"{self._watch.seconds:.0f} of {self._seconds:.0f} s, Ctrl-C stops")  # fmt: skip
        return Group("", head, both)

    def line(self) -> str:
        """For a log: the same in one line."""
        sample, (count, read) = self._watch.samples[-1], _reads(self._reader.latest)
        (book,) = self._db.view("order_book").rows()
        return (f"  {self._watch.seconds:3.0f} s: {self._watch.operations:,} operations in the views, "
                f"{self._watch.rate():,.0f}/s; lag {sample.written - sample.kept:,} operations, "
                f"{sample.lag_seconds:.1f} s; version {sample.version}; {count} reads by key, {read}; "
                f"{book['orders']:,} orders worth {book['total']:,}")  # fmt: skip

    def _bar(self) -> ProgressBar:
        return ProgressBar(total=self._seconds, completed=self._watch.seconds, width=24)

    def _figures(self) -> Table:
        sample, writer, reader = self._watch.samples[-1], self._writer.latest, self._reader.latest
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim")
        table.add_column(justify="right")
        table.add_column()
        table.add_row("orders received", f"{writer.get('received', 0):,}", "with their line items")
        table.add_row("orders changed", f"{writer.get('amended', 0):,}", "with one line item")
        table.add_row("orders cancelled", f"{writer.get('cancelled', 0):,}", "with their line items")
        table.add_row("")
        table.add_row("operations in the views", f"[bold]{self._watch.operations:,}", f"{self._watch.rate():,.0f}/s")
        table.add_row("lag", f"[bold]{sample.written - sample.kept:,}", f"operations, {sample.lag_seconds:.2f} s")
        table.add_row("version", f"[bold]{sample.version}", f"{self._watch.versions} in this time")
        table.add_row("")
        table.add_row("reads by key", *_reads(reader))
        table.add_row("own writes seen", f"{reader.get('own_writes', 0):,}", _fresh(reader))
        table.add_row("looks at two views", f"{reader.get('agreed', 0):,}", "totals agree in all")
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


def _reads(reader: Mapping[str, Any]) -> tuple[str, str]:
    """How many, and how fast."""
    if not reader.get("reads"):
        return "0", "starting"
    return (
        f"{reader['reads']:,}",
        f"half within {reader['read_us_p50']:.0f} µs, 99% within {reader['read_us_p99']:.0f} µs",
    )


def _fresh(reader: Mapping[str, Any]) -> str:
    if not reader.get("own_writes"):
        return ""
    return f"half within {reader['fresh_s_p50']:.2f} s, all within {reader['fresh_s_max']:.2f} s"
