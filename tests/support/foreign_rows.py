"""Rows as foreign programs see them: texts."""

from __future__ import annotations

from collections import Counter
from typing import Any

Found = Counter[tuple[Any, ...]]


def texts(rows: Any) -> Found:
    """Rows of a model as a foreign program sees them."""
    found: Found = Counter()
    for row in rows:
        found[tuple(None if value is None else str(value) for value in row)] += 1
    return found
