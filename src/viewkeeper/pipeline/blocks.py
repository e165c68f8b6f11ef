"""How rows cross from one view server to another: as few, large blocks of bytes.

A *parcel* is all that one task sends to one server: pairs of a target and its payload.  The payload of an exchange is
an Arrow IPC stream of one batch (the rows' columns, their weights, then the key hashes).  A receiver that is not
concerned with a target passes its payload on as it is.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from viewkeeper.jobs import ring
from viewkeeper.maintenance.task import Sent
from viewkeeper.trace.receipt import Receipt
from viewkeeper.trace.rows import Rows

RECEIPT = "receipt"
"""The target of the receipts, which the last zone's tasks hand to the driver."""

Parcel = list[tuple[str, bytes]]


def encode(sent: Sent) -> bytes:
    """`sent` as an Arrow IPC stream."""
    batch = sent.rows.to_batch()
    batch = pa.RecordBatch.from_arrays([*batch.columns, pa.array(sent.hashes)], names=[*batch.schema.names, "h"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def decode(payload: bytes) -> Sent:
    """The inverse of `encode`; shares the payload's memory."""
    batch = pa.ipc.open_stream(payload).read_next_batch()
    rows = Rows.from_batch(pa.RecordBatch.from_arrays(batch.columns[:-1], names=batch.schema.names[:-1]))
    return Sent(rows, batch.columns[-1].to_numpy())


def gather(parts: list[Sent]) -> Sent:
    """All rows of `parts` (at least one) as one block."""
    if len(parts) == 1:
        return parts[0]
    return Sent(Rows.concat([p.rows for p in parts]), np.concatenate([p.hashes for p in parts]))


def address(sent: dict[str, list[Sent]], servers: int) -> list[Parcel]:
    """One parcel a server: each row goes to the owner of its hash."""
    parcels: list[Parcel] = [[] for _ in range(servers)]
    for target, parts in sent.items():
        whole = gather(parts)
        for server, positions in enumerate(ring.split(whole.hashes, servers)):
            if len(positions):
                share = Sent(whole.rows.take(positions), whole.hashes[positions])
                parcels[server].append((target, encode(share)))
    return parcels


def seal(parcel: Parcel) -> bytes:
    """A parcel as one block of bytes."""
    return pickle.dumps(parcel, protocol=pickle.HIGHEST_PROTOCOL)


def open_all(sealed: Iterable[bytes]) -> Parcel:
    """The contents of several sealed parcels."""
    return [item for block in sealed for item in pickle.loads(block)]


def receipt_item(receipt: Receipt) -> tuple[str, bytes]:
    """A receipt, addressed to the driver."""
    return RECEIPT, pickle.dumps(receipt)


def receipts(parcel: Parcel) -> list[Receipt]:
    """The receipts in a parcel."""
    return [pickle.loads(payload) for target, payload in parcel if target == RECEIPT]
