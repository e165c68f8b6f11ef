"""Window views against plain recomputation of each window's rows: all functions, all strategies, late rows."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import window_oracle as oracle
from drawn import examples
from viewkeeper.catalog.model import Catalog, Column, PartView, Stream
from viewkeeper.catalog.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, decimal
from viewkeeper.trace import hashing
from window_engine import Engine, declare

STREAM = Stream(16, "s", (
    Column("ts", TIMESTAMP, False), Column("g", STRING), Column("h", DOUBLE), Column("i", INT), Column("b", BIGINT),
    Column("x", DOUBLE), Column("d", decimal(10, 2)), Column("w", decimal(25, 3)), Column("t", STRING),
    Column("o", BOOLEAN),
), 0, 60)  # fmt: skip
CATALOG = Catalog((STREAM,), next_id=17)
PLACE = {column.name: i for i, column in enumerate(STREAM.columns)}

Row = tuple[Any, ...]


def of(name: str, function: Any, *arguments: Any) -> oracle.Aggregate:
    return lambda rows: function([row[PLACE[name]] for row in rows], *arguments)


ADDITIVE: dict[str, oracle.Aggregate] = {
    "count(*)": len,
    "count(i)": of("i", lambda v: len(oracle.present(v))),
    "count(*) FILTER (WHERE i > 0)": of("i", lambda v: sum(1 for each in v if each is not None and each > 0)),
    "sum(i)": of("i", oracle.total),
    "sum(x)": of("x", oracle.total),
    "sum(d)": of("d", oracle.total),
    "sum(w)": of("w", oracle.total),
    "avg(b)": of("b", oracle.average),
    "avg(x)": of("x", oracle.average),
    "avg(d)": of("d", oracle.average),
    "var_pop(x)": of("x", oracle.variance, False),
    "variance(i)": of("i", oracle.variance, True),
    "stddev(x)": of("x", oracle.deviation, True),
    "stddev_pop(d)": of("d", oracle.deviation, False),
}
EXTREME: dict[str, oracle.Aggregate] = {
    "min(i)": of("i", oracle.least),
    "max(b)": of("b", oracle.greatest),
    "max(x)": of("x", oracle.greatest),
    "min(x)": of("x", oracle.least),
    "min(t)": of("t", oracle.least),
    "max(t)": of("t", oracle.greatest),
    "max(w)": of("w", oracle.greatest),
    "min(d)": of("d", oracle.least),
    "bool_and(o)": of("o", oracle.bool_and),
    "some(o)": of("o", oracle.bool_or),
}
VALUES: dict[str, oracle.Aggregate] = {
    "count(DISTINCT t)": of("t", lambda v: len(oracle.distinct(v))),
    "count(DISTINCT x)": of("x", lambda v: len(oracle.distinct(v))),
    "count(DISTINCT i, o)": lambda rows: len({
        (row[PLACE["i"]], row[PLACE["o"]]) for row in rows if None not in (row[PLACE["i"]], row[PLACE["o"]])
    }),
    "sum(DISTINCT i)": of("i", lambda v: oracle.total(oracle.distinct(v))),
    "avg(DISTINCT d)": of("d", lambda v: oracle.average(oracle.distinct(v))),
    "median(x)": of("x", oracle.percentile, 0.5),
    "percentile(b, 0.3)": of("b", oracle.percentile, 0.3),
    "percentile(d, 0.9)": of("d", oracle.percentile, 0.9),
}  # fmt: skip
EVERY = ADDITIVE | EXTREME | VALUES

row = st.tuples(
    st.just(None),
    st.sampled_from(["p", "q", "", None, "longer than eight bytes"]),
    st.sampled_from([0.0, -0.0, math.nan, None, 1.5]),
    st.sampled_from([None, -5, 0, 1, 2, 7, 2**31 - 1]),
    st.sampled_from([None, -(2**63), 2**63 - 1, 0, 3, 10**15 + 1]),
    st.one_of(st.sampled_from([None, 0.0, -0.0, 1e308, -1e308, math.nan, math.inf, -math.inf, 1e16, 5e-324, 0.1]),
              st.floats(-100, 100)),
    st.sampled_from([None, Decimal("0.01"), Decimal("-99999999.99"), Decimal("5.50")]),
    st.sampled_from([None, Decimal("1234567890123456789012.345"), Decimal("-0.001"), Decimal("7.000")]),
    st.sampled_from([None, "", "a", "ab", "z" * 20]),
    st.sampled_from([None, True, False]),
)  # fmt: skip
history = st.lists(st.lists(row, max_size=4), min_size=1, max_size=12)
late_rows = st.lists(st.tuples(st.integers(0, 11), st.lists(row, min_size=1, max_size=2)), max_size=3)


def timed(rows: list[Row], part: int) -> list[Row]:
    import datetime

    return [(datetime.datetime.fromtimestamp(part * 60, datetime.UTC), *each[1:]) for each in rows]


def key_of(keys: tuple[str, ...]) -> Any:
    return lambda each: tuple(each[PLACE[name]] for name in keys)


def query(functions: list[str], keys: tuple[str, ...], window: int, hint: str = "", having: str = "") -> str:
    outputs = ", ".join([*keys, *(f"{function} AS c{i}" for i, function in enumerate(functions))])
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    spoken = f"/*+ STRATEGY({hint}) */ " if hint else ""
    tail = f" HAVING {having}" if having else ""
    return f"CREATE VIEW v AS SELECT {spoken}{outputs} FROM s [WINDOW {window} MINUTES]{group}{tail}"


def run(
    sql: str, functions: list[str], keys: tuple[str, ...], window: int, parts: list[list[Row]],
    late: list[tuple[int, list[Row]]], first: int = -3,
) -> tuple[Engine, PartView]:  # fmt: skip
    """Keeps the view over a history, then over late rows, comparing every part each time."""
    catalog, view = declare(CATALOG, sql, STREAM)
    engine = Engine(catalog, STREAM)
    kept: dict[int, list[Row]] = {}
    outputs = [EVERY[function] for function in functions]

    def check() -> None:
        for j in range(first + window - 1, first + len(parts)):
            expected = oracle.window(kept, j, window, key_of(keys), outputs)
            assert oracle.shown(engine.rows(view, j)) == oracle.shown(expected), f"part {j}"

    for part, rows in enumerate(parts, first):
        kept[part] = timed(rows, part)
        engine.seal(part, [kept[part][::2], kept[part][1::2]])
    check()
    for place, rows in late:
        part = first + place % len(parts)
        new = timed(rows, part)
        kept[part] = kept[part] + new
        changed = engine.late(part, new)
        check()
        if "cumulative" not in sql:
            reached = changed.get(view.id, set())
            assert reached <= set(range(part, part + window)), "only parts whose window holds the late rows"
    return engine, view


@settings(deadline=None, max_examples=examples(25))
@given(history, late_rows, st.integers(1, 9), st.sampled_from(["", "merge", "running", "cumulative"]))
def test_what_can_be_subtracted_is_the_recomputed_window(
    parts: list[list[Row]], late: list[tuple[int, list[Row]]], window: int, hint: str
) -> None:
    """Counts, sums, averages and variances are those of the window's rows, under every strategy and with late rows."""
    run(query(list(ADDITIVE), ("g",), window, hint), list(ADDITIVE), ("g",), window, parts, late)


@settings(deadline=None, max_examples=examples(25))
@given(history, late_rows, st.sampled_from([1, 2, 3, 4, 7, 9]), st.sampled_from(["", "merge", "blocks"]))
def test_extremes_are_those_of_the_recomputed_window(
    parts: list[list[Row]], late: list[tuple[int, list[Row]]], window: int, hint: str
) -> None:
    """MIN, MAX and the boolean ones are those of the window's rows, merged one by one and in blocks."""
    hint = "" if window < 3 else hint
    run(query(list(EXTREME), ("g",), window, hint), list(EXTREME), ("g",), window, parts, late)


@settings(deadline=None, max_examples=examples(25))
@given(history, late_rows, st.integers(1, 6), st.sampled_from(["", "merge", "running"]))
def test_distinct_and_percentiles_are_those_of_the_recomputed_window(
    parts: list[list[Row]], late: list[tuple[int, list[Row]]], window: int, hint: str
) -> None:
    """DISTINCT aggregates, MEDIAN and PERCENTILE are those of the window's rows, and all pieces agree on the groups."""
    functions = [*VALUES, "sum(i)", "max(t)"]
    run(query(functions, ("g", "h"), window, hint), functions, ("g", "h"), window, parts, late)


@settings(deadline=None, max_examples=examples(25))
@given(history, late_rows, st.sampled_from(["", "running", "cumulative", "blocks", "merge"]))
def test_groups_whose_hashes_collide_stay_apart(
    parts: list[list[Row]], late: list[tuple[int, list[Row]]], hint: str
) -> None:
    """Groups of equal hash are kept apart, and repaired together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "finish", lambda state: state & hashing.np.uint64(3 << 62))
        functions = ["max(t)", "min(x)"] if hint == "blocks" else ["count(*)", "sum(i)", "median(i)"]
        functions = [*functions, *(["max(t)"] if hint == "" else [])]
        EVERY["median(i)"] = of("i", oracle.percentile, 0.5)
        run(query(functions, ("g", "t"), 4, hint), functions, ("g", "t"), 4, parts, late)
