"""What a long history does to the time of a part, and what a late row costs."""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path

from benchmarks.support.report import BenchReport, say
from benchmarks.support.viewdf_minutes import FIRST, Minutes, Question
from benchmarks.support.viewdf_systems import POLL_SECONDS, Viewkeeper
from viewkeeper.database import Database

LIMIT_SECONDS = 600.0
QUESTIONS = (Question("pattern"), Question("sum", 10), Question("sum", 100), Question("max", 10), Question("max", 100))


def flat(folder: Path, rows: int, parts: int, report: BenchReport) -> None:
    """The time of a part of View1 after a few parts, and after `parts` of them."""
    say(f"viewdf: flat: {parts} parts of {rows:,} rows")
    some = max(parts // 5, 1)
    warm = min(5, parts - 2 * some)
    system = Viewkeeper(folder / "flat", Minutes(rows), Question("pattern"), kept=None)
    try:
        times = [system.take(FIRST + i, LIMIT_SECONDS) for i in range(parts + warm)]
    finally:
        system.close()
        shutil.rmtree(folder / "flat")
    early, late = statistics.fmean(times[warm : warm + some]), statistics.fmean(times[-some:])
    table = report.table(f"a part of View1 by how many lie behind it, {rows:,} rows a part", "parts", "s a part")
    for start in range(warm, len(times), some):
        table.add(f"{start} to {min(start + some, len(times)) - 1}", statistics.fmean(times[start : start + some]))
    report.figure(f"a part of View1 after {parts} parts against the first", late / early, "times", at_most=1.2)


def late(folder: Path, rows: int, parts: int, report: BenchReport) -> None:
    """A late row in a stream of `parts` parts, or twice as many as a window has, if that is more; beside computing the
    parts that it changes, or all, anew.

    Each view is declared over all parts, which is computing all; of that the changed parts are charged their share.
    Then the row comes, in the oldest part that changes all those up to the newest.
    """
    table = report.table(
        f"a late row, {rows:,} rows a part", "view", "parts", "parts changed", "s to visible",
        "s the changed parts anew", "s all parts anew",
    )  # fmt: skip
    for question in QUESTIONS:
        minutes = Minutes(rows) if question.kind == "pattern" else Minutes(rows // 10 * 10, each=10)
        reach = 10 if question.kind == "pattern" else question.window
        say(f"viewdf: late: {question}")
        system = Viewkeeper(folder / "late", minutes, question, kept=None)
        try:
            system.db.sql("DROP VIEW v")
            count = max(parts, 2 * reach)
            system.fill(FIRST, FIRST + count - 1)
            started = time.perf_counter()
            system.db.sql(f"CREATE VIEW v AS {question.sql}")
            system.db.catch_up()
            everything = time.perf_counter() - started
            seconds, changed = _late_row(system.db, minutes, FIRST + count - reach)
        finally:
            system.close()
            shutil.rmtree(folder / "late")
        anew = everything / count * changed
        table.add(str(question), count, changed, seconds, anew, everything)
        report.figure(f"late row, {question}: the changed parts anew against it", anew / seconds, "times")
        report.figure(f"late row, {question}: all parts anew against it", everything / seconds, "times")


def _late_row(db: Database, minutes: Minutes, part: int) -> tuple[float, int]:
    """Seconds from the call of append to the first version that holds a row of `part`, and how many parts of the view
    changed with it.  A second row comes after a first, which gets the works warm."""
    stream, view, seconds, changed = db.stream("m"), db.view("v"), 0.0, 0
    for pair in minutes.lossy_pairs(part)[:2].tolist():
        row, before = minutes.late_row(pair, part), stream.last_updated(part).version
        started = time.perf_counter()
        stream.append(row)
        while (version := stream.last_updated(part).version) == before:
            if time.perf_counter() - started > LIMIT_SECONDS:
                raise AssertionError(f"a late row is not in after {LIMIT_SECONDS:g} s")
            time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - started
        changed = sum(run.last - run.first + 1 for run in view.changed_since(version - 1))
    return seconds, changed
