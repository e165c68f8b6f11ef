"""A foreign program that keeps the rows of a table in Redis with the script, and knows what they are."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import redis

from viewkeeper.stores.outside.redis.scripts import rows_script

Row = dict[str, Any]
COLUMNS = "(id BIGINT, customer INT, price DECIMAL(15,2), note STRING, PRIMARY KEY (id))"


class RedisRows:
    """Rows of orders under `prefix`; `model` has them by id, as texts, without what is NULL."""

    def __init__(self, url: str, prefix: str) -> None:
        self.url, self.prefix = url, prefix
        self.client: Any = redis.Redis.from_url(url, protocol=2, socket_timeout=10)
        self._script = self.client.register_script(rows_script())
        self.model: dict[int, Row] = {}

    @property
    def options(self) -> str:
        return f"OPTIONS (url '{self.url}', prefix '{self.prefix}')"

    def declared(self, more: str = "", columns: str = COLUMNS) -> str:
        return f"CREATE TABLE orders {columns} USING redis {self.options}; {more}"

    def run(self, *arguments: Any) -> int:
        """The script with these arguments; the number of the log's last entry."""
        return int(self._script(keys=[self.prefix], args=arguments))

    def put(self, row: Mapping[str, Any]) -> int:
        last = self.run(*put_of(row["id"], {name: value for name, value in row.items() if name != "id"}))
        self._put(row)
        return last

    def delete(self, id_: int) -> int:
        last = self.run("delete", id_)
        self.model.pop(id_, None)
        return last

    def change(self, chance: random.Random, operations: int, keys: int = 40, at_once: int = 7) -> None:
        """Random puts of whole rows and of some columns, deletes of rows and columns, and puts again, several of them
        in one step, several on one key."""
        for start in range(0, operations, at_once):
            arguments: list[Any] = []
            undone = []
            for _ in range(min(at_once, operations - start)):
                id_, kind = chance.randrange(keys), chance.random()
                values = {
                    "customer": chance.choice([None, "1", "2", "3"]), "note": chance.choice([None, "x", "é\n", ""]),
                    "price": f"{chance.randrange(500) / 100:.2f}",
                }  # fmt: skip
                if kind < 0.25:
                    arguments += ["delete", id_]
                    undone.append(lambda id_=id_: self.model.pop(id_, None))
                elif kind < 0.35:
                    names = chance.sample(list(values), chance.randrange(1, 3))
                    arguments += ["delete_columns", id_, len(names), *names]
                    undone.append(lambda id_=id_, names=names: self._delete_columns(id_, names))
                else:
                    some = values if kind < 0.7 else {name: values[name] for name in chance.sample(list(values), 1)}
                    some = {} if kind > 0.97 else some
                    arguments += put_of(id_, some)
                    undone.append(lambda id_=id_, some=some: self._put({"id": id_, **some}))
            self.run(*arguments)
            for each in undone:
                each()

    def _put(self, row: Mapping[str, Any]) -> None:
        kept = {**self.model.get(row["id"], {}), **row}
        self.model[row["id"]] = {name: value for name, value in kept.items() if value is not None}

    def _delete_columns(self, id_: int, names: Sequence[str]) -> None:
        if id_ in self.model:
            self.model[id_] = {name: value for name, value in self.model[id_].items() if name not in names}


def put_of(key: Any, values: Mapping[str, Any]) -> list[Any]:
    """The arguments of a put, as docs/stores/redis.md shows them."""
    fields = {name: value for name, value in values.items() if value is not None}
    nulls = [name for name, value in values.items() if value is None]
    return ["put", key, len(fields), *(part for pair in fields.items() for part in pair), len(nulls), *nulls]
