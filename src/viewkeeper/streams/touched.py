"""`Touched`: groups whose rows are to be computed, or have changed; and rows chosen by the hash of their group."""

from __future__ import annotations

import numpy as np

from viewkeeper.streams.blocks import Block
from viewkeeper.trace.grouping import spread

Touched = np.ndarray | None
"""Hashes of groups (uint64, ascending, distinct); None: all."""


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


def _rows(block: Block, touched: np.ndarray) -> np.ndarray:
    starts = np.searchsorted(block.hashes, touched)
    return spread(starts, np.searchsorted(block.hashes, touched, side="right") - starts)
