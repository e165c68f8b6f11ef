"""Roll-up: many small files of an object become one larger; no part changes (paper 003, section 4.1).

Files are rolled up with others of about their size, as a trace's runs are merged: so each row is written again a few
times only, and what stays is a few dozen files, however many parts there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from viewkeeper.catalog.model import PartView
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.keeping.stage import Stage, new_files
from viewkeeper.streams.part_files import PartWriter, read_part
from viewkeeper.streams.parts import Part
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


@dataclass(frozen=True)
class _File:
    """A file of one object: how many rows of which parts stand in it."""

    run: RunRef
    parts: Mapping[int, int]

    @property
    def rows(self) -> int:
        return sum(self.parts.values())

    @property
    def cost(self) -> int:
        return self.rows + PART_COST * len(self.parts)


def roll_up(stage: Stage, epoch: int, attempt: int) -> None:
    """Rolls up what is worth it, as much as a round should; the rest is for the next one that tidies."""
    room = ROUND_ROWS
    for object_, grouped in _objects(stage).items():
        for files in _worth_it(stage, object_):
            if room <= 0:
                break
            room -= sum(file.cost for file in files)
            name = file_name(stage.snapshot.version + 1, epoch, 0, 0, attempt, "merge", "parquet")
            _write(stage, object_, files, grouped, name)
    if not stage.is_empty:
        reached("parts rolled up")


def _objects(stage: Stage) -> dict[int, bool]:
    """All that has parts, copies of dimension tables too, and whether the rows have groups."""
    found: dict[int, bool] = {}
    for item in stage.catalog.parts():
        found[item.id] = isinstance(item, PartView) and item.kind not in ("viewdf", "plain")
        if isinstance(item, PartView):
            found.update(dict.fromkeys((helper.id for helper in item.helpers), True))
            found.update(dict.fromkeys(item.dimensions, False))
    return found


def _worth_it(stage: Stage, object_: int) -> Iterator[list[_File]]:
    """Files that are to become one each time."""
    runs = [run for run in stage.snapshot.states.get(object_, ()) if run.rows < TARGET_ROWS]
    sparse = sum(run.rows for run in runs) > SPARSE * stage.index(object_).rows + TARGET_ROWS // 100
    if len(runs) < FAN_IN and not sparse:
        return
    files = _files(stage, object_, runs)
    by_size: dict[int, list[_File]] = {}
    for file in sorted(files, key=lambda file: (file.run.low, file.run.high)):
        if sparse and file.run.rows > SPARSE * file.rows:
            yield [file]
        elif file.rows < TARGET_ROWS // 2:
            by_size.setdefault(_size(file), []).append(file)
    for same in by_size.values():
        if len(same) >= FAN_IN:
            yield from _groups(same)


def _groups(files: list[_File]) -> Iterator[list[_File]]:
    """Neighbours, as many as make one file that is neither too large nor of too many."""
    group: list[_File] = []
    for file in files:
        group.append(file)
        if len(group) == FILES_MOST or sum(each.rows for each in group) >= TARGET_ROWS:
            yield group
            group = []
    if len(group) > 1:
        yield group


def _size(file: _File) -> int:
    """Sizes of which each is FAN_IN times the one before."""
    size, cost = 0, file.cost
    while cost >= FAN_IN * PART_COST:
        size, cost = size + 1, cost // FAN_IN
    return size


def _files(stage: Stage, object_: int, runs: Iterable[RunRef]) -> list[_File]:
    """The files of some runs, with what stands in them."""
    by_name = {run.file: run for run in runs}
    parts: dict[str, dict[int, int]] = {name: {} for name in by_name}
    low, high = min(run.low for run in by_name.values()), max(run.high for run in by_name.values())
    for part in stage.index(object_).with_rows(low, high):
        for piece in part.pieces:
            if piece.file in parts:
                inside = parts[piece.file]
                inside[part.part] = inside.get(part.part, 0) + piece.rows
    return [_File(by_name[name], inside) for name, inside in parts.items() if inside]


def _write(stage: Stage, object_: int, files: list[_File], grouped: bool, name: str) -> None:
    """Writes the pieces of `files` to a new one; each part has one piece there."""
    columns, zone = stage.columns[object_], stage.catalog.zone
    writer = PartWriter(stage.folder, name, columns, zone, grouped=grouped)
    chosen = {file.run.file for file in files}
    parts = [_part(stage, object_, number) for number in sorted({number for file in files for number in file.parts})]
    for part in parts:
        pieces = [piece for piece in part.pieces if piece.file in chosen]
        writer.add(part.part, _rows(stage, pieces, object_, grouped))
    ref, made = writer.finish(stage.snapshot.storage.publish)
    for part in parts:
        kept = tuple(piece for piece in part.pieces if piece.file not in chosen)
        stage.put(object_, part.part, (*kept, made[part.part]), updated=False)
    stage.files += new_files(object_, [] if ref is None else [ref], made.items())


def _part(stage: Stage, object_: int, number: int) -> Part:
    found = stage.index(object_).at(number)
    assert found is not None, "pieces stand in the part catalog"
    return found


def _rows(stage: Stage, pieces: list[Piece], object_: int, grouped: bool) -> Block:
    return read_part(stage.folder, pieces, stage.columns[object_], stage.catalog.zone, grouped=grouped)
