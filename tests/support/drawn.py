"""How many examples a test of properties draws, and examples without a test of properties."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from hypothesis import settings
from hypothesis.control import BuildContext
from hypothesis.internal.conjecture.data import ConjectureData, StopTest
from hypothesis.strategies import SearchStrategy

_T = TypeVar("_T")


def examples(number: int) -> int:
    """`number` where each run draws others (`--hypothesis-profile=random`); a quarter where each draws the same ones,
    which find in a later run no more than in the first."""
    return max(number // 4, min(number, 5)) if settings.default.derandomize else number


def drawn(chance: Random, strategy: SearchStrategy[_T]) -> _T:
    """An example as the strategy has it: hypothesis's own search would vary a few of them, to which it returns."""
    while True:
        data = ConjectureData(random=Random(chance.random()))
        try:
            with BuildContext(data, is_final=False, wrapped_test=None):
                return data.draw(strategy)
        except StopTest:
            continue
