"""ALTER VIEW ... AS and CREATE OR REPLACE VIEW: built beside the old view, and in its place in one commit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import viewkeeper
from local_maintenance import catch_up
from pipeline_database import Row, Shop
from viewkeeper.catalog.model import Catalog
from viewkeeper.errors import DeclarationError, NotFound, NotReady, NotSupported, ViewBroken
from viewkeeper.jobs.job import Job
from viewkeeper.pipeline.declare_script import run
from viewkeeper.pipeline.local_executor import LocalExecutor

VIEWS = """
CREATE VIEW spend AS SELECT customer, sum(price) AS total FROM orders GROUP BY customer;
CREATE INDEX by_total ON spend (total);
CREATE VIEW big AS SELECT customer, total FROM spend WHERE total > 100;
CREATE VIEW biggest AS SELECT max(total) AS m FROM big;
CREATE VIEW other AS SELECT customer, sum(price) AS total, count(*) AS n FROM orders GROUP BY customer;
"""


def shop_in(root: Path) -> Shop:
    shop = Shop(root, views=VIEWS)
    shop.write(1, 60)
    shop.maintain_once()
    return shop


def replaced(factor: int) -> str:
    select = f"SELECT customer, sum(price) * {factor} AS total FROM orders GROUP BY customer"
    return f"CREATE OR REPLACE VIEW spend AS {select}"


def answers(shop: Shop, factor: int) -> dict[str, Counter[Row]]:
    """What the views say where spend has a factor."""
    totals: dict[int | None, int | None] = {}
    for row in shop.orders.values():
        before = totals.setdefault(row["customer"], None)
        if row["price"] is not None:
            totals[row["customer"]] = (before or 0) + row["price"]
    spend = {customer: None if total is None else total * factor for customer, total in totals.items()}
    big = {customer: total for customer, total in spend.items() if total is not None and total > 100}
    return {"spend": Counter(spend.items()), "big": Counter(big.items()),
            "biggest": Counter([(max(big.values(), default=None),)])}  # fmt: skip


def found(shop: Shop) -> dict[str, Counter[Row]]:
    return {name: shop.view(name) for name in ("spend", "big", "biggest")}


class Watching(LocalExecutor):
    """Writes before each step of a fill, and looks at what can be read then."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(1)
        self.shop, self.steps = shop, 0

    def run(self, job: Job) -> list[object]:
        self.steps += 1
        catalog = self.shop.snapshot.catalog
        views = [view for view in catalog.views if view.replaces is None]
        assert all(view.filled for view in views) and {view.name for view in views} >= {"spend", "big", "biggest"}
        if self.steps < 5:
            self.shop.write(self.steps + 10, 20)
        return super().run(job)


def test_the_new_view_and_all_that_reads_it_come_in_one_commit_while_writers_go_on(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    before = shop.snapshot
    assert shop.declare(replaced(3)).objects == (("ALTER", "VIEW", "spend"),)
    assert found(shop) == answers(shop, 1)
    new = {item.name: item.replaces for item in shop.snapshot.catalog.whole if getattr(item, "replaces", None)}
    assert sorted(new) == ["big (new)", "biggest (new)", "by_total (new)", "spend (new)"]
    executor = Watching(shop)
    shop.maintain_once(executor)
    shop.maintain_once()  # What was written while it was at it.
    assert executor.steps > 1 and found(shop) == answers(shop, 3)
    after = shop.snapshot.catalog
    assert [item.name for item in after.whole] == [
        "orders", "customers", "other", "spend", "big", "biggest", "by_total"
    ]  # fmt: skip
    assert {view.filled for view in after.views if view.name != "other"} == {after.views[-1].filled}
    gone = {item.id for item in before.catalog.views} - {item.id for item in after.views}
    assert len(gone) == 3 and after.indexes[0].on == after.views[1].id
    shop.write(30, 40)
    shop.maintain_once()
    assert found(shop) == answers(shop, 3)


def test_a_driver_that_ends_at_any_step_leaves_the_old_or_the_new_and_the_next_one_goes_on(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    factor, steps = 1, 0
    while steps < 40:
        shop.declare(replaced(factor + 1))
        ended = 0
        while any(view.replaces for view in shop.snapshot.catalog.views):
            maintainer = shop.maintainer()
            for _ in range(1 + ended):
                maintainer.step()
                steps += 1
            maintainer.close()
            ended += 1
            done = not any(view.replaces for view in shop.snapshot.catalog.views)
            assert found(shop) == answers(shop, factor + done)
        factor += 1
    shop.maintain_once()
    assert found(shop) == answers(shop, factor)


def test_what_is_dropped_meanwhile_takes_nothing_from_it(tmp_path: Path) -> None:
    """It shares what it counts with another view: what is not filled is declared anew without that."""
    shop = shop_in(tmp_path)
    shop.declare(replaced(2))
    shop.declare("DROP VIEW other; CREATE VIEW more AS SELECT customer, count(*) AS n FROM orders GROUP BY customer")
    shop.declare("DROP VIEW more")
    shop.declare("DROP INDEX by_total")
    shop.maintain_once()
    assert found(shop) == answers(shop, 2)
    assert [item.name for item in shop.snapshot.catalog.whole] == [
        "orders", "customers", "spend", "big", "biggest"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("drop", "left"),
    [
        ("DROP VIEW `spend (new)`", ["spend", "big", "biggest", "other", "by_total"]),
        ("DROP VIEW `biggest (new)`", ["spend", "big", "biggest", "other", "by_total"]),
        ("DROP VIEW biggest", ["spend", "big", "other", "by_total"]),
        ("DROP VIEW big CASCADE", ["spend", "other", "by_total"]),
        ("DROP VIEW spend CASCADE", ["other"]),
    ],
)
def test_dropping_what_takes_part_gives_it_up(tmp_path: Path, drop: str, left: list[str]) -> None:
    shop = shop_in(tmp_path)
    shop.declare(replaced(2))
    shop.declare(drop)
    shop.maintain_once()
    assert [item.name for item in shop.snapshot.catalog.whole][2:] == left
    kept = answers(shop, 1)
    assert all(shop.view(name) == kept[name] for name in kept if name in left)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """All filled."""
    made = run(
        Catalog(),
        f"""CREATE TABLE orders (id BIGINT, customer BIGINT, price BIGINT, PRIMARY KEY (id)); {VIEWS};
                              CREATE STREAM s (ts TIMESTAMP NOT NULL, n INT) TIMESTAMP BY ts PARTITION LENGTH 60""",
    )
    return made.catalog.changing([replace(item, filled=1) for item in (*made.catalog.views, *made.catalog.indexes)])


NEW = "ALTER VIEW spend AS "


@pytest.mark.parametrize(
    ("sql", "kind", "message", "place"),
    [
        (NEW + "SELECT customer FROM orders", DeclarationError,
         "spend has an index by_total by total, which its new query has not", (1, 12)),
        ("DROP INDEX by_total; " + NEW + "SELECT customer AS c, price AS total FROM orders", DeclarationError,
         "big reads spend, and cannot be made over its new query: there is no column customer", (1, 33)),
        (NEW + "SELECT customer, total FROM spend", DeclarationError, "spend cannot be made of itself", (1, 49)),
        (NEW + "SELECT m AS customer, m AS total FROM biggest", DeclarationError,
         "biggest is made of spend, so spend cannot be made of itself", (1, 59)),
        (NEW + "SELECT n AS customer, n AS total FROM s [WINDOW 1 MINUTES] GROUP BY n", NotSupported,
         "spend has no parts", (1, 12)),
        ("ALTER VIEW spend FROM 3 AS SELECT customer, price AS total FROM orders", NotSupported, "spend has no parts",
         (1, 12)),
        (NEW + "SELECT customer, price AS total FROM orders; CREATE VIEW v AS SELECT * FROM spend", DeclarationError,
         "spend is being replaced: db.catch_up() waits until v can be built on the new one", None),
        (NEW + "SELECT customer, price AS total FROM orders; CREATE INDEX i ON big (total)", DeclarationError,
         "big is being replaced", None),
        (NEW + "SELECT customer, price AS total FROM orders; ALTER VIEW big AS SELECT 1 AS total", DeclarationError,
         "big is being replaced already", None),
        ("CREATE VIEW v AS SELECT total FROM spend; " + NEW + "SELECT customer, price AS total FROM orders",
         DeclarationError, "v is being filled", None),
        ("CREATE VIEW `big (new)` AS SELECT 1 AS x; " + NEW + "SELECT customer, price AS total FROM orders",
         DeclarationError, "big is built anew as big (new), and there is something of that name", None),
        ("ALTER VIEW nothing AS SELECT 1 AS x", DeclarationError, "there is no view nothing", (1, 12)),
    ],
)  # fmt: skip
def test_it_is_refused_naming_who_cannot_follow(
    catalog: Catalog, sql: str, kind: type[DeclarationError], message: str, place: tuple[int, int] | None
) -> None:
    with pytest.raises(kind) as error:
        run(catalog, sql)
    assert message in str(error.value)
    assert place is None or (error.value.line, error.value.column) == place


def test_what_users_see(tmp_path: Path) -> None:
    """The old view is read until the new one is there, which SHOW VIEWS and status tell by its name."""
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n INT); CREATE VIEW v AS SELECT id, n FROM t")
        db.sql("INSERT INTO t VALUES (1, 5)")
        catch_up(db)
        assert db.sql("CREATE OR REPLACE VIEW v AS SELECT id, n * 2 AS n, 'x' AS s FROM t").note == "ALTER VIEW v"
        assert db.view("v").get(1) == {"id": 1, "n": 5}
        assert [row["view"] for row in db.sql("SHOW VIEWS")] == ["v", "v (new)"]
        with pytest.raises(NotReady, match=r"v \(new\) waits to be filled"):
            db.view("v (new)").get(1)
        held = db.snapshot()
        catch_up(db)
        assert db.view("v").get(1) == {"id": 1, "n": 10, "s": "x"}
        assert held.view("v").get(1) == {"id": 1, "n": 5}
        held.close()


def test_a_renamed_table_keeps_its_rows_and_is_written_and_read_by_its_new_name(tmp_path: Path) -> None:
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n INT); CREATE INDEX by_n ON t (n)")
        db.sql("INSERT INTO t VALUES (1, 5)")
        catch_up(db)
        handle = db.table("t")
        db.sql("INSERT INTO t VALUES (2, 6); ALTER TABLE t RENAME TO u; CREATE VIEW v AS SELECT id, 10 / n AS d FROM u")
        db.sql("INSERT INTO u VALUES (3, 0)")
        catch_up(db)
        assert [row["id"] for row in db.table("U").get(6, index="by_n")] == [2]
        assert len(list(db.sql("SELECT * FROM u"))) == 3
        with pytest.raises(NotFound, match="'t' does not exist"):
            handle.get(1)
        with pytest.raises(ViewBroken, match=r"DIVIDE_BY_ZERO.*for u\(id=3\)"):
            db.view("v").get(1)
