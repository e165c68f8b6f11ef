"""Values of keys of every type, how plain Python sorts them, and hashes that collide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from viewkeeper.catalog.types import BIGINT, BINARY, BOOLEAN, DOUBLE, FLOAT, INT, STRING, decimal
from viewkeeper.trace import hashing

VALUES = {
    BOOLEAN: st.integers(0, 1),
    INT: st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.integers(-(2**63), 2**63 - 1),
    FLOAT: st.floats(width=32),
    DOUBLE: st.floats() | st.sampled_from([0.0, -0.0, math.nan, -math.nan]),
    decimal(9, 2): st.integers(-(10**9), 10**9),
    decimal(38, 4): st.decimals(-(10**33), 10**33, places=4),
    STRING: st.text(max_size=40),
    BINARY: st.binary(max_size=40),
}


def collide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave four hash values, so that collisions are the rule."""
    whole, whole_value = hashing.finish, hashing.finish_value
    monkeypatch.setattr(hashing, "finish", lambda state: whole(state) & np.uint64(3 << 62))
    monkeypatch.setattr(hashing, "finish_value", lambda state: whole_value(state) & 3 << 62)


def plain(value: object) -> object:
    """A value by which Python sorts and compares as keys do: (is not NULL, is NaN, value)."""
    if value is None:
        return (0, 0, 0)
    if isinstance(value, float):
        return (1, 1, 0) if value != value else (1, 0, value + 0.0)
    return (1, 0, value.encode() if isinstance(value, str) else value)
