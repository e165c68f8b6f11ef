"""How many examples a test of properties draws."""

from __future__ import annotations

from hypothesis import settings


def examples(number: int) -> int:
    """`number` where each run draws others (`--hypothesis-profile=random`); a quarter where each draws the same ones,
    which find in a later run no more than in the first."""
    return max(number // 4, min(number, 5)) if settings.default.derandomize else number
