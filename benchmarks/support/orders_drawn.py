"""Orders that foreign programs write."""

from __future__ import annotations

import numpy as np

AT_ONCE = 100
"""So many rows are one call, acknowledged before the next."""

Row = tuple[int, int, str]
"""id, customer, price."""


def drawn(rows: int, keys: int, seed: int) -> list[Row]:
    """Rows of random orders among `keys`."""
    random = np.random.default_rng(seed)
    ids, prices = random.permutation(np.arange(rows) % keys), random.integers(1, 10_000, rows)
    return [(int(id_), int(id_) % 1_000, f"{price / 100:.2f}") for id_, price in zip(ids, prices, strict=True)]
