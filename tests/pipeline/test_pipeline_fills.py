"""New views and indexes: filled from DELTA beside the batches, visible in one commit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipeline_database import VIEWS, Shop
from viewkeeper.errors import Error
from viewkeeper.jobs.job import Job
from viewkeeper.maintenance import zones
from viewkeeper.pipeline import batches, fills, maintain, note, status
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.work import LogRange, ZoneWork
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.local_disk import local_storage


def filled_by(job: Job) -> frozenset[int]:
    """The ids that a job fills; empty where it is no fill."""
    return job.work.fill or frozenset() if isinstance(job.work, ZoneWork) else frozenset()


class DuringFills(LocalExecutor):
    """Calls `act` before each step of a fill."""

    def __init__(self, act: Callable[[], None], servers: int = 1) -> None:
        super().__init__(servers)
        self.act, self.steps = act, 0

    def run(self, job: Job) -> list[Any]:
        if filled_by(job):
            self.steps += 1
            self.act()
        return super().run(job)


def fill_while(shop: Shop, act: Callable[[], None], **options: Any) -> DuringFills:
    executor = DuringFills(act, **options)
    shop.maintain_once(executor)
    return executor


@pytest.mark.parametrize("servers", [1, 3])
def test_views_declared_on_a_full_table_are_exact(
    tmp_path: Path, servers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views declared after the data hold the same as those declared before, and stay right."""
    monkeypatch.setattr(batches, "CHAINED_MAX", 0)
    monkeypatch.setattr(fills, "CHAINED_MAX", 0)
    shop = Shop(tmp_path, views="")
    shop.write(1, 150)
    shop.maintain_once(LocalExecutor(servers))
    shop.declare(VIEWS)
    shop.maintain_once(LocalExecutor(servers))
    assert shop.wrong_views() == []
    shop.write(2, 60)
    shop.maintain_once(LocalExecutor(servers))
    assert shop.wrong_views() == []


def test_batches_committed_during_a_fill_are_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fill takes in, round by round, what was committed since it started; DELTA is merged meanwhile."""
    monkeypatch.setattr(fills, "CHAINED_MAX", 20)
    shop = Shop(tmp_path, views="")
    shop.write(1, 100)
    shop.maintain_once()
    shop.declare(VIEWS)
    driver = shop.maintainer()
    seeds = iter(range(2, 9))

    def meanwhile() -> None:
        for seed in seeds:
            shop.write(seed, 30)
            driver.batches.step(driver.term)
            driver.merging.step(driver.term, idle=True, barriers=driver.fills.barriers)
            if seed % 2:
                return

    executor = DuringFills(lambda: None)
    driver.fills._executor = executor
    while fills.unfilled(shop.snapshot.catalog) or any(
        driver.term.snapshot.positions.get(n, 0) < end for n, end in shop.store.ends().items()
    ):
        meanwhile()
        driver.step()
    driver.close()
    assert executor.steps > 2
    assert shop.wrong_views() == []


def test_several_views_are_one_fill(tmp_path: Path) -> None:
    """The views of one script are filled by one pass over the tables, and appear in one version."""
    shop = Shop(tmp_path, views="")
    shop.write(1, 50)
    shop.maintain_once()
    shop.declare(VIEWS)
    executor = fill_while(shop, lambda: None)
    assert executor.steps == 1
    assert len({view.filled for view in shop.snapshot.catalog.views}) == 1


def test_a_later_member_of_a_family_is_filled_alone(tmp_path: Path) -> None:
    """A view that joins the state of others is filled without a change to their rows."""
    shop = Shop(tmp_path, views="CREATE VIEW cheap AS SELECT id, price FROM orders WHERE price < 50")
    shop.write(1, 80)
    shop.maintain_once()
    before = shop.view("cheap")
    shop.declare("CREATE VIEW cheaper AS SELECT id, price FROM orders WHERE price < 20")
    shop.maintain_once()
    assert shop.view("cheap") == before == shop.expected("cheap")
    assert shop.view("cheaper") == {row: n for row, n in before.items() if row[1] < 20}
    shop.write(2, 80)
    shop.maintain_once()
    after = shop.view("cheap")
    assert after == shop.expected("cheap")
    assert shop.view("cheaper") == {row: n for row, n in after.items() if row[1] < 20}


def test_a_view_does_not_inherit_what_a_dropped_twin_left(tmp_path: Path) -> None:
    """A view that was going to share a dropped view's rows is filled with what the table holds by then."""
    filters = "SELECT id, price FROM orders WHERE price < "
    shop = Shop(tmp_path, views=f"CREATE VIEW cheap AS {filters} 50; CREATE VIEW cheaper AS {filters} 20")
    shop.write(1, 80)
    shop.maintain_once()
    shop.declare(f"CREATE VIEW twin AS {filters} 20; CREATE VIEW over AS SELECT count(*) AS n FROM twin")
    shop.declare("DROP VIEW cheaper")
    shop.write(2, 80)
    shop.maintain_once(operations_max=20)
    cheap = shop.view("cheap")
    assert cheap == shop.expected("cheap")
    assert shop.view("twin") == {row: n for row, n in cheap.items() if row[1] < 20}
    assert shop.view("over") == {(sum(1 for row in cheap if row[1] < 20),): 1}


def test_a_view_over_filled_views_is_filled_at_one_version(tmp_path: Path) -> None:
    """A view declared over an older view reads what that one holds."""
    shop = Shop(tmp_path, views="CREATE VIEW spend AS SELECT customer, sum(price) AS total, count(*) AS n FROM orders "
                                "GROUP BY customer")  # fmt: skip
    shop.write(1, 80)
    shop.maintain_once()
    shop.declare("CREATE VIEW sizes AS SELECT n, count(*) AS customers FROM spend GROUP BY n")
    for seed in (2, 3):
        shop.maintain_once()
        sizes: dict[tuple[int, int], int] = {}
        for _, _, n in shop.expected("spend").elements():
            sizes[n] = sizes.get(n, 0) + 1
        assert shop.view("sizes") == dict.fromkeys(sizes.items(), 1)
        shop.write(seed, 40)


def test_dropping_during_a_fill_starts_it_again(tmp_path: Path) -> None:
    """A drop while a fill runs loses nothing of what the fill shares with the dropped view."""
    shop = Shop(tmp_path)
    shop.write(1, 80)
    shop.maintain_once()
    shop.declare("CREATE VIEW totals AS SELECT customer, count(*) AS n FROM orders GROUP BY customer")
    driver = shop.maintainer()
    driver.fills.step(driver.term)
    driver.close()
    shop.declare("DROP VIEW spend; DROP VIEW extremes")
    shop.write(2, 40)
    shop.maintain_once()
    counts = {(customer, n): 1 for customer, _, n in shop.expected("spend").elements()}
    assert shop.view("totals") == counts


def test_a_failed_fill_stops_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fill that fails is tried again; other views go on meanwhile, and the error is told."""
    monkeypatch.setattr(fills, "RETRY_SECONDS", 0.0)
    shop = Shop(tmp_path, views="CREATE VIEW cheap AS SELECT id, price FROM orders WHERE price < 50")
    shop.maintain_once()
    failures = iter([True, True, False])

    def fail() -> None:
        if next(failures):
            raise RuntimeError("no luck")

    shop.declare(
        "CREATE VIEW spend AS SELECT customer, sum(price) AS total, count(*) AS n FROM orders GROUP BY customer"
    )
    driver = shop.maintainer(DuringFills(fail))
    shop.write(1, 40)
    driver.batches.step(driver.term)
    assert shop.view("cheap") == shop.expected("cheap")
    while driver.fills.failures == 0:
        driver.step()
    assert "filling spend failed: no luck" in str(driver.fills.last_error)
    shop.catch_up(driver)
    driver.close()
    assert shop.wrong_views() == []


def test_batches_need_the_logs_alone(tmp_path: Path) -> None:
    """A batch reads the logs, never a table."""
    shop = Shop(tmp_path)
    sources: list[object] = []

    class Noting(LocalExecutor):
        def run(self, job: Job) -> list[Any]:
            assert isinstance(job.work, ZoneWork)
            sources.append(job.work.source)
            return super().run(job)

    shop.maintain_once()
    shop.write(1, 20)
    shop.maintain_once(Noting())
    assert [type(source) for source in sources] == [LogRange]


KEYS = {"STRING": "ab", "INT": (1, 2), "DOUBLE": (0.5, 1.5), "BOOLEAN": (True, False), "DECIMAL(30,2)": (1, 2)}


@pytest.mark.parametrize("type_", KEYS)
def test_a_view_over_a_grouped_view_with_any_key_is_filled_and_holds_up_no_other(tmp_path: Path, type_: str) -> None:
    """A key of text, or with NULL: views over the grouped view and joins by it are filled, and so is what is beside."""
    shop = Shop(tmp_path, views="")
    shop.declare(f"CREATE TABLE t (id BIGINT, c {type_}, x INT, PRIMARY KEY (id));"
                 "CREATE VIEW a AS SELECT c, sum(x) AS s FROM t GROUP BY c;"
                 "CREATE VIEW j AS SELECT l.id, r.x FROM t l JOIN t r ON l.c = r.c")  # fmt: skip
    one, other = KEYS[type_]
    rows = [{"id": i, "c": c, "x": i} for i, c in enumerate((one, other, None, one))]
    shop.store.put_many(shop.table("t"), rows)
    shop.maintain_once()
    shop.declare("CREATE VIEW b AS SELECT c, s FROM a WHERE s > 1; CREATE VIEW other AS SELECT id FROM t;"
                 "CREATE VIEW k AS SELECT l.id FROM t l JOIN t r ON l.c = r.c WHERE r.x > 1")  # fmt: skip
    shop.maintain_once()
    assert shop.view("b") == {row: n for row, n in shop.view("a").items() if row[1] > 1}
    assert sorted(row[1] for row in shop.view("b")) == [2, 3]
    assert shop.view("other") == dict.fromkeys([(i,) for i in range(4)], 1)
    assert shop.view("k") == {(0,): 1, (3,): 1}


class FailingAt(LocalExecutor):
    """Every job that runs one of the operators `kinds` fails there; `fills` are the ids that were filled together."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *kinds: type) -> None:
        super().__init__()
        self.fills: list[frozenset[int]] = []

        def fail(operator: plan.Operator, task: object) -> None:
            raise RuntimeError("out of order")

        for kind in kinds:
            monkeypatch.setitem(zones._RUN, kind, fail)

    def run(self, job: Job) -> list[Any]:
        if filled_by(job):
            self.fills.append(filled_by(job))
        return super().run(job)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], FailingAt]:
    """Executors for which every join is out of order; what failed is tried again at once."""
    monkeypatch.setattr(fills, "RETRY_SECONDS", 0.0)
    return partial(FailingAt, monkeypatch, plan.Join)


@pytest.fixture
def unfilled(tmp_path: Path) -> Shop:
    """A shop whose views are declared, and not yet filled."""
    shop = Shop(tmp_path, views="")
    shop.write(1, 60)
    shop.declare(VIEWS)
    return shop


def test_a_view_that_cannot_be_filled_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is filled apart, tried again, told in `status` with its error, and can be dropped; the others are filled."""
    monkeypatch.setattr(fills, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(note, "EVERY_SECONDS", 0.0)
    shop = Shop(tmp_path, views="")
    shop.write(1, 60)
    shop.maintain_once()
    shop.declare(VIEWS)
    driver = shop.maintainer(FailingAt(monkeypatch, plan.Join))
    while len(driver.fills.given_up) < 2 or len(fills.unfilled(shop.snapshot.catalog)) > 2:
        driver.step()
    waiting = {view.name: view for view in shop.snapshot.catalog.views if view.filled is None}
    assert set(waiting) == {"placed", "segments"}
    assert not set(shop.wrong_views()) - set(waiting)
    states = {view["name"]: view["state"] for view in status.status(shop.storage, shop.logs)["views"]}
    assert {name for name, state in states.items() if state == "filled"} == set(states) - set(waiting)
    assert all("waits to be filled, and is tried again: filling" in states[name] for name in waiting)
    assert all("out of order" in states[name] for name in waiting)
    shop.write(2, 40)
    while driver.batches.step(driver.term):
        pass
    assert not set(shop.wrong_views()) - set(waiting)
    driver.close()
    shop.declare("DROP VIEW segments; DROP VIEW placed")
    shop.maintain_once()
    assert shop.wrong_views() == []


def test_catch_up_fills_what_it_can_and_then_tells_what_it_cannot(
    unfilled: Shop, failing: Callable[[], FailingAt]
) -> None:
    """`catch_up` raises the error of the views that cannot be filled, when everything else is in."""
    with pytest.raises(Error, match="filling placed failed: operator .*out of order.*drop what cannot be filled"):
        maintain.catch_up(local_storage(unfilled.root), unfilled.logs, failing, timeout=60)
    assert unfilled.snapshot.positions == unfilled.store.ends()
    assert {view.name for view in unfilled.snapshot.catalog.views if view.filled is None} == {"placed", "segments"}
    assert set(unfilled.wrong_views()) == {"placed", "segments"}


def test_catch_up_beside_a_running_pipeline_tells_what_that_cannot_fill(
    unfilled: Shop, failing: Callable[[], FailingAt]
) -> None:
    """Nobody waits for ever for a view that another process fails to fill."""
    pipeline = maintain.Maintenance(local_storage(unfilled.root), unfilled.logs, failing)
    with pipeline, pytest.raises(Error, match="filling .* failed: operator .*out of order.*drop what cannot be filled"):
        maintain.catch_up(local_storage(unfilled.root), unfilled.logs, LocalExecutor, timeout=100)


def test_a_failing_index_is_filled_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One index of several fails, and nothing says which: the others are filled."""
    monkeypatch.setattr(fills, "RETRY_SECONDS", 0.0)
    shop = Shop(tmp_path)
    shop.write(1, 60)
    shop.maintain_once()
    shop.declare("; ".join(f"CREATE INDEX i{n} ON spend ({c})" for n, c in enumerate(["total", "n", "total", "n"])))
    (bad,) = (index.id for index in shop.snapshot.catalog.indexes if index.name == "i3")

    def fail(executor: DuringFills, job: Job) -> list[Any]:
        if bad in filled_by(job):
            raise RuntimeError("no luck")
        return LocalExecutor.run(executor, job)

    monkeypatch.setattr(DuringFills, "run", fail)
    driver = shop.maintainer(DuringFills(lambda: None))
    while driver.fills.given_up != {bad}:
        driver.step()
    assert fills.unfilled(shop.snapshot.catalog) == {bad}
    driver.close()


def test_a_drop_keeps_the_identity_of_what_waits_to_be_filled(tmp_path: Path) -> None:
    """Whoever waits for a view that is being filled waits for the same view after something else was dropped."""
    shop = Shop(tmp_path)
    shop.write(1, 60)
    shop.maintain_once()
    shop.declare("CREATE VIEW t1 AS SELECT customer, count(*) AS n FROM orders GROUP BY customer;"
                 "CREATE VIEW t2 AS SELECT n, count(*) AS c FROM t1 GROUP BY n; CREATE INDEX i ON t2 (c)")  # fmt: skip
    before = fills.unfilled(shop.snapshot.catalog)
    shop.declare("DROP VIEW spend; DROP VIEW extremes")
    assert fills.unfilled(shop.snapshot.catalog) == before
    t1, t2 = (shop.snapshot.catalog.find(name) for name in ("t1", "t2"))
    assert t2.reads == (t1.id,)
    shop.maintain_once()
    assert shop.view("t2").total() == len({n for _, n in shop.view("t1")})
