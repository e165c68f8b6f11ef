"""A foreign program that writes clicks into a topic that is a stream, and knows which."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from typing import Any

from kafka_topics import Topic
from store_servers import unique
from viewkeeper.database import Database

STREAM = "(ts TIMESTAMP NOT NULL, who STRING, n INT)"
CUT = "TIMESTAMP BY ts PARTITION LENGTH 60"
BEGAN = 1_700_000_000


class Clicks(Topic):
    """A topic of clicks, whose messages `sent` are."""

    def __init__(self, servers: str, partitions: int = 3, **config: str) -> None:
        super().__init__(servers, unique("clicks"), "json-append", partitions, **config)
        self.sent: Counter[tuple[int, str, int]] = Counter()
        self.now = BEGAN

    def click(self, chance: random.Random, count: int, producer: Any = None, seconds: int = 5) -> None:
        """So many clicks, each a few seconds after the one before."""
        for _ in range(count):
            self.now += chance.randrange(seconds)
            row = (self.now, chance.choice("abc"), chance.randrange(100))
            self.send(row, producer)
            self.sent[row] += 1
        self.flush()

    def send(self, row: tuple[int, str, int], producer: Any = None) -> None:
        value = {"ts": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row[0])), "who": row[1], "n": row[2]}
        (producer or self.producer).produce(self.name, json.dumps(value).encode(), row[1])

    def declared(self, more: str = "") -> str:
        return f"CREATE STREAM clicks {STREAM} USING kafka {self.options} {CUT} {more}"


def rows_of(db: Database) -> Counter[tuple[int, str, int]]:
    """All rows of the stream, in sealed parts and open ones."""
    stream = db.stream("clicks")
    first, newest = stream.first, stream.newest
    rows = list(stream.open().rows())
    if first is not None and newest is not None:
        rows += list(stream.parts(first, newest).rows())
    return Counter((int(row["ts"].timestamp()), row["who"], row["n"]) for row in rows)
