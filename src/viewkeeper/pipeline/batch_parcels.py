"""What the view servers of a batch or a fill send each other.

A *parcel* is all that one task sends to one server: pairs of a target and its payload, the rows' columns, weights and
key hashes (`jobs.parcels`).  A receiver that is not concerned with a target passes its payload on as it is; so it does
with the receipts for the driver.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.jobs import parcels, ring
from viewkeeper.maintenance.task import Sent
from viewkeeper.trace.receipt import Receipt
from viewkeeper.trace.rows import Rows

BatchParcel = list[tuple[str, pa.Buffer] | Receipt]


def encode(target: str, sent: Sent) -> tuple[str, pa.Buffer]:
    """`sent` as an item of a parcel."""
    columns = [*sent.rows.columns, pa.array(sent.rows.weights)]
    return target, parcels.encode([(target, columns, sent.hashes)])


def decode(payload: pa.Buffer) -> Sent:
    """The inverse of `encode`; shares the payload's memory."""
    ((_, columns, hashes),) = parcels.decode(payload)
    return Sent(Rows(columns[:-1], columns[-1].to_numpy()), hashes)


def gather(parts: list[Sent]) -> Sent:
    """All rows of `parts` (at least one) as one block."""
    if len(parts) == 1:
        return parts[0]
    return Sent(Rows.concat([p.rows for p in parts]), np.concatenate([p.hashes for p in parts]))


def address(sent: dict[str, list[Sent]], servers: int) -> list[BatchParcel]:
    """One parcel a server: each row goes to the owner of its hash."""
    made: list[BatchParcel] = [[] for _ in range(servers)]
    for target, parts in sent.items():
        whole = gather(parts)
        for server, positions in enumerate(ring.split(whole.hashes, servers)):
            if len(positions):
                made[server].append(encode(target, Sent(whole.rows.take(positions), whole.hashes[positions])))
    return made
