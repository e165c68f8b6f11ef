"""Window views: the small cases that others got wrong, what is shared, what is read, and what is refused."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pytest

from viewkeeper.catalog.codec import dumps, loads
from viewkeeper.catalog.model import Catalog, Column, PartView, StateSpec, Stored, Stream, Table
from viewkeeper.catalog.types import BIGINT, DOUBLE, STRING, TIMESTAMP, decimal
from viewkeeper.errors import DeclarationError, NotSupported, ViewBroken
from viewkeeper.streams.explain import explain
from viewkeeper.streams.windows.window_programs import Sliding, cover, level_count, window_program
from window_engine import Engine, block_of, declare

STREAM = Stream(16, "s", (
    Column("ts", TIMESTAMP, False), Column("k", STRING), Column("v", BIGINT), Column("x", DOUBLE),
    Column("d", decimal(38, 18)),
), 0, 60)  # fmt: skip
CATALOG = Catalog((STREAM,), next_id=17)


def row(part: int, k: str | None = "a", v: int | None = None, x: float | None = None, d: Any = None) -> tuple[Any, ...]:
    return (datetime.datetime.fromtimestamp(60 * part, datetime.UTC), k, v, x, d)


def view(select: str, window: int, tail: str = "GROUP BY k", catalog: Catalog = CATALOG, name: str = "w") -> Any:
    return declare(catalog, f"CREATE VIEW {name} AS SELECT {select} FROM s [WINDOW {window} MINUTES] {tail}", STREAM)


def slide(
    select: str, window: int, parts: dict[int, list[tuple[Any, ...]]], last: int, tail: str = "GROUP BY k"
) -> Any:
    """The engine, and the view's rows by part, from the first sealed part to `last`."""
    catalog, made = view(select, window, tail)
    engine = Engine(catalog, STREAM)
    for part in range(min(parts), last + 1):
        engine.seal(part, [parts.get(part, [])])
    return {part: engine.rows(made, part) for part in range(min(parts), last + 1)}


STRATEGIES = ["", "/*+ STRATEGY(merge) */", "/*+ STRATEGY(running) */", "/*+ STRATEGY(cumulative) */"]


@pytest.mark.parametrize("hint", STRATEGIES)
def test_a_nan_counts_only_while_it_is_in_the_window(hint: str) -> None:
    """A window of 3 over NaN, 1, 2, 3 sums to NaN and then to 6."""
    parts = {i: [row(i, x=x)] for i, x in enumerate([math.nan, 1.0, 2.0, 3.0])}
    found = slide(f"{hint} sum(x)", 3, parts, 3)
    assert math.isnan(found[2][0][0]) and found[3] == [(6.0,)]


@pytest.mark.parametrize("hint", STRATEGIES)
def test_a_sum_that_overflows_is_infinite_only_as_long_as_it_does(hint: str) -> None:
    """Twice the greatest double is Infinity; when one leaves, the sum is the other again, and 104.75 stays 104.75."""
    big = 1.7976931348623157e308
    found = slide(f"{hint} sum(x)", 2, {0: [row(0, x=big)], 1: [row(1, x=big)], 3: [row(3, x=2.0)],
                                        4: [row(4, x=2.5), row(4, x=100.25)]}, 4)  # fmt: skip
    assert [found[i] for i in range(1, 5)] == [[(math.inf,)], [(big,)], [(2.0,)], [(104.75,)]]


@pytest.mark.parametrize("hint", STRATEGIES)
def test_zeros_and_nans_are_one_group_each(hint: str) -> None:
    """0.0 and -0.0 are one group, and so are all NaNs."""
    rows = [row(0, x=x) for x in (0.0, -0.0, math.nan, -math.nan)]
    found = slide(f"{hint} x, count(*)", 1, {0: rows}, 0, "GROUP BY x")[0]
    assert sorted((repr(x), n) for x, n in found) == [("0.0", 2), ("nan", 2)]


@pytest.mark.parametrize("hint", STRATEGIES)
def test_having_is_crossed_both_ways(hint: str) -> None:
    """A group below the limit is still known: it comes in when its sum is above it, and goes out again."""
    parts = {0: [row(0, v=6)], 1: [row(1, v=6)], 2: [row(2, v=-2)], 3: [row(3, v=20)]}
    found = slide(f"{hint} k, sum(v)", 2, parts, 3, "GROUP BY k HAVING sum(v) > 10")
    assert [found[i] for i in (1, 2, 3)] == [[("a", 12)], [], [("a", 18)]]


@pytest.mark.parametrize("hint", STRATEGIES)
def test_a_group_lives_as_long_as_it_has_rows(hint: str) -> None:
    """Groups whose sum is zero, negative or NULL are there; without rows they go; after a long gap they come back."""
    parts = {0: [row(0, v=0), row(0, "n", v=-5), row(0, "z")], 9: [row(9, v=1)]}
    found = slide(f"{hint} k, sum(v), count(v)", 3, parts, 12)
    assert sorted(found[2]) == [("a", 0, 1), ("n", -5, 1), ("z", None, 0)]
    assert all(not found[i] for i in range(3, 9)) and found[9] == found[11] == [("a", 1, 1)] and not found[12]


@pytest.mark.parametrize("hint", STRATEGIES)
def test_a_cumulated_sum_begins_anew_after_every_gap(hint: str) -> None:
    """Whatever the length of a gap, what came before it never leaks into a window after it."""
    for gap in range(1, 12):
        parts = {0: [row(0, v=1)], gap: [row(gap, v=2)]}
        found = slide(f"{hint} k, sum(v), count(*)", 3, parts, gap + 4)
        for part in range(2, gap + 5):
            held = [rows[0][2] for i, rows in parts.items() if part - 3 < i <= part]
            assert found[part] == ([("a", sum(held), len(held))] if held else []), (gap, part)


def test_the_first_window_is_the_first_whole_one() -> None:
    """A window of 4 over parts from -7 on has its first rows in part -4."""
    found = slide("count(*)", 4, {i: [row(i)] for i in range(-7, 0)}, -1)
    assert {i: rows for i, rows in found.items() if rows} == {i: [(4,)] for i in range(-4, 0)}


def test_sums_do_not_drift() -> None:
    """After many slides over values of all sizes a running sum is exactly that of its rows."""
    catalog, made = view("/*+ STRATEGY(running) */ sum(x), var_pop(x)", 3)
    engine = Engine(catalog, STREAM)
    values = [(-1) ** i * 10.0 ** (i * 7 % 33 - 12) / 3 for i in range(120)]
    for i, x in enumerate(values):
        engine.seal(i, [[row(i, x=x)]])
        for key in [key for key in engine.parts if key[1] < i - 3]:
            del engine.parts[key]
        if i >= 2:
            assert engine.rows(made, i)[0][0] == math.fsum(values[i - 2 : i + 1])


@pytest.mark.parametrize("hint", STRATEGIES)
def test_overflow_is_an_error_only_of_the_window_that_overflows(hint: str) -> None:
    """A sum that passes the greatest BIGINT on its way is right if the window's sum fits, else the part is refused."""
    top = 2**63 - 1
    parts = {0: [row(0, v=top), row(0, v=5), row(0, v=-5)], 1: [row(1, v=1)]}
    assert slide(f"{hint} sum(v)", 1, parts, 1) == {0: [(top,)], 1: [(1,)]}
    with pytest.raises(ViewBroken, match=r"ARITHMETIC_OVERFLOW \(line 1, column .*SUM over") as broken:
        slide(f"{hint} sum(v)", 2, parts, 1)
    assert "BIGINT" in str(broken.value)


def test_without_group_by_there_is_one_row_even_of_no_rows() -> None:
    """A global aggregate's program says what an empty window gives: a count of 0 and NULLs."""
    catalog, made = view("count(*), sum(v), max(x), median(v), count(DISTINCT k), stddev(x)", 2, "")
    program = window_program(catalog, made)
    assert isinstance(program, Sliding)
    empty = program.empty_rows()
    assert empty is not None
    assert [column.to_pylist() for column in empty.columns] == [[0], [None], [None], [None], [0], [None]]
    assert slide("count(*), sum(v), median(v)", 2, {0: [row(0, v=3)], 1: [row(1, v=5)]}, 1, "")[1] == [(2, 8, 4.0)]


def test_percentiles_are_reckoned_as_spark_does() -> None:
    """From the lower value on, by a fraction of the difference: which is infinite where it is no DOUBLE."""
    big = 1.7976931348623157e308
    cases = [([0.1, 0.2, 0.4], 0.6, 0.24), ([0.1, 0.2, 0.4], 0.1, 0.12000000000000001), ([big, -big], 0.5, math.inf),
             ([1.0, math.inf], 0.5, math.inf), ([-math.inf, 1.0], 0.5, math.nan),
             ([-math.inf, math.inf], 0.5, math.nan), ([-big, big], 0.0, -big), ([math.inf, math.inf], 0.5, math.inf),
             ([math.nan, 2.0], 0.0, 2.0), ([math.nan, 2.0], 0.5, math.nan)]  # fmt: skip
    for values, fraction, expected in cases:
        found = slide(f"percentile(x, {fraction})", 1, {0: [row(0, x=x) for x in values]}, 0)[0][0][0]
        assert repr(found) == repr(expected), (values, fraction)


# Dimension tables, sharing, reads


def test_each_row_is_joined_as_its_own_part_saw_the_dimension() -> None:
    """A row meets the dimension table as it was when its part was sealed, whatever the window that holds it."""
    columns = (Column("key", STRING, False), Column("factor", BIGINT))
    table = Table(5, "dim", columns, (0,), Stored(StateSpec(6, "keyed", columns, 1), (0, 1)))
    catalog, made = view("k, sum(v * factor), max(factor)", 2, "JOIN dim ON k = key WHERE v > 0 GROUP BY k",
                         CATALOG.adding(table))  # fmt: skip
    engine = Engine(catalog, STREAM)
    for part, factor in enumerate((10, 100, 1000)):
        engine.dimensions = {5: block_of(columns, [("a", factor), ("other", 7)])}
        engine.seal(part, [[row(part, v=part + 1), row(part, None, v=1), row(part, "lone", v=1), row(part, v=-1)]])
    assert engine.rows(made, 1) == [("a", 210, 100)] and engine.rows(made, 2) == [("a", 3200, 1000)]
    helper = next(each for each in catalog.part_views if each.dimensions)
    assert helper.dimensions == (5,) and window_program(catalog, helper).dimensions == (5,)


def test_views_of_other_windows_and_havings_share_the_pre_aggregates() -> None:
    """A second view whose arguments are among those of the first adds no helper; one with another WHERE does."""
    catalog, first = view("k, sum(v), max(v), avg(x)", 5)
    grown, second = view("K, max(V) AS m, sum(x)", 2, "GROUP BY k HAVING count(v) > 1", catalog, "w2")
    assert [each.name for each in grown.part_views[len(catalog.part_views) :]] == ["w2"]
    assert set(second.reads) <= set(first.reads)
    assert any("shares" in line and "w" in line for line in explain(grown, second).splitlines())
    other, _ = view("k, max(v)", 2, "WHERE v > 1 GROUP BY k", grown, "w3")
    assert len(other.part_views) == len(grown.part_views) + 2


def test_a_long_window_of_extremes_reads_few_parts() -> None:
    """MAX over 64 parts reads at most two blocks of each size, and a running sum three parts, not 64."""
    catalog, made = view("k, max(v), sum(v)", 64)
    engine = Engine(catalog, STREAM)
    for part in range(100):
        engine.seal(part, [[row(part, v=part * 37 % 101)]])
        by_view = {each.id for each in catalog.part_views}
        read = {place for place in engine.seen if place[0] in by_view}
        engine.seen.clear()
        if part > 64:
            assert len(read) <= 2 * (level_count(64) + 1) + 2 + 2 * level_count(64) + 2
            held = [i * 37 % 101 for i in range(part - 63, part + 1)]
            assert engine.rows(made, part) == [("a", max(held), sum(held))]


def test_a_cover_holds_each_part_once() -> None:
    """The blocks of a cover are the window's parts, each once, and no more than two of a size below the greatest."""
    for window in range(1, 70):
        levels = level_count(window)
        for low in range(-40, 40):
            blocks = cover(low, low + window - 1, levels)
            parts = [i for level, which in blocks for i in range(which << level, (which + 1) << level)]
            assert sorted(parts) == list(range(low, low + window))
            assert all(sum(each == level for each, _ in blocks) <= 2 for level in range(levels))
            assert any(level == levels for level, _ in blocks)


def test_plans_can_be_stored() -> None:
    """A catalog with window views comes back from its text as it was."""
    catalog, _ = view("k, median(v), max(x), stddev(x) FILTER (WHERE v > 2)", 9)
    again = loads(dumps(catalog))
    assert again == catalog
    assert [a.plan for a in again.part_views] == [b.plan for b in catalog.part_views]


def test_explain_shows_the_candidates_and_what_is_put_together() -> None:
    """EXPLAIN has what the helper and the view do, every strategy with its estimate, and what was measured."""
    catalog, made = view("k, sum(v)", 8, "GROUP BY k HAVING sum(v) > 0")
    text = explain(catalog, made, measured={made.id: 0.5})
    for part in ("pre-aggregates s[j] by (k): rows, count(v), sum(v)", "running0[j-1]", "* running: about",
                 "last measured 0.5 s", "merge", "cumulative", "naive", "HAVING (sum(v) > 0)"):  # fmt: skip
        assert part in text
    names = [each for each in catalog.part_views if each.hidden]
    assert all(isinstance(each, PartView) and explain(catalog, each) for each in names)


# Refusals


@pytest.mark.parametrize(
    ("select", "tail", "message"),
    [
        ("k, v", "", "aggregates"),
        ("percentile(v, 1.5)", "GROUP BY k", "from 0 to 1"),
        ("percentile(v, array(0.1, 0.2))", "GROUP BY k", "call it once for each"),
        ("percentile(v, 0.1, 2)", "GROUP BY k", "out of place"),
        ("kurtosis(v)", "GROUP BY k", "kurtosis"),
        ("first(v)", "GROUP BY k", "first"),
        ("stddev(k = 'a')", "GROUP BY k", "BOOLEAN"),
        ("bool_and(v)", "GROUP BY k", "needs a condition"),
        ("stddev(DISTINCT v)", "GROUP BY k", "DISTINCT"),
        ("sum(DISTINCT v, x)", "GROUP BY k", "one argument"),
        ("sum(max(v))", "GROUP BY k", "inside another"),
        ("max(s.v)", "JOIN s AS other ON s.k = other.k GROUP BY s.k", "2 times"),
        ("/*+ STRATEGY(running) */ max(v)", "GROUP BY k", "cannot compute"),
        ("/*+ STRATEGY(quick) */ max(v)", "GROUP BY k", "no such strategy"),
        (
            "/*+ STRATEGY(naive) */ k, sum(x)",
            "GROUP BY k",
            "SUM in floating point is exact here, and Spark's own is not",
        ),
        ("/*+ BROADCAST(s) */ max(v)", "GROUP BY k", "only hint"),
        ("max(v) OVER (PARTITION BY k)", "GROUP BY k", "window functions"),
        ("max(nothing)", "GROUP BY k", "nothing"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(select: str, tail: str, message: str) -> None:
    """Each refusal names what is refused, and where it stands."""
    with pytest.raises(DeclarationError, match=message) as refused:
        view(select, 2, tail)
    assert refused.value.line == 1 and refused.value.column


def test_a_window_is_a_whole_number_of_parts() -> None:
    """A window of 90 seconds over parts of 60 is refused, with a length that would do."""
    with pytest.raises(DeclarationError, match="write 60 or another multiple"):
        declare(CATALOG, "CREATE VIEW w AS SELECT max(v) FROM s [WINDOW 90 SECONDS]", STREAM)


def test_a_subquery_that_aggregates_is_refused() -> None:
    """An aggregating subquery below WINDOW is refused by name, with the remedy."""
    columns = (Column("key", STRING, False),)
    table = Table(5, "dim", columns, (0,), Stored(StateSpec(6, "keyed", columns, 1), (0,)))
    with pytest.raises(NotSupported, match="declare it as a view"):
        view("max(v)", 2, "JOIN (SELECT key, count(*) AS n FROM dim GROUP BY key) c ON k = c.key GROUP BY k",
             CATALOG.adding(table))  # fmt: skip
