"""Random views and histories, judged by Spark SQL after every batch: `pairs` makes as many as are asked for.

`python -m oracle.against_spark --pairs 3000 --seed 1`, with `src` and `tests/support` on the path, makes many.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pprint import pformat
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa

from drawn import drawn
from memory_engine import MemoryEngine
from oracle.functions import CALLED
from oracle.model import Base, Case
from oracle.strategies import cases
from reaching import by_reach
from viewkeeper.catalog.model import Catalog, Table, View
from viewkeeper.checker.check import ROW_ID, StoreRows, check_views
from viewkeeper.checker.report import NOT_JUDGED
from viewkeeper.checker.row_evaluator import ErrorRow
from viewkeeper.checker.spark_judge import SparkJudge
from viewkeeper.checker.tables import table_of
from viewkeeper.errors import DeclarationError, Error, NotSupported
from viewkeeper.maintenance.rules.rewriter import rewritten
from viewkeeper.pipeline.spark_answers import SparkAnswers
from viewkeeper.pipeline.spark_executor import JAVA_OPTIONS
from viewkeeper.plans.expressions import FunctionCall
from viewkeeper.plans.maintenance import plan_of
from viewkeeper.plans.relations import Relation, SparkQuery, expressions_of
from viewkeeper.plans.rewriting import walk
from viewkeeper.plans.subqueries import relations_in
from viewkeeper.spark.starting import socket_settings
from viewkeeper.streams.spark.analyst import SparkAnalyst
from without_streams import WithoutStreams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SHRINKING = 120.0  # seconds


class MemoryEvidence(WithoutStreams):
    """A `MemoryEngine` and the plain tables beside it, as the checker sees a database."""

    version = 1

    def __init__(self, engine: MemoryEngine, base: Base) -> None:
        self._engine, self._base = engine, base

    @property
    def catalog(self) -> Catalog:
        return self._engine.catalog

    def delta(self, table: Table) -> pa.Table:
        """What operators were given: the plain tables themselves, whose rows are DELTA's by other tests."""
        rows = self._base.arrow(table.name)
        if table.key:
            return rows
        return rows.append_column(pa.field(ROW_ID.name, pa.int64(), False), pa.array(range(len(rows)), pa.int64()))

    def store(self, table: Table) -> StoreRows:
        return StoreRows(self.delta(table), [])

    def view_rows(self, view: View) -> pa.Table:
        return table_of(view.columns, self._engine.rows(view.name))

    def error_rows(self, view: View) -> Sequence[ErrorRow]:
        return [ErrorRow(code, place, row) for _, code, place, row in self._engine.errors(view.name)]

    def relation(self, view: View) -> Relation:
        if view.asked is not None:
            return SparkQuery(view.asked, (), view.columns, "")
        return self._engine.relations[view.name]


class Pairs:
    """Query-history pairs so far, and what they reached."""

    def __init__(self, spark: SparkSession) -> None:
        self._judge = SparkJudge(spark)
        self._asked = SparkAnalyst(lambda: spark), SparkAnswers(lambda: spark)
        self.reached: Counter[str] = Counter()

    @property
    def number(self) -> int:
        return self.reached["pairs"]

    def run(self, case: Case, servers: int, declared_at: int) -> None:
        """Keeps the views of `case` through its history; asserts that each is right after every batch."""
        outside = any(name in text for text in case.views for name in _LIKE.values())
        engine = MemoryEngine(case.tables, servers, asked=self._asked if outside else None)
        base = Base(case.schemas)
        for n, batch in enumerate((*case.batches, ())):
            if n == min(declared_at, len(case.batches)):
                try:
                    engine.declare(case.views)
                except DeclarationError as refused:
                    assert outside or isinstance(refused, NotSupported), refused
                    self.reached[f"refused: {refused}"[:70]] += 1
                    return
                engine.start_fill()
            with by_reach(n % 2 == 0):
                engine.apply(base.taken(batch))
            if n == min(declared_at, len(case.batches)):
                engine.finish_fill()
            if engine.catalog.views:
                self._check(engine, base)
        self._note(engine)

    def _check(self, engine: MemoryEngine, base: Base) -> None:
        names = [view.name for view in engine.catalog.views]
        left_out: set[int] = set()
        for report in check_views(MemoryEvidence(engine, base), names, self._judge):
            view = engine.catalog.find(report.view)
            raises = any("no row asks for" in why for why in report.unjudged)
            if report.verdict == NOT_JUDGED and (report.errors or raises or left_out.intersection(view.reads)):
                self.reached["errors that Spark leaves out"] += 1
                left_out.add(view.id)
                continue
            assert report.ok, f"{view}\n{report.problem}\n{report.unjudged}\n{report.differing}"
            self.reached[f"judged by {report.judge}"] += 1
            self.reached["rows"] += report.rows
            self.reached["answers"] += 1
            self.reached["with rows"] += report.rows > 0

    def _note(self, engine: MemoryEngine) -> None:
        self.reached["pairs"] += len(engine.catalog.views)
        self.reached.update({type(each).__name__ for each in plan_of(engine.catalog).operators})
        for relation in engine.relations.values():
            self.reached.update(set(rewritten(relation, "UTC")[1]))
            for each in relations_in(relation):
                self.reached.update(f"{node.function}()" for expression in expressions_of(each)
                                    for node in walk(expression) if isinstance(node, FunctionCall))  # fmt: skip


def by_spark(case: Case) -> Case:
    """The case with aggregates in the place of others of their types that only Spark knows."""
    views = case.views
    for ours, sparks in _LIKE.items():
        views = tuple(re.sub(rf"\b{ours}\(", f"{sparks}(", text) for text in views)
    return replace(case, views=views)


_BY_SPARK = 0.3
_LIKE = {
    "median": "kurtosis", "mean": "skewness", "avg": "kurtosis", "count_if": "approx_count_distinct",
    r"count(?=\((DISTINCT )?[\w.]+\))": "approx_count_distinct",
}  # fmt: skip


def pairs(spark: SparkSession, number: int, seed: int) -> Counter[str]:
    """At least `number` query-history pairs, the same for the same seed, and what they reached.

    A difference is raised as AssertionError with a case that has it and is as small as leaving out made it.
    """
    done, said = Pairs(spark), time.monotonic()
    chance = Random(seed)
    while done.number < number:
        case, servers, declared_at = drawn(chance, cases(begun=8)), chance.randint(1, 3), chance.randint(0, 5)
        if chance.random() < _BY_SPARK:
            case = by_spark(case)
        try:
            done.run(case, servers, declared_at)
        except AssertionError:
            smallest = _shrunk(spark, case, servers, declared_at)
            raise AssertionError(f"seed {seed}, after {done.number} pairs: {smallest}") from None
        if time.monotonic() > said + 30:
            said = time.monotonic()
            print(f"{done.number:,} of {number:,} pairs", file=sys.stderr, flush=True)
    return done.reached


def _shrunk(spark: SparkSession, case: Case, servers: int, declared_at: int) -> str:
    """The smallest case with a difference that leaving out views and operations leads to, and its difference."""
    problem, until = "", time.monotonic() + _SHRINKING
    waiting = _smaller(case)
    while time.monotonic() < until and (smaller := next(waiting, None)):
        try:
            Pairs(spark).run(smaller, servers, declared_at)
        except AssertionError as found:
            case, problem, waiting = smaller, str(found), _smaller(smaller)
        except (Error, LookupError):  # it lacks a view that another reads, or a row
            continue
    return f"{servers} servers, declared before batch {declared_at}\n{pformat(case)}\n{problem}"


def _smaller(case: Case) -> Iterator[Case]:
    for i in reversed(range(len(case.views))):
        if len(case.views) > 1:
            yield replace(case, views=case.views[:i] + case.views[i + 1 :])
    for i, batch in enumerate(case.batches):
        for j in range(len(batch)):
            left = batch[:j] + batch[j + 1 :]
            yield replace(case, batches=(*case.batches[:i], left, *case.batches[i + 1 :]))
        for j, operation in enumerate(batch):
            for n in range(len(operation.rows) if len(operation.rows) > 1 else 0):
                fewer = replace(operation, rows=operation.rows[:n] + operation.rows[n + 1 :])
                yield replace(case, batches=(*case.batches[:i], (*batch[:j], fewer, *batch[j + 1 :]),
                                             *case.batches[i + 1 :]))  # fmt: skip


def coverage(reached: Counter[str]) -> str:
    """What was reached, and which functions were not, to be read."""
    lines = [f"{times:9,} {name}" for name, times in reached.most_common()]
    missing = sorted(name for name in CALLED if not reached[f"{name}()"])
    return "\n".join([*lines, f"functions not reached: {', '.join(missing) or 'none'}"])


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(description="Random queries and histories against Spark.")
    parser.add_argument("--pairs", type=int, default=3_000, help="how many queries with a history (3000)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same pairs (1)")
    wanted = parser.parse_args(arguments)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.defaultJavaOptions", JAVA_OPTIONS)
        .config(map=socket_settings())
        .getOrCreate()
    )
    started = time.monotonic()
    print(coverage(pairs(spark, wanted.pairs, wanted.seed)))
    print(f"no difference, seed {wanted.seed}, {time.monotonic() - started:.0f} s")
    spark.stop()


if __name__ == "__main__":
    main()
