"""A view that has stopped keeps its last good rows, and nobody builds on them: what is made anew is right."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline_database import VIEWS, Shop
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, ViewBroken
from viewkeeper.maintenance import zones
from viewkeeper.pipeline import fills
from viewkeeper.plans import maintenance as plan

TEXTS = dict(re.findall(r"CREATE VIEW (\w+) AS (.*);", VIEWS))
FAMILY = "SELECT customer, {} AS v FROM orders WHERE price < {} GROUP BY customer"

Fails = Callable[[plan.Operator], bool]


def stop(shop: Shop, fails: Fails, seed: int = 50, operations: int = 40) -> None:
    """Writes, and maintains while the operators that `fails` tells fail."""
    with pytest.MonkeyPatch.context() as patch:
        out_of_order(patch, fails)
        shop.write(seed, operations)
        shop.maintain_once()


def out_of_order(patch: pytest.MonkeyPatch, fails: Fails) -> None:
    for kind, run in list(zones._RUN.items()):

        def maybe(operator: plan.Operator, task: object, run: Callable[..., None] = run) -> None:
            if fails(operator):
                raise RuntimeError("out of order")
            run(operator, task)

        patch.setitem(zones._RUN, kind, maybe)


def by_store(shop: Shop, *names: str) -> Fails:
    """The operators that write these views."""
    states = {shop.snapshot.catalog.find(name).stored.state.id for name in names}
    return lambda operator: isinstance(operator, plan.ViewTable) and operator.state.id in states


def is_stopped(shop: Shop) -> set[str]:
    return {item.name for item in (*shop.snapshot.catalog.views, *shop.snapshot.catalog.indexes) if item.stopped}


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("name", ["spend", "extremes", "placed", "everything", "segments", "cheap"])
def test_a_view_made_anew_beside_or_after_a_stopped_one_is_right(
    tmp_path: Path, name: str, dropped: bool, alone: bool
) -> None:
    """Each class of operators, with and without other views that share the work; the pipeline starts anew between."""
    views = [name] if name != "segments" else ["placed", name]
    shop = Shop(tmp_path, views="; ".join(f"CREATE VIEW {v} AS {TEXTS[v]}" for v in (views if alone else TEXTS)))
    shop.write(1, 60)
    shop.maintain_once()
    stop(shop, by_store(shop, name))
    assert name in is_stopped(shop)
    shop.write(2, 60)
    shop.maintain_once()
    if dropped:
        users = [view for view in ("segments", "placed") if view in is_stopped(shop)]
        shop.declare("; ".join(f"DROP VIEW {view}" for view in (users or [name])))
        assert shop.snapshot.catalog.find(name) is None
    text = TEXTS[name] if name != "segments" else TEXTS[name].replace("placed", f"({TEXTS['placed']}) p")
    shop.declare(f"CREATE VIEW again AS {text}")
    shop.write(3, 60)
    shop.maintain_once()
    for seed in (4, 5):
        assert shop.view("again") == shop.expected(name)
        assert set(shop.snapshot.catalog.readable_names()) >= {"again"}
        shop.write(seed, 30)
        shop = Shop(tmp_path)
        shop.maintain_once()
    if not dropped:
        shop.declare("; ".join(f"DROP VIEW {view}" for view in reversed(VIEW_ORDER) if view in is_stopped(shop)))
        shop.write(6, 40)
        shop.maintain_once()
        assert shop.view("again") == shop.expected(name)
        shop.declare(f"CREATE VIEW third AS {text}")
        shop.maintain_once()
        assert shop.view("third") == shop.view("again") == shop.expected(name)


VIEW_ORDER = list(TEXTS)


def _families(shop: Shop, function: Callable[[list[int]], object], limit: int) -> Counter[tuple[object, ...]]:
    groups: dict[object, list[int]] = {}
    for row in shop.orders.values():
        if row["price"] is not None and row["price"] < limit:
            groups.setdefault(row["customer"], []).append(row["price"])
    return Counter((customer, function(prices)) for customer, prices in groups.items())


def test_a_member_of_a_family_that_stopped_is_not_joined_by_a_new_one(tmp_path: Path) -> None:
    """The family's state is kept for its other members: the stopped member's rows in it are as old as it is."""
    shop = Shop(tmp_path, views="")
    shop.declare(f"CREATE VIEW low AS {FAMILY.format('sum(price)', 50)};"
                 f"CREATE VIEW lower AS {FAMILY.format('avg(price)', 20)}")  # fmt: skip
    shop.write(1, 60)
    shop.maintain_once()
    stop(shop, lambda o: isinstance(o, plan.Aggregate) and any(call.function == "avg" for call in o.calls))
    assert is_stopped(shop) == {"lower"}
    shop.write(2, 60)
    shop.maintain_once()
    shop.declare(f"CREATE VIEW again AS {FAMILY.format('avg(price)', 20)};"
                 f"CREATE VIEW more AS {FAMILY.format('max(price)', 20)};"
                 f"CREATE VIEW least AS {FAMILY.format('sum(price)', 20)}")  # fmt: skip
    for seed in (3, 4):
        shop.maintain_once()
        assert shop.view("again") == _families(shop, lambda prices: sum(prices) / len(prices), 20)
        assert shop.view("more") == _families(shop, max, 20)
        assert shop.view("least") == _families(shop, sum, 20)
        assert shop.view("low") == _families(shop, sum, 50)
        shop.write(seed, 50)
        if seed == 3:
            shop.declare("DROP VIEW lower")


@pytest.mark.parametrize("name", ["spend", "extremes", "placed", "everything"])
def test_a_view_that_stops_during_a_fill_that_shares_its_state_leaves_the_fill_right(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fill begins again, with states of its own; who waits for the view waits for the same one."""
    monkeypatch.setattr(fills, "CHAINED_MAX", 5)
    shop = Shop(tmp_path)
    shop.write(1, 80)
    shop.maintain_once()
    shop.declare(f"CREATE VIEW again AS {TEXTS[name]}; CREATE VIEW over AS SELECT count(*) AS n FROM again;"
                 "CREATE INDEX way ON again (" + {"placed": "segment"}.get(name, "total")
                 .replace("total", "high" if name == "extremes" else "total") + ")")  # fmt: skip
    waiting = fills.unfilled(shop.snapshot.catalog)
    driver = shop.maintainer()
    driver.fills.step(driver.term)
    failing = by_store(shop, name)
    with pytest.MonkeyPatch.context() as patch:
        out_of_order(patch, failing)
        shop.write(2, 40)
        driver.batches.step(driver.term)
    assert name in is_stopped(shop)
    assert fills.unfilled(shop.snapshot.catalog) == waiting
    shop.write(3, 40)
    shop.catch_up(driver)
    assert shop.view("again") == shop.expected(name)
    assert shop.view("over") == {(shop.expected(name).total(),): 1}
    shop.write(4, 40)
    shop.catch_up(driver)
    driver.close()
    assert shop.view("again") == shop.expected(name)
    with Database(shop.storage, shop.store) as db:
        column = next(i for i in shop.snapshot.catalog.indexes).columns[0]
        key = next(iter(shop.expected(name)))[column]
        assert len(db.view("again").get(key, index="way")) == sum(
            n for row, n in shop.expected(name).items() if row[column] == key
        )


def test_nothing_new_is_built_on_a_stopped_view(tmp_path: Path) -> None:
    """A view over it, or an index on it, is refused: it would be of another moment than all others."""
    shop = Shop(tmp_path)
    shop.write(1, 40)
    shop.maintain_once()
    stop(shop, by_store(shop, "spend"))
    for text in ("CREATE VIEW over AS SELECT n FROM spend", "CREATE INDEX i ON spend (n)",
                 "CREATE VIEW a AS SELECT id FROM orders; CREATE VIEW b AS SELECT s.n FROM a JOIN spend s ON a.id = s.n"
                 ):  # fmt: skip
        with pytest.raises(DeclarationError, match="cannot be built on spend.*out of order.*drop spend and create it"):
            shop.declare(text)


def test_an_index_that_fails_stops_alone(tmp_path: Path) -> None:
    """Its table or view, and everything else, goes on; whoever reads by it is told, and it can be made anew."""
    shop = Shop(tmp_path)
    shop.declare("CREATE INDEX by_total ON spend (total); CREATE INDEX by_customer ON orders (customer)")
    shop.write(1, 40)
    shop.maintain_once()
    stop(shop, by_store(shop, "by_total", "by_customer"), operations=60)
    shop.maintain_once()
    assert is_stopped(shop) == {"by_total", "by_customer"}
    assert shop.wrong_views() == []
    with Database(shop.storage, shop.store) as db:
        with pytest.raises(ViewBroken, match="the index by_total is kept up to date no more"):
            db.view("spend").get(1, index="by_total")
        with pytest.raises(ViewBroken, match="the index by_customer is kept up to date no more"):
            db.table("orders").get(1, index="by_customer")
        shop.declare("DROP INDEX by_total; DROP INDEX by_customer; CREATE INDEX by_total ON spend (total);"
                     "CREATE INDEX by_customer ON orders (customer)")  # fmt: skip
        shop.maintain_once()
        found = db.table("orders").get(1, index="by_customer")
        assert {row["id"] for row in found} == {key for key, row in shop.orders.items() if row["customer"] == 1}


def test_states_that_a_running_view_shares_with_a_stopped_one_are_shared_with_new_ones(tmp_path: Path) -> None:
    """What is still kept for somebody is kept once."""
    shop = Shop(tmp_path)
    shop.write(1, 40)
    shop.maintain_once()
    stop(shop, by_store(shop, "spend"))
    states = {o.state.id for o in shop.snapshot.catalog.plan.operators if isinstance(o, plan.PreAggregate)}
    shop.declare("CREATE VIEW highest AS SELECT customer, max(price) AS m FROM orders GROUP BY customer")
    assert states == {o.state.id for o in shop.snapshot.catalog.plan.operators if isinstance(o, plan.PreAggregate)}
    shop.maintain_once()
    assert shop.view("highest") == Counter({(c, high): n for (c, _, high), n in shop.expected("extremes").items()})
