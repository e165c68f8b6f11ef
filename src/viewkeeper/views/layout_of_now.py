"""Doing something with a table that may be altered meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from viewkeeper.errors import LayoutChanged

_ATTEMPTS, _PAUSE_SECONDS = 5, 0.01
_Given = TypeVar("_Given")


def with_layout_of_now(do: Callable[[], _Given]) -> _Given:
    """What `do` gives, which looks the table up: where it is altered meanwhile, it is done once more."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return do()
        except LayoutChanged:
            time.sleep(_PAUSE_SECONDS)
    return do()
