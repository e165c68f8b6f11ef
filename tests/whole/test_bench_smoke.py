"""The benchmarks run, compare what they measure with the right answers, and say so."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pytest

import benchmarks
from benchmarks import many, tpch, viewdf, w3
from benchmarks.support import viewdf_history
from benchmarks.support.baselines import DuckDbRecompute, SparkRecompute, SqliteTriggers
from benchmarks.support.orders import Workload, differing
from benchmarks.support.report import BenchReport
from benchmarks.support.viewdf_minutes import FIRST, Minutes, Question
from viewkeeper.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKLOAD = Workload(orders=5_000, operations=8_000)


def test_the_workload_is_half_inserts_a_quarter_updates_and_a_quarter_deletes() -> None:
    """Deletes hit rows that are there, each once; updates hit rows that are there."""
    there = set(WORKLOAD.base.id.tolist())
    counts = {"insert": 0, "update": 0, "delete": 0}
    for delete, id_ in zip(WORKLOAD.operations.delete.tolist(), WORKLOAD.operations.id.tolist(), strict=True):
        counts["delete" if delete else "update" if id_ in there else "insert"] += 1
        if delete:
            there.remove(id_)
        else:
            there.add(id_)
    assert counts["delete"] == 2_000
    assert abs(counts["insert"] - 4_000) < 300
    assert set(WORKLOAD.orders_after(8_000).id.tolist()) == there


def test_the_expected_answers_are_what_a_plain_loop_finds() -> None:
    """`expected` is the judge of all systems, so it is judged itself."""
    orders = {}
    everything = [WORKLOAD.base, WORKLOAD.operations[:5_500]]
    for part in everything:
        rows = zip(part.delete.tolist(), part.id.tolist(), part.customer.tolist(), part.cents.tolist(), strict=True)
        for delete, id_, customer, cents in rows:
            if delete:
                del orders[id_]
            else:
                orders[id_] = customer, cents
    by_customer: dict[int, list[int]] = {}
    by_segment: dict[int, list[int]] = {}
    for customer, cents in orders.values():
        by_customer.setdefault(customer, []).append(cents)
        by_segment.setdefault(int(WORKLOAD.segment_of[customer]), []).append(cents)
    expected = {
        "spend": [[key, sum(values), len(values)] for key, values in sorted(by_customer.items())],
        "segments": [[key, sum(values), len(values)] for key, values in sorted(by_segment.items())],
        "extremes": [[key, min(values), max(values)] for key, values in sorted(by_customer.items())],
    }
    assert not differing({name: np.array(rows) for name, rows in expected.items()}, WORKLOAD.expected(5_500))


@pytest.mark.parametrize("baseline", [SqliteTriggers, DuckDbRecompute])
def test_a_baseline_holds_the_right_views_after_every_batch(
    baseline: type[SqliteTriggers] | type[DuckDbRecompute], tmp_path: Path
) -> None:
    """A baseline that computes something else would be no baseline."""
    system = baseline(tmp_path / "baseline")
    system.load(WORKLOAD)
    try:
        for done in range(0, 8_000, 2_000):
            system.apply(WORKLOAD.operations[done : done + 2_000])
            assert not differing(system.answers(), WORKLOAD.expected(done + 2_000))
    finally:
        system.close()


def test_a_report_prints_figures_beside_their_targets(capsys: pytest.CaptureFixture[str]) -> None:
    """What is missed is said to be missed, to people and to programs."""
    report = BenchReport("nothing", "no rows", "nothing synced")
    report.figure("speed", 5, "changes/s", at_least=10)
    report.figure("size", 5, "bytes", at_most=10)
    report.figure("weight", 5, "grams")
    report.print(as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert [figure["met"] for figure in said["figures"]] == [False, True, None]
    assert said["machine"]["cores"] >= 1
    report.print(as_json=False)
    assert "MISSED" in capsys.readouterr().out


def test_an_unknown_experiment_is_refused_by_name() -> None:
    """The message lists what there is."""
    with pytest.raises(InputError, match="no experiment 'w4'; there are: w3, "):
        benchmarks.run("w4", (), folder=None, as_json=False)


@pytest.mark.spark
def test_w3_compares_every_system_with_the_right_answer(spark: SparkSession, tmp_path: Path) -> None:
    """Each row of its table says "equal"."""
    report = w3.run(tmp_path, True, (SqliteTriggers, DuckDbRecompute))
    (speeds,) = report.series
    assert {row[1] for row in speeds.rows} == {"viewkeeper", SqliteTriggers.name, DuckDbRecompute.name}
    assert {row[-1] for row in speeds.rows} == {"equal"}


@pytest.mark.spark
def test_the_spark_baseline_leaves_the_session_that_is_there_alone(spark: SparkSession, tmp_path: Path) -> None:
    """It has the right views, and its tables and settings are its own."""
    tables = spark.catalog.listTables()
    before = spark.conf.get("spark.sql.shuffle.partitions")
    system = SparkRecompute(tmp_path / "baseline")
    system.load(WORKLOAD)
    assert not differing(system.answers(), WORKLOAD.expected(0))
    system.close()
    assert spark.catalog.listTables() == tables and spark.conf.get("spark.sql.shuffle.partitions") == before


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", ["latency", "many", "get", "scale", "memory", "fill", pytest.param("stores", marks=pytest.mark.stores)]
)
def test_an_experiment_runs_and_gives_its_figures(
    name: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small, so that the figures mean nothing; but all are there, and each promised one has its target."""
    monkeypatch.setattr(many, "BATCHES", 1)
    report = benchmarks.measure(name, small=True, folder=tmp_path)
    assert report.figures
    assert any(figure.target for figure in report.figures)
    assert all(np.isfinite(figure.value) for figure in report.figures)


def test_what_is_expected_of_a_pattern_is_what_a_plain_loop_finds() -> None:
    """`expected` is the judge of all systems, so it is judged itself: runs of four parts and more."""
    minutes, runs = Minutes(300, share=0.05), dict[tuple[str, str], list[int]]()
    for part in range(FIRST, FIRST + 40):
        for row in minutes.part(part).to_pylist():
            pair = (row["src"], row["dest"])
            runs[pair] = [*runs.get(pair, []), row["loss"]] if row["loss"] > 10 else []
    found = [(*pair, len(losses), sum(losses)) for pair, losses in runs.items() if len(losses) >= 4]
    assert found
    names = ["src", "dest", "ct", "sum_loss"]
    table = pa.table({name: [row[i] for row in found] for i, name in enumerate(names)})
    assert np.array_equal(minutes.comparable(table), minutes.expected(Question("pattern"), FIRST + 39))


@pytest.mark.parametrize(("kind", "function"), [("sum", sum), ("max", max)])
def test_what_is_expected_of_a_window_is_what_a_plain_loop_finds(
    kind: Literal["sum", "max"], function: Callable[[list[int]], int]
) -> None:
    """`expected` is the judge of all systems, so it is judged itself."""
    minutes, losses = Minutes(300, each=10), dict[tuple[str, str], list[int]]()
    for part in range(FIRST + 7, FIRST + 10):
        for row in minutes.part(part).to_pylist():
            losses.setdefault((row["src"], row["dest"]), []).append(row["loss"])
    table = pa.table({"src": [src for src, _ in losses], "dest": [dest for _, dest in losses],
                      "x": [function(values) for values in losses.values()]})  # fmt: skip
    assert np.array_equal(minutes.comparable(table), minutes.expected(Question(kind, 3), FIRST + 9))


def test_the_options_of_viewdf_are_read_and_refused_by_name() -> None:
    """A wrong figure or scale is said before anything is measured."""
    assert viewdf.options(["--scale=0.5", "--ours", "--few", "--figures", "6,late"]) == {
        "scale": 0.5, "ours": True, "few": True, "figures": ["6", "late"]}  # fmt: skip
    refused = {"--figures 5": "there is no '5'", "--scale 2": "up to 1", "--scale": "value", "--fast": "does not know"}
    for arguments, said in refused.items():
        with pytest.raises(InputError, match=said):
            viewdf.options(arguments.split())


@pytest.mark.spark
@pytest.mark.parametrize("figure", ["6", "9", "11"])
def test_viewdf_draws_a_figure_in_which_every_system_is_right(
    figure: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row of its table says "equal"; viewkeeper and all baselines are in it.  At one place of the axis."""
    drawn = viewdf.FIGURES[int(figure)]
    monkeypatch.setattr(viewdf, "FIGURES", {drawn.number: replace(drawn, few=drawn.few[-1:])})
    report = benchmarks.measure("viewdf", small=True, folder=tmp_path / "made", figures=[figure], plots=tmp_path)
    (table,) = report.series
    assert {row[-1] for row in table.rows} == {"equal"}
    assert len({row[1] for row in table.rows}) == (4 if figure == "6" else 5)
    assert "</svg>" in (tmp_path / f"viewdf-{figure}.svg").read_text()


@pytest.mark.spark
def test_viewdf_measures_late_rows(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each late row changes parts of its view: of a window as many as it has."""
    shorter = [replace(each, window=min(each.window, 25)) for each in viewdf_history.QUESTIONS]
    monkeypatch.setattr(viewdf_history, "QUESTIONS", shorter)
    report = benchmarks.measure("viewdf", small=True, folder=tmp_path, figures=["late"])
    (table,) = report.series
    assert [row[2] for row in table.rows[1:]] == [10, 25, 10, 25]
    assert all(figure.value > 0 for figure in report.figures)


@pytest.mark.spark
def test_tpch_keeps_its_queries_and_checks_them(spark: SparkSession, tmp_path: Path) -> None:
    """Two, alone and together, as Spark and DuckDB compute them; all eight tables change."""
    report = tpch.run(tmp_path, True, queries=(6, 18))
    alone, sizes, together = report.series
    assert [(row[0], *row[-2:]) for row in alone.rows] == [("Q6", "yes", "yes"), ("Q18", "yes", "yes")]
    assert all(row[-2] > 0 for row in sizes.rows), "the states of a view take some bytes"
    assert [row[-2:] for row in together.rows] == [("all", "")] * tpch.BATCHES + [("all", "all")]
    assert [figure.met for figure in report.figures if figure.met is not None] == [True, True, True]
