"""Who maintains, for how long, and what others are told meanwhile."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from pipeline_database import Shop
from viewkeeper.database import Database
from viewkeeper.errors import Busy, Error, Fenced, Timeout, ViewBroken
from viewkeeper.jobs.job import Job
from viewkeeper.maintenance import zones
from viewkeeper.pipeline import fills
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.maintain import Maintenance, catch_up
from viewkeeper.pipeline.status import lag, status
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.local_disk import local_storage


class Failing(LocalExecutor):
    """Fails the first `times` jobs."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def run(self, job: Job) -> list[Any]:
        if self.times:
            self.times -= 1
            raise RuntimeError("a worker died")
        return super().run(job)


def test_catch_up_maintains_where_nobody_does(shop: Shop) -> None:
    """Catching up brings in all that is written and fills all that is declared, and then lets go."""
    shop.write(1, 50)
    version = catch_up(local_storage(shop.root), shop.logs, LocalExecutor)
    assert version == shop.snapshot.version
    assert shop.wrong_views() == []
    assert status(shop.storage, shop.logs)["maintainer"] is None
    assert catch_up(local_storage(shop.root), shop.logs, LocalExecutor) == version


def test_catch_up_waits_for_a_running_pipeline(shop: Shop) -> None:
    """Where a pipeline runs, catching up is waiting for it."""
    with Maintenance(local_storage(shop.root), shop.logs, LocalExecutor):
        shop.write(1, 50)
        catch_up(local_storage(shop.root), shop.logs, pytest.fail, timeout=30)
        assert shop.wrong_views() == []


def test_catch_up_says_how_far_it_is(shop: Shop) -> None:
    """A timeout tells how many operations are in."""
    driver = shop.maintainer()
    shop.write(1, 5)
    with pytest.raises(Timeout, match=r"0 of \d+ operations"):
        catch_up(local_storage(shop.root), shop.logs, LocalExecutor, timeout=0.1)
    driver.close()


def test_a_second_driver_is_refused_by_name(shop: Shop) -> None:
    """Who maintains already is named; when it has ended the next one may."""
    with Maintenance(local_storage(shop.root), shop.logs, LocalExecutor):
        with pytest.raises(Busy, match="pipeline in process"):
            Maintenance(local_storage(shop.root), shop.logs, LocalExecutor)
        assert status(shop.storage, shop.logs)["maintainer"]["purpose"] == "pipeline"
    Maintenance(local_storage(shop.root), shop.logs, LocalExecutor).stop()


def test_a_replaced_driver_loses_at_its_commit(shop: Shop) -> None:
    """A driver that another has replaced commits nothing more, and says so."""
    driver = shop.maintainer()
    shop.catch_up(driver)
    usurper = local_storage(shop.root)
    usurper.new_epoch(usurper.newest())
    shop.write(1, 10)
    before = shop.snapshot.number
    with pytest.raises(Fenced, match="replaced"):
        while True:
            driver.step()
    assert shop.snapshot.number == before
    driver.close()


def test_what_ends_a_pipeline_is_raised_by_wait(shop: Shop) -> None:
    """A pipeline that cannot go on ends, and whoever waits for it gets the reason."""
    shop.maintain_once()
    maintenance = Maintenance(local_storage(shop.root), shop.logs, lambda: Failing(1000))
    shop.write(1, 5)
    with pytest.raises(RuntimeError, match="a worker died"):
        maintenance.wait(30)
    shop.maintain_once()
    assert shop.wrong_views() == []


def test_a_batch_that_fails_is_tried_again(shop: Shop) -> None:
    """Two failures of one batch are nothing that a reader could see."""
    shop.maintain_once()
    shop.write(1, 40)
    shop.maintain_once(Failing(2))
    assert shop.wrong_views() == []


def test_catch_up_gives_up_on_a_fill_that_cannot_be(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fill that fails again and again is reported, and nobody waits for ever."""
    monkeypatch.setattr(fills, "RETRY_SECONDS", 0.0)
    with pytest.raises(Error, match="filling .* failed"):
        catch_up(local_storage(shop.root), shop.logs, lambda: Failing(1000))


def test_a_dead_drivers_work_is_taken_over(shop: Shop) -> None:
    """Waiters take over when the pipeline they wait for ends without having done it."""
    driver = shop.maintainer()
    shop.write(1, 30)
    done: list[int] = []
    waiting = threading.Thread(
        target=lambda: done.append(catch_up(local_storage(shop.root), shop.logs, LocalExecutor, timeout=30))
    )
    waiting.start()
    time.sleep(0.1)
    driver.term.close()
    waiting.join()
    assert done
    assert shop.wrong_views() == []


def test_merges_and_garbage_leave_the_views_as_they_are(shop: Shop) -> None:
    """Many small batches leave few runs and few files, and every view right."""
    shop.storage.keep_seconds = 0.0
    driver = shop.maintainer()
    driver.term.storage.keep_seconds = 0.0
    for seed in range(30):
        shop.write(seed, 5)
        shop.catch_up(driver)
    while driver.merging.step(driver.term, idle=True, barriers=[]):
        time.sleep(0.001)
    driver._tidy()
    assert shop.wrong_views() == []
    assert driver.merging.committed > 5
    assert max(len(runs) for runs in shop.snapshot.states.values()) <= 2
    on_disk = {path.name for path in (shop.storage.root / "state").iterdir()}
    assert on_disk == set(shop.snapshot.files)
    driver.close()


def test_status_tells_positions_lag_rows_and_rejections(shop: Shop) -> None:
    """Status counts what is behind, and the rows of each table and view as they are."""
    shop.maintain_once()
    shop.write(1, 40)
    told = status(shop.storage, shop.logs)
    assert sum(node["lag_operations"] for node in told["nodes"]) == sum(shop.store.ends().values())
    assert all(node["lag_seconds"] >= 0 for node in told["nodes"])
    shop.maintain_once()
    told = status(shop.storage, shop.logs)
    assert [node["lag_operations"] for node in told["nodes"]] == [0, 0]
    assert {table["name"]: table["rows"] for table in told["tables"]} == {
        "orders": len(shop.orders), "customers": len(shop.customers)
    }  # fmt: skip
    assert {view["name"]: view["rows"] for view in told["views"]} == {
        view["name"]: shop.view(view["name"]).total() for view in told["views"]
    }
    assert all(view["state"] == "filled" for view in told["views"])


def test_the_lag_in_seconds_of_what_a_clock_ahead_has_stamped_is_not_known(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is neither nothing nor negative; once such writes are in, there is no lag."""
    with monkeypatch.context() as patch:
        clock = time.time_ns
        patch.setattr(time, "time_ns", lambda: clock() + 3_600_000_000_000)
        shop.write(1, 1)
    shop.write(2, 60)
    told = lag(shop.snapshot, shop.logs)["nodes"]
    assert all(node["lag_operations"] and node["lag_seconds"] is None for node in told)
    shop.maintain_once()
    assert [node["lag_seconds"] for node in lag(shop.snapshot, shop.logs)["nodes"]] == [0.0, 0.0]
    assert shop.wrong_views() == []


def test_a_view_whose_program_fails_is_stopped_alone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It and the views over it raise when read, or give their last good rows; the others go on, and so do batches."""
    shop.write(1, 40)
    shop.maintain_once()
    before = shop.view("placed")
    monkeypatch.setitem(zones._RUN, plan.Join, _fail)
    shop.write(2, 40)
    shop.maintain_once()
    catalog = shop.snapshot.catalog
    assert {view.name for view in catalog.views if view.stopped} == {"placed", "segments"}
    assert shop.snapshot.positions == shop.store.ends()
    assert set(shop.wrong_views()) <= {"placed", "segments"}
    with Database(shop.storage, shop.store) as db:
        with pytest.raises(ViewBroken, match="placed is kept up to date no more.*operator .* failed.*out of order"):
            db.view("placed").to_arrow()
        with pytest.warns(UserWarning, match="no more"):
            assert db.view("placed").to_arrow(allow_stale=True).num_rows == before.total()


def _fail(operator: plan.Join, task: object) -> None:
    raise RuntimeError("out of order")


def test_the_rows_of_a_dropped_view_of_a_family_are_merged_away(shop: Shop) -> None:
    """Dropping one of two views of a family frees its rows when the pipeline is idle; the other keeps its own."""
    shop.declare("CREATE VIEW dear AS SELECT id, price FROM orders WHERE price >= 50")
    shop.write(3, 80)
    shop.maintain_once()
    cheap, dear = shop.view("cheap"), shop.view("dear")
    spec = shop.snapshot.catalog.find("cheap").stored.state  # type: ignore[union-attr]
    assert spec == shop.snapshot.catalog.find("dear").stored.state  # type: ignore[union-attr]
    shop.declare("DROP VIEW dear")
    driver = shop.maintainer()
    while driver.merging.step(driver.term, idle=True, barriers=[]):
        time.sleep(0.001)
    driver.close()
    assert len(dear) > 0
    assert shop.snapshot.trace(spec).rows == len(cheap)
    assert shop.view("cheap") == cheap
