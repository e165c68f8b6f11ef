"""What Spark's workers look at when they collect garbage."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from viewkeeper.jobs.collections import WHOLE_SECONDS, Collections


class Cycle:
    """It refers to itself, so only a collection finds that nobody else does."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collections_as_before() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_is_there_before_a_task_is_left_alone_and_what_a_task_leaves_is_collected() -> None:
    kept = [Cycle()]
    Collections().spare(now=0.0)
    assert gc.get_freeze_count() > 0
    left = weakref.ref(Cycle())
    dropped = weakref.ref(kept.pop())
    gc.collect()
    assert left() is None
    assert dropped() is not None


def test_what_was_kept_and_dropped_is_collected_within_a_minute() -> None:
    collections = Collections()
    kept = [Cycle()]
    collections.spare(now=0.0)
    seen = weakref.ref(kept.pop())
    for now in (1.0, WHOLE_SECONDS - 1):
        collections.spare(now)
        gc.collect()
        assert seen() is not None
    collections.spare(WHOLE_SECONDS)
    gc.collect()
    assert seen() is None
    collections.spare(WHOLE_SECONDS + 1)
    assert gc.get_freeze_count() > 0
