"""Rows that cross from one view server to another."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from viewkeeper.jobs.parcels import decode, encode

rows = st.lists(st.tuples(st.none() | st.integers(-9, 9), st.none() | st.text(max_size=3)), max_size=5)
labels = st.integers(-9, 9) | st.text(max_size=3)


@settings(deadline=None)
@given(st.lists(st.tuples(labels, rows), min_size=1, max_size=4))
def test_what_is_sent_arrives(shares: list[tuple[str | int, list[tuple[int | None, str | None]]]]) -> None:
    """Every share arrives with its label, rows and hashes, in order, empty ones and repeated labels too."""
    sent = []
    for label, values in shares:
        columns = [pa.array([x for x, _ in values], pa.int64()), pa.array([s for _, s in values], pa.large_string())]
        sent.append((label, columns, np.arange(len(values), dtype=np.uint64) + np.uint64(2**63)))
    found = list(decode(pickle.loads(pickle.dumps(encode(sent)))))
    assert [label for label, _, _ in found] == [label for label, _, _ in sent]
    for (_, columns, hashes), (_, expected, words) in zip(found, sent, strict=True):
        assert [column.to_pylist() for column in columns] == [column.to_pylist() for column in expected]
        assert [column.type for column in columns] == [column.type for column in expected]
        assert hashes.tolist() == words.tolist()
