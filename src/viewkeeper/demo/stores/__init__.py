"""`viewkeeper demo stores`: tables in Cassandra, Kafka and the embedded store, one view of all three, written to Redis.

- `places`          the servers, started for the demo, and what is declared
- `shop`            made-up orders, products and customers
- `writer`          a process that writes all three with the stores' own clients
- `seen_in_redis`   what is shown meanwhile, as a foreign program reads it in Redis
- `stores_outcome`  what is said at the end
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import viewkeeper
from viewkeeper.database import Database
from viewkeeper.demo.process import Process
from viewkeeper.demo.quiet import errors_to
from viewkeeper.demo.stores import stores_outcome
from viewkeeper.demo.stores.places import MEMORY_MB, VIEW, StoresOfDemo, declarations
from viewkeeper.demo.stores.seen_in_redis import RedisWatch, rows_in_redis, show_orders
from viewkeeper.demo.stores.shop import Shop
from viewkeeper.demo.stores.stores_outcome import StoresOutcome
from viewkeeper.demo.story import Story, tell

ORDERS = 50_000
"""Orders at scale 1, before the demo begins."""

OPERATIONS_PER_SECOND = 500


def run(*, folder: Path | None, scale: float, seconds: float, as_json: bool) -> bool:
    """Runs the demo with 50,000 orders times `scale`, written for `seconds`; whether all is right.

    The database stays in `folder`/stores, its servers do not run on; without a folder nothing stays.  With `as_json`
    one line of JSON goes to standard output, and the story to standard error.
    """
    return tell(lambda story: _Demo(story).run(scale, seconds), stores_outcome.show, name="stores",
                example=f"SELECT * FROM {VIEW}", folder=folder, as_json=as_json)  # fmt: skip


class _Demo:
    """One run."""

    def __init__(self, story: Story) -> None:
        self._story, self._console = story, story.console

    def run(self, scale: float, seconds: float) -> StoresOutcome:
        self._console.print("[bold]viewkeeper demo stores[/]: orders in Cassandra, products from Kafka, customers "
                            "here; one view of all, in Redis", soft_wrap=True)  # fmt: skip
        self._console.print(f"It takes about {MEMORY_MB / 1000:.1f} GB of memory: Cassandra, Kafka, Redis and Spark, "
                            "all on this machine.\n", soft_wrap=True)  # fmt: skip
        shop = Shop(max(100, round(ORDERS * scale)))
        with ExitStack() as stack:
            with self._story.step("servers started") as note, errors_to(self._story.temporary / "log"):
                places = stack.enter_context(StoresOfDemo(self._story.temporary / "servers"))
                note("Cassandra, Kafka, Redis")
            with self._story.step("written by their own clients") as note:
                places.make(shop)
                note(f"{shop.count:,} orders")
            db = stack.enter_context(viewkeeper.connect(self._story.root))
            with self._story.step("tables and view declared"):
                db.sql(declarations(places))
                db.table("customers").put_many(shop.customers())
            with ExitStack() as maintained:
                with self._story.step("Spark started, tables adopted"), errors_to(self._story.temporary / "log"):
                    maintained.enter_context(db.maintain())
                    db.catch_up()
                watch = self._write(db, places, shop.count, seconds)
                with self._story.step("the last orders in the view"):
                    db.catch_up()
            return self._outcome(db, places, watch, shop.count)

    def _write(self, db: Database, places: StoresOfDemo, orders: int, seconds: float) -> RedisWatch:
        arguments = (str(orders), str(OPERATIONS_PER_SECOND), *places.arguments)
        with Process("stores.writer", self._story.root, *arguments) as writer:
            writer.wait_until_ready()
            watch = show_orders(self._console, places, writer, seconds)
            watch.told = writer.stop()
        done = sum(watch.told[name] for name in ("ordered", "amended", "cancelled", "products", "customers"))
        self._story.said("written meanwhile", f"{done:,} operations", watch.seconds)
        return watch

    def _outcome(self, db: Database, places: StoresOfDemo, watch: RedisWatch, orders: int) -> StoresOutcome:
        begin = time.monotonic()
        with self._story.step("checked against the stores"):
            (report,) = db.check_all()
            if not report.ok:
                self._console.print(str(report), style="red", markup=False)
        with self._story.step("computed from Cassandra's own rows"):
            expected, found = places.expected(db), rows_in_redis(places)
        lags = np.array(watch.lags or [0.0])
        return StoresOutcome(
            orders, dict(watch.told), watch.seconds, report.verdict, len(found), expected == found,
            float(np.quantile(lags, 0.5)), float(np.quantile(lags, 0.99)), time.monotonic() - begin,
            self._story.seconds,
        )  # fmt: skip
