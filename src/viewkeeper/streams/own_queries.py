"""Parts of plain views that our own operators compute: a task of some milliseconds, where Spark SQL needs hundreds."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from viewkeeper.errors import ViewBroken
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_files import read_part
from viewkeeper.streams.query_parts import made_part
from viewkeeper.streams.query_rows import rows_of
from viewkeeper.streams.work import Outcome, QueryWork

OWN_ROWS = 1 << 20
"""Of more rows Spark SQL makes a part sooner: it uses all cores."""


def is_own(work: QueryWork) -> bool:
    """Whether `own_query` can compute the part, and had better."""
    if work.relation is None:
        return False
    return sum(p.rows for parts in work.pieces.values() for pieces in parts.values() for p in pieces) <= OWN_ROWS


def own_query(work: QueryWork) -> Outcome:
    """The part that `work` asks for, in a file that is durable; what raises in the query is `Outcome.error`."""
    started = time.monotonic()
    assert work.relation is not None
    tables = {id_: _table(work, name) for name, id_ in work.objects.items()}
    try:
        columns, length = rows_of(work.relation, tables, work.zone)
    except ViewBroken as broken:
        return Outcome(error=str(broken), seconds=time.monotonic() - started)
    block = Block(list(columns), np.zeros(length, dtype=np.uint64))
    return made_part(work, length, lambda: [block], started)


def _table(work: QueryWork, name: str) -> Block:
    """The rows of a name; of a part with PART_TIMESTAMP as the last column."""
    pieces = [piece for each in work.pieces[name].values() for piece in each]
    block = read_part(work.disk, pieces, work.columns[name])
    if name not in work.lengths:
        return block
    start = work.part * work.lengths[name] * 1_000_000
    return Block([*block.columns, pa.array(np.full(len(block), start, np.int64))], block.hashes)
