"""How rows cross from one view server to another: few, large blocks of bytes, whatever the rows are of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

Label = str | int
"""Whose rows they are: a target's name, or a part's subscript."""

LabelledRows = tuple[Label, list[pa.Array], np.ndarray]
"""Rows of one label: their columns, and the hashes (uint64, a row each) by which they found their server."""


def encode(shares: Sequence[LabelledRows]) -> pa.Buffer:
    """Shares of one shape as an Arrow IPC stream of one batch: a batch of each share's own would cost more than its
    rows, where there are many.  Which rows are whose stands in the metadata."""
    runs = [(label, len(hashes)) for label, _, hashes in shares]
    _, columns, hashes = shares[0]
    if len(shares) > 1:
        columns = [pa.concat_arrays([share[1][i] for share in shares]) for i in range(len(columns))]
        hashes = np.concatenate([share[2] for share in shares])
    names = [*map(str, range(len(columns))), "h"]
    batch = pa.RecordBatch.from_arrays([*columns, pa.array(hashes)], names=names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema.with_metadata({"runs": json.dumps(runs)})) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def decode(payload: pa.Buffer) -> Iterator[LabelledRows]:
    """The inverse of `encode`; shares the payload's memory."""
    reader = pa.ipc.open_stream(payload)
    runs, batch, at = json.loads(reader.schema.metadata[b"runs"]), reader.read_next_batch(), 0
    columns, hashes = batch.columns[:-1], batch.columns[-1].to_numpy()
    for label, rows in runs:
        yield label, [column.slice(at, rows) for column in columns], hashes[at : at + rows]
        at += rows
