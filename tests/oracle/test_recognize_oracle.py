"""MATCH_RECOGNIZE kept part by part, against the standard's definition followed row by row."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bags import bag
from drawn import examples
from recognize_history import LENGTH, Row, built, matching
from viewkeeper.checker.recognize import expected_parts
from viewkeeper.trace import hashing

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
QUANTIFIERS = ["", "+", "+", "*", "*", "?", "?", "{2}", "{2,}", "{1,3}", "{,2}"]
CONDITIONS = [
    "x > 1", "x > 1", "x < 4", "x < 4", "x > PREV(x)", "x <= PREV({v}.x)", "{v}.x >= PREV(x, 2)", "x IS NULL",
    "x > 2 OR PREV(x) IS NULL", "y > 0.5 AND x < 4", "NOT x = 3", "PREV(y) <= y", "x = NULL", "x <> PREV(x)",
]  # fmt: skip
MEASURES = [
    "FIRST({v}.x) AS m0", "LAST({w}.x, 1) AS m1", "count(*) AS m2", "count({v}.x) AS m3", "sum({w}.x) AS m4",
    "avg(x) AS m5", "min({v}.y) AS m6", "max({w}.y) - min(y) AS m7", "CLASSIFIER() AS m8", "{v}.x + {w}.x AS m9",
    "count({w}.*) AS ma", "sum({v}.d) AS mb", "avg({w}.d) AS mc", "FIRST(x, 1) AS md", "sum({v}.y) AS me", "x AS mf",
    "COALESCE({w}.g, 'none') AS mg", "LAST(PART_TIMESTAMP) AS mh", "min({v}.g) AS mi", "max({v}.ts) AS mj",
    "sum({v}.x * 2 + 1) AS mk",
]  # fmt: skip


@st.composite
def clauses(draw: st.DrawFn) -> str:
    """A clause with one to four variables, some of them twice in the pattern."""
    names = ["A", "B", "C", "D"][: draw(st.sampled_from([1, 2, 2, 3, 4]))]
    elements = [name + draw(st.sampled_from(QUANTIFIERS)) for name in names]
    if draw(st.booleans()):
        elements.insert(draw(st.integers(0, len(elements))), names[0] + draw(st.sampled_from(QUANTIFIERS)))
    elements.append(draw(st.sampled_from([*names, "E"])))
    used = sorted({element[0] for element in elements})
    defined = [name for name in used if draw(st.integers(0, 2))]
    defines = [f"{v} AS {draw(st.sampled_from(CONDITIONS)).format(v=v)}" for v in defined]
    chosen = draw(st.lists(st.sampled_from(MEASURES), min_size=1, max_size=6, unique=True))
    pair = st.sampled_from(used)
    measures = [measure.format(v=draw(pair), w=draw(pair)) for measure in chosen]
    order = draw(st.sampled_from(["ts", "ts, x", "ts ASC, x DESC", "ts, x DESC NULLS FIRST, y", "ts, g NULLS LAST"]))
    partition = draw(st.sampled_from(["PARTITION BY g", "PARTITION BY g", "PARTITION BY g, d", ""]))
    skip = draw(st.sampled_from(["", "AFTER MATCH SKIP PAST LAST ROW", "AFTER MATCH SKIP TO NEXT ROW"]))
    define = f"DEFINE {', '.join(defines)}" if defines else ""
    return (f"{partition} ORDER BY {order} MEASURES {', '.join(measures)} ONE ROW PER MATCH {skip} "
            f"PATTERN ({' '.join(elements)}) {define}")  # fmt: skip


def rows_in(part: int) -> st.SearchStrategy[list[Row]]:
    """Up to nine rows, few moments and values: ties, NULLs, several rows of a group."""
    moments = st.integers(0, 3).map(lambda s: EPOCH + datetime.timedelta(seconds=part * LENGTH + s))
    groups = st.sampled_from(["a", "a", "a", "a", "b", None])
    numbers = st.one_of(st.none(), st.integers(1, 4), st.integers(1, 4))
    floats = st.sampled_from([None, 0.0, -0.0, 1.0, 1.0, float("inf")])
    decimals = st.sampled_from([None, Decimal("0.05"), Decimal("-3.10")])
    return st.lists(st.tuples(moments, groups, numbers, floats, decimals), min_size=part % 2 * 5, max_size=9)


@st.composite
def histories(draw: st.DrawFn) -> dict[int, list[Row]]:
    """Up to six parts, empty ones and negative subscripts among them."""
    numbers = draw(st.lists(st.integers(-2, 6), min_size=2, max_size=6, unique=True))
    return {part: draw(rows_in(part)) for part in numbers}


def expected(clause: str, parts: dict[int, list[Row]]) -> dict[int, Counter[Row]]:
    view = matching(clause)
    there = {part: rows for part, rows in parts.items() if rows}
    answers = expected_parts(view.plan, there, LENGTH)
    assert not any(answer.errors for answer in answers.values())
    return {part: bag(answer.rows) for part, answer in answers.items()}


@settings(max_examples=examples(150), deadline=None)
@given(clauses(), histories(), st.integers(1, 3))
def test_each_part_holds_the_matches_that_are_decided_in_it(
    clause: str, parts: dict[int, list[Row]], slices: int
) -> None:
    """Whatever the pattern and the rows, a part has the standard's matches that its rows decide, and no others."""
    assert built(matching(clause), parts, slices).shown() == expected(clause, parts)


@settings(max_examples=examples(80), deadline=None)
@given(clauses(), histories(), st.data())
def test_late_rows_give_what_they_would_have_given_in_time(
    clause: str, parts: dict[int, list[Row]], data: st.DataObject
) -> None:
    """After late rows all parts are as if the rows had been there in time, also where the repair ended early."""
    history = built(matching(clause), parts)
    full = [part for part, rows in parts.items() if rows]
    for _ in range(data.draw(st.integers(1, 2)) if full else 0):
        part = data.draw(st.sampled_from(full))
        history.repair(part, data.draw(rows_in(part)))
    assert history.shown() == expected(clause, history.source)


@settings(max_examples=examples(60), deadline=None)
@given(clauses(), histories())
def test_the_order_in_which_rows_come_does_not_matter(clause: str, parts: dict[int, list[Row]]) -> None:
    """Rows of a part in another order give the same matches, ties included."""
    turned = {part: rows[::-1] for part, rows in parts.items()}
    assert built(matching(clause), turned).shown() == built(matching(clause), parts).shown()


def test_groups_whose_hashes_collide_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are told apart by their values, whatever their hashes, in a repair too."""
    monkeypatch.setattr(hashing, "finish", lambda state: state >> np.uint64(62) << np.uint64(62))
    clause = """PARTITION BY x ORDER BY ts MEASURES count(*) AS n, FIRST(A.y) AS f PATTERN (A+ B C)
                DEFINE A AS y > 1, B AS y < PREV(y), C AS y = 0"""
    parts = {
        part: [
            (EPOCH + datetime.timedelta(seconds=LENGTH * part + i), "a", i % 11, float((i * 7 + part) % 6), None)
            for i in range(80)
        ]
        for part in range(5)
    }
    history = built(matching(clause), parts)
    assert sum(map(Counter.total, history.shown().values())) > 20
    assert history.shown() == expected(clause, history.source)
    history.repair(1, [(EPOCH + datetime.timedelta(seconds=LENGTH + 3), "a", 4, 0.5, None)])
    assert history.shown() == expected(clause, history.source)
