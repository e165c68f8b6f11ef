"""Roll-up: many small files of an object become one larger; no part changes (paper 003, section 4.1).

Files are rolled up with others of about their size, as a trace's runs are merged: so each row is written again a few
times only, and what stays is a few dozen files, however many parts there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from viewkeeper.catalog.model import PartView
from viewkeeper.plans.viewdf import QueryPlan
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.keeping.stage import RoundStage, new_files
from viewkeeper.streams.part_files import PartWriter, read_part
from viewkeeper.streams.part_index import Part
from viewkeeper.streams.work import Piece
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.points import reached
from viewkeeper.trace.receipt import RunRef

FAN_IN = 16
"""Where there are so many files of one size, they are rolled up."""

FILES_MOST = 64
"""Files that are rolled up into one, at most."""

PART_COST = 32
"""Rows that a part is worth: its row of the part catalog is written again too."""

TARGET_ROWS = 2_000_000
"""Files of that many rows, about, are large."""

ROUND_ROWS = 1_000_000
"""Rows that one round rolls up, about: other parts wait for it meanwhile."""

SPARSE = 2
"""Where the files of an object have so many times the rows that its parts have, those with dead rows are written
again."""


def roll_up(stage: RoundStage, epoch: int, attempt: int) -> None:
    """Rolls up what is worth it, as much as a round should; the rest is for the next one that tidies."""
    room = ROUND_ROWS
    for object_, grouped in _objects(stage).items():
        for runs in _worth_it(stage, object_):
            if room <= 0:
                break
            room -= sum(map(_cost, runs))
            name = file_name(stage.snapshot.version + 1, epoch, 0, 0, attempt, "merge", "parquet")
            _write(stage, object_, runs, grouped, name)
    if not stage.is_empty:
        reached("parts rolled up")


def _objects(stage: RoundStage) -> dict[int, bool]:
    """All that has parts, copies of dimension tables too, and whether the rows have groups."""
    found: dict[int, bool] = {}
    for item in stage.catalog.in_parts:
        found[item.id] = isinstance(item, PartView) and not isinstance(item.plan, QueryPlan)
        if isinstance(item, PartView):
            found.update(dict.fromkeys((helper.id for helper in item.helpers), True))
            found.update(dict.fromkeys(item.dimensions, False))
    return found


def _worth_it(stage: RoundStage, object_: int) -> Iterator[list[RunRef]]:
    """Files that are to become one each time, as far as the manifest tells: it is looked at often."""
    runs = [run for run in stage.snapshot.states.get(object_, ()) if run.rows < TARGET_ROWS]
    sparse = _sparse(stage, object_, runs)
    yield from ([run] for run in sparse)
    by_size: dict[int, list[RunRef]] = {}
    for run in sorted(runs, key=lambda run: (run.low, run.high)):
        if run not in sparse and run.rows < TARGET_ROWS // 2:
            by_size.setdefault(_size(run), []).append(run)
    for same in by_size.values():
        if len(same) >= FAN_IN:
            yield from _groups(same)


def _sparse(stage: RoundStage, object_: int, runs: list[RunRef]) -> list[RunRef]:
    """Files of which most rows are dead, if dead rows take much room."""
    if sum(run.rows for run in runs) <= SPARSE * stage.index(object_).rows + TARGET_ROWS // 100:
        return []
    live = {run.file: 0 for run in runs}
    counted: set[Piece] = set()  # parts that share a piece may stand in several rows of the catalog
    for part in stage.index(object_).runs(min(run.low for run in runs), max(run.high for run in runs)):
        for piece in part.pieces:
            if piece.file in live and piece not in counted:
                counted.add(piece)
                live[piece.file] += piece.rows
    return [run for run in runs if run.rows > SPARSE * live[run.file]]


def _groups(runs: list[RunRef]) -> Iterator[list[RunRef]]:
    """Neighbours, as many as make one file that is neither too large nor of too many."""
    group: list[RunRef] = []
    for run in runs:
        group.append(run)
        if len(group) == FILES_MOST or sum(each.rows for each in group) >= TARGET_ROWS:
            yield group
            group = []
    if len(group) > 1:
        yield group


def _size(run: RunRef) -> int:
    """Sizes of which each is FAN_IN times the one before."""
    size, cost = 0, _cost(run)
    while cost >= FAN_IN * PART_COST:
        size, cost = size + 1, cost // FAN_IN
    return size


def _cost(run: RunRef) -> int:
    return run.rows + PART_COST * min(run.rows, run.high - run.low + 1)


def _write(stage: RoundStage, object_: int, runs: list[RunRef], grouped: bool, name: str) -> None:
    """Writes the pieces in the files of `runs` to a new one; each part has one piece there, equal parts share it."""
    writer = PartWriter(stage.disk, name, stage.columns[object_], stage.catalog.zone, grouped=grouped)
    chosen = {run.file for run in runs}
    parts = []
    written: dict[tuple[Piece, ...], int] = {}
    for part in _rows_of_catalog(stage, object_, runs):
        pieces = tuple(piece for piece in part.pieces if piece.file in chosen)
        if pieces:
            parts.append((part, pieces))
            if pieces not in written:
                written[pieces] = part.part
                writer.add(part.part, _rows(stage, pieces, object_, grouped))
    ref, made = writer.finish()
    places = []
    for part, pieces in parts:
        kept = tuple(piece for piece in part.pieces if piece.file not in chosen)
        piece = made[written[pieces]]
        stage.put(object_, part.part, (*kept, piece), last=part.last, updated=False)
        places += [(part.part, piece), (part.last, piece)]
    stage.files += new_files(object_, [] if ref is None else [ref], places)


def _rows_of_catalog(stage: RoundStage, object_: int, runs: list[RunRef]) -> list[Part]:
    """What the part catalog says of the parts that may have rows in the files of `runs`, whole."""
    index = stage.index(object_)
    found = index.runs(min(run.low for run in runs), max(run.high for run in runs))
    whole = (index.at(part.part) for part in found)
    return [part for part in whole if part is not None]


def _rows(stage: RoundStage, pieces: Sequence[Piece], object_: int, grouped: bool) -> Block:
    return read_part(stage.disk, pieces, stage.columns[object_], grouped=grouped)
