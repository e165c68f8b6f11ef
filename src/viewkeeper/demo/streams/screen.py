"""What is shown while measurements come: a live picture on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import datetime
from contextlib import nullcontext

from rich import box
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from viewkeeper.database import Database
from viewkeeper.demo.process import Process
from viewkeeper.demo.streams.views import HIGH_LOSS, VIEWS
from viewkeeper.demo.streams.watch import SHOWN, Repair, StreamWatch
from viewkeeper.pipeline.maintain import Maintenance

LOOK_SECONDS = 0.05
DRAW_SECONDS = 0.25
LINE_SECONDS = 5.0
HEIGHT = 17
PAIRS_SHOWN = 12


def show_minutes(
    console: Console, db: Database, maintenance: Maintenance, feeder: Process, seconds: float
) -> StreamWatch:
    """Lets the feeder begin, and shows for so many seconds how the views follow; what was seen.

    Raises what ended the pipeline or the feeder.
    """
    watch = StreamWatch(db)
    picture = _Picture(db, watch, seconds)
    feeder.begin()
    with Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else nullcontext() as live:
        next_show = 0.0
        while watch.seconds < seconds:
            watch.look(feeder.latest)
            if watch.seconds >= next_show:
                if live is not None:
                    live.update(picture.whole(), refresh=True)
                else:
                    console.print(picture.line(), soft_wrap=True)
                next_show = watch.seconds + (LINE_SECONDS if live is None else DRAW_SECONDS)
            maintenance.wait(LOOK_SECONDS)
            feeder.require_alive()
    return watch


class _Picture:
    """The state of the demo, drawn."""

    def __init__(self, db: Database, watch: StreamWatch, seconds: float) -> None:
        self._db, self._watch, self._seconds = db, watch, seconds

    def whole(self) -> RenderableType:
        """For a terminal."""
        watch = self._watch
        both = Columns([Panel.fit(self._pairs(), title="high_loss: four minutes and more", height=HEIGHT),
                        Panel.fit(self._figures(), title="what is going on", height=HEIGHT)])  # fmt: skip
        head = Table.grid(padding=(0, 1))
        head.add_row("A minute comes every half second",
                     ProgressBar(total=self._seconds, completed=watch.seconds, width=20),
                     f"{watch.seconds:.0f} of {self._seconds:.0f} s, Ctrl-C stops")  # fmt: skip
        return Group("", head, both)

    def line(self) -> str:
        """For a log: the same in one line."""
        watch, reader = self._watch, self._db.view(HIGH_LOSS.name)
        newest = reader.newest
        pairs = "no part yet" if newest is None else f"{len(reader.part(newest))} pairs with high loss at {_at(newest)}"
        repairs = f"; last repaired {_named(watch.repairs[-1])}" if watch.repairs else ""
        return (f"  {watch.seconds:3.0f} s: {pairs}; {sum(watch.built.values())} parts built, "
                f"{sum(watch.repaired.values())} repaired after {watch.told.get('late_rows', 0):,} late rows; "
                f"{_lag(watch)} from sealed to visible; version {watch.version}{repairs}")  # fmt: skip

    def _pairs(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False)
        for name, side in (("from", "left"), ("to", "left"), ("minutes", "right"), ("lost", "right")):
            table.add_column(name, justify="right" if side == "right" else "left")
        reader = self._db.view(HIGH_LOSS.name)
        newest = reader.newest
        rows = [] if newest is None else list(reader.part(newest))
        rows.sort(key=lambda row: (-row["ct"], -row["sum_loss"]))
        for row in rows[:PAIRS_SHOWN]:
            table.add_row(row["src"], row["dest"], str(row["ct"]), f"{row['sum_loss']:,}")
        more = f"and {len(rows) - PAIRS_SHOWN} more" if len(rows) > PAIRS_SHOWN else ""
        table.add_row(f"[dim]{'' if newest is None else _at(newest)}", f"[dim]{more}", "", "")
        return table

    def _figures(self) -> Table:
        watch = self._watch
        told = watch.told
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim")
        table.add_column(justify="right")
        table.add_column()
        table.add_row("rows", f"{told.get('rows', 0):,}", f"in {told.get('minutes', 0):,} minutes")
        table.add_row("lag", f"[bold]{_lag(watch)}", "from sealed to visible")
        table.add_row("version", f"[bold]{watch.version}", f"{watch.versions} since the start")
        table.add_row("")
        for view in VIEWS:
            table.add_row(view.name, f"{watch.built[view.name]}", f"parts built, {watch.repaired[view.name]} repaired")
        late = told.get("late")
        table.add_row("")
        last = f"the last: {late['host']}, {_at(late['first'])} to {_at(late['last'])}" if late else ""
        table.add_row("late rows", f"{told.get('late_rows', 0):,}", last)
        shown = [_named(repair) for repair in reversed(watch.repairs)][: SHOWN - 2]
        for number, text in enumerate(shown):
            table.add_row("repaired" if number == 0 else "", "", text)
        return table


def _named(repair: Repair) -> str:
    if repair.view == "quarters":
        return f"{repair.view}, from {_at(repair.first * 15)}"
    span = _at(repair.first) if repair.first == repair.last else f"{_at(repair.first)} to {_at(repair.last)}"
    return f"{repair.view} {span}"


def _lag(watch: StreamWatch) -> str:
    return f"{watch.lags[-1]:.2f} s" if watch.lags else "-"


def _at(part: int) -> str:
    """The time of a part of a minute."""
    return datetime.datetime.fromtimestamp(part * 60, datetime.UTC).strftime("%H:%M")
