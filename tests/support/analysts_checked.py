"""The analysts' queries as views of one database, checked after the load and after each of several batches.

`./run test-analysts`: prints the way in which each is kept, or why it is refused, and what `check` says; ends with 1
where one is wrong.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import analysts
import viewkeeper


def main() -> int:
    """Runs it; the number of the last exit."""
    parser = argparse.ArgumentParser(prog="./run test-analysts", description=__doc__)
    parser.add_argument("--batches", type=int, default=3, help="batches of changes after the load (3)")
    parser.add_argument("--seed", type=int, default=3, help="of rows and changes (3)")
    parser.add_argument("names", nargs="*", help="the queries (all)")
    given = parser.parse_args()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder, viewkeeper.connect(Path(folder) / "db") as db:
        for table in analysts.TABLES:
            db.sql(analysts.create(table))
            db.table(table).put_many(analysts.rows(table, chance))
        kept = _declared(db, given.names)
        wrong = _checked(db, kept, "after the load")
        for batch in range(given.batches):
            _change(db, batch, chance)
            wrong += _checked(db, kept, f"after batch {batch + 1}")
    print(f"{wrong} wrong" if wrong else f"none wrong, seed {given.seed}")
    return 1 if wrong else 0


def _declared(db: viewkeeper.Database, names: list[str]) -> list[str]:
    """The names of those that are not refused."""
    ways = Counter[str]()
    kept = []
    for name, query in analysts.queries().items():
        if names and name not in names:
            continue
        try:
            db.sql(f"CREATE VIEW {name} AS {query}")
        except viewkeeper.Error as refused:
            ways["refused"] += 1
            print(f"{name}: refused: {' '.join(str(refused).split())}")
            continue
        kept.append(name)
        told = str(db.explain(name))
        reasons = [line.strip() for line in told.splitlines() if "SPARK" in line or "MEMO" in line]
        way = "Spark, the whole" if "SPARK" in told else "Spark, on the delta" if "MEMO" in told else "native"
        ways[way] += 1
        print(f"{name}: {way}{''.join(f' | {reason}' for reason in reasons[:1])}")
    print(", ".join(f"{count} {way}" for way, count in ways.most_common()))
    return kept


def _checked(db: viewkeeper.Database, names: list[str], when: str) -> int:
    db.catch_up()
    judges, wrong = Counter[str](), 0
    for name in names:
        report = db.check(name)
        judges[str(report.judge)] += 1
        if not report.ok:
            wrong += 1
            print(f"{name} {when}: {report}")
    judged = ", ".join(f"{judge} {number}" for judge, number in judges.most_common())
    print(f"{when}: {len(names) - wrong} right, judged by {judged}")
    return wrong


def _change(db: viewkeeper.Database, batch: int, chance: random.Random) -> None:
    """New rows, others and deletes, several of them of one key; a table is emptied in the second batch."""
    for table in analysts.TABLES:
        rows, store = analysts.rows(table, chance), db.table(table)
        quarter = len(rows) // 4
        store.put_many(rows[:quarter])
        if analysts.keys(table):
            gone = rows[quarter : 2 * quarter]
            store.delete_many([_key(table, row) for row in gone])
            store.put_many(gone[:3])
            store.delete_many([_key(table, row) for row in gone[:1]])
    db.sql("DELETE FROM events WHERE duration = 2.5 AND kind = 'view'")
    if batch == 1:
        db.sql("DELETE FROM refunds")
    else:
        db.sql("UPDATE orders SET status = 'shipped', total = total + 1 WHERE priority = 1")


def _key(table: str, row: dict[str, Any]) -> Any:
    values = tuple(row[name] for name in analysts.keys(table))
    return values[0] if len(values) == 1 else values


if __name__ == "__main__":
    raise SystemExit(main())
