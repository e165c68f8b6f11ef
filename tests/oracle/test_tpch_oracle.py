"""TPC-H's queries as views, under inserts, updates and deletes on all eight tables."""

from __future__ import annotations

import random

import pytest

import tpch
from bags import bag
from memory_engine import MemoryEngine
from oracle.model import Base, Operation, TableSchema
from viewkeeper.checker.row_evaluator import Answer, evaluate


def history(seed: int) -> list[list[Operation]]:
    """Batches in which every table gets rows, changes and loses some."""
    chance = random.Random(seed)
    batches: list[list[Operation]] = []
    for number in range(5):
        batch = []
        for table in tpch.TABLES:
            new = tpch.rows(table, chance)
            batch.append(Operation("put_many", table, tuple(new if number == 0 else new[: len(new) // 4])))
            if number:
                keys = list(new[0])[: tpch.KEYS.get(table, 1)]
                batch += [
                    Operation("delete", table, ({key: row[key] for key in keys},)) for row in new[-len(new) // 5 :]
                ]
        batches.append(batch)
    return batches


def rows_seen(number: int, seed: int) -> int:
    """Keeps the query through a history, compares it after every batch, and says how many rows it had in all."""
    engine = MemoryEngine(tpch.SCHEMA, 2)
    base = Base([TableSchema(table.name, table.columns, table.key) for table in engine.catalog.tables])
    engine.declare([f"CREATE VIEW q AS {tpch.QUERIES[number]}"])
    engine.fill()
    seen = 0
    for batch in history(seed):
        for operation in batch:
            base.apply(operation)
        engine.apply(batch)
        inputs = {table.id: Answer(base.rows(table.name)) for table in engine.catalog.tables}
        answer = evaluate(engine.relations["q"], inputs)
        assert not answer.errors and not engine.errors("q")
        assert bag(engine.rows("q")) == bag(answer.rows)
        seen += len(answer.rows)
    return seen


@pytest.mark.parametrize("number", sorted(tpch.QUERIES))
def test_a_query_of_tpch_is_kept(number: int) -> None:
    assert any(rows_seen(number, seed) for seed in range(number, 100, 22)), "the query finds nothing in these tables"
