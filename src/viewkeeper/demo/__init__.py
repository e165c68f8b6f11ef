"""`viewkeeper demo`: TPC-H in a store, views kept by Spark while other processes write and read, then checked.

- `tpch`       makes the data and loads it
- `views`      what is maintained
- `changes`    made-up orders; `writer`, a process, writes them
- `reader`     a process that reads by key, follows its own writes, and looks whether views agree
- `screen`     what is shown meanwhile, from `watch`
- `recompute`  what the same would cost without viewkeeper
- `outcome`    what is said at the end
- `story`      how it is told, here and in `streams`, the other demo
"""

from __future__ import annotations

import time
from pathlib import Path

import viewkeeper
from viewkeeper.database import Database
from viewkeeper.demo import outcome, tpch
from viewkeeper.demo.outcome import DemoOutcome, ViewOutcome
from viewkeeper.demo.process import Process
from viewkeeper.demo.quiet import errors_to
from viewkeeper.demo.recompute import recompute
from viewkeeper.demo.screen import show_changes
from viewkeeper.demo.story import Story, tell
from viewkeeper.demo.views import DECLARATIONS, VIEWS
from viewkeeper.demo.watch import Watch

OPERATIONS_PER_SECOND = 5_000


def run(*, folder: Path | None, scale: float, seconds: float, as_json: bool) -> bool:
    """Runs the demo with TPC-H at `scale`, orders changing for `seconds`; whether all views are right.

    The database stays in `folder`/tpch; without a folder nothing stays.  With `as_json` one line of JSON goes to
    standard output, and the story to standard error.
    """
    return tell(lambda story: _Demo(story).run(scale, seconds), outcome.show, name="tpch",
                example="SELECT * FROM segment_revenue", folder=folder, as_json=as_json)  # fmt: skip


class _Demo:
    """One run."""

    def __init__(self, story: Story) -> None:
        self._story, self._console, self._root = story, story.console, story.root

    def run(self, scale: float, seconds: float) -> DemoOutcome:
        self._console.print("[bold]viewkeeper demo[/]: SQL views over a key-value store, kept up to date by Spark\n")
        with viewkeeper.connect(self._root) as db:
            rows = self._load(db, scale)
            watch, writer, reader = self._change(db, seconds)
            begin = time.monotonic()
            with self._story.step("tables and views checked"):
                reports = {report.view: report for report in db.check_all()}
            check_seconds = time.monotonic() - begin
            for report in reports.values():
                if not report.ok:
                    self._console.print(str(report), style="red", markup=False)
            with self._story.step("recomputed by Spark, to compare"):
                spark = db.view(VIEWS[0].name).to_spark().sparkSession
                recomputed = dict(recompute(db, spark))
        views = [ViewOutcome(view.name, view.kind, reports[view.name].rows, reports[view.name].verdict,
                             recomputed[view.name]) for view in VIEWS]  # fmt: skip
        lag = max(sample.lag_seconds for sample in watch.samples)
        return DemoOutcome(scale, rows, watch.seconds, watch.operations, watch.versions, lag, check_seconds,
                       self._story.seconds, writer, reader, views)  # fmt: skip

    def _load(self, db: Database, scale: float) -> int:
        """Base tables with their rows, and the views declared."""
        with self._story.step(f"TPC-H made, scale factor {scale:g}"):
            files = tpch.generate(scale, self._story.temporary)
        with self._story.step("written to the store") as note:
            db.sql(tpch.SCHEMA)
            rows = sum(tpch.load(db, files))
            note(f"{rows:,} rows in {len(files)} tables")
        db.sql(DECLARATIONS)
        return rows

    def _change(self, db: Database, seconds: float) -> tuple[Watch, dict, dict]:
        """Maintains the views, first until all is in, then while other processes write and read."""
        with self._story.step("Spark started"), errors_to(self._story.temporary / "spark.log"):
            maintenance = db.maintain()
        with maintenance:
            with self._story.step("views filled and up to date") as note:
                db.catch_up()
                note(f"{len(VIEWS)} views and an index")
            with (
                Process("writer", self._root, str(OPERATIONS_PER_SECOND)) as writer,
                Process("reader", self._root) as reader,
            ):
                with self._story.step("writer and reader started"):
                    writer.wait_until_ready()
                    reader.wait_until_ready()
                watch = show_changes(self._console, db, maintenance, writer, reader, seconds)
                written, read = writer.stop(), reader.stop()
            db.catch_up()
            watch.look()
            self._story.said("orders changed", f"{watch.operations:,} operations", watch.seconds)
        return watch, written, read
