"""Drawing one of several things quickly."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T", bound=Hashable)


@lru_cache(maxsize=1 << 14)
def _one_of(options: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    return st.sampled_from(options)


def pick(draw: st.DrawFn, options: Sequence[T]) -> T:
    """One of `options`, as by `st.sampled_from`: a case draws hundreds of times, and making the strategy anew takes
    longer than drawing."""
    return draw(_one_of(tuple(options)))  # type: ignore[no-any-return]
