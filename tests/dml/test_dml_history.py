"""Any history of statements gives the rows that plain Python gives, in the table, in its log and in a view over it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import viewkeeper
from drawn import examples
from local_maintenance import catch_up
from viewkeeper import Database, InputError

Row = tuple[int | None, int | None]
SMALL = st.integers(0, 4)
VALUE = st.none() | SMALL
PAIR = st.tuples(SMALL, VALUE)

STEP = st.one_of(
    st.tuples(st.just("insert"), st.lists(PAIR, min_size=1, max_size=3)),
    st.tuples(st.just("insert select"), PAIR),
    st.tuples(st.just("update"), PAIR),
    st.tuples(st.just("update key"), st.tuples(SMALL, SMALL)),
    st.tuples(st.just("move"), st.tuples(SMALL, SMALL)),
    st.tuples(st.just("delete"), VALUE),
    st.tuples(st.just("merge"), st.tuples(st.lists(PAIR, min_size=1, max_size=3), SMALL, st.booleans())),
)


class Refused(Exception):
    """The model refuses the step."""


def sql_of(value: int | None) -> str:
    return "CAST(NULL AS INT)" if value is None else str(value)


def values(rows: list[Row]) -> str:
    return "VALUES " + ", ".join(f"({sql_of(k)}, {sql_of(v)})" for k, v in rows)


def insert(rows: list[Row], given_: list[Row]) -> tuple[str, list[Row]]:
    return f"INSERT INTO t {values(given_)}", [*rows, *given_]


def insert_select(rows: list[Row], given_: tuple[int, int | None]) -> tuple[str, list[Row]]:
    by, least = given_
    new = [(k + by, v) for k, v in rows if least is not None and v is not None and v >= least]
    return f"INSERT INTO t SELECT k + {by}, v FROM t WHERE v >= {sql_of(least)}", [*rows, *new]


def update(rows: list[Row], given_: tuple[int, int | None]) -> tuple[str, list[Row]]:
    k, v = given_
    new = [(a, (None if b is None or v is None else b + v) if a >= k else b) for a, b in rows]
    return f"UPDATE t SET v = v + {sql_of(v)} WHERE k >= {k}", new


def update_key(rows: list[Row], given_: tuple[int, int]) -> tuple[str, list[Row]]:
    k, v = given_
    return f"UPDATE t SET v = {v} WHERE k = {k}", [(a, v if a == k else b) for a, b in rows]


def move(rows: list[Row], given_: tuple[int, int]) -> tuple[str, list[Row]]:
    by, below = given_
    return f"UPDATE t SET k = k + {by} WHERE k < {below}", [(k + by if k < below else k, v) for k, v in rows]


def delete(rows: list[Row], v: int | None) -> tuple[str, list[Row]]:
    if v is None:
        return "DELETE FROM t WHERE v IS NULL", [(a, b) for a, b in rows if b is not None]
    return f"DELETE FROM t WHERE v = {v}", [(a, b) for a, b in rows if b != v]


def merge(rows: list[Row], given_: tuple[list[Row], int, bool]) -> tuple[str, list[Row]]:
    source, least, by_source = given_
    new: list[Row] = []
    for k, v in rows:
        matches = [y for x, y in source if x == k]
        if len(matches) > 1:
            raise Refused
        if matches:
            if matches[0] is not None:  # A NULL of the source deletes.
                new.append((k, matches[0]))
        elif not (by_source and v is not None and v >= least):
            new.append((k, v))
    new += [(x, y) for x, y in source if not any(k == x for k, _ in rows) and x >= least]
    sql = f"""MERGE INTO t USING ({values(source)}) AS s (k, v) ON t.k = s.k
              WHEN MATCHED AND s.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v
              WHEN NOT MATCHED AND s.k >= {least} THEN INSERT (v, k) VALUES (s.v, s.k)"""
    return sql + (f" WHEN NOT MATCHED BY SOURCE AND t.v >= {least} THEN DELETE" if by_source else ""), new


STEPS: dict[str, Callable[[list[Row], Any], tuple[str, list[Row]]]] = {
    "insert": insert, "insert select": insert_select, "update": update, "update key": update_key, "move": move,
    "delete": delete, "merge": merge,
}  # fmt: skip


def stored(db: Database) -> Counter[Row]:
    batches = db._store.rows(db.table("t")._table())
    return Counter((row["k"], row["v"]) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("key", ["PRIMARY KEY (k)", ""], ids=["with a key", "without a key"])
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=3, max_size=12))
def test_any_history_gives_the_models_rows(tmp_path_factory: Any, key: str, steps: list[tuple[str, Any]]) -> None:
    """What would leave a key twice is refused, and so is a row of MERGE that several match; nothing is changed then."""
    root: Path = tmp_path_factory.mktemp("history")
    with viewkeeper.connect(root / "db", nodes=2, durability="process") as db:
        columns = "k INT, v INT" + (", " if key else "")
        db.sql(
            f"CREATE TABLE t ({columns}{key}); CREATE VIEW w AS SELECT v, count(*) AS n, sum(k) AS s FROM t GROUP BY v"
        )
        rows: list[Row] = []
        for kind, given_ in steps:
            step(db, rows, bool(key), kind, given_)
            assert stored(db) == Counter(rows)
        catch_up(db)
        groups: dict[int | None, list[int]] = {}
        for k, v in rows:
            groups.setdefault(v, []).append(k or 0)
        found = {row["v"]: (row["n"], row["s"]) for row in db.view("w").rows()}
        assert found == {v: (len(ks), sum(ks)) for v, ks in groups.items()}


def step(db: Database, rows: list[Row], keyed: bool, kind: str, given_: Any) -> None:
    """One statement, on the database and on the model; both refuse it, or neither."""
    try:
        sql, after = STEPS[kind](rows, given_)
        refused = keyed and max(Counter(k for k, _ in after).values(), default=0) > 1
    except Refused:
        sql, after = STEPS[kind]([], given_)[0], rows
        refused = True
    if refused:
        with pytest.raises(InputError):
            db.sql(sql)
    else:
        assert (db.sql(sql).affected or 0) <= len(rows) + len(after)
        rows[:] = after
