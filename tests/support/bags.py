"""Rows as bags, to be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from viewkeeper.checker.value_rules import canonical


def bag(rows: Iterable[Iterable[Any]]) -> Counter[tuple[Any, ...]]:
    """How often each row is there; every NaN is one, and both zeros are."""
    return Counter(tuple(canonical(value) for value in row) for row in rows)
