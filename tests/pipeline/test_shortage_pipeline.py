"""A shortage of the machine is waited for; it stops a view only where its program alone fails for five minutes."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from typing import Any

import pytest

from pipeline_database import Shop
from viewkeeper.changes.positions import is_reached
from viewkeeper.errors import Error, StorageError, Timeout, is_shortage
from viewkeeper.maintenance import zones
from viewkeeper.pipeline import batches, shortage, status
from viewkeeper.pipeline.driver import Maintainer
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.maintain import catch_up
from viewkeeper.pipeline.work import LogRange, ZoneWork
from viewkeeper.trace.file import ZoneWriter
from viewkeeper.trace.local_disk import local_storage

FULL = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """A view of each kind is filled."""
    shop.write(1, 30)
    shop.maintain_once()
    return shop


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(shortage, "clock", clock)
    return clock


def short_in(view: str, shop: Shop, error: BaseException) -> Callable[..., Any]:
    """Operators of the store of `view` raise `error`."""
    state = shop.snapshot.catalog.find(view).stored.state.id  # type: ignore[union-attr]
    run = zones._RUN[zones.plan.ViewTable]

    def raising(operator: Any, task: Any) -> None:
        if operator.state.id == state:
            raise error
        run(operator, task)

    return raising


def steps(maintainer: Maintainer, clock: Clock, seconds: float) -> None:
    end = clock.now + seconds
    while clock.now < end:
        maintainer.step()
        clock.now += 1.0


def stopped(shop: Shop) -> list[str]:
    return [view.name for view in shop.snapshot.catalog.views if view.stopped is not None]


@pytest.mark.parametrize("error", [
    FULL, MemoryError(), StorageError("full"), RuntimeError("...\nOSError: [Errno 24] Too many open files\n..."),
    RuntimeError("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"),
    RuntimeError("java.io.IOException: No space left on device"),
], ids=lambda error: type(error).__name__)  # fmt: skip
def test_a_shortage_is_waited_for(
    shop: Shop, clock: Clock, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However long it lasts no view is stopped; it is told in `status`, and logged once; then all goes on."""
    assert is_shortage(error)
    maintainer = shop.maintainer()
    shop.write(2, 30)

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(ZoneWriter, "finish", fail)
        steps(maintainer, clock, 400.0)
        told = status.status(shop.storage, shop.logs)["last_error"]
    assert "waits, since the machine is short of something" in told
    assert len([record for record in caplog.records if "the next batch waits" in record.message]) == 1
    clock.now += 60.0
    shop.catch_up(maintainer)
    assert maintainer.batches.last_error is None and "waits" not in str(maintainer.last_error)
    assert stopped(shop) == [] == shop.wrong_views()
    maintainer.close()


def test_a_batch_that_memory_cannot_hold_is_made_in_smaller_ones(
    shop: Shop, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintainer = shop.maintainer()
    monkeypatch.setattr(batches, "OPERATIONS_LEAST", 10)
    shop.write(2, 300)
    run, held = LocalExecutor.run, list[int]()

    def limited(executor: LocalExecutor, job: Any) -> Any:
        if isinstance(job.work, ZoneWork) and isinstance(job.work.source, LogRange):
            held.append(sum(each.upto - each.after for each in job.work.source.slices))
            if held[-1] > 50:
                raise MemoryError
        return run(executor, job)

    monkeypatch.setattr(LocalExecutor, "run", limited)
    steps(maintainer, clock, 60.0)
    assert max(held) > 200 and 6 <= len([n for n in held if n <= 50]) <= 40
    assert is_reached(shop.store.ends(), shop.snapshot.positions) and shop.wrong_views() == []
    maintainer.close()


def test_the_pauses_grow_and_the_rest_goes_on(shop: Shop, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """While batches wait statements are answered and garbage is collected: that may be what makes room."""
    maintainer = shop.maintainer()
    shop.write(2, 30)
    tried: list[float] = []
    tidied: list[float] = []

    def fail(*_: object) -> None:
        tried.append(clock.now)
        raise FULL

    monkeypatch.setattr(LocalExecutor, "run", fail)
    monkeypatch.setattr(Maintainer, "_tidy", lambda _: tidied.append(clock.now))
    monkeypatch.setattr("viewkeeper.pipeline.driver.TIDY_SECONDS", -1.0)
    steps(maintainer, clock, 9.0)
    assert 3 <= len(tried) <= 5 and len(tidied) == 9
    maintainer.close()


def test_a_view_that_the_machine_cannot_keep_is_stopped_alone_after_five_minutes(
    shop: Shop, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program, run apart, fails for so long while those of the others succeed."""
    maintainer = shop.maintainer()
    shop.write(2, 30)
    with monkeypatch.context() as patch:
        patch.setitem(zones._RUN, zones.plan.ViewTable, short_in("extremes", shop, MemoryError("too many groups")))
        steps(maintainer, clock, 250.0)
        assert stopped(shop) == []
        steps(maintainer, clock, 120.0)
        assert stopped(shop) == ["extremes"]
        clock.now += 60.0
        shop.catch_up(maintainer)
    (view,) = (view for view in shop.snapshot.catalog.views if view.name == "extremes")
    assert "the machine cannot keep it" in str(view.stopped) and "too many groups" in str(view.stopped)
    assert [name for name in shop.wrong_views() if name != "extremes"] == []
    maintainer.close()


def test_a_view_that_runs_apart_again_in_time_is_not_stopped(
    shop: Shop, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintainer = shop.maintainer()
    shop.write(2, 30)
    with monkeypatch.context() as patch:
        patch.setitem(zones._RUN, zones.plan.ViewTable, short_in("extremes", shop, MemoryError()))
        steps(maintainer, clock, 200.0)
    clock.now += 60.0
    shop.catch_up(maintainer)
    assert stopped(shop) == [] == shop.wrong_views()
    maintainer.close()


def test_catch_up_says_what_it_waits_for(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.write(2, 30)

    def fail(*_: object) -> None:
        raise FULL

    monkeypatch.setattr(LocalExecutor, "run", fail)
    with pytest.raises(Timeout, match="the next batch waits.*Too many open files"):
        catch_up(local_storage(shop.root), shop.logs, LocalExecutor, timeout=1.0)


def test_what_is_gone_is_no_shortage() -> None:
    """Waiting does not bring a file back, nor a Java process; an operator's shortage is one, whoever wraps it."""
    wrapped = RuntimeError("operator 3 failed: x")
    wrapped.__cause__ = MemoryError()
    lost = Error("Spark's Java process is gone")
    lost.__cause__ = ConnectionRefusedError()
    assert is_shortage(wrapped) and not is_shortage(lost)
    assert not is_shortage(FileNotFoundError()) and not is_shortage(ValueError("x"))
