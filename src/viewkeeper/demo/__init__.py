"""`viewkeeper demo`: TPC-H in a store, views kept by Spark while other processes write and read, then checked.

- `tpch`       makes the data and loads it
- `views`      what is maintained
- `changes`    made-up orders; `writer`, a process, writes them
- `reader`     a process that reads by key, follows its own writes, and looks whether views agree
- `screen`     what is shown meanwhile, from `watch`
- `recompute`  what the same would cost without viewkeeper
- `outcome`    what is said at the end
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

import viewkeeper
from viewkeeper.database import Database
from viewkeeper.demo import outcome, tpch
from viewkeeper.demo.outcome import Outcome, ViewOutcome
from viewkeeper.demo.process import Process
from viewkeeper.demo.quiet import errors_to
from viewkeeper.demo.recompute import recompute
from viewkeeper.demo.screen import show_changes
from viewkeeper.demo.views import DECLARATIONS, VIEWS
from viewkeeper.demo.watch import Watch
from viewkeeper.errors import Error

OPERATIONS_PER_SECOND = 5_000

LOG_WIDTH = 120
"""Columns of the output where there is no terminal."""


def run(*, folder: Path | None, scale: float, seconds: float, as_json: bool) -> bool:
    """Runs the demo with TPC-H at `scale`, orders changing for `seconds`; whether all views are right.

    The database stays in `folder`/tpch; without a folder nothing stays.  With `as_json` one line of JSON goes to
    standard output, and the story to standard error.
    """
    console = Console(stderr=as_json, highlight=False)
    if not console.is_terminal:
        console.width = LOG_WIDTH
    try:
        with tempfile.TemporaryDirectory(prefix="viewkeeper-demo-") as temporary:
            done = _Demo(console, Path(temporary), _place(folder) or Path(temporary) / "tpch").run(scale, seconds)
    except KeyboardInterrupt:
        console.print(f"\nStopped. {_left(folder)}", soft_wrap=True)
        raise SystemExit(128 + signal.SIGINT) from None
    if as_json:
        print(done.to_json())
    else:
        outcome.show(console, done)
    console.print(f"{done.total_seconds:.0f} s in all. {_left(folder)}", soft_wrap=True)
    return done.ok


def _place(folder: Path | None) -> Path | None:
    place = None if folder is None else folder.absolute() / "tpch"
    if place is not None and place.exists():
        raise Error(f"{place} is there already; name another folder, or delete it")
    return place


def _left(folder: Path | None) -> str:
    if folder is None:
        return "Nothing is left behind; with --db FOLDER the database stays."
    return f"The database stays: viewkeeper sql --db {folder / 'tpch'} 'SELECT * FROM segment_revenue'"


class _Demo:
    """One run; `root` is the database, `temporary` a folder for files that go."""

    def __init__(self, console: Console, temporary: Path, root: Path) -> None:
        self._console, self._temporary, self._root = console, temporary, root
        self._begin = time.monotonic()

    def run(self, scale: float, seconds: float) -> Outcome:
        self._console.print("[bold]viewkeeper demo[/]: SQL views over a key-value store, kept up to date by Spark\n")
        with viewkeeper.connect(self._root) as db:
            rows = self._load(db, scale)
            watch, writer, reader = self._change(db, seconds)
            begin = time.monotonic()
            with self._step("tables and views checked"):
                reports = {report.view: report for report in db.check_all()}
            check_seconds = time.monotonic() - begin
            for report in reports.values():
                if not report.ok:
                    self._console.print(str(report), style="red", markup=False)
            with self._step("recomputed by Spark, to compare"):
                spark = db.view(VIEWS[0].name).to_spark().sparkSession
                recomputed = dict(recompute(db, spark))
        views = [ViewOutcome(view.name, view.kind, reports[view.name].rows, reports[view.name].verdict,
                             recomputed[view.name]) for view in VIEWS]  # fmt: skip
        lag = max(sample.lag_seconds for sample in watch.samples)
        return Outcome(scale, rows, watch.seconds, watch.operations, watch.versions, lag, check_seconds,
                       time.monotonic() - self._begin, writer, reader, views)  # fmt: skip

    def _load(self, db: Database, scale: float) -> int:
        """Base tables with their rows, and the views declared."""
        with self._step(f"TPC-H made, scale factor {scale:g}"):
            files = tpch.generate(scale, self._temporary)
        with self._step("written to the store") as note:
            db.sql(tpch.SCHEMA)
            rows = sum(tpch.load(db, files))
            note(f"{rows:,} rows in {len(files)} tables")
        db.sql(DECLARATIONS)
        return rows

    def _change(self, db: Database, seconds: float) -> tuple[Watch, dict, dict]:
        """Maintains the views, first until all is in, then while other processes write and read."""
        with self._step("Spark started"), errors_to(self._temporary / "spark.log"):
            maintenance = db.maintain()
        with maintenance:
            with self._step("views filled and up to date") as note:
                db.catch_up()
                note(f"{len(VIEWS)} views and an index")
            with (
                Process("writer", self._root, str(OPERATIONS_PER_SECOND)) as writer,
                Process("reader", self._root) as reader,
            ):
                with self._step("writer and reader started"):
                    writer.wait_until_ready()
                    reader.wait_until_ready()
                watch = show_changes(self._console, db, maintenance, writer, reader, seconds)
                written, read = writer.stop(), reader.stop()
            db.catch_up()
            watch.look()
            self._said("orders changed", f"{watch.operations:,} operations", watch.seconds)
        return watch, written, read

    @contextmanager
    def _step(self, what: str) -> Iterator[Callable[[str], None]]:
        """Shows what is done, then that it is done and how long it took; the block may add a note."""
        notes: list[str] = []
        begin = time.monotonic()
        with self._console.status(f"{what} ..."):
            yield notes.append
        self._said(what, "".join(notes), time.monotonic() - begin)

    def _said(self, what: str, note: str, seconds: float) -> None:
        self._console.print(f"  {what:<36} {note:<26} {seconds:5.1f} s")
