"""What each way of computing a window would cost, roughly: rows of pre-aggregates read, put together and written.

Measured on one core: putting a row of pre-aggregates in its place costs about as much as reading or writing one, and
a tenth of what it costs to pre-aggregate a row of the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from viewkeeper.plans.window import ADDITIVE, BLOCKS, CUMULATIVE, MERGE, ROWS, RUNNING, Layout, Window, WindowPiece

SOURCE_ROW_SECONDS = 4e-7
GROUP_ROW_SECONDS = 1.5e-7
NAIVE = "naive"


@dataclass(frozen=True)
class Sizes:
    """Of a source: rows and groups in a part, and groups in a whole window (None: as in a part)."""

    rows: float = 1_000_000
    groups: float = 100_000
    window_groups: float | None = None


@dataclass(frozen=True)
class Candidate:
    """A strategy and its estimated seconds a part, on one core, beyond the pre-aggregation that all but naive share."""

    strategy: str
    seconds: float
    note: str


def candidates(layout: Layout, window: int, levels: int, sizes: Sizes) -> list[Candidate]:
    """The strategies that can compute what `layout` keeps, the cheapest first; naive recomputation for comparison."""
    part = sizes.groups
    whole = max(part, part if sizes.window_groups is None else sizes.window_groups)
    scale = GROUP_ROW_SECONDS * max(1, len(layout.columns) / 4)
    found = [Candidate(MERGE, scale * (window * part + whole), f"reads {window} parts of pre-aggregates")]
    kinds = {slot.kind for slot in layout.slots}
    if kinds <= ADDITIVE and ROWS in kinds:
        note = "reads its own last part, the part that comes and the part that leaves"
        found.append(Candidate(RUNNING, scale * (2 * part + 3 * whole), note))
        if not layout.values:
            note = "reads two cumulated parts; a late row touches every later part of its helper"
            found.append(Candidate(CUMULATIVE, scale * (part + 6 * whole), note))
    if not kinds & {"count", "sum", "squares"} and not layout.values and levels:
        reads = levels + 1.5
        note = f"reads at most {2 * levels + 2} blocks of 1 to {2**levels} parts"
        blocks = min(window, reads)
        found.append(Candidate(BLOCKS, scale * ((blocks + 3) * min(whole, 2 * part) + whole), note))
    found.sort(key=lambda each: (each.seconds, each.strategy))
    naive = SOURCE_ROW_SECONDS * sizes.rows * (window - 1)
    return [*found, Candidate(NAIVE, naive, f"recomputes from {window} parts of the source; a ViewDF would")]


def candidates_text(
    plan: Window, piece: WindowPiece, levels: int, sizes: Sizes, measured: float | None
) -> Iterator[str]:  # fmt: skip
    """The strategies for a piece, for people, the chosen one marked; `measured` is what the view took last."""
    yield f"  strategies, with about {sizes.rows:.3g} rows and {sizes.groups:.3g} groups a part:"
    for each in candidates(piece.layout, plan.window, levels, sizes):
        chosen = each.strategy == piece.strategy
        last = f", last measured {measured:.3g} s" if chosen and measured is not None else ""
        forced = " (by hint)" if chosen and plan.hint == piece.strategy else ""
        more = "" if each.strategy != NAIVE else ", with the rows aggregated again"
        mark = "*" if chosen else " "
        yield f"  {mark} {each.strategy}{forced}: about {each.seconds:.3g} s a part{last}; {each.note}{more}"
