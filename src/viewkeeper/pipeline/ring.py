"""The hash ring: 256 intervals by the top 8 bits of a key's hash, each owned by one view server.

State files know nothing of the ring; moving an interval to another view server moves no data.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

INTERVALS = 256
_SHIFT = np.uint64(56)


@lru_cache(maxsize=16)
def owners(servers: int) -> np.ndarray:
    """The view server (0 .. servers - 1) of each interval: uint8[256], neighbours together."""
    if not 1 <= servers <= INTERVALS:
        raise ValueError(f"{servers} view servers: the ring has {INTERVALS} intervals, so 1 to {INTERVALS}")
    return (np.arange(INTERVALS) * servers // INTERVALS).astype(np.uint8)


def words(server: int, servers: int) -> tuple[int, int]:
    """The smallest and the greatest hash that `server` owns, both inclusive."""
    mine = np.flatnonzero(owners(servers) == server)
    return int(mine[0]) << 56, ((int(mine[-1]) + 1) << 56) - 1


def split(hashes: np.ndarray, servers: int) -> list[np.ndarray]:
    """The positions of the `hashes` (uint64[n]) that each server owns: one int64 array a server, in input order."""
    if servers == 1:
        return [np.arange(len(hashes))]
    owner = owners(servers)[(hashes >> _SHIFT).astype(np.intp)]
    return [np.flatnonzero(owner == server) for server in range(servers)]
