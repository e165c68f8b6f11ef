"""What a query has answered, as a part: written to a file, or found to be what the part was before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_files import PartWriter, read_part
from viewkeeper.streams.work import Made, Outcome, QueryWork
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import canonical
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.points import reached


def made_part(work: QueryWork, length: int, blocks: Callable[[], Iterable[Block]], started: float) -> Outcome:
    """The part that `work` asks for has `length` rows, those of `blocks()`: the same is in a file that is durable,
    unless a repair finds it as it was."""
    place = (work.view.id, work.part)
    if work.old is not None and _is_as_before(work, length, blocks):
        return Outcome({place: Made(work.old, np.zeros(0, dtype=np.uint64))}, (), time.monotonic() - started)
    name = file_name(work.version, work.epoch, 0, 0, work.attempt, "batch", "parquet")
    writer = PartWriter(work.disk, name, work.view.columns, work.zone, grouped=False)
    for block in blocks():
        writer.add(work.part, block)
    file, pieces = writer.finish()
    reached("part file written")
    return Outcome({place: Made(tuple(pieces.values()))}, () if file is None else (file,), time.monotonic() - started)


def _is_as_before(work: QueryWork, length: int, blocks: Callable[[], Iterable[Block]]) -> bool:
    assert work.old is not None
    if sum(piece.rows for piece in work.old) != length:
        return False
    before = read_part(work.disk, work.old, work.view.columns)
    return not length or _same_rows(before, Block.concat(list(blocks())))


def _same_rows(left: Block, right: Block) -> bool:
    """Whether two blocks of one length are the same bag of rows: NaN equals NaN, and -0.0 equals 0.0."""
    both = [canonical(pa.concat_arrays(pair)) for pair in zip(left.columns, right.columns, strict=True)]
    groups = group_rows(hash_columns(both, 2 * len(left)), both)
    weights = np.where(groups.order < len(left), 1, -1)
    return not np.add.reduceat(weights, groups.starts).any()
