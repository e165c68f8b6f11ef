"""Keys of few rows, which are all that tests have, read by what a change reaches in them, as large ones are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from viewkeeper.maintenance.operators import reached


@contextmanager
def by_reach(forced: bool) -> Iterator[None]:
    """So within the block, if `forced`."""
    with pytest.MonkeyPatch.context() as patch:
        if forced:
            patch.setattr(reached, "WHOLE_ROWS", 0)
            patch.setattr(reached, "_WHOLE_SHARE", 0)
        yield
