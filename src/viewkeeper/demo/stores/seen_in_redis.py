"""What is shown while orders come, read in Redis by its own client; and how soon they are there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import redis
from rich.console import Console

from viewkeeper.demo.process import Process
from viewkeeper.demo.stores.places import VIEW, CassandraClient, Spend, StoresOfDemo
from viewkeeper.demo.stores.shop import CATEGORIES, PROBING, Shop

LOOK_SECONDS = 0.002
LINE_SECONDS = 5.0
LATE_SECONDS = 30.0


class RedisWatch:
    """What was seen: `told` is what the writer said last; `lags` are the seconds from when Cassandra had acknowledged a
    write to its own client until it was in Redis."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.told: Mapping[str, Any] = {}
        self.lags: list[float] = []

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self.begin

    @property
    def operations(self) -> int:
        """So many were written."""
        return sum(self.told.values())


def show_orders(console: Console, places: StoresOfDemo, writer: Process, seconds: float) -> RedisWatch:
    """Lets the writer begin, and says for so many seconds what is in Redis.  Raises what ended the writer."""
    client = redis.Redis.from_url(places.url, decode_responses=True)
    watch, next_line, quantity = RedisWatch(), LINE_SECONDS, 0
    writer.begin()
    with CassandraClient(places.cassandra_port) as orders:
        while watch.seconds < seconds:
            quantity += 1
            orders.put([Shop.probe(quantity)])
            watch.lags.append(_seconds_until(client, quantity, writer))
            watch.told = dict(writer.latest)
            if watch.seconds >= next_line:
                next_line += LINE_SECONDS
                version: Any = client.hget(VIEW, "version")
                console.print(
                    f"  {watch.seconds:3.0f} s: {watch.operations:,} operations; Redis has version "
                    f"{version}, a write to Cassandra was in it after {watch.lags[-1]:.2f} s",
                    soft_wrap=True,
                )
    return watch


def _seconds_until(client: redis.Redis, quantity: int, writer: Process) -> float:
    """How long it takes until Redis has the order of the probe with `quantity` pieces."""
    begin = time.monotonic()
    names = [f'{VIEW}:["{PROBING}","{category}"]' for category in CATEGORIES]
    while time.monotonic() - begin < LATE_SECONDS:
        with client.pipeline() as step:
            for name in names:
                step.hget(name, "pieces")
            if str(quantity) in step.execute():
                break
        writer.require_alive()
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - begin


def rows_in_redis(places: StoresOfDemo) -> Spend:
    """The view, as any program reads it there."""
    client, found = redis.Redis.from_url(places.url, decode_responses=True), {}
    for name in client.scan_iter(f"{VIEW}:*", count=1000):
        row: Any = client.hgetall(name)
        found[row["nation"], row["category"]] = int(row["orders"]), int(row["pieces"]), Decimal(row["amount"])
    return found
