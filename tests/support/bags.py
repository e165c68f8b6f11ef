"""Tables as bags of rows, to be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from viewkeeper.checker.values import canonical


def bag(rows: Sequence[tuple[Any, ...]]) -> Counter:
    return Counter(tuple("NaN" if v != v else canonical(v) for v in row) for row in rows)
