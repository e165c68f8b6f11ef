"""Measuring a system at one point of a figure: warm-up, the parts that count, and whether the last one is right."""

from __future__ import annotations

import shutil
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.support.report import number, say
from benchmarks.support.viewdf_minutes import FIRST, Minutes, Question
from benchmarks.support.viewdf_spark import HandCoded, SparkNaive, SparkStreaming
from benchmarks.support.viewdf_systems import DuckDb, GivenUp, System, Viewkeeper

CUT_SECONDS = 120.0
"""A part that takes longer cuts its point, and those to the right of it."""

OURS: type[System] = Viewkeeper
PATTERN_BASELINES: tuple[type[System], ...] = (HandCoded, SparkNaive, DuckDb)
WINDOW_BASELINES: tuple[type[System], ...] = (*PATTERN_BASELINES, SparkStreaming)


@dataclass(frozen=True)
class Probe:
    """What is asked of a system."""

    minutes: Minutes
    question: Question

    def __str__(self) -> str:
        return f"{self.question}, {self.minutes.rows:,} rows a part" + (
            f", {self.minutes.share:.0%} high" if self.question.kind == "pattern" else "")  # fmt: skip

    @property
    def history(self) -> int:
        """Parts that a window must have behind it, so that with each new one an old one leaves it."""
        return 0 if self.question.kind == "pattern" else self.question.window


@dataclass(frozen=True)
class Timing:
    """Mean `seconds` of `parts` parts, None where the point was cut, `cut` saying why."""

    seconds: float | None
    parts: int = 0
    slowest: float = 0.0
    right: bool = True
    cut: str = ""

    def __str__(self) -> str:
        if self.seconds is None:
            return f"cut: {self.cut}"
        return f"{number(self.seconds)} s" + ("" if self.right else ", WRONG")


class Measuring:
    """Measures each point of each system once, `timed` parts after `warm` ones; of baselines fewer, where they take
    longer than `budget` seconds together."""

    def __init__(self, folder: Path, warm: int, timed: int, budget: float) -> None:
        self.warm, self.timed, self.budget = warm, timed, budget
        self._folder = folder
        self.known: dict[tuple[str, Probe], Timing] = {}

    def measure(self, make: type[System], point: Probe) -> Timing:
        """The time of one system at one point."""
        if point.question.kind == "pattern" and not make.is_naive:
            point = replace(point, question=Question("pattern"))  # it knows no scope
        if (make.name, point) not in self.known:
            found = self.known[make.name, point] = self._measure(make, point)
            say(f"viewdf: {make.name}: {point}: {found}")
        return self.known[make.name, point]

    def largest_that_fits(self, make: type[System], smaller: Probe, cut: Probe) -> tuple[Probe, Timing] | None:
        """Between a point that was measured and one that was cut, as far as halving the way thrice finds it."""
        found = None
        for _ in range(3):
            middle = _between(smaller, cut)
            if middle in (smaller, cut):
                break
            timing = self.measure(make, middle)
            if timing.seconds is None:
                cut = middle
            else:
                found, smaller = (middle, timing), middle
        return found

    def _measure(self, make: type[System], point: Probe) -> Timing:
        folder = self._folder / "system"
        system = make(folder, point.minutes, point.question)
        try:
            return self._timed(system, point)
        except GivenUp as cut:
            return Timing(None, cut=str(cut))
        finally:
            system.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _timed(self, system: System, point: Probe) -> Timing:
        first = FIRST + point.history
        known_from = system.fill(FIRST, first - 1)
        # What has no state gets warm by one part.
        warm = 1 if system.is_naive else self.warm
        end = first + self.warm + self.timed
        begun, times = time.perf_counter(), list[float]()
        for part in range(end - warm - self.timed, end):
            times.append(system.take(part, CUT_SECONDS))
            is_ours = system.name == OURS.name
            if not is_ours and len(times) > 1 and time.perf_counter() - begun > self.budget:
                break
        counted = times[min(warm, len(times) - 1) :]
        part, table = system.rows()
        expected = point.minutes.expected(point.question, part, known_from)
        right = np.array_equal(point.minutes.comparable(table), expected)
        return Timing(statistics.fmean(counted), len(counted), max(counted), right)


def _between(low: Probe, high: Probe) -> Probe:
    """The point in the middle, in whatever they differ."""
    each = low.minutes.each
    rows = (low.minutes.rows + high.minutes.rows) // (2 * each) * each
    window = (low.question.window + high.question.window) // 2
    return Probe(replace(low.minutes, rows=rows), replace(low.question, window=window))
