"""How the hashes of groups are divided among view servers, and rows chosen by hash."""

from __future__ import annotations

import numpy as np

from viewkeeper.streams.blocks import Block
from viewkeeper.trace.grouping import spread

Touched = np.ndarray | None
"""Hashes (uint64, ascending, distinct); None: all."""


def interval(server: int, servers: int) -> tuple[int, int]:
    """The smallest and the greatest hash that `server` (0 .. servers - 1) owns, both inclusive."""
    return _bound(server, servers), _bound(server + 1, servers) - 1


def split(hashes: np.ndarray, servers: int) -> list[np.ndarray]:
    """The positions of the `hashes` (uint64[n]) that each server owns, in input order."""
    if servers == 1:
        return [np.arange(len(hashes))]
    bounds = np.array([_bound(server, servers) for server in range(1, servers)], dtype=np.uint64)
    owner = np.searchsorted(bounds, hashes, side="right")
    return [np.flatnonzero(owner == server) for server in range(servers)]


def within(touched: Touched, low: int, high: int) -> Touched:
    """Those from `low` to `high`."""
    if touched is None:
        return None
    start, stop = np.searchsorted(touched, np.uint64(low)), np.searchsorted(touched, np.uint64(high), side="right")
    return touched[start:stop]


def union(one: Touched, other: Touched) -> Touched:
    """All of both."""
    return None if one is None or other is None else np.union1d(one, other)


def chosen(block: Block, touched: Touched) -> Block:
    """The rows of `block` (sorted by hash) whose hash is one of `touched`."""
    return block if touched is None else block.take(_rows(block, touched))


def left_out(block: Block, touched: np.ndarray) -> Block:
    """The rows of `block` (sorted by hash) whose hash is none of `touched`."""
    keep = np.ones(len(block), dtype=bool)
    keep[_rows(block, touched)] = False
    return block.filter(keep)


def are_in(hashes: np.ndarray, touched: np.ndarray) -> np.ndarray:
    """bool[n]: which of `hashes` (any order) are in `touched`."""
    at = np.searchsorted(touched, hashes)
    found = np.zeros(len(hashes), dtype=bool)
    inside = at < len(touched)
    found[inside] = touched[at[inside]] == hashes[inside]
    return found


def are_within(hashes: np.ndarray, low: int, high: int) -> np.ndarray:
    """bool[n]: which of `hashes` lie from `low` to `high`."""
    return (hashes >= np.uint64(low)) & (hashes <= np.uint64(high))


def _rows(block: Block, touched: np.ndarray) -> np.ndarray:
    starts = np.searchsorted(block.hashes, touched)
    return spread(starts, np.searchsorted(block.hashes, touched, side="right") - starts)


def _bound(server: int, servers: int) -> int:
    return -(-(server << 64) // servers)
