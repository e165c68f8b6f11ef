"""Figures 6 to 12 of the ViewDF paper: patterns and sliding windows, from sealed to visible, beside other systems.

`--scale S` shrinks the axes (1: the paper's) and measures all their places, or with `--few` a few, 20 parts after 5.
Without it a few places, 5 parts after 3: patterns as large as the paper's, windows a twentieth.  `--figures
6,8,late,flat` chooses; `--ours` leaves the other systems out; `--plots FOLDER` draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.support import viewdf_history
from benchmarks.support.report import BenchReport, Series, number
from benchmarks.support.viewdf_figures import FIGURES, PATTERN_ROWS, WINDOW_ROWS, Drawn, PaperFigure, draw
from benchmarks.support.viewdf_measuring import CUT_SECONDS, OURS, Measuring, Probe, Timing
from benchmarks.support.viewdf_spark import warm_java
from benchmarks.support.viewdf_systems import System
from viewkeeper.errors import InputError

OTHERS = ("flat", "late")
BUDGET_SECONDS, QUICK_BUDGET_SECONDS = 120.0, 30.0


@dataclass(frozen=True)
class Extent:
    """How much is measured: the scale of the axes of patterns and of windows, and of `flat` and `late`; all places or
    `few`; so many parts."""

    patterns: float = 1.0
    windows: float = 0.05
    history: float = 0.1
    few: bool = True
    warm: int = 3
    timed: int = 5
    budget: float = QUICK_BUDGET_SECONDS
    parts: int = 100

    @staticmethod
    def of_scale(scale: float) -> Extent:
        """Everything, at one scale."""
        return Extent(scale, scale, scale, False, 5, 20, BUDGET_SECONDS)


SMALL = Extent(0.001, 0.0002, 0.001, True, 1, 1, 1.0, 12)


def options(arguments: Sequence[str]) -> dict[str, Any]:
    """The command line's arguments as those of `run`; raises InputError."""
    found: dict[str, Any] = {}
    waiting = list(arguments)
    while waiting:
        name, _, value = waiting.pop(0).partition("=")
        if name in ("--small", "--ours", "--few"):
            found[name.removeprefix("--")] = True
            continue
        if name not in ("--scale", "--figures", "--plots"):
            raise InputError(f"bench viewdf does not know {name!r}; it takes --scale S, --figures 6,8,late, "
                             "--plots FOLDER, --ours, --few and --small")  # fmt: skip
        if not value and not waiting:
            raise InputError(f"{name} needs a value")
        value = value or waiting.pop(0)
        found[name.removeprefix("--")] = {"--scale": _scale, "--figures": _figures, "--plots": Path}[name](value)
    return found


def run(
    folder: Path, small: bool, scale: float | None = None, figures: Sequence[str] | None = None,
    plots: Path | None = None, ours: bool = False, few: bool = False,
) -> BenchReport:  # fmt: skip
    """Runs the experiment, with all that it makes in `folder`, and draws its figures into `plots`."""
    extent = SMALL if small else Extent() if scale is None else Extent.of_scale(scale)
    extent = replace(extent, few=extent.few or few)
    chosen = figures or [*map(str, FIGURES), *OTHERS]
    warm_java()
    measuring = Measuring(folder, extent.warm, extent.timed, extent.budget)
    report = BenchReport("viewdf", _size(extent), "viewkeeper: rows, parts and commits synced; the others sync nothing")
    for figure in FIGURES.values():
        if str(figure.number) in chosen:
            drawn = _figure(measuring, replace(figure, baselines=()) if ours else figure, extent, report)
            if plots is not None:
                draw(drawn, plots / f"viewdf-{figure.number}.svg")
    _targets(measuring, report)
    if "flat" in chosen:
        viewdf_history.flat(folder, int(PATTERN_ROWS * extent.history), extent.parts, report)
    if "late" in chosen:
        viewdf_history.late(folder, int(PATTERN_ROWS * extent.history), extent.parts, report)
    report.note(f"mean of {extent.timed} parts after {extent.warm}; of a baseline as many as it does in "
                f"{extent.budget:g} s, what recomputes after 1; the table says how many")  # fmt: skip
    report.note(f"a part of more than {CUT_SECONDS:g} s, or more memory than there is, cuts its point and those behind")
    report.note("results: compared with what NumPy finds for the last part; of streaming for the last window given out")
    return report


def _figure(measuring: Measuring, figure: PaperFigure, extent: Extent, report: BenchReport) -> Drawn:
    scale = extent.patterns if figure.is_of_patterns else extent.windows
    drawn = Drawn(figure, scale)
    table = report.table(f"figure {figure.number}: {figure.title}", figure.axis, "system", "s a part", "slowest",
                         "parts", "results")  # fmt: skip
    for system in (OURS, *figure.baselines):
        line = drawn.lines[system.name] = []
        before: Probe | None = None
        for place in figure.few if extent.few else figure.places:
            point = figure.at(place, scale)
            if line and line[-1][1].seconds is None:
                timing = line[-1][1]  # more of the same takes longer
            else:
                timing = measuring.measure(system, point)
                if timing.seconds is None and before is not None:
                    _largest(measuring, system, before, point, table)
            line.append((place, timing))
            _add(table, number(drawn.x(place)), system.name, timing)
            before = point
    return drawn


def _largest(measuring: Measuring, system: type[System], fits: Probe, cut: Probe, table: Series) -> None:
    """Measures at the largest size that fits, and says so in a row of its own."""
    found = measuring.largest_that_fits(system, fits, cut)
    if found is not None:
        point, timing = found
        _add(table, f"largest that fits: {point}", system.name, timing)


def _add(table: Series, place: str, name: str, timing: Timing) -> None:
    if timing.seconds is None:
        table.add(place, name, f"cut: {timing.cut}", "", 0, "")
    else:
        table.add(place, name, timing.seconds, timing.slowest, timing.parts, "equal" if timing.right else "WRONG")


def _targets(measuring: Measuring, report: BenchReport) -> None:
    """What is promised, as far as it was measured: of the paper's sizes, and of long windows against short ones."""
    ours = {point: timing.seconds for (name, point), timing in measuring.known.items()
            if name == OURS.name and timing.seconds is not None}  # fmt: skip
    for point, seconds in ours.items():
        kind, full = point.question.kind, WINDOW_ROWS if point.question.window else PATTERN_ROWS
        if point.minutes.rows != full:
            continue
        if kind != "pattern":
            report.figure(str(point), seconds, "s", at_most=10)
        elif point.minutes.share in (0.1, 1.0):
            report.figure(str(point), seconds, "s", at_most=1 if point.minutes.share == 0.1 else 2)
    for point, seconds in ours.items():
        short = replace(point, question=replace(point.question, window=5))
        if point.question.window == 100 and short in ours:
            report.figure(f"{point.question.kind}, window 100 against 5", seconds / ours[short], "times", at_most=1.3)


def _size(extent: Extent) -> str:
    patterns, windows = int(PATTERN_ROWS * extent.patterns), int(WINDOW_ROWS * extent.windows)
    history = int(PATTERN_ROWS * extent.history)
    return f"rows a part: patterns up to {patterns:,}, windows up to {windows:,}, history and late rows {history:,}"


def _scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= 1:
        raise InputError(f"--scale {text}: a number above 0 and up to 1, which is the paper's size")
    return scale


def _figures(text: str) -> list[str]:
    known = [*map(str, FIGURES), *OTHERS]
    wanted = text.split(",")
    wrong = [each for each in wanted if each not in known]
    if wrong:
        raise InputError(f"--figures {text}: there is no {wrong[0]!r}; there are {', '.join(known)}")
    return wanted
