"""12,800 selections and 200 aggregates: declaring and filling them, and what a batch costs beside ten of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import viewkeeper
from benchmarks.support.report import BenchReport, Series, say
from viewkeeper.database import Database

FEW = 10
GROUPINGS = 20
SELECTIONS = 10
GROUPS = 100
CHECKED = 100
BATCHES = 7
_LOADED_AT_ONCE = 50_000


@dataclass(frozen=True)
class ManyViews:
    """Many views of one shape: `declare(n)` gives the first n as (name, query)."""

    name: str
    views: int
    declare: Callable[[int], list[tuple[str, str]]]


def _selections(count: int) -> list[tuple[str, str]]:
    return [(f"only_{i}", f"SELECT id, c, amount FROM items WHERE c = {i}") for i in range(count)]


def _aggregates(count: int) -> list[tuple[str, str]]:
    return [
        (f"by_{i}", f"SELECT g{i % GROUPINGS}, sum(amount) AS total, count(*) AS n FROM items "
                    f"WHERE s = {i // GROUPINGS} GROUP BY g{i % GROUPINGS}")
        for i in range(count)
    ]  # fmt: skip


def run(folder: Path, small: bool) -> BenchReport:
    """Runs the experiment, with all that it makes in `folder`."""
    rows, batch = (2_000, 500) if small else (100_000, 10_000)
    kinds = (
        ManyViews("selections", 40 if small else 12_800, _selections),
        ManyViews("aggregates", 20 if small else GROUPINGS * SELECTIONS, _aggregates),
    )
    report = BenchReport("many", f"{rows:,} rows, batches of {batch:,} operations", "everything synced")
    declared = report.table("declared by one script, s", "views", "kind", "declared", "filled", "read by key", "all")
    batches = report.table(f"a batch of {batch:,} operations, s", "views", "kind", "median", "best", "worst")
    with viewkeeper.connect(folder / "keeps-spark-running") as first:
        first.sql("CREATE TABLE t (id BIGINT, PRIMARY KEY (id)); CREATE VIEW v AS SELECT id FROM t")
        first.table("t").put({"id": 1})
        first.catch_up()
        for kind in kinds:
            medians = {}
            for count in (FEW, kind.views):
                with viewkeeper.connect(folder / f"{kind.name}-{count}") as db:
                    medians[count] = _measure(db, kind, count, rows, batch, declared, batches, report)
            name = f"a batch with {kind.views:,} {kind.name} against {FEW}"
            report.figure(name, medians[kind.views] / medians[FEW], "times", at_most=5)
    return report


def _measure(
    db: Database, kind: ManyViews, count: int, rows: int, batch: int, declared: Series, batches: Series,
    report: BenchReport,
) -> float:  # fmt: skip
    """Declares `count` views, fills, reads and checks them; the median seconds of a batch."""
    say(f"many: {count:,} {kind.name}")
    chance = np.random.default_rng(1)
    grouping = ", ".join(f"g{i} INT" for i in range(GROUPINGS))
    db.sql(f"CREATE TABLE items (id BIGINT, c INT, s INT, {grouping}, amount BIGINT, PRIMARY KEY (id))")
    for start in range(0, rows, _LOADED_AT_ONCE):
        ids = np.arange(start, min(start + _LOADED_AT_ONCE, rows))
        db.table("items").put_many(_items(chance, ids, kind.views))
    db.catch_up()
    views = kind.declare(count)
    seconds = _declare(db, views, chance)
    declared.add(count, kind.name, *seconds, sum(seconds))
    if count == kind.views:
        report.figure(f"{count:,} {kind.name} declared, filled, read", sum(seconds), "s", at_most=60)
    times = _batches(db, chance, rows, batch, kind.views, views[0][0])
    batches.add(count, kind.name, float(np.median(times)), min(times), max(times))
    drawn = random.Random(1).sample([name for name, _ in views], min(CHECKED, count))
    wrong = [name for name, checked in zip(drawn, db.check_all(drawn), strict=True) if not checked.ok]
    if count == kind.views:
        report.figure(f"{kind.name}: wrong ones of {len(drawn)} drawn and checked", len(wrong), "views", at_most=0)
    return float(np.median(times))


def _declare(db: Database, views: Sequence[tuple[str, str]], chance: np.random.Generator) -> tuple[float, ...]:
    """Seconds to declare all in one script, until they are filled, and to read a row of each of 100 of them."""
    started = time.perf_counter()
    db.sql("".join(f"CREATE VIEW {name} AS {query};\n" for name, query in views))
    declared = time.perf_counter()
    db.catch_up()
    filled = time.perf_counter()
    for place in chance.integers(0, len(views), CHECKED):
        db.view(views[place][0]).get(int(chance.integers(0, GROUPS)))
    return declared - started, filled - declared, time.perf_counter() - filled


def _batches(
    db: Database, chance: np.random.Generator, rows: int, batch: int, constants: int, view: str
) -> list[float]:
    """Seconds from a `put_many` of `batch` rows (half of them new) until it can be read; the first is not counted."""
    times, items, reader = [], db.table("items"), db.view(view)
    with db.maintain():
        for number in range(BATCHES + 1):
            new = rows + number * batch + np.arange(batch // 2)
            written = _items(chance, np.concatenate([chance.integers(0, rows, batch - len(new)), new]), constants)
            started = time.perf_counter()
            token = items.put_many(written)
            reader.get(0, after=token, timeout=300)
            times.append(time.perf_counter() - started)
    return times[1:]


def _items(chance: np.random.Generator, ids: np.ndarray, constants: int) -> pa.Table:
    length = len(ids)

    def column(upto: int) -> pa.Array:
        return pa.array(chance.integers(0, upto, length).astype(np.int32))

    groups = {f"g{i}": column(GROUPS) for i in range(GROUPINGS)}
    amount = chance.integers(1, 1_000_000, length)
    return pa.table({"id": ids, "c": column(constants), "s": column(SELECTIONS), **groups, "amount": amount})
