"""What a foreign program finds in Redis of a view that is written there."""

from __future__ import annotations

from typing import Any

import redis

from foreign_rows import Found


def client_of(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True)


def rows_in(url: str, prefix: str, columns: list[str]) -> Found:
    """The rows, as texts, with how often each is there."""
    client, found = client_of(url), Found()
    for name in client.scan_iter(f"{prefix}:*", count=1000):
        row: Any = client.hgetall(name)
        found[tuple(row.get(column) for column in columns)] += int(row.get("viewkeeper:times", 1))
    return found


def marker_in(url: str, prefix: str) -> dict[str, str]:
    found: Any = client_of(url).hgetall(prefix)
    return found


class RedisPlace:
    """Views under prefixes that begin alike."""

    def __init__(self, url: str, prefix: str) -> None:
        self.url, self.prefix = url, prefix

    def using(self, view: str) -> str:
        return f"USING redis OPTIONS (url '{self.url}', prefix '{self.prefix}:{view}')"

    def rows(self, view: str, columns: list[str]) -> Found:
        return rows_in(self.url, f"{self.prefix}:{view}", columns)

    def version(self, view: str) -> int | None:
        return int(marker_in(self.url, f"{self.prefix}:{view}").get("version", -1))
