"""Figures 6 to 12 of paper 003: what lies on their axes, and their drawing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.support.viewdf_measuring import CUT_SECONDS, PATTERN_BASELINES, WINDOW_BASELINES, Probe, Timing
from benchmarks.support.viewdf_minutes import Minutes, Question, QuestionKind
from benchmarks.support.viewdf_systems import System

PATTERN_ROWS, WINDOW_ROWS = 1_000_000, 10_000_000
EACH = 10
"""Rows of a pair in a part, where windows are measured."""

FIXED_SCOPE, FIXED_WINDOW = 20, 10


@dataclass(frozen=True)
class PaperFigure:
    """One figure of the paper; `at` makes the point of a place on its axis, `few` are the places of a quick run."""

    number: int
    title: str
    axis: str
    places: Sequence[int]
    few: Sequence[int]
    at: Callable[[int, float], Probe]
    baselines: tuple[type[System], ...]

    @property
    def is_of_patterns(self) -> bool:
        """Whether it measures View1."""
        return self.number <= 8


def _pattern(rows: float, scope: int, percent: int = 10) -> Probe:
    return Probe(Minutes(max(int(rows), 100), percent / 100), Question("pattern", scope))


def _window(kind: QuestionKind, rows: float, window: int) -> Probe:
    return Probe(Minutes(max(int(rows) // EACH, 100) * EACH, each=EACH), Question(kind, window))


_FIFTHS = [20, 40, 60, 80, 100]
_WINDOWS = [5, 10, 25, 50, 100]


def _of_windows(number: int, kind: QuestionKind) -> tuple[PaperFigure, PaperFigure]:
    by_rows = PaperFigure(
        number, f"sliding {kind.upper()}, window {FIXED_WINDOW}", "rows a part",
        [p * WINDOW_ROWS // 100 for p in _FIFTHS], [WINDOW_ROWS // 5, WINDOW_ROWS],
        lambda rows, scale: _window(kind, rows * scale, FIXED_WINDOW), WINDOW_BASELINES,
    )  # fmt: skip
    by_window = PaperFigure(
        number + 1, f"sliding {kind.upper()}", "window (parts)", _WINDOWS, [5, 10, 100],
        lambda window, scale: _window(kind, WINDOW_ROWS * scale, window), WINDOW_BASELINES,
    )  # fmt: skip
    return by_rows, by_window


FIGURES: Mapping[int, PaperFigure] = {figure.number: figure for figure in (
    PaperFigure(6, f"View1, scope {FIXED_SCOPE}", "rows a part", [p * PATTERN_ROWS // 100 for p in _FIFTHS],
           [PATTERN_ROWS // 5, PATTERN_ROWS], lambda rows, scale: _pattern(rows * scale, FIXED_SCOPE),
           PATTERN_BASELINES),
    PaperFigure(7, "View1", "scope (parts)", [5, 10, 20, 50, 100], [5, 20, 50],
           lambda scope, scale: _pattern(PATTERN_ROWS * scale, scope), PATTERN_BASELINES),
    PaperFigure(8, "View1, scope 4", "rows with loss > 10 (%)", [10, 25, 50, 75, 100], [10, 100],
           lambda percent, scale: _pattern(PATTERN_ROWS * scale, 4, percent), PATTERN_BASELINES),
    *_of_windows(9, "max"), *_of_windows(11, "sum"),
)}  # fmt: skip


@dataclass
class Drawn:
    """What was measured of a figure: by system the places, rows in place of their share of the axis, and timings."""

    figure: PaperFigure
    scale: float
    lines: dict[str, list[tuple[int, Timing]]] = field(default_factory=dict)

    def x(self, place: int) -> int:
        """Where a place stands on the axis, with the scale of this run."""
        return int(place * self.scale) if self.figure.axis == "rows a part" else place


def draw(drawn: Drawn, path: Path) -> None:
    """Draws a figure as SVG; a point that was cut stands as a cross on the line of the limit."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    # The same figures give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "viewkeeper", "svg.fonttype": "none", "font.size": 9}):
        canvas = Canvas(figsize=(5.6, 3.6), layout="constrained")
        axes = canvas.add_subplot()
        for i, (name, line) in enumerate(drawn.lines.items()):
            whole = [(drawn.x(place), timing.seconds) for place, timing in line if timing.seconds is not None]
            color = f"C{i}"
            axes.plot([x for x, _ in whole], [seconds for _, seconds in whole], marker="o", markersize=4, color=color,
                      label=name, linewidth=2.4 if i == 0 else 1.2)  # fmt: skip
            cut = [drawn.x(place) for place, timing in line if timing.seconds is None]
            axes.plot(cut, [CUT_SECONDS] * len(cut), marker="x", linestyle="none", color=color)
        if any(timing.seconds is None for line in drawn.lines.values() for _, timing in line):
            axes.axhline(CUT_SECONDS, linestyle=":", color="grey", linewidth=1)
            axes.annotate(f"x: cut at {CUT_SECONDS:g} s, or out of memory", (0.01, CUT_SECONDS),
                          xycoords=("axes fraction", "data"), va="bottom", fontsize=7)  # fmt: skip
        axes.set_yscale("log")
        axes.set_xlim(left=0)
        axes.set_xlabel(drawn.figure.axis)
        axes.set_ylabel("seconds from sealed to visible")
        axes.set_title(f"{drawn.figure.title} (paper's figure {drawn.figure.number})", fontsize=10)
        axes.grid(True, which="major", linewidth=0.4)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        axes.legend(fontsize=7)
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
