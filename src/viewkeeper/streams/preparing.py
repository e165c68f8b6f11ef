"""The first step of a shuffled program's work: slices of the source's parts are prepared, and go to their servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.jobs import parcels
from viewkeeper.jobs.ring import are_within, split
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.calling import called, require_shape
from viewkeeper.streams.part_files import ROW_GROUP_ROWS, read_part, read_piece
from viewkeeper.streams.part_program import Dividing, Shuffled
from viewkeeper.streams.touched import Touched, are_in, union
from viewkeeper.streams.work import GREATEST_HASH, PartWork, Piece
from viewkeeper.trace.disk import Disk

SLICE_ROWS = 2 * ROW_GROUP_ROWS
"""Rows that one task prepares, about: whole row groups, where a part is large."""

WIDE_SLICE_ROWS = 1 << 21
"""The same where a view server prepares all for itself: the fewer slices, the fewer groups stand in several."""

DIRECT_SERVERS = 4
"""Up to so many view servers each prepare the whole source and keep their interval, in one stage: reading and hashing
rows that another server needs costs less than Python, the JVM and Python again, which a shuffle leads rows through.
Measured with two servers on two busy cores, 1,000,000 rows of a pattern: 0.6 s in place of 1.2 s."""

SMALL_ROWS = 200_000
"""Up to so many rows of its source a shuffled program's work is one task: a second stage costs more than a second core
saves.  Measured on two busy cores, a sum by group: one task 0.55 s, two stages 0.85 s."""

SMALL_GROUPED_ROWS = 50_000
"""The same for a program without a shuffle, where more view servers cost no stage."""

Slice = tuple[int, Piece]
"""A part of the source, and some of its rows."""


def servers_for(work: PartWork, servers: int) -> int:
    """How many view servers a work is worth."""
    if _is_small_repair(work) and is_direct(work, servers):
        return 1
    if isinstance(work.program, Shuffled):
        return 1 if sum(piece.rows for _, piece in _pieces(work)) <= SMALL_ROWS else servers
    inputs = {each.object for each in work.program.inputs}
    rows = sum(piece.rows for (object_, _), pieces in work.pieces.items() if object_ in inputs for piece in pieces)
    return 1 if rows <= SMALL_GROUPED_ROWS else servers


def _is_small_repair(work: PartWork) -> bool:
    """Whether so few groups are touched that one view server is as quick as several, which would all read as much."""
    if work.touched is None:
        return False
    hashes = [touched for touched in work.touched.values() if touched is not None]
    return len(hashes) == len(work.touched) and sum(map(len, hashes)) <= SMALL_GROUPED_ROWS


def is_direct(work: PartWork, servers: int) -> bool:
    """Whether the view servers need nothing of each other, and the work is a single stage."""
    return servers <= DIRECT_SERVERS or not isinstance(work.program, Shuffled)


def touched_anywhere(work: PartWork) -> Touched:
    """The hashes that may be touched in any part of a work: no others are ever reached."""
    if work.touched is None:
        return None
    whole: Touched = np.zeros(0, dtype=np.uint64)
    for touched in work.touched.values():
        whole = union(whole, touched)
    return whole


def prepared_parts(work: PartWork) -> list[int]:
    """The parts whose source is prepared in the first step: those certain to be computed."""
    if not isinstance(work.program, Shuffled):
        return []
    return [part for part in work.parts if work.touched is None or part in work.touched]


def prepare_tasks(work: PartWork) -> list[list[Slice]]:
    """Slices for the first step, as many in a task as make up `SLICE_ROWS`."""
    tasks: list[list[Slice]] = []
    room = 0
    for part, piece in _pieces(work):
        for each in _slices(part, piece, SLICE_ROWS):
            if not tasks or room < each[1].rows:
                tasks.append([])
                room = SLICE_ROWS
            tasks[-1].append(each)
            room -= each[1].rows
    return tasks


def run_prepare(work: PartWork, slices: Sequence[Slice], servers: int) -> list[pa.Buffer | None]:
    """For each server what it gets of some slices (`jobs.parcels`); None: nothing.  Raises ProgramFailed."""
    reachable = touched_anywhere(work)
    shares: list[list[parcels.LabelledRows]] = [[] for _ in range(servers)]
    for part, piece in slices:
        block = _prepared(work, part, piece, reachable)
        for share, rows in zip(shares, split(block.hashes, servers), strict=True):
            if len(rows):
                mine = block if len(rows) == len(block) else block.take(rows)
                share.append((part, mine.columns, mine.hashes))
    return [parcels.encode(share) if share else None for share in shares]


def prepare_here(work: PartWork, part: int, low: int, high: int, touched: Touched) -> list[Block]:
    """The prepared rows of a part whose hash lies from `low` to `high` and is touched.  Raises ProgramFailed."""
    blocks: list[Block] = []
    if touched is not None and not are_within(touched, low, high).any():
        return blocks  # a late row is read for by one server only
    for piece in work.pieces.get((work.program.inputs[0].object, part), ()):
        for _, slice_ in _slices(part, piece, WIDE_SLICE_ROWS):
            blocks.append(_prepared(work, part, slice_, touched, low, high))
    return blocks


def gathered(work: PartWork, payloads: Iterable[pa.Buffer]) -> dict[int, list[Block]]:
    """What a server was sent, by part; every part that was prepared is there."""
    rows: dict[int, list[Block]] = {part: [] for part in prepared_parts(work)}
    for payload in payloads:
        for part, columns, hashes in parcels.decode(payload):
            rows[int(part)].append(Block(columns, hashes))
    return rows


def _pieces(work: PartWork) -> Iterator[Slice]:
    for part in prepared_parts(work):
        for piece in work.pieces.get((work.program.inputs[0].object, part), ()):
            yield part, piece


def _slices(part: int, piece: Piece, rows: int) -> Iterator[Slice]:
    for start in range(0, piece.rows, rows):
        yield part, Piece(piece.file, piece.offset + start, min(rows, piece.rows - start))


def _prepared(
    work: PartWork, part: int, piece: Piece, touched: Touched, low: int = 0, high: int = GREATEST_HASH
) -> Block:
    """The prepared rows of a slice whose hash lies from `low` to `high` and is touched."""
    disk, program = work.disk, work.program
    rows = read_piece(disk, piece, work.columns[program.inputs[0].object])
    dimensions = _dimensions(work, part)
    assert isinstance(program, Shuffled), "the source of others is grouped"
    is_whole = touched is None and low == 0 and high == GREATEST_HASH

    def wanted(hashes: np.ndarray) -> np.ndarray:
        inside = are_within(hashes, low, high)
        return inside if touched is None else inside & are_in(hashes, touched)

    if isinstance(program, Dividing) and not is_whole:
        block = called(lambda: program.prepare_some(part, rows, dimensions, wanted))
    else:
        block = called(lambda: program.prepare(part, rows, dimensions))
    require_shape(block, program.prepared_columns(), f"what was prepared of part {part}")
    return block if is_whole else block.filter(wanted(block.hashes))


def _dimensions(work: PartWork, part: int) -> Mapping[int, Block]:
    return {
        id_: _dimension(work.disk, pieces, work.columns[id_], work.zone)
        for id_, pieces in work.dimensions.get(part, {}).items()
    }


@lru_cache(maxsize=16)
def _dimension(disk: Disk, pieces: tuple[Piece, ...], columns: tuple[Column, ...], zone: str) -> Block:
    """A dimension table; kept, since all slices of many parts read the same."""
    return read_part(disk, pieces, columns)
