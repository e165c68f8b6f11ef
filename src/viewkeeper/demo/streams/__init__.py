"""`viewkeeper demo streams`: measurements of a network come, some late; views are kept part by part, then checked.

- `network`    makes the measurements up
- `views`      the stream, and what is kept of it
- `feeder`     a process that appends the measurements
- `screen`     what is shown meanwhile, from `watch`
- `recompute`  all parts anew, by Spark SQL
- `outcome`    what is said at the end
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import viewkeeper
from viewkeeper.database import Database
from viewkeeper.demo.process import Process
from viewkeeper.demo.quiet import errors_to
from viewkeeper.demo.story import Story, tell
from viewkeeper.demo.streams import outcome
from viewkeeper.demo.streams.network import Network
from viewkeeper.demo.streams.outcome import StreamOutcome, StreamViewOutcome
from viewkeeper.demo.streams.recompute import recompute
from viewkeeper.demo.streams.screen import show_minutes
from viewkeeper.demo.streams.views import DECLARATIONS, VIEWS
from viewkeeper.demo.streams.watch import StreamWatch
from viewkeeper.pipeline.maintain import Maintenance

PAIRS = 2_000
"""Pairs of hosts at scale 1."""

SECONDS_A_MINUTE = 0.5


def run(*, folder: Path | None, scale: float, seconds: float, as_json: bool) -> bool:
    """Runs the demo with 2,000 pairs times `scale`, measurements coming for `seconds`; whether all views are right.

    The database stays in `folder`/streams; without a folder nothing stays.  With `as_json` one line of JSON goes to
    standard output, and the story to standard error.
    """
    return tell(lambda story: _Demo(story).run(scale, seconds), outcome.show, name="streams",
                example="SELECT * FROM high_loss", folder=folder, as_json=as_json)  # fmt: skip


class _Demo:
    """One run."""

    def __init__(self, story: Story) -> None:
        self._story, self._console = story, story.console

    def run(self, scale: float, seconds: float) -> StreamOutcome:
        self._console.print("[bold]viewkeeper demo streams[/]: views over a stream, built and repaired part by part\n")
        network = Network(max(1, round(PAIRS * scale)))
        with viewkeeper.connect(self._story.root) as db:
            with self._story.step("Spark started, views declared") as note, errors_to(self._story.temporary / "log"):
                db.sql(DECLARATIONS)
                note(f"{len(VIEWS)} views of a stream")
            with db.maintain() as maintenance:
                self._fill(db, network)
                watch, come_seconds = self._come(db, maintenance, network.pairs, seconds)
            begin = time.monotonic()
            views = self._check(db, watch)
            check_seconds = time.monotonic() - begin
        lags = np.array(watch.lags or [0.0])
        told = watch.told
        return StreamOutcome(
            scale, network.pairs, told["minutes"], told["rows"], told["late_rows"], come_seconds, watch.versions,
            float(np.quantile(lags, 0.5)), float(lags.max()), check_seconds, self._story.seconds, views,
        )  # fmt: skip

    def _fill(self, db: Database, network: Network) -> None:
        """What came before the demo begins, in the stream and its views."""
        with self._story.step("hosts, and the last half hour"):
            db.table("hosts").put_many(network.hosts)
            rows = db.stream("m").append(network.history()).stored
        with self._story.step("views filled") as note:
            db.catch_up()
            note(f"{rows:,} rows")

    def _come(self, db: Database, maintenance: Maintenance, pairs: int, seconds: float) -> tuple[StreamWatch, float]:
        """Shows how measurements come; and for how many seconds they came."""
        with Process("streams.feeder", self._story.root, str(pairs), str(SECONDS_A_MINUTE)) as feeder:
            feeder.wait_until_ready()
            watch = show_minutes(self._console, db, maintenance, feeder, seconds)
            told, took = feeder.stop(), watch.seconds
        self._story.said("measurements came", f"{told['minutes']:,} minutes", took)
        with self._story.step("the last part sealed and built"):
            m = db.stream("m")
            db.catch_up()  # what the watermark is that is told
            m.seal(m.subscript_at(self._newest(db)))
            db.catch_up()
            watch.look(told)
        return watch, took

    def _newest(self, db: Database) -> str:
        return next(str(each["watermark"]) for each in db.lag()["streams"])

    def _check(self, db: Database, watch: StreamWatch) -> list[StreamViewOutcome]:
        with self._story.step("views checked"):
            reports = {report.view: report for report in db.check_all()}
        for report in reports.values():
            if not report.ok:
                self._console.print(str(report), style="red", markup=False)
        with self._story.step("recomputed by Spark, to compare"):
            again = dict(recompute(db, db.stream("m").to_spark().sparkSession))
        return [
            StreamViewOutcome(
                view.name,
                view.kind,
                watch.built[view.name],
                watch.repaired[view.name],
                again[view.name].rows,
                reports[view.name].verdict if view.name in reports else None,
                again[view.name].is_same,
                again[view.name].seconds,
            )
            for view in VIEWS
        ]
