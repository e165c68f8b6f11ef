"""Who owns which hashes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from viewkeeper.jobs.ring import INTERVALS, interval, split

servers = st.integers(1, 7) | st.integers(1, INTERVALS)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1)), servers)
@example([], INTERVALS)
def test_every_hash_has_one_server(hashes: list[int], servers: int) -> None:
    """The intervals of the view servers make up all hashes, and rows go to the one in whose interval they lie."""
    intervals = [interval(server, servers) for server in range(servers)]
    assert (intervals[0][0], intervals[-1][1]) == (0, 2**64 - 1)
    assert all(one[1] + 1 == other[0] for one, other in zip(intervals, intervals[1:], strict=False))
    edges = [edge for each in intervals for edge in each]
    array = np.array([*hashes, *edges], dtype=np.uint64)
    order = np.argsort(array, kind="stable")
    starts = np.searchsorted(array[order], np.array([low for low, _ in intervals], dtype=np.uint64))
    for rows, mine in zip(split(array, servers), np.split(order, starts[1:]), strict=True):
        assert rows.tolist() == sorted(mine.tolist())


@pytest.mark.parametrize("servers", [0, INTERVALS + 1])
def test_there_are_no_more_servers_than_intervals(servers: int) -> None:
    """A number of view servers that the ring cannot seat is refused, and the message says which it can."""
    with pytest.raises(ValueError, match="4,096 intervals"):
        interval(0, servers)
