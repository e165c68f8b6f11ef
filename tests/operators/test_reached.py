"""Where a change reaches its neighbours only, or the first rows, what comes out is what all rows of the key give."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bags import bag
from drawn import examples
from key_values import collide
from memory_engine import MemoryEngine
from oracle.model import Operation
from reaching import by_reach
from viewkeeper.maintenance.operators import by_key, reached
from viewkeeper.maintenance.operators.keyed_rows import KeyedRows, TouchedKeys
from viewkeeper.maintenance.operators.passed import Passed
from viewkeeper.plans.key_functions import KeyFunction
from viewkeeper.plans.reach import ReachInOrder
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.stretches import KeysInOrder
from viewkeeper.trace.trace import Trace

Row = dict[str, Any]
KEYED = "CREATE TABLE t (id INT, g INT, a INT, d DOUBLE, s STRING, p DECIMAL(38, 2), m TIMESTAMP, PRIMARY KEY (id))"
BAG = "CREATE TABLE t (id INT, g INT, a INT, d DOUBLE, s STRING, p DECIMAL(38, 2), m TIMESTAMP)"

ORDERS = ("a", "a DESC", "d NULLS LAST", "s DESC NULLS FIRST, a", "p, d DESC", "a, id DESC")
NEAR = (
    "lag(s) OVER w AS x1, lead(d, 2) OVER w AS x2, lag(a, 2, -1) OVER w AS x3",
    "sum(p) OVER (w ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS x1, count(*) OVER (w ROWS 1 PRECEDING) AS x2",
    "sum(d) OVER (w ROWS 2 PRECEDING) AS x1, max(a) OVER (w ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS x2",
    "count(*) OVER (w RANGE BETWEEN CURRENT ROW AND CURRENT ROW) AS x1, avg(a) OVER (w RANGE CURRENT ROW) AS x2",
    "min(s) OVER (w RANGE CURRENT ROW) AS x1, lag(id) OVER w AS x2",
    "stddev(d) OVER (w ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS x1, first(s) OVER (w ROWS 1 PRECEDING) AS x2",
    "first_value(s) IGNORE NULLS OVER (w ROWS 2 PRECEDING) AS x1, nth_value(d, 2) OVER (w ROWS 1 PRECEDING) AS x2",
)
ONWARDS = (
    "row_number() OVER w AS x1, rank() OVER w AS x2",
    "dense_rank() OVER w AS x1, max(a) OVER w AS x2",
    "sum(a) OVER w AS x1, avg(d) OVER w AS x2",
    "sum(d) OVER (w ROWS UNBOUNDED PRECEDING) AS x1, lag(s) OVER w AS x2, lead(a, 2) OVER w AS x3",
    "sum(p) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS x1, count(s) OVER w AS x2",
    "count(*) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING) AS x1, avg(p) OVER w AS x2",
    "avg(a) OVER (w ROWS UNBOUNDED PRECEDING) AS x1, count(*) OVER w AS x2, max(s) OVER (w ROWS 1 PRECEDING) AS x3",
    "max(d) OVER w AS x1, min(d) OVER (w ROWS UNBOUNDED PRECEDING) AS x2, max(a) OVER w AS x3, min(m) OVER w AS x4",
    "min(s) OVER w AS x1, max(s) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS x2, max(p) OVER w AS x3",
)
BY_VALUES = (
    ("a", "sum(d) OVER (w RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS x1, count(s) OVER (w RANGE 2 PRECEDING) AS x2"),
    ("a DESC NULLS FIRST", "max(s) OVER (w RANGE BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS x1, lag(id) OVER w AS x2"),
    ("d DESC", "count(*) OVER (w RANGE BETWEEN 0.5 PRECEDING AND 1 FOLLOWING) AS x, avg(a) OVER (w ROWS 1 PRECEDING)"),
    ("p", "min(id) OVER (w RANGE BETWEEN CURRENT ROW AND 1.5 FOLLOWING) AS x1, first(s) OVER (w RANGE 1 PRECEDING) x2"),
    ("m", "count(*) OVER (w RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) AS x1, sum(a) OVER w AS x2"),
    ("m DESC", "stddev(d) OVER (w RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND INTERVAL 2 DAY FOLLOWING) AS x1"),
    ("a", "max(d) OVER (w RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS x, min(a) OVER (w RANGE 1 PRECEDING)"),
    ("cast(m AS DATE)", "sum(p) OVER (w RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND INTERVAL 1 MONTH FOLLOWING) AS x"),
)  # fmt: skip
FIRST = (
    "row_number() OVER w <= 2", "rank() OVER w <= 2", "row_number() OVER w <= 3 AND lead(s, 2) OVER w IS NOT NULL",
    "rank() OVER w <= 2 AND coalesce(lead(a) OVER w, 0) < 3", "row_number() OVER w = 2 AND sum(d) OVER w > 0",
    "row_number() OVER w < 1", "rank() OVER w IN (1, 2) AND dense_rank() OVER w > 0",
)  # fmt: skip


def views() -> list[str]:
    found: list[str] = []
    for n, what in enumerate(NEAR + ONWARDS + FIRST):
        for partition in ("PARTITION BY g ", ""):
            window = f"{partition}ORDER BY {ORDERS[len(found) % len(ORDERS)]}"
            made = what.replace("OVER w", f"OVER ({window})").replace("(w", f"({window}")
            found.append(
                f"SELECT id, g, {made} FROM t" if n < len(NEAR + ONWARDS) else f"SELECT id, g, a FROM t QUALIFY {made}"
            )
    for number, (order, what) in enumerate(BY_VALUES):
        window = f"{'PARTITION BY g ' * (number % 2)}ORDER BY {order}"
        made = what.replace("OVER w", f"OVER ({window})").replace("(w", f"({window}")
        found.append(f"SELECT id, g, {made} FROM t")
    found += [
        "SELECT id, lag(s) OVER (PARTITION BY g ORDER BY a, id) AS x1, dense_rank() OVER (PARTITION BY g ORDER BY s) "
        "AS x2, count(d) OVER (PARTITION BY g ORDER BY d RANGE 1 PRECEDING) AS x3 FROM t",
        "SELECT id FROM t QUALIFY row_number() OVER (ORDER BY p, id) <= 3 AND lead(s) OVER (ORDER BY d, id) <> 'a'",
    ]
    found += [f"SELECT d, s, g FROM t ORDER BY {order} LIMIT {n} OFFSET {n - 1}" for n, order in enumerate(ORDERS, 1)]
    found += ["SELECT d FROM t ORDER BY d LIMIT 0", "SELECT d FROM t ORDER BY d DESC LIMIT 2"]
    return [f"CREATE VIEW v{i} AS {text}" for i, text in enumerate(found)]


MOMENTS = [None, *(datetime(*day, hour, tzinfo=UTC) for day in ((2011, 12, 29), (2011, 12, 30), (2012, 1, 31))
                   for hour in (1, 9, 10, 11, 23))]  # fmt: skip
"""About the day that Samoa left out."""

ROWS = st.fixed_dictionaries({
    "id": st.integers(0, 25), "g": st.sampled_from([0, 0, 0, 1, None]), "a": st.none() | st.integers(0, 3),
    "d": st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), None]),
    "s": st.sampled_from(["", "a", "ab", None]),
    "p": st.sampled_from([None, Decimal("0.50"), Decimal("-1.00"), Decimal("9" * 36 + ".00")]),
    "m": st.sampled_from(MOMENTS),
})  # fmt: skip
CHANGES = st.lists(st.tuples(st.sampled_from([True, False, False]), ROWS), min_size=1, max_size=5)


def whole(
    reach: ReachInOrder, function: KeyFunction, trace: Trace, arranged: Rows, keys: TouchedKeys, zone: str
) -> tuple[KeyedRows, KeyedRows]:
    """The reference: all rows of the touched keys."""
    return keys.rows_of(trace), keys.rows_of(trace.with_rows(arranged))


@pytest.mark.parametrize("few", [False, True], ids=["whole hash", "four hashes"])
@pytest.mark.parametrize("table", [KEYED, BAG], ids=["keyed", "bag"])
def test_what_a_change_reaches_is_all_that_it_changes(table: str, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inserts, updates, deletes and re-inserts on one key in a batch, among equal rows; all rows of the key judge."""
    if few:
        collide(monkeypatch)
    made = views()

    @settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(ROWS, min_size=10, max_size=40), st.lists(CHANGES, min_size=1, max_size=4))
    def check(rows: list[Row], batches: list[list[tuple[bool, Row]]]) -> None:
        engines = [MemoryEngine([table]) for _ in range(2)]
        for engine in engines:
            if few:
                engine.catalog = replace(engine.catalog, zone="Pacific/Apia")
            engine.apply([Operation("put_many", "t", tuple(rows))])
            engine.declare(made)
            engine.fill()
        for batch in batches:
            operations = [
                Operation("delete", "t", ({"id": row["id"]} if "PRIMARY" in table else row,)) if gone
                else Operation("put", "t", (row,)) for gone, row in batch
            ]  # fmt: skip
            with by_reach(True):
                engines[0].apply(operations)
            with monkeypatch.context() as patch:
                patch.setattr(by_key, "reached", whole)
                engines[1].apply(operations)
            for number, text in enumerate(made):
                one, other = (bag(engine.rows(f"v{number}")) for engine in engines)
                assert one == other, text
                one, other = (sorted(engine.errors(f"v{number}")) for engine in engines)
                assert one == other, text

    check()


@pytest.mark.parametrize("query, most", [
    ("SELECT id, lag(a, 3) OVER (PARTITION BY g ORDER BY id) AS x FROM t", 40),
    ("SELECT id, sum(d) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS x FROM t", 40),
    ("SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY id DESC) <= 3", 40),
    ("SELECT id FROM t ORDER BY id DESC LIMIT 2 OFFSET 1", 40),
    ("SELECT id, rank() OVER (ORDER BY id) AS x, sum(a) OVER (ORDER BY id) AS y FROM t", 4),
    ("SELECT id, sum(d) OVER (PARTITION BY g ORDER BY id DESC) AS x FROM t", 6100),
    ("SELECT id, max(a) OVER (PARTITION BY g ORDER BY id) AS x, min(d) OVER (PARTITION BY g ORDER BY id) FROM t", 4),
    ("SELECT id, dense_rank() OVER (ORDER BY a DESC, id) AS x FROM t", 900),
    ("SELECT id, dense_rank() OVER (ORDER BY id) AS x FROM t", 4),
    ("SELECT id, lag(a) OVER (ORDER BY id) AS x, lead(a) OVER (ORDER BY d, id) AS y FROM t", 80),
    ("SELECT id, sum(a) OVER (ORDER BY id RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) AS x FROM t", 40),
    ("SELECT id, count(a) OVER (ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING) AS x FROM t", 20),
])  # fmt: skip
def test_a_change_at_the_end_reads_what_it_reaches(query: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3,000 rows, before the change and after it."""
    engine = MemoryEngine([KEYED])
    engine.declare([f"CREATE VIEW v AS {query}"])
    engine.fill()
    other = {"g": 0, "d": 0.5, "s": "", "p": None}
    engine.apply([Operation("put_many", "t", tuple({"id": i, "a": i % 7} | other for i in range(3000)))])
    read: list[int] = []
    of = KeyedRows.of

    def counted(key: Any, rows: Rows, *more: Any) -> KeyedRows:
        read.append(len(rows))
        return of(key, rows, *more)

    monkeypatch.setattr(KeyedRows, "of", counted)
    for i in range(3000, 3005):
        read.clear()
        engine.apply([Operation("put", "t", ({"id": i, "a": 1} | other,))])
        assert 0 < sum(read) <= most
    assert len(engine.rows("v")) in (2, 3, 3005)


def test_nothing_is_remembered_of_keys_that_are_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside one key that is large: a batch over many small ones neither asks for each nor keeps something of it."""
    engine = MemoryEngine(["CREATE TABLE t (id INT, g INT, d DOUBLE, PRIMARY KEY (id))"])
    engine.declare(["CREATE VIEW v AS SELECT id, row_number() OVER w AS n, sum(d) OVER w AS s FROM t "
                    "WINDOW w AS (PARTITION BY g ORDER BY id)"])  # fmt: skip
    engine.fill()
    large = [{"id": i, "g": 0, "d": 0.5} for i in range(2 * reached.WHOLE_ROWS)]
    engine.apply([Operation("put_many", "t", tuple(large + [{"id": -i, "g": i, "d": 1.0} for i in range(1, 300)]))])
    remembered: list[int] = []
    real = reached.passed

    def noting(ordered: KeysInOrder, *more: Any) -> Passed:
        found = real(ordered, *more)
        remembered.append(sum(len(run.passed) for run in ordered.runs))
        return found

    monkeypatch.setattr(reached, "passed", noting)
    changed = [{"id": 5000, "g": 0, "d": 0.25}, *({"id": 5000 + i, "g": i, "d": 1.0} for i in range(1, 300))]
    engine.apply([Operation("put_many", "t", tuple(changed))])
    assert len(remembered) == 1 and 0 < remembered[0] <= 2
    rows = engine.rows("v")
    assert (5000, 2001, 1000.25) in rows and (5001, 2, 2.0) in rows
